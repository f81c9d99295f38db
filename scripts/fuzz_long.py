#!/usr/bin/env python3
"""Damaged input for every reader, 15 minutes of CPU time within the reader for each target. It may be ended at any time: what is done
stands in a log for each target, and the next call goes on with the inputs that come after it.

    scripts/fuzz_long.py target/release/siskin-fuzz LOGS            go on with the target that has had least so far
    scripts/fuzz_long.py target/release/siskin-fuzz LOGS --table    what is done so far, as a table
"""

import os
import re
import subprocess
import sys

# Bytes of strangers first.
TARGETS = ["image", "http_body", "archive", "model", "task", "npy", "vectors", "weights", "checkpoint", "classifier", "label_sets", "idx", "pack", "config",
           "file_list", "csv_list", "split_list", "episode_list"]
SECONDS, SLICE = 900.0, 20.0
# Each input is written to a file before it is tried: in memory where that can be, or the disk takes most of the time.
PLACE = {"TMPDIR": "/dev/shm"} if os.path.isdir("/dev/shm") else {}


def done(logs, target):
    """Tried, failed, seconds and slowest (ms), by the rows of the log."""
    rows = []
    path = os.path.join(logs, f"{target}.log")
    if os.path.exists(path):
        with open(path) as log:
            rows = re.findall(rf"^{target} +(\d+) +(\d+) +([\d.]+)  ([\d.]+) ms", log.read(), re.M)
    tried, failed, seconds = (sum(float(row[i]) for row in rows) for i in range(3))
    return int(tried), int(failed), seconds, max((float(row[3]) for row in rows), default=0.0)


def table(logs):
    print("| target | tried | failed | seconds in the reader | slowest |\n| --- | ---: | ---: | ---: | ---: |")
    for target in TARGETS:
        tried, failed, seconds, slowest = done(logs, target)
        print(f"| {target} | {tried:,} | {failed} | {seconds:.0f} | {slowest:.0f} ms |")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    binary, logs = os.path.abspath(sys.argv[1]), sys.argv[2]
    if sys.argv[3:] == ["--table"]:
        return table(logs)
    os.makedirs(logs, exist_ok=True)
    while True:
        # Equal shares, so that an early end leaves no reader untried.
        target = min(TARGETS, key=lambda name: done(logs, name)[2])
        first, _, spent, _ = done(logs, target)
        if spent >= SECONDS:
            return
        seconds = min(SLICE, SECONDS - spent) + 0.1
        with open(os.path.join(logs, f"{target}.log"), "a") as log:
            ended = subprocess.run([binary, "reader", f"{seconds:.1f}", str(first), target], stdout=log, stderr=log, env=os.environ | PLACE).returncode
        if ended not in (0, 1):
            sys.exit(f"{target}: ended by {ended}; the input is named in its log")
        print(target, *done(logs, target), flush=True)


if __name__ == "__main__":
    main()
