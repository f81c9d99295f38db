//! `siskin model`: other people's networks under names of your choice.

mod add;
mod list;
mod probe;
mod try_out;

use anyhow::Context;
use clap::Subcommand;
use siskin_adapt::foreign::{ForeignSpec, Layout, Pool, Registry, Resize};

/// Arguments of `siskin model`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Keep an ONNX image network under a name; adapt, predict, serve and embed then take it.
    Add(add::Args),
    /// Show the models that can be used by name.
    List(list::Args),
    /// Show what is known of an added model.
    Show(Named),
    /// Forget an added model and remove its file.
    Remove(Named),
    /// See whether a model makes sense of images: norms, nearest images, and other presets beside.
    Try(try_out::Args),
    /// Read and try an ONNX file within bounds on memory and time; used by `add`.
    #[command(hide = true)]
    Probe(probe::Args),
}

/// One added model.
#[derive(clap::Args)]
pub(crate) struct Named {
    /// The name it was added under
    name: String,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Add(args) => add::run(args),
        Command::List(args) => list::run(args),
        Command::Show(args) => {
            let spec = registry()?.spec(&args.name)?;
            say!("{}", args.name);
            describe(&spec);
            Ok(())
        }
        Command::Remove(args) => {
            registry()?.remove(&args.name)?;
            say!("Removed: {}. Tasks made with it need it added again.", args.name);
            Ok(())
        }
        Command::Try(args) => try_out::run(args),
        Command::Probe(args) => probe::run(args),
    }
}

/// Where adapt, predict and serve look too.
fn registry() -> anyhow::Result<Registry> {
    Registry::default_folder()
        .context("This system names no folder for caches. Name one by the variable SISKIN_CACHE.")
}

/// What is known of a network, in a few lines.
fn describe(spec: &ForeignSpec) {
    let of = &spec.preprocessing;
    let layout = match spec.layout {
        Layout::Nchw => format!("[N, 3, {0}, {0}]", of.size),
        Layout::Nhwc => format!("[N, {0}, {0}, 3]", of.size),
    };
    let pool = match spec.pool {
        Pool::None => "",
        Pool::First => ", the first token",
        Pool::Mean => ", the mean over tokens or places",
    };
    let resize = match of.resize {
        Resize::Squash => "squashed to a square".to_owned(),
        Resize::Crop { shorter } => format!("shorter side {shorter} pixels, the centre taken"),
    };
    say!("  file      {:.1} MB, blake3 {}", spec.bytes as f64 / 1e6, &spec.file[..12.min(spec.file.len())]);
    say!("  input     `{}` {layout}: {resize}", spec.input);
    say!("  colours   (v / 255 - {:?}) / {:?}", of.mean, of.std);
    say!("  features  `{}`{pool}: {} numbers", spec.output, spec.dim);
}
