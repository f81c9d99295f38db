#!/usr/bin/env python3
"""Every command that takes a network, on a graphics processor beside the CPU.

    scripts/gpu/run.py [--siskin PATH] [--tests]

Runs on Mesa's software driver for Vulkan (lavapipe) unless VK_DRIVER_FILES names another one:
    apt-get install --no-install-recommends mesa-vulkan-drivers
    cargo build --release --features wgpu
--tests first runs the Rust test that compares features, gradients and ten training steps (crates/nn/tests/gpu.rs).
Ends with "N passed, N failed" and exit code 0 if nothing failed.
"""

import argparse
import array
import csv
import glob
import io
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib

CONFIG = """
[episode]
way = 3
query = 3
[train]
episodes = 12
validate_every = 6
validate_episodes = 4
save_every = 6
[test]
groups = 1
episodes = 20
"""
TABLE = 'config = "glyphs.toml"\n[[grid]]\nseed = [0]\n'
SMALL = ["data.train=glyphs", "data.image_size=28", "data.augment=false", "backbone.name=conv4s", "episode.way=2", "episode.query=2",
         "train.validate_episodes=2", "test.groups=1", "test.episodes=3", "test.query=3"]


class Failed(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


def near(a, b, tolerance, what):
    check(math.isfinite(a) and abs(a - b) <= tolerance, f"{what}: {a} on the GPU, {b} on the CPU")


class Place:
    def __init__(self, siskin, folder, driver):
        self.siskin, self.folder = siskin, pathlib.Path(folder)
        # Without SPIR-V the shaders are WGSL, which every driver takes.
        self.env = dict(os.environ, SISKIN_CACHE=str(self.folder / "cache"), DISABLE_WGPU_SPIRV="1", VK_DRIVER_FILES=driver)
        (self.folder / "glyphs.toml").write_text(CONFIG)
        (self.folder / "grid.toml").write_text(TABLE)

    def call(self, *words, env=None, ok=True):
        done = subprocess.run([self.siskin, *words], cwd=self.folder, env=env or self.env, text=True, capture_output=True)
        check((done.returncode == 0) == ok, f"siskin {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        check("panicked" not in done.stderr, f"siskin {' '.join(words)}: {done.stderr}")
        return done

    def both(self, *words):
        """What a command says on the GPU and on the CPU."""
        return [self.call(*words, "--device", device).stdout for device in ("wgpu", "cpu")]

    def refused(self, says, *words, env=None):
        done = self.call(*words, env=env, ok=False)
        check(says in done.stderr, f"siskin {' '.join(words)} says: {done.stderr}")
        print("    " + done.stderr.strip().splitlines()[-1])


def losses(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["kind"] == "step"]


def train(place):
    for device in ("wgpu", "cpu"):
        place.call("train", "glyphs.toml", "--out", device, "--device", device)
    gpu, cpu = losses(place.folder / "wgpu"), losses(place.folder / "cpu")
    check(len(gpu) == 12, f"{len(gpu)} steps")
    apart = [abs(a / b - 1) for a, b in zip(gpu, cpu)]
    print(f"    relative difference of the loss: step 1 {apart[0]:.1e}, step 12 {apart[-1]:.1e}")
    check(apart[0] < 1e-5 and max(apart) < 1e-2, f"losses {gpu} and {cpu}")


def resume(place):
    """A run on the GPU stopped and resumed has the bytes of one that went through, on the same machine."""
    place.call("train", "glyphs.toml", "--out", "again", "--device", "wgpu")
    same = [(place.folder / run / "last.safetensors").read_bytes() for run in ("wgpu", "again")]
    print("    given again: " + ("the same bytes" if same[0] == same[1] else "other bytes"))
    place.refused("cannot be changed", "train", "--resume", "wgpu", "--device", "cpu")
    place.call("train", "--resume", "wgpu")


def test(place):
    a, b = [json.loads(text)["over_episodes"]["mean"] for text in place.both("test", "cpu", "--json")]
    print(f"    the CPU's model: accuracy {a:.4f} on the GPU, {b:.4f} on the CPU")
    near(a, b, 0.02, "accuracy")
    place.call("test", "wgpu", "--json")


def calibrate(place):
    a, b = [json.loads(text)["raw"]["nll"] for text in place.both("calibrate", "cpu", "--json")]
    near(a, b, 1e-3, "NLL")


def compare(place):
    place.call("compare", "--run", "cpu", "--run", "wgpu", "--out", "compared", "--device", "wgpu")
    place.call("compare", "glyphs.toml", "--methods", "proto-net,cdkt", "--set", "train.episodes=4", "--out", "methods", "--device", "wgpu")


def methods(place):
    """A step and a test of every method."""
    names = [line.split()[0] for line in place.call("methods").stdout.splitlines() if line and not line.startswith(" ")]
    check(len(names) >= 13, f"methods: {names}")
    failed = []
    for name in names:
        done = subprocess.run([place.siskin, "train", "glyphs.toml", "--method", name, "--set", "train.episodes=2", "--set", "test.episodes=2",
                               "--out", f"method-{name}", "--device", "wgpu"], cwd=place.folder, env=place.env, text=True, capture_output=True)
        last = (done.stderr.strip().splitlines() or [""])[-1]
        print(f"    {name}: {'trained' if done.returncode == 0 else last}")
        if done.returncode != 0 and (not last.startswith("error: ") or "panicked" in done.stderr):
            failed.append(name)
    check(not failed, f"these end without a sentence: {failed}")


def bench(place):
    report = json.loads(place.call("bench", "--side", "28", "--shot", "1", "--repeats", "1", "--json", "--device", "wgpu").stdout)
    check(report["device"] == "wgpu", f"{report['device']}")


def plan(place):
    check("Memory" in place.call("train", "glyphs.toml", "--plan", "--device", "wgpu").stdout, "no plan")


def export(place):
    place.call("export", "cpu", "--out", "model.safetensors", "--device", "wgpu")


def embed(place):
    vectors = {}
    for device in ("wgpu", "cpu"):
        place.call("embed", "omniglot-conv4s", "images", "--out", f"{device}.npy", "--device", device)
        vectors[device] = floats((place.folder / f"{device}.npy").read_bytes())
    a, b = vectors["wgpu"], vectors["cpu"]
    check(len(a) == len(b) > 0, "files of different length")
    apart = max(abs(x - y) for x, y in zip(a, b)) / max(abs(y) for y in b)
    print(f"    largest difference of {len(a)} numbers, relative to the largest: {apart:.1e}")
    check(apart < 1e-5, f"features differ by {apart}")


def floats(npy):
    """The numbers of an .npy file."""
    length = int.from_bytes(npy[8:10], "little")
    header = npy[10:10 + length].decode()
    numbers = array.array("f" if "<f4" in header else "d")
    numbers.frombytes(npy[10 + length:])
    return numbers


def adapt_and_predict(place):
    for device in ("wgpu", "cpu"):
        place.call("adapt", "images", "--out", f"{device}.task", "--device", device)
    rows = place.both("predict", "cpu.task", "images", "--format", "csv")
    a, b = [list(csv.DictReader(io.StringIO(text))) for text in rows]
    check(len(a) == len(b) and len(a) > 0, "no rows")
    worst = 0.0
    for x, y in zip(a, b):
        for key in y:
            try:
                worst = max(worst, abs(float(x[key]) - float(y[key])))
            except (TypeError, ValueError):
                check(x[key] == y[key], f"{key}: {x[key]} on the GPU, {y[key]} on the CPU")
    print(f"    largest difference of a number in {len(a)} answers: {worst:.1e}")
    check(worst < 1e-3, f"answers differ by {worst}")
    place.call("predict", "wgpu.task", "images", "--device", "wgpu")


def trust(place):
    place.call("trust", "cpu", "--tasks", "2", "--device", "wgpu")


def serve(place):
    server = subprocess.Popen([place.siskin, "serve", "--port", "0", "--state", "state", "--device", "wgpu"], cwd=place.folder, env=place.env,
                              text=True, stdout=subprocess.PIPE)
    try:
        address = next(line for line in server.stdout if "Listening" in line).split()[2]
        image = next((place.folder / "images").rglob("*.png")).read_bytes()
        boundary = "x-siskin"
        body = b"".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="a.png"\r\n\r\n'.encode() + image + b"\r\n"
                        for name in ("A", "B")) + f"--{boundary}--\r\n".encode()
        asked = urllib.request.Request(f"{address}/v1/tasks", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
        task = json.load(urllib.request.urlopen(asked, timeout=120))
        asked = urllib.request.Request(f"{address}/v1/tasks/{task['id']}/predict", image, {"Content-Type": "image/png"})
        check(urllib.request.urlopen(asked, timeout=120).status == 200, "no answer")
    finally:
        server.terminate()
        server.wait()


def quickstart(place):
    place.call("quickstart", "--out", "quick", "--set", "train.episodes=4", "--set", "test.episodes=4", "--device", "wgpu")


def sweep(place):
    place.call("sweep", "grid.toml", "--out", "swept", "--set", "train.episodes=2", "--device", "wgpu")


def reproduce(place):
    sets = [word for key in SMALL for word in ("--set", key)]
    place.call("reproduce", "table4", "--only", "cub-1shot-tau1", "--budget", "2", "--out", "paper", *sets, "--device", "wgpu")


def doctor(place):
    line = next(line for line in place.call("doctor").stdout.splitlines() if line.strip().startswith("wgpu"))
    print(f"    {line.strip()}")
    check("ready" in line, line)


def refusals(place):
    none = dict(place.env, VK_DRIVER_FILES="/nonexistent.json", LIBGL_DRIVERS_PATH="/nonexistent", __EGL_VENDOR_LIBRARY_FILENAMES="/nonexistent")
    place.refused("cannot be used here", "train", "glyphs.toml", "--out", "no", "--device", "wgpu", env=none)
    place.refused("precision", "train", "glyphs.toml", "--out", "no", "--device", "wgpu", "--precision", "bf16")
    place.refused("cuda", "train", "glyphs.toml", "--out", "no", "--device", "cuda")
    place.refused("unknown device", "test", "cpu", "--device", "gpu")


CHECKS = [doctor, train, resume, test, calibrate, compare, methods, bench, plan, export, embed, adapt_and_predict, trust, serve, quickstart, sweep,
          reproduce, refusals]


def images(place):
    """Three kinds of drawings as files, each a little different."""
    side = 40
    for kind, ink in [("ring", lambda x, y: 8 < math.hypot(x, y) < 12), ("cross", lambda x, y: min(abs(x), abs(y)) < 2),
                      ("bars", lambda x, y: x % 10 < 4)]:
        (place.folder / "images" / kind).mkdir(parents=True)
        for i in range(4):
            rows = b"".join(b"\0" + bytes(0 if ink(x - 18 - i, y - 21 + i) else 255 for x in range(side)) for y in range(side))
            chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
            head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
            png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
            (place.folder / "images" / kind / f"{i}.png").write_bytes(png)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--siskin", default="target/release/siskin", help="the program, built with --features wgpu")
    parser.add_argument("--tests", action="store_true", help="run the Rust test of networks first")
    parser.add_argument("--only", default="", help="checks whose name contains this")
    args = parser.parse_args()
    siskin = pathlib.Path(args.siskin).resolve()
    driver = os.environ.get("VK_DRIVER_FILES") or next(iter(glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json")), None)
    if not siskin.exists() or not driver:
        sys.exit(f"{siskin} or the driver is not there: see the head of this file")
    passed = failed = 0
    if args.tests:
        env = dict(os.environ, DISABLE_WGPU_SPIRV="1", VK_DRIVER_FILES=driver)
        done = subprocess.run(["cargo", "test", "--release", "--workspace", "--features", "wgpu", "--test", "gpu", "--", "--nocapture"], env=env)
        passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
    with tempfile.TemporaryDirectory(prefix="siskin-gpu-") as folder:
        place = Place(str(siskin), folder, driver)
        images(place)
        for one in CHECKS:
            if args.only not in one.__name__:
                continue
            begun = time.time()
            try:
                print(f"{one.__name__}:", flush=True)
                one(place)
                passed += 1
                print(f"  passed in {time.time() - begun:.0f} s", flush=True)
            except Failed as why:
                failed += 1
                print(f"  FAILED: {why}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
