//! What a class label says about the latent values: p(y | f), in log space.
//!
//! One file a likelihood. `f` holds the latent value of each class at one point.

pub mod gaussian;
pub mod logistic_softmax;
pub mod one_vs_each;
pub mod softmax;

#[cfg(test)]
mod theorems;

use crate::{Error, Result, linalg::sum_any_order};

/// log of exp(l_k) / sum_c exp(l_c) for every k; the same bits for every order of the classes.
fn log_normalise(l: &[f64]) -> Vec<f64> {
    let top = argmax(l);
    let mut others: Vec<f64> = (0..l.len()).filter(|&c| c != top).map(|c| (l[c] - l[top]).exp()).collect();
    let log_sum = sum_any_order(&mut others).ln_1p();
    l.iter().map(|&l_k| l_k - l[top] - log_sum).collect()
}

/// The first index of the largest value.
fn argmax(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, c| if values[c] > values[best] { c } else { best })
}

/// At least two classes, every latent value finite.
fn check_latent(f: &[f64]) -> Result<()> {
    if f.len() < 2 {
        return Err(Error::Empty { what: "latent values (one per class)", needed: 2 });
    }
    match f.iter().position(|v| !v.is_finite()) {
        Some(col) => Err(Error::NotFinite { what: "latent values", row: 0, col, value: f[col] }),
        None => Ok(()),
    }
}

/// The temperature is a positive finite number.
pub(crate) fn check_tau(tau: f64) -> Result<()> {
    if tau > 0.0 && tau.is_finite() {
        return Ok(());
    }
    Err(Error::OutOfRange { what: "tau", value: tau, must: "positive and finite" })
}

/// The label names one of `classes` classes.
fn check_label(label: usize, classes: usize) -> Result<()> {
    if label < classes { Ok(()) } else { Err(Error::Label { row: 0, label, classes }) }
}
