//! `siskin data check`.

use anyhow::bail;
use siskin_data::OnBadImage;
use siskin_data::check::{Report, check};
use siskin_data::split::SplitName;

use super::source::DataArgs;

/// How many files that are no images are named.
const MAX_IGNORED: usize = 10;

/// Arguments of `siskin data check`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  siskin data check --data birds/
  siskin data check --data cub.tar.gz --json

Every file is read anew, whatever the cache holds. The command fails if a problem is found.")]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command. Bad files are collected, not met one by one.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let report = check(&args.data.open(OnBadImage::Skip, true)?);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_summary(&report);
        print_problems(&report);
    }
    if !report.problems.is_empty() {
        bail!("{} has {}.", report.name, count_problems(&report));
    }
    Ok(())
}

/// `1 problem`, `2 problems`.
pub(super) fn count_problems(report: &Report) -> String {
    let count = report.problems.len();
    format!("{count} problem{}", if count == 1 { "" } else { "s" })
}

/// Counts, sizes and splits.
pub(super) fn print_summary(report: &Report) {
    say!("{}: {} classes, {} images ({})", report.name, report.classes, report.images, report.layout);
    if let (Some((small, n)), Some((large, m))) = (&report.smallest, &report.largest) {
        say!("  images per class: {n} ({small}) to {m} ({large})");
    }
    if let Some([(a, b), (c, d)]) = report.sizes {
        say!("  kept at {a} x {b} to {c} x {d} pixels; {} grey, {} colour", report.grey, report.colour);
    }
    for split in &report.splits {
        let parts = SplitName::ALL.map(|name| {
            let (classes, images) = split.parts[name.index()];
            format!("{name} {classes} classes / {images} images")
        });
        say!("  split {}: {}", split.name, parts.join(", "));
    }
    if report.splits.is_empty() {
        say!("  no split; `siskin data split --help` says how to make one");
    }
    say!("  content {}", &report.content_hash[..16]);
}

fn print_problems(report: &Report) {
    if !report.ignored.is_empty() {
        say!("Not taken for images: {} files", report.ignored.len());
        report.ignored.iter().take(MAX_IGNORED).for_each(|path| say!("  {}", crate::out::name(path)));
        if report.ignored.len() > MAX_IGNORED {
            say!("  and {} more", report.ignored.len() - MAX_IGNORED);
        }
    }
    if report.problems.is_empty() {
        say!("No problem was found.");
    }
    for problem in &report.problems {
        say!("PROBLEM {problem}\n  What to do: {}.", problem.advice());
    }
}
