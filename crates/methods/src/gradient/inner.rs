//! What methods share that take gradient steps on all weights for each task: the steps, the way back through them, and
//! a task's images cut out of an episode.

use crate::error::{Error, Result};
use crate::{EpisodeRows, Images, Pixels, Rows, Setup, TaskRows};
use serde::{Deserialize, Serialize};
use siskin_nn::{Linear, LossGradient, Network};

/// What the meta-gradient knows of the inner steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetaGradient {
    /// It takes the inner gradients as constants.
    First,
    /// It goes through them, by exact Hessian-vector products.
    Second,
}

/// theta_{k+1} = theta_k - rate gradient(k, theta_k): all positions, `steps + 1` of them.
pub(crate) fn descend(
    start: Vec<f32>,
    steps: usize,
    rate: f64,
    mut gradient: impl FnMut(usize, &[f32]) -> Result<Vec<f32>>,
) -> Result<Vec<Vec<f32>>> {
    let mut positions = vec![start];
    for k in 0..steps {
        let at = &positions[k];
        let g = gradient(k, at)?;
        positions.push(at.iter().zip(g).map(|(theta, g)| theta - rate as f32 * g).collect());
    }
    Ok(positions)
}

/// From dL/dtheta_K to dL/dtheta_0 through [`descend`]: v <- v - rate H_k v from the last step to the first, with
/// `hessian_vector(k, theta_k, v)` = H_k v.
pub(crate) fn pull_back(
    positions: &[Vec<f32>],
    rate: f64,
    mut v: Vec<f32>,
    mut hessian_vector: impl FnMut(usize, &[f32], &[f32]) -> Result<Vec<f32>>,
) -> Result<Vec<f32>> {
    for k in (0..positions.len() - 1).rev() {
        let product = hessian_vector(k, &positions[k], &v)?;
        v.iter_mut().zip(product).for_each(|(v, h)| *v -= rate as f32 * h);
    }
    Ok(v)
}

/// A classifier as a function of one flat vector of its weights: what the steps on a task need.
pub(crate) trait FlatClassifier {
    /// theta_0.
    fn parameters(&self) -> Vec<f32>;
    /// Mean cross-entropy of labelled images at `theta`, with scores and gradient.
    fn loss_gradient(&self, theta: &[f32], part: &Part) -> Result<LossGradient>;
    /// The Hessian of that loss at `theta` times `v`.
    fn hessian_vector(&self, theta: &[f32], part: &Part, v: &[f32]) -> Result<Vec<f32>>;
    /// Scores of images at `theta`, `[N, way]`.
    fn scores(&self, theta: &[f32], part: &Part) -> Result<Vec<f64>>;
}

impl FlatClassifier for Network<Linear> {
    fn parameters(&self) -> Vec<f32> {
        Network::parameters(self)
    }

    fn loss_gradient(&self, theta: &[f32], part: &Part) -> Result<LossGradient> {
        Ok(self.loss_gradient_at(theta, part.images()?, &part.labels)?)
    }

    fn hessian_vector(&self, theta: &[f32], part: &Part, v: &[f32]) -> Result<Vec<f32>> {
        Ok(self.hessian_vector_at(theta, part.images()?, &part.labels, v)?)
    }

    fn scores(&self, theta: &[f32], part: &Part) -> Result<Vec<f64>> {
        Ok(self.scores_at(theta, part.images()?)?)
    }
}

/// Refuses second order in a precision that its pass does not have: the products with Hessians are f32.
pub(crate) fn check_precision(order: MetaGradient, setup: &Setup, key: &str) -> Result<()> {
    let precision = setup.device.precision();
    if order == MetaGradient::Second && precision != siskin_nn::Precision::F32 {
        return Err(Error::Settings(format!(
            "{key} = \"second\" goes through the inner steps in f32 only: leave backbone.precision at \"f32\", or set {key} \
             = \"first\""
        )));
    }
    Ok(())
}

/// Some images of a task with their labels.
pub(crate) struct Part {
    pixels: Vec<f32>,
    shape: [usize; 4],
    /// The classes; empty for the queries of a test.
    pub labels: Vec<usize>,
}

impl Part {
    /// The rows of an episode.
    pub(crate) fn of(episode: &EpisodeRows<'_>, rows: &[usize]) -> Part {
        let [_, c, h, w] = episode.images.shape();
        let image = c * h * w;
        let pixels = rows
            .iter()
            .flat_map(|&r| &episode.images.pixels()[r * image..(r + 1) * image])
            .copied()
            .collect();
        let labels = rows.iter().map(|&r| episode.labels[r]).collect();
        Part { pixels, shape: [rows.len(), c, h, w], labels }
    }

    /// Images of `shape` (N, channels, height, width).
    pub(crate) fn new(pixels: Vec<f32>, shape: [usize; 4], labels: Vec<usize>) -> Part {
        Part { pixels, shape, labels }
    }

    /// Images as [`Pixels::of`] made them.
    pub(crate) fn of_pixels(rows: &Pixels, labels: &[usize], setup: &Setup) -> Result<Part> {
        let wanted = [setup.architecture.channels(), setup.image_size, setup.image_size];
        if rows.shape != wanted {
            return Err(Error::PixelShape { wanted, found: rows.shape });
        }
        let [c, h, w] = wanted;
        Ok(Part { pixels: rows.values.clone(), shape: [rows.rows, c, h, w], labels: labels.to_vec() })
    }

    /// Support and query of a test task of `setup.way` classes.
    pub(crate) fn of_task(task: &TaskRows<'_>, setup: &Setup) -> Result<(Part, Part)> {
        check_way(task.way, setup)?;
        let part = |rows: &Rows, labels: &[usize]| Part::of_pixels(rows.pixels()?, labels, setup);
        Ok((part(task.support, task.labels)?, part(task.query, &[])?))
    }

    /// All pixels, image by image.
    pub(crate) fn pixels(&self) -> &[f32] {
        &self.pixels
    }

    /// The images.
    pub(crate) fn images(&self) -> Result<Images<'_>> {
        Ok(Images::new(&self.pixels, self.shape)?)
    }
}

/// The head has one output for each class it was trained with.
pub(crate) fn check_way(way: usize, setup: &Setup) -> Result<()> {
    if way == setup.way {
        return Ok(());
    }
    let why = format!(
        "the last layer of this model was meta-trained for {} classes; train with as many classes as you test",
        setup.way
    );
    Err(Error::Way { way, why })
}

/// Refuses an answer that is not finite, where the inner steps went too far.
pub(crate) fn finite(values: Vec<f64>, key: &'static str) -> Result<Vec<f64>> {
    match values.iter().all(|v| v.is_finite()) {
        true => Ok(values),
        false => Err(Error::Diverged { key }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_the_transposed_jacobian_of_the_steps() {
        // f(a, b) = a^2 b + b^3, gradient (2ab, a^2 + 3b^2), Hessian [[2b, 2a], [2a, 6b]].
        let gradient = |_, t: &[f32]| Ok(vec![2.0 * t[0] * t[1], t[0] * t[0] + 3.0 * t[1] * t[1]]);
        let hessian = |_, t: &[f32], v: &[f32]| {
            Ok(vec![2.0 * t[1] * v[0] + 2.0 * t[0] * v[1], 2.0 * t[0] * v[0] + 6.0 * t[1] * v[1]])
        };
        let end = |start: [f32; 2]| descend(start.to_vec(), 3, 0.1, gradient).unwrap();
        let positions = end([0.5, 0.75]);
        assert_eq!(positions.len(), 4);
        let back = pull_back(&positions, 0.1, vec![1.0, -2.0], hessian).unwrap();
        for i in 0..2 {
            let at = |h: f32| {
                let mut start = [0.5, 0.75];
                start[i] += h;
                let last = end(start)[3].clone();
                last[0] - 2.0 * last[1]
            };
            let slope = (at(0.01) - at(-0.01)) / 0.02;
            assert!((slope - back[i]).abs() < 2e-3, "{i}: {slope} {}", back[i]);
        }
        assert!((back[1] + 2.0).abs() > 0.5, "the way back is not the identity: {back:?}");
    }
}
