//! `siskin suggest`: which images or vectors to label next, and whether more labels would help.

use crate::compute::{DeviceArg, in_pool};
use crate::model::tell_notice;
use anyhow::Context;
use clap::ValueEnum;
use siskin_adapt::{
    Advice, Criterion, Features, Inputs, Intake, LabelSetTask, NextLabel, Rules, TaskClassifier,
    VectorClassifier, VectorRules, View,
};
use siskin_data::source::embeddings;
use std::io::BufRead;
use std::path::PathBuf;

/// Images embedded at a time: bounds the memory.
const BATCH: usize = 64;

/// Arguments of `siskin suggest`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin suggest birds.task photos                     five photos of a folder whose labels would tell the most
  siskin suggest birds.task photos -n 10 --by entropy
  siskin suggest vectors.task pool.npy --format jsonl  a task made from vectors
  siskin suggest table.gp pool.npy                     a classifier made by siskin fit

The most telling comes first (the score says how much: 0 is nothing, and by bald at most the logarithm of the number of classes); images like those before it count less, so that a batch does not ask for the same thing twice.
Last it is said whether more labels would change little, by examples that were left out. Then: siskin adapt --add FOLDER --to
TASK, or siskin fit with the rows that were labelled.")]
pub(crate) struct Args {
    /// The task file that `siskin adapt` wrote, or the classifier of `siskin fit`
    task: PathBuf,
    /// Images, folders of images, `-` for paths from standard input (one per line); for a task of vectors .npy or
    /// .safetensors files
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// How many to suggest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// By what: bald is what a label would tell of the classes, entropy and margin how undecided the answer is, variance how far
    /// from all examples
    #[arg(long, value_enum, default_value = "bald")]
    by: By,
    /// The model of the task, if it is no longer where it was
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    #[command(flatten)]
    device: DeviceArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Bald,
    Entropy,
    Margin,
    Variance,
}

/// How to print suggestions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One JSON object per line.
    Jsonl,
}

/// What could be labelled: features and names.
struct Pool {
    features: Features,
    names: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    crate::predict::check_task(&args.task, &args.inputs, "suggest")?;
    anyhow::ensure!(
        LabelSetTask::load(&args.task)?.is_none(),
        "This task has label sets: which image to label next is said for tasks with one class per image."
    );
    if let Some(classifier) = VectorClassifier::load(&args.task)? {
        let pool = vectors(args, classifier.width())?.some()?;
        return in_pool(|| of_fitted(args, &classifier, &pool));
    }
    let task = TaskClassifier::load(&args.task)?;
    let pool = match task.model() {
        Some(_) => images(args, &task)?,
        None => vectors(args, task.width())?,
    };
    of_task(args, &task, &pool.some()?)
}

impl Args {
    fn criterion(&self) -> Criterion {
        match self.by {
            By::Bald => Criterion::Bald,
            By::Entropy => Criterion::Entropy,
            By::Margin => Criterion::Margin,
            By::Variance => Criterion::Variance,
        }
    }
}

impl Pool {
    /// An error where there is nothing.
    fn some(self) -> anyhow::Result<Pool> {
        anyhow::ensure!(
            self.features.rows > 0,
            "There was nothing to choose from: no image or vector could be read."
        );
        Ok(self)
    }

    fn select(&self, found: &[NextLabel]) -> Features {
        let rows: Vec<usize> = found.iter().map(|next| next.index).collect();
        siskin_methods::select(&self.features, &rows)
    }
}

/// What a task asks for.
fn of_task(args: &Args, task: &TaskClassifier, pool: &Pool) -> anyhow::Result<()> {
    let found = task.suggest(&pool.features, args.count as usize, args.criterion())?;
    let answers = task.answer(&pool.select(&found), &task.thresholds(&Rules::default())?)?;
    let guesses = answers.iter().map(|answer| match answer.none_of_these {
        true => "none of these".to_owned(),
        false => guess(&task.classes()[answer.label], answer.probability()),
    });
    print(args, pool, &found, &guesses.collect::<Vec<String>>());
    advise(task.advice()?);
    Ok(())
}

/// What a classifier of `siskin fit` asks for.
fn of_fitted(args: &Args, classifier: &VectorClassifier, pool: &Pool) -> anyhow::Result<()> {
    let found = classifier.suggest(&pool.features, args.count as usize, args.criterion())?;
    let rules = VectorRules { level: Rules::default().level, by_class: false, class_prior: None };
    let answers = classifier.answer(&pool.select(&found), &rules)?;
    let guesses = answers.iter().map(|answer| {
        guess(answer.label.as_deref().unwrap_or_default(), answer.probability.unwrap_or_default())
    });
    print(args, pool, &found, &guesses.collect::<Vec<String>>());
    match classifier.learned()?.inducing {
        0 => advise(classifier.advice()?),
        _ => tell!(
            "Whether more labels would help is said of classifiers over all rows; this one has inducing points."
        ),
    }
    Ok(())
}

fn guess(class: &str, probability: f64) -> String {
    format!("{class} {:.0} %", 100.0 * probability)
}

/// The suggestions, for people with what is thought of them now.
fn print(args: &Args, pool: &Pool, found: &[NextLabel], guesses: &[String]) {
    let longest = found.iter().map(|next| pool.names[next.index].chars().count()).max();
    let width = longest.unwrap_or(0).max("label next".len());
    if args.format == Format::Table {
        say!("{:<width$}  {:>7}  now", "label next", "score");
    }
    for (next, guess) in found.iter().zip(guesses) {
        let (name, score) = (&pool.names[next.index], next.score);
        match args.format {
            Format::Table => say!("{:<width$}  {score:>7.4}  {guess}", crate::out::name(name)),
            Format::Jsonl => say!("{}", serde_json::json!({ "input": name, "score": score })),
        }
    }
}

fn advise(advice: Option<Advice>) {
    match advice {
        Some(advice) => tell!("{}", advice.sentence),
        None => tell!("Whether more labels would help cannot be said: a class has one example."),
    }
}

fn images(args: &Args, task: &TaskClassifier) -> anyhow::Result<Pool> {
    let model = task.open_model_on(args.model.as_deref(), args.device.choice());
    let model = match args.model {
        Some(_) => model?,
        None => model.context("The model of this task is not where it was. Name it with --model")?,
    };
    tell_notice(model.notice());
    let given: Vec<PathBuf> = args.inputs.iter().filter(|p| p.as_os_str() != "-").cloned().collect();
    let lines: Option<Box<dyn BufRead>> =
        (given.len() < args.inputs.len()).then(|| Box::new(std::io::stdin().lock()) as _);
    let (mut inputs, intake) = (Inputs::new(&given, lines), Intake::default());
    let mut pool =
        Pool { features: Features { values: Vec::new(), rows: 0, dim: task.width() }, names: Vec::new() };
    loop {
        let batch = inputs.batch(BATCH, &model, &intake)?;
        if batch.is_empty() {
            return Ok(pool);
        }
        let mut views: Vec<&View> = Vec::new();
        for input in &batch {
            match &input.view {
                Ok(view) => {
                    views.push(view);
                    pool.names.push(input.path.clone());
                }
                Err(fault) => tell!("left out: {}: {fault}; {}", input.path, fault.advice()),
            }
        }
        if !views.is_empty() {
            let features = model.embed(views)?;
            pool.features.rows += features.rows;
            pool.features.values.extend(features.values);
        }
    }
}

fn vectors(args: &Args, width: usize) -> anyhow::Result<Pool> {
    anyhow::ensure!(args.model.is_none(), "This task was made from vectors: it takes no --model.");
    let mut pool = Pool { features: Features { values: Vec::new(), rows: 0, dim: width }, names: Vec::new() };
    for path in &args.inputs {
        let (dim, values) = embeddings::read_vectors(path)?;
        anyhow::ensure!(
            dim == width,
            "{}: its vectors have {dim} numbers, those of the task {width}",
            path.display()
        );
        for (row, vector) in values.chunks_exact(dim).enumerate() {
            if vector.iter().all(|v| v.is_finite()) {
                pool.names.push(format!("{}[{row}]", path.display()));
                pool.features.values.extend(vector.iter().map(|&v| f64::from(v)));
                pool.features.rows += 1;
            } else {
                tell!("left out: {}[{row}]: it holds a number that is not finite", path.display());
            }
        }
    }
    Ok(pool)
}
