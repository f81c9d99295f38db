//! Compares this workspace with golden values of the released programs:
//!
//! ```text
//! cargo run --release -p siskin-methods --example reference -- crates/methods/tests/reference
//! ```
//!
//! Each `.json` file of the folder is checked; the last line is `N passed, N failed`. The schema is in the README of that
//! folder.

mod calibration;

use siskin_methods::reference::{CHECKS, Check, Outcome, check_file};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = match std::env::args().nth(1) {
        Some(folder) => folder,
        None => {
            eprintln!("Give a folder of golden files, e.g. crates/methods/tests/reference");
            return ExitCode::from(2);
        }
    };
    let outcomes = match check_folder(Path::new(&folder)) {
        Ok(outcomes) => outcomes,
        Err(error) => {
            eprintln!("{folder}: {error}");
            return ExitCode::from(2);
        }
    };
    for Outcome { file, case, result } in &outcomes {
        match result {
            Ok(worst) => println!("passed  {file}: {case} (largest relative deviation {worst:.1e})"),
            Err(why) => println!("FAILED  {file}: {case}: {why}"),
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 && !outcomes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every file of a folder, in the order of their names.
fn check_folder(folder: &Path) -> std::io::Result<Vec<Outcome>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    paths.sort_by_key(|entry| entry.file_name());
    let checks: Vec<(&str, Check)> = CHECKS.iter().chain(calibration::CHECKS).copied().collect();
    let mut outcomes = Vec::new();
    for entry in paths {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            outcomes.extend(check_file(&name, &std::fs::read_to_string(entry.path())?, &checks));
        }
    }
    Ok(outcomes)
}
