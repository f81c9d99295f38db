//! `siskin calibrate`: how far a model's probabilities can be trusted, before and after tuning on validation episodes.

use crate::model::MeasureArgs;
use siskin_calib::{Measures, PAPER_BINS, Reliability};
use siskin_data::SplitName;
use siskin_train::calibration::{Calibrated, Calibration, calibrate};
use siskin_train::plot::{ReliabilityPanel, reliability_diagrams, render_png};
use siskin_train::protocol;
use siskin_train::report::Tested;
use std::path::Path;

/// Arguments of `siskin calibrate`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin calibrate runs/omniglot
  siskin calibrate runs/omniglot --released        also by the protocol of the paper's published code
  siskin calibrate runs/omniglot --set test.shot=5
  siskin calibrate cub.safetensors --data cub      a model file of siskin export

The temperature is fitted by NLL on one batch of validation episodes; every other figure is of the test episodes.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: MeasureArgs,
    /// Also search the two temperatures of the paper's published code (slower: 40 times the prediction work).
    #[arg(long)]
    released: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let model = args.model.open(&[SplitName::Val, SplitName::Test])?;
    let validation = crate::asking::answers(&model, SplitName::Val)?;
    let test = crate::asking::answers(&model, SplitName::Test)?;
    let calibrated = calibrate(&validation, &test, args.released)?;
    let json = serde_json::to_string_pretty(&calibrated.measures)?;
    if let Some(folder) = args.model.folder() {
        siskin_train::atomic::write(&folder.join("calibration.json"), json.as_bytes())?;
        draw(&calibrated, folder)?;
    }
    let page = args.model.page();
    if let Some(path) = &page {
        let (report, found) = (protocol::report(&model, &test)?, Some(&calibrated));
        let folder = args.model.folder();
        let tested = Tested { model: &model, folder, report: &report, answers: &test, calibrated: found };
        siskin_train::atomic::write(path, tested.html()?.as_bytes())?;
    }
    if args.model.json {
        say!("{json}");
        return Ok(());
    }
    print(&calibrated.measures);
    if args.released && calibrated.measures.released.is_none() {
        say!(
            "The published protocol tunes latent Gaussians; this method has none, so its rows are left out."
        );
    }
    if let Some(folder) = args.model.folder() {
        say!(
            "Written: calibration.json, reliability-raw.svg/.png and reliability-tuned.svg/.png in {}.",
            folder.display()
        );
    }
    if let Some(path) = &page {
        say!("Open {} in a browser: all of it on one page.", path.display());
    }
    Ok(())
}

/// The reliability diagrams before and after tuning.
fn draw(calibrated: &Calibrated, folder: &Path) -> anyhow::Result<()> {
    for (name, predictions, m) in [
        ("raw", &calibrated.raw, calibrated.measures.raw),
        ("tuned", &calibrated.tuned, calibrated.measures.tuned),
    ] {
        let reliability = Reliability::new(predictions, PAPER_BINS)?;
        let panel = ReliabilityPanel {
            title: format!("{name} probabilities"),
            reliability: &reliability,
            nll: Some(m.nll),
        };
        let svg = reliability_diagrams(&[panel]);
        siskin_train::atomic::write(&folder.join(format!("reliability-{name}.svg")), svg.as_bytes())?;
        let png = folder.join(format!("reliability-{name}.png"));
        siskin_train::atomic::write(&png, &render_png(&svg, 2.0)?)?;
    }
    Ok(())
}

/// The measures as a table.
pub(crate) fn print(measures: &Calibration) {
    say!("{:24} {:>8} {:>8} {:>8} {:>8} {:>8}", "", "accuracy", "ECE", "MCE", "NLL", "Brier");
    let row = |name: &str, m: &Measures| {
        say!("{name:24} {:8.4} {:8.4} {:8.4} {:8.4} {:8.4}", m.accuracy, m.ece, m.mce, m.nll, m.brier);
    };
    row("validation, raw", &measures.validation);
    row("raw", &measures.raw);
    row(&format!("tuned (T = {:.3})", measures.temperature.value), &measures.tuned);
    if let Some(released) = &measures.released {
        row("published code, by ECE", &released.by_ece);
        row("published code, by MCE", &released.by_mce);
    }
}
