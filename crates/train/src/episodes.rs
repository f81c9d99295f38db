//! The episodes of a phase: a stream for training, a fixed list for validation, and episodes of features for the scalars.

use crate::class_batches::ClassBatches;
use crate::config::{Config, FitSplit};
use crate::error::{Error, Result};
use crate::evaluate::{Watch, embed_items, evaluate, pooled};
use crate::phase::Phase;
use crate::run_data::RunData;
use siskin_data::{
    Episode, EpisodePart, EpisodeSource, EpisodeSpec, LoadedEpisode, Loader, LoaderConfig, Sampler,
    ShortClasses, Split, SplitName, Transform,
};
use siskin_methods::{FeatureEpisode, Images, Method, Purpose, TrainsOn};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Validation episodes have a stream of their own, so that a run's training does not depend on its validations.
const VALIDATION_SEED: u64 = 1;
/// So have the episodes by which scalars are fitted.
const FIT_SEED: u64 = 0x6669_7420_7363;

/// What the trainer asks for.
pub trait Episodes {
    /// The training episodes `first..first + count` of the run.
    fn training(&mut self, first: u64, count: u64) -> Result<Vec<TrainingEpisode>>;

    /// What `method` makes of the validation episodes. Ends early where `stop` is set.
    fn validate(&mut self, method: &dyn Method, stop: &AtomicBool) -> Result<Validation>;

    /// Episodes of features by `method` as it is at test, for its scalars.
    fn features(&mut self, method: &dyn Method, stop: &AtomicBool) -> Result<Vec<FeatureEpisode>>;
}

/// What a validation found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Validation {
    /// Over all queries of all episodes.
    Measured {
        /// Mean accuracy of the episodes.
        accuracy: f64,
        /// Mean negative log-probability of the true class.
        nll: f64,
    },
    /// A prediction was not finite.
    NotFinite,
    /// It was stopped before its end: nothing is known.
    Stopped,
}

/// A training episode with its pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingEpisode {
    /// `[images, channels, height, width]`.
    pub shape: [usize; 4],
    /// The pixels, row-major.
    pub pixels: Vec<f32>,
    /// The class of each image, `0..way`.
    pub labels: Vec<usize>,
    /// Rows of the support images.
    pub support: Vec<usize>,
    /// Rows of the query images.
    pub query: Vec<usize>,
    /// Number of classes.
    pub way: usize,
}

impl TrainingEpisode {
    /// As methods see it.
    pub fn view(&self) -> Result<siskin_methods::EpisodeRows<'_>> {
        Ok(siskin_methods::EpisodeRows {
            images: Images::new(&self.pixels, self.shape).map_err(siskin_methods::Error::from)?,
            labels: &self.labels,
            support: &self.support,
            query: &self.query,
            way: self.way,
        })
    }
}

/// The shape of training episodes. Classes with too few images for all queries give fewer of them, as the reference does.
fn training_spec(config: &Config) -> EpisodeSpec {
    let e = &config.episode;
    fixed(e.way, e.shot, e.query)
}

/// The shape of validation episodes: as trained, where `[train]` says nothing else.
fn validation_spec(config: &Config) -> EpisodeSpec {
    let (e, t) = (&config.episode, &config.train);
    fixed(
        t.validate_way.unwrap_or(e.way),
        t.validate_shot.unwrap_or(e.shot),
        t.validate_query.unwrap_or(e.query),
    )
}

/// The shape of test episodes.
pub(crate) fn test_spec(config: &Config) -> EpisodeSpec {
    let way = config.test.way.unwrap_or(config.episode.way);
    let shot = config.test.shot.unwrap_or(config.episode.shot);
    fixed(way, shot, config.test.query)
}

fn fixed(way: usize, shot: usize, query: usize) -> EpisodeSpec {
    EpisodeSpec { short_classes: ShortClasses::FewerQueries, ..EpisodeSpec::fixed(way, shot, query) }
}

/// Where training images come from.
enum Source {
    /// Episodes of some base classes.
    Episodes(Arc<Sampler>),
    /// Batches of all base classes.
    Batches(Arc<ClassBatches>),
}

impl Source {
    fn open(trains_on: TrainsOn, config: &Config, train: Split) -> Result<Source> {
        Ok(match trains_on {
            TrainsOn::Episodes => {
                Source::Episodes(Arc::new(Sampler::new(vec![train], training_spec(config), config.seed)?))
            }
            TrainsOn::Batches { size } => {
                Source::Batches(Arc::new(ClassBatches::new(train, size, config.seed)?))
            }
        })
    }

    fn episodes(&self) -> Arc<dyn EpisodeSource> {
        match self {
            Source::Episodes(sampler) => sampler.clone(),
            Source::Batches(batches) => batches.clone(),
        }
    }

    /// A loaded episode with its labels as the method counts them.
    fn training(&self, loaded: LoadedEpisode, vectors: bool) -> Result<TrainingEpisode> {
        let [channels, height, width] = match *loaded.input_shape.as_slice() {
            [channels, height, width] => [channels, height, width],
            [dim] if vectors => [dim, 1, 1],
            _ => return Err(Error::Run("training needs images; these are precomputed vectors".into())),
        };
        let (labels, way) = match self {
            Source::Episodes(_) => (loaded.labels, loaded.episode.way()),
            Source::Batches(batches) => (batches.labels(&loaded.episode), batches.way()),
        };
        Ok(TrainingEpisode {
            shape: [labels.len(), channels, height, width],
            pixels: loaded.inputs,
            labels,
            support: loaded.support_rows,
            query: loaded.query_rows,
            way,
        })
    }
}

/// The episodes of a phase; those of training are prepared ahead on a background thread.
pub struct PhaseEpisodes {
    config: Config,
    data: RunData,
    source: Source,
    loader: Option<Loader>,
    validation: Vec<Episode>,
    /// The first training episode of the phase.
    begin: u64,
}

impl PhaseEpisodes {
    /// The streams of `phase` for a method that is trained on `trains_on`.
    pub fn new(phase: &Phase, data: RunData, trains_on: TrainsOn) -> Result<PhaseEpisodes> {
        let config = phase.config.clone();
        let source = Source::open(trains_on, &config, data.split(SplitName::Train).clone())?;
        let validation = match config.train.validate_every() {
            0 => Vec::new(),
            _ => {
                let count = config.train.validate_episodes;
                data.episodes(SplitName::Val, validation_spec(&config), VALIDATION_SEED, count)?
            }
        };
        Ok(PhaseEpisodes { config, data, source, loader: None, validation, begin: phase.first })
    }

    /// Which episodes a process loads that has `first..first + count` of a step: those at the same places of every step.
    fn part(&self, first: u64, count: u64) -> EpisodePart {
        let (origin, of) = (self.begin, self.config.train.episodes_per_step);
        let from = (first - origin) % of;
        // The last step of a phase may be shorter: then its episodes as they come.
        match (from, count) {
            (0, all) if all == of => EpisodePart::ALL,
            (from, count) if from + count <= of => EpisodePart { origin, of, from, to: from + count },
            _ => EpisodePart::ALL,
        }
    }

    /// The loader, standing at episode `first`.
    fn loader_at(&mut self, first: u64, part: EpisodePart) -> Result<&mut Loader> {
        let stands = |loader: &Loader| loader.position() == first && loader.part() == part;
        if !self.loader.as_ref().is_some_and(stands) {
            let config = LoaderConfig {
                transform: self.data.train_transform,
                seed: self.config.seed,
                first,
                end: u64::MAX,
                threads: 1,
                ahead: 4,
                part,
            };
            self.loader = Some(Loader::new(self.source.episodes(), config)?);
        }
        self.loader.as_mut().ok_or_else(|| Error::Run("the loader of training episodes is gone".into()))
    }
}

impl Episodes for PhaseEpisodes {
    fn training(&mut self, first: u64, count: u64) -> Result<Vec<TrainingEpisode>> {
        let part = self.part(first, count);
        let loaded =
            self.loader_at(first, part)?.take(count as usize).collect::<siskin_data::Result<Vec<_>>>()?;
        let vectors = self.data.network.is_some();
        loaded.into_iter().map(|episode| self.source.training(episode, vectors)).collect()
    }

    fn validate(&mut self, method: &dyn Method, stop: &AtomicBool) -> Result<Validation> {
        let split = self.data.split(SplitName::Val);
        let answers = match evaluate(
            method,
            split,
            &self.data.test_transform,
            &self.validation,
            Purpose::Selection,
            &Watch { stop, answered: &|| {} },
        ) {
            Err(e) if e.is_not_finite() => return Ok(Validation::NotFinite),
            Err(Error::Stopped) => return Ok(Validation::Stopped),
            answers => answers?,
        };
        if !answers.iter().flat_map(|a| &a.prediction.probabilities).all(|p| p.is_finite()) {
            return Ok(Validation::NotFinite);
        }
        let accuracy = answers.iter().map(|a| a.accuracy()).sum::<f64>() / answers.len() as f64;
        Ok(Validation::Measured { accuracy, nll: siskin_calib::nll(&pooled(&answers)?) })
    }

    fn features(&mut self, method: &dyn Method, stop: &AtomicBool) -> Result<Vec<FeatureEpisode>> {
        let (fit, shape) = (&self.config.fit, &self.config.episode);
        let split = match fit.split {
            FitSplit::Train => SplitName::Train,
            FitSplit::Validation => SplitName::Val,
        };
        let shapes = match fit.shapes.as_slice() {
            [] => vec![[shape.way, shape.shot]],
            shapes => shapes.to_vec(),
        };
        let share = fit.episodes.div_ceil(shapes.len() as u64);
        let mut episodes = Vec::new();
        for (index, [way, shot]) in (0..).zip(shapes) {
            let spec = fixed(way, shot, shape.query);
            episodes.extend(self.data.episodes(split, spec, FIT_SEED + index, share)?);
        }
        let split = self.data.split(split);
        let transform = match fit.crop_area {
            None => self.data.test_transform,
            area => Transform { augment: area, ..self.data.test_transform },
        };
        let items = embed_items(method, split, &transform, &episodes, stop)?;
        let of = |episode: &Episode| -> Result<FeatureEpisode> {
            Ok(FeatureEpisode {
                features: items.select(&episode.items()).into_features()?,
                labels: episode.labels(),
                support: episode.support_rows(),
                query: episode.query_rows(),
                way: episode.way(),
            })
        };
        episodes.iter().map(of).collect()
    }
}
