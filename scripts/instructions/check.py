#!/usr/bin/env python3
"""Counts the instructions of small fixed pieces of work (valgrind) and compares them with counts.json, within 3 %.

    cargo build --release --workspace --example workloads --example network_workload
    python3 scripts/instructions/check.py target/release/examples
    python3 scripts/instructions/check.py target/release/examples --write      after a change that was meant

Counts do not depend on how busy the machine is. valgrind hides AVX-512, so every machine with AVX2 takes the same path. They do
depend on the compiler, whose version counts.json names.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

COUNTS = Path(__file__).with_name("counts.json")
WORK = {
    "evidence, 20 ways, 4 queries": ["workloads", "evidence-20-way", "1"],
    "prediction, 5 ways, 16 queries": ["workloads", "prediction-5-way", "1"],
    "prediction, 20 ways, 4 queries": ["workloads", "prediction-20-way", "1"],
    "answers, 5 ways, 5 examples": ["workloads", "answers-5-way", "1"],
    "Conv4S, training, 10 images": ["network_workload", "training"],
    "Conv4S, evaluation, 10 images": ["network_workload", "evaluation"],
}
WITHIN = 0.03


def instructions(folder: Path, command: list[str]) -> int:
    """Instructions of one run."""
    program, *words = command
    call = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(folder / program), *words]
    run = subprocess.run(call, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{' '.join(call)}\nended with {run.returncode}:\n{run.stdout}{run.stderr}")
    return int(found[1])


def compiler() -> str:
    """Which compiler made the programs."""
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Counts, prints, compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the examples are, e.g. target/release/examples")
    parser.add_argument("--write", action="store_true", help="keep the counts of this run")
    args = parser.parse_args()
    found = {name: instructions(args.folder, command) for name, command in WORK.items()}
    if args.write:
        COUNTS.write_text(json.dumps({"compiler": compiler(), "instructions": found}, indent=2) + "\n")
        print(f"Written: {COUNTS}")
        return
    kept = json.loads(COUNTS.read_text())
    if kept["compiler"] != compiler():
        print(f"Note: {COUNTS.name} is of {kept['compiler']}, this is {compiler()}, which alone may move the counts.")
    failed = 0
    for name, count in found.items():
        change = count / kept["instructions"][name] - 1
        failed += abs(change) > WITHIN
        verdict = "" if abs(change) <= WITHIN else f"  FAILED: more than {WITHIN:.0%} apart"
        print(f"{name:34}{count / 1e6:10.1f} million {change:+8.2%}{verdict}")
    print(f"{len(found) - failed} passed, {failed} failed")
    if failed:
        print("If the change was meant: --write, and say in the commit what became dearer or cheaper.")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
