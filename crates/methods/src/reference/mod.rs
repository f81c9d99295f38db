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
mod reads;
mod relationnet;
mod support_head;
mod tensors;

pub use case::{Case, Comparison, Mismatch};
pub use reads::Reads;

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
    let reads = Reads::default();
    let whole = Case::new(&json, &reads);
    // Values of another precision would need other tolerances.
    if !whole.text("dtype").is_ok_and(|dtype| dtype.starts_with("float64")) {
        return failed(whole.unknown("dtype"));
    }
    let cases = match (whole.list("cases"), &json["cases"]) {
        (Ok(cases), serde_json::Value::Array(jsons)) if !cases.is_empty() => cases.into_iter().zip(jsons),
        _ => return failed(Mismatch::Missing { field: "cases".into() }),
    };
    let outcome = |(case, json): (Case<'_>, &serde_json::Value)| Outcome {
        file: file.into(),
        case: case.text("name").unwrap_or("(no name)").into(),
        result: checked(*check, &case, &reads, json),
    };
    cases.map(outcome).collect()
}

/// The outcome of a check that has looked at every field. A check that breaks off, e.g. at a list that is too short, has failed.
fn checked(check: Check, case: &Case<'_>, reads: &Reads, json: &serde_json::Value) -> Result<f64, Mismatch> {
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(case)));
    let comparison = run.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()));
        Mismatch::Panicked(text.unwrap_or_default())
    })??;
    case.text("name")?;
    match reads.first_unread(json) {
        Some(field) => Err(Mismatch::Unread { field }),
        None => Ok(comparison.worst()),
    }
}
