//! The two figures of the paper that need no data: likelihood surfaces and confidence histograms.

use rand_distr::{Distribution, StandardNormal};
use siskin_gp::likelihoods::{gaussian, logistic_softmax, one_vs_each, softmax};

use super::error::PlotError;
use super::histogram::{HistogramPanel, Histograms};
use super::surface::{Surface, surfaces};

/// The temperatures of the surfaces.
const TAUS: [f64; 3] = [1.0, 0.5, 0.2];
/// The third latent value, out of the way.
const F3: f64 = -100.0;
/// Nodes along each side of a panel.
const NODES: usize = 81;

/// Both variables range over the same interval in every panel.
const WHOLE: (f64, f64) = (-4.0, 4.0);
const BOTH_POSITIVE: (f64, f64) = (0.0, 2.0);
const BOTH_NEGATIVE: (f64, f64) = (-4.0, -2.0);

/// `p(y = 1 | f)` over `(f1, f2)` with `f3 = -100`, for tau = 1, 0.5, 0.2 from left to right.
///
/// Rows: softmax; logistic-softmax; logistic-softmax where both are positive, a pattern softmax cannot model;
/// logistic-softmax where both are negative, which follows softmax. In the last two rows the contour lines
/// of softmax are dashed.
pub fn likelihood_surfaces() -> Result<String, PlotError> {
    let mut panels = Vec::new();
    for tau in TAUS {
        panels.push(sampled(&format!("softmax, τ = {tau}"), WHOLE, tau, softmax::probs)?);
    }
    for tau in TAUS {
        panels.push(sampled(&format!("logistic-softmax, τ = {tau}"), WHOLE, tau, logistic_softmax::probs)?);
    }
    for (range, where_) in [(BOTH_POSITIVE, "f₁, f₂ > 0"), (BOTH_NEGATIVE, "f₁, f₂ < 0")] {
        for tau in TAUS {
            let compared = sampled("", range, tau, softmax::probs)?.values;
            let title = format!("{where_}, τ = {tau}");
            let panel = sampled(&title, range, tau, logistic_softmax::probs)?;
            panels.push(Surface { compared, ..panel });
        }
    }
    let title = "p(y = 1 | f) with f₃ = −100; lower rows: logistic-softmax in detail, softmax dashed";
    surfaces(title, ("f₁", "f₂"), &panels, TAUS.len())
}

/// The probability of the first of three classes over the square `range` × `range`.
fn sampled(
    title: &str,
    range: (f64, f64),
    tau: f64,
    probs: impl Fn(&[f64], f64) -> siskin_gp::Result<Vec<f64>>,
) -> Result<Surface, PlotError> {
    Ok(Surface::sample(title, range, range, NODES, |f1, f2| probs(&[f1, f2, F3], tau).map(|p| p[0]))?)
}

/// Classes and samples of the confidence histograms, the paper's.
const CLASSES: usize = 5;
const SAMPLES: usize = 5000;

/// Histograms of `max_c p(y = c | f)` for `f_c ~ N(-5, 1)`, five classes, 5,000 samples: softmax, Gaussian,
/// one-vs-each and logistic-softmax at each of `taus`, all of the same samples. The paper shows tau = 1.
///
/// Likelihoods that do not sum to one over the classes are normalised. The Gaussian one regresses labels ±1
/// with unit noise.
pub fn confidence_histograms(seed: u64, taus: &[f64]) -> Result<Histograms, PlotError> {
    let samples = latent_samples(seed);
    let panel = |name: String, probs: &dyn Fn(&[f64]) -> siskin_gp::Result<Vec<f64>>| {
        let confidence = |f: &Vec<f64>| probs(f).map(|p| siskin_calib::top(&p).1);
        let values = samples.iter().map(confidence).collect::<siskin_gp::Result<Vec<f64>>>()?;
        Ok::<_, PlotError>(HistogramPanel { name, values })
    };
    let mut panels = vec![
        panel("softmax".into(), &|f| softmax::probs(f, 1.0))?,
        panel("Gaussian".into(), &gaussian_probs)?,
        panel("one-vs-each".into(), &one_vs_each::probs)?,
    ];
    for &tau in taus {
        panels.push(panel(format!("logistic-softmax, τ = {tau}"), &|f| logistic_softmax::probs(f, tau))?);
    }
    Ok(Histograms {
        title: "Confidence of likelihoods, f ~ N(−5, 1), 5 classes".into(),
        x_name: "confidence".into(),
        range: (0.2, 1.0),
        bars: 40,
        panels,
    })
}

/// `[SAMPLES][CLASSES]` draws of N(-5, 1).
fn latent_samples(seed: u64) -> Vec<Vec<f64>> {
    let mut rng = siskin_random::stream(seed, "figure", 0);
    let mut draw = || -> f64 {
        let standard: f64 = StandardNormal.sample(&mut rng);
        standard - 5.0
    };
    (0..SAMPLES).map(|_| (0..CLASSES).map(|_| draw()).collect()).collect()
}

/// `prod_c N(t_c | f_c, 1)` with `t_c = +1` for the label and -1 else, normalised over the labels.
fn gaussian_probs(f: &[f64]) -> siskin_gp::Result<Vec<f64>> {
    let log: Vec<f64> =
        (0..f.len()).map(|y| gaussian::log_likelihood(f, y, 1.0)).collect::<siskin_gp::Result<_>>()?;
    softmax::probs(&log, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surfaces_show_what_the_paper_says() {
        let at = |probs: fn(&[f64], f64) -> siskin_gp::Result<Vec<f64>>, f1, f2| {
            probs(&[f1, f2, F3], 0.2).map(|p| p[0]).unwrap()
        };
        // Both positive: the logistic-softmax shares, softmax decides. Both negative: they agree.
        assert!((at(logistic_softmax::probs, 2.0, 1.0) - 0.5).abs() < 0.01);
        assert!(at(softmax::probs, 2.0, 1.0) > 0.99);
        let (ls, s) = (at(logistic_softmax::probs, -2.9, -3.0), at(softmax::probs, -2.9, -3.0));
        assert!((ls - s).abs() < 1e-6, "{ls} {s}");
    }

    #[test]
    fn the_surface_figure_has_all_panels() {
        let svg = likelihood_surfaces().unwrap();
        // Twelve panels and the colour bar.
        assert_eq!(svg.matches("<image").count(), 13);
        assert!(svg.contains("sk-other"));
    }

    #[test]
    fn confidences_are_those_of_the_paper() {
        let figure = confidence_histograms(1, &[1.0, 0.2]).unwrap();
        let mean = |i: usize| figure.panels[i].values.iter().sum::<f64>() / SAMPLES as f64;
        let (soft, gauss, ove, ls, ls_cold) = (mean(0), mean(1), mean(2), mean(3), mean(4));
        // At mean -5 logistic-softmax is close to softmax; one-vs-each is not, as the paper says.
        assert!((ls - soft).abs() < 0.01, "{ls} {soft}");
        assert!((ove - soft).abs() > 0.03, "{ove} {soft}");
        // Unit noise and labels two apart make the Gaussian likelihood softmax at temperature 1/2.
        let f = &latent_samples(1)[0];
        let half = softmax::probs(f, 0.5).unwrap();
        for (a, b) in gaussian_probs(f).unwrap().iter().zip(half) {
            assert!((a - b).abs() < 1e-12);
        }
        assert!(gauss > soft && ls_cold > gauss, "{gauss} {ls_cold}");
    }

    #[test]
    fn the_same_seed_gives_the_same_figure() {
        let figure = |seed| confidence_histograms(seed, &[1.0]).unwrap().panels[0].values.clone();
        assert_eq!(figure(3), figure(3));
        assert_ne!(figure(3), figure(4));
    }
}
