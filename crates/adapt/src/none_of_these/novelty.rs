//! Which score says "none of these" best on validation classes: each fact of `strangeness.rs` alone, or all of them together
//! with the weights of a logistic regression.

use crate::error::Result;
use crate::none_of_these::strangeness::{ALWAYS, Facts, NAMES, score};
use faer::Mat;
use faer::linalg::solvers::Solve;
use siskin_calib::auroc;

/// False alarms at which scores are compared.
pub(crate) const FALSE_ALARMS: f64 = 0.05;
/// Newton steps of the regression.
const STEPS: usize = 30;
/// Its ridge, per point, on facts of unit variance.
const RIDGE: f64 = 1e-3;
/// What the sum of all facts is called.
const TOGETHER: &str = "all facts together";

/// Facts about queries of a task's classes and about queries of others.
pub(crate) struct Both<'a> {
    pub members: &'a [Facts],
    pub strangers: &'a [Facts],
}

/// A score that could say "none of these", measured on validation episodes of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct NoveltyScore {
    /// What it is.
    pub name: String,
    /// How well it tells queries of other classes from those of the episode's: area under the ROC curve.
    pub auroc: f64,
    /// Share of the queries of other classes above what 95 % of the episode's stay below.
    pub detection: f64,
    pub(crate) weights: Facts,
}

/// All scores, the best first, by the strangers found among `judged`; the regression is fitted to `fitted`, which `judged` must
/// not be part of.
pub(crate) fn compare(fitted: &Both<'_>, judged: &Both<'_>) -> Result<Vec<NoveltyScore>> {
    let alone = (0..ALWAYS).map(|i| (NAMES[i].to_string(), std::array::from_fn(|j| f64::from(i == j))));
    let all = alone.chain([(TOGETHER.to_string(), regression(fitted))]);
    let mut table = all
        .map(|(name, weights): (String, Facts)| {
            let of = |facts: &[Facts]| facts.iter().map(|f| score(&weights, f)).collect::<Vec<f64>>();
            let (mut members, strangers) = (of(judged.members), of(judged.strangers));
            members.sort_by(f64::total_cmp);
            let limit = members[((1.0 - FALSE_ALARMS) * members.len() as f64) as usize];
            let found = strangers.iter().filter(|s| **s > limit).count() as f64 / strangers.len() as f64;
            Ok(NoveltyScore { name, auroc: auroc(&members, &strangers)?, detection: found, weights })
        })
        .collect::<Result<Vec<_>>>()?;
    // Equally good ones stay in their order: the simple before the sum.
    table.sort_by(|a, b| b.detection.total_cmp(&a.detection));
    Ok(table)
}

/// Weights that tell strangers (1) from members (0): logistic regression by Newton steps on standardised facts, both kinds of
/// equal weight.
fn regression(both: &Both<'_>) -> Facts {
    let all: Vec<&Facts> = both.members.iter().chain(both.strangers).collect();
    let n = all.len() as f64;
    let mean: Facts = std::array::from_fn(|j| all.iter().map(|f| f[j]).sum::<f64>() / n);
    let sd: Facts = std::array::from_fn(|j| {
        (all.iter().map(|f| (f[j] - mean[j]).powi(2)).sum::<f64>() / n).sqrt().max(1e-9)
    });
    // The last number is the constant.
    let row = |f: &Facts| -> [f64; ALWAYS + 1] {
        std::array::from_fn(|j| if j < ALWAYS { (f[j] - mean[j]) / sd[j] } else { 1.0 })
    };
    let rows: Vec<[f64; ALWAYS + 1]> = all.iter().map(|f| row(f)).collect();
    let shares = [0.5 * n / both.members.len() as f64, 0.5 * n / both.strangers.len() as f64];
    let mut w = [0.0; ALWAYS + 1];
    for _ in 0..STEPS {
        let mut slope = Mat::<f64>::zeros(ALWAYS + 1, 1);
        let mut curve = Mat::<f64>::zeros(ALWAYS + 1, ALWAYS + 1);
        for (i, x) in rows.iter().enumerate() {
            let stranger = i >= both.members.len();
            let z: f64 = x.iter().zip(&w).map(|(x, w)| x * w).sum();
            let p = 1.0 / (1.0 + (-z).exp());
            let share = shares[usize::from(stranger)];
            for j in 0..=ALWAYS {
                slope[(j, 0)] += share * (f64::from(stranger) - p) * x[j];
                for k in 0..=ALWAYS {
                    curve[(j, k)] += share * p * (1.0 - p) * x[j] * x[k];
                }
            }
        }
        for j in 0..ALWAYS {
            slope[(j, 0)] -= RIDGE * n * w[j];
            curve[(j, j)] += RIDGE * n;
        }
        curve[(ALWAYS, ALWAYS)] += 1e-9 * n;
        let step = curve.partial_piv_lu().solve(&slope);
        (0..=ALWAYS).for_each(|j| w[j] += step[(j, 0)]);
    }
    std::array::from_fn(|j| if j < ALWAYS { w[j] / sd[j] } else { 0.0 })
}

/// The facts of a score that have a weight, by name.
pub(crate) fn named(weights: &Facts) -> Vec<(String, f64)> {
    let used = NAMES.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
    used.map(|(name, weight)| (name.to_string(), *weight)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::none_of_these::strangeness;

    /// Members and strangers differ in the difference of two facts that each say nothing alone.
    #[test]
    fn the_sum_finds_what_no_fact_does() {
        let noise = |i: usize, k: usize| ((i * 7919 + k * 104_729) % 10_007) as f64 / 10_007.0;
        let facts = |from: usize, shift: f64| -> Vec<Facts> {
            let one = |i: usize| {
                let common = 10.0 * noise(i, 1);
                std::array::from_fn(|j| match j {
                    0 => common + shift + 0.3 * noise(i, 2),
                    1 => common,
                    _ => 0.0,
                })
            };
            (from..from + 300).map(one).collect()
        };
        let parts = [facts(0, 0.0), facts(1_000, 1.0), facts(2_000, 0.0), facts(3_000, 1.0)];
        let (fitted, judged) = (
            Both { members: &parts[0], strangers: &parts[1] },
            Both { members: &parts[2], strangers: &parts[3] },
        );
        let table = compare(&fitted, &judged).unwrap();
        assert_eq!((table.len(), table[0].name.as_str()), (ALWAYS + 1, TOGETHER));
        assert!(table[0].detection > 0.99 && table[1].detection < 0.3, "{table:?}");
        let back = strangeness::weights(&named(&table[0].weights)).unwrap();
        assert_eq!(back, table[0].weights);
    }
}
