"""One training by several ranks of MPI: on one machine, on several hosts, killed, resumed; and what it gains."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import time

from engines import Slurm
from place import PATIENCE, ROOT, check, short_hash, wait_until

FILES = ["last.safetensors", "best.safetensors", "metrics.jsonl"]
WORDS = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
# Only the loopback is there.
ONE_MACHINE = ["--mca", "btl", "self,vader,tcp", "--mca", "oob_tcp_if_include", "lo"]


def hashes(place, out):
    return {name: short_hash(place.folder / out / name) for name in FILES}


def mpirun(place, ranks, *words, threads=1, where=ONE_MACHINE):
    return [*WORDS, *where, "-n", str(ranks), place.siskin, "--threads", str(threads), *words]


def run(place, ranks, *words, **how):
    done = subprocess.run(mpirun(place, ranks, *words, **how), cwd=place.folder, env=place.env, text=True, capture_output=True, timeout=PATIENCE)
    check(done.returncode == 0, f"{ranks} ranks, {words}: {done.stdout}{done.stderr}")
    return done


@contextlib.contextmanager
def started(place, words):
    """A job, none of whose processes is left behind."""
    job = subprocess.Popen(words, cwd=place.folder, env=place.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield job
    finally:
        if job.poll() is None:
            job.kill()
            job.communicate()
        for process, _ in processes(place.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def mpi(place):
    place.call("train", "glyphs.toml", "--out", "mpi1")
    whole = hashes(place, "mpi1")
    print(f"  1 process, all threads: {whole}")
    for ranks in [1, 2, 3, 4]:
        out = f"ranks{ranks}"
        done = run(place, ranks, "train", "glyphs.toml", "--out", out)
        check(hashes(place, out) == whole, f"{ranks} ranks give other bytes")
        traffic = [line for line in done.stderr.splitlines() if " meetings" in line]
        check(len(traffic) == (ranks > 1), f"{ranks} ranks: {done.stderr}")
        print(f"  mpirun -n {ranks}: the same bytes{''.join('. ' + line for line in traffic)}")
    killed(place)
    stopped(place)
    tested(place)
    refused(place)


# Of each rank: its relay, which speaks MPI, or its worker, which computes.
VICTIMS = [("2", "relay"), ("2", "worker"), ("0", "relay"), ("0", "worker")]


def patience_of_mpirun(seconds):
    """Before and after SIGTERM for the ranks that are left. By itself it is one second; with 0 nobody has time to save before."""
    return [*ONE_MACHINE, "--mca", "odls_base_sigkill_timeout", str(seconds)]


# Long enough to be killed before its end, and saves only when it must.
RARE = [word for key in ["train.episodes=160", "train.save_every=1000", "train.save_minutes=0.0"] for word in ("--set", key)]


def at_work(place, out, *victim):
    """The process that is to be ended, when the training in `out` is in the middle: the first validation has kept the best weights."""
    wait_until("the job has validated", (place.folder / out / "best.safetensors").exists)
    found = processes(place.folder)
    there = [process for process, which in found if which == victim]
    check(len(there) == 1, f"the processes of the ranks are {found}, where one {victim} should be")
    return there[0]


def killed(place):
    """A process is killed in the middle of a training; another number of ranks does the rest."""
    place.call("train", "glyphs.toml", "--out", "rare", *RARE)
    for (rank, kind), hurry in [(VICTIMS[0], False), *((victim, True) for victim in VICTIMS)]:
        out = f"killed-{rank}-{kind}-{hurry}"
        # Time enough for a busy machine to be heard, or none.
        words = mpirun(place, 3, "train", "glyphs.toml", "--out", out, *RARE, where=patience_of_mpirun(0 if hurry else 5))
        with started(place, words) as job:
            os.kill(at_work(place, out, rank, kind), signal.SIGKILL)
            _, err = job.communicate(timeout=PATIENCE)
            check(job.returncode != 0, f"a killed {kind}: {err}")
            wait_until("the worker of the first rank has ended", lambda: not processes(place.folder))
        what = f"killed the {kind} of rank {rank} of 3{', the others at once' if hurry else ''}"
        saved = (place.folder / out / "last.safetensors").exists()
        check(saved == ((rank, kind) != ("0", "worker")), f"{what}: saved {saved}: {err}")
        check(hurry or "has died" in err, f"{what}: {err}")
        far = place.call("watch", out, "--once").stdout.strip()
        check(far.endswith(", stopped"), far)
        print(f"  {what}: {far if saved else 'the last validation is kept, ' + far}")
        run(place, 2, "train", "--resume", out)
        check(hashes(place, out) == hashes(place, "rare"), f"{what}: after a resume on 2 ranks the bytes differ")
        print("  resumed on 2 ranks: the same bytes")


def stopped(place):
    """SIGUSR1 for `mpirun`, which passes it on, or SIGTERM for one rank alone ends everybody."""
    for out, victim in [("stopped-job", None), ("stopped-rank", ("2", "relay"))]:
        with started(place, mpirun(place, 3, "train", "glyphs.toml", "--out", out, *RARE)) as job:
            process = at_work(place, out, *(victim or VICTIMS[0]))
            os.kill(job.pid if victim is None else process, signal.SIGUSR1 if victim is None else signal.SIGTERM)
            said, err = job.communicate(timeout=PATIENCE)
            check(job.returncode != 0 and "Stopped at episode" in said, f"{out}: {job.returncode}: {said}{err}")
        run(place, 4, "train", "--resume", out)
        check(hashes(place, out) == hashes(place, "rare"), f"{out}: after a resume on 4 ranks the bytes differ")
        who = "SIGUSR1 to mpirun" if victim is None else "SIGTERM to rank 2 alone"
        print(f"  {who}: exit code {job.returncode}, {said.strip().splitlines()[-1].split('. ')[0]}; resumed on 4 ranks: the same bytes")
    # A test has nothing to save: the rank goes at once, while the others wait for it in a meeting.
    words = mpirun(place, 3, "test", "rare", "--set", "test.episodes=20000")
    with started(place, words) as job:
        wait_until("all ranks are at work", lambda: len(processes(place.folder)) == 6)
        time.sleep(2)
        found = processes(place.folder)
        relays = [process for process, which in found if which == ("2", "relay")]
        check(len(relays) == 1, f"the processes of the ranks are {found}")
        os.kill(relays[0], signal.SIGTERM)
        begun = time.time()
        _, err = job.communicate(timeout=PATIENCE)
        check(job.returncode != 0, f"a stopped test: {err}")
        wait_until("nobody is at work", lambda: not processes(place.folder), 60)
        print(f"  SIGTERM to rank 2 of a test: exit code {job.returncode}, all ended in {time.time() - begun:.0f} s")


def processes(folder):
    """The processes of ranks that work in `folder`, each with its rank and what it is."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{process}/cwd") != str(folder) or b"siskin" not in open(f"/proc/{process}/comm", "rb").read():
                continue
            words = open(f"/proc/{process}/environ", "rb").read().split(b"\0")
            name = open(f"/proc/{process}/cmdline", "rb").read().split(b"\0")[0]
        except OSError:
            continue  # It has ended.
        ranks = [word.split(b"=")[1].decode() for word in words if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
        found += [(int(process), (rank, "worker" if name == b"siskin-worker" else "relay")) for rank in ranks]
    return found


def tested(place):
    """`siskin test`, `compare` and `calibrate` share their episodes."""
    one = json.loads(place.call("test", "mpi1", "--json").stdout)
    check(json.loads(run(place, 3, "test", "mpi1", "--json").stdout) == one, "a test on 3 ranks differs")
    print(f"  test on 3 ranks: the same report, accuracy {one['over_episodes']['mean']:.4f}")
    words = ["compare", "--run", "a=mpi1", "--run", "b=ranks2", "--out"]
    place.call(*words, "compared1")
    run(place, 3, *words, "compared3")
    for name in ["compare.csv", "compare.json", "compare.md"]:
        own, other = [(place.folder / out / name).read_text() for out in ("compared1", "compared3")]
        check(own == other, f"{name} of 3 ranks differs")
    print("  compare on 3 ranks: the same tables")
    one = place.call("calibrate", "mpi1", "--json").stdout
    check(json.loads(run(place, 3, "calibrate", "mpi1", "--json").stdout) == json.loads(one), "a calibration on 3 ranks differs")
    print("  calibrate on 3 ranks: the same figures")


def in_slurm(place):
    """The recipe of docs/cluster.md as a job: told that its time is nearly over, all ranks stop, and the job goes on when it is begun again."""
    if not (place.folder / "rare").exists():
        place.call("train", "glyphs.toml", "--out", "rare", *RARE)
    pages = (ROOT / "docs" / "cluster.md").read_text().split("```sh\n")
    recipes = [text.split("```")[0] for text in pages if "mpirun" in text.split("```")[0] and "#SBATCH" in text.split("```")[0]]
    check(len(recipes) == 1, f"{len(recipes)} recipes")
    recipe = recipes[0]
    for old, new in [("configs/cub.toml --set train.episodes_per_step=4", " ".join(["glyphs.toml", *RARE])), ("runs/cub", "in-slurm"),
                     ("--threads 2", "--threads 1"), ("--cpus-per-task=2", "--cpus-per-task=1"), ("siskin --", f"{place.siskin} --")]:
        check(old in recipe, f"{old} is not in the recipe")
        recipe = recipe.replace(old, new)
    (place.folder / "job.sh").write_text(recipe)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_oob_tcp_if_include": "lo"}
    with Slurm(place.folder / "slurm-mpi") as cluster:
        env = {**place.env, **cluster.env, **as_root}
        done = subprocess.run(["sbatch", "--parsable", "job.sh"], cwd=place.folder, env=env, text=True, capture_output=True, timeout=60)
        check(done.returncode == 0, done.stderr)
        job = done.stdout.strip()
        at_work(place, "in-slurm", *VICTIMS[0])
        # What Slurm does before the limit.
        subprocess.run(["scancel", "--batch", "--signal=USR1", job], env=env, check=True, timeout=60)
        log = place.folder / "in-slurm.log"
        wait_until("the ranks have stopped", lambda: "Stopped at episode" in log.read_text())
        wait_until("the job has ended", lambda: not cluster.ask("squeue", "--noheader") or cluster.watch())
    said = log.read_text()
    check(hashes(place, "in-slurm") == hashes(place, "rare"), f"the bytes differ: {said}")
    stop = next(line for line in said.splitlines() if "Stopped at episode" in line)
    print(f"  4 ranks in a job of Slurm: {stop.split('. ')[0]}; queued again and trained: the same bytes")


def refused(place):
    """What ranks would each do all of is refused, in one sentence."""
    for words in [["sweep", "status", "nowhere"], ["train", "glyphs.toml", "--plan"]]:
        done = subprocess.run(mpirun(place, 2, *words), cwd=place.folder, env=place.env, text=True, capture_output=True, timeout=PATIENCE)
        check(done.returncode != 0 and done.stderr.count("does not share its work") == 1, f"{words}: {done.stdout}{done.stderr}")
    print("  sweep and train --plan on 2 ranks: refused")


AGENT = """#!/bin/sh
# In place of ssh: a host is a network namespace of this machine.
host=$1
shift
exec ip netns exec "$host" sh -c "$*"
"""


def hosts(place):
    """Four ranks on two hosts with a network between them, which are namespaces here."""
    names = [f"siskin-{os.getpid()}-{n}" for n in (1, 2)]
    shell = lambda line: subprocess.run(line, shell=True, check=True)
    try:
        for name in names:
            shell(f"ip netns add {name}")
        shell(f"ip link add v1 netns {names[0]} type veth peer name v2 netns {names[1]}")
        for n, name in enumerate(names, 1):
            shell(f"ip -n {name} addr add 10.99.1.{n}/24 dev v{n} && ip -n {name} link set v{n} up && ip -n {name} link set lo up")
        agent = place.folder / "agent"
        agent.write_text(AGENT.replace('exec ip netns exec "$host"', f'case $host in 10.99.1.1) host={names[0]};; *) host={names[1]};; esac\nexec ip netns exec "$host"'))
        agent.chmod(0o755)
        where = ["--mca", "plm_rsh_agent", str(agent), "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "10.99.1.0/24",
                 "--mca", "oob_tcp_if_include", "10.99.1.0/24", "--host", "10.99.1.1:2,10.99.1.2:2"]
        job = ["ip", "netns", "exec", names[0], *mpirun(place, 4, "train", "glyphs.toml", "--out", "hosts", where=where)]
        done = subprocess.run(job, cwd=place.folder, env=place.env, text=True, capture_output=True, timeout=PATIENCE)
        check(done.returncode == 0, f"two hosts: {done.stdout}{done.stderr}")
        if not (place.folder / "mpi1").exists():
            place.call("train", "glyphs.toml", "--out", "mpi1")
        check(hashes(place, "hosts") == hashes(place, "mpi1"), "two hosts give other bytes")
        crossed = [int(subprocess.run(f"ip -n {name} -json -stats link show v{n}", shell=True, text=True, capture_output=True, check=True)
                       .stdout.split('"tx":{"bytes":')[1].split(",")[0]) for n, name in enumerate(names, 1)]
        print(f"  4 ranks on 2 hosts: the same bytes; {crossed[0] / 1e6:.1f} and {crossed[1] / 1e6:.1f} MB crossed the network")
        print("  " + next(line for line in done.stderr.splitlines() if " meetings" in line))
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name])


# Conv4 on 84 pixels, as the paper trains; two episodes share a step.
SPEED = ["train", "glyphs.toml", *[word for key in ["data.image_size=84", "backbone.name=conv4", "episode.way=5", "episode.query=15",
         "train.episodes=16", "train.episodes_per_step=2", "train.validate_every=0"] for word in ("--set", key)]]
TURNS = 2


def speed(place):
    """Wall and CPU time of the same training, the ways in turn. A busy machine changes the first and hardly the second: no
    training can take less on free cores than its busiest thread computes."""
    ways = {"1 process, 1 thread": lambda out: [place.siskin, "--threads", "1", *SPEED, "--out", out],
            "1 process, 2 threads": lambda out: [place.siskin, "--threads", "2", *SPEED, "--out", out],
            "2 ranks, 1 thread each": lambda out: mpirun(place, 2, *SPEED, "--out", out)}
    found, one = {name: [] for name in ways}, None
    for turn in range(TURNS):
        for number, (name, words) in enumerate(ways.items()):
            out = f"speed-{number}-{turn}"
            begun = time.time()
            job = subprocess.Popen(words(out), cwd=place.folder, env=place.env, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            threads = {}
            while job.poll() is None:
                threads.update(computed(place.folder))
                time.sleep(0.02)
            said = job.stderr.read()
            check(job.returncode == 0, f"{name}: {said}")
            check(hashes(place, out) == hashes(place, "speed-0-0"), f"{name}: other bytes")
            found[name].append((max(threads.values()), sum(threads.values()), time.time() - begun))
    for name, times in found.items():
        busiest, cpu, wall = [statistics.median(column) for column in zip(*times)]
        one = one or (busiest, wall)
        print(f"  {name}: the busiest thread computes {busiest:.2f} s ({one[0] / busiest:.2f} times as fast), all {cpu:.2f} s; "
              f"wall {wall:.1f} s ({one[1] / wall:.2f} times)")
    print(f"  medians of {TURNS}. {next(line for line in said.splitlines() if ' meetings' in line)}")
    print(f"  load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def computed(folder):
    """CPU seconds of every thread of the program in `folder`, so far."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{process}/cwd") == str(folder) and b"siskin" in open(f"/proc/{process}/comm", "rb").read():
                for thread in os.listdir(f"/proc/{process}/task"):
                    found[process, thread] = int(open(f"/proc/{process}/task/{thread}/schedstat").read().split()[0]) / 1e9
        except OSError:
            pass  # It has ended.
    return found
