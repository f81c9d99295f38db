//! `siskin fit`: a classifier of many vectors, from a file of them with labels.

use crate::compute::in_pool;
use anyhow::Context;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use siskin_adapt::{LabelSetTask, VectorClassifier, VectorSettings, title_of};
use siskin_data::shell::quoted;
use siskin_data::source::{embeddings, npy};
use siskin_gp::classifier::{
    EvidenceBound, GpClassifier, KernelByName, LabelSetClassifier, Likelihood, Progress, at_median_distance,
};
use siskin_gp::faer::Mat;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes of a file of weights.
const MOST_WEIGHTS: u64 = 1 << 30;

/// Arguments of `siskin fit`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin fit birds.npy                                  birds_labels.npy (or labels.npy) beside it; writes birds.gp
  siskin predict birds.gp new.npy --format csv          classes, probabilities and sets, row by row
  siskin fit table.npy --kernel auto --class-weight balanced --out table.gp
  siskin predict table.gp new.npy --by-class --class-prior uniform
  siskin fit scenes.npy                                 label sets, where scenes_labels.npy is a table [N, L] of 0 and 1

Columns are shifted and scaled. Up to 1,500 rows the posterior is over all rows, beyond by inducing points (docs/vectors.md). A handful of
vectors with \"none of these\" and nearest examples: siskin adapt.")]
pub(crate) struct Args {
    /// Vectors with labels: x.npy with x_labels.npy or labels.npy beside, or a .safetensors with `features` and `labels`
    vectors: PathBuf,
    /// The file to write [default: the name of the vectors, ending in .gp, in this folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The kernel by the name of its form, such as rbf or rbf+linear, or auto [default: details on a trend]
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// A length for each column; needs --kernel
    #[arg(long, requires = "kernel")]
    ard: bool,
    /// An output scale for each class; needs --kernel
    #[arg(long, requires = "kernel")]
    class_scales: bool,
    /// Lengths for each class; needs --kernel
    #[arg(long, requires = "kernel")]
    class_lengths: bool,
    /// Give every class the same part, however many rows it has
    #[arg(long, value_enum, value_name = "RULE")]
    class_weight: Option<ClassWeight>,
    /// How often each row counts: a .npy file of one number a row
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Inducing points: 0 for a posterior over all rows [default: none up to 1,500 rows, above as many as work and memory allow]
    #[arg(long, value_name = "N")]
    inducing: Option<usize>,
    /// How class probabilities arise from the latent functions [default: logistic-softmax]
    #[arg(long, value_name = "NAME", value_parser = of_table(Likelihood::NAMED))]
    likelihood: Option<Likelihood>,
    /// direct is close to the exact posterior; collapsed is faster and under-confident [default: direct]
    #[arg(long, value_name = "NAME", value_parser = of_table(EvidenceBound::NAMED))]
    inference: Option<EvidenceBound>,
    /// Learn the hyperparameters from at most about so many rows at a time [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    learn_points: Option<u32>,
}

/// Reads the name of one of these.
fn of_table<T: Copy + Send + Sync + 'static, const N: usize>(
    table: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(table.map(|(name, _)| name));
    names.try_map(move |name| {
        table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or("not known")
    })
}

/// How classes are weighed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClassWeight {
    /// Every class has the same part.
    Balanced,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let start = Instant::now();
    anyhow::ensure!(
        embeddings::is_embeddings(&args.vectors),
        "{} is no file of vectors (.npy or .safetensors). Images: siskin adapt FOLDER, or siskin embed MODEL FOLDER --out x.npy first.",
        args.vectors.display()
    );
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.gp", title_of(&args.vectors))));
    let written = if out.exists() { "Replaced" } else { "Written" };
    match embeddings::read_label_sets(&args.vectors)? {
        Some(given) => fit_sets(&args, given, &out)?,
        None => fit_classes(&args, &out)?,
    }
    let seconds = start.elapsed().as_secs_f64();
    say!("{written}: {} in {seconds:.1} s. Next: siskin predict {} NEW.npy", out.display(), quoted(&out));
    Ok(())
}

/// One class per row.
fn fit_classes(args: &Args, out: &Path) -> anyhow::Result<()> {
    let vectors = embeddings::read(&args.vectors)?;
    let &Args { ard, class_scales, class_lengths, .. } = args;
    let settings = VectorSettings {
        kernel: KernelByName { name: args.kernel.clone(), ard, class_scales, class_lengths },
        balanced: args.class_weight == Some(ClassWeight::Balanced),
        weights: args.weights.as_deref().map(read_weights).transpose()?,
    };
    let mut classifier = GpClassifier::default();
    classifier.inducing = args.inducing;
    classifier.likelihood = args.likelihood.unwrap_or_default();
    classifier.bound = args.inference.unwrap_or_default();
    classifier.learn_points = args.learn_points.map_or(classifier.learn_points, |most| most as usize);
    let progress = classifier.progress.clone();
    let fitted = watched(progress, || VectorClassifier::fit(classifier, &vectors, &settings))?;
    fitted.save(out)?;
    say!("{} rows of {} numbers, {} classes:", vectors.len(), fitted.width(), fitted.classes().count());
    fitted.classes().for_each(|(name, rows)| say!("  {name}  {rows}"));
    let learned = fitted.learned()?;
    let by = match learned.inducing {
        0 => "over all rows".to_owned(),
        points => format!("by {points} inducing points"),
    };
    say!("Kernel {}, temperature {:.3}, posterior {by}.", fitted.kernel()?, learned.tau);
    if let Some(found) = fitted.leave_one_out()? {
        let (right, loss) = (100.0 * found.accuracy, found.log_loss);
        say!("Rows that were left out: {right:.1} % right, log-loss {loss:.3}.");
    }
    Ok(())
}

/// Any number of labels per row.
fn fit_sets(args: &Args, given: embeddings::VectorsWithSets, out: &Path) -> anyhow::Result<()> {
    let plain = args.class_weight.is_none()
        && args.weights.is_none()
        && args.likelihood.is_none()
        && args.inference.is_none()
        && args.learn_points.is_none();
    anyhow::ensure!(
        plain
            && !args.ard
            && !args.class_scales
            && !args.class_lengths
            && args.kernel.as_deref() != Some("auto"),
        "Rows with label sets have no weights, and no --ard, --class-scales, --class-lengths, --kernel auto, --likelihood, --inference or \
         --learn-points: leave them out."
    );
    let mut classifier = LabelSetClassifier::default();
    classifier.inducing = args.inducing;
    if let Some(name) = &args.kernel {
        let x = Mat::from_fn(given.sets.len(), given.dim, |i, j| f64::from(given.vectors[i * given.dim + j]));
        classifier.kernel = Some(at_median_distance(name, x.as_ref(), &vec![0; given.sets.len()])?);
    }
    let progress = classifier.progress.clone();
    let fitted = watched(progress, || LabelSetTask::fit(classifier, given, &title_of(&args.vectors)))?;
    fitted.save(out)?;
    say!(
        "{} rows of {} numbers with label sets of {} labels:",
        fitted.examples(),
        fitted.width(),
        fitted.labels().count()
    );
    fitted.labels().for_each(|(name, rows)| say!("  {name}  {rows}"));
    Ok(())
}

/// The numbers of a .npy file of weights.
fn read_weights(path: &Path) -> anyhow::Result<Vec<f64>> {
    let bytes = siskin_data::files::read(path, MOST_WEIGHTS)
        .with_context(|| format!("cannot read the weights {}", path.display()))?;
    let array = npy::parse(&bytes, path)?;
    anyhow::ensure!(
        array.shape.len() == 1,
        "{}: its shape is {:?}, expected [rows]",
        path.display(),
        array.shape
    );
    Ok(match array.values {
        npy::Values::Floats(values) => values.into_iter().map(f64::from).collect(),
        npy::Values::Integers(values) => values.into_iter().map(|v| v as f64).collect(),
    })
}

/// Runs a fit on the threads of the pool, with a bar that shows how far it is; none where standard error is no terminal.
fn watched<T: Send>(progress: Arc<Progress>, fit: impl FnOnce() -> T + Send) -> T {
    let bar = ProgressBar::new(100);
    if let Ok(style) = ProgressStyle::with_template("Fitting {bar:30} {pos} %  {elapsed_precise}") {
        bar.set_style(style);
    }
    let (done, over) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (bar, progress) = (&bar, &progress);
        scope.spawn(move || {
            while over.recv_timeout(Duration::from_millis(200))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                bar.set_position((100.0 * progress.fraction()) as u64);
            }
            bar.finish_and_clear();
        });
        let found = in_pool(fit);
        drop(done);
        found
    })
}
