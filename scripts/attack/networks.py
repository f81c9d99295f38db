"""ONNX files that loop, ask for much or lie: each is refused with a sentence, within bounds of memory and time."""

import os
import struct
import tempfile
import time

from common import Attack
from files import drawings, run


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """A field of a protocol buffer: a number, text, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, kind, dims, data, *more):
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name) + field(9, data) + b"".join(more)


def wholes(name, *values):
    return tensor(name, 7, [len(values)], struct.pack(f"<{len(values)}q", *values))


def scalar(name, value):
    return tensor(name, 7, [], struct.pack("<q", value))


def value(name, dims, kind=1):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def node(op, inputs, outputs, *attributes):
    return b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(4, op) + b"".join(field(5, a) for a in attributes)


def attribute(name, kind, content):
    return field(1, name) + content + field(20, kind)


def graph(nodes, initializers, inputs, outputs):
    parts = [field(1, n) for n in nodes] + [field(2, "g")] + [field(5, t) for t in initializers]
    return b"".join(parts + [field(11, v) for v in inputs] + [field(12, v) for v in outputs])


def model(nodes, initializers=(), out=("y", [1, 3])):
    whole = graph(nodes, initializers, [value("x", ["n", 3, 16, 16])], [value(*out)])
    return field(1, 8) + field(7, whole) + field(8, field(2, 17))


MEAN = [node("ReduceMean", ["x"], ["y"], attribute("axes", 7, field(8, 2) + field(8, 3)), attribute("keepdims", 2, field(3, 0)))]


def loop(count, start, *before):
    """Doubles a value again and again."""
    body = graph([node("Identity", ["go"], ["on"]), node("Add", ["v", "v"], ["w"])], [],
                 [value("i", [], 7), value("go", [], 9), value("v", ["n", 3])], [value("on", [], 9), value("w", ["n", 3])])
    return [*before, node("Loop", [count, "yes", start], ["y"], attribute("body", 5, field(6, body)))]


def hostile():
    yes = tensor("yes", 9, [], b"\1")
    means = node("ReduceMean", ["x"], ["m"], attribute("axes", 7, field(8, 2) + field(8, 3)), attribute("keepdims", 2, field(3, 0)))
    shape = lambda op, *dims: model([node(op, ["s"], ["z"]) if op == "ConstantOfShape" else node(op, ["x", "s"], ["z"]),
                                     node("ReduceMean", ["z"], ["y"], attribute("keepdims", 2, field(3, 0)))], [wholes("s", *dims)])
    deep = field(1, node("Identity", ["x"], ["y"]))
    for _ in range(2_000):
        deep = field(1, node("If", ["c"], ["y"], attribute("then_branch", 5, field(6, deep)))[:])
    cases = {
        "a loop without end": model(loop("count", "m", means), [scalar("count", 2**62), yes]),
        "a loop on what it sees": model(loop("count", "m", means, node("ReduceMax", ["x"], ["top"], attribute("keepdims", 2, field(3, 0))),
                                             node("Cast", ["top"], ["count"], attribute("to", 2, field(3, 7)))), [yes]),
        "products without end": model([node("ConstantOfShape", ["s"], ["p0"])] + [node("MatMul", [f"p{i}", f"p{i}"], [f"p{i + 1}"]) for i in range(3_000)]
                                      + [node("ReduceMean", ["p3000"], ["p"]), node("Add", ["m", "p"], ["y"]), means], [wholes("s", 4_000, 4_000)]),
        "a terabyte of zeros": shape("ConstantOfShape", 1, 1_000_000, 1_000, 1_000), "no shape there is": shape("ConstantOfShape", -1, 2**62, 2**62),
        "an image 2^60 wide": shape("Expand", 1, 3, 16, 2**60), "tiles": shape("Tile", 2**20, 2**20, 2**20, 2**20),
        "a range without end": model([node("Range", ["a", "b", "c"], ["z"]), node("ReduceMean", ["x"], ["y"])], [scalar("a", 0), scalar("b", 2**62), scalar("c", 1)]),
        "a range that stands still": model([node("Range", ["a", "b", "c"], ["z"]), node("Cast", ["z"], ["y"], attribute("to", 2, field(3, 1)))],
                                           [scalar("a", 0), scalar("b", 9), scalar("c", 0)]),
        "a node that waits for itself": model([node("Add", ["x", "y"], ["y"])]), "two that wait for each other": model([node("Add", ["x", "b"], ["a"]), node("Add", ["x", "a"], ["b"]), node("Identity", ["a"], ["y"])]),
        "weights elsewhere": model([node("Add", ["x", "w"], ["y"])],
                                   [tensor("w", 1, [1], b"", field(13, field(1, "location") + field(2, "/etc/passwd")), field(14, 1))]),
        "weights of 2^40": model([node("Add", ["x", "w"], ["y"])], [tensor("w", 1, [2**40], b"\0\0\0\0")]),
        "weights of -1": model([node("Add", ["x", "w"], ["y"])], [tensor("w", 1, [-1, -1], b"\0\0\0\0")]),
        "100,000 nodes": model([node("Identity", ["x"], ["a0"])] + [node("Identity", [f"a{i}"], [f"a{i + 1}"]) for i in range(100_000)] + [node("Identity", ["a100000"], ["y"])]),
        "branches 2,000 deep": field(1, 8) + field(7, deep) + field(8, field(2, 17)), "a field of 2^60": b"\x3a" + varint(2**60), "an operator that nobody knows": model([node("Launch", ["x"], ["y"])]),
        "a name that a terminal obeys": model([node("Identity", ["x"], ["\x1b[2J"])], out=("\x1b[2J", [1, 3])), "not a number": model([node("Log", ["n"], ["z"]), *[node("Add", ["z", "m"], ["y"])], means],
                                                                                                                           [tensor("n", 1, [1], struct.pack("<f", -1.0))]),
    }
    return cases


def networks(binary):
    """Each is added, or rather not."""
    attack = Attack("hostile networks")
    with tempfile.TemporaryDirectory() as folder:
        drawings(folder)
        slowest = 0.0, ""
        for i, (name, data) in enumerate({**hostile(), "good": model(MEAN)}.items()):
            with open(os.path.join(folder, "n.onnx"), "wb") as out:
                out.write(data)
            start = time.monotonic()
            done = run(binary, ["model", "add", "n.onnx", "--name", f"n{i}"], folder, timeout=400)
            slowest = max(slowest, (time.monotonic() - start, name))
            said = done.stderr.strip()
            good = name in ("good", "a name that a terminal obeys")
            attack.check(done.returncode == (0 if good else 1) and (good or said.startswith(b"error: ")) and b"panicked" not in said
                         and b"\x1b" not in said + done.stdout, (name, done.returncode, said[-300:]))
        attack.note(f"slowest: {slowest[1]}, {slowest[0]:.0f} s")
    return attack


ALL = [networks]
