"""Kills around saves, and two at once: a run folder can always be resumed, and nothing half-written stays."""

import os
import random
import signal
import subprocess
import tempfile
import time

from common import Attack

CONFIG = """[train]
episodes = 1000000
validate_every = 7
validate_episodes = 2
save_every = 1
"""


def start(binary, args, folder):
    environment = dict(os.environ, SISKIN_CACHE=os.path.join(folder, "cache"))
    return subprocess.Popen([binary, "train", *args], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def begin(binary, folder):
    """A run with a checkpoint, killed."""
    with open(os.path.join(folder, "c.toml"), "w") as out:
        out.write(CONFIG)
    process = start(binary, ["c.toml", "--out", "run"], folder)
    last = os.path.join(folder, "run", "last.safetensors")
    for _ in range(600):
        if os.path.exists(last):
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert os.path.exists(last), process.stderr.read()
    return last


def end(attack, binary, kind, count):
    with tempfile.TemporaryDirectory() as folder:
        last = begin(binary, folder)
        rng = random.Random(kind)
        for _ in range(count):
            process = start(binary, ["--resume", "run"], folder)
            # It saves after every step; the kill comes somewhere in the steps after the first save.
            before = os.stat(last).st_mtime_ns
            limit = time.monotonic() + 60
            while os.stat(last).st_mtime_ns == before and process.poll() is None and time.monotonic() < limit:
                time.sleep(0.005)
            saved = os.stat(last).st_mtime_ns != before
            time.sleep(rng.random() * 0.1)
            process.send_signal(kind)
            code = process.wait(60)
            says = process.stderr.read()
            wanted = -9 if kind == signal.SIGKILL else 128 + kind
            attack.check(saved and code == wanted, f"exit code {code}: {says[-300:]}")
        left = [name for name in os.listdir(os.path.join(folder, "run")) if name.endswith(".siskin-writing")]
        # The last one may have left its own; all before it are swept.
        attack.check(len(left) <= 2, left)


def kills(binary, count=40):
    """kill -9 around saves; the acceptance run takes 200."""
    attack = Attack("kill -9 around saves")
    end(attack, binary, signal.SIGKILL, int(os.environ.get("KILLS", count)))
    return attack


def terminations(binary, count=10):
    """SIGTERM around saves; the acceptance run takes 50."""
    attack = Attack("SIGTERM around saves")
    end(attack, binary, signal.SIGTERM, int(os.environ.get("TERMINATIONS", count)))
    return attack


def two_at_once(binary):
    """Two processes in one run folder, and six imports into one cache."""
    attack = Attack("two at once")
    with tempfile.TemporaryDirectory() as folder:
        begin(binary, folder)
        first = start(binary, ["--resume", "run"], folder)
        time.sleep(2)
        for args in (["--resume", "run"], ["c.toml", "--out", "run"]):
            second = start(binary, args, folder)
            code, says = second.wait(60), second.stderr.read()
            attack.check(code == 1 and ("another siskin" in says or "already holds a run" in says), f"{code} {says[-300:]}")
        attack.check(first.poll() is None, "the first ended")
        first.terminate()
        attack.check(first.wait(60) == 143, "the first did not save")
        from files import drawings
        drawings(folder)
        environment = dict(os.environ, SISKIN_CACHE=os.path.join(folder, "new cache"))
        imports = [subprocess.Popen([binary, "data", "import", "data"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                   for _ in range(6)]
        for process in imports:
            code = process.wait(60)
            attack.check(code == 0, process.stdout.read()[-300:])
    return attack


ALL = [kills, terminations, two_at_once]
