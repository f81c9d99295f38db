//! `maml.json`: `MAML.set_forward_loss` of `methods/maml.py` for each task of a step, in single precision.

use super::case::SINGLE;
use super::{Case, Comparison, Mismatch};
use crate::gradient::MetaGradient;
use crate::gradient::inner::{FlatClassifier, Part};
use crate::gradient::maml::{MamlSettings, adapt, task_gradient};
use crate::{Result as MethodResult, Scores, softmax_cross_entropy};
use siskin_nn::{Backbone, Body, DeviceChoice, Init, Linear, LossGradient, Network};

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let weights = case.part("weights")?;
    let (way, bias) = (case.count("way")?, weights.values("classifier.bias")?);
    let head = weights.values("classifier.weight")?;
    let dim = head.len() / way.max(1);
    // Ours is [dim, way], PyTorch's [way, dim].
    let transposed = transposed(&head, way, dim);
    match case.text("network")? {
        "linear" => {
            compared(case, &LinearOnly { theta: narrow(&[transposed, bias].concat()), dim, way }, &[])
        }
        "conv" => {
            let names =
                ["C.weight", "C.bias", "BN.weight", "BN.bias"].map(|part| format!("feature.trunk.0.{part}"));
            let width = weights.values(&names[1])?.len();
            let filters = weights.values(&names[0])?;
            let channels = filters.len() / (9 * width.max(1));
            let device = DeviceChoice::Cpu.open()?.autodiff();
            let backbone = Backbone::row_of_blocks(channels, width, 1, &device);
            let network =
                Network::of_body(Body { backbone, head: Linear::new(dim, way, &mut Init::head(0, &device)) });
            let mut theta = Vec::new();
            for name in &names {
                theta.extend(weights.values(name)?);
            }
            theta.extend(transposed);
            theta.extend(bias);
            compared(case, &network.with_parameters(&narrow(&theta))?, &names)
        }
        _ => Err(case.unknown("network")),
    }
}

/// `names`: the weights before the last layer, in the order of the flat vector.
fn compared(
    case: &Case<'_>,
    network: &impl FlatClassifier,
    names: &[String],
) -> Result<Comparison, Mismatch> {
    let (way, steps) = (case.count("way")?, case.count("inner_steps")?);
    let settings = MamlSettings {
        order: if case.flag("first_order")? { MetaGradient::First } else { MetaGradient::Second },
        inner_steps: steps,
        inner_learning_rate: case.number("inner_lr")?,
        test_steps: steps,
    };
    let tasks = parts(case)?;
    let mut compare = Comparison::default();
    let (mut losses, mut scores, mut adapted) = (Vec::new(), Vec::new(), Vec::new());
    let mut gradient = vec![0.0; network.parameters().len()];
    for (support, query) in &tasks {
        let task = task_gradient(network, &settings, support, query)?;
        losses.push(task.loss);
        gradient.iter_mut().zip(&task.gradient).for_each(|(sum, g)| *sum += f64::from(*g));
        let positions = adapt(network, support, steps, settings.inner_learning_rate)?;
        scores.extend(network.scores(&positions[steps], query)?);
        adapted = positions[steps].iter().map(|&x| f64::from(x)).collect();
    }
    compare.close("losses", &losses, &case.values("losses")?, SINGLE)?;
    compare.close("loss", &[losses.iter().sum()], &[case.number("loss")?], SINGLE)?;
    compare.close("scores", &scores, &case.values("scores")?, SINGLE)?;
    let weights = case.part("weights")?;
    for (field, found) in [("dweights", &gradient), ("adapted_weights_of_last_task", &adapted)] {
        let (wanted_part, mut rest) = (case.part(field)?, found.as_slice());
        for name in names.iter().map(String::as_str).chain(["classifier.weight", "classifier.bias"]) {
            let (own, after) = rest.split_at(weights.values(name)?.len());
            rest = after;
            let own = match name {
                "classifier.weight" => transposed(own, own.len() / way, way),
                _ => own.to_vec(),
            };
            let wanted = wanted_part.values(name)?;
            let mut found = own;
            if field == "dweights" && name.ends_with("C.bias") {
                // 0 in exact arithmetic, since a batch-norm follows: rounding of the sums that the filters' gradients are of.
                let filters = wanted_part.values(&name.replace("bias", "weight"))?;
                let noise = SINGLE * filters.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
                for (x, w) in found.iter_mut().zip(&wanted) {
                    *x = if x.abs() <= noise && w.abs() <= noise { *w } else { f64::NAN };
                }
            }
            compare.close(&format!("{field}.{name}"), &found, &wanted, SINGLE)?;
        }
    }
    Ok(compare)
}

/// Support and query of each task: `images [tasks][way][shot + query][c][h][w]`.
fn parts(case: &Case<'_>) -> Result<Vec<(Part, Part)>, Mismatch> {
    let (way, shot, query) = (case.count("way")?, case.count("shot")?, case.count("query")?);
    let tasks = case.count("tasks")?;
    let image_shape = case.nested_shape("images")?;
    let &[_, _, _, c, h, w] = image_shape.as_slice() else { return Err(case.unknown("images")) };
    let images = case.shaped("images", &[tasks, way, shot + query, c, h, w])?;
    let (each, size) = (shot + query, c * h * w);
    let part = |task: usize, keep: &dyn Fn(usize) -> bool| {
        let rows: Vec<usize> = (0..way * each).filter(|row| keep(row % each)).collect();
        let first = |row: usize| (task * way * each + row) * size;
        let pixels = rows.iter().flat_map(|&row| narrow(&images[first(row)..first(row) + size])).collect();
        Part::new(pixels, [rows.len(), c, h, w], rows.iter().map(|row| row / each).collect())
    };
    Ok((0..tasks).map(|task| (part(task, &|i| i < shot), part(task, &|i| i >= shot))).collect())
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// From `[rows, columns]` to `[columns, rows]`.
fn transposed(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| values[r * columns + c])).collect()
}

/// A linear layer on the pixels, W `[dim, way]` then b.
struct LinearOnly {
    theta: Vec<f32>,
    dim: usize,
    way: usize,
}

impl LinearOnly {
    /// x W + b for weights and images.
    fn apply(&self, theta: &[f64], part: &Part) -> Vec<f64> {
        let (weight, bias) = theta.split_at(self.dim * self.way);
        let mut scores = Vec::new();
        for x in part.pixels().chunks_exact(self.dim) {
            for c in 0..self.way {
                let product: f64 = (0..self.dim).map(|d| f64::from(x[d]) * weight[d * self.way + c]).sum();
                scores.push(product + bias[c]);
            }
        }
        scores
    }

    /// From a gradient in the scores to one in the weights.
    fn back(&self, dscores: &[f64], part: &Part) -> Vec<f32> {
        let mut gradient = vec![0.0; self.theta.len()];
        for (x, row) in part.pixels().chunks_exact(self.dim).zip(dscores.chunks_exact(self.way)) {
            for (c, d) in row.iter().enumerate() {
                (0..self.dim).for_each(|k| gradient[k * self.way + c] += d * f64::from(x[k]));
                gradient[self.dim * self.way + c] += d;
            }
        }
        narrow(&gradient)
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

impl FlatClassifier for LinearOnly {
    fn parameters(&self) -> Vec<f32> {
        self.theta.clone()
    }

    fn loss_gradient(&self, theta: &[f32], part: &Part) -> MethodResult<LossGradient> {
        let scores = Scores { values: self.apply(&wide(theta), part), way: self.way };
        let (loss, dscores) = softmax_cross_entropy(&scores, &part.labels);
        Ok(LossGradient { loss, gradient: self.back(&dscores, part), scores: scores.values })
    }

    /// d/dscores of <softmax - y, u> is diag(p) u - p <p, u>, with u the scores of v.
    fn hessian_vector(&self, theta: &[f32], part: &Part, v: &[f32]) -> MethodResult<Vec<f32>> {
        let p = Scores { values: self.apply(&wide(theta), part), way: self.way }.softmax();
        let u = self.apply(&wide(v), part);
        let n = part.labels.len() as f64;
        let bent = |(p, u): (&[f64], &[f64])| -> Vec<f64> {
            let mean: f64 = p.iter().zip(u).map(|(p, u)| p * u).sum();
            p.iter().zip(u).map(|(p, u)| p * (u - mean) / n).collect()
        };
        let rows = p.chunks_exact(self.way).zip(u.chunks_exact(self.way));
        Ok(self.back(&rows.flat_map(bent).collect::<Vec<_>>(), part))
    }

    fn scores(&self, theta: &[f32], part: &Part) -> MethodResult<Vec<f64>> {
        Ok(self.apply(&wide(theta), part))
    }
}
