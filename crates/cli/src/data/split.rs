//! `siskin data split`.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::json;
use siskin_data::check::count_splits;
use siskin_data::split::{Scheme, SplitName};
use siskin_data::{Opened, Splits};

use super::source::DataArgs;

/// Arguments of `siskin data split`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  siskin data split --data omniglot                       the splits there are
  siskin data split --data birds/ --make 60,20 --out birds/splits.json
                                                          60 classes to train, 20 to validate, the rest to test
  siskin data split --data omniglot --rotations --scheme noLatin --cross emnist
                                                          base of one data set, val and test of another")]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Make a split at random: numbers of training and of validation classes; the rest is for the test
    #[arg(long, value_name = "TRAIN,VAL", value_delimiter = ',', num_args = 1.., requires = "out")]
    make: Option<Vec<usize>>,
    /// Seed of the random split
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where to write the random split. It is read from `splits.json` beside the classes, or by --splits
    #[arg(long, value_name = "FILE", requires = "make")]
    out: Option<PathBuf>,
    /// The split to show, where the data set has several
    #[arg(long, value_name = "NAME")]
    scheme: Option<String>,
    /// Show the cross-domain split: base from --data, validation and novel from this data set
    #[arg(long, value_name = "PATH|NAME", conflicts_with = "make")]
    cross: Option<String>,
    /// Print JSON, with the names of the classes
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let opened = args.data.open(args.data.read.on_bad(), false)?;
    if let (Some(make), Some(out)) = (&args.make, &args.out) {
        return write_random(&opened, make, args.seed, out);
    }
    if let Some(target) = &args.cross {
        let target =
            args.data.read.with_opener(args.data.read.on_bad(), |opener| opener.open_named(target))?;
        // Without a split named, the base is taken whole, as mini-ImageNet is for CUB.
        let mut splits = Splits::cross_domain(opened.items.clone(), &target.splits(None)?);
        if let Some(name) = &args.scheme {
            splits.train = opened.splits(Some(name))?.train;
        }
        let title = format!("{} -> {}", opened.items.name(), target.items.name());
        return show(&title, &splits, args.json);
    }
    if let Some(name) = &args.scheme {
        return show(name, &opened.splits(Some(name))?, args.json);
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&count_splits(&opened))?);
        return Ok(());
    }
    if opened.schemes.is_empty() {
        say!("{} has no split. Make one with --make TRAIN,VAL --out FILE.", opened.items.name());
    }
    for scheme in &opened.schemes {
        show(&scheme.name, &opened.splits(Some(&scheme.name))?, false)?;
    }
    Ok(())
}

fn show(title: &str, splits: &Splits, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        say!("{}", serde_json::to_string_pretty(&names(splits))?);
        return Ok(());
    }
    say!("{title}");
    for name in SplitName::ALL {
        let split = splits.get(name);
        say!(
            "  {:<6}{:>6} classes {:>8} images  of {}",
            name.as_str(),
            split.classes.len(),
            split.len(),
            split.items.name()
        );
    }
    Ok(())
}

/// Class names of each part: the form in which a split file is read.
fn names(splits: &Splits) -> serde_json::Value {
    let part = |name| {
        let split = splits.get(name);
        (0..split.classes.len()).map(|k| split.class(k).name.clone()).collect::<Vec<_>>()
    };
    json!({"train": part(SplitName::Train), "val": part(SplitName::Val), "test": part(SplitName::Test)})
}

fn write_random(opened: &Opened, make: &[usize], seed: u64, out: &std::path::Path) -> anyhow::Result<()> {
    let classes = opened.items.classes().len();
    let &[train, val] = make else { bail!("--make takes two numbers, such as --make 60,20.") };
    if train.saturating_add(val) > classes {
        bail!("{train} + {val} classes were asked for, but {} has {classes}.", opened.items.name());
    }
    let splits = Scheme::at_random(classes, train, val, seed).apply(&opened.items);
    let text = serde_json::to_string_pretty(&names(&splits))?;
    siskin_data::files::write(out, (text + "\n").as_bytes())
        .with_context(|| format!("cannot write {}", out.display()))?;
    show(&format!("written to {}", out.display()), &splits, false)?;
    for (name, part, without) in [
        ("training", train, "nothing can be trained"),
        ("validation", val, "training cannot choose its best model, and nothing can be tuned"),
        ("the test", classes - train - val, "siskin test has nothing to ask"),
    ] {
        if part < 2 {
            let left = if part == 0 { "no class is" } else { "one class alone is" };
            tell!("WARNING: {left} left for {name}: {without}. Choose smaller numbers for --make.");
        }
    }
    Ok(())
}
