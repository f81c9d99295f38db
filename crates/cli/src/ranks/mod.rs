//! The ranks of `mpirun`: with the feature `mpi` they are a team that shares the episodes, without it a mistake that is named.
//!
//! A rank is two processes. The one that `mpirun` starts is the relay: it speaks MPI and does nothing else. It starts the
//! worker, which does the command's work in a process group of its own. When a rank dies, `mpirun` kills the groups of all others
//! after a second, whatever they do; the worker of the first rank then notices that its relay is gone, and saves.

#[cfg(any(feature = "mpi", test))]
mod frames;
#[cfg(feature = "mpi")]
mod relay;
#[cfg(feature = "mpi")]
mod worker;

use std::process::ExitCode;

/// Whether several ranks were started: Open MPI and MPICH say so in the environment. Slurm's `srun --mpi=pmix` says which rank this
/// is, and only of the whole step how many tasks it has.
fn several(number: impl Fn(&str) -> Option<usize>) -> bool {
    let many = |name: &str| number(name).is_some_and(|size| size > 1);
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].iter().any(|name| many(name))
        || number("PMIX_RANK").is_some() && many("SLURM_STEP_NUM_TASKS")
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says so once where ranks cannot begin.
fn refuse(why: &str) -> ExitCode {
    let ranks = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    if ranks.iter().find_map(|name| number(name)).unwrap_or(0) == 0 {
        tell!("error: several ranks were started, but {why}");
    }
    ExitCode::FAILURE
}

/// What is said of a command whose ranks would all do the same work.
const NOT_SHARED: &str = "this command does not share its work among ranks: each of them would do all of it. Start it without \
    mpirun. Ranks are for: siskin train, test, calibrate and compare";

/// Tells of threads that would share too few cores: `mpirun` binds each of two ranks to one core unless it is told not to.
pub(crate) fn tell_cores(threads: usize) {
    let cores = std::thread::available_parallelism().map_or(threads, |cores| cores.get());
    if cores < threads && siskin_train::team::current().size() > 1 {
        tell!(
            "{threads} threads of this rank share {cores} of the machine's cores: mpirun --bind-to none gives it all of them."
        );
    }
}

/// Threads of a rank where nobody says it: the cores it may use, shared out among the ranks of this machine.
pub(crate) fn threads() -> Option<usize> {
    let ranks =
        number("OMPI_COMM_WORLD_LOCAL_SIZE").or(number("MPI_LOCALNRANKS")).filter(|ranks| *ranks > 1)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    Some((cores / ranks).max(1))
}

/// Does `work`, as one of the ranks where several were started, which only `shared` work may be. Its exit code is 0, 128 + a signal's number, or that of a
/// failure.
#[cfg(not(feature = "mpi"))]
pub(crate) fn run(shared: bool, work: impl FnOnce() -> u8) -> ExitCode {
    match (several(number), shared) {
        (false, _) => ExitCode::from(work()),
        (true, false) => refuse(NOT_SHARED),
        (true, true) => refuse(
            "this program was built without MPI, and they would disturb each other. Build it with: cargo build --release \
             --features mpi",
        ),
    }
}

/// See the version without MPI.
#[cfg(feature = "mpi")]
pub(crate) fn run(shared: bool, work: impl FnOnce() -> u8) -> ExitCode {
    match (several(number), shared) {
        (false, _) => return ExitCode::from(work()),
        (true, false) => return refuse(NOT_SHARED),
        (true, true) => {}
    }
    let ended = match worker::is_this() {
        true => worker::run(work),
        false => relay::run(),
    };
    ended.unwrap_or_else(|why| {
        tell!("error: a rank cannot begin: {why}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::several;

    #[test]
    fn ranks_are_known_by_what_starts_them() {
        let cases: [(&[(&str, usize)], bool); 8] = [
            (&[], false),
            (&[("OMPI_COMM_WORLD_SIZE", 1)], false),
            (&[("OMPI_COMM_WORLD_SIZE", 2)], true),
            (&[("PMI_RANK", 0), ("PMI_SIZE", 4)], true),
            // srun --mpi=pmix
            (&[("PMIX_RANK", 0), ("SLURM_STEP_NUM_TASKS", 3)], true),
            (&[("PMIX_RANK", 0), ("SLURM_STEP_NUM_TASKS", 1)], false),
            // A batch job of several tasks, or srun without MPI: that each does the same may be meant.
            (&[("SLURM_STEP_NUM_TASKS", 3)], false),
            (&[("PMIX_RANK", 0)], false),
        ];
        for (environment, is) in cases {
            let number = |name: &str| environment.iter().find(|(of, _)| *of == name).map(|(_, n)| *n);
            assert_eq!(several(number), is, "{environment:?}");
        }
    }
}
