"""CPU time per image of `siskin embed` beside ONNX Runtime, one thread each, in one run.

    python scripts/photos/speed.py SISKIN NAME FILE.onnx FOLDER

SISKIN is the program, NAME the model that FILE.onnx was added under, FOLDER holds at least 60 images. Times of siskin, by rten and by ONNX Runtime,
are with reading, decoding and resizing; those of ONNX Runtime itself are of the network alone. Needs numpy and onnxruntime.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

FEW, MANY = 20, 60


def siskin_seconds(program, name, images, out, library):
    """CPU seconds of one call; `library`: that of ONNX Runtime, or nothing for rten."""
    before = os.times()
    command = [program, "--threads", "1", "embed", name, *map(str, images), "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "ORT_DYLIB_PATH": library})
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main():
    program, name, onnx, folder = sys.argv[1:5]
    images = sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file())[:MANY]
    scratch = pathlib.Path(tempfile.mkdtemp())
    cache = pathlib.Path(os.environ.get("SISKIN_CACHE") or pathlib.Path.home() / ".cache" / "siskin")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [d if isinstance(d, int) else n for d, n in zip(given.shape, (1, 3, 224, 224))]
    x = np.random.default_rng(0).normal(size=[1, *shape[1:]]).astype("float32")
    library = next(pathlib.Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so*"))
    ours, theirs = {"rten": [], "ONNX Runtime": []}, []
    for _ in range(3):
        for engine, times in ours.items():
            # Nothing may come from the cache.
            path = str(library) if engine == "ONNX Runtime" else ""
            shutil.rmtree(cache / "features", ignore_errors=True)
            few = siskin_seconds(program, name, images[:FEW], scratch / "few.npy", path)
            shutil.rmtree(cache / "features", ignore_errors=True)
            many = siskin_seconds(program, name, images, scratch / "many.npy", path)
            times.append((many - few) / (MANY - FEW))
        session.run(None, {given.name: x})
        start = time.process_time()
        for _ in range(MANY):
            session.run(None, {given.name: x})
        theirs.append((time.process_time() - start) / MANY)
    for engine, times in ours.items():
        print(f"siskin embed by {engine:14} {1e3 * min(times):6.1f} ms of CPU per image (best of 3)")
    print(f"ONNX Runtime {onnxruntime.__version__}, network alone {1e3 * min(theirs):6.1f} ms of CPU per image (best of 3)")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
