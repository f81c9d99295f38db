"""What the scripts that run the program have in common: a folder with the program, a check, and the summary of all checks."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Failed(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


class Place:
    """A folder to work in, and the program."""

    def __init__(self, siskin, folder, **env):
        self.siskin, self.folder = str(siskin), pathlib.Path(folder)
        self.env = dict(os.environ, SISKIN_CACHE=str(self.folder / "cache"), **env)

    def call(self, *words, env=None, ok=True, patience=3600):
        done = subprocess.run([self.siskin, *words], cwd=self.folder, env=env or self.env, text=True, capture_output=True, timeout=patience)
        said = f"siskin {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        check((done.returncode == 0) == ok and "panicked" not in done.stderr, said)
        return done


def run_all(checks, folder_name, make_place):
    """Runs the checks, each a function of the place that `make_place` makes of a fresh folder; ends the program with the summary."""
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix=folder_name) as folder:
        place = make_place(folder)
        for one in checks:
            print(f"{one.__name__}:", flush=True)
            begun = time.time()
            try:
                one(place)
                passed += 1
                print(f"  passed in {time.time() - begun:.0f} s", flush=True)
            except Exception as why:  # A check that breaks has failed; the others go on.
                failed += 1
                print(f"  FAILED: {why if isinstance(why, Failed) else repr(why)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)
