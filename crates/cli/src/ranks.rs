//! The ranks of `mpirun`: with the feature `mpi` they are a team that shares the episodes, without it a mistake that is named.

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
pub(crate) fn run(work: impl FnOnce() -> u8 + Send + 'static) -> std::process::ExitCode {
    if started_as_several() {
        tell!(
            "error: several ranks were started, but this program was built without MPI, and they would disturb each other. Build \
             it with: cargo build --release --features mpi"
        );
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::from(work())
}

#[cfg(feature = "mpi")]
pub(crate) use world::run;

#[cfg(feature = "mpi")]
mod world {
    use super::started_as_several;
    use mpi::Threading;
    use mpi::datatype::PartitionMut;
    use mpi::traits::{Communicator, CommunicatorCollectives};
    use siskin_train::team::{Team, join};
    use siskin_train::{Error, Result};
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// How long a rank that was told to end waits for the others. `mpirun` sends SIGKILL a second after SIGTERM.
    const GRACE: Duration = Duration::from_millis(200);
    const PAUSE: Duration = Duration::from_millis(20);
    /// How long other ranks stay after they were told to end, while the first one saves. `mpirun` sleeps for a second between
    /// SIGTERM and SIGKILL, and any rank that ends before wakes it.
    const STAY: Duration = Duration::from_secs(3);
    /// As the main thread of most systems has.
    const STACK: usize = 64 << 20;

    /// Bytes of all ranks, or why there are none.
    type Gathered = std::result::Result<Vec<Vec<u8>>, String>;

    /// The ranks of a job. MPI itself is spoken by the main thread alone, which may wait for ever for a rank that died; the
    /// work, on a thread of its own, does not.
    struct Ranks {
        rank: usize,
        size: usize,
        /// To the main thread and back, one message at a time.
        line: Mutex<(Sender<Vec<u8>>, Receiver<Gathered>)>,
        traffic: Mutex<Traffic>,
    }

    /// What a rank sent and received, and how long it waited for the others.
    #[derive(Debug, Clone, Copy, Default)]
    struct Traffic {
        messages: u64,
        sent: u64,
        received: u64,
        waited: Duration,
    }

    impl Team for Ranks {
        fn rank(&self) -> usize {
            self.rank
        }

        fn size(&self) -> usize {
            self.size
        }

        fn gather(&self, own: Vec<u8>, stop: &AtomicBool) -> Result<Vec<Vec<u8>>> {
            let (begun, sent) = (Instant::now(), own.len() as u64);
            let all = self.exchange(own, stop)?;
            let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
            traffic.messages += 1;
            traffic.sent += sent;
            traffic.received += all.iter().map(|message| message.len() as u64).sum::<u64>() - sent;
            traffic.waited += begun.elapsed();
            Ok(all)
        }
    }

    impl Ranks {
        fn exchange(&self, own: Vec<u8>, stop: &AtomicBool) -> Result<Vec<Vec<u8>>> {
            let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.0.send(own).map_err(|_| Error::RankLost)?;
            let mut stopping_since: Option<Instant> = None;
            loop {
                match line.1.recv_timeout(PAUSE) {
                    Ok(all) => return all.map_err(|why| Error::Rank { rank: self.rank, why }),
                    Err(RecvTimeoutError::Disconnected) => return Err(Error::RankLost),
                    Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
                    Err(RecvTimeoutError::Timeout) => {
                        if stopping_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
                            return Err(Error::RankLost);
                        }
                    }
                }
            }
        }

        /// What the first rank says at the end.
        fn tell(&self) {
            let Traffic { messages, sent, received, waited } =
                *self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
            if self.rank == 0 && messages > 0 {
                tell!(
                    "{} ranks; the first sent {:.2} MB and received {:.2} MB in {messages} meetings, in which it waited {:.1} s.",
                    self.size,
                    sent as f64 / 1e6,
                    received as f64 / 1e6,
                    waited.as_secs_f64()
                );
            }
        }
    }

    /// See the version without MPI.
    pub(crate) fn run(work: impl FnOnce() -> u8 + Send + 'static) -> ExitCode {
        if !started_as_several() {
            return ExitCode::from(work());
        }
        let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
            tell!("error: MPI was started twice");
            return ExitCode::FAILURE;
        };
        let world = universe.world();
        let ((request, requests), (answer, answers)) = (channel(), channel());
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let traffic = Mutex::new(Traffic::default());
        let team = Arc::new(Ranks { rank, size, line: Mutex::new((request, answers)), traffic });
        let worker = std::thread::Builder::new().name("work".into()).stack_size(STACK).spawn(move || {
            let code = join(team.clone(), work);
            team.tell();
            // A rank that fails does not come to the next meeting: the others must not wait for it. `mpirun` ends them.
            if code != 0 && code <= 128 {
                if rank > 0 && crate::stop::check().is_err() {
                    std::thread::sleep(STAY);
                }
                std::process::exit(code.into());
            }
            code
        });
        let worker = match worker {
            Ok(worker) => worker,
            Err(error) => {
                tell!("error: cannot start a thread: {error}");
                std::process::exit(1);
            }
        };
        for own in requests {
            if answer.send(gather(&world, &own)).is_err() {
                break;
            }
        }
        match worker.join() {
            Ok(code) => ExitCode::from(code),
            // The panic has said what happened.
            Err(_) => std::process::exit(101),
        }
    }

    fn gather(world: &impl CommunicatorCollectives, own: &[u8]) -> Gathered {
        let mut lengths = vec![0_u64; world.size() as usize];
        world.all_gather_into(&(own.len() as u64), &mut lengths[..]);
        let total: u64 = lengths.iter().sum();
        // MPI counts in 32 bits.
        if total > i32::MAX as u64 {
            return Err(format!("the ranks have {total} bytes for each other, MPI takes {}", i32::MAX));
        }
        let counts: Vec<i32> = lengths.iter().map(|length| *length as i32).collect();
        let places: Vec<i32> =
            counts.iter().scan(0, |end, n| Some(std::mem::replace(end, *end + n))).collect();
        let mut all = vec![0_u8; total as usize];
        world.all_gather_varcount_into(own, &mut PartitionMut::new(&mut all[..], &counts[..], &places[..]));
        let part = |(place, count): (&i32, &i32)| all[*place as usize..(*place + *count) as usize].to_vec();
        Ok(places.iter().zip(&counts).map(part).collect())
    }
}
