#!/usr/bin/env python3
"""Grids and trainings on real engines, disturbed on purpose: every result must have the bytes of a quiet run on one machine.

    scripts/cluster/run.py [local | slurm | hyperqueue | mpi ...]     default: all

scripts/cluster/install.sh installs the engines. Everything runs in a network namespace of its own, where only the loopback
exists. Needs root (Slurm's daemons) and the program: --siskin PATH, default target/release/siskin, built with --features mpi for
`mpi`. Ends with exit code 0 if every check holds.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CONFIG = """
[episode]
way = 3
query = 3
[train]
episodes = 60
episodes_per_step = 2
validate_every = 20
validate_episodes = 4
save_every = 4
[test]
groups = 1
episodes = 20
"""
TABLE = """
config = "glyphs.toml"
[[grid]]
cdkt.tau = [0.2, 0.5, 1.0, 2.0]
seed = [0, 1]
"""
PATIENCE = 900
TABLES = ["table.csv", "table.md", "runs.csv"]


class Failed(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


def wait_until(what, holds, patience=PATIENCE):
    begun = time.time()
    while not (found := holds()):
        check(time.time() - begun < patience, f"waited {patience} s until {what}")
        time.sleep(0.1)
    return found


class Place:
    """A folder with the config and the table, and the program."""

    def __init__(self, siskin, folder):
        self.siskin, self.folder = str(siskin), pathlib.Path(folder)
        (self.folder / "glyphs.toml").write_text(CONFIG)
        (self.folder / "grid.toml").write_text(TABLE)
        self.env = dict(os.environ, SISKIN_CACHE=str(self.folder / "cache"))

    def call(self, *words, env=None, ok=True):
        done = subprocess.run([self.siskin, *words], cwd=self.folder, env=env or self.env, text=True, capture_output=True)
        check(done.returncode == 0 or not ok, f"siskin {' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    def runs(self, out):
        return [run["name"] for run in json.loads((self.folder / out / "sweep.json").read_text())]

    def finished(self, out):
        return [name for name in self.runs(out) if (self.folder / out / name / "result.json").exists()]

    def status(self, out):
        return self.call("sweep", "status", out).stdout.strip().splitlines()[-1]

    def worker(self, out):
        """The process that trains a run now and has saved once, and the run."""
        for name in self.runs(out):
            run = self.folder / out / name
            if (run / "run" / "last.safetensors").exists() and not (run / "result.json").exists():
                lock = (run / ".siskin-lock").read_text().strip()
                if lock and os.path.exists(f"/proc/{lock}/cmdline") and b"sweep" in open(f"/proc/{lock}/cmdline", "rb").read():
                    return int(lock), name
        return None

    def kill_worker(self, out):
        number, name = wait_until("a run has saved", lambda: self.worker(out))
        os.kill(number, signal.SIGKILL)
        print(f"  killed the process of {name} after its first save")
        return name

    def collect(self, out, like):
        done = self.call("sweep", "collect", out)
        for table in TABLES:
            own, other = [(self.folder / place / table).read_bytes() for place in (out, like)]
            check(own == other, f"{table} of {out} differs from that of {like}")
        return done.stdout

    def same_as(self, out, like):
        table = hashlib.sha256((self.folder / out / "table.csv").read_bytes()).hexdigest()[:16]
        print(f"  {self.status(out)}\n  table.csv {table}: the same bytes as with --engine local")


def local(place):
    place.call("sweep", "grid.toml", "--out", "local", "--parallel", "2")
    print(place.call("sweep", "collect", "local").stdout.strip())
    place.same_as("local", "local")


def slurm(place):
    with Slurm(place.folder / "slurm") as cluster:
        env = dict(place.env, SLURM_CONF=str(cluster.config))
        print("  " + place.call("sweep", "grid.toml", "--out", "slurm-runs", "--engine", "slurm", "--parallel", "2", env=env).stdout.replace("\n", "\n  ").strip())
        place.kill_worker("slurm-runs")
        wait_until("a run is finished", lambda: place.finished("slurm-runs"))
        cluster.kill_node()
        wait_until("all runs are finished", lambda: len(place.finished("slurm-runs")) == 8 or cluster.watch())
    place.collect("slurm-runs", "local")
    place.same_as("slurm-runs", "local")


class Slurm:
    """munge, slurmctld and slurmd in a folder of their own, on the loopback."""

    def __init__(self, folder):
        self.folder, self.config, self.processes = folder, folder / "slurm.conf", {}
        for sub in ["", "state", "spool"]:
            (folder / sub).mkdir(exist_ok=True)
        self.folder.chmod(0o755)

    def __enter__(self):
        host, f = socket.gethostname().split(".")[0], self.folder
        (f / "munge.key").write_bytes(os.urandom(128))
        (f / "munge.key").chmod(0o600)
        self.config.write_text(
            f"ClusterName=siskin\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
            f"AuthType=auth/munge\nAuthInfo=socket={f}/munge.socket,cred_expire=5\nCredType=cred/munge\n"
            f"StateSaveLocation={f}/state\nSlurmdSpoolDir={f}/spool\nSlurmctldPidFile={f}/slurmctld.pid\nSlurmdPidFile={f}/slurmd.pid\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSwitchType=switch/none\nMpiDefault=none\n"
            "ReturnToService=2\nSlurmdTimeout=30\nKillWait=5\nSchedulerParameters=batch_sched_delay=0,sched_interval=5\n"
            "MailProg=/bin/true\n"
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs={max(2, os.cpu_count())} State=UNKNOWN\n"
            f"PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP\n"
        )
        names = ["socket", "pid-file", "log-file", "seed-file"]
        self.start("munged", "--foreground", "--force", f"--key-file={f}/munge.key", *[f"--{n}={f}/munge.{n.split('-')[0]}" for n in names])
        wait_until("munge listens", (f / "munge.socket").exists, 30)
        self.start("slurmctld", "-D", "-f", str(self.config))
        self.start("slurmd", "-D", "-f", str(self.config))
        wait_until("the node is idle", lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"), 120)
        return self

    def __exit__(self, *_):
        for process in reversed(list(self.processes.values())):
            process.terminate()
        for process in self.processes.values():
            process.wait()

    def start(self, program, *words):
        path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")
        check(path, f"{program} is not there: scripts/cluster/install.sh")
        log = open(self.folder / f"{program}.log", "ab")
        env = dict(os.environ, SLURM_CONF=str(self.config))
        self.processes[program] = subprocess.Popen([path, *words], stdout=log, stderr=log, env=env)

    def ask(self, *words):
        return subprocess.run(words, env=dict(os.environ, SLURM_CONF=str(self.config)), text=True, capture_output=True).stdout

    def kill_node(self):
        self.processes["slurmd"].kill()
        self.processes["slurmd"].wait()
        print("  killed the node's daemon, slurmd")
        time.sleep(2)
        self.start("slurmd", "-D", "-f", str(self.config))

    def watch(self):
        ended = [name for name, process in self.processes.items() if process.poll() is not None]
        check(not ended, f"{ended} ended; see {self.folder}")


HQ = """
import sys, time
from hyperqueue.cluster import LocalCluster, WorkerConfig
cluster = LocalCluster(sys.argv[1])
cluster.start_worker(WorkerConfig(cores=2))
print("ready", flush=True)
while True:
    time.sleep(1)
"""


def hyperqueue(place):
    env = dict(place.env, SISKIN_PYTHON=sys.executable)
    server = None
    try:
        for round in range(4):
            if server is None:
                folder = place.folder / f"hq{round}"
                folder.mkdir()
                # Server and worker are one process in the Python package.
                server = subprocess.Popen([sys.executable, "-c", HQ, str(folder)], stdout=subprocess.PIPE, text=True)
                check("ready\n" in iter(server.stdout.readline, ""), "HyperQueue did not start; pip install hyperqueue")
                env["HQ_SERVER_DIR"] = str(folder)
            done = place.call("sweep", "grid.toml", "--out", "hq-runs", "--engine", "hyperqueue", env=env)
            print("  " + done.stdout.strip().replace("\n", "\n  "))
            if round == 0:
                place.kill_worker("hq-runs")
                wait_until("a run is finished", lambda: place.finished("hq-runs"))
                server.kill()
                server.wait()
                print("  killed HyperQueue, server and worker")
                server = None
                # What the worker had begun may still end by itself.
                wait_until("nobody works", lambda: place.worker("hq-runs") is None)
                continue
            wait_until("all runs are finished", lambda: len(place.finished("hq-runs")) == 8)
            break
    finally:
        if server:
            server.kill()
            server.wait()
    place.collect("hq-runs", "local")
    place.same_as("hq-runs", "local")


def hashes(place, out):
    of = lambda name: hashlib.sha256((place.folder / out / name).read_bytes()).hexdigest()[:16]
    return {name: of(name) for name in ["last.safetensors", "best.safetensors", "metrics.jsonl"]}


def mpirun(place, ranks, *words):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader,tcp", "-n", str(ranks),
            place.siskin, "--threads", "1", *words]


def mpi(place):
    def run(ranks, *words):
        done = subprocess.run(mpirun(place, ranks, *words), cwd=place.folder, env=place.env, text=True, capture_output=True)
        check(done.returncode == 0, f"{ranks} ranks, {words}: {done.stdout}{done.stderr}")
        return done.stdout

    settings = ["--set", "train.episodes_per_step=4"]
    place.call("train", "glyphs.toml", "--out", "mpi1", *settings)
    whole = hashes(place, "mpi1")
    print(f"  1 process, all threads: {whole}")
    for ranks in [2, 3, 4]:
        run(ranks, "train", "glyphs.toml", "--out", f"mpi{ranks}", *settings)
        check(hashes(place, f"mpi{ranks}") == whole, f"{ranks} ranks give other bytes")
        print(f"  {ranks} ranks: the same bytes")
    # A rank is killed in the middle; the rest of the job is done by another number of ranks.
    job = subprocess.Popen(mpirun(place, 3, "train", "glyphs.toml", "--out", "mpi-killed", *settings), cwd=place.folder, env=place.env,
                           text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until("the job has saved", (place.folder / "mpi-killed" / "last.safetensors").exists)
    ranks = [int(p) for p in os.listdir("/proc") if p.isdigit() and is_rank(p, "2")]
    check(len(ranks) == 1, f"rank 2 is {ranks}")
    os.kill(ranks[0], signal.SIGKILL)
    out, err = job.communicate(timeout=PATIENCE)
    check(job.returncode != 0 and "one of them has died" in err, f"a killed rank: {job.returncode} {out}{err}")
    print("  killed rank 2 of 3: " + next(line for line in err.splitlines() if "died" in line))
    run(2, "train", "--resume", "mpi-killed")
    check(hashes(place, "mpi-killed") == whole, "after a killed rank and a resume on 2 ranks the bytes differ")
    print("  resumed on 2 ranks: the same bytes")
    one = json.loads(place.call("test", "mpi1", "--json").stdout)
    check(json.loads(run(3, "test", "mpi1", "--json")) == one, "a test on 3 ranks differs")
    print(f"  test on 3 ranks: the same report, accuracy {one['over_episodes']['mean']:.4f}")


def is_rank(process, rank):
    try:
        words = open(f"/proc/{process}/environ", "rb").read().split(b"\0")
        return f"OMPI_COMM_WORLD_RANK={rank}".encode() in words and b"siskin" in open(f"/proc/{process}/comm", "rb").read()
    except OSError:
        return False


ENGINES = {"local": local, "slurm": slurm, "hyperqueue": hyperqueue, "mpi": mpi}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", choices=[*ENGINES, []], help="which engines; default: all")
    parser.add_argument("--siskin", default="target/release/siskin", help="the program")
    args = parser.parse_args()
    siskin = pathlib.Path(args.siskin).resolve()
    check(siskin.exists(), f"{siskin} is not there: cargo build --release --features mpi")
    if os.environ.get("SISKIN_CLUSTER_NAMESPACE") != "yes":
        # No other network than the loopback of a namespace of its own. Slurm asks for an address beside 127.0.0.1 before it listens.
        env = dict(os.environ, SISKIN_CLUSTER_NAMESPACE="yes")
        inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && ip addr add 10.99.0.1/32 dev lo && exec "$@"', "sh", sys.executable, *sys.argv]
        os.execvpe("unshare", inside, env)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="siskin-cluster-") as folder:
        place = Place(siskin, folder)
        chosen = args.engines or list(ENGINES)
        if "local" not in chosen and set(chosen) != {"mpi"}:
            chosen = ["local", *chosen]
        for name in chosen:
            print(f"{name}:", flush=True)
            begun = time.time()
            try:
                ENGINES[name](place)
                print(f"  passed in {time.time() - begun:.0f} s", flush=True)
            except Failed as why:
                failed += 1
                print(f"  FAILED: {why}", flush=True)
    print(f"{len(chosen)} engines, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
