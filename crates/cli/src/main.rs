//! The `siskin` command: one file a subcommand, nothing else.

mod data;

use clap::{Parser, Subcommand};

/// Calibrated few-shot classification with deep-kernel Gaussian processes.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look at, import, check and split data sets, and draw episodes from them.
    Data(data::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Data(args) => data::run(args),
    }
}
