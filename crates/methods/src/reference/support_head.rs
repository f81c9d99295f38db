//! `head_fit.json`: `BaselineFinetune.set_forward` of `methods/baselinefinetune.py`.

use super::case::DOUBLE;
use super::{Case, Comparison, Mismatch};
use crate::transfer::baseline_plus_plus::{TaskCosine, scale};
use crate::transfer::feature_transfer::TaskLinear;
use crate::transfer::support_fit::{Sgd, SupportClassifier, fit};

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let way = case.count("way")?;
    let start = case.part("start")?;
    match case.text("head")? {
        "linear" => {
            let parameters = [start.values("weight")?, start.values("bias")?].concat();
            fitted(case, TaskLinear { parameters, way }, ["weight", "bias"])
        }
        "cosine" => {
            let parameters = [start.values("g")?, start.values("v")?].concat();
            fitted(case, TaskCosine { parameters, way, scale: scale(way) }, ["g", "v"])
        }
        _ => Err(case.unknown("head")),
    }
}

fn fitted(
    case: &Case<'_>,
    mut head: impl SupportClassifier,
    names: [&str; 2],
) -> Result<Comparison, Mismatch> {
    let laid = case.episode()?;
    let ((support, labels), (query, _)) = (laid.rows(&laid.support), laid.rows(&laid.query));
    let options = case.part("sgd")?;
    let sgd = Sgd {
        rate: options.number("lr")?,
        momentum: options.number("momentum")?,
        dampening: options.number("dampening")?,
        weight_decay: options.number("weight_decay")?,
        batch: case.count("batch")?,
    };
    let mut compare = Comparison::default();
    fit(&mut head, &support, &labels, &case.lists("orders")?, &sgd);
    let end = case.part("end")?;
    let wanted = [end.values(names[0])?, end.values(names[1])?].concat();
    compare.close("end", head.parameters(), &wanted, DOUBLE)?;
    let scores = head.scores(&query);
    compare.close("scores", &scores.values, &case.values("scores")?, DOUBLE)?;
    compare.close("probs", &scores.softmax(), &case.values("probs")?, DOUBLE)?;
    Ok(compare)
}
