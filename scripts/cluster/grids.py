"""One grid by every engine, disturbed on purpose: each must give the table of a quiet run on one machine."""

import os
import signal
import subprocess
import sys
import time

from engines import HyperQueue, Slurm
from place import RUNS, SMALL, Place, check, short_hash, table, wait_until


def local(place):
    place.call("sweep", "grid.toml", "--out", "local", "--parallel", "2")
    print(place.call("sweep", "collect", "local").stdout.split("Written")[0].strip())
    place.collect("local")


def slurm(place):
    with Slurm(place.folder / "slurm") as cluster:
        env, most = {**place.env, **cluster.env}, 0
        place.say(place.call("sweep", "grid.toml", "--out", "slurm-runs", "--engine", "slurm", "--parallel", "2", env=env).stdout)
        place.kill_worker("slurm-runs")
        wait_until("a run is finished", lambda: place.finished("slurm-runs"))
        cluster.kill_node()

        def ended():
            nonlocal most
            most = max(most, cluster.running())
            return len(place.finished("slurm-runs")) == RUNS or cluster.watch()

        wait_until("all runs are finished", ended)
    check(most == 2, f"{most} tasks at once, where --parallel says 2")
    print(f"  at most {most} tasks at once on a node of 4 CPUs: --parallel 2")
    place.collect("slurm-runs", "local")


def limit(place):
    """A time limit that is shorter than the run: only Slurm's signal before it lets the run save."""
    # Nothing is saved but by a signal and at the end; as many episodes as this machine, busy as it is, trains in more than a minute.
    settings = {**SMALL, "train.save_minutes": 0.0, "train.validate_every": 0}
    for out, episodes in [("pace", 100), ("long-local", None)]:
        episodes = episodes or max(2, round(75 / (time.time() - begun))) * 100
        (place.folder / "long.toml").write_text(table({**settings, "train.episodes": episodes, "train.save_every": episodes}, {"seed": [0, 1]}))
        begun = time.time()
        place.call("sweep", "long.toml", "--out", out, "--parallel", "2")
    print(f"  {episodes} episodes took {time.time() - begun:.0f} s here")
    with Slurm(place.folder / "slurm-limit") as cluster:
        env, begun = {**place.env, **cluster.env}, time.time()
        words = ["sweep", "long.toml", "--out", "long-slurm", "--engine", "slurm", "--pass=--time=00:01:00", "--warning", "15"]
        place.say(place.call(*words, env=env).stdout)
        wait_until("both runs are finished", lambda: len(place.finished("long-slurm")) == 2 or cluster.watch())
        print(f"  finished after {time.time() - begun:.0f} s by tasks of 60 s at most")
    for name in place.runs("long-slurm"):
        log = (place.folder / "long-slurm" / name / "log.txt").read_text()
        saved = [line.split("stopped at ")[1] for line in log.splitlines() if "stopped at " in line]
        check(saved, f"{name} was not told to save: {log}")
        print(f"  {name}: stopped at {', at '.join(saved).replace('.', '')}; begun {place.attempts('long-slurm', name)} times")
    place.collect("long-slurm", "long-local")


def hyperqueue(place):
    words = ["sweep", "grid.toml", "--out", "hq-runs", "--engine", "hyperqueue"]
    with HyperQueue(place.folder / "hq-first") as queue:
        place.say(place.call(*words, env={**place.env, **queue.env}).stdout)
        place.kill_worker("hq-runs")
        wait_until("a run is finished", lambda: place.finished("hq-runs"))
    print("  killed HyperQueue, server and worker")
    # What the worker had begun may still end by itself.
    wait_until("nobody works", lambda: place.worker("hq-runs") is None)
    with HyperQueue(place.folder / "hq-second") as queue:
        place.say(place.call(*words, env={**place.env, **queue.env}).stdout)
        wait_until("all runs are finished", lambda: len(place.finished("hq-runs")) == RUNS)
    place.collect("hq-runs", "local")


REPRODUCE = ["reproduce", "table4", "--budget", "20", "--out", "paper", *[word for key, value in SMALL.items() for word in ("--set", f"{key}={str(value).lower()}")]]
# Every line of a file as a task of HyperQueue.
QUEUE_LINES = """
import os, sys
from hyperqueue import Client, Job
client, job = Client(os.environ["HQ_SERVER_DIR"]), Job(max_fails=None)
for line in open(sys.argv[1]):
    job.program(["sh", "-c", line], stdout=None, stderr=None)
client.wait_for_jobs([client.submit(job)], raise_on_error=False)
"""


def paper(place):
    """All of Table 4 by `siskin reproduce`: here, and its jobs by both schedulers, each with one process killed."""
    places = {}
    for name in ["here", "slurm", "hyperqueue"]:
        (place.folder / f"paper-{name}").mkdir()
        places[name] = Place(place.siskin, place.folder / f"paper-{name}")
        places[name].env = place.env
    places["here"].call(*REPRODUCE, "--no-timing")
    rows = [line.split(",") for line in (places["here"].folder / "paper/budget-20/table4.csv").read_text().splitlines()[1:]]
    check(len(rows) == 10 and all(row[14] == "finished" for row in rows), f"{rows}")
    print("  here: " + ", ".join(f"{row[2]} {float(row[8]):.1f} %" for row in rows))
    with Slurm(place.folder / "slurm-paper") as cluster:
        wrap = 'sh -c "$(sed -n ${SLURM_ARRAY_TASK_ID}p jobs.txt)"'
        print("  Slurm:")
        by_jobs(places["slurm"], lambda lines: subprocess.Popen(
            ["sbatch", "--wait", f"--array=1-{lines}%2", "--requeue", "--output=/dev/null", "--wrap", wrap],
            cwd=places["slurm"].folder, env={**place.env, **cluster.env}, stdout=subprocess.DEVNULL))
    with HyperQueue(place.folder / "hq-paper") as queue:
        print("  HyperQueue:")
        by_jobs(places["hyperqueue"], lambda lines: subprocess.Popen(
            [sys.executable, "-c", QUEUE_LINES, "jobs.txt"], cwd=places["hyperqueue"].folder, env={**place.env, **queue.env},
            stderr=open(places["hyperqueue"].folder / "bars.txt", "w")))  # The package draws progress bars there.
    for name in ["slurm", "hyperqueue"]:
        for name_of_file in ["table4.csv", "table4.md", "table4.html"]:
            own, other = [(places[who].folder / "paper/budget-20" / name_of_file).read_bytes() for who in (name, "here")]
            check(own == other, f"{name_of_file} by {name} differs from that made here")
    print(f"  table4.csv {short_hash(places['here'].folder / 'paper/budget-20/table4.csv')}: the same bytes from all three")


def by_jobs(place, submit):
    """The jobs file by a scheduler; one process is killed, and the jobs that are left are given again."""
    for killed in [False, True]:
        place.say(place.call(*REPRODUCE, "--jobs", "jobs.txt").stdout)
        lines = (place.folder / "jobs.txt").read_text().count("\n")
        job = submit(lines)
        if not killed:
            worker = wait_until("a job is at work", lambda: at_work(place.folder))
            os.kill(worker, signal.SIGKILL)
            print("  killed one of its processes")
        job.wait()
    check(job.returncode == 0, f"the jobs that were left ended with {job.returncode}")
    place.say(place.call(*REPRODUCE, "--report").stdout.splitlines()[-1])


def at_work(folder):
    """A process that works on a cell in `folder` and has saved once."""
    if not list(folder.glob("paper/budget-20/*/last.safetensors")):
        return None
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{process}/cmdline", "rb").read().split(b"\0")
            if b"reproduce" in words[1:] and os.readlink(f"/proc/{process}/cwd") == str(folder):
                return int(process)
        except OSError:
            pass
    return None
