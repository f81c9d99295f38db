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
}

impl Record {
    /// Goes on after `bytes` of `metrics.jsonl`.
    pub fn open(folder: &RunFolder, bytes: u64) -> Result<Record> {
        if team::current().rank() > 0 {
            return Ok(Record(None));
        }
        let (metrics, events) = (Metrics::open(folder, bytes)?, EventWriter::create(folder.path())?);
        Ok(Record(Some(Files { metrics, events })))
    }

    /// A line of `metrics.jsonl` alone.
    pub fn line(&mut self, line: &Line<'_>) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |files| files.metrics.write(line))
    }

    /// A step or a fit: its line, and loss and scalars as curves.
    pub fn step(&mut self, line: &Line<'_>) -> Result<()> {
        let Some(Files { metrics, events }) = &mut self.0 else { return Ok(()) };
        metrics.write(line)?;
        let (Line::Step { episode, loss, scalars, .. } | Line::Fit { episode, loss, scalars, .. }) = line
        else {
            return Ok(());
        };
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
    pub fn validation(&mut self, line: &Line<'_>) -> Result<()> {
        let Some(Files { metrics, events }) = &mut self.0 else { return Ok(()) };
        metrics.write(line)?;
        if let Line::Validation { episode, accuracy: Some(accuracy), nll: Some(nll), .. } = line {
            events.scalar("validation/accuracy", *episode, *accuracy)?;
            events.scalar("validation/nll", *episode, *nll)?;
        }
        Ok(())
    }

    /// Brings the lines to the disk and says how long they are.
    pub fn flush(&mut self) -> Result<u64> {
        self.0.as_mut().map_or(Ok(0), |files| files.metrics.flush())
    }
}
