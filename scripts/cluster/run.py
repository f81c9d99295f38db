#!/usr/bin/env python3
"""Grids and trainings on real engines, disturbed on purpose: every result must have the bytes of a quiet run on one machine.

    scripts/cluster/run.py [local | slurm | limit | hyperqueue | paper | mpi | hosts | in_slurm | speed | plan | watch ...]     default: all

local, slurm, hyperqueue: the temperatures of the paper's Table 4 as a grid of 10 runs; a process and a daemon are killed.
limit: a run that is longer than Slurm's time limit. paper: Table 4 by `siskin reproduce --jobs`. mpi, hosts: ranks of one machine, of
two hosts, in a job of Slurm. speed: what ranks gain. plan, watch: time, memory and progress of a long run.

scripts/cluster/install.sh installs the engines. Everything runs in a network namespace of its own, where only the loopback
exists. Needs root (Slurm's daemons, namespaces) and the program: --siskin PATH, default target/release/siskin, built with
--features mpi for ranks. Ends with "N passed, N failed", and with exit code 0 if every check holds.
"""

import argparse
import os
import pathlib
import sys

from grids import hyperqueue, limit, local, paper, slurm
from long_runs import plan, watch
from place import Place, run_all
from ranks import hosts, in_slurm, mpi, speed

CHECKS = {one.__name__: one for one in [local, slurm, limit, hyperqueue, paper, mpi, hosts, in_slurm, speed, plan, watch]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", choices=[*CHECKS, []], help="which checks; default: all")
    parser.add_argument("--siskin", default="target/release/siskin", help="the program")
    args = parser.parse_args()
    siskin = pathlib.Path(args.siskin).resolve()
    if not siskin.exists():
        sys.exit(f"{siskin} is not there: cargo build --release --features mpi")
    if os.environ.get("SISKIN_CLUSTER_NAMESPACE") != "yes":
        # No other network than the loopback of a namespace of its own. Slurm asks for an address beside 127.0.0.1 before it listens.
        env = dict(os.environ, SISKIN_CLUSTER_NAMESPACE="yes")
        inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && ip addr add 10.99.0.1/32 dev lo && exec "$@"', "sh", sys.executable, *sys.argv]
        os.execvpe("unshare", inside, env)
    chosen = args.checks or list(CHECKS)
    if "local" not in chosen and set(chosen) & {"slurm", "hyperqueue"}:
        chosen = ["local", *chosen]
    run_all([CHECKS[name] for name in chosen], "siskin-cluster-", lambda folder: Place(siskin, folder))


if __name__ == "__main__":
    main()
