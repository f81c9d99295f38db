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


ADD = """
import numpy as np, pysiskin, pytest
found = pysiskin.add_model("tiny.onnx", "mine", preset="siglip", mean=[0.5, 0.5, 0.5])
assert found["spec"]["dim"] == 8 and found["outputs"] == ["`features` [1, 8]"] and found["scores"] is None, found
for wrong, says in [
    ({"file": "tiny.onnx", "name": "mine"}, "one of this name already"),
    ({"file": "tiny.onnx", "name": "../up"}, "a name has"),
    ({"file": "none.onnx", "name": "other"}, "none.onnx"),
    ({"file": "text.onnx", "name": "other"}, "no ONNX network"),
    ({"file": "tiny.onnx", "name": "other", "mean": [127, 127, 127]}, "divide mean and standard deviation by 255"),
]:
    with pytest.raises(ValueError, match=says):
        pysiskin.add_model(**wrong)
images = list(np.random.default_rng(0).integers(0, 256, (7, 20, 24, 3), dtype="uint8"))
model = pysiskin.FewShotClassifier("mine").fit(images[:6], [7, 8, 9] * 2)
places, scores = model.suggest(images, 3)
assert len(set(places.tolist())) == 3 and (np.diff(scores) <= 0).all() and scores.min() >= 0
assert "sentence" in model.stopping_advice()
with pytest.raises(ValueError, match="whole number"):
    model.suggest(images, 0)
same = pysiskin.FewShotClassifier("mine").fit(images[:3] + images[4:6], [7, 8, 9, 8, 9])
assert np.allclose(model.remove_example(3).predict_proba(images), same.predict_proba(images))
assert model.remove_example("image 0").classes_.tolist() == [8, 9], "the last example takes its class along"
with pytest.raises(ValueError, match="0 examples are called"):
    model.remove_example("image 0")
print("added")
"""


def test_a_network_is_added_from_python(tmp_path):
    (tmp_path / "tiny.onnx").write_bytes(network())
    (tmp_path / "text.onnx").write_text("no network")
    environment = os.environ | {"SISKIN_CACHE": str(tmp_path / "cache")}
    found = subprocess.run([sys.executable, "-c", ADD], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.stdout.strip() == "added", found.stderr
