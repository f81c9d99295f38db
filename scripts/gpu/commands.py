"""Every command that takes a network, on the GPU and where it can be compared on the CPU."""

import array
import json
import re
import shutil
import subprocess
import time
import urllib.request

from place import check, near

SMALL = ["data.train=glyphs", "data.image_size=28", "data.augment=false", "backbone.name=conv4s", "episode.way=2", "episode.query=2",
         "train.validate_episodes=2", "test.groups=1", "test.episodes=3", "test.query=3"]


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
    """A training on the GPU that is stopped and goes on is that which went through, and goes on there alone."""
    training = subprocess.Popen([place.siskin, "train", "glyphs.toml", "--out", "cut", "--device", "wgpu"], cwd=place.folder, env=place.env,
                                text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not (place.folder / "cut" / "last.safetensors").exists():
        check(training.poll() is None, "it ended before its first save")
        time.sleep(0.01)
    training.terminate()
    said = training.communicate()[1]
    check(training.returncode == 143, f"exit code {training.returncode}: {said}")
    place.refused("cannot be changed", "train", "--resume", "cut", "--device", "cpu")
    place.call("train", "--resume", "cut")
    whole, cut = losses(place.folder / "wgpu"), losses(place.folder / "cut")
    apart = max(abs(a / b - 1) for a, b in zip(cut, whole))
    same = [(place.folder / run / "last.safetensors").read_bytes() for run in ("wgpu", "cut")]
    print(f"    stopped and resumed: {'the same bytes' if same[0] == same[1] else 'other bytes'}, losses {apart:.1e} apart")
    check(len(cut) == len(whole) and apart < 1e-2, f"losses {whole} and {cut}")


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
    names = re.findall(r"^([a-z-]+)\s", place.call("methods").stdout, re.MULTILINE)
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
    compared(place, "predict", "cpu.task", "images", "--format", "csv")
    place.call("predict", "wgpu.task", "images", "--device", "wgpu")


def label_sets(place):
    # Rings and crosses have a second label.
    shutil.copytree(place.folder / "images", place.folder / "labels")
    for kind in ("ring", "cross"):
        shutil.copytree(place.folder / "images" / kind, place.folder / "labels" / "thin" / kind)
    place.call("adapt", "labels", "--label-sets", "--out", "sets.task", "--device", "wgpu")
    compared(place, "predict", "sets.task", "images", "--format", "csv")


def suggest(place):
    compared(place, "suggest", "cpu.task", "images", "-n", "12", "--by", "variance", "--format", "jsonl")


def compared(place, *words):
    """The numbers that a command prints on both devices; all else must be the same."""
    number = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
    a, b = place.both(*words)
    check(number.sub("#", a) == number.sub("#", b) and a.strip(), f"on the GPU:\n{a}\non the CPU:\n{b}")
    apart = [abs(float(x) - float(y)) for x, y in zip(number.findall(a), number.findall(b))]
    print(f"    siskin {' '.join(words)}: largest difference of {len(apart)} numbers {max(apart):.1e}")
    check(max(apart) < 1e-3, f"answers differ by {max(apart)}")


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


CHECKS = [doctor, train, resume, test, calibrate, compare, methods, bench, plan, export, embed, adapt_and_predict, label_sets, suggest, trust,
          serve, quickstart, sweep, reproduce, refusals]
