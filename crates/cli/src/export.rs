//! `siskin export`: a run as one file that can be shipped.

use crate::data::source::ReadArgs;
use siskin_app::export;
use std::path::PathBuf;

/// Arguments of `siskin export`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin export runs/omniglot --out omniglot.safetensors
  siskin export runs/cub --out birds.safetensors --name birds --set test.batches=1

The file holds the weights and hyperparameters, without what only training needs, and a card: config, data, accuracy and
calibration on test classes, and temperatures found on validation classes for tasks of several shapes. The data of the
run must be there. The card is also left in the run folder, so that the folder itself can be given to `siskin adapt`.")]
pub struct Args {
    /// The run folder that `siskin train` wrote.
    run: PathBuf,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// What to call the model [default: the name of the file]
    #[arg(long)]
    name: Option<String>,
    /// Change one key of the run's config for the test. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    let stem = args.out.file_stem().map(|s| s.to_string_lossy().into_owned());
    let name = args.name.or(stem).unwrap_or_else(|| "model".into());
    let model = args.read.with_opener(args.read.on_bad(), |opener| {
        export::from_run(&args.run, &name, &args.set, opener, &mut |line| say!("{line}"))
    })?;
    model.export(&args.out)?;
    if let Some(test) = &model.card().test {
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
    let bytes = std::fs::metadata(&args.out)?.len();
    say!("Written: {} ({bytes} bytes, hash {}).", args.out.display(), &model.hash()[..12]);
    say!("Next: siskin adapt FOLDER --model {}", args.out.display());
    Ok(())
}
