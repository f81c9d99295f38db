//! `siskin watch`: how far a run is, by what it has written so far; also of a run on another machine that shares the folder.

use anyhow::Context;
use siskin_data::shell::quoted;
use siskin_train::curve::Curve;
use siskin_train::progress::Progress;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Steps whose mean loss is shown.
const RECENT: usize = 100;

/// Arguments of `siskin watch`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin watch runs/omniglot             a line whenever the run has saved, until it is trained
  siskin watch runs/omniglot --once      how far it is now

A training writes its metrics down when it saves (train.save_every, train.save_minutes): that is as new as it gets. The folder may
be that of another machine. A run that nobody works on is called stopped, and is watched on, for somebody may go on with it; one that has
diverged ends the watch with exit code 1. A disk without locks does not tell.")]
pub(crate) struct Args {
    /// The run folder.
    run: PathBuf,
    /// Say how far it is, and end.
    #[arg(long)]
    once: bool,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    every: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        (0.01..=86_400.0).contains(&args.every),
        "--every {}: give 0.01 to 86400 seconds",
        args.every
    );
    anyhow::ensure!(
        args.run.join("config.toml").exists(),
        "{} holds no run: give the folder that `siskin train` writes (its --out)",
        args.run.display()
    );
    let begun = Instant::now();
    let (mut shown, mut first): (Option<(Progress, bool)>, Option<u64>) = (None, None);
    let mut worked = None;
    loop {
        // Asked before the checkpoint is read: who has ended by now has written it.
        let works = Progress::at_work(&args.run);
        let progress = Progress::of(&args.run)?;
        // A run that begins has the lock for a moment, and a moment later to the end: one look without it says nothing.
        let stopped = works == Some(false) && (args.once || worked == Some(false));
        worked = works;
        if shown != Some((progress, stopped)) {
            let done = episodes(progress);
            let per_second = match *first.get_or_insert(done) {
                first if done > first => Some((done - first) as f64 / begun.elapsed().as_secs_f64()),
                _ => None,
            };
            say!("{}", line(&args.run, progress, per_second.filter(|_| !stopped), stopped)?);
            shown = Some((progress, stopped));
        }
        if args.once || matches!(progress, Progress::Trained { .. }) {
            return Ok(());
        }
        anyhow::ensure!(
            !(stopped && matches!(progress, Progress::Diverged { .. })),
            "the training has diverged; its last steps once more: siskin train --replay {}",
            quoted(&args.run)
        );
        std::thread::sleep(Duration::from_secs_f64(args.every));
    }
}

fn episodes(progress: Progress) -> u64 {
    match progress {
        Progress::NotRun => 0,
        Progress::Begun { done, .. } | Progress::Diverged { done, .. } => done,
        Progress::Trained { of } => of,
    }
}

/// How far it is in a line. `per_second`: episodes per second, as far as it was watched. `stopped`: nobody works on it.
fn line(run: &Path, progress: Progress, per_second: Option<f64>, stopped: bool) -> anyhow::Result<String> {
    let (done, of) = match progress {
        Progress::NotRun if stopped => return Ok("nothing saved, stopped".into()),
        Progress::NotRun => return Ok("nothing saved yet".into()),
        Progress::Begun { done, of } | Progress::Diverged { done, of } => (done, of),
        Progress::Trained { of } => (of, of),
    };
    let curve = Curve::read(run)?;
    let mut words = vec![format!("{done} of {of} episodes")];
    let recent = &curve.losses[curve.losses.len().saturating_sub(RECENT)..];
    if !recent.is_empty() {
        let mean = recent.iter().map(|(_, loss)| loss).sum::<f64>() / recent.len() as f64;
        words.push(format!("loss {mean:.3}"));
    }
    if let Some((at, accuracy)) = curve.accuracies.last() {
        words.push(format!("validation {:.2} % at {at}", 100.0 * accuracy));
    }
    match (progress, per_second) {
        (Progress::Trained { .. }, _) => words.push("trained".into()),
        (Progress::Diverged { .. }, _) => {
            words.push(if stopped { "diverged" } else { "diverged before, at work again" }.into());
        }
        (_, Some(per_second)) => {
            let left = Duration::from_secs_f64((of - done) as f64 / per_second);
            words.push(format!("{per_second:.2} episodes per second, about {} left", human(left)));
        }
        _ => {
            words.push(format!("saved {} ago", human(age(run)?)));
            words.extend(stopped.then(|| "stopped".into()));
        }
    }
    Ok(words.join(", "))
}

/// How long ago the run wrote its metrics.
fn age(run: &Path) -> anyhow::Result<Duration> {
    let path = run.join("metrics.jsonl");
    let changed = path.metadata().and_then(|file| file.modified());
    let changed = changed.with_context(|| format!("cannot look at {}", path.display()))?;
    // Clocks of two machines may differ.
    Ok(SystemTime::now().duration_since(changed).unwrap_or_default())
}

/// `3 h 20 min`, `5 min 10 s` or `12 s`.
pub(crate) fn human(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::human;
    use std::time::Duration;

    #[test]
    fn times_are_for_people() {
        for (seconds, says) in [(12, "12 s"), (310, "5 min 10 s"), (12_059, "3 h 20 min")] {
            assert_eq!(human(Duration::from_secs(seconds)), says);
        }
    }
}
