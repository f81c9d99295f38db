//! `siskin data preview`.

use std::path::PathBuf;

use siskin_data::preview::{contact_sheet, episode_sheet, write_png};

use super::episodes::EpisodeArgs;
use super::source::DataArgs;

/// Arguments of `siskin data preview`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  siskin data preview --out sheet.png                      glyphs, one row per class
  siskin data preview --data birds/ --split all --out birds.png
  siskin data preview --data cub --episode 0 --shot 5 --query 5 --out episode.png
                                                           support on the left, queries on the right")]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Where to write the picture
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Show this episode in place of a contact sheet
    #[arg(long, value_name = "NUMBER")]
    episode: Option<u64>,
    /// Rows of a contact sheet: classes
    #[arg(long, default_value_t = 12)]
    classes: u32,
    /// Columns of a contact sheet: images per class
    #[arg(long, default_value_t = 10)]
    per_class: u32,
    /// Pixels of a tile
    #[arg(long, default_value_t = 84)]
    tile: u32,
    #[command(flatten)]
    shape: EpisodeArgs,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let opened = args.data.open(args.data.read.on_bad(), false)?;
    let image = match args.episode {
        Some(index) => episode_sheet(&args.shape.sampler(&opened)?, index, None, args.tile)?,
        None => contact_sheet(&args.shape.part().choose(&opened)?, args.classes, args.per_class, args.tile)?,
    };
    write_png(&image, &args.out)?;
    say!(
        "{} x {} pixels of {} are in {}.",
        image.width,
        image.height,
        opened.items.name(),
        args.out.display()
    );
    Ok(())
}
