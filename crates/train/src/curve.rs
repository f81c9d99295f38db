//! The training curve of a run: what `metrics.jsonl` says.

use crate::error::{Error, Result, io};
use std::path::Path;

/// Points `(episode, value)`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// The loss of training steps.
    pub losses: Vec<(f64, f64)>,
    /// The accuracy of validations that gave one.
    pub accuracies: Vec<(f64, f64)>,
    /// Their NLL.
    pub nlls: Vec<(f64, f64)>,
}

impl Curve {
    /// The curve of the run in `folder`.
    pub fn read(folder: &Path) -> Result<Curve> {
        let path = folder.join("metrics.jsonl");
        let text = std::fs::read_to_string(&path).map_err(io("read", &path))?;
        let mut curve = Curve::default();
        // A run that goes on may have written a part of its last line.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let line: serde_json::Value = serde_json::from_str(line)
                .map_err(|e| Error::Run(format!("{} has a damaged line: {e}", path.display())))?;
            let point = |key: &str| Some((line["episode"].as_f64()?, line[key].as_f64()?));
            match line["kind"].as_str() {
                Some("step") => curve.losses.extend(point("loss")),
                Some("validation") => {
                    curve.accuracies.extend(point("accuracy"));
                    curve.nlls.extend(point("nll"));
                }
                _ => {}
            }
        }
        Ok(curve)
    }
}
