//! A comparison as one page: tables, reliability diagrams side by side, validation curves.

use super::Compared;
use super::examine::Examined;
use crate::curve::Curve;
use crate::error::Result;
use crate::plot::{LineChart, ReliabilityPanel, Report, ReportBlock, Section, Series, reliability_diagrams};
use crate::report::measures;
use siskin_calib::{PAPER_BINS, Predictions, Reliability};

impl Compared {
    /// The page as HTML.
    pub fn html(&self) -> Result<String> {
        let comparison = &self.comparison;
        let [accuracy, raw, tuned] = comparison.tables();
        let paired = format!(
            "All methods answered the same episodes. Differences to {} are taken episode by episode; an interval that does \
             not hold 0 is a difference beyond chance at 95 %.",
            comparison.reference
        );
        let mut sections = vec![
            Section {
                heading: "Accuracy".into(),
                blocks: vec![accuracy.block(), ReportBlock::Text(paired), measures::words()],
            },
            Section {
                heading: "Can the probabilities be trusted, as predicted?".into(),
                blocks: vec![raw.block(), self.diagrams(|e| &e.calibrated.raw, "as predicted")?],
            },
            Section {
                heading: "And after tuning a temperature on validation episodes?".into(),
                blocks: vec![tuned.block(), self.diagrams(|e| &e.calibrated.tuned, "tuned")?],
            },
            Section { heading: "Training".into(), blocks: vec![self.curves()?, self.folders()] },
        ];
        if !comparison.failures.is_empty() {
            let rows = comparison.failures.iter().map(|f| vec![f.name.clone(), f.why.clone()]).collect();
            let head = ["method", "what happened"].map(String::from).to_vec();
            let failed =
                Section { heading: "What failed".into(), blocks: vec![ReportBlock::Table { head, rows }] };
            sections.insert(0, failed);
        }
        let title = "Siskin comparison".into();
        Ok(Report { title, subtitle: comparison.what.clone(), sections }.html())
    }

    /// The reliability diagram of every method.
    fn diagrams(&self, of: impl Fn(&Examined) -> &Predictions, what: &str) -> Result<ReportBlock> {
        let chart = |e: &Examined| -> Result<String> {
            let reliability = &Reliability::new(of(e), PAPER_BINS)?;
            let nll = Some(siskin_calib::nll(of(e)));
            Ok(reliability_diagrams(&[ReliabilityPanel { title: e.name.clone(), reliability, nll }]))
        };
        let svgs = self.examined.iter().map(chart).collect::<Result<Vec<_>>>()?;
        let caption = format!(
            "Probabilities {what}. Bars on the diagonal mean that of the queries given, say, 80 %, 80 % are right."
        );
        Ok(ReportBlock::Charts { svgs, caption })
    }

    /// Validation accuracy of every method.
    fn curves(&self) -> Result<ReportBlock> {
        // A model file has no training curve.
        let runs = self.examined.iter().filter(|e| e.folder.is_dir());
        let series = runs.map(|e| {
            let points = Curve::read(&e.folder)?.accuracies;
            Ok(Series { name: e.name.clone(), points, spread: vec![] })
        });
        let chart = LineChart {
            title: String::new(),
            x_name: "training episodes".into(),
            y_name: "validation accuracy".into(),
            series: series.collect::<Result<_>>()?,
        };
        Ok(ReportBlock::Chart { svg: chart.svg(), caption: String::new() })
    }

    fn folders(&self) -> ReportBlock {
        let row = |e: &Examined| {
            vec![e.name.clone(), e.test.trained_episodes.to_string(), e.folder.display().to_string()]
        };
        ReportBlock::Table {
            head: ["method", "training episodes of the model", "run folder"].map(String::from).to_vec(),
            rows: self.examined.iter().map(row).collect(),
        }
    }
}
