"""Slurm and HyperQueue on this machine, to be killed."""

import os
import shutil
import socket
import subprocess
import sys
import time

from place import check, wait_until

# More than the machine has, so that a cap below them shows.
CPUS = 4


class Slurm:
    """munge, slurmctld and slurmd in a folder of their own, on the loopback."""

    def __init__(self, folder):
        self.folder, self.config, self.processes = folder, folder / "slurm.conf", {}
        self.env = dict(os.environ, SLURM_CONF=str(self.config))
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
            "SlurmdParameters=config_overrides\nMailProg=/bin/true\n"
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs={CPUS} State=UNKNOWN\n"
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
        self.processes[program] = subprocess.Popen([path, *words], stdout=log, stderr=log, env=self.env)

    def ask(self, *words):
        return subprocess.run(words, env=self.env, text=True, capture_output=True).stdout

    def running(self):
        """Tasks at work now."""
        return len(self.ask("squeue", "--noheader", "--array", "--states=RUNNING", "--format=%i").split())

    def kill_node(self):
        self.processes["slurmd"].kill()
        self.processes["slurmd"].wait()
        print("  killed the node's daemon, slurmd")
        time.sleep(2)
        self.start("slurmd", "-D", "-f", str(self.config))

    def watch(self):
        ended = [name for name, process in self.processes.items() if process.poll() is not None]
        check(not ended, f"{ended} ended; see {self.folder}")


SERVER = """
import sys, time
from hyperqueue.cluster import LocalCluster, WorkerConfig
cluster = LocalCluster(sys.argv[1])
cluster.start_worker(WorkerConfig(cores=2))
print("ready", flush=True)
while True:
    time.sleep(1)
"""


class HyperQueue:
    """Server and worker, which are one process in the Python package."""

    def __init__(self, folder):
        self.folder, self.env = folder, dict(os.environ, SISKIN_PYTHON=sys.executable, HQ_SERVER_DIR=str(folder))
        folder.mkdir()

    def __enter__(self):
        env = dict(os.environ, TMPDIR=str(self.folder))
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, str(self.folder)], stdout=subprocess.PIPE, text=True, env=env)
        check("ready\n" in iter(self.process.stdout.readline, ""), "HyperQueue did not start; scripts/cluster/install.sh")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
