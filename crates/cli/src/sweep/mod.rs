//! `siskin sweep`: many trainings by one table of settings, on this machine or by a scheduler that is there.

mod hyperqueue;
mod local;
mod one;
mod show;
mod slurm;

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use siskin_train::reproduce::shell_word;
use siskin_train::sweep::{Sweep, SweepRun};
use std::path::{Path, PathBuf};

/// Arguments of `siskin sweep`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  siskin sweep temperature.toml --out runs/temperature --parallel 2          on this machine, two at a time
  siskin sweep temperature.toml --engine slurm --parallel 16 --cpus 4 --pass=--time=04:00:00
  siskin sweep temperature.toml --engine hyperqueue --cpus 2
  siskin sweep status runs/temperature
  siskin sweep collect runs/temperature

The table is a TOML file:
  config = \"glyphs.toml\"      the config of all runs, beside the table
  [set]                       settings of all runs
  train.episodes = 200
  [[grid]]                    every combination of these values; there may be several grids
  cdkt.tau = [0.2, 1.0]
  seed = [0, 1, 2, 3]

Each run has a folder below --out whose name follows from its settings. The command can be given again at any time, also with a
longer table or another engine: what is finished is skipped, what was cut goes on from its last checkpoint, what failed is tried
again. A run whose process is killed is begun again, twice at most. docs/cluster.md says more."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The table of settings (TOML).
    #[arg(required = true)]
    table: Option<PathBuf>,
    /// The folder for the runs. Default: runs/ and the name of the table.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Change one key of all runs, e.g. --set train.episodes=500. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What runs them.
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// Runs at the same time, at most [default: local 1, slurm no bound; HyperQueue's bound are the CPUs of its workers]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    parallel: Option<u32>,
    /// Threads of each run [default: local all cores shared out, otherwise 1]. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Slurm: seconds before the time limit at which a run is told to save; it is then queued again.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    warning: u32,
    /// Slurm: an option for sbatch, e.g. --pass=--partition=long. May be given several times.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pass: Vec<String>,
    /// Wait until all runs of the scheduler have ended.
    #[arg(long)]
    wait: bool,
    /// Write what would be submitted, say how, and stop.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Say how far each run is, how often it was begun, and why it failed.
    Status {
        /// The folder of the sweep.
        folder: PathBuf,
    },
    /// Join the results of finished runs into one table, with intervals over seeds.
    Collect {
        /// The folder of the sweep.
        folder: PathBuf,
    },
    /// Train and test one run: what the engines call.
    Run(one::Args),
}

/// What runs the trainings.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Processes on this machine.
    Local,
    /// An array job of Slurm.
    Slurm,
    /// A job of HyperQueue, by its Python package.
    Hyperqueue,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Status { folder }) => show::status(&Sweep::open(folder)?),
        Some(Command::Collect { folder }) => show::collect(&Sweep::open(folder)?),
        Some(Command::Run(one)) => one::run(one),
        None => start(&args),
    }
}

fn start(args: &Args) -> anyhow::Result<()> {
    check(args)?;
    let table = args.table.as_deref().context("give a table of settings")?;
    let name = table.file_stem().context("the table has no file name")?;
    let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
    let set: Vec<String> = args.set.iter().cloned().chain(args.compute.settings()).collect();
    let sweep = Sweep::create(table, &out, &set)?;
    let waiting: Vec<&SweepRun> = sweep.unfinished().collect();
    say!(
        "{} runs in {}, {} of them finished.",
        sweep.runs.len(),
        out.display(),
        sweep.runs.len() - waiting.len()
    );
    if !waiting.is_empty() {
        match args.engine {
            Engine::Local => local::run(&sweep, &waiting, args)?,
            Engine::Slurm => slurm::submit(&sweep, &waiting, args)?,
            Engine::Hyperqueue => hyperqueue::submit(&sweep, &waiting, args)?,
        }
    }
    if args.dry_run || (args.engine != Engine::Local && !args.wait && !waiting.is_empty()) {
        return Ok(());
    }
    show::collect(&sweep)
}

/// What has no effect is refused.
fn check(args: &Args) -> anyhow::Result<()> {
    let of = |engines: &[Engine], flag: &str, given: bool, why: &str| {
        anyhow::ensure!(
            !given || engines.contains(&args.engine),
            "{flag} has no effect with this engine: {why}"
        );
        Ok(())
    };
    let (slurm, hq) = (Engine::Slurm, Engine::Hyperqueue);
    of(&[slurm], "--pass", !args.pass.is_empty(), "it is for sbatch")?;
    of(&[slurm, hq], "--wait", args.wait, "local runs are waited for")?;
    of(&[slurm, hq], "--dry-run", args.dry_run, "nothing is submitted; see `siskin sweep status`")?;
    let bound = "the CPUs of the workers bound the runs; say by --cpus how many a run takes";
    of(&[Engine::Local, slurm], "--parallel", args.parallel.is_some(), bound)
}

/// The words of the command that works on one run of `sweep`, without its name. Paths are those of the file system: a
/// scheduler may start it anywhere.
fn command(sweep: &Sweep, threads: u32, read: &ReadArgs) -> anyhow::Result<Vec<String>> {
    let program = std::env::current_exe().context("cannot say where this program is")?;
    let folder = std::path::absolute(&sweep.folder).context("cannot say where the sweep is")?;
    let mut words = vec![program.display().to_string(), "--threads".into(), threads.to_string()];
    words.extend(["sweep".into(), "run".into(), folder.display().to_string()]);
    words.extend(read.words()?);
    Ok(words)
}

/// Writes a job and says where. The name follows from the content: the same job given again is the same file.
fn write_job(sweep: &Sweep, ending: &str, text: &str) -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(sweep.folder.join("jobs"))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join(format!("{}.{ending}", siskin_train::sweep::short_hash(text)));
    siskin_train::atomic::write(&path, text.as_bytes())?;
    Ok(path)
}

/// Words as a POSIX shell takes them.
fn shell_line(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}
