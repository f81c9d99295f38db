//! Does this crate compute what the released programs compute? Golden values of those programs are compared with ours.
//!
//! A file of golden values has `cases`, each with a `name`, inputs, every random draw written out, and outputs; the name of the
//! file says what was called. `tests/reference/README.md` has the schema. The example `reference` checks a folder.

mod bayesian_maml;
mod case;
mod cdkt;
mod dkt;
mod gibbs;
mod maml;
mod matchingnet;
mod pretraining;
mod protonet;
mod relationnet;
mod support_head;
mod tensors;

pub use case::{Case, Comparison, Mismatch};

/// A check of one case. It returns the largest deviation, relative to the largest entry of its array.
pub type Check = fn(&Case<'_>) -> Result<Comparison, Mismatch>;

/// The checks of this crate by file.
pub const CHECKS: &[(&str, Check)] = &[
    ("bayesian_maml.json", bayesian_maml::check),
    ("cdkt_ml.json", cdkt::check_ml),
    ("cdkt_pl.json", cdkt::check_pl),
    ("cdkt_predict.json", cdkt::check_predict),
    ("dkt.json", dkt::check),
    ("head_fit.json", support_head::check),
    ("ls_gibbs.json", gibbs::check_ls),
    ("maml.json", maml::check),
    ("matchingnet.json", matchingnet::check),
    ("ove.json", gibbs::check_ove),
    ("pretraining.json", pretraining::check),
    ("protonet.json", protonet::check),
    ("relationnet.json", relationnet::check),
];

/// What became of one case.
#[derive(Debug)]
pub struct Outcome {
    /// The file.
    pub file: String,
    /// The name of the case.
    pub case: String,
    /// The largest relative deviation, or what does not agree.
    pub result: Result<f64, Mismatch>,
}

/// Checks the cases of one file. `checks`: those that may be asked for, by file name.
pub fn check_file(file: &str, text: &str, checks: &[(&str, Check)]) -> Vec<Outcome> {
    let failed =
        |why: Mismatch| vec![Outcome { file: file.into(), case: "(whole file)".into(), result: Err(why) }];
    let Some((_, check)) = checks.iter().find(|(name, _)| *name == file) else {
        return failed(Mismatch::UnknownFile);
    };
    let json: serde_json::Value = match serde_json::from_str(text) {
        Ok(json) => json,
        Err(error) => return failed(Mismatch::NoJson(error.to_string())),
    };
    let whole = Case::new(&json);
    let cases = match whole.list("cases") {
        Ok(cases) if !cases.is_empty() => cases,
        Ok(_) => return failed(Mismatch::Missing { field: "cases".into() }),
        Err(why) => return failed(why),
    };
    let outcome = |case: &Case<'_>| Outcome {
        file: file.into(),
        case: case.text("name").unwrap_or("(no name)").into(),
        result: check(case).map(|comparison| comparison.worst()),
    };
    cases.iter().map(outcome).collect()
}
