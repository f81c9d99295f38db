#!/bin/sh
# Whether everything that the feature `cuda` turns on compiles: the crate that has such code, with Burn's CUDA backend. Needs no CUDA toolkit
# (its libraries are opened when the program runs). The other crates only pass the feature on, which is looked at first.
set -eu
cd "$(dirname "$0")/../.."
for feature in cuda wgpu metal; do
    cargo tree --offline --features "$feature" -e features -i siskin-nn --depth 1 | grep -q "siskin-nn feature \"$feature\"" ||
        { echo "the command does not pass the feature $feature on to siskin-nn"; exit 1; }
done
cargo check --release -p siskin-nn --features cuda
echo "1 passed, 0 failed"
