//! `relationnet.json`: `set_forward_loss` and `set_forward` of `methods/relationnet.py`, in single precision.

use super::case::{DOUBLE, SINGLE};
use super::tensors::gradient;
use super::{Case, Comparison, Mismatch};
use crate::Scores;
use crate::metric::relation_net::{Relation, RelationBlock, RelationLoss, padding, prototypes};
use crate::shared::tensors::{rows, scalar};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use siskin_nn::{Engine, Head, Init, Pass, to_host};

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let loss_type = match case.text("loss_type")? {
        "mse" => RelationLoss::Mse,
        "softmax" => RelationLoss::Softmax,
        _ => return Err(case.unknown("loss_type")),
    };
    let &[c, h, w] = case.counts("shape")?.as_slice() else { return Err(case.unknown("shape")) };
    if case.counts("padding")?.iter().any(|&p| p != padding([c, h, w])) {
        return Err(case.unknown("padding"));
    }
    let (way, each) = (case.count("way")?, case.count("shot")? + case.count("query")?);
    case.shaped("maps", &[way, each, c, h, w])?;
    let laid = case.episode_of("maps")?;
    let device = Device::flex().autodiff();
    let weights = case.part("weights")?;
    let mut head = filled(&weights, [c, h, w], &device)?;
    let maps = laid.features.to_tensor(&device).require_grad();
    let (_, shown) = laid.rows(&laid.support);
    let (_, truth) = laid.rows(&laid.query);
    let parts =
        |maps: &Tensor<2>| (prototypes(rows(maps, &laid.support), &shown, laid.way), rows(maps, &laid.query));
    let mut compare = Comparison::default();
    let mut statistics = Vec::new();
    let (class_maps, query) = parts(&maps);
    let raw = head.raw(class_maps, query, &mut Pass::Train(&mut statistics))?;
    let shown_scores = |raw: Tensor<2>| scores(loss_type, to_host(raw).values, laid.way);
    let wanted = case.values("scores_train_mode")?;
    compare.close("scores_train_mode", &shown_scores(raw.clone().inner()), &wanted, SINGLE)?;
    let loss = loss_type.of(raw, &truth);
    compare.close("loss", &[scalar(&loss)], &[case.number("loss")?], SINGLE)?;
    let gradients = loss.backward();
    compare.close("dmaps", &gradient(&maps, &gradients), &case.values("dmaps")?, SINGLE)?;
    let dweights = case.part("dweights")?;
    for (name, found) in [
        ("layer1.C.weight", gradient(&head.block1.weight.val(), &gradients)),
        ("layer1.BN.weight", gradient(&head.block1.norm.weight.val(), &gradients)),
        ("layer1.BN.bias", gradient(&head.block1.norm.bias.val(), &gradients)),
        ("layer2.C.weight", gradient(&head.block2.weight.val(), &gradients)),
        ("layer2.BN.weight", gradient(&head.block2.norm.weight.val(), &gradients)),
        ("layer2.BN.bias", gradient(&head.block2.norm.bias.val(), &gradients)),
        ("fc1.weight", gradient(&head.fc1_weight.val(), &gradients)),
        ("fc1.bias", gradient(&head.fc1_bias.val(), &gradients)),
        ("fc2.weight", gradient(&head.fc2_weight.val(), &gradients)),
        ("fc2.bias", gradient(&head.fc2_bias.val(), &gradients)),
    ] {
        compare.close(name, &found, &dweights.values(name)?, SINGLE)?;
    }
    // The released convolutions have biases, which a batch-norm takes out again: their gradients are rounding noise of the
    // sums that the filters' gradients are of.
    for layer in ["layer1", "layer2"] {
        let (name, filters) = (format!("{layer}.C.bias"), dweights.values(&format!("{layer}.C.weight"))?);
        let largest = filters.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
        for noise in dweights.values(&name)? {
            compare.close(&name, &[noise / largest], &[0.0], DOUBLE / 1e-3)?;
        }
    }

    let running = case.part("running")?;
    for (i, (norm, batch)) in head.norms_mut().into_iter().zip(&statistics).enumerate() {
        norm.absorb(batch);
        let layer = format!("layer{}", i + 1);
        let host = |x: Tensor<1>| to_host(x.inner().unsqueeze::<2>()).values;
        let bias = weights.values(&format!("{layer}.C.bias"))?;
        let mean: Vec<f64> = host(norm.running_mean.val()).iter().zip(&bias).map(|(m, b)| m + b).collect();
        let name = format!("{layer}.BN.running_mean");
        compare.close(&name, &mean, &running.values(&name)?, SINGLE)?;
        let name = format!("{layer}.BN.running_var");
        compare.close(&name, &host(norm.running_var.val()), &running.values(&name)?, SINGLE)?;
    }
    let (class_maps, query) = parts(&maps.inner());
    let raw = head.valid().raw(class_maps, query, &mut Pass::Eval)?;
    compare.close("scores_eval_mode", &shown_scores(raw), &case.values("scores_eval_mode")?, SINGLE)?;
    Ok(compare)
}

/// What `set_forward` returns: sigmoids for mse, raw scores for softmax.
fn scores(loss: RelationLoss, raw: Vec<f64>, way: usize) -> Vec<f64> {
    let scores = Scores { values: raw, way };
    match loss {
        RelationLoss::Mse => scores.values.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
        RelationLoss::Softmax => scores.values,
    }
}

fn filled(weights: &Case<'_>, map: [usize; 3], device: &Device) -> Result<Relation, Mismatch> {
    fn put<const D: usize>(
        weights: &Case<'_>,
        name: &str,
        into: &mut Param<Tensor<D>>,
    ) -> Result<(), Mismatch> {
        let values: Vec<f32> = weights.values(name)?.iter().map(|&v| v as f32).collect();
        let (dims, device) = (into.val().dims(), into.val().device());
        if values.len() != dims.iter().product::<usize>() {
            let (found, wanted) = (dims.iter().product(), values.len());
            return Err(Mismatch::Length { field: name.into(), found, wanted });
        }
        *into = Param::from_data(TensorData::new(values, dims), &device);
        Ok(())
    }
    let hidden = weights.values("fc1.bias")?.len();
    let mut head = Relation::new(map, hidden, Engine::default(), &mut Init::head(0, device));
    let Relation { block1, block2, .. } = &mut head;
    for (layer, block) in [("layer1", block1), ("layer2", block2)] {
        let RelationBlock { weight, norm } = block;
        put(weights, &format!("{layer}.C.weight"), weight)?;
        put(weights, &format!("{layer}.BN.weight"), &mut norm.weight)?;
        put(weights, &format!("{layer}.BN.bias"), &mut norm.bias)?;
    }
    put(weights, "fc1.weight", &mut head.fc1_weight)?;
    put(weights, "fc1.bias", &mut head.fc1_bias)?;
    put(weights, "fc2.weight", &mut head.fc2_weight)?;
    put(weights, "fc2.bias", &mut head.fc2_bias)?;
    Ok(head)
}
