//! `siskin reproduce`: a table of the paper, from runs that are trained where they are missing.

mod show;

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use anyhow::Context;
use siskin_train::reproduce::{Plan, PlanOptions, PlannedRun, State, configs, table};
use siskin_train::trainer::Outcome;
use std::path::{Path, PathBuf};

/// Arguments of `siskin reproduce`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin reproduce table1 --plan                                    what the whole table would cost on this machine
  siskin reproduce table1 --only cub-1shot --methods cdkt,dkt,ove,proto-net
  siskin reproduce table1 --only cub-1shot --budget 3000            shorter trainings, in a folder of their own
  siskin reproduce table2 --only cub-5shot-ml-low-tau               ECE and MCE; Table 2 has the 5-shot runs of Table 1
  siskin reproduce table3 --only cub,rbf                            columns and rows by name
  siskin reproduce table1 --only cub-1shot-dkt --run cub-1shot-dkt=runs/my-dkt
  siskin reproduce steps --budget 3000 --jobs jobs.txt              then e.g.: xargs -P 4 -I{} sh -c '{}' < jobs.txt
  siskin reproduce steps --budget 3000 --report                     the table of what is finished so far

Tables: table1 (accuracy), table2 (calibration), table3 (kernels), table4 (temperature), steps (accuracy against steps).
The data sets must be imported as `cub` and `mini-imagenet`; see docs/data.md. docs/reproduce.md says more.

The command can be stopped or killed and given again: a run that is trained is not trained again, one that was stopped goes on
from its last checkpoint, and a run that several tables share is trained once. A run that fails is listed with its reason, the
others go on. Written below --out: NAME.md, NAME.csv and NAME.html with the paper's figure, ours, the interval, the training
episodes and the command in each cell; cells that are not run say so.")]
pub(crate) struct Args {
    /// The table: table1, table2, table3, table4 or steps.
    #[arg(value_name = "TABLE", required_unless_present = "write_configs")]
    table: Option<String>,
    /// Only these columns, rows or cells, with commas between, e.g. cub-1shot or cub-1shot-dkt.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these methods (`siskin methods`) or rows, with commas between, e.g. cdkt,ove or ml-low-tau.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Vec<String>,
    /// Train no run for more than so many episodes (batches, for methods that train on batches) [default: as the paper]
    #[arg(long, value_name = "EPISODES", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// A finished run or a model file for a cell, in place of a training. May be given several times.
    #[arg(long = "run", value_name = "CELL=MODEL")]
    runs: Vec<String>,
    /// Change one key of all configs, e.g. --set test.groups=1. The table says what was changed. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The folder for runs, results and tables; with --budget a folder below it.
    #[arg(long, value_name = "FOLDER", default_value = Plan::OUT)]
    out: PathBuf,
    /// Print what is to be done and what it costs, and stop.
    #[arg(long, conflicts_with_all = ["jobs", "report"])]
    plan: bool,
    /// Write the plan as independent jobs and stop: one shell command per line, each of which can be given again.
    #[arg(long, value_name = "FILE", conflicts_with = "report")]
    jobs: Option<PathBuf>,
    /// Train nothing: test runs that are trained or given, and write the table.
    #[arg(long)]
    report: bool,
    /// Do not time this machine first: the plan then says episodes, no hours.
    #[arg(long)]
    no_timing: bool,
    /// Write the config files of all cells and stop: what configs/paper in the repository holds.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["table", "jobs", "plan", "report"])]
    write_configs: Option<PathBuf>,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if let Some(folder) = &args.write_configs {
        return write_configs(folder);
    }
    let table = table(args.table.as_deref().unwrap_or_default())?;
    let plan = Plan::new(table, options(&args)?)?;
    if let Some(path) = &args.jobs {
        return write_jobs(&plan, path);
    }
    if !args.report {
        show::plan(&plan, !args.no_timing)?;
    }
    if args.plan {
        return Ok(());
    }
    let mut failed = 0;
    for run in plan.wanted() {
        let done = work(&plan, run, &args);
        if let Err(stopped) = crate::stop::check() {
            plan.write_table()?;
            say!("Stopped and saved. Give the same command again to go on.");
            return Err(stopped.into());
        }
        if let Err(error) = done {
            let why = crate::sentence(&error);
            tell!("{} failed: {why}", run.name);
            plan.keep_failure(run, &why)?;
            failed += 1;
        }
        // After each run, so that a kill costs no figure.
        plan.write_table()?;
    }
    show::results(&plan);
    let path = plan.write_table()?;
    say!("Written: {}.md, .csv and .html", path.display());
    anyhow::ensure!(failed == 0, "{failed} of {} runs failed; see above.", plan.wanted().count());
    Ok(())
}

fn options(args: &Args) -> anyhow::Result<PlanOptions> {
    let elsewhere = args.runs.iter().map(|run| {
        let (cell, path) =
            run.split_once('=').context("--run: write CELL=FOLDER, e.g. cub-1shot-dkt=runs/dkt")?;
        anyhow::Ok((cell.to_string(), PathBuf::from(path)))
    });
    Ok(PlanOptions {
        only: args.only.clone(),
        methods: args.methods.clone(),
        budget: args.budget,
        set: args.set.iter().cloned().chain(args.compute.settings()).collect(),
        elsewhere: elsewhere.collect::<anyhow::Result<_>>()?,
        out: args.out.clone(),
    })
}

/// Trains a run if it is not trained, and tests it if it is not tested.
fn work(plan: &Plan, run: &PlannedRun, args: &Args) -> anyhow::Result<()> {
    let read = &args.read;
    if args.report {
        let ready = !plan.is_trained_here(run)? || matches!(plan.training_state(run)?, State::Trained { .. });
        if !ready {
            return Ok(());
        }
    } else {
        plan.forget_failure(run)?;
        if plan.is_trained_here(run)? && train(run, read)? == Outcome::Stopped {
            return Ok(());
        }
    }
    if plan.is_tested(run)? {
        tell!("{}: already tested.", run.name);
        return Ok(());
    }
    tell!("{}: testing.", run.name);
    read.with_opener(read.on_bad(), |opener| plan.examine(run, opener))?;
    Ok(())
}

fn train(run: &PlannedRun, read: &ReadArgs) -> anyhow::Result<Outcome> {
    let Some(mut training) = read.with_opener(read.on_bad(), |opener| run.unfinished(opener))? else {
        tell!("{}: already trained ({}).", run.name, run.folder.display());
        return Ok(Outcome::Finished);
    };
    tell!("{}: training, {} of {} episodes done.", run.name, training.trainer().episode(), training.length());
    crate::train::train(&mut training)
}

/// One command for each run that is not finished. It begins with the program as it was called.
fn write_jobs(plan: &Plan, path: &Path) -> anyhow::Result<()> {
    let program = std::env::args().next().unwrap_or_else(|| "siskin".into());
    let mut lines = String::new();
    for run in plan.wanted() {
        if plan.is_tested(run)? {
            continue;
        }
        let command = plan.command(run);
        let rest = command.strip_prefix("siskin").unwrap_or(&command);
        lines += &format!("{}{rest} --no-timing\n", siskin_train::reproduce::shell_word(&program));
    }
    siskin_train::atomic::write(path, lines.as_bytes())?;
    say!(
        "{} jobs in {}. Afterwards, for the table: add --report in place of --jobs.",
        lines.lines().count(),
        path.display()
    );
    Ok(())
}

fn write_configs(folder: &Path) -> anyhow::Result<()> {
    let all = configs()?;
    for config in &all {
        let path = folder.join(format!("{}.toml", config.path));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        siskin_train::atomic::write(&path, config.text.as_bytes())?;
    }
    say!("{} configs in {}", all.len(), folder.display());
    Ok(())
}
