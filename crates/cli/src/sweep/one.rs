//! `siskin sweep run`: one run of a sweep, trained where it stopped, tested, its figures kept.

use crate::data::source::ReadArgs;
use siskin_train::sweep::{Attempt, Sweep, SweepRun};
use siskin_train::trainer::Outcome;
use std::path::PathBuf;
use std::time::SystemTime;

/// Arguments of `siskin sweep run`.
#[derive(clap::Args)]
#[command(
    after_help = "The exit code is 0 when the run has its figures, 1 when it failed (`siskin sweep status` says why), 75 when \
    another process works on it, and 143, 130 or 129 when a signal stopped it; then it has saved and goes on when it is begun again."
)]
pub(super) struct Args {
    /// The folder of the sweep.
    folder: PathBuf,
    /// The name of the run.
    name: String,
    #[command(flatten)]
    read: ReadArgs,
}

/// Somebody else works on the run: the exit code of `EX_TEMPFAIL`.
const ELSEWHERE: i32 = 75;

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let sweep = Sweep::open(&args.folder)?;
    let run = sweep.run(&args.name)?;
    let Some(_lock) = sweep.lock(run)? else {
        tell!("{}: another process works on it.", run.name);
        std::process::exit(ELSEWHERE);
    };
    if sweep.is_finished(run)? {
        say!("{}: already finished.", run.name);
        return Ok(());
    }
    sweep.begin(run, &attempt())?;
    let done = work(&sweep, run, &args.read);
    crate::stop::check()?;
    if let Err(error) = &done {
        sweep.keep_failure(run, &crate::sentence(error))?;
    }
    done
}

fn work(sweep: &Sweep, run: &SweepRun, read: &ReadArgs) -> anyhow::Result<()> {
    if let Some(mut training) = read.with_opener(read.on_bad(), |opener| sweep.training(run, opener))? {
        let (done, of) = (training.trainer().episode(), training.length());
        say!("{} ({}): training, {done} of {of} episodes done.", run.name, run.words());
        if crate::train::train(&mut training)? == Outcome::Stopped {
            say!("{}: stopped at episode {} and saved.", run.name, training.trainer().episode());
            return Ok(());
        }
    }
    say!("{}: testing.", run.name);
    read.with_opener(read.on_bad(), |opener| sweep.examine(run, opener))?;
    say!("{}: finished.", run.name);
    Ok(())
}

/// This process as one of the attempts.
fn attempt() -> Attempt {
    let of = |name: &str| std::env::var(name).ok();
    let by = match (of("SLURM_JOB_ID"), of("HQ_JOB_ID")) {
        (Some(job), _) => {
            let array = of("SLURM_ARRAY_JOB_ID").zip(of("SLURM_ARRAY_TASK_ID"));
            format!("slurm {}", array.map_or(job, |(array, task)| format!("{array}_{task}")))
        }
        (None, Some(job)) => format!("hyperqueue {job}.{}", of("HQ_TASK_ID").unwrap_or_default()),
        (None, None) => "local".into(),
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| of("HOSTNAME"));
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Attempt { by, host: host.unwrap_or_default().trim().into(), began }
}
