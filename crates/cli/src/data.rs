//! `siskin data`: what is in a data set, and is it sound.

/// Arguments of `siskin data`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("`siskin data` is not built yet")
}
