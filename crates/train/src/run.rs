//! A run from its config or its folder: data, method and trainer put together.

use crate::checkpoint;
use crate::config::Config;
use crate::error::Result;
use crate::run_folder::RunFolder;
use crate::tasks::{TaskData, TrainingTasks};
use crate::trainer::{Event, Outcome, Trainer};
use siskin_data::{Channels, Opener, SplitName};
use siskin_methods::{Method, Setup, StepReport};
use siskin_nn::{Architecture, DeviceChoice, Network, Precision};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A training run.
pub struct Run {
    config: Config,
    folder: RunFolder,
    data: TaskData,
    tasks: TrainingTasks,
    trainer: Trainer,
}

impl Run {
    /// A new run in the folder `out`.
    pub fn start(out: &Path, config: Config, opener: &Opener<'_>) -> Result<Run> {
        let data = TaskData::open(&config, channels(&config)?, opener)?;
        if data.drops_colour() {
            opener.progress.note(&format!(
                "Note: these images have colours, but {} sees their first channel (red) alone. For colour photos set \
                 backbone.name = \"conv4\" and data.image_size = 84.",
                config.backbone.name
            ));
        }
        let mut method = new_method(&config, &data)?;
        if let Some(weights) = &config.backbone.weights {
            put_weights(method.as_mut(), architecture(&config)?, Path::new(weights))?;
        }
        let tasks = TrainingTasks::new(&config, data.clone(), method.trains_on())?;
        let folder = RunFolder::create(out, &config, &data.hash)?;
        let trainer = Trainer::start(folder.clone(), &config, &data.hash, method)?;
        Ok(Run { config, folder, data, tasks, trainer })
    }

    /// The run in `folder`, from its newest checkpoint.
    pub fn resume(folder: &Path, opener: &Opener<'_>) -> Result<Run> {
        let folder = RunFolder::open(folder)?;
        let config = folder.config()?;
        let data = TaskData::open(&config, channels(&config)?, opener)?;
        let method = new_method(&config, &data)?;
        let tasks = TrainingTasks::new(&config, data.clone(), method.trains_on())?;
        let trainer = Trainer::resume(folder.clone(), &config, &data.hash, method)?;
        Ok(Run { config, folder, data, tasks, trainer })
    }

    /// The steps that stopped the run in `folder`, taken again: see [`Trainer::replay`].
    pub fn replay(folder: &Path, opener: &Opener<'_>) -> Result<Vec<(u64, StepReport)>> {
        let folder = RunFolder::open(folder)?;
        let config = folder.config()?;
        let data = TaskData::open(&config, channels(&config)?, opener)?;
        let method = new_method(&config, &data)?;
        let mut tasks = TrainingTasks::new(&config, data, method.trains_on())?;
        Trainer::replay(&folder, &config, method, &mut tasks)
    }

    /// Trains to the end, or until `stop` is set.
    pub fn train(&mut self, stop: &AtomicBool, on: &mut dyn FnMut(&Event)) -> Result<Outcome> {
        self.trainer.run(&mut self.tasks, stop, on)
    }

    /// The resolved config.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the run is.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The data of the run.
    pub fn data(&self) -> &TaskData {
        &self.data
    }

    /// How far training is, and what it met.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }
}

/// A trained model with the config and data it was trained by, ready for test.
pub struct Model {
    /// The method with its learned state.
    pub method: Box<dyn Method>,
    /// The config of the run, with settings applied.
    pub config: Config,
    /// Its data.
    pub data: TaskData,
    /// Training episodes the model has seen.
    pub episodes: u64,
}

impl Model {
    /// The best checkpoint of the run in `folder`, else its newest. `settings` change the config for test, e.g.
    /// `test.way=10` or `cdkt.test_steps=50`.
    pub fn open(folder: &Path, settings: &[String], opener: &Opener<'_>) -> Result<Model> {
        let folder = RunFolder::open(folder)?;
        let config = Config::load_saved(&folder.path().join("config.toml"), settings)?;
        let data = TaskData::open(&config, channels(&config)?, opener)?;
        let mut method = new_method(&config, &data)?;
        let path = if folder.best().exists() { folder.best() } else { folder.last() };
        let (position, state) = checkpoint::load(&path)?;
        method.load_state(&state)?;
        Ok(Model { method, config, data, episodes: position.episode })
    }
}

/// A fresh method as `config` describes it, for the classes of `data`.
pub fn new_method(config: &Config, data: &TaskData) -> Result<Box<dyn Method>> {
    method_for(config, data.split(SplitName::Train).classes.len())
}

/// A fresh method as `config` describes it, for training data of so many classes.
pub fn method_for(config: &Config, base_classes: usize) -> Result<Box<dyn Method>> {
    let setup = Setup {
        architecture: architecture(config)?,
        image_size: config.data.image_size as usize,
        way: config.episode.way,
        base_classes,
        seed: config.seed,
        device: device(config)?,
    };
    Ok(config.method.build(setup)?)
}

/// Gives a fresh method the backbone of a weight file. A resumed run has it in its checkpoint.
fn put_weights(method: &mut dyn Method, architecture: Architecture, path: &Path) -> Result<()> {
    let load = || -> std::result::Result<_, siskin_nn::Error> {
        let mut network = Network::new(architecture, 0, DeviceChoice::Cpu)?;
        network.load_weights(path)?;
        Ok(network.weights())
    };
    let mut state = method.state();
    state.put_backbone(load().map_err(siskin_methods::Error::from)?)?;
    Ok(method.load_state(&state)?)
}

/// The hardware and the precision that `config` names.
pub fn device(config: &Config) -> Result<DeviceChoice> {
    let choose = || -> std::result::Result<DeviceChoice, siskin_nn::Error> {
        let hardware: DeviceChoice = config.backbone.device.parse()?;
        hardware.with(config.backbone.precision.parse::<Precision>()?, config.backbone.fused)
    };
    Ok(choose().map_err(siskin_methods::Error::from)?)
}

fn architecture(config: &Config) -> Result<Architecture> {
    Ok(config.backbone.name.parse().map_err(siskin_methods::Error::from)?)
}

/// The channels the network of `config` takes.
pub fn channels(config: &Config) -> Result<Channels> {
    Ok(match architecture(config)?.channels() {
        1 => Channels::One,
        _ => Channels::Three,
    })
}
