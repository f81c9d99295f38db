//! `siskin predict`: what is on these images, and how sure is that.

mod rows;
mod table;

use anyhow::Context;
use clap::ValueEnum;
use rows::{Said, Told};
use siskin_app::{Features, Input, Inputs, Intake, Model, Row, Rules, Ruling, Task, View};
use siskin_data::source::embeddings;
use std::io::{BufRead, BufWriter};
use std::path::PathBuf;

/// Images read, embedded and answered at a time: bounds the memory.
const BATCH: usize = 64;

/// Arguments of `siskin predict`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin predict letters.task new.png more/            a table
  find . -name '*.jpg' | siskin predict birds.task - --format jsonl
  siskin predict birds.task photos --explain 3         with the nearest examples and their kernel values
  siskin predict birds.task photos --level 0.95 --abstain 0.01
  siskin predict vectors.task new.npy --format csv     a task made from vectors

A file that cannot be read is a row with its error; the run goes on, and fails only where nothing could be predicted.
`possible` is a conformal set: it holds the true class at the level asked for, for images like those of the
calibration. See docs/predict.md.")]
pub struct Args {
    /// The task file that `siskin adapt` wrote
    task: PathBuf,
    /// Images, folders of images, `-` for paths from standard input (one a line); for a task of vectors .npy or
    /// .safetensors files
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The model of the task, if it is no longer where it was
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// The rate at which `possible` shall hold the true class
    #[arg(long, value_name = "RATE", default_value_t = Rules::default().level)]
    level: f64,
    /// Say "none of these" to what looks stranger than all but this share of true members; 0 never says so
    #[arg(long, value_name = "RATE", default_value_t = 0.05)]
    abstain: f64,
    /// Say "none of these" where the most probable class has less than this
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_probability: f64,
    /// Show this many nearest examples with their kernel values
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "3")]
    explain: Option<usize>,
}

/// How to print predictions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    let task = Task::load(&args.task)?;
    let rules = Rules {
        level: args.level,
        abstain: Some(args.abstain).filter(|rate| *rate != 0.0),
        min_probability: args.min_probability,
    };
    let ruling = task.rules(&rules)?;
    ruling.notes().iter().for_each(|note| eprintln!("note: {note}"));
    let out = BufWriter::new(std::io::stdout().lock());
    let mut said: Box<dyn Said> = match args.format {
        Format::Table => Box::new(table::Table::new(out, rules.level)),
        Format::Jsonl => Box::new(rows::JsonLines(out)),
        Format::Csv => Box::new(rows::Csv::new(out, &task, args.explain.is_some())),
    };
    let asked = Asked { task: &task, ruling: &ruling, explain: args.explain.unwrap_or(0) };
    let counts = if task.model().is_some() {
        images(&args, &asked, said.as_mut())
    } else {
        vectors(&args, &asked, said.as_mut())
    };
    match counts {
        // A reader that has seen enough (`| head`) is no error.
        Err(e) if is_broken_pipe(&e) => Ok(()),
        Err(e) => Err(e),
        Ok((0, _)) => anyhow::bail!("There was nothing to predict: no path was given."),
        Ok((rows, bad)) if rows == bad => anyhow::bail!("Nothing could be predicted; each row says why."),
        Ok((_, 0)) => Ok(()),
        Ok((rows, bad)) => {
            eprintln!("{bad} of {rows} could not be read; their rows say why.");
            Ok(())
        }
    }
}

/// What every batch is asked.
struct Asked<'a> {
    task: &'a Task,
    ruling: &'a Ruling,
    explain: usize,
}

impl Asked<'_> {
    /// The rows of some features, in order.
    fn rows(&self, features: &Features) -> siskin_app::Result<Vec<Row>> {
        self.task.rows(features, self.ruling, self.explain)
    }
}

/// Images, a batch at a time. Rows and bad ones are counted.
fn images(args: &Args, asked: &Asked<'_>, said: &mut dyn Said) -> anyhow::Result<(usize, usize)> {
    let model = open_model(asked.task, args.model.as_deref())?;
    let given: Vec<PathBuf> = args.inputs.iter().filter(|p| p.as_os_str() != "-").cloned().collect();
    let lines: Option<Box<dyn BufRead>> =
        (given.len() < args.inputs.len()).then(|| Box::new(std::io::stdin().lock()) as _);
    let (mut inputs, intake) = (Inputs::new(&given, lines), Intake::default());
    let (mut count, mut bad, mut warned) = (0, 0, false);
    loop {
        let batch = inputs.batch(BATCH, &model, &intake)?;
        if batch.is_empty() {
            said.end()?;
            return Ok((count, bad));
        }
        let views: Vec<&View> = batch.iter().filter_map(|input| input.view.as_ref().ok()).collect();
        if let Some(mismatch) = model.mismatch(views.iter().map(|view| &view.look)).filter(|_| !warned) {
            eprintln!("WARNING: {mismatch}");
            warned = true;
        }
        let mut good = match views.is_empty() {
            true => Vec::new(),
            false => asked.rows(&model.embed(views)?)?,
        }
        .into_iter();
        let rows: Vec<Told> = batch
            .into_iter()
            .map(|Input { path, view }| {
                let row = match view {
                    Ok(_) => good.next().ok_or_else(|| "no answer came".to_string()),
                    Err(fault) => Err(format!("{fault}; {}", fault.advice())),
                };
                (path, row)
            })
            .collect();
        count += rows.len();
        bad += rows.iter().filter(|(_, row)| row.is_err()).count();
        said.batch(&rows)?;
    }
}

/// Files of vectors. Rows and bad ones are counted; a file that cannot be used is one row.
fn vectors(args: &Args, asked: &Asked<'_>, said: &mut dyn Said) -> anyhow::Result<(usize, usize)> {
    anyhow::ensure!(args.model.is_none(), "This task was made from vectors: it takes no --model.");
    let lines = args.inputs.iter().any(|path| path.as_os_str() == "-");
    anyhow::ensure!(
        !lines,
        "This task was made from vectors: name the .npy or .safetensors files instead of `-`."
    );
    let (mut count, mut bad) = (0, 0);
    let mut tell = |rows: Vec<Told>| {
        count += rows.len();
        bad += rows.iter().filter(|(_, row)| row.is_err()).count();
        said.batch(&rows)
    };
    let width = asked.task.width();
    for path in &args.inputs {
        let name = path.display().to_string();
        let (dim, values) = match embeddings::read_vectors(path) {
            Ok(read) if read.0 == width => read,
            Ok((dim, _)) => {
                let why = format!("its vectors have {dim} numbers, those of the task {width}");
                tell(vec![(name, Err(why))])?;
                continue;
            }
            Err(e) => {
                tell(vec![(name, Err(e.to_string()))])?;
                continue;
            }
        };
        for (b, part) in values.chunks(BATCH * dim).enumerate() {
            let finite = |vector: &[f32]| vector.iter().all(|v| v.is_finite());
            let good = part.chunks_exact(dim).filter(|vector| finite(vector)).flatten();
            let values: Vec<f64> = good.map(|&v| f64::from(v)).collect();
            let features = Features { rows: values.len() / dim, values, dim };
            let mut rows = match features.rows {
                0 => Vec::new(),
                _ => asked.rows(&features).with_context(|| name.clone())?,
            }
            .into_iter();
            let told = part.chunks_exact(dim).enumerate().map(|(i, vector)| {
                let row = match finite(vector) {
                    true => rows.next().ok_or_else(|| "no answer came".to_string()),
                    false => Err("it holds a number that is not finite".into()),
                };
                (format!("{name}[{}]", b * BATCH + i), row)
            });
            tell(told.collect())?;
        }
    }
    said.end()?;
    Ok((count, bad))
}

/// The model of a task: the one given, else where it was when the task was made.
fn open_model(task: &Task, given: Option<&str>) -> anyhow::Result<Model> {
    let model = task.open_model(given);
    match given {
        Some(_) => Ok(model?),
        None => model.context("The model of this task is not where it was. Name it with --model"),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|e| e.downcast_ref::<std::io::Error>());
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The last parts of a path that fit `width` letters.
fn shortened(path: &str, width: usize) -> String {
    let letters = path.chars().count();
    if letters <= width {
        return path.into();
    }
    let tail: String = path.chars().skip(letters - width + 1).collect();
    format!("…{tail}")
}

/// Where rows go.
type Out<'a> = BufWriter<std::io::StdoutLock<'a>>;
