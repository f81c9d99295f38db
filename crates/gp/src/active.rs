//! Which points to label next: how much each would tell, and how not to ask the same thing twice.

use crate::likelihoods::logistic_softmax;
use crate::posterior::{Latent, entropy};
use crate::{Error, Result};
use faer::Mat;
use rand_distr::{Distribution, StandardNormal};

/// Draws of the latent functions at each point, in pairs of opposite sign.
const PAIRS: usize = 48;

/// How much a label of a point would tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Criterion {
    /// The mutual information of the label and the latent functions (BALD): high where the model does not know yet, low where classes
    /// overlap and no label would help.
    #[default]
    Bald,
    /// The entropy of the class probabilities.
    Entropy,
    /// How close the two largest probabilities are: 1 less their difference.
    Margin,
    /// The latent variance, averaged over classes: far from all labelled points.
    Variance,
}

impl Criterion {
    /// Every criterion with its name in settings.
    pub const NAMED: [(&str, Criterion); 4] = [
        ("bald", Criterion::Bald),
        ("entropy", Criterion::Entropy),
        ("margin", Criterion::Margin),
        ("variance", Criterion::Variance),
    ];

    /// The score of each point, `[M]`, never below 0. `probs` [M, C] are the probabilities as they are predicted.
    pub fn scores(self, latent: &Latent, probs: &Mat<f64>) -> Result<Vec<f64>> {
        let (points, classes) = (latent.points(), latent.classes());
        for (what, expected, got) in
            [("rows of the probabilities", points, probs.nrows()), ("columns", classes, probs.ncols())]
        {
            if expected != got {
                return Err(Error::Shape { what, expected, got });
            }
        }
        match self {
            Criterion::Bald => mutual_information(latent),
            Criterion::Entropy => Ok(entropy(probs)),
            Criterion::Margin => Ok((0..points).map(|i| margin(probs, i)).collect()),
            Criterion::Variance => {
                let mean = |i: usize| (0..classes).map(|c| latent.var[(i, c)]).sum::<f64>() / classes as f64;
                Ok((0..points).map(mean).collect())
            }
        }
    }
}

fn margin(probs: &Mat<f64>, i: usize) -> f64 {
    let (mut first, mut second) = (0.0f64, 0.0f64);
    for c in 0..probs.ncols() {
        let p = probs[(i, c)];
        (first, second) = if p > first { (p, first) } else { (first, second.max(p)) };
    }
    1.0 - (first - second)
}

/// `H[E p] - E H[p]` over draws of the latent functions, the same draws for every point: `[M]`.
fn mutual_information(latent: &Latent) -> Result<Vec<f64>> {
    let (points, classes) = (latent.points(), latent.classes());
    let mut rng = siskin_random::stream(0, "which point to label next", 0);
    let draws = Mat::<f64>::from_fn(PAIRS, classes, |_, _| StandardNormal.sample(&mut rng));
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    let mut f = vec![0.0; classes];
    let mut found = Vec::with_capacity(points);
    for i in 0..points {
        let (mut mean, mut inner) = (vec![0.0; classes], 0.0);
        for draw in 0..2 * PAIRS {
            let sign = if draw % 2 == 0 { 1.0 } else { -1.0 };
            for c in 0..classes {
                f[c] = latent.mean[(i, c)] + sign * draws[(draw / 2, c)] * latent.var[(i, c)].sqrt();
            }
            for (mean, p) in mean.iter_mut().zip(logistic_softmax::probs(&f, latent.tau)?) {
                *mean += p / (2 * PAIRS) as f64;
                inner += term(p) / (2 * PAIRS) as f64;
            }
        }
        found.push((mean.iter().map(|&p| term(p)).sum::<f64>() - inner).max(0.0));
    }
    Ok(found)
}

/// A point to label, and what its label would tell beyond those before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suggestion {
    /// Its row.
    pub row: usize,
    /// Its score, less what the points before it would have told.
    pub score: f64,
}

/// Correlations beyond what points of the pool share anyway (their lower quartile), from 0 to 1: a trend that all share tells none apart.
fn beyond_the_common(correlation: Vec<f64>) -> Vec<f64> {
    let mut sorted = correlation.clone();
    sorted.sort_by(f64::total_cmp);
    let common = sorted.get(sorted.len() / 4).copied().unwrap_or(0.0).clamp(0.0, 1.0 - 1e-9);
    correlation.into_iter().map(|r| ((r - common) / (1.0 - common)).clamp(0.0, 1.0)).collect()
}

/// At most `count` points, the most telling first. After each, the scores of points like it fall: by `1 - r^2`, r their correlation beyond what
/// the points share anyway.
///
/// `correlation` gives that of all points with one, `[M]`: [`crate::kernels::Kernel::correlation`].
pub fn batch(
    scores: &[f64],
    count: usize,
    mut correlation: impl FnMut(usize) -> Result<Vec<f64>>,
) -> Result<Vec<Suggestion>> {
    let mut left = scores.to_vec();
    let mut open: Vec<bool> = vec![true; scores.len()];
    let mut found = Vec::new();
    while found.len() < count.min(scores.len()) {
        let better = |best: Option<usize>, i: usize| match best {
            Some(best) if left[best] >= left[i] => Some(best),
            _ => Some(i),
        };
        let Some(row) = (0..left.len()).filter(|&i| open[i]).fold(None, better) else { break };
        found.push(Suggestion { row, score: left[row] });
        open[row] = false;
        if found.len() < count {
            for (left, r) in left.iter_mut().zip(beyond_the_common(correlation(row)?)) {
                *left *= 1.0 - r * r;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quadrature::Resolution;

    /// Three classes: a point that is known, one where classes overlap, one of which nothing is known.
    fn latent() -> Latent {
        let mean =
            Mat::from_fn(3, 3, |i, c| [[4.0, -4.0, -4.0], [-2.0, -2.0, -6.0], [-2.0, -2.0, -2.0]][i][c]);
        let var = Mat::from_fn(3, 3, |i, _| [0.01, 0.01, 9.0][i]);
        Latent::independent(mean, var, 1.0)
    }

    #[test]
    fn each_criterion_prefers_what_it_says() {
        let latent = latent();
        let probs = latent.probs(Resolution::Standard).unwrap();
        let scores = |by: Criterion| by.scores(&latent, &probs).unwrap();
        let [bald, entropy, margin, variance] = Criterion::NAMED.map(|(_, by)| scores(by));
        // A label where classes overlap tells nothing of the functions.
        assert!(bald[2] > 0.2 && bald[1] < 0.01 && bald[0] < 0.01, "{bald:?}");
        assert!(entropy[2] > entropy[1] && entropy[1] > entropy[0], "{entropy:?}");
        assert!(margin[1] > 0.99 && margin[2] > 0.99 && margin[0] < 0.1, "{margin:?}");
        assert!((variance[2] - 9.0).abs() < 1e-12);
        assert!(Criterion::Bald.scores(&latent, &Mat::zeros(2, 3)).is_err());
    }

    #[test]
    fn mutual_information_is_that_of_many_draws() {
        use rand::SeedableRng;
        let latent = latent();
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let (mut mean, mut inner) = ([0.0; 3], 0.0);
        let draws = 40_000;
        for _ in 0..draws {
            let f: Vec<f64> = (0..3)
                .map(|c| latent.mean[(2, c)] + 3.0 * Distribution::<f64>::sample(&StandardNormal, &mut rng))
                .collect();
            for (mean, p) in mean.iter_mut().zip(logistic_softmax::probs(&f, 1.0).unwrap()) {
                *mean += p / f64::from(draws);
                inner -= p * p.ln() / f64::from(draws);
            }
        }
        let want = mean.iter().map(|p| -p * p.ln()).sum::<f64>() - inner;
        let got = mutual_information(&latent).unwrap()[2];
        assert!((got - want).abs() < 0.1 * want, "{got} {want}");
    }

    #[test]
    fn a_batch_does_not_ask_twice() {
        // Points 0 and 1 are the same; 2 is unlike them and tells less.
        let correlation = |row: usize| Ok(if row < 2 { vec![1.0, 1.0, 0.0] } else { vec![0.0, 0.0, 1.0] });
        let rows = |count| -> Vec<usize> {
            batch(&[3.0, 2.9, 1.0], count, correlation).unwrap().iter().map(|s| s.row).collect()
        };
        assert_eq!(rows(2), [0, 2]);
        assert_eq!(rows(9), [0, 2, 1]);
        assert!(batch(&[], 3, |_| Ok(Vec::new())).unwrap().is_empty());
    }
}
