//! `siskin test`: accuracy of a trained model by the paper's protocol.

use crate::model::MeasureArgs;
use siskin_calib::MeanSpread;
use siskin_data::SplitName;
use siskin_train::protocol::{self, TestReport};
use siskin_train::report::Tested;

/// Arguments of `siskin test`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin test runs/omniglot                                  5 groups of 600 episodes, as trained
  siskin test runs/omniglot --set test.way=20 --set test.shot=5   other episodes than trained
  siskin test runs/omniglot --set test.groups=1              a quicker look
  siskin test cub.safetensors --data cub                     a model file of siskin export
  siskin test runs/cub --episodes cub-5shot.jsonl            the episodes of a list (siskin data episodes)")]
pub(crate) struct Args {
    #[command(flatten)]
    model: MeasureArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let model = args.model.open(&[SplitName::Test])?;
    let answers = crate::asking::answers(&model, SplitName::Test)?;
    let report = protocol::report(&model, &answers)?;
    let tested = Tested {
        model: &model,
        folder: args.model.folder(),
        report: &report,
        answers: &answers,
        calibrated: None,
    };
    if let Some(folder) = args.model.folder() {
        tested.write(folder)?;
    }
    if let Some(path) = &args.model.report {
        siskin_train::atomic::write(path, tested.html()?.as_bytes())?;
    }
    if args.model.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    print(&report);
    if let Some(folder) = args.model.folder() {
        say!("Written: test.json, test-episodes.jsonl and report.html in {}.", folder.display());
    }
    Ok(())
}

/// The report in a few lines.
pub(crate) fn print(report: &TestReport) {
    say!("{}, model after {} training episodes", report.protocol(), report.trained_episodes);
    let line = |name: &str, of: &MeanSpread, what: &str| {
        say!("  {name:8} {:.2} ± {:.2} %  (mean ± {what})", 100.0 * of.mean, 100.0 * of.spread);
    };
    line("accuracy", &report.over_episodes, "95 % interval over episodes");
    if report.groups.len() > 1 {
        line("", &report.over_groups, "std over groups");
    }
}
