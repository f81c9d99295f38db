//! A trained model with the data it is tested on: from a run folder, or from a model file and the name of data.

use crate::average::without_average;
use crate::checkpoint;
use crate::config::{Config, TestConfig};
use crate::episodes::test_spec;
use crate::error::{Error, Result};
use crate::run::{channels, device, new_method};
use crate::run_data::RunData;
use crate::run_folder::RunFolder;
use crate::trainer::phase_at;
use siskin_data::shell::quoted;
use siskin_data::{EpisodeList, EpisodeSpec, Opener, SplitName};
use siskin_methods::Method;
use siskin_methods::gp::from_examples::FromExamples;
use siskin_model::foreign::Registry;
use siskin_model::{EMBEDDED, Model, seal};
use siskin_nn::Architecture;
use std::path::Path;

/// A trained model with its config and data.
pub struct ModelUnderTest {
    /// The method with its learned state.
    pub method: Box<dyn Method>,
    /// The config of the phase that the model comes from, with settings applied.
    pub config: Config,
    /// Its data.
    pub data: RunData,
    /// Training episodes the model has seen.
    pub episodes: u64,
    /// What people should be told who use it: that no checksum says it is whole.
    pub notice: Option<String>,
    /// The test episodes, where a list gives them.
    pub listed: Option<EpisodeList>,
}

impl ModelUnderTest {
    /// The model at `path`: the best checkpoint (else the newest) of a run folder, or a model file of `siskin export`.
    /// `settings` change the config for test, e.g. `test.way=10` or `cdkt.test_steps=50`.
    pub fn open(path: &Path, settings: &[String], opener: &Opener<'_>) -> Result<ModelUnderTest> {
        ModelUnderTest::open_changed(path, |config| config.changed(settings), opener)
    }

    /// The same with a config that `change` makes of the model's. A model file knows no data: `change` must name it.
    pub fn open_changed(
        path: &Path,
        change: impl FnOnce(Config) -> Result<Config>,
        opener: &Opener<'_>,
    ) -> Result<ModelUnderTest> {
        ModelUnderTest::open_for(path, change, &SplitName::ALL, opener)
    }

    /// The same for who asks episodes of the `needed` splits alone: somebody else's network need not see the images of the others.
    pub fn open_for(
        path: &Path,
        change: impl FnOnce(Config) -> Result<Config>,
        needed: &[SplitName],
        opener: &Opener<'_>,
    ) -> Result<ModelUnderTest> {
        match is_model_file(path) {
            true => ModelUnderTest::of_file(path, change, needed, opener),
            false => ModelUnderTest::of_run(path, change, needed, opener),
        }
    }

    /// Tests by the episodes of a list that `siskin data episodes` wrote, in place of the config's.
    pub fn ask(&mut self, list: &Path) -> Result<()> {
        let episodes = EpisodeList::read(list, vec![self.data.split(SplitName::Test).clone()])?;
        if episodes.is_empty() {
            return Err(Error::Run(format!("{} has no episodes", list.display())));
        }
        let spec = episodes.spec();
        // One group; validation episodes, where some are needed, are of the same shape.
        self.config.test = TestConfig {
            groups: 1,
            episodes: episodes.len() as u64,
            query: spec.query,
            way: Some(spec.way.max()),
            shot: Some(spec.shot.max()),
        };
        self.listed = Some(episodes);
        Ok(())
    }

    /// The shape of the test episodes.
    pub(crate) fn test_spec(&self) -> EpisodeSpec {
        self.listed.as_ref().map_or_else(|| test_spec(&self.config), |list| list.spec().clone())
    }

    fn of_run(
        folder: &Path,
        change: impl FnOnce(Config) -> Result<Config>,
        needed: &[SplitName],
        opener: &Opener<'_>,
    ) -> Result<ModelUnderTest> {
        let folder = RunFolder::open(folder)?;
        let path = if folder.best().exists() { folder.best() } else { folder.last() };
        let (position, state) = checkpoint::load(&path)?;
        let trained = phase_at(&folder.config()?, position.phase)?.config;
        let config = change(trained.clone())?;
        let data = RunData::open_for(&config, channels(&config), needed, opener)?;
        // Other data may be asked for by a setting; other data under the same name are a mistake.
        if config.data.names_the_same(&trained.data) && position.data != data.hash {
            let why = format!(
                "it was trained on data {}, but what `data.train` and `data.transfer` name is now {}: give the same data, or \
                 choose other data by --set data.train=...",
                position.data, data.hash
            );
            return Err(Error::Checkpoint { path, why });
        }
        let mut method = new_method(&config, &data)?;
        method.load_state(&without_average(state))?;
        let cure = format!("Export it: siskin export {} --out FILE", quoted(folder.path()));
        let notice =
            position.unsealed.then(|| seal::notice(&format!("The checkpoint {}", path.display()), &cure));
        Ok(ModelUnderTest { method, config, data, episodes: position.episode, notice, listed: None })
    }

    fn of_file(
        path: &Path,
        change: impl FnOnce(Config) -> Result<Config>,
        needed: &[SplitName],
        opener: &Opener<'_>,
    ) -> Result<ModelUnderTest> {
        let name = path.display().to_string();
        let config = change(config_of_file(&name)?)?;
        if config.data.train.is_empty() {
            return Err(Error::Run(format!(
                "{name} is a model without data. Name the data to test on, e.g. --data omniglot"
            )));
        }
        let model = Model::open_on(&name, device(&config)?)?;
        let added = model.foreign().is_some();
        let data = RunData::open_for(&config, channels(&config), needed, opener)?;
        let notice = model.notice();
        if added {
            return Ok(ModelUnderTest {
                method: Box::new(FromExamples),
                config,
                data,
                episodes: 0,
                notice,
                listed: None,
            });
        }
        let (card, method) = model.into_trained()?;
        Ok(ModelUnderTest { method, config, data, episodes: card.episodes, notice, listed: None })
    }
}

/// The config of the model at `path`: that of the phase it comes from, or, of a model file, one without data.
pub fn config_of(path: &Path) -> Result<Config> {
    if is_model_file(path) {
        return config_of_file(&path.display().to_string());
    }
    let folder = RunFolder::open(path)?;
    let file = if folder.best().exists() { folder.best() } else { folder.last() };
    Ok(phase_at(&folder.config()?, checkpoint::load(&file)?.0.phase)?.config)
}

fn config_of_file(name: &str) -> Result<Config> {
    let model = Model::open(name)?;
    let mut config = Config::default();
    config.data.train = String::new();
    if model.foreign().is_some() {
        config.backbone.network = Some(name.into());
        return Ok(config);
    }
    let spec = model.card()?.model.clone();
    (config.seed, config.method, config.episode.way) = (spec.seed, spec.method, spec.way);
    match (spec.network, spec.architecture) {
        (Some(network), Architecture::Frozen { rank, .. }) => {
            (config.backbone.network, config.backbone.rank) = (Some(network.name), Some(rank));
        }
        _ => (config.backbone.name, config.data.image_size) = (spec.architecture, spec.image_size),
    }
    Ok(config)
}

/// Whether a model is there by this path or name that is no run folder.
pub fn is_model_file(path: &Path) -> bool {
    let added = || {
        let registry = Registry::default_folder();
        registry.zip(path.to_str()).is_some_and(|(registry, name)| registry.has(name))
    };
    path.is_file() || EMBEDDED.iter().any(|(name, _)| Path::new(name) == path && !path.exists()) || added()
}
