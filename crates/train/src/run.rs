//! A run from its config or its folder: data, method and trainer put together.

use crate::checkpoint;
use crate::config::{BackboneConfig, Config};
use crate::episodes::PhaseEpisodes;
use crate::error::{Error, Result};
use crate::frozen;
use crate::phase::{Phase, phases};
use crate::run_data::RunData;
use crate::run_folder::RunFolder;
use crate::team;
use crate::trainer::{Event, Outcome, Trainer, phase_at};
use siskin_data::{Channels, Opener};
use siskin_methods::{Method, StepReport};
use siskin_model::Model;
use siskin_nn::{Architecture, DeviceChoice, NamedTensor, Network};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A training run.
pub struct Run {
    config: Config,
    phases: Vec<Phase>,
    folder: RunFolder,
    data: RunData,
    episodes: PhaseEpisodes,
    trainer: Trainer,
}

impl Run {
    /// A new run in the folder `out`.
    pub fn start(out: &Path, config: Config, opener: &Opener<'_>) -> Result<Run> {
        let data = same_data(RunData::open(&config, channels(&config), opener))?;
        if data.drops_colour() {
            opener.progress.note(&format!(
                "Note: these images have colours, but {} sees their first channel (red) alone. For colour photos set \
                 backbone.name = \"conv4\" and data.image_size = 84.",
                config.backbone.name
            ));
        }
        let phases = phases(&config)?;
        // What a later phase cannot do is said now, not after hours.
        for phase in &phases {
            frozen::check(phase)?;
            let method = new_method(&phase.config, &data)?;
            phase.check(method.as_ref())?;
            PhaseEpisodes::new(phase, data.clone(), method.trains_on())?;
        }
        let mut method = new_method(&phases[0].config, &data)?;
        if let Some(weights) = &config.backbone.weights {
            put_weights(method.as_mut(), config.backbone.name, weights)?;
        }
        let episodes = PhaseEpisodes::new(&phases[0], data.clone(), method.trains_on())?;
        team::from_first(team::current().as_ref(), || {
            RunFolder::create(out, &config, &data.hash).map(|_| Vec::new())
        })?;
        let folder = RunFolder::of_first(out);
        let trainer = Trainer::start(folder.clone(), &config, &data.facts(), method)?;
        Ok(Run { config, phases, folder, data, episodes, trainer })
    }

    /// The run in `folder`, from its newest checkpoint.
    pub fn resume(folder: &Path, opener: &Opener<'_>) -> Result<Run> {
        let team = team::current();
        let text = team::from_first(team.as_ref(), || {
            Ok(RunFolder::open(folder)?.config()?.to_toml().into_bytes())
        })?;
        let config = Config::parse_saved(&String::from_utf8_lossy(&text), &[])?;
        let folder = RunFolder::of_first(folder);
        let data = same_data(RunData::open(&config, channels(&config), opener))?;
        let newest = folder.newest();
        let bytes = team::from_first(team.as_ref(), || checkpoint::read(&newest))?;
        let phase = phase_at(&config, checkpoint::parse(&newest, &bytes)?.0.phase)?;
        let method = new_method(&phase.config, &data)?;
        let episodes = PhaseEpisodes::new(&phase, data.clone(), method.trains_on())?;
        let trainer = Trainer::resume(folder.clone(), &config, &data.facts(), method)?;
        let phases = phases(&config)?;
        Ok(Run { config, phases, folder, data, episodes, trainer })
    }

    /// The steps that stopped the run in `folder`, taken again: see [`Trainer::replay`].
    pub fn replay(folder: &Path, opener: &Opener<'_>) -> Result<Vec<(u64, StepReport)>> {
        let folder = RunFolder::open(folder)?;
        let config = folder.config()?;
        let data = RunData::open(&config, channels(&config), opener)?;
        let phase = phase_at(&config, checkpoint::load(&folder.diverged())?.0.phase)?;
        let method = new_method(&phase.config, &data)?;
        let mut episodes = PhaseEpisodes::new(&phase, data, method.trains_on())?;
        Trainer::replay(&folder, &phase, method, &mut episodes)
    }

    /// Trains to the end of the last phase, or until `stop` is set.
    pub fn train(&mut self, stop: &AtomicBool, on: &mut dyn FnMut(&Event)) -> Result<Outcome> {
        siskin_gp::keep_freed_memory();
        loop {
            let phase = self.trainer.phase();
            if let Some(name) = phase.name.clone() {
                on(&Event::Phase { index: phase.index, count: self.phases.len(), name });
            }
            let outcome = self.trainer.run(&mut self.episodes, stop, on)?;
            let next = self.phases.get(self.trainer.phase().index + 1).cloned();
            let (Outcome::Finished, Some(next)) = (outcome, next) else {
                // Nobody goes on to test a model that rank 0 has not written yet.
                team::from_first(team::current().as_ref(), || Ok(Vec::new()))?;
                return Ok(outcome);
            };
            let method = new_method(&next.config, &self.data)?;
            self.episodes = PhaseEpisodes::new(&next, self.data.clone(), method.trains_on())?;
            self.trainer.enter(next, method)?;
        }
    }

    /// The config as it was given: the phases override its keys.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Training episodes of all phases.
    pub fn length(&self) -> u64 {
        self.phases.last().map_or(0, Phase::end)
    }

    /// Where the run is.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The data of the run.
    pub fn data(&self) -> &RunData {
        &self.data
    }

    /// How far training is, and what it met.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }
}

/// The data of this rank, where those of all ranks are the same.
fn same_data(own: Result<RunData>) -> Result<RunData> {
    let (hash, data) = match own {
        Ok(data) => (Ok(data.hash.clone().into_bytes()), Some(data)),
        Err(error) => (Err(error), None),
    };
    let all = team::gather(team::current().as_ref(), hash, &AtomicBool::new(false))?;
    match (all.iter().position(|other| *other != all[0]), data) {
        (None, Some(data)) => Ok(data),
        (other, _) => Err(Error::Run(format!(
            "rank {} has other data than rank 0: import the same data in the cache of every machine",
            other.unwrap_or_default()
        ))),
    }
}

/// A fresh method as `config` describes it, for the classes of `data`.
pub fn new_method(config: &Config, data: &RunData) -> Result<Box<dyn Method>> {
    Ok(config.model(data.base_classes(), data.network.as_ref()).build(device(config)?)?)
}

/// Gives a fresh method the backbone of a trained model or of a weight file. A resumed run has it in its checkpoint.
fn put_weights(method: &mut dyn Method, architecture: Architecture, given: &str) -> Result<()> {
    let weights = match Model::backbone_of(given)? {
        Some((found, weights)) if found == architecture => weights,
        Some((found, _)) => {
            return Err(Error::Config(format!(
                "backbone.weights: {given} has a {found}, this run a {architecture} (backbone.name)"
            )));
        }
        None => weights_of_file(architecture, Path::new(given)).map_err(siskin_methods::Error::from)?,
    };
    let mut state = method.state();
    state.put_backbone(weights)?;
    Ok(method.load_state(&state)?)
}

fn weights_of_file(
    architecture: Architecture,
    path: &Path,
) -> std::result::Result<Vec<NamedTensor>, siskin_nn::Error> {
    let mut network = Network::new(architecture, 0, DeviceChoice::Cpu)?;
    network.load_weights(path)?;
    Ok(network.weights())
}

/// The hardware and the precision that `config` names.
pub fn device(config: &Config) -> Result<DeviceChoice> {
    let BackboneConfig { device, precision, fused, .. } = config.backbone;
    Ok(DeviceChoice::from(device).with(precision.into(), fused).map_err(siskin_methods::Error::from)?)
}

/// The channels the network of `config` takes.
pub(crate) fn channels(config: &Config) -> Channels {
    match config.backbone.name.channels() {
        1 => Channels::One,
        _ => Channels::Three,
    }
}
