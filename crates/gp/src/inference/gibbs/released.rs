//! What the released samplers of Snell and Zemel (2021) compute differently, to reproduce their rows.

use crate::polya_gamma::PolyaGamma;
use crate::special::log_sigmoid;
use crate::{Error, Result};
use faer::Mat;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};

use super::logistic_softmax::{Auxiliaries, poisson};

/// Positive nodes of the Gauss-Hermite rule with 20 points.
const NODES: [f64; 10] = [
    0.24534070830090124,
    0.7374737285453944,
    1.234076215395323,
    1.7385377121165861,
    2.2549740020892757,
    2.7888060584281305,
    3.3478545673832163,
    3.944764040115625,
    4.603682449550744,
    5.387480890011233,
];

/// Their weights.
const WEIGHTS: [f64; 10] = [
    0.4622436696006101,
    0.28667550536283415,
    0.1090172060200233,
    0.024810520887463643,
    0.0032437733422378567,
    0.00022833863601635365,
    7.80255647853206e-06,
    1.0860693707692782e-07,
    4.3993409922731747e-10,
    2.2293936455341447e-13,
];

/// Nodes, ascending, and weights of the rule with 20 points: `E g(x) ~ pi^{-1/2} sum_i w_i g(mean + sqrt2 sd t_i)`.
pub fn hermite_rule() -> (Vec<f64>, Vec<f64>) {
    let nodes = NODES.iter().rev().map(|node| -node).chain(NODES).collect();
    (nodes, WEIGHTS.into_iter().rev().chain(WEIGHTS).collect())
}

/// An expectation with its slopes in the mean and in the second argument.
pub(super) struct Slopes {
    pub value: f64,
    pub dmean: f64,
    pub dspread: f64,
}

/// `E log sigma(x)`, `x ~ N(mean, sd^2)`, by the rule with 20 points: `pi^{-1/2} sum_i w_i log sigma(mean + sqrt2 sd t_i)`.
pub(super) fn hermite_log_sigmoid(mean: f64, sd: f64) -> Slopes {
    let mut out = Slopes { value: 0.0, dmean: 0.0, dspread: 0.0 };
    let root = std::f64::consts::SQRT_2;
    for (node, weight) in NODES.iter().zip(WEIGHTS) {
        let weight = weight / std::f64::consts::PI.sqrt();
        for node in [*node, -node] {
            let x = mean + root * sd * node;
            let slope = weight * log_sigmoid(-x).exp();
            out.value += weight * log_sigmoid(x);
            out.dmean += slope;
            out.dspread += slope * root * node;
        }
    }
    out
}

/// `1/S sum_s log sigma(mean + sqrt(var) z_s)` for given standard normal numbers; `dspread` is the slope in the variance.
pub(super) fn sampled_log_sigmoid(mean: f64, var: f64, z: &[f64]) -> Slopes {
    let (mut out, sd) = (Slopes { value: 0.0, dmean: 0.0, dspread: 0.0 }, var.sqrt());
    let share = 1.0 / z.len() as f64;
    for z in z {
        let x = mean + sd * z;
        let slope = share * log_sigmoid(-x).exp();
        out.value += share * log_sigmoid(x);
        out.dmean += slope;
        // A variance of 0 has no slope that a draw could show.
        out.dspread += if sd > 0.0 { slope * z / (2.0 * sd) } else { 0.0 };
    }
    out
}

/// The released order of blocks: `n ~ Po(lambda sigma(-x))`, `lambda ~ Ga(1 + sum_c n, C)`, `omega ~ PG(n + y, x)`, with the
/// `lambda` of the sweep before, which is 1 at the start. It reaches the same law as the blocked sampler after many sweeps; at the
/// one sweep of training it has other counts.
pub(super) fn auxiliaries<R: Rng + ?Sized>(
    y: &[usize],
    x: &Mat<f64>,
    lambda: &mut [f64],
    rng: &mut R,
) -> Result<Auxiliaries> {
    let (n, c) = (x.nrows(), x.ncols());
    let (mut b, mut w) = (vec![vec![0.0; n]; c], vec![vec![0.0; n]; c]);
    for i in 0..n {
        let mut counts = 0.0;
        for j in 0..c {
            let own = f64::from(y[i] == j);
            let count = poisson(lambda[i] * log_sigmoid(-x[(i, j)]).exp(), rng);
            counts += count;
            b[j][i] = 0.5 * (own - count);
            w[j][i] = PolyaGamma::new(count + own, x[(i, j)])?.sample(rng).max(CLAMP);
        }
        let law = Gamma::new(1.0 + counts, 1.0 / c as f64).map_err(|_| Error::OutOfRange {
            what: "counts of a sweep",
            value: counts,
            must: "finite",
        })?;
        lambda[i] = rng.sample(law);
    }
    Ok(Auxiliaries { b, w })
}

/// The released code's smallest `omega`.
pub(super) const CLAMP: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn the_rule_integrates_polynomials_up_to_degree_39() {
        let moment = |power: i32| -> f64 {
            2.0 * NODES.iter().zip(WEIGHTS).map(|(t, w)| w * t.powi(power)).sum::<f64>()
        };
        // int t^k exp(-t^2) dt = Gamma((k + 1)/2)
        let mut wanted = std::f64::consts::PI.sqrt();
        for power in (0..=38).step_by(2) {
            let found = moment(power);
            assert!((found - wanted).abs() < 1e-11 * wanted, "{power}: {found} {wanted}");
            wanted *= (power as f64 + 1.0) / 2.0;
        }
        let e = hermite_log_sigmoid(0.4, 0.7);
        let at = |m: f64, s: f64| hermite_log_sigmoid(m, s).value;
        let h = 1e-6;
        assert!((e.dmean - (at(0.4 + h, 0.7) - at(0.4 - h, 0.7)) / (2.0 * h)).abs() < 1e-9);
        assert!((e.dspread - (at(0.4, 0.7 + h) - at(0.4, 0.7 - h)) / (2.0 * h)).abs() < 1e-9);
    }

    #[test]
    fn given_normals_are_averaged_and_their_slopes_are_those_of_the_mean() {
        let z = [-0.3, 1.1, 0.4];
        let e = sampled_log_sigmoid(-0.2, 0.9, &z);
        let at = |m: f64, v: f64| sampled_log_sigmoid(m, v, &z).value;
        let h = 1e-6;
        assert!((e.dmean - (at(-0.2 + h, 0.9) - at(-0.2 - h, 0.9)) / (2.0 * h)).abs() < 1e-9);
        assert!((e.dspread - (at(-0.2, 0.9 + h) - at(-0.2, 0.9 - h)) / (2.0 * h)).abs() < 1e-9);
        assert!((at(-0.2, 0.0) - log_sigmoid(-0.2)).abs() < 1e-15);
    }

    /// At x = 0 and lambda = 1 the counts of the first sweep are Po(1/2) and lambda is then Ga(1 + sum n, C), mean
    /// (1 + C/2)/C. The blocked sampler has counts of mean E lambda / 2 = 1/C there.
    #[test]
    fn the_first_sweep_has_counts_of_rate_one_half() {
        let (n, c) = (4000, 3);
        let x = Mat::zeros(n, c);
        let y: Vec<usize> = (0..n).map(|i| i % c).collect();
        let mut lambda = vec![1.0; n];
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let sites = auxiliaries(&y, &x, &mut lambda, &mut rng).unwrap();
        let own = |i: usize, j: usize| f64::from(y[i] == j);
        let counts: f64 = (0..c)
            .flat_map(|j| (0..n).map(move |i| (i, j)))
            .map(|(i, j)| own(i, j) - 2.0 * sites.b[j][i])
            .sum();
        let mean = counts / (n * c) as f64;
        // Six standard errors of 12,000 counts of variance 1/2, and of 4,000 gammas.
        assert!((mean - 0.5).abs() < 6.0 * (0.5f64 / (n * c) as f64).sqrt(), "{mean}");
        let lambdas = lambda.iter().sum::<f64>() / n as f64;
        assert!((lambdas - 2.5 / 3.0).abs() < 6.0 * (0.6f64 / n as f64).sqrt(), "{lambdas}");
        assert!(sites.w.iter().flatten().all(|&w| w >= CLAMP));
    }
}
