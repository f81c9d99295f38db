//! Which values of a config are out of their range.

use super::Config;
use crate::error::{Error, Result};
use std::fmt::Display;

/// Ten years in minutes: what `Duration` holds for certain.
const MOST_MINUTES: f64 = 5_256_000.0;
/// Largest rank of a layer on a frozen network.
const MOST_RANK: usize = 1_024;

impl Config {
    /// The first value out of its range, by its key.
    pub(super) fn check(&self) -> Result<()> {
        self.check_counts()?;
        self.check_classes()?;
        self.check_frozen()?;
        self.check_numbers()
    }

    fn check_counts(&self) -> Result<()> {
        let train = &self.train;
        let at_least_one = [
            ("episode.shot", self.episode.shot as u64),
            ("episode.query", self.episode.query as u64),
            ("train.episodes", train.episodes),
            ("train.episodes_per_step", train.episodes_per_step),
            ("train.save_every", train.save_every),
            ("train.step_every", train.step_every),
            ("train.validate_episodes", train.validate_episodes),
            ("train.validate_shot", train.validate_shot.unwrap_or(1) as u64),
            ("train.validate_query", train.validate_query.unwrap_or(1) as u64),
            ("fit.episodes", self.fit.episodes),
            ("test.groups", self.test.groups),
            ("test.episodes", self.test.episodes),
            ("test.query", self.test.query as u64),
            ("data.image_size", self.data.image_size as u64),
        ];
        if let Some((key, value)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(out_of_range(key, value, "at least 1"));
        }
        let at_most = [
            ("data.image_size", self.data.image_size as u64, 1_024),
            ("episode.way", self.episode.way as u64, 1_000),
            ("episode.shot", self.episode.shot as u64, 1_000),
            ("episode.query", self.episode.query as u64, 1_000),
            ("train.episodes_per_step", train.episodes_per_step, 10_000),
            ("test.query", self.test.query as u64, 1_000),
        ];
        match at_most.iter().find(|(_, value, most)| value > most) {
            Some((key, value, most)) => Err(out_of_range(key, value, &format!("at most {most}"))),
            None => Ok(()),
        }
    }

    fn check_classes(&self) -> Result<()> {
        let ways = [("episode.way", Some(self.episode.way)), ("train.validate_way", self.train.validate_way)];
        for (key, way) in ways {
            if let Some(way) = way.filter(|way| *way < 2) {
                return Err(out_of_range(key, way, "at least 2"));
            }
        }
        match self.fit.shapes.iter().find(|[way, shot]| *way < 2 || *shot == 0) {
            Some([way, shot]) => Err(Error::Config(format!(
                "fit.shapes has [{way}, {shot}]: a shape is [classes, images of each], at least [2, 1]"
            ))),
            None => Ok(()),
        }
    }

    fn check_frozen(&self) -> Result<()> {
        let rank = self.backbone.rank.unwrap_or(0);
        if self.backbone.network.is_none() {
            return match rank {
                0 => Ok(()),
                _ => Err(Error::Config("backbone.rank has no effect without backbone.network".into())),
            };
        }
        let others = [
            ("data.augment", self.data.augment),
            ("data.crop_area", self.data.crop_area.is_some()),
            ("fit.crop_area", self.fit.crop_area.is_some()),
            ("data.rotations", self.data.rotations),
            ("backbone.weights", self.backbone.weights.is_some()),
        ];
        if let Some((key, _)) = others.iter().find(|(_, given)| *given) {
            return Err(Error::Config(format!(
                "{key} has no effect beside backbone.network: the network stays as it is and sees each image once"
            )));
        }
        match rank <= MOST_RANK {
            true => Ok(()),
            false => Err(out_of_range("backbone.rank", rank, &format!("at most {MOST_RANK}"))),
        }
    }

    fn check_numbers(&self) -> Result<()> {
        let train = &self.train;
        if let (Some(_), Some(other)) = (self.data.validation_domains, &self.data.transfer) {
            return Err(Error::Config(format!(
                "data.validation_domains has no effect beside data.transfer = {other:?}: the classes of {other} validate"
            )));
        }
        if self.data.crop_area.is_some() && !self.data.augment {
            return Err(Error::Config("data.crop_area has no effect without data.augment = true".into()));
        }
        let areas = [("data.crop_area", self.data.crop_area), ("fit.crop_area", self.fit.crop_area)];
        if let Some((key, Some(area))) =
            areas.iter().find(|(_, area)| area.is_some_and(|a| !(a > 0.0 && a < 1.0)))
        {
            return Err(out_of_range(key, area, "above 0 and below 1, e.g. 0.35"));
        }
        let positive = [
            ("train.learning_rate", train.learning_rate),
            ("train.kernel_learning_rate", train.kernel_learning_rate),
            ("train.step_factor", train.step_factor),
        ];
        if let Some((key, value)) = positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return Err(out_of_range(key, value, "a number above 0"));
        }
        if !(0.0..1.0).contains(&train.ema) {
            let must = "at least 0 (no average) and less than 1, e.g. 0.999";
            return Err(out_of_range("train.ema", train.ema, must));
        }
        if !(0.0..f64::INFINITY).contains(&train.weight_decay) {
            return Err(out_of_range("train.weight_decay", train.weight_decay, "a number of at least 0"));
        }
        if !(0.0..=MOST_MINUTES).contains(&train.save_minutes) {
            let must = "at least 0 (never by the clock) and at most 5256000";
            return Err(out_of_range("train.save_minutes", train.save_minutes, must));
        }
        Ok(())
    }
}

fn out_of_range(key: &str, value: impl Display, must: &str) -> Error {
    Error::Config(format!("{key} = {value}: it must be {must}"))
}
