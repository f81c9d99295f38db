"""What is said of a training before it starts and while it runs, against the training itself."""

import os
import re
import subprocess

from place import check

# Two sizes of images, and many episodes of a large network in a step. Long enough that drawing the characters (half a second and
# 22 MiB in every command) is a small part.
CASES = {
    "28 px, conv4s": ["train.episodes=200", "episode.way=5", "episode.query=15"],
    "84 px, conv4": ["train.episodes=24", "data.image_size=84", "backbone.name=conv4", "episode.way=5", "episode.query=15"],
    "84 px, resnet12, 8 episodes a step": ["train.episodes=8", "train.episodes_per_step=8", "data.image_size=84", "backbone.name=resnet12",
                                           "test.episodes=4"],
}
COMMON = ["train.validate_every=0", "test.episodes=20"]
WITHIN = 2.0
# The paper's number of episodes; far too long to be run here.
WHOLE = ["train.episodes=60000", *CASES["84 px, conv4"][1:], "test.episodes=600"]


def plan(place):
    for name, keys in CASES.items():
        words = [word for key in [*COMMON, *keys] for word in ("--set", key)]
        said = place.call("--threads", "1", "train", "glyphs.toml", "--plan", *words).stdout
        cpu = seconds(re.search(r"In all .*CPU time ([^;]*);", said)[1])
        memory = float(re.search(r"Memory: about (\d+) MiB", said)[1])
        out = f"plan-{len(name)}"
        real_cpu, real_memory = used(place, "--threads", "1", "train", "glyphs.toml", "--out", out, *words)
        test_cpu, test_memory = used(place, "--threads", "1", "calibrate", out)
        real_cpu, real_memory = real_cpu + test_cpu, max(real_memory, test_memory)
        print(f"  {name}: CPU time {cpu:.0f} s predicted, {real_cpu:.0f} s taken; memory {memory:.0f} MiB predicted, {real_memory:.0f} MiB taken")
        check(1 / WITHIN < (cpu + 1) / (real_cpu + 1) < WITHIN, "the time is wrong")
        check(1 / WITHIN < memory / real_memory < WITHIN, "the memory is wrong")
    words = [word for key in WHOLE for word in ("--set", key)]
    place.say("$ siskin --threads 1 train --plan, 60,000 episodes of 84 px\n" + place.call("--threads", "1", "train", "glyphs.toml", "--plan", *words).stdout)


def seconds(text):
    unit = {"h": 3600, "min": 60, "s": 1}
    words = text.split()
    return sum(float(n) * unit[of] for n, of in zip(words[::2], words[1::2]))


def used(place, *words):
    """CPU seconds and the most memory of a command, in MiB."""
    process = subprocess.Popen([place.siskin, *words], cwd=place.folder, env=place.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    check(status == 0, f"{words} ended with {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def watch(place):
    """A run is watched while it trains, and when it is done."""
    training = subprocess.Popen([place.siskin, "train", "glyphs.toml", "--out", "watched"], cwd=place.folder, env=place.env,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (place.folder / "watched" / "config.toml").exists():
        check(training.poll() is None, "the training ended")
    lines = place.call("watch", "watched", "--every", "0.2").stdout.splitlines()
    check(training.wait() == 0 and len(lines) > 2 and lines[-1].endswith(", trained"), f"{lines}")
    shown = [lines[0], lines[len(lines) // 2], lines[-1]]
    place.say("\n".join(["$ siskin watch runs/glyphs", *shown, "$ siskin watch runs/glyphs --once", place.call("watch", "watched", "--once").stdout]))
