//! What a run writes down: lines of `metrics.jsonl`, and the same curves for TensorBoard.

use crate::error::Result;
use crate::events::EventWriter;
use crate::run_folder::{Metrics, RunFolder};
use crate::team;
use serde::Serialize;

/// A line of `metrics.jsonl`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum Line<'a> {
    Step {
        episode: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
        loss: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        accuracy: Option<f64>,
        skipped: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        residual: Option<f64>,
        #[serde(flatten)]
        scalars: Scalars<'a>,
    },
    Notice {
        episode: u64,
        text: &'a str,
    },
    Fit {
        episode: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
        loss_before: f64,
        loss: f64,
        iterations: usize,
        converged: bool,
        #[serde(flatten)]
        scalars: Scalars<'a>,
    },
    Validation {
        episode: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
        accuracy: Option<f64>,
        nll: Option<f64>,
        best: bool,
    },
}

/// Named numbers as keys of the line itself.
pub(super) struct Scalars<'a>(pub &'a [(String, f64)]);

impl Serialize for Scalars<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Both files.
pub(super) struct Record(
    /// Nothing where another process of the team writes.
    Option<Files>,
);

struct Files {
    metrics: Metrics,
    events: EventWriter,
    /// Episodes between two points of a curve for TensorBoard.
    stride: u64,
    /// The episode of the latest point.
    latest: u64,
}

/// Points of a curve for TensorBoard, at most: more cannot be seen, and the file of a long run stays small.
const MOST_POINTS: u64 = 10_000;

/// Episodes between two points in a phase of so many.
fn stride(episodes: u64) -> u64 {
    episodes.div_ceil(MOST_POINTS).max(1)
}

impl Record {
    /// Goes on after `bytes` of `metrics.jsonl`. `episodes`: those of the phase.
    pub(super) fn open(folder: &RunFolder, bytes: u64, episodes: u64) -> Result<Record> {
        if team::current().rank() > 0 {
            return Ok(Record(None));
        }
        let (metrics, events) = (Metrics::open(folder, bytes)?, EventWriter::create(folder.path())?);
        Ok(Record(Some(Files { metrics, events, stride: stride(episodes), latest: 0 })))
    }

    /// Goes on with a phase of so many episodes.
    pub(super) fn phase(&mut self, episodes: u64) {
        if let Some(files) = &mut self.0 {
            files.stride = stride(episodes);
        }
    }

    /// A line of `metrics.jsonl` alone.
    pub(super) fn line(&mut self, line: &Line<'_>) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |files| files.metrics.write(line))
    }

    /// A step or a fit: its line, and loss and scalars as curves.
    pub(super) fn step(&mut self, line: &Line<'_>) -> Result<()> {
        let Some(Files { metrics, events, stride, latest }) = &mut self.0 else { return Ok(()) };
        metrics.write(line)?;
        let (Line::Step { episode, loss, scalars, .. } | Line::Fit { episode, loss, scalars, .. }) = line
        else {
            return Ok(());
        };
        if *episode / *stride == *latest / *stride && matches!(line, Line::Step { .. }) {
            return Ok(());
        }
        *latest = *episode;
        events.scalar("train/loss", *episode, *loss)?;
        if let Line::Step { accuracy: Some(accuracy), .. } = line {
            events.scalar("train/accuracy", *episode, *accuracy)?;
        }
        if let Line::Step { residual: Some(residual), .. } = line {
            events.scalar("train/residual", *episode, *residual)?;
        }
        for (name, value) in scalars.0 {
            events.scalar(&format!("hyper/{name}"), *episode, *value)?;
        }
        Ok(())
    }

    /// A validation.
    pub(super) fn validation(&mut self, line: &Line<'_>) -> Result<()> {
        let Some(Files { metrics, events, .. }) = &mut self.0 else { return Ok(()) };
        metrics.write(line)?;
        if let Line::Validation { episode, accuracy: Some(accuracy), nll: Some(nll), .. } = line {
            events.scalar("validation/accuracy", *episode, *accuracy)?;
            events.scalar("validation/nll", *episode, *nll)?;
        }
        Ok(())
    }

    /// Brings the lines to the disk and says how long they are.
    pub(super) fn flush(&mut self) -> Result<u64> {
        self.0.as_mut().map_or(Ok(0), |files| files.metrics.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Bytes of the metrics and of TensorBoard's file after `steps` steps of a run of so many.
    fn sizes(steps: u64) -> (usize, usize) {
        sizes_after(steps, steps)
    }

    /// The same where the run began with a phase of `first` episodes.
    fn sizes_after(first: u64, steps: u64) -> (usize, usize) {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(root.path(), &Config::default(), "x").unwrap();
        let mut record = Record::open(&folder, 0, first).unwrap();
        record.phase(steps);
        for episode in 1..=steps {
            let scalars = Scalars(&[]);
            let (phase, accuracy, residual) = (None, None, None);
            record
                .step(&Line::Step { episode, phase, loss: 0.5, accuracy, skipped: 0, residual, scalars })
                .unwrap();
        }
        let lines = record.flush().unwrap() as usize;
        let files = std::fs::read_dir(root.path()).unwrap().map(|file| file.unwrap());
        let events = files.filter(|file| file.file_name().to_string_lossy().starts_with("events"));
        (lines, events.map(|file| file.metadata().unwrap().len() as usize).sum())
    }

    #[test]
    fn the_curves_of_a_long_run_are_thinned_and_its_metrics_are_whole() {
        let (short, long) = (sizes(10_000), sizes(35_000));
        assert!(long.0 > 3 * short.0, "{short:?} {long:?}");
        // 35,000 steps at every fourth episode are 8,750 points.
        assert!(long.1 < short.1 && long.1 > short.1 * 8 / 10, "{short:?} {long:?}");
        assert_eq!(sizes_after(100, 35_000), long, "a short phase before it changes nothing");
    }
}
