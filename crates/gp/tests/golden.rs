//! The golden values of the shared folder, where it is to be had: the checks of the example `golden` as a test.
//!
//! `calibration.json` is among them: its cases test `siskin-calib`.

#[path = "../examples/golden/checks/mod.rs"]
mod checks;

use std::path::PathBuf;

#[test]
fn every_case_is_within_its_tolerance() {
    let named = std::env::var_os("SISKIN_SHARED").map(PathBuf::from);
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = named.clone().unwrap_or_else(default).join("golden/public");
    if named.is_none() && !folder.exists() {
        eprintln!("skipped: {} is not there", folder.display());
        return;
    }
    assert!(checks::check_folder(&folder).finish(), "{}: see the cases above", folder.display());
}
