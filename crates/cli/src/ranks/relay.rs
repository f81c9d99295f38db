//! The relay of a rank: what `mpirun` starts. Its main thread alone speaks MPI, and may wait for ever for a rank that died.

use super::frames::{self, Kind};
use super::worker;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::traits::{Communicator, CommunicatorCollectives};
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long other ranks stay after they were told to end, while the first one saves and says so. `mpirun` sleeps for a second
/// between SIGTERM and SIGKILL, and any rank that ends before wakes it.
const STAY: Duration = Duration::from_secs(3);

/// To the worker; signals and parts must not mix.
type Line = Arc<Mutex<UnixStream>>;

/// Relays until the worker ends; its exit code.
pub(super) fn run() -> Result<ExitCode> {
    let (own, theirs) = UnixStream::pair()?;
    let (mut from, to): (UnixStream, Line) = (own.try_clone()?, Arc::new(Mutex::new(own)));
    let signals = to.clone();
    crate::stop::pass_on(move |signal| {
        // A worker that is gone needs no signal.
        let _ = frames::write(&mut *locked(&signals), Kind::Signal, &[signal]);
    })
    .map_err(Error::other)?;
    let mut worker = start(theirs)?;
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        return Err(Error::other("MPI was started twice"));
    };
    let world = universe.world();
    let rank = world.rank();
    let place = frames::place_bytes(rank as usize, world.size() as usize);
    let mut sent = frames::write(&mut *locked(&to), Kind::Place, &place);
    while sent.is_ok()
        && let Ok((_, part)) = frames::read(&mut from)
    {
        sent = answer(&to, gather(&world, &part));
    }
    let code = ended(&mut worker, rank)?;
    // A rank that fails or was stopped does not come to the next meeting, nor may it wait for the others in MPI's end: they may be
    // in that meeting. `mpirun` ends them. Where all stop together, the first one has saved by now.
    if code != 0 {
        if rank > 0 && crate::stop::check().is_err() {
            std::thread::sleep(STAY);
        }
        std::process::exit(code.into());
    }
    Ok(ExitCode::from(code))
}

fn locked(line: &Line) -> MutexGuard<'_, UnixStream> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same command, in a process group of its own, with the line as its standard input.
fn start(line: UnixStream) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(worker::NAME).args(std::env::args_os().skip(1));
    command.stdin(OwnedFd::from(line)).process_group(0).spawn()
    // Here the command goes, and with it our end of the worker's input: when the worker ends, the line does.
}

fn answer(to: &Line, gathered: std::result::Result<Vec<Vec<u8>>, String>) -> Result<()> {
    let mut to = locked(to);
    match gathered {
        Ok(parts) => parts.iter().try_for_each(|part| frames::write(&mut *to, Kind::Part, part)),
        Err(why) => frames::write(&mut *to, Kind::Failure, why.as_bytes()),
    }
}

/// Waits for the worker, which has closed the line or has been killed.
fn ended(worker: &mut Child, rank: i32) -> Result<u8> {
    let status = worker.wait()?;
    if let Some(signal) = status.signal() {
        tell!(
            "error: the work of rank {rank} was ended by signal {signal}; where that is 9, memory may have run out"
        );
        return Ok(1);
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Bytes of all ranks, or why there are none.
fn gather(world: &impl CommunicatorCollectives, own: &[u8]) -> std::result::Result<Vec<Vec<u8>>, String> {
    let mut lengths = vec![0_u64; world.size() as usize];
    world.all_gather_into(&(own.len() as u64), &mut lengths[..]);
    let total: u64 = lengths.iter().sum();
    // MPI counts in 32 bits.
    if total > i32::MAX as u64 {
        return Err(format!("the ranks have {total} bytes for each other, MPI takes {}", i32::MAX));
    }
    let counts: Vec<i32> = lengths.iter().map(|length| *length as i32).collect();
    let places: Vec<i32> = counts.iter().scan(0, |end, n| Some(std::mem::replace(end, *end + n))).collect();
    let mut all = vec![0_u8; total as usize];
    world.all_gather_varcount_into(own, &mut PartitionMut::new(&mut all[..], &counts[..], &places[..]));
    let part = |(place, count): (&i32, &i32)| all[*place as usize..(*place + *count) as usize].to_vec();
    Ok(places.iter().zip(&counts).map(part).collect())
}
