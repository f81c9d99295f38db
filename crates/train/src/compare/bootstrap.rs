//! Intervals of measures that are no mean over episodes (ECE, MCE), and of their differences: the bootstrap over episodes.

use crate::error::Result;
use crate::evaluate::AnsweredEpisode;
use rand::RngExt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use siskin_calib::{PAPER_BINS, Predictions, Reliability, brier, nll};
use siskin_random::stream;

/// Resamplings.
const REPLICATES: u64 = 1000;

/// Measures of the queries of all episodes together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Pooled<T> {
    /// Expected calibration error, 15 bins.
    pub ece: T,
    /// Maximum calibration error, 15 bins.
    pub mce: T,
    /// Mean negative log-probability of the truth.
    pub nll: T,
    /// Brier score.
    pub brier: T,
}

impl<T> Pooled<T> {
    /// The same measures of something else.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Pooled<U> {
        Pooled { ece: f(self.ece), mce: f(self.mce), nll: f(self.nll), brier: f(self.brier) }
    }
}

/// The middle 95 % of the resampled values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// 2.5 % lie below.
    pub low: f64,
    /// 2.5 % lie above.
    pub high: f64,
}

/// What one episode adds to the measures.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    queries: f64,
    /// Queries, sum of confidences and of hits in each bin.
    bins: [(f64, f64, f64); PAPER_BINS],
    nll: f64,
    brier: f64,
}

impl Tally {
    fn zero() -> Tally {
        Tally { queries: 0.0, bins: [(0.0, 0.0, 0.0); PAPER_BINS], nll: 0.0, brier: 0.0 }
    }

    /// Of one episode, with its probabilities sharpened by `temperature`.
    fn of(answer: &AnsweredEpisode, temperature: f64) -> Result<Tally> {
        let way = answer.prediction.way;
        let predictions = Predictions::new(answer.prediction.floored(), answer.labels.clone(), way)?
            .sharpened(temperature)?;
        let queries = predictions.len() as f64;
        let mut tally = Tally {
            queries,
            nll: queries * nll(&predictions),
            brier: queries * brier(&predictions),
            ..Tally::zero()
        };
        let reliability = Reliability::new(&predictions, PAPER_BINS)?;
        for (sum, bin) in tally.bins.iter_mut().zip(&reliability.bins) {
            let count = bin.count as f64;
            *sum = (count, count * bin.confidence, count * bin.accuracy);
        }
        Ok(tally)
    }

    fn add(&mut self, other: &Tally) {
        self.queries += other.queries;
        self.nll += other.nll;
        self.brier += other.brier;
        for (sum, new) in self.bins.iter_mut().zip(&other.bins) {
            *sum = (sum.0 + new.0, sum.1 + new.1, sum.2 + new.2);
        }
    }

    fn measures(&self) -> Pooled<f64> {
        let gaps = self.bins.iter().map(|(count, confidence, hits)| (count, (hits - confidence).abs()));
        Pooled {
            ece: gaps.clone().map(|(_, gap)| gap).sum::<f64>() / self.queries,
            mce: gaps.map(|(count, gap)| gap / count.max(1.0)).fold(0.0, f64::max),
            nll: self.nll / self.queries,
            brier: self.brier / self.queries,
        }
    }
}

/// The tally of every episode.
pub(super) fn tallies(answers: &[AnsweredEpisode], temperature: f64) -> Result<Vec<Tally>> {
    answers.par_iter().map(|answer| Tally::of(answer, temperature)).collect()
}

/// Intervals of the measures of each method and of their differences to method `reference`.
///
/// `tallies[m][e]`: method m on episode e. Every replicate draws episodes with replacement, the same ones for all methods.
pub(super) fn intervals(
    tallies: &[Vec<Tally>],
    reference: Option<usize>,
) -> Vec<(Pooled<Interval>, Option<Pooled<Interval>>)> {
    let episodes = tallies.first().map_or(0, Vec::len);
    let replicates: Vec<Vec<Pooled<f64>>> = (0..REPLICATES)
        .into_par_iter()
        .map(|replicate| {
            let mut rng = stream(0, "bootstrap", replicate);
            let drawn: Vec<usize> = (0..episodes).map(|_| rng.random_range(0..episodes)).collect();
            let of_method = |tallies: &Vec<Tally>| {
                let mut sum = Tally::zero();
                drawn.iter().for_each(|&episode| sum.add(&tallies[episode]));
                sum.measures()
            };
            tallies.iter().map(of_method).collect()
        })
        .collect();
    let over = |value: &dyn Fn(&[Pooled<f64>]) -> Pooled<f64>| {
        let all: Vec<Pooled<f64>> = replicates.iter().map(|replicate| value(replicate)).collect();
        let middle = |pick: fn(&Pooled<f64>) -> f64| middle95(all.iter().map(pick).collect());
        Pooled {
            ece: middle(|p| p.ece),
            mce: middle(|p| p.mce),
            nll: middle(|p| p.nll),
            brier: middle(|p| p.brier),
        }
    };
    let minus = |a: Pooled<f64>, b: Pooled<f64>| Pooled {
        ece: a.ece - b.ece,
        mce: a.mce - b.mce,
        nll: a.nll - b.nll,
        brier: a.brier - b.brier,
    };
    (0..tallies.len()).map(|m| (over(&|r| r[m]), reference.map(|to| over(&|r| minus(r[m], r[to]))))).collect()
}

fn middle95(mut values: Vec<f64>) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
    Interval { low: at(0.025), high: at(0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_methods::Prediction;

    /// Episodes of three queries each; the classifier says `confidence` and is right in all but every fourth episode's
    /// first query.
    fn answers(confidence: f64) -> Vec<AnsweredEpisode> {
        (0..40)
            .map(|e| {
                let p = [confidence, 1.0 - confidence];
                let prediction = Prediction { probabilities: p.repeat(3), way: 2, latent: None };
                AnsweredEpisode { prediction, labels: vec![usize::from(e % 4 == 0), 0, 0] }
            })
            .collect()
    }

    #[test]
    fn summed_tallies_are_the_pooled_measures() {
        let answers = answers(0.8);
        let mut sum = Tally::zero();
        tallies(&answers, 1.0).unwrap().iter().for_each(|t| sum.add(t));
        let pooled = crate::evaluate::pooled(&answers).unwrap();
        let measures = siskin_calib::Measures::of(&pooled).unwrap();
        let got = sum.measures();
        // 110 of 120 right at confidence 0.8.
        assert!((got.ece - (110.0 / 120.0 - 0.8)).abs() < 1e-12);
        for (a, b) in [
            (got.ece, measures.ece),
            (got.mce, measures.mce),
            (got.nll, measures.nll),
            (got.brier, measures.brier),
        ] {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
    }

    #[test]
    fn intervals_hold_the_truth_and_paired_ones_are_narrow() {
        let all = [tallies(&answers(0.8), 1.0).unwrap(), tallies(&answers(0.75), 1.0).unwrap()];
        let found = intervals(&all, Some(0));
        let (own, difference) = (found[1].0.ece, found[1].1.unwrap().ece);
        // ECE is accuracy - confidence in both, so the difference is 0.05 whatever episodes are drawn.
        assert!(
            (difference.low - 0.05).abs() < 1e-9 && (difference.high - 0.05).abs() < 1e-9,
            "{difference:?}"
        );
        let truth = 110.0 / 120.0 - 0.75;
        assert!(own.low < truth && truth < own.high && own.high - own.low > 0.05, "{own:?}");
        // Binomial over 40 episodes with chance 1/4 of one wrong query in three: s.e. of the accuracy 0.0228.
        assert!(own.high - own.low < 4.0 * 1.96 * 0.0228, "{own:?}");
        assert_eq!(found[0].1.unwrap().nll, Interval { low: 0.0, high: 0.0 });
        assert!(intervals(&all, None)[1].1.is_none());
    }
}
