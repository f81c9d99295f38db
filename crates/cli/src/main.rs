//! The `siskin` command: one file a subcommand, nothing else.

#[macro_use]
mod out;

mod adapt;
mod asking;
mod bench;
mod calibrate;
mod compare;
mod completions;
mod compute;
mod data;
mod doctor;
mod embed;
mod explain;
mod export;
mod figures;
mod fit;
mod man;
mod methods;
mod model;
mod models;
mod predict;
mod progress_lines;
mod quickstart;
mod ranks;
mod reproduce;
mod serve;
mod stop;
mod suggest;
mod sweep;
mod test;
mod train;
mod training_bar;
mod trust;
mod watch;

use clap::{CommandFactory, Parser, Subcommand};

/// Calibrated few-shot classification with deep-kernel Gaussian processes.
///
/// It learns from many small tasks to tell new classes apart from one or a few labelled images of each, and says how sure it
/// is. `siskin quickstart` shows it without any data.
#[derive(Parser)]
#[command(
    version,
    after_help = "First steps:
  siskin quickstart                         see it work, no data needed
  siskin serve                              draw, or drop photos, in a browser
  siskin adapt FOLDER                       a classifier from a few labelled images; then: siskin predict
  siskin model add FILE.onnx --name NAME    a pretrained network for photos; then: siskin adapt FOLDER --model NAME
  siskin data import omniglot.tar.gz        bring a data set
  siskin train configs/omniglot-1shot.toml  train, then: siskin test, siskin calibrate"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Threads to use [default: all cores]. Results do not depend on it.
    #[arg(long, global = true, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Train, test and calibrate on embedded data in a few minutes, and write a report.
    Quickstart(quickstart::Args),
    /// Look at, import, check and split data sets, and draw episodes from them.
    Data(data::Args),
    /// List the methods that can be trained.
    Methods,
    /// Meta-train a model by a config file.
    Train(train::Args),
    /// Say how far a training is, by what it has written so far.
    Watch(watch::Args),
    /// Measure the accuracy of a trained model on episodes of unseen classes.
    Test(test::Args),
    /// Measure and tune the calibration of a trained model.
    Calibrate(calibrate::Args),
    /// Train and test several methods on the same episodes, and say how far they differ.
    Compare(compare::Args),
    /// Train and test what a table of the paper needs, and write the table with its figures and ours.
    Reproduce(reproduce::Args),
    /// Train and test many runs by one table of settings, on this machine or by Slurm or HyperQueue.
    Sweep(sweep::Args),
    /// Draw the paper's figures.
    Figures(figures::Args),
    /// Time a training and a test episode on this machine.
    Bench(bench::Args),
    /// Write a trained model and what was measured of it as one file.
    Export(export::Args),
    /// Add, list and try other people's pretrained networks (ONNX).
    Model(models::Args),
    /// Write what a model's network gives for images: a file of vectors.
    Embed(embed::Args),
    /// Make a classifier from a few labelled images (or vectors): a task file.
    Adapt(adapt::Args),
    /// Make a classifier from a table of labelled vectors, few or many.
    Fit(fit::Args),
    /// Say what is on images (or which class vectors have), and how sure that is.
    Predict(predict::Args),
    /// Say which images to label next, and whether more labels would help.
    Suggest(suggest::Args),
    /// Measure what answers are worth on tasks of test classes: sets, "none of these", leave-one-out.
    Trust(trust::Args),
    /// Serve an HTTP API and a web page: draw, drop photos, ask.
    Serve(serve::Args),
    /// Say what this machine can do: processor, devices, models, cache.
    Doctor(doctor::Args),
    /// Say what a word means: ECE, shot, conformal set, ...
    Explain(explain::Args),
    /// Print the manual page, or write one for every subcommand.
    Man(man::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    ranks::run(shares_its_work(cli.command.as_ref()), || match run(cli) {
        Ok(()) => 0,
        Err(error) => match error.downcast_ref::<stop::Stopped>() {
            Some(stopped) => stopped.exit_code(),
            None => {
                out::failure(&error);
                // Ranks that do not come to a meeting because they were stopped too: the state is saved, as if they had come.
                let lost = matches!(error.downcast_ref(), Some(siskin_train::Error::RankLost));
                stop::check().err().filter(|_| lost).map_or(1, |stopped| stopped.exit_code())
            }
        },
    })
}

/// Whether ranks share the work of this command.
fn shares_its_work(command: Option<&Command>) -> bool {
    match command {
        Some(Command::Train(args)) => args.shares_its_work(),
        Some(Command::Test(_) | Command::Calibrate(_) | Command::Compare(_)) => true,
        _ => false,
    }
}

/// An error and its causes in one line; a cause that it contains already is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

fn run(cli: Cli) -> anyhow::Result<()> {
    if let Some(threads) = cli.threads.or_else(ranks::threads) {
        ranks::tell_cores(threads);
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    }
    let command = match cli.command {
        None if run_by_cargo() => Cli::parse_from(["siskin", "quickstart"]).command,
        command => command,
    };
    // The server stops in its own way: it finishes the requests under way.
    if !matches!(command, Some(Command::Serve(_))) {
        stop::listen()?;
    }
    match command {
        Some(Command::Data(args)) => data::run(args),
        Some(Command::Methods) => methods::run(),
        Some(Command::Train(args)) => train::run(args),
        Some(Command::Watch(args)) => watch::run(&args),
        Some(Command::Test(args)) => test::run(args),
        Some(Command::Calibrate(args)) => calibrate::run(args),
        Some(Command::Compare(args)) => compare::run(args),
        Some(Command::Reproduce(args)) => reproduce::run(args),
        Some(Command::Sweep(args)) => sweep::run(args),
        Some(Command::Figures(args)) => figures::run(args),
        Some(Command::Fit(args)) => fit::run(args),
        Some(Command::Bench(args)) => bench::run(args),
        Some(Command::Quickstart(args)) => quickstart::run(args),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Model(args)) => models::run(args),
        Some(Command::Embed(args)) => embed::run(args),
        Some(Command::Adapt(args)) => adapt::run(args),
        Some(Command::Predict(args)) => predict::run(args),
        Some(Command::Suggest(args)) => suggest::run(&args),
        Some(Command::Trust(args)) => trust::run(&args),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Doctor(args)) => doctor::run(args),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Man(args)) => man::run::<Cli>(&args),
        Some(Command::Completions(args)) => completions::run::<Cli>(&args),
        None => {
            // Nothing is written where nothing was asked for.
            say!("{}", Cli::command().render_help());
            Ok(())
        }
    }
}

/// Whether this is the README's `cargo run --release`, which shows the quickstart. Cargo says what it runs.
fn run_by_cargo() -> bool {
    std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name == env!("CARGO_PKG_NAME"))
        && std::env::var_os("CARGO_MANIFEST_DIR").is_some()
}

#[cfg(test)]
mod tests {
    #[test]
    fn causes_are_told_once() {
        let inner = std::io::Error::other("the disk is full");
        let error =
            anyhow::Error::new(inner).context("cannot save: the disk is full").context("training stopped");
        assert_eq!(super::sentence(&error), "training stopped: cannot save: the disk is full");
    }
}
