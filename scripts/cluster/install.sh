#!/bin/sh
# Installs what scripts/cluster/run.py needs on Debian 12: Open MPI with what its Rust bindings need to compile, a one-node Slurm,
# and HyperQueue in a Python environment of its own (default: ~/.siskin-hyperqueue).
set -eu
venv=${1:-$HOME/.siskin-hyperqueue}
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y --no-install-recommends libopenmpi-dev openmpi-bin libclang1-14 libclang-common-14-dev \
    munge slurmctld slurmd slurm-client iproute2 python3-venv
python3 -m venv "$venv"
"$venv/bin/pip" install -q "hyperqueue==0.27.0"
echo "Now: cargo build --release --features mpi && $venv/bin/python scripts/cluster/run.py"
