//! `siskin export`: a run as one file that can be shipped.

pub(crate) mod card;

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use crate::model::on_data;
use siskin_adapt::{Card, Model, TestFacts};
use siskin_data::SplitName;
use siskin_train::under_test::{ModelUnderTest, is_model_file};
use std::path::{Path, PathBuf};

/// Arguments of `siskin export`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin export runs/omniglot --out omniglot.safetensors
  siskin export runs/cub --out birds.safetensors --name birds --set test.groups=1
  siskin export old.safetensors --out new.safetensors    a model file of an earlier format, converted
  siskin export birds.safetensors --data cub --keep-test --out new.safetensors   a model file, measured again on validation classes
  siskin export runs/cub --novelty-scores      which score says \"none of these\" best? Nothing is written

The file holds the weights and hyperparameters, without what only training needs, and a card: data, accuracy and
calibration on test classes, what training images look like, and what sets and \"none of these\" rest on, found on
validation classes for tasks of several shapes. The data of the run must be there. The card is also left in the run folder, so that the folder itself can be
given to `siskin adapt`.")]
pub(crate) struct Args {
    /// The run folder that `siskin train` wrote, or a model file to be converted or measured again.
    model: PathBuf,
    /// The data to measure a model file on, or another data set than the run's.
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    /// The file to write.
    #[arg(long, value_name = "FILE", required_unless_present = "novelty_scores")]
    out: Option<PathBuf>,
    /// What to call the model [default: the name of the file]
    #[arg(long)]
    name: Option<String>,
    /// Change one key of the run's config for the test. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Compare scores that could say "none of these" on validation classes, and write nothing.
    #[arg(long, conflicts_with_all = ["out", "name"])]
    novelty_scores: bool,
    /// Keep what the model file says of test classes, in place of measuring it again
    #[arg(long, requires = "data")]
    keep_test: bool,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let model = args.compute.device().open(&args.model.display().to_string())?;
    if let (true, None, Some(out)) = (is_model_file(&args.model), &args.data, &args.out) {
        return convert(model, out, args.name);
    }
    let change = |config| {
        let mut config = on_data(config, args.data.as_deref()).changed(&args.set)?;
        args.compute.apply(&mut config);
        Ok(config)
    };
    let open = |opener: &siskin_data::Opener<'_>| ModelUnderTest::open_changed(&args.model, change, opener);
    let run = args.read.with_opener(args.read.on_bad(), open)?;
    let Some(out) = args.out else { return novelty_scores(&run, &model) };
    let stem = out.file_stem().map(|s| s.to_string_lossy().into_owned());
    let name = args.name.or(stem).unwrap_or_else(|| "model".into());
    let card = card::measure(&run, &model, (&name, args.keep_test), &mut |line| say!("{line}"))?;
    let model = model.with_card(card)?;
    model.export(&out)?;
    model.card()?.test.iter().for_each(print_test);
    let bytes = std::fs::metadata(&out)?.len();
    say!("Written: {} ({bytes} bytes, hash {}).", out.display(), &model.hash()[..12]);
    say!("Next: siskin adapt FOLDER --model {}", siskin_data::shell::quoted(&out));
    Ok(())
}

/// Writes a model file again in today's format, with the card it has.
fn convert(model: Model, out: &Path, name: Option<String>) -> anyhow::Result<()> {
    let card = model.card()?.clone();
    let model = model.with_card(Card { name: name.unwrap_or_else(|| card.name.clone()), ..card })?;
    model.export(out)?;
    say!("Written: {}, the same model in the format of today (hash {}).", out.display(), &model.hash()[..12]);
    Ok(())
}

fn print_test(test: &TestFacts) {
    say!(
        "{}-way {}-shot on {} test episodes: accuracy {:.2} ± {:.2} % (95 % interval)",
        test.way,
        test.shot,
        test.episodes,
        100.0 * test.accuracy.mean,
        100.0 * test.accuracy.spread
    );
    say!(
        "  as predicted: ECE {:.3}, NLL {:.3}; with T = {:.3} of validation: ECE {:.3}, NLL {:.3}",
        test.raw.ece,
        test.raw.nll,
        test.temperature,
        test.tuned.ece,
        test.tuned.nll
    );
}

/// Which score says best that a query is of none of a task's classes, for tasks of several shapes.
fn novelty_scores(run: &ModelUnderTest, model: &Model) -> anyhow::Result<()> {
    for (way, shot) in card::SHAPES {
        say!("{way} classes, {shot} each");
        let Some(measured) = card::of_shape(run, model, (way, shot), None)? else {
            say!("  {}", card::too_few(run, SplitName::Val, (way, shot)));
            continue;
        };
        for score in measured.novelty_scores()? {
            say!(
                "  {:20} AUROC {:.3}   {:4.1} % of strangers at 5 % false alarms",
                score.name,
                score.auroc,
                100.0 * score.detection
            );
        }
    }
    Ok(())
}
