//! `siskin predict`: what is on these images, and how sure is that.

mod fitted;
mod images;
mod label_sets;
mod printer;
mod table;
mod vectors;

use crate::compute::DeviceArg;
use clap::ValueEnum;
use printer::Printer;
use siskin_adapt::{Features, LabelSetTask, Rules, TaskClassifier, Thresholds, VectorClassifier};
use siskin_data::shell::quoted;
use siskin_data::source::listing::is_image;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Images or vectors answered at a time: bounds the memory.
const BATCH: usize = 64;

/// Arguments of `siskin predict`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin predict letters.task new.png more/            a table
  find . -name '*.jpg' | siskin predict birds.task - --format jsonl
  siskin predict birds.task photos --explain 3         with the nearest examples and their kernel values
  siskin predict birds.task photos --level 0.95 --abstain 0.01
  siskin predict vectors.task new.npy --format csv     a task made from vectors
  siskin predict table.gp new.npy --by-class           a classifier made by siskin fit

A file that cannot be read is a row with its error; the run goes on, and fails only where nothing could be predicted.
`possible` is a conformal set: it holds the true class at the level asked for, for images like those of the
calibration. See docs/predict.md.")]
pub(crate) struct Args {
    /// The task file that `siskin adapt` wrote, or the classifier of `siskin fit`
    task: PathBuf,
    /// Images, folders of images, `-` for paths from standard input (one per line); for a task of vectors .npy or
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
    #[arg(long, value_name = "RATE", default_value_t = Rules::default().abstain)]
    abstain: f64,
    /// Say "none of these" where the most probable class has less than this
    #[arg(long, value_name = "P", default_value_t = Rules::default().min_probability)]
    min_probability: f64,
    /// Show this many nearest examples with their kernel values, and in the table entropy and latent variance
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "3")]
    explain: Option<usize>,
    /// Make `possible` hold the true class at its rate for the rows of each class (classifiers of `siskin fit`)
    #[arg(long)]
    by_class: bool,
    /// The shares of the classes where they are not those of the rows that were fitted: uniform, or a number for each class in their order,
    /// separated by commas (classifiers of `siskin fit`)
    #[arg(long, value_name = "SHARES")]
    class_prior: Option<String>,
    #[command(flatten)]
    device: DeviceArg,
}

/// How to print predictions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    check_task(&args.task, &args.inputs, "predict")?;
    if let Some(classifier) = VectorClassifier::load(&args.task)? {
        return outcome(fitted::answer(&args, &classifier));
    }
    anyhow::ensure!(
        !args.by_class && args.class_prior.is_none(),
        "--by-class and --class-prior are for classifiers that siskin fit wrote; {} is another file.",
        args.task.display()
    );
    if let Some(task) = LabelSetTask::load(&args.task)? {
        return outcome(label_sets::answer(&args, &task));
    }
    let task = TaskClassifier::load(&args.task)?;
    let rules = Rules { level: args.level, abstain: args.abstain, min_probability: args.min_probability };
    let thresholds = task.thresholds(&rules)?;
    let notes = thresholds.notes().iter().map(String::as_str).chain(thresholds.expectation());
    notes.for_each(|note| tell!("note: {note}"));
    let mut printer = printer(&args, task.classes());
    let question = Question { task: &task, thresholds: &thresholds, explain: args.explain.unwrap_or(0) };
    let counts = match task.model() {
        Some(_) => images::answer(&args, &question, printer.as_mut()),
        None => {
            anyhow::ensure!(args.model.is_none(), "This task was made from vectors: it takes no --model.");
            let respond = |rows: &Features| task.answer_named(rows, &thresholds, question.explain);
            vectors::answer(&args, (task.width(), BATCH), &respond, &mut |rows| printer.batch(&rows))
                .and_then(|counts| printer.end().map(|()| counts))
        }
    };
    outcome(counts)
}

/// Says what is mistaken for a task: the folder that one was made of, or an image that stands before the task.
pub(crate) fn check_task(task: &Path, inputs: &[PathBuf], command: &str) -> anyhow::Result<()> {
    let is_task = |path: &Path| path.extension().is_some_and(|ending| ending == "task") && path.is_file();
    if is_task(task) {
        return Ok(());
    }
    let words = |inputs: &[&PathBuf]| inputs.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let mut beside = task.components().as_path().as_os_str().to_owned();
    beside.push(".task");
    if !task.is_file() && is_task(Path::new(&beside)) {
        let rest = words(&inputs.iter().collect::<Vec<_>>());
        anyhow::bail!(
            "{} is no task file; its task is {1}: siskin {command} {1} {rest}",
            task.display(),
            quoted(&beside)
        );
    }
    let Some(meant) = inputs.iter().find(|path| is_task(path)) else { return Ok(()) };
    // A classifier of `siskin fit` may have any name.
    if !task.is_file() || is_image(&task.display().to_string()) {
        let given = task.to_owned();
        let rest: Vec<&PathBuf> = [&given].into_iter().chain(inputs).filter(|path| *path != meant).collect();
        anyhow::bail!("The task comes first: siskin {command} {} {}", quoted(meant), words(&rest));
    }
    Ok(())
}

/// What prints the rows of classes with these names.
fn printer(args: &Args, classes: &[String]) -> Box<dyn Printer> {
    let out = BufWriter::new(std::io::stdout().lock());
    match args.format {
        Format::Table => Box::new(table::Table::new(out, args.level, args.explain.is_some())),
        Format::Jsonl => Box::new(printer::JsonLines(out)),
        Format::Csv => Box::new(printer::Csv::new(out, classes, args.explain.is_some())),
    }
}

/// What the rows mean for the command as a whole.
fn outcome(counts: anyhow::Result<Counts>) -> anyhow::Result<()> {
    match counts {
        // A reader that has seen enough (`| head`) is no error.
        Err(e) if is_broken_pipe(&e) => Ok(()),
        Err(e) => Err(e),
        Ok(Counts { rows: 0, .. }) => anyhow::bail!("There was nothing to predict: no path was given."),
        Ok(Counts { rows, bad }) if rows == bad => {
            anyhow::bail!("Nothing could be predicted; each row says why.")
        }
        Ok(Counts { bad: 0, .. }) => Ok(()),
        Ok(Counts { rows, bad }) => {
            tell!("{bad} of {rows} could not be read; their rows say why.");
            Ok(())
        }
    }
}

/// What is asked of every image or vector.
struct Question<'a> {
    task: &'a TaskClassifier,
    thresholds: &'a Thresholds,
    explain: usize,
}

/// Rows printed, and how many of them are errors.
#[derive(Default)]
struct Counts {
    rows: usize,
    bad: usize,
}

impl Counts {
    fn add<A>(&mut self, rows: &[(String, Result<A, String>)]) {
        self.rows += rows.len();
        self.bad += rows.iter().filter(|(_, answer)| answer.is_err()).count();
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
