//! SIGINT (Ctrl-C), SIGTERM and SIGHUP: training saves and stops, all other work ends at once. The exit code is 128 + the
//! signal's number: 130, 143, 129. SIGUSR1 counts as SIGTERM: `mpirun` passes it on to the ranks and kills nobody, and schedulers send
//! it before a time limit.

use anyhow::Context;
use std::future::Future;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

// Signals belong to the whole process, and so do these.
/// The first signal that came; 0 before.
static SIGNAL: AtomicU8 = AtomicU8::new(0);
/// Set by a signal: whoever can save shall save and stop.
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Whether somebody is at work who watches [`REQUESTED`].
static SAVES: AtomicBool = AtomicBool::new(false);
/// Whether signals come from another process, which passes them on, so that none counts twice.
static ONLY_PASSED_ON: AtomicBool = AtomicBool::new(false);

/// A command was stopped by a signal and has saved what it could.
#[derive(Debug)]
pub(crate) struct Stopped(u8);

impl Stopped {
    /// What a shell reports of a program that a signal ended.
    pub(crate) fn exit_code(&self) -> u8 {
        128 + self.0
    }
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped by signal {}", self.0)
    }
}

impl std::error::Error for Stopped {}

/// An error if a signal came.
pub(crate) fn check() -> Result<(), Stopped> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => Ok(()),
        signal => Err(Stopped(signal)),
    }
}

/// Whether whoever can save was asked to save and stop, by a signal or without one.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Runs `work`, which must save and return soon after the flag it gets is set. A second signal ends the program at once.
pub(crate) fn saving<T>(work: impl FnOnce(&AtomicBool) -> T) -> T {
    SAVES.store(true, Ordering::SeqCst);
    let done = work(&REQUESTED);
    SAVES.store(false, Ordering::SeqCst);
    done
}

/// Begins to listen, on a thread of its own. To be called once.
pub(crate) fn listen() -> anyhow::Result<()> {
    listen_for(|signal| {
        if !ONLY_PASSED_ON.load(Ordering::SeqCst) {
            came(signal);
        }
    })
}

/// Begins to listen and passes every signal on, instead of obeying it. To be called once.
#[cfg(feature = "mpi")]
pub(crate) fn pass_on(mut pass: impl FnMut(u8) + Send + 'static) -> anyhow::Result<()> {
    listen_for(move |signal| {
        // Which of them came first is all that `check` needs.
        let _ = SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        pass(signal);
    })
}

/// From now on signals of the system are ignored, for another process passes them on, to [`came`].
#[cfg(feature = "mpi")]
pub(crate) fn only_passed_on() {
    ONLY_PASSED_ON.store(true, Ordering::SeqCst);
}

/// The process that passed signals on is gone: asks for what a signal asks for, without one, and obeys those of the system again.
/// Whether somebody is at work who saves.
#[cfg(feature = "mpi")]
pub(crate) fn nobody_passes_on() -> bool {
    REQUESTED.store(true, Ordering::SeqCst);
    ONLY_PASSED_ON.store(false, Ordering::SeqCst);
    SAVES.load(Ordering::SeqCst)
}

fn listen_for(mut heard: impl FnMut(u8) + Send + 'static) -> anyhow::Result<()> {
    let start = || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _inside = runtime.enter();
        let mut signals = system::Signals::new()?;
        let wait = move || {
            runtime.block_on(async {
                loop {
                    heard(signals.next().await);
                }
            })
        };
        std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
    };
    start().context("cannot listen for signals")
}

/// Ends with the first signal, for the server, which stops in its own way; the second ends the program at once.
pub(crate) fn requested() -> std::io::Result<impl Future<Output = ()>> {
    let mut signals = system::Signals::new()?;
    Ok(async move {
        signals.next().await;
        tokio::spawn(async move { std::process::exit(128 + i32::from(signals.next().await)) });
    })
}

/// Obeys a signal.
pub(crate) fn came(signal: u8) {
    let first = SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    REQUESTED.store(true, Ordering::SeqCst);
    if !first || !SAVES.load(Ordering::SeqCst) {
        std::process::exit(128 + i32::from(signal));
    }
    // A terminal that was closed cannot show it: no error.
    let _ = writeln!(
        std::io::stderr(),
        "\nStopping after this step; another signal (Ctrl-C) stops at once, without saving."
    );
}

#[cfg(unix)]
mod system {
    use std::io::Result;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) struct Signals {
        interrupt: Signal,
        terminate: Signal,
        user: Signal,
        /// Nothing under `nohup`, which promises that a closed terminal stops nothing.
        hangup: Option<Signal>,
    }

    impl Signals {
        pub(super) fn new() -> Result<Signals> {
            let hangup = if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
            Ok(Signals {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                user: signal(SignalKind::user_defined1())?,
                hangup,
            })
        }

        /// The number of the next signal.
        pub(super) async fn next(&mut self) -> u8 {
            let hangup = async {
                match &mut self.hangup {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => 2,
                _ = self.terminate.recv() => 15,
                _ = self.user.recv() => 15,
                _ = hangup => 1,
            }
        }
    }

    /// Whether the program was started with SIGHUP ignored. Linux tells by a file; elsewhere it counts as not ignored.
    fn hangup_is_ignored() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
    }
}

#[cfg(not(unix))]
mod system {
    pub struct Signals;

    impl Signals {
        pub fn new() -> std::io::Result<Signals> {
            Ok(Signals)
        }

        /// The number of the next signal: Ctrl-C.
        pub async fn next(&mut self) -> u8 {
            // Where it cannot be heard, none comes.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            2
        }
    }
}
