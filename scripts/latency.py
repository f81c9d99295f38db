#!/usr/bin/env python3
"""How long people wait for one command: `siskin predict` and `siskin adapt`, a new process each time.

    python scripts/latency.py target/release/siskin EXAMPLES IMAGES

EXAMPLES is a folder with one folder of images per class, IMAGES a folder of images to ask about. Prints the time to the first line of
output and to the end, median and 99th percentile, by the clock: run it on a calm machine.
"""
import pathlib
import subprocess
import sys
import tempfile
import time


def timed(command):
    """Milliseconds to the first line of output, and to the end."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        line = process.stdout.readline()
        first = time.perf_counter() - begun
        process.stdout.read()
    whole = time.perf_counter() - begun
    if process.returncode != 0 or not line:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return 1e3 * first, 1e3 * whole


def report(name, commands):
    firsts, wholes = map(sorted, zip(*map(timed, commands)))
    at = lambda times, share: times[min(len(times) - 1, int(share * len(times)))]
    print(f"{name}: first line after {at(firsts, 0.5):.1f} ms (p99 {at(firsts, 0.99):.1f}), "
          f"the end after {at(wholes, 0.5):.1f} (p99 {at(wholes, 0.99):.1f}); {len(firsts)} times")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    binary, examples, images = sys.argv[1:]
    images = sorted(path for path in pathlib.Path(images).iterdir() if path.is_file())
    with tempfile.TemporaryDirectory() as folder:
        task = f"{folder}/latency.task"
        report("siskin adapt", [[binary, "adapt", examples, "--out", task] for _ in range(30)])
        report("siskin predict", [[binary, "predict", task, images[i % len(images)]] for i in range(100)])


main()
