//! What a person is told of a sweep.

use siskin_data::shell::quoted;
use siskin_train::sweep::{RunState, Sweep};

/// How to look at runs that a scheduler has.
pub(super) fn afterwards(sweep: &Sweep) {
    let folder = quoted(&sweep.folder);
    say!("Progress: siskin sweep status {folder}. Afterwards: siskin sweep collect {folder}");
}

/// One line per run.
pub(super) fn status(sweep: &Sweep) -> anyhow::Result<()> {
    let (mut finished, mut failed, mut retries) = (0, 0, 0);
    let widest = sweep.runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
    for run in &sweep.runs {
        let status = sweep.status(run);
        finished += usize::from(matches!(status.state, RunState::Finished(_)));
        failed += usize::from(matches!(status.state, RunState::Failed { .. }));
        retries += status.attempts.len().saturating_sub(1);
        let begun = match status.attempts.as_slice() {
            [] => String::new(),
            [one] => format!("  by {} on {}", one.by, one.host),
            [.., last] => {
                format!("  begun {} times, last by {} on {}", status.attempts.len(), last.by, last.host)
            }
        };
        say!("{:widest$}  {}  {}{begun}", run.name, run.words(), status.words());
    }
    say!("{finished} of {} finished, {failed} failed, begun again {retries} times.", sweep.runs.len());
    Ok(())
}

/// The table of what is finished, and which runs are not in it.
pub(super) fn collect(sweep: &Sweep) -> anyhow::Result<()> {
    let missing: Vec<_> = sweep.unfinished().collect();
    for run in &missing {
        tell!("{} ({}): {}", run.name, run.words(), sweep.status(run).words());
    }
    let table = sweep.collect()?;
    say!("{}", table.trim_end());
    say!("Written: table.csv, table.md and runs.csv in {}.", sweep.folder.display());
    anyhow::ensure!(
        missing.is_empty(),
        "{} of {} runs are not in the table; see above.",
        missing.len(),
        sweep.runs.len()
    );
    Ok(())
}
