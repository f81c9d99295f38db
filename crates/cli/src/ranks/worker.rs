//! The worker of a rank: it does the command's work, and meets the others through its relay.

use super::frames::{self, Kind};
use siskin_train::team::{Team, join};
use siskin_train::{Error, Result};
use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a relay calls the program where it is the worker.
pub(super) const NAME: &str = "siskin-worker";
/// How long a rank that was told to end waits for the others until it says so: less than `mpirun` gives their relays when one of them
/// has died, after which nobody hears.
const SAYS_SO: Duration = Duration::from_millis(200);
/// How long it waits in all: an episode of the others, and less than schedulers give that kill every process of a job (Slurm: 30 s).
/// Where `mpirun` kills the relay before, that ends the wait.
const GRACE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes of all ranks, or why there are none.
type Gathered = std::result::Result<Vec<Vec<u8>>, String>;

struct Ranks {
    rank: usize,
    size: usize,
    /// To the relay, and its answers.
    line: Mutex<(UnixStream, Receiver<Gathered>)>,
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

/// Whether a relay started this process.
pub(super) fn is_this() -> bool {
    std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Does `work` as one of the ranks.
pub(super) fn run(work: impl FnOnce() -> u8) -> std::io::Result<ExitCode> {
    crate::stop::only_passed_on();
    let to = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
    let mut from = to.try_clone()?;
    let (rank, size) = frames::place(&mut from, crate::stop::came)?;
    let (answer, answers) = channel();
    let team = Arc::new(Ranks { rank, size, line: Mutex::new((to, answers)), traffic: Mutex::default() });
    let listen = move || listen(from, rank, size, &answer);
    std::thread::Builder::new().name("relay".into()).spawn(listen)?;
    let tell = team.clone();
    Ok(ExitCode::from(join(team, || {
        let code = work();
        tell.tell();
        code
    })))
}

/// Passes on what the relay says, until it is gone.
fn listen(mut from: UnixStream, rank: usize, size: usize, answer: &Sender<Gathered>) {
    let mut parts = Vec::new();
    while let Ok((kind, bytes)) = frames::read(&mut from) {
        let gathered = match kind {
            Kind::Part => {
                parts.push(bytes);
                (parts.len() == size).then(|| Ok(std::mem::take(&mut parts)))
            }
            Kind::Failure => Some(Err(String::from_utf8_lossy(&bytes).into_owned())),
            Kind::Signal => {
                bytes.first().inspect(|signal| crate::stop::came(**signal));
                None
            }
            Kind::Place => None,
        };
        // Nobody waits for an answer when the work has ended.
        if gathered.is_some_and(|gathered| answer.send(gathered).is_err()) {
            return;
        }
    }
    // The relay was killed. The first rank saves where it can; another one has nothing to save.
    if !(crate::stop::nobody_passes_on() && rank == 0) {
        if rank == 0 {
            tell!("error: {}", Error::RankLost);
        }
        std::process::exit(1);
    }
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
        let all = self.exchange(&own, stop)?;
        let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.messages += 1;
        traffic.sent += sent;
        traffic.received += all.iter().map(|message| message.len() as u64).sum::<u64>() - sent;
        traffic.waited += begun.elapsed();
        Ok(all)
    }
}

impl Ranks {
    fn exchange(&self, own: &[u8], stop: &AtomicBool) -> Result<Vec<Vec<u8>>> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        frames::write(&mut line.0, Kind::Part, own).map_err(|_| Error::RankLost)?;
        let (mut stopping_since, mut said): (Option<Instant>, bool) = (None, false);
        loop {
            match line.1.recv_timeout(PAUSE) {
                Ok(all) => return all.map_err(|why| Error::Rank { rank: self.rank, why }),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::RankLost),
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let waited = stopping_since.get_or_insert_with(Instant::now).elapsed();
                    if waited > GRACE {
                        return Err(Error::RankLost);
                    }
                    if waited > SAYS_SO && !std::mem::replace(&mut said, true) {
                        tell!(
                            "The job is told to end; this rank waits for others. If one of them has died, what was done before this step \
                             is saved as soon as that shows."
                        );
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
