#!/usr/bin/env bash
# How fast `siskin serve` answers, and what it does with bad clients. Bounded, on loopback only, under two minutes.
#   scripts/serve_load.sh [SECONDS of each load, default 8]
# Needs the release binary (cargo build --release) or SISKIN=path, and python3 (standard library only).
set -euo pipefail
cd "$(dirname "$0")/.."
SISKIN=${SISKIN:-${CARGO_TARGET_DIR:-target}/release/siskin}
[ -x "$SISKIN" ] || { echo "There is no $SISKIN. Build it: cargo build --release" >&2; exit 1; }
# A thousand connections need two thousand handles.
ulimit -n 8192 2>/dev/null || true
exec python3 scripts/serve_load.py "$SISKIN" "${1:-8}"
