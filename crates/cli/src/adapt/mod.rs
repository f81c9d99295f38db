//! `siskin adapt`: from labelled examples to a task file.

mod former;
mod page;

use crate::compute::{DeviceArg, in_pool};
use crate::data::progress::Bar;
use crate::data::source::OnBad;
use crate::model::tell_notice;
use crate::stop;
use anyhow::Context;
use siskin_adapt::foreign::Registry;
use siskin_adapt::{
    Error, Features, Intake, LabelSetTask, LabelledImages, Model, Rules, TaskClassifier, label_sets,
    looks_of, read_others, title_of,
};
use siskin_data::nearest::nearest;
use siskin_data::shell::quoted;
use siskin_data::source::embeddings;
use siskin_data::{Cache, OnBadImage};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The embedded model of photos.
const PHOTOS: &str = "mini-imagenet-conv4";

/// Arguments of `siskin adapt`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin adapt letters                            a folder with one folder of images per class; the embedded model
  siskin adapt birds --model runs/cub             a model you trained
  siskin adapt birds.zip --model birds.safetensors --out birds.task
  siskin adapt photos --model lite0               a pretrained network (`siskin model add`)
  siskin adapt photos --model lite0 --others album    photos of the same kind, of no class: they show where classes end
  siskin adapt --add more --to birds.task         more examples, or more classes; the rest is not read again
  siskin adapt --remove wren --to birds.task      one class fewer
  siskin adapt --remove-example 3.jpg --to birds.task    one example fewer
  siskin adapt scenes --label-sets                an image that lies in several of the folders has several labels
  siskin adapt features.npy                       vectors (labels.npy beside): no network, the kernel is learned

Any number of classes, any number of images each; one image of a class is enough. The task file holds what
`siskin predict` and `siskin serve` need beside the model: see docs/predict.md.")]
pub(crate) struct Args {
    /// A folder with one folder of images per class (or an archive or list: docs/data.md); or vectors: .npy, .safetensors
    #[arg(required_unless_present = "to")]
    examples: Option<PathBuf>,
    /// Change this task in place of making one: with --add, --remove, --remove-example or --others
    #[arg(long, value_name = "TASK", conflicts_with = "examples")]
    to: Option<PathBuf>,
    /// More examples for the task: a folder with one folder of images per class, of its classes or of new ones
    #[arg(long, value_name = "FOLDER", requires = "to")]
    add: Option<PathBuf>,
    /// A class that the task shall forget. May be given several times
    #[arg(long, value_name = "CLASS", requires = "to")]
    remove: Vec<String>,
    /// An example that the task shall forget, by its name as `siskin predict --explain` shows it. May be given several times
    #[arg(long, value_name = "NAME", requires = "to")]
    remove_example: Vec<String>,
    /// Images of the same kind that belong to none of the classes, at least ten: files or folders, without labels. With an added
    /// model they say where the classes end, so that "none of these" may find more strangers, and says how many like them. May be given several times
    #[arg(long, value_name = "PHOTOS", conflicts_with = "label_sets")]
    others: Vec<PathBuf>,
    /// An added model (`siskin model list`), a run folder, an exported model file, or an embedded model by name [default: the
    /// embedded one that suits what the images look like]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Images may have several labels: an image that lies in several of the folders has all of their names, and answers are sets of labels
    #[arg(long, conflicts_with_all = ["to", "report"])]
    label_sets: bool,
    /// Replace a task file also where classes or other images that it knows would be lost
    #[arg(long, conflicts_with = "to")]
    replace: bool,
    /// The task file to write [default: the name of the examples, ending in .task, in this folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The page about the task [default: beside the task file, ending in .report.html]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// What to do about an image that cannot be read, or a folder without one [default: error]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_bad_image: Option<OnBad>,
    #[command(flatten)]
    device: DeviceArg,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let Some(examples) = &args.examples else { return change(&args) };
    only_with_to(&args, examples)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.task", title_of(examples))));
    let (task, support, asks, before) = if embeddings::is_embeddings(examples) {
        anyhow::ensure!(
            args.model.is_none() && args.on_bad_image.is_none() && !args.label_sets && args.others.is_empty(),
            "Vectors need no network and have no images: leave --model, --on-bad-image, --label-sets and --others out."
        );
        let task = in_pool(|| TaskClassifier::adapt_vectors(&embeddings::read(examples)?))?;
        let before = may_replace(&args, &out, (examples, task.classes()), None)?;
        (task, None, "VECTORS.npy", before)
    } else {
        let model = match &args.model {
            Some(name) => args.device.open(name)?,
            None => {
                let (model, why) =
                    Model::embedded_for(&looks_of(examples, &Intake::default())?, args.device.choice())?;
                tell!("{why}; --model names another.{}", better(&model));
                model
            }
        };
        tell_notice(model.notice());
        let support = LabelledImages::read(examples, on_bad(&args), &model, &Intake::default())?;
        warn(&model, &support);
        let before = may_replace(&args, &out, (examples, support.classes()), Some(&model))?;
        if args.label_sets {
            return sets((examples, &out), (&model, &support), start);
        }
        let examples_as = support.examples_as(features(&support, &model)?, &model);
        let task = TaskClassifier::adapt_features(&model, examples_as, &title_of(examples), &Arc::default())?;
        let task = beside(&args, &model, task)?;
        (task, Some((support, model.input().0)), "IMAGE...", before)
    };
    let written = if out.exists() { "Replaced" } else { "Written" };
    task.save(&out)?;
    before.iter().for_each(|note| tell!("note: {note}"));
    let support = support.as_ref().map(|(support, side)| (support, *side));
    left_out(&support.map_or(Vec::new(), |(support, _)| unused(support)));
    print(&task);
    let report = report_path(&args, &out);
    page::write(&report, &out, &task, page::Photos::of(support))?;
    say!("About it: {}", report.display());
    let seconds = start.elapsed().as_secs_f64();
    say!("{written}: {} in {seconds:.1} s. Next: siskin predict {} {asks}", out.display(), quoted(&out));
    Ok(())
}

/// A task whose images stand in several classes.
fn sets(
    (examples, out): (&Path, &Path),
    (model, support): (&Model, &LabelledImages),
    start: Instant,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        label_sets(support).is_some(),
        "No image lies in two of the folders: there are no label sets to learn. Put an image into the folder of each of its labels, \
         or leave --label-sets out."
    );
    let task = LabelSetTask::adapt(model, support, &title_of(examples), &Arc::default())?;
    task.save(out)?;
    left_out(&unused(support));
    say!(
        "{} images, some of them in several classes: label sets of {} labels:",
        task.examples(),
        support.classes().len()
    );
    task.labels().for_each(|(name, count)| say!("  {}  {count}", crate::out::name(name)));
    let seconds = start.elapsed().as_secs_f64();
    say!("Written: {} in {seconds:.1} s. Next: siskin predict {} IMAGE...", out.display(), quoted(out));
    Ok(())
}

/// Changes a task that exists.
fn change(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let path = args.to.as_ref().context("which task?")?;
    anyhow::ensure!(
        args.add.is_some()
            || !args.remove.is_empty()
            || !args.remove_example.is_empty()
            || !args.others.is_empty(),
        "Say what shall change: --add FOLDER, --remove CLASS, --remove-example NAME, --others PHOTOS, or several of them."
    );
    anyhow::ensure!(
        LabelSetTask::load(path)?.is_none(),
        "A task of label sets is made anew from its folder; it cannot be changed: siskin adapt FOLDER --label-sets"
    );
    let mut task = TaskClassifier::load(path)?;
    let model = task.open_model_on(args.model.as_deref(), args.device.choice())?;
    let go_on = Arc::default();
    let mut added = None;
    if let Some(more) = &args.add {
        let support = LabelledImages::read_more(more, on_bad(args), &model, &Intake::default())?;
        warn(&model, &support);
        left_out(&unused(&support));
        task = task.with_embedded(&model, &support, features(&support, &model)?, &go_on)?;
        added = Some(support);
    }
    for name in &args.remove_example {
        task = task.without_example(&model, example_of(&task, name)?, &go_on)?;
    }
    for class in &args.remove {
        task = task.without_class(&model, class, &go_on)?;
    }
    let task = beside(args, &model, task)?;
    let out = args.out.as_ref().unwrap_or(path);
    task.save(out)?;
    print(&task);
    let report = report_path(args, out);
    let photos = page::Photos::added(added.as_ref().map(|support| (support, model.input().0)));
    page::write(&report, out, &task, photos)?;
    say!("About it: {}", report.display());
    let seconds = start.elapsed().as_secs_f64();
    say!("Written: {} in {seconds:.1} s. Next: siskin predict {} IMAGE...", out.display(), quoted(out));
    Ok(())
}

/// Refuses what changes a task where a new one is to be made.
fn only_with_to(args: &Args, examples: &Path) -> anyhow::Result<()> {
    let what = match args {
        Args { add: Some(more), .. } => format!("--add {}", quoted(more)),
        Args { remove, .. } if !remove.is_empty() => format!("--remove {}", quoted(&remove[0])),
        Args { remove_example, .. } if !remove_example.is_empty() => {
            format!("--remove-example {}", quoted(&remove_example[0]))
        }
        _ => return Ok(()),
    };
    let task = match examples.extension().is_some_and(|ending| ending == "task") {
        true => quoted(examples),
        false => quoted(format!("{}.task", title_of(examples))),
    };
    anyhow::bail!(
        "{what} changes a task that is there; {} would make a new one. To change it: siskin adapt {what} --to {task}",
        examples.display()
    )
}

/// What is to be said of what is replaced, or that it may not be: see [`former::replaced`].
fn may_replace(
    args: &Args,
    out: &Path,
    (examples, classes): (&Path, &[String]),
    model: Option<&Model>,
) -> anyhow::Result<Option<String>> {
    if args.replace {
        return Ok(None);
    }
    let (model_named, sets, others) = (args.model.is_some(), args.label_sets, !args.others.is_empty());
    let new = former::New { examples, classes, model, model_named, sets, others };
    former::replaced(out, &new)
}

/// What would do better than the small network of photos that is part of the program.
fn better(model: &Model) -> String {
    if model.name() != PHOTOS {
        return String::new();
    }
    let names = Registry::default_folder().map_or(Vec::new(), |registry| registry.names());
    match names.first() {
        Some(name) => format!(
            " Far better for photos, mostly, is a pretrained network; added here: {} (--model {}).",
            names.join(", "),
            quoted(name)
        ),
        None => {
            " It is small: a pretrained network is far better for photos (siskin model add, docs/photos.md)."
                .into()
        }
    }
}

/// Features of the examples, from the cache as far as they are there.
fn features(support: &LabelledImages, model: &Model) -> anyhow::Result<Features> {
    let (cache, bar) = (Cache::default_folder(), Bar::default());
    match stop::saving(|stop| support.features(model, cache.as_deref(), &bar, stop)) {
        Err(Error::Stopped) => {
            stop::check()?;
            Err(Error::Stopped.into())
        }
        done => Ok(done?),
    }
}

/// The place of the example of this name, or of the only one whose name ends so.
fn example_of(task: &TaskClassifier, name: &str) -> anyhow::Result<usize> {
    let ends =
        |known: &str| known == name || known.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
    let found: Vec<usize> = (0..task.names().len()).filter(|&i| ends(&task.names()[i])).collect();
    match found[..] {
        [one] => Ok(one),
        [] => {
            let last = |path: &'_ str| path.rsplit('/').next().map(str::to_owned).unwrap_or_default();
            let lasts: Vec<String> = task.names().iter().map(|known| last(known)).collect();
            let near = nearest(&last(name), lasts.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!(" Did you mean {near}?"));
            anyhow::bail!("There is no example {name}.{near} `siskin predict --explain` shows names.")
        }
        _ => {
            let shown =
                found.iter().map(|&i| format!("{} ({})", task.names()[i], task.classes()[task.labels()[i]]));
            anyhow::bail!(
                "Several examples are called {name}: {}. Say more of the path.",
                shown.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

/// The task with the other images that were given, in place of those it had.
fn beside(args: &Args, model: &Model, task: TaskClassifier) -> anyhow::Result<TaskClassifier> {
    if args.others.is_empty() {
        return Ok(task);
    }
    let (views, bad) = read_others(&args.others, on_bad(args), model, &Intake::default())?;
    left_out(&bad.iter().map(ToString::to_string).collect::<Vec<_>>());
    Ok(task.with_others(model.embed(&views)?)?)
}

fn report_path(args: &Args, task: &Path) -> PathBuf {
    args.report.clone().unwrap_or_else(|| task.with_extension("report.html"))
}

fn on_bad(args: &Args) -> OnBadImage {
    match args.on_bad_image {
        Some(OnBad::Skip) => OnBadImage::Skip,
        Some(OnBad::Error) | None => OnBadImage::Error,
    }
}

/// Says that the images are of another kind than the model's.
fn warn(model: &Model, support: &LabelledImages) {
    if let Some(mismatch) = model.mismatch(support.examples().iter().map(|e| &e.view.look)) {
        tell!("WARNING: {mismatch}");
    }
}

/// Images and folders that were not used, and why.
fn unused(support: &LabelledImages) -> Vec<String> {
    let bad = support.bad().iter().map(ToString::to_string);
    bad.chain(support.ignored().iter().map(|name| format!("{name}: no image of a class"))).collect()
}

/// What was not used, the first of it by name.
fn left_out(notes: &[String]) {
    const NAMED: usize = 5;
    notes.iter().take(NAMED).for_each(|note| say!("left out: {}", crate::out::name(note)));
    if notes.len() > NAMED {
        say!("left out: {} more", notes.len() - NAMED);
    }
}

/// What a task is, in a few lines.
pub(crate) fn print(task: &TaskClassifier) {
    match task.model() {
        Some(model) => say!("Model {} (hash {})", model.name, &model.hash[..12.min(model.hash.len())]),
        None => say!("Vectors of {} numbers, kernel and temperature learned from them", task.width()),
    }
    say!("{} classes, {} examples:", task.classes().len(), task.labels().len());
    for (c, name) in task.classes().iter().enumerate() {
        say!("  {}  {}", crate::out::name(name), task.labels().iter().filter(|&&label| label == c).count());
    }
    if task.others() > 0 {
        say!("{} other images of the same kind stand beside them.", task.others());
    }
    if let Some(left_out) = &task.calibration().left_out {
        say!(
            "Left out, one of each class at a time, {} of {} examples were right.",
            left_out.right,
            left_out.of
        );
    }
    say!("{}", task.calibration().sentence());
    if let Ok(found) = task.thresholds(&Rules::default()) {
        found.notes().iter().map(String::as_str).chain(found.expectation()).for_each(|note| say!("{note}"));
    }
}
