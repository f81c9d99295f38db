"""The folder that the commands work in: a config, a table of settings, and drawings."""

import math
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import checks
from checks import ROOT, check, run_all

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


def near(a, b, tolerance, what):
    check(math.isfinite(a) and abs(a - b) <= tolerance, f"{what}: {a} on the GPU, {b} on the CPU")


class Place(checks.Place):
    def __init__(self, siskin, folder, driver):
        # Without SPIR-V the shaders are WGSL, which every driver takes.
        super().__init__(siskin, folder, DISABLE_WGPU_SPIRV="1", VK_DRIVER_FILES=driver)
        (self.folder / "glyphs.toml").write_text(CONFIG)
        (self.folder / "grid.toml").write_text(TABLE)
        draw(self.folder / "images")

    def both(self, *words):
        """What a command says on the GPU and on the CPU."""
        return [self.call(*words, "--device", device).stdout for device in ("wgpu", "cpu")]

    def refused(self, says, *words, env=None):
        done = self.call(*words, env=env, ok=False)
        check(says in done.stderr, f"siskin {' '.join(words)} says: {done.stderr}")
        print("    " + done.stderr.strip().splitlines()[-1])


def draw(folder):
    """Three kinds of drawings as files, each a little different."""
    side = 40
    for kind, ink in [("ring", lambda x, y: 8 < math.hypot(x, y) < 12), ("cross", lambda x, y: min(abs(x), abs(y)) < 2),
                      ("bars", lambda x, y: x % 10 < 4)]:
        (folder / kind).mkdir(parents=True)
        for i in range(4):
            rows = b"".join(b"\0" + bytes(0 if ink(x - 18 - i, y - 21 + i) else 255 for x in range(side)) for y in range(side))
            chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
            head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
            png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
            (folder / kind / f"{i}.png").write_bytes(png)
