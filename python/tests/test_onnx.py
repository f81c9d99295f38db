"""Added ONNX networks in Python, by rten and by ONNX Runtime."""

import os
import subprocess
import sys

import numpy as np

from test_few_shot import program


def varint(value):
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number, value):
    return varint(number << 3) + varint(value)


def port(name, shape):
    sides = b"".join(field(1, whole(1, side)) for side in shape)
    return field(1, name) + field(2, field(1, whole(1, 1) + field(2, sides)))


def node(op, inputs, output, lists=()):
    attributes = (field(1, name) + b"".join(whole(8, v) for v in values) + whole(20, 7) for name, values in lists)
    return b"".join(field(1, i) for i in inputs) + field(2, output) + field(3, output) + field(4, op) + b"".join(field(5, a) for a in attributes)


def network():
    """A convolution, ReLU, the mean over the image: protobuf by hand, so that no other package is needed."""
    weights = np.random.default_rng(1).normal(size=(8, 3, 3, 3)).astype("float32")
    constant = b"".join(whole(1, side) for side in weights.shape) + whole(2, 1) + field(8, b"w") + field(9, weights.tobytes())
    nodes = [
        node(b"Conv", [b"x", b"w"], b"c", [(b"dilations", [1, 1]), (b"pads", [1] * 4), (b"strides", [2, 2])]),
        node(b"Relu", [b"c"], b"r"),
        node(b"GlobalAveragePool", [b"r"], b"p"),
        node(b"Flatten", [b"p"], b"features"),
    ]
    graph = b"".join(field(1, n) for n in nodes) + field(2, b"tiny") + field(5, constant)
    graph += field(11, port(b"x", [1, 3, 16, 16])) + field(12, port(b"features", [1, 8]))
    return whole(1, 8) + field(8, whole(2, 17)) + field(7, graph)


SCRIPT = """
import numpy as np, pysiskin
from pysiskin import FewShotClassifier, _native
images = list(np.random.default_rng(0).integers(0, 256, (6, 20, 24, 3), dtype="uint8"))
assert _native.onnx_engine() == "rten"
labels = ["a", "b", "c"] * 2
first = FewShotClassifier("tiny").fit(images, labels)
inside = first.embed(images)
others = list(np.random.default_rng(5).integers(0, 256, (12, 20, 24, 3), dtype="uint8"))
before = first.predict_proba(others)
assert (first.add_others(others).predict_proba(others) == before).all()
library = pysiskin.use_onnxruntime()
assert _native.onnx_engine() == "ONNX Runtime" and "onnxruntime" in library
model = FewShotClassifier("tiny").fit(images, labels)
other = model.embed(images)
assert inside.shape == (6, 8) and np.abs(inside - other).max() < 1e-5, (inside, other)
assert np.abs(model.predict_proba(images) - first.predict_proba(images)).max() < 1e-3
print("both")
"""


def test_an_added_network_is_run_by_rten_and_by_onnx_runtime(tmp_path):
    (tmp_path / "tiny.onnx").write_bytes(network())
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DYLIB_PATH"} | {"SISKIN_CACHE": str(tmp_path / "cache")}
    run = lambda *args: subprocess.run(args, cwd=tmp_path, env=environment, capture_output=True, text=True)
    added = run(program(), "model", "add", "tiny.onnx", "--name", "tiny")
    assert added.returncode == 0, added.stderr
    found = run(sys.executable, "-c", SCRIPT)
    assert found.stdout.strip() == "both", found.stderr
    # A library that is none is a sentence.
    environment["ORT_DYLIB_PATH"] = str(tmp_path / "none.so")
    refused = run(sys.executable, "-c", "from pysiskin import FewShotClassifier; FewShotClassifier('tiny').card")
    assert "ORT_DYLIB_PATH" in refused.stderr and "1.23 or later" in refused.stderr, refused.stderr
