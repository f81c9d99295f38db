//! `siskin adapt`: from labelled examples to a task file.

use crate::data::source::OnBad;
use siskin_app::{EMBEDDED, Model, Support, Task, title_of};
use siskin_data::OnBadImage;
use siskin_data::source::embeddings;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `siskin adapt`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin adapt letters                            a folder with one folder of images a class; the embedded model
  siskin adapt birds --model runs/cub             a model you trained
  siskin adapt birds.zip --model birds.safetensors --out birds.task
  siskin adapt features.npy                       vectors (labels.npy beside): no network, the kernel is learned

Any number of classes, any number of images each; one image of a class is enough. The task file holds what
`siskin predict` and `siskin serve` need beside the model: see docs/predict.md.")]
pub struct Args {
    /// A folder with one folder of images a class (or an archive or list: docs/data.md); or vectors: .npy, .safetensors
    examples: PathBuf,
    /// A run folder, an exported model file, or the name of an embedded model
    #[arg(long, value_name = "MODEL", default_value = EMBEDDED[0].0)]
    model: String,
    /// The task file to write [default: the name of the examples, ending in .task, in this folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What to do about an image that cannot be read
    #[arg(long, value_enum, default_value = "error", value_name = "POLICY")]
    on_bad_image: OnBad,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let (task, notes) = if embeddings::is_embeddings(&args.examples) {
        (Task::adapt_vectors(&embeddings::read(&args.examples)?)?, Vec::new())
    } else {
        let on_bad = match args.on_bad_image {
            OnBad::Skip => OnBadImage::Skip,
            OnBad::Error => OnBadImage::Error,
        };
        let support = Support::read(&args.examples, on_bad)?;
        let model = Model::open(&args.model)?;
        (
            Task::adapt(&model, &support, &title_of(&args.examples))?,
            support.bad().iter().map(|bad| format!("left out: {bad}")).collect(),
        )
    };
    let out = args.out.unwrap_or_else(|| PathBuf::from(format!("{}.task", title_of(&args.examples))));
    task.save(&out)?;
    notes.iter().for_each(|note: &String| println!("{note}"));
    print(&task);
    println!(
        "Written: {} in {:.1} s. Next: siskin predict {} IMAGE...",
        out.display(),
        start.elapsed().as_secs_f64(),
        out.display()
    );
    Ok(())
}

/// What a task is, in a few lines.
pub fn print(task: &Task) {
    match task.model() {
        Some(model) => println!("Model {} (hash {})", model.name, &model.hash[..12.min(model.hash.len())]),
        None => println!("Vectors of {} numbers, kernel and temperature learned from them", task.width()),
    }
    println!("{} classes, {} examples:", task.classes().len(), task.labels().len());
    for (c, name) in task.classes().iter().enumerate() {
        println!("  {name}  {}", task.labels().iter().filter(|&&label| label == c).count());
    }
    if let Some((right, of)) = task.calibration().held_out {
        println!("Left out and predicted by the others, {right} of {of} examples were right.");
    }
    println!("{}", task.calibration().said());
}
