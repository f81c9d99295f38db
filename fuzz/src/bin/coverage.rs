//! libFuzzer on one target, named by `SISKIN_FUZZ`: see scripts/fuzz_coverage.sh.
#![no_main]

use std::sync::LazyLock;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("SISKIN_FUZZ").unwrap_or_default();
    siskin_fuzz::find(&name).map_or_else(|| panic!("SISKIN_FUZZ={name} is no target"), |target| target.run)
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| RUN(bytes));
