#!/usr/bin/env bash
# Coverage-guided fuzzing of one target with libFuzzer on stable Rust (no sanitizer, so no nightly compiler is needed).
#   scripts/fuzz_coverage.sh TARGET SECONDS
# Needs a C++ compiler. Builds everything anew, with counters, into target/fuzz. Targets: fuzz/src/targets.rs.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?name a target, see fuzz/src/targets.rs} seconds=${2:?say for how many seconds}
triple=$(rustc -vV | sed -n 's/host: //p')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
cargo build --release -p siskin-fuzz --features libfuzzer --bin coverage --target "$triple" --target-dir target/fuzz
cargo run --release -q -p siskin-fuzz --bin siskin-fuzz -- seeds fuzz/corpus
SISKIN_FUZZ=$target "target/fuzz/$triple/release/coverage" "fuzz/corpus/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10
