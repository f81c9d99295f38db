//! Checks this crate against a folder of golden values: `cargo run --release -p siskin-gp --example golden -- DIR`.
//!
//! Prints for each case its largest error beside its tolerance, ends with `N passed, N failed`, and exits non-zero
//! when a case fails, a file cannot be read as its schema, or nothing was checked.

#[path = "../../calib/tests/golden/check.rs"]
mod calibration;
#[path = "../tests/golden/checks/mod.rs"]
mod checks;

use checks::report;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: golden DIR, a folder of golden values (*.json)");
        return ExitCode::from(2);
    };
    match checks::check_folder(Path::new(&folder), &[("calibration", calibration::check)]).finish() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
