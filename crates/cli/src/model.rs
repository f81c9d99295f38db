//! The trained model a command looks at: a run folder or a model file, changed settings, device and reading rules.

use crate::compute::{ComputeArgs, DeviceArg};
use crate::data::source::ReadArgs;
use siskin_data::SplitName;
use siskin_train::config::Config;
use siskin_train::under_test::{ModelUnderTest, is_model_file};
use std::path::{Path, PathBuf};

/// Which model, and how it is computed: shared by test, calibrate and trust.
#[derive(clap::Args)]
pub(crate) struct ModelArgs {
    /// The run folder that `siskin train` wrote, a model file of `siskin export`, or the name of an embedded model.
    #[arg(value_name = "MODEL")]
    pub path: PathBuf,
    /// The data to test on, in place of the run's: the name of an imported data set or a path. A model file needs it.
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    /// Change one key of the model's config for this command. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl ModelArgs {
    /// Opens it with its data, to be asked episodes of these splits.
    pub(crate) fn open(&self, asked: &[SplitName]) -> anyhow::Result<ModelUnderTest> {
        let change = |config: Config| {
            let mut config = on_data(config, self.data.as_deref()).changed(&self.set)?;
            self.compute.apply(&mut config);
            Ok(config)
        };
        let open =
            |opener: &siskin_data::Opener<'_>| ModelUnderTest::open_for(&self.path, change, asked, opener);
        let model = self.read.with_opener(self.read.on_bad(), open)?;
        tell_notice(model.notice.clone());
        Ok(model)
    }

    /// Where its network is computed.
    pub(crate) fn device(&self) -> DeviceArg {
        self.compute.device()
    }

    /// The folder that figures of the model are written to; none for a model file.
    pub(crate) fn folder(&self) -> Option<&Path> {
        (!is_model_file(&self.path)).then_some(self.path.as_path())
    }
}

/// A model that is measured, on which episodes, and what is written: shared by test and calibrate.
#[derive(clap::Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Measure on the episodes of this list (`siskin data episodes`), in place of those of the config
    #[arg(long, value_name = "FILE")]
    episodes: Option<PathBuf>,
    /// Where to write the page [default: report.html in the run folder; none for a model file]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

impl MeasureArgs {
    /// Opens the model with its data and the list of its episodes.
    pub(crate) fn open(&self, asked: &[SplitName]) -> anyhow::Result<ModelUnderTest> {
        let mut model = self.model.open(asked)?;
        if let Some(list) = &self.episodes {
            model.ask(list)?;
        }
        Ok(model)
    }

    /// See [`ModelArgs::folder`].
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.model.folder()
    }

    /// Where the page goes: to the file asked for, or into the run folder; none for a model file.
    pub(crate) fn page(&self) -> Option<PathBuf> {
        self.report.clone().or_else(|| self.folder().map(|folder| folder.join("report.html")))
    }
}

/// Warns of a model of an earlier format.
pub(crate) fn tell_notice(notice: Option<String>) {
    if let Some(notice) = notice {
        tell!("WARNING: {notice}");
    }
}

/// The config with other data, where some is given.
pub(crate) fn on_data(config: Config, data: Option<&str>) -> Config {
    match data {
        Some(data) => config.on_data(data),
        None => config,
    }
}
