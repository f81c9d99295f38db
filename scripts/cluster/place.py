"""The folder that the engines work in, and what can be asked of it."""

import hashlib
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import checks
from checks import ROOT, check, run_all

# Row "1-shot" of the paper's Table 4 (temperature) by its own config, on drawn characters and with few episodes; two seeds each.
PAPER = "configs/paper/table4-temperature/cub-1shot-tau1.toml"
SMALL = {"data.train": "glyphs", "data.image_size": 28, "data.augment": False, "backbone.name": "conv4s", "episode.way": 3, "episode.query": 3,
         "train.validate_every": 20, "train.validate_from": 0, "train.validate_episodes": 4, "train.save_every": 4, "test.groups": 1,
         "test.episodes": 20, "test.query": 5}
GRID = {"cdkt.tau": [0.2, 0.5, 0.75, 1.0, 1.5], "seed": [0, 1]}
RUNS = 10
# For ranks: four episodes share a step.
GLYPHS = """
[episode]
way = 3
query = 3
[train]
episodes = 60
episodes_per_step = 4
validate_every = 20
validate_episodes = 4
save_every = 4
[test]
groups = 1
episodes = 20
"""
PATIENCE = 900
TABLES = ["table.csv", "table.md", "runs.csv"]


def wait_until(what, holds, patience=PATIENCE):
    begun = time.time()
    while not (found := holds()):
        check(time.time() - begun < patience, f"waited {patience} s until {what}")
        time.sleep(0.02)
    return found


def short_hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def table(settings, grid):
    """A table of settings for `siskin sweep`."""
    lines = [f'config = "{ROOT / PAPER}"', "[set]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()] + ["[[grid]]"]
    return "\n".join(lines + [f"{key} = {json.dumps(value)}" for key, value in grid.items()]) + "\n"


class Place(checks.Place):
    """A folder with the tables and configs, and the program."""

    def __init__(self, siskin, folder):
        super().__init__(siskin, folder)
        (self.folder / "glyphs.toml").write_text(GLYPHS)
        (self.folder / "grid.toml").write_text(table({**SMALL, "train.episodes": 40}, GRID))

    def say(self, text):
        """Shows what a command said, without the folder's name."""
        print("  " + text.replace(f"{self.folder}/", "").strip().replace("\n", "\n  "), flush=True)

    def runs(self, out):
        return [run["name"] for run in json.loads((self.folder / out / "sweep.json").read_text())]

    def finished(self, out):
        return [name for name in self.runs(out) if (self.folder / out / name / "result.json").exists()]

    def status(self, out):
        return self.call("sweep", "status", out).stdout.strip().splitlines()[-1]

    def attempts(self, out, name):
        return len((self.folder / out / name / "attempts.jsonl").read_text().splitlines())

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

    def collect(self, out, like=None):
        """The table of `out`; it must be that of `like`."""
        self.call("sweep", "collect", out)
        for name in TABLES if like else []:
            own, other = [(self.folder / place / name).read_bytes() for place in (out, like)]
            check(own == other, f"{name} of {out} differs from that of {like}")
        same = ": the same bytes as with --engine local" if like else ""
        print(f"  {self.status(out)}\n  table.csv {short_hash(self.folder / out / 'table.csv')}{same}")
