//! `dkt.json`: `DKT.train_loop`, then `get_logits` and `correct` on a second episode, of `methods/DKT.py`.

use super::case::DOUBLE;
use super::{Case, Comparison, Mismatch};
use crate::gp::deep_kernel::{GpHead, NORM_EPS, Slots};
use crate::gp::dkt::{DktHead, DktKernel, DktSettings};
use crate::{Purpose, Rows, Scores, TaskRows};
use siskin_gp::kernels::softplus;

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let kernel = match case.text("kernel")? {
        "bncossim" => DktKernel::NormalisedCosine,
        "cossim" => DktKernel::Cosine,
        "linear" => DktKernel::Linear,
        _ => return Err(case.unknown("kernel")),
    };
    let laid = case.episode()?;
    let settings = DktSettings {
        kernel,
        output_scale: Slots::PerClass,
        mean: Slots::PerClass,
        noise: case.number("noise")?,
        ..DktSettings::default()
    };
    if kernel == DktKernel::NormalisedCosine && case.number("norm_eps")? != NORM_EPS {
        return Err(case.unknown("norm_eps"));
    }
    let mut head = DktHead::new(&settings, laid.way, laid.features.dim)?;
    // The learned numbers in our order, each with the name of its gradient.
    let mut parts = vec![("mean", "dmean"), ("raw_outputscale", "draw_outputscale")];
    parts.extend((kernel == DktKernel::Linear).then_some(("raw_variance", "draw_variance")));
    if kernel == DktKernel::NormalisedCosine {
        parts.extend([("norm_weight", "dnorm_weight"), ("norm_bias", "dnorm_bias")]);
    }
    let mut learned = Vec::new();
    for (field, _) in &parts {
        learned.extend(case.values(field)?);
    }
    for name in ["outputscale", "variance"].into_iter().filter(|name| case.has(name)) {
        let positive: Vec<f64> =
            case.values(&format!("raw_{name}"))?.iter().map(|&raw| softplus(raw)).collect();
        Comparison::default().close(name, &positive, &case.values(name)?, DOUBLE)?;
    }
    if learned.len() != head.learned().len() {
        let (found, wanted) = (head.learned().len(), learned.len());
        return Err(Mismatch::Length { field: "learned numbers".into(), found, wanted });
    }
    head.put_learned(&learned);

    let mut compare = Comparison::default();
    let found = head.loss(&laid.features, &laid.episode()?)?;
    compare.close("loss", &[found.loss], &[case.number("loss")?], DOUBLE)?;
    compare.close("dfeatures", &found.dfeatures, &case.values("dfeatures")?, DOUBLE)?;
    let mut rest = found.dhyper.as_slice();
    for (field, gradient) in &parts {
        let (own, after) = rest.split_at(case.values(field)?.len());
        compare.close(gradient, own, &case.values(gradient)?, DOUBLE)?;
        rest = after;
    }
    if let Some(norm) = &head.norm {
        let (mean, var) = norm.running();
        compare.close("running_mean", mean, &case.values("running_mean")?, DOUBLE)?;
        compare.close("running_var", var, &case.values("running_var")?, DOUBLE)?;
    }

    let mut second = case.episode_of("test_features")?;
    second.features = head.embed(second.features)?;
    let ((support, labels), (query, truth)) = (second.rows(&second.support), second.rows(&second.query));
    let (support, query) = (Rows::Features(support), Rows::Features(query));
    let task = TaskRows {
        support: &support,
        labels: &labels,
        way: second.way,
        query: &query,
        index: 0,
        purpose: Purpose::Test,
    };
    let (scores, probabilities) = head.answer(&task)?;
    compare.close("test_scores", &scores, &case.values("test_scores")?, DOUBLE)?;
    compare.close("test_probs", &probabilities, &case.values("test_probs")?, DOUBLE)?;
    let queries = truth.len() as f64;
    let right = Scores { values: scores, way: second.way }.accuracy(&truth) * queries;
    compare.close("test_correct", &[right.round(), queries], &case.values("test_correct")?, DOUBLE)?;
    Ok(compare)
}
