//! From splits to episodes: which classes, which images, drawn as a pure function of (seed, split, number).

mod deal;
mod episode;
mod list;
mod pool;
mod spec;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rand::RngExt;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;

pub use episode::{Episode, EpisodeClass};
pub use list::EpisodeList;
pub use pool::Skipped;
pub use spec::{Count, EpisodeSpec, ShortClasses};

use crate::{Error, Result, Split};
use pool::Pool;
use siskin_random::stream;

/// Where episodes come from: drawn ([`Sampler`]) or read ([`EpisodeList`]).
pub trait EpisodeSource: Send + Sync {
    /// The splits that [`Episode::split`] counts.
    fn splits(&self) -> &[Split];

    /// Episode `index`: always the same one.
    fn episode(&self, index: u64) -> Result<Episode>;
}

/// Draws episodes. Each is a pure function of (splits, spec, seed, number): no state, any order, any thread.
#[derive(Clone, Debug)]
pub struct Sampler {
    splits: Arc<[Split]>,
    spec: EpisodeSpec,
    seed: u64,
    stream: String,
    pools: Vec<Pool>,
    skipped: Vec<Skipped>,
}

impl Sampler {
    /// A sampler over `splits`: one, or several of different data sets (multi-domain), where each episode first
    /// chooses its domain, all alike likely.
    pub fn new(splits: impl Into<Arc<[Split]>>, spec: EpisodeSpec, seed: u64) -> Result<Self> {
        let splits = splits.into();
        spec.check()?;
        let first = splits.first().ok_or(Error::Empty {
            what: "the list of splits to draw episodes from".into(),
            hint: "give at least one",
        })?;
        let stream = format!("episode {}", first.name.as_str());
        let (pools, skipped) = pool::pools(&splits, &spec)?;
        Ok(Self { splits, spec, seed, stream, pools, skipped })
    }

    /// The kind of episodes it draws.
    pub fn spec(&self) -> &EpisodeSpec {
        &self.spec
    }

    /// The seed it draws with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What [`ShortClasses::Skip`] left out.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Episode `index`.
    pub fn draw(&self, index: u64) -> Episode {
        let mut rng = stream(self.seed, &self.stream, index);
        let pool = &self.pools[rng.random_range(0..self.pools.len())];
        let split = &self.splits[pool.split];
        let way = count(self.spec.way, &mut rng);
        let shot = count(self.spec.shot, &mut rng);
        let chosen: Vec<usize> =
            sample(&mut rng, pool.classes.len(), way).iter().map(|k| pool.classes[k]).collect();
        let images = |k: &usize| split.classes[*k].items.len();
        let spare = chosen.iter().map(|k| images(k) - shot).min().unwrap_or(0);
        let query = self.spec.query.min(spare);
        let shots = match self.spec.imbalance {
            None => vec![shot; way],
            Some(alpha) => {
                let most: Vec<usize> = chosen.iter().map(|k| images(k) - query).collect();
                deal::unequal_shots(way * shot, &most, alpha, &mut rng)
            }
        };
        let classes = chosen.iter().zip(shots).map(|(&k, shot)| {
            let members = &split.classes[k];
            let drawn = sample(&mut rng, members.items.len(), shot + query);
            let mut items: Vec<usize> = drawn.iter().map(|i| members.items[i]).collect();
            let query = items.split_off(shot);
            EpisodeClass { class: members.class, support: items, query }
        });
        Episode { index, split: pool.split, classes: classes.collect() }
    }
}

impl EpisodeSource for Sampler {
    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn episode(&self, index: u64) -> Result<Episode> {
        Ok(self.draw(index))
    }
}

fn count(count: Count, rng: &mut ChaCha8Rng) -> usize {
    rng.random_range(count.min()..=count.max())
}
