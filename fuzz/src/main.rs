//! The harness for stable Rust: whole inputs, damaged again and again, given to each reader.
//!
//! ```sh
//! cargo build --release --workspace
//! target/release/siskin-fuzz 60             # every target, 60 s each
//! target/release/siskin-fuzz 900 task model # these
//! target/release/siskin-fuzz reader 60 5000 task # 60 s of CPU time within the reader, beginning with the 5000th input
//! target/release/siskin-fuzz seeds FOLDER   # a folder of whole inputs for each target, for other fuzzers
//! ```
//!
//! It counts what was tried, how often a reader panicked and how long the slowest input took. An input that makes the process end
//! (memory, stack) is left in the file that is named at the start.

use siskin_fuzz::{Length, TARGETS, Target, campaign, find};

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, folder] = arguments.as_slice()
        && word == "seeds"
    {
        return write_seeds(std::path::Path::new(folder));
    }
    let Some((length, first, targets)) = plan(&arguments) else {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        eprintln!("usage: siskin-fuzz SECONDS [TARGET...]; siskin-fuzz reader SECONDS FIRST TARGET");
        eprintln!("targets: {}", names.join(", "));
        return std::process::ExitCode::FAILURE;
    };
    std::panic::set_hook(Box::new(|_| {}));
    let last = std::env::temp_dir().join(format!("siskin-fuzz-{}", std::process::id()));
    println!("The input under way is in {}.", last.display());
    println!("{:14} {:>9} {:>7} {:>9}  slowest", "target", "tried", "failed", "seconds");
    let failed: usize = targets.iter().map(|target| campaign(target, length, first, &last)).sum();
    // An input that was survived is not needed.
    let _ = std::fs::remove_file(&last);
    if failed == 0 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

/// How long, from which input on, and which targets: all where none is named.
fn plan(arguments: &[String]) -> Option<(Length, u64, Vec<&'static Target>)> {
    if let [word, seconds, first, target] = arguments
        && word == "reader"
    {
        return Some((Length::Reader(seconds.parse().ok()?), first.parse().ok()?, vec![find(target)?]));
    }
    let (seconds, names) = arguments.split_first()?;
    let named = names.iter().map(|name| find(name)).collect::<Option<Vec<&Target>>>()?;
    let targets = if named.is_empty() { TARGETS.iter().collect() } else { named };
    Some((Length::Clock(seconds.parse().ok()?), 0, targets))
}

/// Writes the whole inputs of each target to a folder of its own.
fn write_seeds(folder: &std::path::Path) -> std::process::ExitCode {
    for target in TARGETS {
        let at = folder.join(target.name);
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(&at)?;
            for (i, seed) in (target.seeds)().iter().enumerate() {
                std::fs::write(at.join(i.to_string()), seed)?;
            }
            Ok(())
        };
        if let Err(error) = write() {
            eprintln!("cannot write {}: {error}", at.display());
            return std::process::ExitCode::FAILURE;
        }
    }
    std::process::ExitCode::SUCCESS
}
