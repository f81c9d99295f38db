"""Damaged files: every flipped bit is refused, or what comes out is what came out of the whole file."""

import os
import random
import stat
import subprocess
import tempfile

from common import Attack, Server, png

FLIPS = 150


def run(binary, args, folder, timeout=120):
    environment = dict(os.environ, SISKIN_CACHE=os.path.join(folder, "cache"))
    return subprocess.run([binary, *args], cwd=folder, env=environment, capture_output=True, timeout=timeout)


def drawings(folder, classes=4, each=4):
    for c in range(classes):
        os.makedirs(os.path.join(folder, "data", f"class {c}"))
        for i in range(each):
            with open(os.path.join(folder, "data", f"class {c}", f"{i}.png"), "wb") as out:
                out.write(png(60, 40, seed=10 * c + i))


def damaged(rng, whole):
    """One flipped bit, some other bytes, a piece missing, or the end gone."""
    data = bytearray(whole)
    at = rng.randrange(len(data))
    match rng.randrange(8):
        case 0: del data[at:]
        case 1: del data[at:at + rng.randrange(1, 9)]
        case 2: data[at:at + 4] = bytes(rng.randrange(256) for _ in range(4))
        case _: data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def flip(attack, path, use, same, count=FLIPS):
    """Damages a file again and again. `use` runs the program; `same` tells whether its result is that of the whole file."""
    whole = open(path, "rb").read()
    assert use().returncode == 0, use().stderr
    rng = random.Random(os.path.basename(path))
    refused = 0
    for _ in range(count):
        bad = damaged(rng, whole)
        if bad == whole:
            continue
        with open(path, "wb") as out:
            out.write(bad)
        result = use()
        good = result.returncode == 0
        refused += not good
        crashed = result.returncode < 0 or b"panicked" in result.stderr
        attack.check(not crashed and (not good or same(result)), f"other output, or a crash: {result.returncode} {result.stderr[-200:]}")
    attack.note(f"{refused} of {attack.tried} refused, the others gave the same output")
    with open(path, "wb") as out:
        out.write(whole)


def tasks(binary):
    attack = Attack("damaged task files")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        assert run(binary, ["adapt", "data", "--out", "t.task"], folder).returncode == 0
        use = lambda: run(binary, ["predict", "t.task", "data", "--format", "jsonl"], folder)
        want = use().stdout
        flip(attack, os.path.join(folder, "t.task"), use, lambda result: result.stdout == want)
    return attack


def models(binary):
    attack = Attack("damaged model files")
    whole = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/omniglot-conv4s.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        path = os.path.join(folder, "m.safetensors")
        with open(whole, "rb") as source, open(path, "wb") as out:
            out.write(source.read())
        use = lambda: run(binary, ["adapt", "data", "--model", "m.safetensors", "--out", "t.task"], folder)
        use()
        task = lambda: open(os.path.join(folder, "t.task"), "rb").read()
        want = task()
        flip(attack, path, use, lambda _: task() == want)
    return attack


def checkpoints(binary):
    attack = Attack("damaged checkpoints")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        open(os.path.join(folder, "c.toml"), "w").write(
            "[train]\nepisodes = 4\nvalidate_every = 4\nvalidate_episodes = 2\n")
        made = run(binary, ["train", "c.toml", "--out", "run"], folder)
        assert made.returncode == 0, made.stderr
        use = lambda: run(binary, ["adapt", "data", "--model", "run", "--out", "t.task"], folder)
        use()
        task = lambda: open(os.path.join(folder, "t.task"), "rb").read()
        want = task()
        flip(attack, os.path.join(folder, "run", "best.safetensors"), use, lambda _: task() == want)
    return attack


def packs(binary):
    attack = Attack("damaged packs")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        use = lambda: run(binary, ["data", "preview", "--data", "data", "--split", "all", "--out", "sheet.png"], folder)
        use()
        sheet = lambda: open(os.path.join(folder, "sheet.png"), "rb").read()
        want = sheet()
        packs = os.path.join(folder, "cache", "packs")
        path = os.path.join(packs, [name for name in os.listdir(packs) if name.endswith(".pack")][0])
        flip(attack, path, use, lambda _: sheet() == want)
    return attack


def pipes(binary):
    """Files that are none: pipes, devices and folders in the place of tasks and models."""
    attack = Attack("pipes and devices as files")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        os.mkfifo(os.path.join(folder, "pipe"))
        for name in ("pipe", "/dev/zero", "/dev/random", "/", "/proc/self/mem"):
            for args in (["predict", name, "data"], ["adapt", "data", "--model", name], ["serve", "--port", "0", "--token-file", name]):
                try:
                    result = run(binary, args, folder, timeout=20)
                    attack.check(result.returncode == 1, (args, result.returncode, result.stderr[-200:]))
                except subprocess.TimeoutExpired:
                    attack.check(False, (args, "waits for ever"))
    return attack


def planted(binary):
    """Pipes and links where the program writes, a huge file without content, a name with a line end."""
    attack = Attack("what others put in our places")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        at = lambda *names: os.path.join(folder, *names)
        for name in ("out", "piped", "linked", "theirs", "open"):
            os.mkdir(at(name), 0o755)
        victim = "precious words\n"
        open(at("victim"), "w").write(victim)
        for name in ("out", "piped"):
            os.mkfifo(at(name, ".1-1.siskin-writing"))
        os.symlink(at("victim"), at("linked", ".siskin-lock"))
        os.chmod(at("open"), 0o777)
        os.truncate(os.open(at("sparse"), os.O_CREAT | os.O_WRONLY), 1 << 40)

        def ends(args, codes, says=""):
            try:
                result = run(binary, args, folder, timeout=30)
                attack.check(result.returncode in codes and says in result.stderr.decode(), (args, result.returncode, result.stderr[-200:]))
                return (result.stderr + result.stdout).decode()
            except subprocess.TimeoutExpired:
                attack.check(False, (args, "waits for ever"))
                return ""

        ends(["adapt", "data", "--out", "out/x.task"], (0,))
        ends(["serve", "--port", "0", "--state", "linked"], (1,), "is a link")
        ends(["serve", "--port", "0", "--state", "open"], (1,), "others may write")
        ends(["predict", "sparse", "data"], (1,))
        ends(["adapt", "data", "--model", "sparse"], (1,))
        for state in ("piped", "theirs"):
            with Server(binary, state=at(state)) as server:
                attack.check(server.ask("GET", "/health")[0] == 200, state)
        attack.check(stat.S_IMODE(os.stat(at("theirs")).st_mode) == 0o755, "the mode of a folder that was there")
        attack.check(open(at("victim")).read() == victim, "a link was written through")
        some = at("data", sorted(os.listdir(at("data")))[0])
        os.symlink("nobody", os.path.join(some, "\nerror: forged line.png"))
        lines = ends(["adapt", "data", "--out", "y.task"], (0, 1)).splitlines()
        attack.check(not any(line.startswith("error: forged") for line in lines), lines)
    return attack


ALL = [tasks, models, checkpoints, packs, pipes, planted]
