//! `siskin data episodes`.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use siskin_data::{Count, EpisodeList, EpisodeSpec, Opened, Sampler, ShortClasses};

use super::source::{DataArgs, PartArgs};

/// What to do about classes with too few images.
#[derive(Clone, Copy, ValueEnum)]
enum Short {
    /// Stop and name them.
    Error,
    /// Leave them out.
    Skip,
    /// Take fewer queries in the whole episode.
    FewerQueries,
}

/// The shape of episodes, shared with `siskin data preview`.
#[derive(clap::Args)]
pub(super) struct EpisodeArgs {
    /// Classes of an episode: a number, or a range such as 5-20
    #[arg(long, default_value = "5", value_parser = parse_count)]
    way: Count,
    /// Labelled images per class: a number, or a range such as 1-10
    #[arg(long, default_value = "1", value_parser = parse_count)]
    shot: Count,
    /// Images to classify, a class
    #[arg(long, default_value_t = 15)]
    query: usize,
    /// Unequal shots: concentration of the Dirichlet distribution; small is very unequal
    #[arg(long, value_name = "ALPHA")]
    imbalance: Option<f64>,
    /// Take all classes of an episode from one domain (for Omniglot: one alphabet)
    #[arg(long)]
    within_domain: bool,
    /// What to do about classes with too few images
    #[arg(long, value_enum, default_value = "error", value_name = "POLICY")]
    short_classes: Short,
    /// Seed of the episodes
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    part: PartArgs,
}

impl EpisodeArgs {
    /// The episodes meant.
    pub(super) fn sampler(&self, opened: &Opened) -> anyhow::Result<Sampler> {
        let spec = EpisodeSpec {
            way: self.way,
            shot: self.shot,
            query: self.query,
            imbalance: self.imbalance,
            within_domain: self.within_domain,
            short_classes: match self.short_classes {
                Short::Error => ShortClasses::Error,
                Short::Skip => ShortClasses::Skip,
                Short::FewerQueries => ShortClasses::FewerQueries,
            },
        };
        Ok(Sampler::new(vec![self.part.choose(opened)?], spec, self.seed)?)
    }

    /// The part of the split meant.
    pub(super) fn part(&self) -> &PartArgs {
        &self.part
    }
}

/// Arguments of `siskin data episodes`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  siskin data episodes --data cub --shot 5 --count 600 --out cub-5shot.jsonl
  siskin data episodes --data omniglot --split val --way 5-20 --within-domain --out alphabets.jsonl

The file has a header (data set, content, seed, shape) and one line per episode with the names of classes and images.")]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    episode: EpisodeArgs,
    /// Number of episodes
    #[arg(long, default_value_t = 600)]
    count: u64,
    /// Where to write the list
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let opened = args.data.open(args.data.read.on_bad(), false)?;
    let sampler = args.episode.sampler(&opened)?;
    EpisodeList::write(&sampler, args.count, &args.out)?;
    say!("{} episodes of {} are in {}.", args.count, opened.items.name(), args.out.display());
    if !sampler.skipped().is_empty() {
        say!("{} classes or domains were too small and left out.", sampler.skipped().len());
    }
    Ok(())
}

/// `5`, or `5-20`.
fn parse_count(text: &str) -> anyhow::Result<Count> {
    let number = |t: &str| t.trim().parse().with_context(|| format!("`{t}` is no number; write 5 or 5-20"));
    Ok(match text.split_once('-') {
        Some((min, max)) => Count::Range { min: number(min)?, max: number(max)? },
        None => Count::Fixed(number(text)?),
    })
}
