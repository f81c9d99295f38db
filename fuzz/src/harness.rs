//! The harness for stable Rust: whole inputs, damaged again and again.

use crate::Target;
use crate::memory::Memory;
use rand::RngExt;
use siskin_random::stream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// An input may take so many seconds of CPU time: a busy machine must not make it look slow.
const SLOW: f64 = 5.0;
/// The system is asked for the memory after so many inputs: to ask takes longer than most of them.
const TOGETHER: u64 = 64;

/// How long a target is tried.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// So many seconds by the clock: what else the machine does, and writing the file `last`, shorten it.
    Clock(f64),
    /// So many seconds of CPU time within the reader, however long that takes.
    Reader(f64),
}

/// Damages the seeds of a target; prints its row with the CPU time of the reader. How many failed: panicked, took longer than 5 s of
/// CPU time, or more memory than its target may. The inputs are numbered; `first` is the number to begin with (0: the seeds as they are). The input under way is in the file
/// `last`.
pub fn campaign(target: &Target, length: Length, first: u64, last: &Path) -> usize {
    let seeds = (target.seeds)();
    let input = |number: u64| match seeds.get(number as usize) {
        Some(seed) => seed.clone(),
        None => damaged(&seeds, target.name, number),
    };
    let (mut spent, mut tried, mut failed, mut slowest) = (0.0, 0u64, 0, 0.0f64);
    let start = Instant::now();
    let mut memory = Memory::begin();
    loop {
        let over = match length {
            Length::Clock(seconds) => start.elapsed().as_secs_f64() >= seconds,
            Length::Reader(seconds) => spent >= seconds,
        };
        let number = first + tried;
        let over = over && number >= seeds.len() as u64;
        if over || tried.is_multiple_of(TOGETHER) {
            if tried > 0 && memory.megabytes() > target.memory {
                // One of the latest; again, each by itself.
                for again in (first + (tried - 1) / TOGETHER * TOGETHER)..number {
                    let bytes = input(again);
                    memory = Memory::begin();
                    let _ = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
                    let held = memory.megabytes();
                    if held > target.memory {
                        failed += 1;
                        write(last, &bytes);
                        let kept = keep(last, target.name, failed);
                        println!("    FAILED ({held} MB): {}", kept.display());
                    }
                }
            }
            memory = Memory::begin();
        }
        if over {
            break;
        }
        let bytes = input(number);
        // Where the process ends within the reader, this is the proof.
        write(last, &bytes);
        let (outcome, took) = siskin_cpu::time(|| catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes))));
        let (panicked, took) = (outcome.is_err(), took.busy());
        slowest = slowest.max(took);
        spent += took;
        tried += 1;
        if panicked || took > SLOW {
            failed += 1;
            let why = if panicked { "panic" } else { "slow" };
            println!("    FAILED ({why}): {}", keep(last, target.name, failed).display());
        }
    }
    println!("{:14} {tried:9} {failed:7} {spent:9.1}  {:.1} ms", target.name, 1e3 * slowest);
    failed
}

fn write(last: &Path, bytes: &[u8]) {
    if std::fs::write(last, bytes).is_err() {
        eprintln!("cannot write {}", last.display());
    }
}

/// Keeps the input that failed.
fn keep(last: &Path, target: &str, number: usize) -> PathBuf {
    let kept = last.with_extension(format!("{target}-failed-{number}"));
    let _ = std::fs::copy(last, &kept);
    kept
}

/// A seed with bytes changed, removed, doubled, numbers put to extremes, a piece of another seed, or the end cut off.
fn damaged(seeds: &[Vec<u8>], name: &str, index: u64) -> Vec<u8> {
    const EXTREMES: [&[u8]; 8] = [
        &[0xff; 8],
        &[0; 8],
        &[0xff, 0xff, 0xff, 0x7f],
        &[0, 0, 0, 0x80],
        b"-1",
        b"18446744073709551616",
        b"1e999",
        b"NaN",
    ];
    let mut rng = stream(0, name, index);
    let mut bytes = seeds[rng.random_range(0..seeds.len())].clone();
    for _ in 0..rng.random_range(1..8) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.random_range(0..bytes.len());
        let end = (at + rng.random_range(1..32)).min(bytes.len());
        match rng.random_range(0..9) {
            0 => bytes[at] = rng.random(),
            1 | 2 => bytes[at] ^= 1 << rng.random_range(0..8),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let extreme = EXTREMES[rng.random_range(0..EXTREMES.len())];
                let over = (at + extreme.len()).min(bytes.len());
                bytes.splice(at..over, extreme.iter().copied());
            }
            6 => {
                let other = &seeds[rng.random_range(0..seeds.len())];
                if !other.is_empty() {
                    let from = rng.random_range(0..other.len());
                    let to = (from + rng.random_range(1..64)).min(other.len());
                    bytes.splice(at..end, other[from..to].iter().copied());
                }
            }
            7 => bytes.insert(at, rng.random()),
            _ => bytes.truncate(at),
        }
    }
    bytes
}
