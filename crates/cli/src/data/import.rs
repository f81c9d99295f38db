//! `siskin data import`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use siskin_data::check::check;
use siskin_data::import::Original;
use siskin_data::nearest::nearest;
use siskin_data::source::Hints;
use siskin_data::{Opened, Source};

use super::check::{count_problems, print_summary};
use super::source::ReadArgs;

/// Arguments of `siskin data import`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  siskin data import birds/                             a folder with one folder of images per class
  siskin data import birds.tar.gz --name birds          an archive, kept as `birds`: then --data birds
  siskin data import CUB_200_2011.tgz --as cub          an original download: checked, standard split built in
  siskin data import lists/ --images photos/            base.json, val.json, novel.json and where the images are
  siskin data import --as omniglot                      where to get Omniglot, and what to give

Nothing is downloaded and nothing is unpacked to disk: archives are read in place.")]
pub(super) struct Args {
    /// A folder, an archive (.zip, .tar, .tar.gz), a list (.json), or a folder of lists
    path: Option<PathBuf>,
    /// Read it as this original download: cub, mini-imagenet, omniglot or emnist
    #[arg(long = "as", value_name = "ORIGINAL")]
    original: Option<String>,
    /// Keep it under this name [default: the original's, or that of the file or folder]
    #[arg(long)]
    name: Option<String>,
    /// Where the images of a list (JSON or CSV) lie
    #[arg(long, value_name = "PATH")]
    images: Option<PathBuf>,
    /// Which class is in which split: a JSON file, a table, or a folder of text lists
    #[arg(long, value_name = "PATH")]
    splits: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let original = args.original.as_deref().map(parse_original).transpose()?;
    let Some(path) = args.path else {
        let about = original.context("Give a path, or --as ORIGINAL to hear where to get one.")?.about();
        say!("{}\n{}\nGive: {}\nSplits: {}", about.what, about.get, about.give, about.splits);
        return Ok(());
    };
    let begin = Instant::now();
    let hints = Hints { images: args.images, splits: args.splits };
    let source = Source { path, original, hints, name: args.name.clone() };
    if args
        .name
        .as_deref()
        .is_some_and(|n| n.is_empty() || n == "glyphs" || n.starts_with('.') || n.contains(['/', '\\']))
    {
        bail!("A name may not be empty, be `glyphs`, begin with a dot or have a slash in it.");
    }
    let (opened, name) = args.read.with_opener(args.read.on_bad(), |opener| {
        let opened: Opened = opener.open(&source)?;
        let name = args.name.unwrap_or_else(|| opened.items.name().to_owned());
        opener.cache.remember_name(&name, &source)?;
        siskin_data::Result::Ok((opened, name))
    })?;
    let report = check(&opened);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    print_summary(&report);
    let how = if opened.cached { "It was in the cache already" } else { "It was read" };
    say!(
        "{how} ({:.1} s). Use it as: --data {}",
        begin.elapsed().as_secs_f64(),
        siskin_data::shell::quoted(&name)
    );
    if !report.problems.is_empty() {
        let found = count_problems(&report);
        let name = siskin_data::shell::quoted(&name);
        say!("{found} found; `siskin data check --data {name}` names what is wrong.");
    }
    Ok(())
}

fn parse_original(name: &str) -> anyhow::Result<Original> {
    let names = Original::ALL.map(|o| o.about().name);
    Original::parse(name).with_context(|| {
        let near = nearest(name, names).map(|n| format!(" Did you mean {n}?")).unwrap_or_default();
        format!("{name} is no original download that is known.{near} Known are {}.", names.join(", "))
    })
}
