//! `protonet.json`: `set_forward_loss` and `set_forward` of `methods/protonet.py`.

use super::case::DOUBLE;
use super::{Case, Comparison, Mismatch};
use crate::metric::proto_net::{loss, prototypes, scores};

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let laid = case.episode()?;
    let mut compare = Comparison::default();
    let found = loss(&laid.features, &laid.episode()?);
    compare.close("loss", &[found.loss], &[case.number("loss")?], DOUBLE)?;
    compare.close("dfeatures", &found.dfeatures, &case.values("dfeatures")?, DOUBLE)?;
    let ((support, labels), (query, _)) = (laid.rows(&laid.support), laid.rows(&laid.query));
    let scores = scores(&query, &prototypes(&support, &labels, laid.way));
    compare.close("scores", &scores.values, &case.values("scores")?, DOUBLE)?;
    compare.close("probs", &scores.softmax(), &case.values("probs")?, DOUBLE)?;
    Ok(compare)
}
