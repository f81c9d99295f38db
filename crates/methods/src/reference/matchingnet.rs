//! `matchingnet.json`: `set_forward_loss` and `set_forward` of `methods/matchingnet.py`, in double precision.

use super::case::DOUBLE;
use super::tensors::{gradient, host, parameter, tensor};
use super::{Case, Comparison, Mismatch};
use crate::metric::matching_net::{FullContext, Lstm, nll};
use crate::shared::tensors::{one_hot, rows};
use burn::tensor::{Device, FloatDType};

/// The parts of our layers, and PyTorch's names of theirs: prefix and suffix.
const PARTS: [(&str, &str); 3] =
    [("G_encoder.", "_l0"), ("G_encoder.", "_l0_reverse"), ("FCE.lstmcell.", "")];

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let laid = case.episode()?;
    let device = Device::flex().autodiff();
    let dim = laid.features.dim;
    let weights = case.part("weights")?;
    let head = FullContext {
        forward: lstm(&weights, PARTS[0], dim, dim, &device)?,
        backward: lstm(&weights, PARTS[1], dim, dim, &device)?,
        attention: lstm(&weights, PARTS[2], 2 * dim, dim, &device)?,
    };
    let shape = [laid.features.rows, dim];
    let features = tensor(&laid.features.values, shape, &device).require_grad();
    let (support, query) = (rows(&features, &laid.support), rows(&features, &laid.query));
    let (_, shown) = laid.rows(&laid.support);
    let (_, truth) = laid.rows(&laid.query);
    let mut compare = Comparison::default();
    let g = head.support(support.clone());
    let f = head.query(query.clone(), &g);
    compare.close("support_embedding", &host(g.inner()), &case.values("support_embedding")?, DOUBLE)?;
    compare.close("query_embedding", &host(f.inner()), &case.values("query_embedding")?, DOUBLE)?;
    let log_p =
        head.log_probabilities(support, one_hot(&shown, laid.way, &device).cast(FloatDType::F64), query);
    compare.close("log_probs", &host(log_p.clone().inner()), &case.values("log_probs")?, DOUBLE)?;
    let loss = nll(log_p, &truth);
    compare.close("loss", &host(loss.clone().inner()), &[case.number("loss")?], DOUBLE)?;
    let gradients = loss.backward();
    let wanted = case.values("dfeatures")?;
    compare.close("dfeatures", &gradient(&features, &gradients), &wanted, DOUBLE)?;
    let dweights = case.part("dweights")?;
    for (lstm, part) in [&head.forward, &head.backward, &head.attention].into_iter().zip(PARTS) {
        for (name, found) in [
            ("weight_ih", gradient(&lstm.input_weight.val(), &gradients)),
            ("weight_hh", gradient(&lstm.hidden_weight.val(), &gradients)),
            ("bias_ih", gradient(&lstm.input_bias.val(), &gradients)),
            ("bias_hh", gradient(&lstm.hidden_bias.val(), &gradients)),
        ] {
            let name = format!("{}{name}{}", part.0, part.1);
            compare.close(&name, &found, &dweights.values(&name)?, DOUBLE)?;
        }
    }
    Ok(compare)
}

fn lstm(
    weights: &Case<'_>,
    (prefix, suffix): (&str, &str),
    input: usize,
    size: usize,
    device: &Device,
) -> Result<Lstm, Mismatch> {
    let full = |name: &str| format!("{prefix}{name}{suffix}");
    let matrix = |name: &str, columns: usize| {
        let name = full(name);
        parameter(&name, &weights.values(&name)?, [4 * size, columns], device)
    };
    let vector = |name: &str| {
        let name = full(name);
        parameter(&name, &weights.values(&name)?, [4 * size], device)
    };
    Ok(Lstm {
        input_weight: matrix("weight_ih", input)?,
        hidden_weight: matrix("weight_hh", size)?,
        input_bias: vector("bias_ih")?,
        hidden_bias: vector("bias_hh")?,
    })
}
