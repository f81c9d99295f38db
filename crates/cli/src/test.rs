//! `siskin test`: accuracy of a trained model by the paper's protocol.

use crate::model::ModelArgs;
use siskin_calib::MeanSpread;
use siskin_data::SplitName;
use siskin_train::protocol::{self, TestReport};

/// Arguments of `siskin test`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin test runs/omniglot                                  5 groups of 600 episodes, as trained
  siskin test runs/omniglot --set test.way=20 --set test.shot=5   other episodes than trained
  siskin test runs/omniglot --set test.groups=1              a quicker look
  siskin test cub.safetensors --data cub                     a model file of siskin export")]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    let model = args.model.open()?;
    let answers = protocol::answers(&model, SplitName::Test, model.config.test.groups)?;
    let report = protocol::report(&model, &answers)?;
    let json = serde_json::to_string_pretty(&report)?;
    if let Some(folder) = args.model.folder() {
        let episodes = folder.join("test-episodes.jsonl");
        protocol::write_episodes(&episodes, &answers, model.config.test.episodes)?;
        siskin_train::atomic::write(&folder.join("test.json"), json.as_bytes())?;
    }
    if args.json {
        say!("{json}");
        return Ok(());
    }
    print(&report);
    if let Some(folder) = args.model.folder() {
        say!("Written: test.json and test-episodes.jsonl in {}.", folder.display());
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
    if report.groups.len() > 1 {
        line("", &report.over_groups, "std over groups");
    }
}
