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

/// Whether several ranks were started: Open MPI and MPICH say so in the environment.
fn started_as_several() -> bool {
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].iter().any(|name| number(name).is_some_and(|size| size > 1))
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Threads of a rank where nobody says it: the cores it may use, shared out among the ranks of this machine.
pub(crate) fn threads() -> Option<usize> {
    let ranks =
        number("OMPI_COMM_WORLD_LOCAL_SIZE").or(number("MPI_LOCALNRANKS")).filter(|ranks| *ranks > 1)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    Some((cores / ranks).max(1))
}

/// Does `work`, as one of the ranks where several were started. Its exit code is 0, 128 + a signal's number, or that of a
/// failure.
#[cfg(not(feature = "mpi"))]
pub(crate) fn run(work: impl FnOnce() -> u8) -> ExitCode {
    if started_as_several() {
        tell!(
            "error: several ranks were started, but this program was built without MPI, and they would disturb each other. Build \
             it with: cargo build --release --features mpi"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::from(work())
}

/// See the version without MPI.
#[cfg(feature = "mpi")]
pub(crate) fn run(work: impl FnOnce() -> u8) -> ExitCode {
    if !started_as_several() {
        return ExitCode::from(work());
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
