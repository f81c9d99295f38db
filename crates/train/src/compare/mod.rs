//! Several methods on the same episodes: train what is not trained, test all, and say how far they differ.
//!
//! Every method meets the same test episodes, so differences are taken episode by episode: their intervals are those of
//! a paired comparison, far narrower than the intervals of the methods themselves.

mod bootstrap;
mod changed;
mod examine;
mod page;
mod rows;
mod table;

pub use bootstrap::{Interval, Pooled};
pub use changed::{ChangedKey, changed_keys};
pub use examine::{Examined, SameTest, examine, same_test, unfinished};
pub(crate) use examine::{examine_changed, is_complete};
pub use rows::{Calibrations, Difference, Row};
pub use table::Table;
pub(crate) use table::quoted;

use crate::error::{Error, Result};
use serde::Serialize;

/// The outcome of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// What was done: ways, shots, data, number of episodes.
    pub what: String,
    /// The method that differences are taken to.
    pub reference: String,
    /// One row for each method that was tested, in the order given.
    pub rows: Vec<Row>,
    /// Methods that failed, and why.
    pub failures: Vec<Failure>,
}

/// A method that could not be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// The method's name in the comparison.
    pub name: String,
    /// What happened.
    pub why: String,
}

/// What became of each method: its name, and its answers or the reason why there are none.
pub struct Outcome {
    /// The name in the comparison.
    pub name: String,
    /// The test, or what went wrong.
    pub result: std::result::Result<Examined, String>,
}

/// All answers and what they come to.
pub struct Compared {
    /// The figures.
    pub comparison: Comparison,
    /// The methods behind them, row by row.
    pub examined: Vec<Examined>,
}

/// Puts tested methods side by side. `reference`: the name of the method that differences are taken to.
///
/// A method that was tested on other episodes than the first one is a failure like any other. If the reference itself
/// failed, the rows have no differences.
pub fn compare(outcomes: Vec<Outcome>, reference: &str) -> Result<Compared> {
    let (mut examined, mut failures): (Vec<Examined>, Vec<Failure>) = (Vec::new(), Vec::new());
    for Outcome { name, result } in outcomes {
        let checked = result.and_then(|new| match examined.first() {
            Some(first) => new.same_episodes(first).map(|()| new).map_err(|e| e.to_string()),
            None => Ok(new),
        });
        match checked {
            Ok(new) => examined.push(new),
            Err(why) => failures.push(Failure { name, why }),
        }
    }
    let Some(first) = examined.first() else {
        let list: Vec<String> = failures.iter().map(|f| format!("{}: {}", f.name, f.why)).collect();
        return Err(Error::Run(format!("no method could be tested. {}", list.join("; "))));
    };
    let what = first.what();
    let rows = rows::rows(&examined, reference)?;
    let comparison = Comparison { what, reference: reference.into(), rows, failures };
    Ok(Compared { comparison, examined })
}
