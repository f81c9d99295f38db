//! How learning rates change within a phase: a warm-up, then constant, cosine or steps down.

use crate::config::TrainConfig;
use serde::{Deserialize, Serialize};
use siskin_methods::Rates;
use siskin_nn::Pace;

/// How the learning rates change after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// They stay, as in the paper.
    #[default]
    Constant,
    /// Half a cosine from the full rate to a hundredth of it.
    Cosine,
    /// Times `train.step_factor` after every `train.step_every` episodes.
    Step,
}

/// The rates of the step that begins after `done` episodes of the phase.
pub fn rates(config: &TrainConfig, done: u64) -> Rates {
    let factor = factor(config, done);
    Rates {
        network: Pace { learning_rate: factor * config.learning_rate, weight_decay: config.weight_decay },
        kernel: factor * config.kernel_learning_rate,
    }
}

/// The share of the full rates after `done` episodes of the phase.
fn factor(config: &TrainConfig, done: u64) -> f64 {
    let warm = config.warmup_episodes;
    if done < warm {
        return (done + 1) as f64 / warm as f64;
    }
    let done = done - warm;
    match config.schedule {
        Schedule::Constant => 1.0,
        Schedule::Cosine => {
            let share = done as f64 / config.episodes.saturating_sub(warm).max(1) as f64;
            0.01 + 0.99 * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
        }
        Schedule::Step => config.step_factor.powf((done / config.step_every) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(schedule: Schedule, warmup_episodes: u64) -> TrainConfig {
        let (episodes, step_every, step_factor) = (110, 40, 0.1);
        TrainConfig { schedule, warmup_episodes, episodes, step_every, step_factor, ..TrainConfig::default() }
    }

    #[test]
    fn a_warm_up_rises_to_the_full_rate_and_the_schedule_follows() {
        for schedule in [Schedule::Constant, Schedule::Cosine, Schedule::Step] {
            let config = config(schedule, 10);
            let first: Vec<f64> = (0..11).map(|done| factor(&config, done)).collect();
            for (done, found) in first.iter().enumerate() {
                assert!(
                    (found - (done as f64 + 1.0).min(10.0) / 10.0).abs() < 1e-15,
                    "{schedule:?} {first:?}"
                );
            }
        }
    }

    #[test]
    fn cosine_falls_to_a_hundredth_and_steps_fall_at_their_places() {
        let cosine = config(Schedule::Cosine, 10);
        assert!((factor(&cosine, 60) - 0.505).abs() < 1e-12);
        assert!((factor(&cosine, 110) - 0.01).abs() < 1e-12);
        let step = config(Schedule::Step, 0);
        let at = [0, 39, 40, 79, 80].map(|done| factor(&step, done));
        assert_eq!(at, [1.0, 1.0, 0.1, 0.1, 0.1f64.powf(2.0)]);
    }

    #[test]
    fn both_rates_follow_and_weight_decay_stays() {
        let config = TrainConfig { weight_decay: 5e-4, ..config(Schedule::Step, 0) };
        let rates = rates(&config, 40);
        assert_eq!(rates.network.learning_rate, 0.1 * config.learning_rate);
        assert_eq!(rates.kernel, 0.1 * config.kernel_learning_rate);
        assert_eq!(rates.network.weight_decay, 5e-4);
    }
}
