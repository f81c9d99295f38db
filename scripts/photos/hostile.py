"""Damaged and hostile ONNX files against `siskin model add`: each must get one sentence, within bounds on memory and time.

    python scripts/photos/hostile.py SISKIN

Needs numpy and onnx.
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MOST_KB, MOST_CPU_SECONDS = 4_500_000, 70


def model(nodes, weights=(), shape=(1, 3, 16, 16)):
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", ports, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def conv(name, out, **more):
    shape = {"strides": [1, 1], "kernel_shape": [3, 3], "pads": [1] * 4, "dilations": [1, 1], "group": 1}
    return helper.make_node("Conv", [name, "w"], [out], **{**shape, **more})


def declared(*dims):
    """Weights of this shape, without their numbers."""
    tensor = TensorProto()
    tensor.name, tensor.data_type = "w", TensorProto.FLOAT
    tensor.dims.extend(dims)
    return tensor


def outside():
    tensor = declared(8, 3, 3, 3)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../../../etc/hostname"), ("offset", "0"), ("length", "864")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def endless():
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_out"]), helper.make_node("Neg", ["v"], ["v_out"])],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, None)],
        [value("go_out", TensorProto.BOOL, []), value("v_out", TensorProto.FLOAT, None)],
    )
    counts = [numpy_helper.from_array(np.array(2**62), "many"), numpy_helper.from_array(np.array(True), "true")]
    return model([helper.make_node("Loop", ["many", "true", "x"], ["y"], body=body)], counts)


def files():
    w = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype("f4"), "w")
    pooled = [helper.make_node("GlobalAveragePool", ["c"], ["p"]), helper.make_node("Flatten", ["p"], ["y"])]
    good = model([conv("x", "c"), *pooled], [w])
    yield "good", good
    for part in (0, 10, 60, len(good) // 2, len(good) - 3):
        yield f"cut at {part}", good[:part]
    yield "zeros", bytes(1 << 20)
    yield "weights of 2^40 rows", model([conv("x", "y")], [declared(1 << 40, 3, 3, 3)])
    yield "weights of -5 rows", model([conv("x", "y")], [declared(-5, 3, 3, 3)])
    yield "input of 2^30 pixels", model([conv("x", "y")], [w], (1, 3, 1 << 30, 1 << 30))
    yield "weights in another file", model([conv("x", "y")], [outside()])
    doubled = [helper.make_node("Concat", [f"d{i}", f"d{i}"], [f"d{i + 1}"], axis=1) for i in range(60)]
    first, last = helper.make_node("Identity", ["x"], ["d0"]), helper.make_node("Identity", ["d60"], ["y"])
    yield "doubled 60 times", model([first, *doubled, last])
    yield "endless loop", endless()
    cycle = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Add", ["a", "a"], ["b"])]
    yield "cycle", model([*cycle, helper.make_node("Identity", ["b"], ["y"])])
    yield "unknown operator", model([helper.make_node("Frobnicate", ["x"], ["y"])])
    yield "no numbers", model([helper.make_node("Log", ["x"], ["y"])])


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file.onnx"
        for number, (name, bytes_) in enumerate(files()):
            path.write_bytes(bytes_)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.argv[1], "model", "add", str(path), "--name", f"n{number}"]
            environment = {**os.environ, "SISKIN_CACHE": folder}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            lines = done.stderr.strip().splitlines()
            refused = done.returncode == 1 and len(lines) == 1 and lines[0].startswith("error: ")
            right = done.returncode == 0 if name == "good" else refused
            bounded = after.ru_maxrss < MOST_KB and seconds < MOST_CPU_SECONDS
            failed += not (right and bounded)
            print(f"{'ok' if right and bounded else 'FAILED':6} {name}: {seconds:.1f} CPU s; {' '.join(lines)[:150]}")
    print(f"{failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
