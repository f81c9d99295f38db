//! Runs as processes of this machine, some at a time.

use super::{Args, command};
use anyhow::Context;
use siskin_train::sweep::{Sweep, SweepRun};
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a run is begun again whose process was killed.
pub(super) const RETRIES: u32 = 2;
/// Between two looks at the processes.
const PAUSE: Duration = Duration::from_millis(20);

/// A process at work.
struct Worker<'a> {
    run: &'a SweepRun,
    child: Child,
    retries: u32,
}

/// Works on all runs, `--parallel` at a time. A signal is passed on; the runs then save and stop.
pub(super) fn run(sweep: &Sweep, waiting: &[&SweepRun], args: &Args) -> anyhow::Result<()> {
    let parallel = args.parallel.unwrap_or(1);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let threads = args.cpus.unwrap_or((cores / parallel).max(1));
    let words = command(sweep, threads, &args.read)?;
    let failed = crate::stop::saving(|stop| all(sweep, waiting, &words, parallel as usize, stop))?;
    if let Err(stopped) = crate::stop::check() {
        say!("Stopped and saved. Give the same command again to go on.");
        return Err(stopped.into());
    }
    if failed > 0 {
        tell!("{failed} of {} runs failed; `siskin sweep status` says why.", waiting.len());
    }
    Ok(())
}

fn all(
    sweep: &Sweep,
    waiting: &[&SweepRun],
    words: &[String],
    parallel: usize,
    stop: &AtomicBool,
) -> anyhow::Result<usize> {
    let mut queue: VecDeque<(&SweepRun, u32)> = waiting.iter().map(|run| (*run, 0)).collect();
    let (mut workers, mut failed, mut signalled): (Vec<Worker<'_>>, usize, bool) = (Vec::new(), 0, false);
    let mut broken = None;
    while !(workers.is_empty() && (queue.is_empty() || broken.is_some() || stop.load(Ordering::Relaxed))) {
        let stopping = broken.is_some() || stop.load(Ordering::Relaxed);
        if stopping && !signalled {
            signalled = true;
            // One signal each: a second one would end them before they have saved.
            workers.iter_mut().for_each(|worker| system::stop(&mut worker.child));
        }
        while !stopping && broken.is_none() && workers.len() < parallel {
            let Some((run, retries)) = queue.pop_front() else { break };
            match begin(sweep, run, words) {
                Ok(child) => workers.push(Worker { run, child, retries }),
                // Those at work save and stop before anybody is told: nobody would look after them.
                Err(why) => broken = Some(why),
            }
        }
        std::thread::sleep(PAUSE);
        for at in (0..workers.len()).rev() {
            let Some(status) = workers[at].child.try_wait().context("cannot wait for a run")? else {
                continue;
            };
            let Worker { run, retries, .. } = workers.swap_remove(at);
            if system::was_killed(status) && !stopping && retries < RETRIES {
                tell!("{} ({}): its process was killed ({status}); begun again.", run.name, run.words());
                queue.push_front((run, retries + 1));
                continue;
            }
            let done = sweep.runs.len() - sweep.unfinished().count();
            say!(
                "{} ({}): {}; {done} of {} finished.",
                run.name,
                run.words(),
                sweep.status(run).words(),
                sweep.runs.len()
            );
            failed += usize::from(!status.success() && !stopping);
        }
    }
    broken.map_or(Ok(failed), Err)
}

/// Starts the process of a run. A process group of its own keeps a Ctrl-C on the terminal from it: we pass it on once.
fn begin(sweep: &Sweep, run: &SweepRun, words: &[String]) -> anyhow::Result<Child> {
    let path = sweep.folder_of(run).join("log.txt");
    let log = OpenOptions::new().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("cannot write {}", path.display()))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(&run.name).stdin(Stdio::null());
    system::keep_signals_from(&mut command);
    command.stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start {}", words[0]))
}

#[cfg(unix)]
mod system {
    use rustix::process::{Pid, Signal, kill_process};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command, ExitStatus};

    /// Signals of the terminal.
    pub(super) fn keep_signals_from(command: &mut Command) {
        command.process_group(0);
    }

    pub(super) fn stop(child: &mut Child) {
        if let Some(id) = Pid::from_raw(child.id() as i32) {
            // It may have ended by itself.
            let _ = kill_process(id, Signal::TERM);
        }
    }

    /// By a signal, or, in words of a shell, by one that it answered.
    pub(super) fn was_killed(status: ExitStatus) -> bool {
        status.signal().is_some() || status.code().is_some_and(|code| code > 128)
    }
}

#[cfg(not(unix))]
mod system {
    use std::process::{Child, Command, ExitStatus};

    pub fn keep_signals_from(_command: &mut Command) {}

    /// There is no signal to save by: it goes on from its last checkpoint.
    pub fn stop(child: &mut Child) {
        let _ = child.kill();
    }

    pub fn was_killed(status: ExitStatus) -> bool {
        status.code().is_none()
    }
}
