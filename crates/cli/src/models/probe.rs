//! Reads and tries an ONNX file under bounds that the system enforces: what a hostile file asks for, it does not get.

use anyhow::Context;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use siskin_adapt::ModelError;
use siskin_adapt::foreign::{Inspected, MOST_BYTES, Pool, Preset, Wishes, inspect};
use siskin_data::files;
use std::path::PathBuf;

/// Bytes of memory.
pub(super) const MEMORY: u64 = 4 << 30;
/// Seconds of processor time.
pub(super) const SECONDS: u64 = 60;

/// What the one who asked is told, as JSON.
#[derive(Serialize, Deserialize)]
pub(super) enum Report {
    /// It can be used.
    Found(Box<Inspected>),
    /// It cannot, and why.
    Refused(String),
}

/// Arguments of `siskin model probe`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The ONNX file
    file: PathBuf,
    /// What is asked for, as JSON
    wishes: String,
}

/// What may be asked for.
#[derive(clap::Args)]
pub(super) struct WishArgs {
    /// The family whose preprocessing it was trained with [default: imagenet]
    #[arg(long, value_enum)]
    preset: Option<PresetName>,
    /// The output that gives the features [default: image_embeds, pooler_output or embeddings, else the first]
    #[arg(long, value_name = "OUTPUT")]
    output: Option<String>,
    /// Side of the input in pixels, where the file leaves it free [default: 224]
    #[arg(long, value_name = "PIXELS")]
    size: Option<u32>,
    /// Mean of red, green and blue, from 0 to 1, in place of the preset's
    #[arg(long, value_name = "R,G,B")]
    mean: Option<String>,
    /// Standard deviation of red, green and blue, in place of the preset's
    #[arg(long, value_name = "R,G,B")]
    std: Option<String>,
    /// The network takes blue first, then green and red (mean and standard deviation are still said of red, green, blue)
    #[arg(long)]
    bgr: bool,
    /// How a photo becomes a square, in place of the preset's way
    #[arg(long, value_enum)]
    resize: Option<ResizeName>,
    /// How several vectors of an image (tokens) become one [default: first]
    #[arg(long, value_enum)]
    pool: Option<PoolName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum PresetName {
    Imagenet,
    Clip,
    Dinov2,
    EfficientnetLite,
    Siglip,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ResizeName {
    /// Everything stays in view, the aspect does not.
    Squash,
    /// The aspect stays, the centre is taken.
    Crop,
}

#[derive(Clone, Copy, ValueEnum)]
enum PoolName {
    /// The first token.
    First,
    /// Their mean.
    Mean,
}

impl WishArgs {
    /// As the library takes them.
    pub(super) fn wishes(&self) -> anyhow::Result<Wishes> {
        Ok(Wishes {
            preset: self.preset.map(|name| match name {
                PresetName::Imagenet => Preset::Imagenet,
                PresetName::Clip => Preset::Clip,
                PresetName::Dinov2 => Preset::Dinov2,
                PresetName::EfficientnetLite => Preset::EfficientnetLite,
                PresetName::Siglip => Preset::Siglip,
            }),
            output: self.output.clone(),
            size: self.size,
            mean: self.mean.as_deref().map(three).transpose()?,
            std: self.std.as_deref().map(three).transpose()?,
            bgr: self.bgr,
            squash: self.resize.map(|resize| resize == ResizeName::Squash),
            pool: self.pool.map(|pool| match pool {
                PoolName::First => Pool::First,
                PoolName::Mean => Pool::Mean,
            }),
        })
    }
}

/// Three numbers with commas between them.
fn three(text: &str) -> anyhow::Result<[f32; 3]> {
    let numbers: Option<Vec<f32>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .with_context(|| format!("`{text}` is not three numbers with commas between them, e.g. 0.5,0.5,0.5"))
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    bound()?;
    let wishes = serde_json::from_str(&args.wishes)?;
    let name = args.file.display().to_string();
    let found = files::read(&args.file, MOST_BYTES)
        .map_err(|source| ModelError::Io { action: "read", path: args.file.clone(), source })
        .and_then(|bytes| inspect(bytes, &wishes).map_err(|fault| ModelError::Foreign { name, fault }));
    let report = match found {
        Ok(found) => Report::Found(Box::new(found)),
        Err(why) => Report::Refused(why.to_string()),
    };
    say!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Bounds this process. Where the system has no such bounds, a crash is still a crash of this process alone.
#[cfg(unix)]
fn bound() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for (resource, most) in [(Resource::As, MEMORY), (Resource::Cpu, SECONDS)] {
        let hard = getrlimit(resource).maximum;
        let most = hard.map_or(most, |hard| hard.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: hard })
            .context("cannot bound memory and time")?;
    }
    Ok(())
}

/// Bounds this process. Where the system has no such bounds, a crash is still a crash of this process alone.
#[cfg(not(unix))]
fn bound() -> anyhow::Result<()> {
    Ok(())
}
