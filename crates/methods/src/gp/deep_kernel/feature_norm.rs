//! Batch normalisation of the feature vectors, between network and kernel, in double precision.

use crate::Features;
use crate::error::{Error, Result};
use crate::shared::state::State;

/// Added to the variance before the root.
pub(crate) const NORM_EPS: f64 = 1e-5;
/// Weight of a new batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// `y = weight (x - mean) / sqrt(variance + 1e-5) + bias` for each of D features, as PyTorch's `BatchNorm1d`: batch statistics in
/// training, running ones (with the unbiased variance) at test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FeatureNorm {
    /// [D], 1 at the start.
    pub weight: Vec<f64>,
    /// [D], 0 at the start.
    pub bias: Vec<f64>,
    running_mean: Vec<f64>,
    running_var: Vec<f64>,
}

/// What the way back needs: `(x - mean) / root` as [N, D], and `root = sqrt(variance + 1e-5)` as [D].
pub(crate) struct Tape {
    standard: Features,
    root: Vec<f64>,
    /// Mean, then unbiased variance, of the batch: what [`FeatureNorm::absorb`] takes.
    pub batch: Vec<f64>,
}

/// Cotangents of features, weight and bias.
pub(crate) struct NormGradient {
    pub features: Vec<f64>,
    pub weight: Vec<f64>,
    pub bias: Vec<f64>,
}

impl FeatureNorm {
    /// For `dim` features.
    pub(crate) fn new(dim: usize) -> FeatureNorm {
        FeatureNorm {
            weight: vec![1.0; dim],
            bias: vec![0.0; dim],
            running_mean: vec![0.0; dim],
            running_var: vec![1.0; dim],
        }
    }

    /// Normalises by the statistics of this batch and takes them into the running ones.
    pub(crate) fn train(&mut self, x: &Features) -> Result<(Features, Tape)> {
        self.check(x)?;
        let n = x.rows as f64;
        let mean = columns(x, |_, v| v).map(|sum| sum / n).collect::<Vec<_>>();
        let var = columns(x, |d, v| (v - mean[d]).powi(2)).map(|sum| sum / n).collect::<Vec<_>>();
        let root: Vec<f64> = var.iter().map(|v| (v + NORM_EPS).sqrt()).collect();
        let standard = map(x, |d, v| (v - mean[d]) / root[d]);
        let unbiased = n / (n - 1.0).max(1.0);
        let y = map(&standard, |d, v| self.weight[d] * v + self.bias[d]);
        let batch: Vec<f64> = mean.iter().copied().chain(var.iter().map(|v| v * unbiased)).collect();
        self.absorb(&batch)?;
        Ok((y, Tape { standard, root, batch }))
    }

    /// Takes the mean and the unbiased variance of a batch into the running ones.
    pub(crate) fn absorb(&mut self, batch: &[f64]) -> Result<()> {
        let dim = self.weight.len();
        if batch.len() != 2 * dim {
            return Err(Error::State(format!(
                "statistics of {} features, this model has {dim}",
                batch.len() / 2
            )));
        }
        for d in 0..dim {
            self.running_mean[d] += MOMENTUM * (batch[d] - self.running_mean[d]);
            self.running_var[d] += MOMENTUM * (batch[dim + d] - self.running_var[d]);
        }
        Ok(())
    }

    /// `dx = weight / root (dy - mean dy - s mean(s dy))`, `dweight = sum s dy`, `dbias = sum dy` with `s` the standardised x.
    pub(crate) fn back(&self, tape: &Tape, dy: Vec<f64>) -> NormGradient {
        let Tape { standard, root, .. } = tape;
        let n = standard.rows as f64;
        let dy = Features { values: dy, rows: standard.rows, dim: standard.dim };
        let bias: Vec<f64> = columns(&dy, |_, v| v).collect();
        let along = Features {
            values: dy.values.iter().zip(&standard.values).map(|(d, s)| d * s).collect(),
            rows: dy.rows,
            dim: dy.dim,
        };
        let weight: Vec<f64> = columns(&along, |_, v| v).collect();
        let features = (dy.values.iter().zip(&standard.values).enumerate())
            .map(|(i, (dy, s))| {
                let d = i % standard.dim;
                self.weight[d] / root[d] * (dy - bias[d] / n - s * weight[d] / n)
            })
            .collect();
        NormGradient { features, weight, bias }
    }

    /// Normalises by the running statistics.
    pub(crate) fn eval(&self, x: &Features) -> Result<Features> {
        self.check(x)?;
        let (mean, var) = (&self.running_mean, &self.running_var);
        Ok(map(x, |d, v| self.weight[d] * (v - mean[d]) / (var[d] + NORM_EPS).sqrt() + self.bias[d]))
    }

    /// Running mean and variance.
    pub(crate) fn running(&self) -> (&[f64], &[f64]) {
        (&self.running_mean, &self.running_var)
    }

    /// Adds the running statistics; weight and bias are among the learned numbers.
    pub(crate) fn save(&self, state: &mut State) {
        state.push_f64("feature_norm.running_mean", &self.running_mean);
        state.push_f64("feature_norm.running_var", &self.running_var);
    }

    /// Takes them back.
    pub(crate) fn load(&mut self, state: &State) -> Result<()> {
        for (name, values) in
            [("running_mean", &mut self.running_mean), ("running_var", &mut self.running_var)]
        {
            let name = format!("feature_norm.{name}");
            let saved = state.f64s(&name)?;
            if saved.len() != values.len() {
                let (saved, own) = (saved.len(), values.len());
                return Err(Error::State(format!("`{name}` has {saved} numbers, this model {own}")));
            }
            values.copy_from_slice(saved);
        }
        Ok(())
    }

    fn check(&self, x: &Features) -> Result<()> {
        match x.dim == self.weight.len() {
            true => Ok(()),
            false => Err(Error::Settings(format!(
                "the model normalises {} features, these images give {}; is data.image_size that of training?",
                self.weight.len(),
                x.dim
            ))),
        }
    }
}

/// `f(column, value)` summed over the rows, for each column.
fn columns(x: &Features, f: impl Fn(usize, f64) -> f64) -> impl Iterator<Item = f64> {
    (0..x.dim).map(move |d| (0..x.rows).map(|i| f(d, x.values[i * x.dim + d])).sum())
}

/// `f(column, value)` everywhere.
fn map(x: &Features, f: impl Fn(usize, f64) -> f64) -> Features {
    let values = x.values.iter().enumerate().map(|(i, &v)| f(i % x.dim, v)).collect();
    Features { values, ..*x }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> Features {
        let values = (0..12).map(|i| ((i * i) as f64 * 0.37).sin() + 0.2 * i as f64).collect();
        Features { values, rows: 4, dim: 3 }
    }

    fn norm() -> FeatureNorm {
        let mut norm = FeatureNorm::new(3);
        norm.weight = vec![1.0, -0.5, 2.0];
        norm.bias = vec![0.0, 0.3, -1.0];
        norm
    }

    #[test]
    fn a_batch_leaves_with_the_mean_bias_and_the_deviation_weight() {
        let (y, _) = norm().train(&features()).unwrap();
        for d in 0..3 {
            let column: Vec<f64> = (0..4).map(|i| y.row(i)[d]).collect();
            let mean = column.iter().sum::<f64>() / 4.0;
            let std = (column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4.0).sqrt();
            assert!((mean - norm().bias[d]).abs() < 1e-12);
            assert!((std - norm().weight[d].abs()).abs() < 1e-4, "{std}");
        }
    }

    #[test]
    fn gradients_match_differences() {
        let dy: Vec<f64> = (0..12).map(|i| (i as f64 * 1.7).cos()).collect();
        let value = |norm: &FeatureNorm, x: &Features| -> f64 {
            let (y, _) = norm.clone().train(x).unwrap();
            y.values.iter().zip(&dy).map(|(y, d)| y * d).sum()
        };
        let (_, tape) = norm().train(&features()).unwrap();
        let gradient = norm().back(&tape, dy.clone());
        let h = 1e-5;
        for i in 0..12 {
            let (mut up, mut down) = (features(), features());
            up.values[i] += h;
            down.values[i] -= h;
            let want = (value(&norm(), &up) - value(&norm(), &down)) / (2.0 * h);
            assert!((gradient.features[i] - want).abs() < 1e-7, "{} {want}", gradient.features[i]);
        }
        for d in 0..3 {
            let (mut up, mut down) = (norm(), norm());
            up.weight[d] += h;
            down.weight[d] -= h;
            let want = (value(&up, &features()) - value(&down, &features())) / (2.0 * h);
            assert!((gradient.weight[d] - want).abs() < 1e-7);
            let (mut up, mut down) = (norm(), norm());
            up.bias[d] += h;
            down.bias[d] -= h;
            let want = (value(&up, &features()) - value(&down, &features())) / (2.0 * h);
            assert!((gradient.bias[d] - want).abs() < 1e-7);
        }
    }

    #[test]
    fn comes_back_exactly_and_refuses_other_sizes() {
        let mut trained = norm();
        trained.train(&features()).unwrap();
        let mut state = State::default();
        trained.save(&mut state);
        let mut again = norm();
        again.load(&state).unwrap();
        assert_eq!(again, trained);
        assert!(FeatureNorm::new(2).load(&state).unwrap_err().to_string().contains("3 numbers"));
        assert!(FeatureNorm::new(2).eval(&features()).unwrap_err().to_string().contains("image_size"));
    }
}
