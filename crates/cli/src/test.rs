//! `siskin test`: accuracy of a trained model by the paper's protocol.

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use siskin_calib::MeanSpread;
use siskin_data::SplitName;
use siskin_train::run::Model;
use siskin_train::testing::{self, TestReport};
use std::path::PathBuf;

/// Arguments of `siskin test`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin test runs/omniglot                                  5 batches of 600 episodes, as trained
  siskin test runs/omniglot --set test.way=20 --set test.shot=5   other episodes than trained
  siskin test runs/omniglot --set test.batches=1              a quicker look")]
pub struct Args {
    /// The run folder that `siskin train` wrote.
    run: PathBuf,
    /// Change one key of the run's config for this test. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    let settings = args.compute.settings(&args.set);
    let model =
        args.read.with_opener(args.read.on_bad(), |opener| Model::open(&args.run, &settings, opener))?;
    let answers = testing::answers(&model, SplitName::Test, model.config.test.batches)?;
    let report = testing::report(&model, &answers)?;
    testing::write_episodes(&args.run.join("test-episodes.jsonl"), &answers, model.config.test.episodes)?;
    let json = serde_json::to_string_pretty(&report)?;
    siskin_train::atomic::write(&args.run.join("test.json"), json.as_bytes())?;
    if args.json {
        say!("{json}");
    } else {
        print(&report);
        say!("Written: test.json and test-episodes.jsonl in {}.", args.run.display());
    }
    Ok(())
}

/// The report in a few lines.
pub fn print(report: &TestReport) {
    say!("{}, model after {} training episodes", report.protocol(), report.trained_episodes);
    let line = |name: &str, of: &MeanSpread, what: &str| {
        say!("  {name:8} {:.2} ± {:.2} %  (mean ± {what})", 100.0 * of.mean, 100.0 * of.spread);
    };
    line("accuracy", &report.over_episodes, "95 % interval over episodes");
    if report.batches.len() > 1 {
        line("", &report.over_batches, "std over batches");
    }
}
