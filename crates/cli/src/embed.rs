//! `siskin embed`: images to a file of vectors.

use crate::compute::DeviceArg;
use crate::data::progress::Bar;
use crate::data::source::{CacheArgs, OnBad};
use crate::stop;
use siskin_adapt::{EmbedJob, Error, Inputs};
use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `siskin embed`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin embed lite0 photos --out photos.safetensors     labels are the folders that images lie in
  siskin embed lite0 photos --out photos.npy --unit      with photos_labels.npy, photos_classes.txt, photos_names.txt
  find . -name '*.jpg' | siskin embed lite0 - --out all.safetensors

Features are kept in the cache by the content of image and model: a second run, or one that was stopped, goes on from
there. A .safetensors file holds `features` [N, D], `labels` [N], and the metadata `names` and `classes`.")]
pub(crate) struct Args {
    /// A model by name, a run folder, or an exported model file
    model: String,
    /// Images, folders of images, `-` for paths from standard input (one per line)
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The file to write: .safetensors or .npy
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Give every vector the length 1, as tasks of added networks take them
    #[arg(long)]
    unit: bool,
    /// What to do about an image that cannot be read
    #[arg(long, value_enum, value_name = "POLICY", default_value = "skip")]
    on_bad_image: OnBad,
    #[command(flatten)]
    device: DeviceArg,
    #[command(flatten)]
    cache: CacheArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let (cache, model) = (args.cache.open()?, args.device.open(&args.model)?);
    let given: Vec<PathBuf> = args.inputs.iter().filter(|p| p.as_os_str() != "-").cloned().collect();
    let lines: Option<Box<dyn BufRead>> =
        (given.len() < args.inputs.len()).then(|| Box::new(std::io::stdin().lock()) as _);
    let job = EmbedJob {
        model: &model,
        // What other hardware makes of an image differs in the last digits: it is not kept as the CPU's.
        cache: args.device.is_cpu().then(|| cache.folder()),
        out: &args.out,
        unit: args.unit,
        stop_at_bad: matches!(args.on_bad_image, OnBad::Error),
    };
    let bar = Bar::default();
    let done = match stop::saving(|stop| job.run(Inputs::new(&given, lines), &bar, stop)) {
        Err(Error::Stopped) => {
            stop::check()?;
            return Err(Error::Stopped.into());
        }
        done => done?,
    };
    const NAMED: usize = 5;
    done.bad.iter().take(NAMED).for_each(|bad| tell!("left out: {bad}"));
    if done.bad.len() > NAMED {
        tell!("left out: {} more", done.bad.len() - NAMED);
    }
    let files: Vec<String> = done.files.iter().map(|file| file.display().to_string()).collect();
    say!(
        "{} vectors of {} numbers ({} from the cache), {} folders as classes, in {:.1} s",
        done.rows,
        done.dim,
        done.kept,
        done.classes.len(),
        start.elapsed().as_secs_f64()
    );
    say!("Written: {}", files.join(", "));
    Ok(())
}
