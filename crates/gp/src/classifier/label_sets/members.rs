//! Which labels a set has, given the latent functions: averages over draws that all points share.

use super::symmetric::Symmetric;
use crate::posterior::Latent;
use crate::special::log_sigmoid;
use faer::Mat;
use rand_distr::{Distribution, StandardNormal};

/// Draws of the latent functions at each point, in pairs of opposite sign.
const PAIRS: usize = 64;

/// Standard normal numbers, [PAIRS, L].
pub(super) fn draws(labels: usize) -> Mat<f64> {
    let mut rng = siskin_random::stream(0, "label sets", 0);
    Mat::from_fn(PAIRS, labels, |_, _| StandardNormal.sample(&mut rng))
}

/// The labels of some points, by the latent functions there.
pub(super) struct Members<'a> {
    pub(super) latent: &'a Latent,
    pub(super) draws: &'a Mat<f64>,
}

impl Members<'_> {
    /// Calls `each` with `log sigma(f_c / tau)` of every label at point `i`, draw by draw.
    fn each_draw(&self, i: usize, mut each: impl FnMut(&[f64])) {
        let Latent { mean, var, tau, .. } = self.latent;
        let mut log_w = vec![0.0; mean.ncols()];
        for draw in 0..2 * PAIRS {
            let sign = if draw % 2 == 0 { 1.0 } else { -1.0 };
            for (c, log_w) in log_w.iter_mut().enumerate() {
                let f = mean[(i, c)] + sign * self.draws[(draw / 2, c)] * var[(i, c)].sqrt();
                *log_w = log_sigmoid(f / tau);
            }
            each(&log_w);
        }
    }

    /// `log p(S | m, x_i)`, m the size of the set: `log E [ prod_(c in S) sigma(x_c) / e_m(sigma(x)) ]`.
    pub(super) fn log_prob(&self, i: usize, set: &[usize], symmetric: &mut Symmetric) -> f64 {
        let mut terms = Vec::with_capacity(2 * PAIRS);
        self.each_draw(i, |log_w| {
            symmetric.fill(log_w, set.len());
            terms.push(set.iter().map(|&c| log_w[c]).sum::<f64>() - symmetric.log_e(set.len()));
        });
        let most = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = terms.iter().map(|t| (t - most).exp()).sum::<f64>() / terms.len() as f64;
        (most + mean.ln()).min(0.0)
    }

    /// The chance of each label to be in the set of point `i`, where its size is m with chance `sizes[m]`.
    pub(super) fn chances(&self, i: usize, sizes: &[f64], symmetric: &mut Symmetric) -> Vec<f64> {
        let mut p = vec![0.0; self.latent.classes()];
        self.each_draw(i, |log_w| {
            symmetric.fill(log_w, sizes.len() - 1);
            symmetric.add_chances(sizes, 1.0 / (2 * PAIRS) as f64, &mut p);
        });
        p.iter_mut().for_each(|p| *p = p.clamp(0.0, 1.0));
        p
    }

    /// The most probable set of point `i` among the likeliest of every size, and its probability.
    pub(super) fn best(&self, i: usize, sizes: &[f64], symmetric: &mut Symmetric) -> (Vec<usize>, f64) {
        let log_w: Vec<f64> = (0..self.latent.classes())
            .map(|c| log_sigmoid(self.latent.mean[(i, c)] / self.latent.tau))
            .collect();
        let mut best: (Vec<usize>, f64) = (Vec::new(), sizes.first().copied().unwrap_or(0.0));
        for (m, &size) in sizes.iter().enumerate().skip(1).filter(|(_, size)| **size > 0.0) {
            // No set of this size can be more probable than the size.
            if size <= best.1 {
                continue;
            }
            symmetric.fill(&log_w, m);
            let set = symmetric.largest(m);
            let p = size * self.log_prob(i, &set, symmetric).exp();
            if p > best.1 {
                best = (set, p);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three labels by a tensor rule over the latent values: every set of every size, its probability.
    fn by_tensor_rule(mean: [f64; 3], var: [f64; 3], tau: f64) -> Vec<(Vec<usize>, f64)> {
        let nodes: Vec<(f64, f64)> = (-20..=20)
            .map(|i| f64::from(i) * 0.35)
            .map(|z| (z, 0.35 * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()))
            .collect();
        let sets: Vec<Vec<usize>> =
            (0..8usize).map(|bits| (0..3).filter(|c| bits >> c & 1 == 1).collect()).collect();
        let mut p = vec![0.0; 8];
        for &(a, wa) in &nodes {
            for &(b, wb) in &nodes {
                for &(c, wc) in &nodes {
                    let z = [a, b, c];
                    let s: Vec<f64> = (0..3)
                        .map(|k| 1.0 / (1.0 + (-(mean[k] + var[k].sqrt() * z[k]) / tau).exp()))
                        .collect();
                    let product = |set: &[usize]| set.iter().map(|&k| s[k]).product::<f64>();
                    for (p, set) in p.iter_mut().zip(&sets) {
                        let all: f64 =
                            sets.iter().filter(|other| other.len() == set.len()).map(|o| product(o)).sum();
                        *p += wa * wb * wc * product(set) / all;
                    }
                }
            }
        }
        sets.into_iter().zip(p).collect()
    }

    #[test]
    fn sets_and_labels_are_those_of_a_tensor_rule() {
        let (mean, var, tau) = ([0.4, -1.0, 0.1], [0.5, 1.5, 0.2], 0.7);
        let want = by_tensor_rule(mean, var, tau);
        let latent =
            Latent::independent(Mat::from_fn(1, 3, |_, c| mean[c]), Mat::from_fn(1, 3, |_, c| var[c]), tau);
        let (draws, mut symmetric) = (draws(3), Symmetric::default());
        let members = Members { latent: &latent, draws: &draws };
        for (set, p) in &want {
            let got = members.log_prob(0, set, &mut symmetric).exp();
            assert!((got - p).abs() < 0.02, "{set:?}: {got} {p}");
        }
        let sizes = [0.1, 0.5, 0.3, 0.1];
        let got = members.chances(0, &sizes, &mut symmetric);
        for c in 0..3 {
            let want: f64 =
                want.iter().filter(|(set, _)| set.contains(&c)).map(|(set, p)| sizes[set.len()] * p).sum();
            assert!((got[c] - want).abs() < 0.02, "{c}: {} {want}", got[c]);
        }
        // The chances of the labels sum to the expected size.
        assert!((got.iter().sum::<f64>() - 1.4).abs() < 1e-9);
        let (set, p) = members.best(0, &sizes, &mut symmetric);
        let most = want
            .iter()
            .map(|(set, p)| (set, sizes[set.len()] * p))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap();
        assert_eq!(&set, most.0);
        assert!((p - most.1).abs() < 0.02);
    }

    /// Theorem 1: as tau falls to 0, every label with a positive latent value has the same share, and the others none.
    #[test]
    fn positive_labels_share() {
        let mean = Mat::from_fn(1, 4, |_, c| [0.5, 3.0, 1.0, -0.5][c]);
        let latent = Latent::independent(mean, Mat::zeros(1, 4), 1e-2);
        let draws = draws(4);
        let members = Members { latent: &latent, draws: &draws };
        let p = members.chances(0, &[0.0, 1.0], &mut Symmetric::default());
        for (p, want) in p.iter().zip([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]) {
            assert!((p - want).abs() < 1e-9, "{p} {want}");
        }
        let p = members.chances(0, &[0.0, 0.0, 0.0, 1.0], &mut Symmetric::default());
        assert!(p[..3].iter().all(|p| (p - 1.0).abs() < 1e-9) && p[3] < 1e-9, "{p:?}");
    }
}
