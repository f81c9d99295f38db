//! A run as one page: figures, training curve, reliability diagrams, an example episode.

use crate::calibration::Calibrated;
use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::evaluate::AnsweredEpisode;
use crate::plot::{
    Block, EpisodePlot, LineChart, PlotClass, PlotQuery, ReliabilityPanel, Report, Section, Series,
    Thumbnail, reliability_diagrams,
};
use crate::protocol::TestReport;
use crate::run_folder::RunFolder;
use crate::under_test::ModelUnderTest;
use siskin_calib::{PAPER_BINS, Reliability};
use siskin_data::{Episode, Items, Split, Transform};
use siskin_random::stream;

/// Steps averaged for one point of the training curve.
const SMOOTHING: usize = 25;
/// Queries of each class drawn in the example episode.
const QUERIES_SHOWN: usize = 2;

/// Everything the page shows.
pub struct Page<'a> {
    /// The run.
    pub folder: &'a RunFolder,
    /// Its model.
    pub model: &'a ModelUnderTest,
    /// Its test.
    pub test: &'a TestReport,
    /// Its calibration.
    pub calibrated: &'a Calibrated,
    /// An episode and the answer to it.
    pub example: (&'a Episode, &'a AnsweredEpisode, &'a Split),
}

impl Page<'_> {
    /// The page as HTML.
    pub fn html(&self) -> Result<String> {
        let (test, measures) = (self.test, &self.calibrated.measures);
        let percent = |x: f64| format!("{:.1} %", 100.0 * x);
        let figures = Block::Figures(vec![
            (percent(test.over_episodes.mean), format!("accuracy over {} episodes", test.episodes)),
            (format!("{:.3}", measures.raw.ece), "ECE as predicted".into()),
            (format!("{:.3}", measures.tuned.ece), "ECE after tuning".into()),
            (format!("{:.3}", measures.tuned.nll), "NLL after tuning".into()),
        ]);
        let spec = &test.episode;
        let what = format!(
            "{}-way {}-shot on {}, {} training episodes",
            spec.way.max(),
            spec.shot.max(),
            self.model.data.splits.test.items.name(),
            test.trained_episodes
        );
        let sections = vec![
            Section { heading: "In short".into(), blocks: vec![figures, self.table()] },
            Section {
                heading: "Can the probabilities be trusted?".into(),
                blocks: vec![self.reliability()?],
            },
            Section { heading: "An episode".into(), blocks: vec![self.episode()?] },
            Section { heading: "Training".into(), blocks: self.curves()? },
            Section { heading: "The config".into(), blocks: vec![Block::Code(self.model.config.to_toml())] },
        ];
        Ok(Report { title: "Siskin report".into(), subtitle: what, sections }.html())
    }

    fn table(&self) -> Block {
        let m = &self.calibrated.measures;
        let row = |name: String, m: &siskin_calib::Measures| {
            let mut row = vec![name];
            row.extend([m.accuracy, m.ece, m.mce, m.nll, m.brier].map(|x| format!("{x:.4}")));
            row
        };
        let tuned = format!("tuned on validation (T = {:.3})", m.temperature.value);
        Block::Table {
            head: ["", "accuracy", "ECE", "MCE", "NLL", "Brier"].map(String::from).to_vec(),
            rows: vec![row("as predicted".into(), &m.raw), row(tuned, &m.tuned)],
        }
    }

    fn reliability(&self) -> Result<Block> {
        let raw = Reliability::new(&self.calibrated.raw, PAPER_BINS)?;
        let tuned = Reliability::new(&self.calibrated.tuned, PAPER_BINS)?;
        let m = &self.calibrated.measures;
        let panel = |title: &str, reliability, nll| ReliabilityPanel {
            title: title.into(),
            reliability,
            nll: Some(nll),
        };
        let panels =
            [panel("As predicted", &raw, m.raw.nll), panel("Tuned on validation", &tuned, m.tuned.nll)];
        let caption =
            "Bars on the diagonal mean that of the queries given, say, 80 %, 80 % are right.".into();
        Ok(Block::Chart { svg: reliability_diagrams(&panels), caption })
    }

    fn episode(&self) -> Result<Block> {
        let (episode, answer, split) = self.example;
        let transform = &self.model.data.test_transform;
        let classes = episode.classes.iter().map(|class| {
            Ok(PlotClass {
                name: split.items.classes()[class.class].name.clone(),
                support: class
                    .support
                    .iter()
                    .map(|&item| thumbnail(split, transform, item))
                    .collect::<Result<_>>()?,
            })
        });
        let probabilities = answer.prediction.probabilities.chunks_exact(answer.prediction.way);
        let all: Vec<(usize, usize, &[f64])> = episode
            .classes
            .iter()
            .enumerate()
            .flat_map(|(label, class)| class.query.iter().map(move |&item| (label, item)))
            .zip(probabilities)
            .map(|((label, item), p)| (label, item, p))
            .collect();
        let mut shown = vec![0; episode.way()];
        let queries = all.into_iter().filter(|(label, ..)| {
            shown[*label] += 1;
            shown[*label] <= QUERIES_SHOWN
        });
        let plot = EpisodePlot {
            title: "Support images of each class, queries below".into(),
            classes: classes.collect::<Result<_>>()?,
            queries: queries
                .map(|(label, item, p)| {
                    Ok(PlotQuery { image: thumbnail(split, transform, item)?, label, probs: p.to_vec() })
                })
                .collect::<Result<_>>()?,
        };
        let svg = plot.svg().map_err(|e| Error::Run(format!("the example episode cannot be drawn: {e}")))?;
        Ok(Block::Chart { svg, caption: String::new() })
    }

    /// The loss in training (a moving mean), and accuracy and NLL in validation.
    fn curves(&self) -> Result<Vec<Block>> {
        let Curve { losses, accuracies, nlls } = Curve::read(self.folder.path())?;
        let smooth = losses
            .chunks(SMOOTHING)
            .map(|c| (c[c.len() - 1].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64))
            .collect();
        let chart = |y_name: &str, series: Vec<(&str, Vec<(f64, f64)>)>, caption: String| {
            let series =
                series.into_iter().map(|(name, points)| Series { name: name.into(), points, spread: vec![] });
            let chart = LineChart {
                title: String::new(),
                x_name: "training episodes".into(),
                y_name: y_name.into(),
                series: series.collect(),
            };
            Block::Chart { svg: chart.svg(), caption }
        };
        Ok(vec![
            chart("accuracy", vec![("validation", accuracies)], String::new()),
            chart(
                "loss and NLL",
                vec![("training loss", smooth), ("validation NLL", nlls)],
                format!("Training: mean of {SMOOTHING} steps."),
            ),
        ])
    }
}

/// An item as the network sees it, before normalisation.
fn thumbnail(split: &Split, transform: &Transform, item: usize) -> Result<Thumbnail> {
    Ok(match &split.items {
        Items::Images(data) => {
            let image = transform.pixels(&data.image(item)?, &mut stream(0, "evaluate", 0));
            Thumbnail { width: image.width, height: image.height, pixels: image.pixels }
        }
        Items::Embeddings(_) => Thumbnail { width: 1, height: 1, pixels: vec![128] },
    })
}
