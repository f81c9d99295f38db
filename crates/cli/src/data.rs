//! `siskin data`: what is in a data set, is it sound, and what do its episodes look like.

mod check;
mod episodes;
mod import;
mod list;
mod preview;
pub(crate) mod progress;
pub(crate) mod source;
mod split;

use clap::Subcommand;

/// Arguments of `siskin data`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the data sets that can be used by name, and those that can be imported.
    List(list::Args),
    /// Read a folder, archive, list or original download once, check it, and keep it under a name.
    Import(import::Args),
    /// Read every file of a data set anew; count classes and images, and name everything that is wrong.
    Check(check::Args),
    /// Show the splits of a data set, or make one at random.
    Split(split::Args),
    /// Write a contact sheet, or one episode, as a PNG.
    Preview(preview::Args),
    /// Write a list of episodes that every method can be tested on.
    Episodes(episodes::Args),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::List(args) => list::run(args),
        Command::Import(args) => import::run(args),
        Command::Check(args) => check::run(args),
        Command::Split(args) => split::run(args),
        Command::Preview(args) => preview::run(args),
        Command::Episodes(args) => episodes::run(args),
    }
}
