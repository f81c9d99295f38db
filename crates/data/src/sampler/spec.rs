//! What kind of episodes: how many classes, how many labelled images, how many queries.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The largest concentration: shots are as good as equal long before.
const MOST_EQUAL: f64 = 1e6;

/// The kind of episodes a sampler draws. Deserialised as it stands; [`EpisodeSpec::check`] says whether it makes
/// sense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeSpec {
    /// Classes of an episode.
    pub way: Count,
    /// Labelled images of each class; drawn once per episode, where it is a range.
    pub shot: Count,
    /// Query images of each class.
    pub query: usize,
    /// Unequal shots: the `way` x `shot` labelled images are dealt to the classes with the weights of a symmetric
    /// Dirichlet distribution of this concentration, at least one to each. Small is very unequal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imbalance: Option<f64>,
    /// What to do about classes with too few images.
    #[serde(default)]
    pub short_classes: ShortClasses,
    /// Take all classes of an episode from one domain (an alphabet, a genus), chosen at random.
    #[serde(default)]
    pub within_domain: bool,
}

/// A fixed number, or one drawn uniformly from a range (ends included).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// Always this many.
    Fixed(usize),
    /// Between `min` and `max`.
    Range {
        /// At least.
        min: usize,
        /// At most.
        max: usize,
    },
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Count::Fixed(count) => write!(f, "{count}"),
            Count::Range { min, max } => write!(f, "{min} to {max}"),
        }
    }
}

impl Count {
    /// The smallest possible number.
    pub fn min(self) -> usize {
        match self {
            Count::Fixed(n) | Count::Range { min: n, .. } => n,
        }
    }

    /// The largest possible number.
    pub fn max(self) -> usize {
        match self {
            Count::Fixed(n) | Count::Range { max: n, .. } => n,
        }
    }
}

/// What to do about classes with fewer images than the largest shot and the queries need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShortClasses {
    /// Refuse, naming them.
    #[default]
    Error,
    /// Leave them out, and list them in [`Sampler::skipped`](super::Sampler::skipped).
    Skip,
    /// Give the whole episode fewer queries, at least one, as the reference code does: Omniglot has 20 images a
    /// class, so 5 shots and 16 queries become 5 and 15. Classes without even one query are refused.
    FewerQueries,
}

impl EpisodeSpec {
    /// `way`-way `shot`-shot episodes with `query` queries per class, equal shots, no class too short.
    pub fn fixed(way: usize, shot: usize, query: usize) -> Self {
        Self {
            way: Count::Fixed(way),
            shot: Count::Fixed(shot),
            query,
            imbalance: None,
            short_classes: ShortClasses::Error,
            within_domain: false,
        }
    }

    /// Whether the numbers make sense.
    pub fn check(&self) -> Result<()> {
        let refuse = |field, value: String, must| Err(Error::EpisodeSpec { field, value, must });
        for (field, count) in [("way", self.way), ("shot", self.shot)] {
            if count.min() == 0 || count.min() > count.max() {
                return refuse(field, format!("{count:?}"), "be at least 1, and min at most max");
            }
        }
        if self.query == 0 {
            return refuse("query", "0".into(), "be at least 1");
        }
        if let Some(alpha) = self.imbalance.filter(|alpha| !(*alpha > 0.0 && *alpha <= MOST_EQUAL)) {
            return refuse("imbalance", alpha.to_string(), "be above 0 and at most 1e6");
        }
        Ok(())
    }

    /// Images that a class must have, to be certain of a place.
    pub(crate) fn needed(&self) -> usize {
        self.shot.max() + if self.short_classes == ShortClasses::FewerQueries { 1 } else { self.query }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_form() {
        let text =
            r#"{"way": 5, "shot": {"min": 1, "max": 10}, "query": 15, "short_classes": "fewer-queries"}"#;
        let spec: EpisodeSpec = serde_json::from_str(text).unwrap();
        let want = EpisodeSpec {
            shot: Count::Range { min: 1, max: 10 },
            short_classes: ShortClasses::FewerQueries,
            ..EpisodeSpec::fixed(5, 1, 15)
        };
        assert_eq!(spec, want);
        let again: EpisodeSpec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
        assert!(
            serde_json::from_str::<EpisodeSpec>(r#"{"way": 5, "shot": 1, "query": 1, "ways": 2}"#).is_err()
        );
    }

    #[test]
    fn senseless_numbers_are_refused_by_name() {
        let good = EpisodeSpec::fixed(5, 1, 15);
        assert!(good.check().is_ok());
        let bad = [
            ("way", EpisodeSpec { way: Count::Fixed(0), ..good.clone() }),
            ("shot", EpisodeSpec { shot: Count::Range { min: 3, max: 2 }, ..good.clone() }),
            ("query", EpisodeSpec { query: 0, ..good.clone() }),
            ("imbalance", EpisodeSpec { imbalance: Some(0.0), ..good.clone() }),
            ("imbalance", EpisodeSpec { imbalance: Some(f64::NAN), ..good.clone() }),
        ];
        for (name, spec) in bad {
            assert!(matches!(spec.check(), Err(Error::EpisodeSpec { field, .. }) if field == name), "{name}");
        }
    }
}
