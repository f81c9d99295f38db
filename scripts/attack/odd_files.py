"""Odd files and folders for the command line: archives that unfold, links, pipes, names, numbers that are none, deep configs. Each ends
soon, within bounded memory, with an answer or a sentence."""

import io
import os
import resource
import struct
import subprocess
import tarfile
import tempfile
import zipfile

from common import Attack, png
from files import drawings

# Seconds of CPU time, and bytes of address space.
SECONDS, MEMORY = 30, 4 << 30


def bound():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def tried(attack, name, binary, args, folder, stdin=b""):
    """Ends by itself, with 0 or a sentence; never by a signal, a panic or for want of memory."""
    environment = dict(os.environ, SISKIN_CACHE=os.path.join(folder, "cache"))
    try:
        done = subprocess.run([binary, *args], cwd=folder, env=environment, capture_output=True, timeout=120, input=stdin, preexec_fn=bound)
    except subprocess.TimeoutExpired:
        attack.check(False, (name, "does not end"))
        return
    good = done.returncode in (0, 1, 2) and b"panicked" not in done.stderr and b"memory allocation" not in done.stderr
    good = good and (done.returncode == 0 or done.stderr.strip()) and b"\x1b" not in done.stdout + done.stderr
    attack.check(good, (name, done.returncode, done.stderr[-200:]))


def written(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data)


def archives(binary):
    """Archives that unfold, lie about their sizes, or name other places."""
    attack = Attack("strange archives")
    with tempfile.TemporaryDirectory() as folder:
        zeros, image = bytes(256 << 20), png(seed=1)

        def zipped(name, *entries):
            with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as out:
                for entry, data in entries:
                    out.writestr(entry, data)

        def tarred(name, *entries):
            with tarfile.open(os.path.join(folder, name), "w:gz") as out:
                for entry, kind, link, data in entries:
                    info = tarfile.TarInfo(entry)
                    info.type, info.linkname, info.size = kind, link, len(data)
                    out.addfile(info, io.BytesIO(data))

        plain = [(f"{c}/{i}.png", png(seed=i)) for c in "ab" for i in range(2)]
        zipped("bomb.zip", *plain, ("a/bomb.png", zeros))
        zipped("climb.zip", *plain, ("../../climbed.png", image), ("/tmp/climbed.png", image), ("a/../../climbed.png", image), ("a\\..\\c.png", image))
        zipped("twice.zip", *plain, *plain)
        zipped("names.zip", *plain, ("a/\x1b[2J.png", image), ("a/" + "n" * 60_000 + ".png", image), ("a/\n.png", image), ("\u202e/x.png", image), ("/".join("d" * 2000) + "/1.png", image))
        zipped("many.zip", *plain, *((f"a/{i}.txt", b"") for i in range(60_000)))
        whole = open(os.path.join(folder, "twice.zip"), "rb").read()
        written(folder, "lies.zip", whole.replace(struct.pack("<I", len(plain[0][1])), b"\xff\xff\xff\x7f"))
        written(folder, "offset.zip", whole[:-6] + b"\xff\xff\xff\xff" + whole[-2:])
        written(folder, "comment.zip", whole[:-2] + b"\xff\xff" + bytes(65535))
        files = [(name, tarfile.REGTYPE, "", data) for name, data in plain]
        tarred("bomb.tar.gz", *files, ("a/bomb.png", tarfile.REGTYPE, "", zeros))
        tarred("links.tar.gz", *files, ("a/link.png", tarfile.SYMTYPE, "/etc/passwd", b""), ("a/hard.png", tarfile.LNKTYPE, "../../x", b""),
               ("a/pipe.png", tarfile.FIFOTYPE, "", b""), ("a/device.png", tarfile.CHRTYPE, "", b""), ("../climbed.png", tarfile.REGTYPE, "", image))
        tarred("empty.tar.gz")
        import gzip
        header = bytearray(tarfile.TarInfo("a/huge.png").tobuf())
        header[124:136] = b"77777777777\0"
        header[148:156] = b"        "
        header[148:156] = b"%06o\0 " % sum(header)
        written(folder, "lies.tar.gz", gzip.compress(bytes(header) + bytes(2048)))
        for name in sorted(os.listdir(folder)):
            if name.endswith((".zip", ".gz")):
                tried(attack, name, binary, ["adapt", name, "--out", "t.task"], folder)
                tried(attack, name, binary, ["data", "preview", "--data", name, "--split", "all", "--out", "s.png"], folder)
        attack.check(not os.path.exists("/tmp/climbed.png") and not os.path.exists(os.path.join(folder, "..", "climbed.png")), "written elsewhere")
    return attack


def folders(binary):
    """Links in circles, pipes among images, names that a terminal would obey, and paths from standard input without end."""
    attack = Attack("strange folders and paths")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        at = lambda *names: os.path.join(folder, *names)
        tried(attack, "a task", binary, ["adapt", "data", "--out", "t.task"], folder)
        os.symlink("..", at("data", "class 0", "up"))
        os.symlink("circle", at("data", "class 0", "circle"))
        os.symlink("/etc/passwd", at("data", "class 0", "link.png"))
        os.symlink("/nowhere", at("data", "class 0", "gone.png"))
        os.symlink("/dev/zero", at("data", "class 0", "zero.png"))
        os.mkfifo(at("data", "class 0", "pipe.png"))
        os.mkfifo(at("pipe.png"))
        written(folder, "data/class 1/\x1b[2J\n\u202e.png", png(seed=3))
        written(os.fsencode(folder).decode("latin-1"), "data/class 1/latin.png", b"text")
        with open(os.path.join(os.fsencode(folder), b"data/class 1/\xff\xfe.png"), "wb") as out:
            out.write(png(seed=4))
        deep = folder + "/data/class 2" + "/d" * 300
        os.makedirs(deep)
        written(deep, "1.png", png(seed=5))
        for args in (["adapt", "data", "--out", "u.task"], ["adapt", "data", "--on-bad-image", "skip", "--out", "u.task"], ["data", "preview", "--data", "data", "--split", "all", "--out", "s.png"],
                     ["predict", "t.task", "data"], ["predict", "t.task", "pipe.png"], ["predict", "t.task", "/dev/zero"], ["predict", "t.task", "/dev/stdin"], ["predict", "t.task", "/proc/self/mem"],
                     ["predict", "t.task", "data/class 0/circle"], ["predict", "t.task", ""], ["predict", "t.task", "n" * 100_000], ["adapt", "pipe.png"], ["adapt", "/dev/zero"],
                     ["adapt", "/dev/null"], ["train", "/dev/zero"], ["train", "pipe.png"], ["test", "pipe.png"], ["data", "import", "pipe.png"], ["export", "/dev/zero", "--out", "x"]):
            tried(attack, args, binary, args, folder)
        tried(attack, "a path of 300 MB", binary, ["predict", "t.task", "-"], folder, bytes(300 << 20))
        tried(attack, "paths that are none", binary, ["predict", "t.task", "-"], folder, b"\0\n\xff\n\xff\xfe/\n" * 20)
    return attack


def vectors(binary):
    """Numbers that are none, and headers that claim much."""
    attack = Attack("strange vectors and configs")
    import random
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        def npy(header, data=b"", version=1):
            text = header.encode()
            text += b" " * (-(len(text) + 11) % 64) + b"\n"
            return b"\x93NUMPY" + bytes([version, 0]) + (struct.pack("<H", len(text)) if version == 1 else struct.pack("<I", len(text))) + text + data

        rows = lambda values: npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values) // 2}, 2), }}", struct.pack(f"<{len(values)}f", *values))
        labels = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }", struct.pack("<4q", 0, 1, 0, 1))
        good = [rng.gauss(0, 1) for _ in range(8)]
        shape = lambda text, kind="<f4": npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {text}, }}", bytes(32))
        cases = {
            "good": rows(good), "NaN": rows(good[:7] + [float("nan")]), "infinite": rows([float("inf")] + good[1:]), "large": rows([3e38, -3e38] * 4), "equal": rows([1.0] * 8), "tiny": rows([1e-45] * 8),
            "10^18 rows": shape("(1000000000000000000, 2)"), "beyond numbers": shape("(99999999999999999999999, 2)"), "a product that turns": shape("(4294967296, 4294967296)"), "negative": shape("(-4, 2)"),
            "no rows": shape("(0, 2)"), "no columns": shape("(4, 0)"), "no shape": shape("()"), "seven dimensions": shape("(1, 1, 1, 1, 1, 4, 2)"), "objects": shape("(4, 2)", "|O"), "text": shape("(4, 2)", "<U9"),
            "big end": shape("(4, 2)", ">f4"), "complex": shape("(2, 2)", "<c8"), "a header that ends early": b"\x93NUMPY\1\0\xff\xff{", "a header of 4 GB": b"\x93NUMPY\2\0\xff\xff\xff\xff{", "deep": npy("{" * 60_000),
            "a program": npy("__import__('os').system('true')"), "version 9": b"\x93NUMPY\x09\0" + bytes(64),
        }
        for name, data in cases.items():
            written(folder, f"{name}/features.npy", data)
            written(folder, f"{name}/labels.npy", labels)
            tried(attack, name, binary, ["adapt", f"{name}/features.npy", "--out", "v.task"], folder)
        for name, data in {"labels NaN": rows(good), "labels negative": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }", struct.pack("<4q", -1, 1, -1, 1)),
                           "labels of 2^63": npy("{'descr': '<u8', 'fortran_order': False, 'shape': (4,), }", struct.pack("<4Q", 2**64 - 1, 0, 2**64 - 1, 0)), "labels short": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", bytes(24))}.items():
            written(folder, f"{name}/features.npy", rows(good))
            written(folder, f"{name}/labels.npy", data)
            tried(attack, name, binary, ["adapt", f"{name}/features.npy", "--out", "v.task"], folder)
        headers = {"2^63": struct.pack("<Q", 2**63) + b"{}", "deep": b"[" * 100_000, "nothing": b"", "much": b'{"features":{"dtype":"F32","shape":[1000000000,1000000000],"data_offsets":[0,8]}}',
                   "overlap": b'{"features":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"labels":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}'}
        for name, text in headers.items():
            data = text if name == "2^63" else struct.pack("<Q", len(text)) + text + bytes(16)
            written(folder, f"{name}.safetensors", data)
            tried(attack, name, binary, ["adapt", f"{name}.safetensors", "--out", "v.task"], folder)
        tomls = {"deep arrays": "a = " + "[" * 50_000, "deep tables": "[" + ".".join("a" * 20_000) + "]\nb = 1", "deep keys": ".".join("a" * 20_000) + " = 1", "deep inline": "a = " + "{a = " * 20_000, "long": "seed = " + "9" * 1_000_000,
                 "infinite": "[train]\nlearning_rate = inf", "NaN": "[train]\nlearning_rate = nan", "negative": "[train]\nlearning_rate = -1e308", "1e400": "[train]\nlearning_rate = 1e400", "way": "[episode]\nway = 1000000000",
                 "image": "[data]\nimage_size = 4000000000", "episodes": "[train]\nepisodes = 99999999999999999999", "twice": "seed = 1\nseed = 2", "zero": "seed = 1\0", "escape": "\"\\u001b[2J\" = 1", "batch": "[train]\ntasks_per_step = 1000000000"}
        for name, text in tomls.items():
            written(folder, f"{name}.toml", text.encode())
            tried(attack, name, binary, ["train", f"{name}.toml", "--out", f"run {name}", "--set", "train.validate_episodes=1"], folder)
    return attack


ALL = [archives, folders, vectors]
