//! The data of a run: splits, transforms, and the streams of training and validation episodes.

use crate::batches::Batches;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::evaluate::evaluate;
use crate::trainer::{Tasks, Validation};
use siskin_data::{
    Batch, Channels, Episode, EpisodeSource, EpisodeSpec, Items, Loader, LoaderConfig, Opened, Opener,
    Sampler, ShortClasses, Split, SplitName, Splits, Transform,
};
use siskin_methods::{Images, Method, Rates, StepReport, TrainsOn};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Validation episodes have a stream of their own, so that a run's training does not depend on its validations.
const VALIDATION_SEED: u64 = 1;

/// The splits of a run and how images reach the network.
#[derive(Clone)]
pub struct TaskData {
    /// Train, validation and test classes.
    pub splits: Splits,
    /// Names and content hashes, for the run record and the checkpoint.
    pub hash: String,
    /// What becomes of training images.
    pub train_transform: Transform,
    /// What becomes of images in validation, test and prediction.
    pub test_transform: Transform,
}

impl TaskData {
    /// Opens the data that `config` names. `channels`: what the network takes.
    pub fn open(config: &Config, channels: Channels, opener: &Opener<'_>) -> Result<TaskData> {
        let data = &config.data;
        let (mut base, base_hash) = splits(&data.train, data.split.as_deref(), data.rotations, opener)?;
        if let Some(count) = data.validation_domains {
            base = base.hold_out_domains(count)?;
        }
        let (splits, hash) = match &data.transfer {
            None => (base, base_hash),
            Some(other) => {
                let (target, target_hash) = splits(other, None, false, opener)?;
                // As the reference: all classes of the base data set, unless a split names some of them.
                let crossed = match &data.split {
                    None => Splits::cross_domain(base.train.items, &target),
                    Some(_) => Splits { train: base.train, ..target },
                };
                (crossed, format!("{base_hash} -> {target_hash}"))
            }
        };
        let test_transform = Transform { size: data.image_size, channels, augment: false };
        let train_transform = Transform { augment: data.augment, ..test_transform };
        Ok(TaskData { splits, hash, train_transform, test_transform })
    }

    /// Whether the network sees one channel of images that have colours. The first image of each training class is looked at.
    pub fn drops_colour(&self) -> bool {
        let train = self.split(SplitName::Train);
        let Items::Images(data) = &train.items else { return false };
        let coloured = |item: usize| {
            let image = data.image(item);
            image.channels == 3 && image.pixels.chunks_exact(3).any(|p| p[0] != p[1] || p[1] != p[2])
        };
        let mut first = train.classes.iter().filter_map(|class| class.items.first());
        self.train_transform.channels == Channels::One && first.any(|item| coloured(*item))
    }

    /// Test or validation episodes `0..count` of a stream.
    pub fn episodes(
        &self,
        split: SplitName,
        spec: EpisodeSpec,
        seed: u64,
        count: u64,
    ) -> Result<Vec<Episode>> {
        let sampler = Sampler::new(vec![self.splits.get(split).clone()], spec, seed)?;
        Ok((0..count).map(|e| sampler.draw(e)).collect())
    }

    /// One of the splits.
    pub fn split(&self, name: SplitName) -> &Split {
        self.splits.get(name)
    }
}

/// Opens one data set by name or path.
fn splits(name: &str, split: Option<&str>, rotations: bool, opener: &Opener<'_>) -> Result<(Splits, String)> {
    let mut opened = match name {
        "glyphs" => Opened::glyphs()?,
        _ => opener.open(&opener.cache.resolve(name)?)?,
    };
    if rotations {
        opened = opened.with_rotations()?;
    }
    let hash = format!("{}:{}", opened.items.name(), opened.items.content_hash().to_hex());
    Ok((opened.splits(split)?, hash))
}

/// The shape of episodes in training and validation. Classes with too few images for all queries give fewer of them,
/// as the reference does.
fn training_spec(config: &Config) -> EpisodeSpec {
    let e = &config.episode;
    EpisodeSpec { short_classes: ShortClasses::FewerQueries, ..EpisodeSpec::fixed(e.way, e.shot, e.query) }
}

/// The shape of test episodes.
pub fn test_spec(config: &Config) -> EpisodeSpec {
    let way = config.test.way.unwrap_or(config.episode.way);
    let shot = config.test.shot.unwrap_or(config.episode.shot);
    EpisodeSpec {
        short_classes: ShortClasses::FewerQueries,
        ..EpisodeSpec::fixed(way, shot, config.test.query)
    }
}

/// Where training images come from.
enum Source {
    /// Episodes of some base classes.
    Episodes(Arc<Sampler>),
    /// Batches of all base classes.
    Batches(Arc<Batches>),
}

impl Source {
    fn open(trains_on: TrainsOn, config: &Config, train: Split) -> Result<Source> {
        Ok(match trains_on {
            TrainsOn::Episodes => {
                Source::Episodes(Arc::new(Sampler::new(vec![train], training_spec(config), config.seed)?))
            }
            TrainsOn::Batches { size } => Source::Batches(Arc::new(Batches::new(train, size, config.seed)?)),
        })
    }

    fn episodes(&self) -> Arc<dyn EpisodeSource> {
        match self {
            Source::Episodes(sampler) => sampler.clone(),
            Source::Batches(batches) => batches.clone(),
        }
    }

    /// The labels of a loaded episode as the method counts them, and how many classes they count.
    fn labels(&self, batch: &Batch) -> (Vec<usize>, usize) {
        match self {
            Source::Episodes(_) => (batch.labels.clone(), batch.episode.way()),
            Source::Batches(batches) => (batches.labels(&batch.episode), batches.way()),
        }
    }
}

/// Episodes for a [`crate::trainer::Trainer`]: prepared ahead on a background thread.
pub struct TrainingTasks {
    data: TaskData,
    source: Source,
    loader: Option<Loader>,
    validation: Vec<Episode>,
    seed: u64,
}

impl TrainingTasks {
    /// Opens the streams of `config` for a method that is trained on `trains_on`.
    pub fn new(config: &Config, data: TaskData, trains_on: TrainsOn) -> Result<TrainingTasks> {
        let source = Source::open(trains_on, config, data.split(SplitName::Train).clone())?;
        let validation = match config.train.validate_every() {
            0 => Vec::new(),
            _ => data.episodes(
                SplitName::Val,
                training_spec(config),
                VALIDATION_SEED,
                config.train.validate_episodes,
            )?,
        };
        Ok(TrainingTasks { data, source, loader: None, validation, seed: config.seed })
    }

    /// The loader, standing at episode `first`.
    fn loader_at(&mut self, first: u64) -> Result<&mut Loader> {
        let stands = self.loader.as_ref().is_some_and(|loader| loader.position() == first);
        if !stands {
            let config = LoaderConfig {
                transform: self.data.train_transform,
                seed: self.seed,
                first,
                end: u64::MAX,
                threads: 1,
                ahead: 4,
            };
            self.loader = Some(Loader::new(self.source.episodes(), config)?);
        }
        self.loader.as_mut().ok_or_else(|| Error::Run("the loader of training episodes is gone".into()))
    }
}

impl Tasks for TrainingTasks {
    fn step(&mut self, method: &mut dyn Method, first: u64, count: u64, rates: Rates) -> Result<StepReport> {
        let loader = self.loader_at(first)?;
        let batches = loader.take(count as usize).collect::<siskin_data::Result<Vec<Batch>>>()?;
        let labels: Vec<_> = batches.iter().map(|batch| self.source.labels(batch)).collect();
        let episodes = batches
            .iter()
            .zip(&labels)
            .map(|(batch, (labels, way))| as_episode(batch, labels, *way))
            .collect::<Result<Vec<_>>>()?;
        // Inside the pool, so that the Gaussian process uses its threads too.
        Ok(rayon::scope(|_| method.train_step(&episodes, rates))?)
    }

    fn validate(&mut self, method: &dyn Method, stop: &AtomicBool) -> Result<Validation> {
        let split = self.data.split(SplitName::Val);
        let answers = match evaluate(method, split, &self.data.test_transform, &self.validation, stop) {
            Err(Error::Method(e)) if e.is_not_finite() => return Ok(Validation::NotFinite),
            Err(Error::Stopped) => return Ok(Validation::Stopped),
            answers => answers?,
        };
        let finite = answers.iter().flat_map(|a| &a.prediction.probabilities).all(|p| p.is_finite());
        let mean = answers.iter().map(|a| a.accuracy()).sum::<f64>() / answers.len() as f64;
        Ok(if finite { Validation::Accuracy(mean) } else { Validation::NotFinite })
    }
}

/// A loaded episode as methods see it.
fn as_episode<'a>(batch: &'a Batch, labels: &'a [usize], way: usize) -> Result<siskin_methods::Episode<'a>> {
    let &[channels, height, width] = batch.input_shape.as_slice() else {
        return Err(Error::Run("training needs images; these are precomputed vectors".into()));
    };
    let shape = [batch.labels.len(), channels, height, width];
    Ok(siskin_methods::Episode {
        images: Images::new(&batch.inputs, shape).map_err(siskin_methods::Error::from)?,
        labels,
        support: &batch.support_rows,
        query: &batch.query_rows,
        way,
    })
}
