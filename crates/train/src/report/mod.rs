//! A run as one page: what was trained, how it does on unseen classes, and whether its probabilities can be trusted.
//!
//! | question | file |
//! | --- | --- |
//! | What does a page of a training, a test, a calibration show? | `mod.rs` |
//! | What do the measures mean, in plain sentences? | `measures.rs` |
//! | An episode with its images and probabilities | `example.rs` |
//! | The curves of a training | `curves.rs` |

mod curves;
mod example;
pub(crate) mod measures;

use crate::atomic;
use crate::calibration::Calibrated;
use crate::checkpoint::Best;
use crate::config::Config;
use crate::error::Result;
use crate::evaluate::{AnsweredEpisode, pooled};
use crate::plot::{ReliabilityPanel, Report, ReportBlock, Section, reliability_diagrams};
use crate::protocol::{self, TestReport};
use crate::run::Run;
use crate::under_test::ModelUnderTest;
use measures::{row, table, words};
use siskin_calib::{MeanSpread, Measures, PAPER_BINS, Predictions, Reliability};
use siskin_data::shell::quoted;
use std::path::Path;

/// What a test found.
pub struct Tested<'a> {
    /// The model.
    pub model: &'a ModelUnderTest,
    /// Its run folder; nothing for a model file.
    pub folder: Option<&'a Path>,
    /// Its accuracy.
    pub report: &'a TestReport,
    /// Its answers.
    pub answers: &'a [AnsweredEpisode],
    /// Its calibration, where it was measured.
    pub calibrated: Option<&'a Calibrated>,
}

/// The page of a training that has ended.
pub fn of_training(run: &Run) -> Result<String> {
    let (trainer, config) = (run.trainer(), run.config());
    let mut figures = vec![(trainer.episode().to_string(), "training episodes".into())];
    if let Some(Best { accuracy, nll, episode }) = trainer.best() {
        figures.push((percent(accuracy), format!("validation accuracy, best at episode {episode}")));
        figures.extend(nll.map(|nll| (format!("{nll:.3}"), "validation NLL there".into())));
    }
    if trainer.skipped() > 0 {
        figures.push((trainer.skipped().to_string(), "steps skipped: the gradient was not finite".into()));
    }
    let next = ReportBlock::Text(
        "Validation chooses the model; how good it is on classes that chose nothing, a test says:".into(),
    );
    let command = quoted(run.folder().path());
    let command = ReportBlock::Code(format!("siskin test {command}\nsiskin calibrate {command}"));
    let mut sections = vec![Section {
        heading: "In short".into(),
        blocks: vec![ReportBlock::Figures(figures), next, command],
    }];
    sections.extend(curves::section(run.folder().path())?);
    sections.push(settings(config));
    let subtitle = format!("{} on {}", config.method.name(), run.data().splits.train.items.name());
    Ok(Report { title: "Siskin training".into(), subtitle, sections }.html())
}

impl Tested<'_> {
    /// The page as HTML.
    pub fn html(&self) -> Result<String> {
        // Answers about different numbers of classes have no measures together.
        let way = self.report.episode.way;
        let raw = match self.calibrated {
            Some(found) => Some(found.raw.clone()),
            None if way.min() < way.max() => None,
            None => Some(pooled(self.answers)?),
        };
        let mut sections = match raw {
            Some(raw) => {
                let measures = Measures::of(&raw)?;
                let trusted = self.reliability(&raw, &measures)?;
                vec![
                    Section {
                        heading: "In short".into(),
                        blocks: self.in_short(&measures, raw.labels().len()),
                    },
                    Section { heading: "Can the probabilities be trusted?".into(), blocks: trusted },
                ]
            }
            None => vec![Section {
                heading: "In short".into(),
                blocks: vec![ReportBlock::Figures(vec![self.accuracy()])],
            }],
        };
        sections.push(Section {
            heading: "An episode".into(),
            blocks: example::blocks(self.model, self.answers)?,
        });
        if let Some(folder) = self.folder {
            sections.extend(curves::section(folder)?);
        }
        sections.push(settings(&self.model.config));
        let subtitle = format!(
            "{} on {}, {} training episodes",
            self.report.protocol(),
            self.model.data.splits.test.items.name(),
            self.report.trained_episodes
        );
        Ok(Report { title: "Siskin report".into(), subtitle, sections }.html())
    }

    /// Writes `test.json`, `test-episodes.jsonl` and the page into the run folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self.report).expect("a report is plain data");
        atomic::write(&folder.join("test.json"), &json)?;
        let episodes = folder.join("test-episodes.jsonl");
        protocol::write_episodes(&episodes, self.answers, self.model.config.test.episodes)?;
        atomic::write(&folder.join("report.html"), self.html()?.as_bytes())
    }

    fn accuracy(&self) -> (String, String) {
        let MeanSpread { mean, spread, .. } = self.report.over_episodes;
        (
            format!("{:.1} ± {}", 100.0 * mean, percent(spread)),
            format!("accuracy over {} episodes, with its 95 % interval", self.report.episodes),
        )
    }

    fn in_short(&self, raw: &Measures, queries: usize) -> Vec<ReportBlock> {
        let report = self.report;
        let mut figures = vec![
            self.accuracy(),
            (format!("{:.3}", raw.ece), "ECE as predicted".into()),
            (format!("{:.3}", raw.nll), "NLL as predicted".into()),
        ];
        let mut rows = vec![row("as predicted", raw)];
        if let Some(found) = self.calibrated {
            let m = &found.measures;
            figures.push((format!("{:.3}", m.tuned.ece), "ECE after tuning".into()));
            rows.push(row(&format!("tuned on validation (T = {:.3})", m.temperature.value), &m.tuned));
            if let Some(released) = &m.released {
                rows.push(row("published code, by ECE", &released.by_ece));
                rows.push(row("published code, by MCE", &released.by_mce));
            }
        }
        let way = report.episode.way;
        let chance = 1.0 / way.max() as f64;
        let plain = format!(
            "Shown {} of each of {way} classes it had never seen, it named {} of {queries} further images rightly; a guess would \
             be right in {}. Its confidence was, on average, {:.1} points off.",
            if report.episode.shot.max() == 1 {
                "one image".into()
            } else {
                format!("{} images", report.episode.shot)
            },
            percent(raw.accuracy),
            percent(chance),
            100.0 * raw.ece
        );
        vec![ReportBlock::Figures(figures), ReportBlock::Text(plain), table(rows), words()]
    }

    fn reliability(&self, raw: &Predictions, measures: &Measures) -> Result<Vec<ReportBlock>> {
        let chart = |title: &str, predictions: &Predictions, nll: f64| -> Result<String> {
            let reliability = &Reliability::new(predictions, PAPER_BINS)?;
            Ok(reliability_diagrams(&[ReliabilityPanel { title: title.into(), reliability, nll: Some(nll) }]))
        };
        let mut charts = vec![chart("As predicted", raw, measures.nll)?];
        let mut blocks = Vec::new();
        match self.calibrated {
            Some(found) => {
                charts.push(chart("Tuned on validation", &found.tuned, found.measures.tuned.nll)?);
            }
            None => {
                let name = self.folder.map_or("MODEL".into(), quoted);
                blocks.push(ReportBlock::Text("What tuning on validation classes would change:".into()));
                blocks.push(ReportBlock::Code(format!("siskin calibrate {name}")));
            }
        }
        let caption =
            "Bars on the diagonal mean that of the images named with, say, 80 % confidence, 80 % are named rightly."
                .into();
        blocks.insert(0, ReportBlock::Charts { svgs: charts, caption });
        Ok(blocks)
    }
}

/// The config with every key, of the run's own method alone.
fn settings(config: &Config) -> Section {
    let fold =
        ReportBlock::Fold { summary: "Every key".into(), blocks: vec![ReportBlock::Code(config.to_toml())] };
    Section { heading: "The config".into(), blocks: vec![fold] }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
