//! `siskin quickstart`: train, test and calibrate on the embedded glyphs, and show the result.

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use anyhow::Context;
use siskin_data::SplitName;
use siskin_train::calibration::calibrate;
use siskin_train::config::Config;
use siskin_train::protocol;
use siskin_train::report::Tested;
use siskin_train::run::Run;
use siskin_train::trainer::Outcome;
use siskin_train::under_test::ModelUnderTest;
use std::path::PathBuf;

/// The config of the quickstart: small enough for three minutes on two cores.
const CONFIG: &str = include_str!("../../../configs/quickstart.toml");

/// Arguments of `siskin quickstart`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run folder to write. If it holds an unfinished quickstart, that one goes on.
    #[arg(long, value_name = "FOLDER", default_value = "runs/quickstart")]
    out: PathBuf,
    /// Change one key of the config, e.g. --set train.episodes=1000. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut config = Config::parse(CONFIG, &args.set).context("the quickstart config")?;
    args.compute.apply(&mut config);
    say!(
        "Handwriting-like characters, drawn by the program: 5 classes it has never seen, one example of each."
    );
    let resumed = args.out.join("last.safetensors").exists();
    anyhow::ensure!(
        !resumed || (args.set.is_empty() && !args.compute.given()),
        "{} holds a run already, and what --set, --device or --precision say has no effect on it. Choose another folder with --out, or \
         leave them out.",
        args.out.display()
    );
    let mut run = args.read.with_opener(args.read.on_bad(), |opener| match resumed {
        true => Run::resume(&args.out, opener),
        false => Run::start(&args.out, config.clone(), opener),
    })?;
    say!("Training on {} episodes.", run.length());
    if crate::train::train(&mut run)? == Outcome::Stopped {
        say!("Stopped and saved. Start it again to go on.");
    }
    crate::stop::check()?;
    drop(run);
    let model =
        args.read.with_opener(args.read.on_bad(), |opener| ModelUnderTest::open(&args.out, &[], opener))?;
    say!(
        "Testing on {} episodes of classes not seen in training.",
        model.config.test.groups * model.config.test.episodes
    );
    let validation = crate::asking::answers(&model, SplitName::Val)?;
    let answers = crate::asking::answers(&model, SplitName::Test)?;
    let test = protocol::report(&model, &answers)?;
    let calibrated = calibrate(&validation, &answers, false)?;
    let page = Tested {
        model: &model,
        folder: Some(&args.out),
        report: &test,
        answers: &answers,
        calibrated: Some(&calibrated),
    };
    let path = args.out.join("report.html");
    siskin_train::atomic::write(&path, page.html()?.as_bytes())?;
    say!("");
    crate::test::print(&test);
    crate::calibrate::print(&calibrated.measures);
    say!(
        "\nOpen {} in a browser: reliability diagram, an episode with its probabilities, the training curve.",
        path.display()
    );
    say!("Next: siskin serve; siskin --help; your own images: docs/data.md");
    Ok(())
}
