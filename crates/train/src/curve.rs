//! The training curve of a run: what `metrics.jsonl` says.

use crate::error::{Error, Result, io};
use std::path::Path;

/// Points `(episode, accuracy)`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// Of training steps.
    pub steps: Vec<(f64, f64)>,
    /// Of validations that gave an accuracy.
    pub validations: Vec<(f64, f64)>,
}

impl Curve {
    /// The curve of the run in `folder`.
    pub fn read(folder: &Path) -> Result<Curve> {
        let path = folder.join("metrics.jsonl");
        let text = std::fs::read_to_string(&path).map_err(io("read", &path))?;
        let mut curve = Curve::default();
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line)
                .map_err(|e| Error::Run(format!("{} has a damaged line: {e}", path.display())))?;
            let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
            let point = (number("episode"), number("accuracy"));
            if line["kind"] != "validation" {
                curve.steps.push(point);
            } else if point.1.is_finite() {
                curve.validations.push(point);
            }
        }
        Ok(curve)
    }
}
