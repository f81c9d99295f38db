#!/usr/bin/env python3
"""Every command that takes a network, on a graphics processor beside the CPU.

    scripts/gpu/run.py [--siskin PATH] [--tests] [--only WORD]

Runs on Mesa's software driver for Vulkan (lavapipe) unless VK_DRIVER_FILES names another one:
    apt-get install --no-install-recommends mesa-vulkan-drivers
    cargo build --release --features wgpu
--tests first runs the Rust test that compares features, gradients and ten training steps (crates/nn/tests/gpu).
Ends with "N passed, N failed" and exit code 0 if nothing failed.
"""

import argparse
import glob
import os
import pathlib
import subprocess
import sys

from commands import CHECKS
from place import ROOT, Place, check, run_all


def networks(place):
    """The Rust test, with what it prints."""
    words = ["cargo", "test", "--release", "--workspace", "--features", "wgpu", "--test", "gpu", "--", "--nocapture", "--test-threads=1"]
    done = subprocess.run(words, cwd=ROOT, env=place.env, text=True, stdout=subprocess.PIPE)
    print("".join(f"    {line}\n" for line in done.stdout.splitlines() if line), end="")
    check(done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--siskin", default="target/release/siskin", help="the program, built with --features wgpu")
    parser.add_argument("--tests", action="store_true", help="run the Rust test of networks first")
    parser.add_argument("--only", default="", help="checks whose name contains this")
    args = parser.parse_args()
    siskin = pathlib.Path(args.siskin).resolve()
    driver = os.environ.get("VK_DRIVER_FILES") or next(iter(glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json")), None)
    if not siskin.exists() or not driver:
        sys.exit(f"{siskin} or the driver is not there: see the head of this file")
    chosen = [one for one in [*[networks][:args.tests], *CHECKS] if args.only in one.__name__]
    run_all(chosen, "siskin-gpu-", lambda folder: Place(siskin, folder, driver))


if __name__ == "__main__":
    main()
