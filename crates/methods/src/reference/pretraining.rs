//! `pretraining.json`: `BaselineTrain.forward_loss` of `methods/baselinetrain.py`, in double precision.

use super::case::DOUBLE;
use super::tensors::{gradient, host, parameter, tensor};
use super::{Case, Comparison, Mismatch};
use crate::transfer::baseline_plus_plus::{CosineHead, scale};
use crate::transfer::feature_transfer::LinearHead;
use crate::transfer::pretraining::{BaseClassifier, cross_entropy};
use burn::tensor::{Device, Gradients};

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let (dim, classes) = (case.count("dim")?, case.count("classes")?);
    let device = Device::flex().autodiff();
    let weights = case.part("weights")?;
    let table = |name: &str, shape: [usize; 2]| parameter(name, &weights.values(name)?, shape, &device);
    match case.text("head")? {
        "linear" => {
            let bias = parameter("bias", &weights.values("bias")?, [classes], &device)?;
            let head = LinearHead { weight: table("weight", [classes, dim])?, bias };
            compared(case, &device, &head, |head, gradients| {
                let weight = gradient(&head.weight.val(), gradients);
                vec![("weight", weight), ("bias", gradient(&head.bias.val(), gradients))]
            })
        }
        "cosine" => {
            if case.number("scale")? != scale(classes) {
                return Err(case.unknown("scale"));
            }
            let (g, v) = (table("g", [classes, 1])?, table("v", [classes, dim])?);
            let head = CosineHead { g, v, scale: scale(classes) };
            compared(case, &device, &head, |head, gradients| {
                let g = gradient(&head.g.val(), gradients);
                vec![("g", g), ("v", gradient(&head.v.val(), gradients))]
            })
        }
        _ => Err(case.unknown("head")),
    }
}

fn compared<H: BaseClassifier>(
    case: &Case<'_>,
    device: &Device,
    head: &H,
    gradients_of: impl FnOnce(&H, &Gradients) -> Vec<(&'static str, Vec<f64>)>,
) -> Result<Comparison, Mismatch> {
    let labels = case.counts("labels")?;
    let shape = [labels.len(), case.count("dim")?];
    let values = case.shaped("features", &shape)?;
    let x = tensor(&values, shape, device).require_grad();
    let mut compare = Comparison::default();
    let scores = head.scores(x.clone());
    compare.close("scores", &host(scores.clone().inner()), &case.values("scores")?, DOUBLE)?;
    let loss = cross_entropy(scores, &labels, 0.0);
    compare.close("loss", &host(loss.clone().inner()), &[case.number("loss")?], DOUBLE)?;
    let gradients = loss.backward();
    compare.close("dfeatures", &gradient(&x, &gradients), &case.values("dfeatures")?, DOUBLE)?;
    let dweights = case.part("dweights")?;
    for (name, found) in gradients_of(head, &gradients) {
        compare.close(name, &found, &dweights.values(name)?, DOUBLE)?;
    }
    Ok(compare)
}
