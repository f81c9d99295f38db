//! The golden values of `tests/golden/public`: every case within its tolerance. Those of calibration are in `siskin-calib`.
//!
//! Another folder of such files: `cargo run --release -p siskin-gp --example golden -- DIR`.

#[path = "golden/checks/mod.rs"]
mod checks;

use std::path::Path;

#[test]
fn every_case_is_within_its_tolerance() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/public");
    assert!(checks::check_folder(&folder, &[]).finish(), "{}: see the cases above", folder.display());
}
