//! The trained model a command looks at: its run folder, changed settings, device and reading rules.

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use siskin_train::config::Config;
use siskin_train::run::Model;
use std::path::PathBuf;

/// Which model, and how it is computed: shared by test and calibrate.
#[derive(clap::Args)]
pub struct ModelArgs {
    /// The run folder that `siskin train` wrote.
    pub run: PathBuf,
    /// Change one key of the run's config for this command. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl ModelArgs {
    /// Opens it with its data.
    pub fn open(&self) -> anyhow::Result<Model> {
        let change = |config: Config| {
            let mut config = config.changed(&self.set)?;
            self.compute.apply(&mut config);
            Ok(config)
        };
        self.read.with_opener(self.read.on_bad(), |opener| Model::open_changed(&self.run, change, opener))
    }
}
