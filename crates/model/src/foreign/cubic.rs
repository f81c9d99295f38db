//! Cubic `Resize`, as networks have it that fit their positions to the size of the image: rten would take the linear one in its place and say
//! nothing.

use rten_tensor::{AsView as _, Layout as _, Tensor};

/// Most numbers of what is resized.
const MOST: usize = 1 << 26;

/// One such operator, by the names of what it takes and gives.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cubic {
    pub(super) data: String,
    pub(super) by: By,
    pub(super) output: String,
    pub(super) coordinates: Coordinates,
    /// The `a` of the cubic convolution.
    pub(super) coefficient: f32,
    /// Whether only pixels that are there have weight; else those at the edge count again.
    pub(super) inside_only: bool,
    /// The axes that are meant; all where there are none.
    pub(super) axes: Vec<i64>,
}

/// What says how large the result is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum By {
    Scales(String),
    Sizes(String),
}

/// Where the middle of a pixel of the result lies in the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Coordinates {
    HalfPixel,
    PytorchHalfPixel,
    Asymmetric,
    AlignCorners,
}

impl Cubic {
    /// Names and types of what it takes.
    pub(super) fn takes(&self) -> [(&str, u8); 2] {
        match &self.by {
            By::Scales(name) => [(&self.data, 1), (name, 1)],
            By::Sizes(name) => [(&self.data, 1), (name, 7)],
        }
    }

    /// `by`: the scales or sizes of the axes that are meant.
    pub(super) fn resized(&self, data: &Tensor<f32>, by: &[f64]) -> Result<Tensor<f32>, String> {
        let mut shape = data.shape().to_vec();
        let rank = shape.len() as i64;
        let axes: Vec<i64> = if self.axes.is_empty() { (0..rank).collect() } else { self.axes.clone() };
        if axes.len() != by.len() {
            return Err(format!("a cubic Resize of {} axes has {} scales or sizes", axes.len(), by.len()));
        }
        let mut values = data.to_vec();
        for (axis, &by) in axes.iter().zip(by) {
            let axis = usize::try_from(if *axis < 0 { axis + rank } else { *axis }).unwrap_or(usize::MAX);
            let Some(&from) = shape.get(axis) else {
                return Err(format!("a cubic Resize of axis {axis} of {rank}"));
            };
            let (to, scale) = match self.by {
                By::Sizes(_) => (by, by / from as f64),
                By::Scales(_) => ((from as f64 * by).floor(), by),
            };
            if scale == 1.0 {
                continue;
            }
            let rest = shape.iter().product::<usize>() / from.max(1);
            if !(from > 0 && to >= 1.0 && to * rest as f64 <= MOST as f64) {
                return Err(format!("a cubic Resize of {from} to {to} of {rest} numbers each"));
            }
            let inner = shape[axis + 1..].iter().product();
            values = along(&values, [from, inner], &self.taps([from, to as usize], scale));
            shape[axis] = to as usize;
        }
        Ok(Tensor::from_data(shape.as_slice(), values))
    }

    /// Of each number of an axis' result the four that it is made of, with their weights.
    fn taps(&self, [from, to]: [usize; 2], scale: f64) -> Vec<[(usize, f64); 4]> {
        let at = |o: usize| match self.coordinates {
            Coordinates::HalfPixel => (o as f64 + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel if to > 1 => (o as f64 + 0.5) / scale - 0.5,
            Coordinates::AlignCorners if to > 1 => o as f64 * (from - 1) as f64 / (to - 1) as f64,
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
            Coordinates::Asymmetric => o as f64 / scale,
        };
        let a = f64::from(self.coefficient);
        // Keys' cubic convolution, by the distance.
        let near = |d: f64| ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
        let far = |d: f64| ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
        let of = |o: usize| {
            let (x, t) = (at(o).floor(), at(o) - at(o).floor());
            let weights = [far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)];
            let places: [f64; 4] = std::array::from_fn(|k| x - 1.0 + k as f64);
            let last = (from - 1) as f64;
            let there = |k: usize| !self.inside_only || (0.0..=last).contains(&places[k]);
            let sum: f64 = (0..4).filter(|&k| there(k)).map(|k| weights[k]).sum();
            let share = if self.inside_only { sum } else { 1.0 };
            let weight = |k: usize| if there(k) { weights[k] / share } else { 0.0 };
            std::array::from_fn(|k| (places[k].clamp(0.0, last) as usize, weight(k)))
        };
        (0..to).map(of).collect()
    }
}

/// `values`: [outer, from, inner]; gives [outer, taps, inner].
fn along(values: &[f32], [from, inner]: [usize; 2], taps: &[[(usize, f64); 4]]) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len() / from * taps.len());
    for outer in values.chunks_exact(from * inner) {
        for four in taps {
            let sum = |i: usize| {
                four.iter().map(|&(at, weight)| weight * f64::from(outer[at * inner + i])).sum::<f64>()
            };
            out.extend((0..inner).map(|i| sum(i) as f32));
        }
    }
    out
}
