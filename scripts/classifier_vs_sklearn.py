#!/usr/bin/env python3
"""GpClassifier beside scikit-learn's GaussianProcessClassifier on the digits, one after the other, one thread each.

    python scripts/classifier_vs_sklearn.py [--train 500] [--seed 0]

Needs scikit-learn. Both get the same 500 training points (stratified) and inputs standardised by the training
points. scikit-learn learns output scale and lengthscale of an RBF on all of them, for each class against the rest. siskin learns
lengthscale, temperature (which stands for the output scale) and spread, shared by the classes, on posteriors of half of them; its
last posterior uses all. Prints log-loss, accuracy, seconds of CPU time to fit, and the ratio.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from sklearn.datasets import load_digits  # noqa: E402
from sklearn.gaussian_process import GaussianProcessClassifier  # noqa: E402
from sklearn.gaussian_process.kernels import RBF  # noqa: E402
from sklearn.metrics import log_loss  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


def child_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def siskin(x_train, x_test, y_train, y_test):
    build = ["cargo", "build", "--release", "--workspace", "--example", "digits", "--message-format=json"]
    out = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    binary = [m["executable"] for m in map(json.loads, out.splitlines()) if m.get("executable")][-1]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "digits.csv"
        with open(path, "w") as file:
            for split, x, y in (("train", x_train, y_train), ("test", x_test, y_test)):
                for row, label in zip(x, y):
                    file.write(f"{split},{label}," + ",".join(map(repr, map(float, row))) + "\n")
        line = subprocess.run([binary, str(path)], check=True, capture_output=True, text=True).stdout
        before = child_cpu()
        subprocess.run([binary, str(path), "fit-only"], check=True, capture_output=True)
        # One thread; reading the file is counted too.
        return json.loads(line), child_cpu() - before


def sklearn(x_train, x_test, y_train, y_test):
    started, cpu = time.perf_counter(), time.process_time()
    model = GaussianProcessClassifier(1.0 * RBF(1.0), random_state=0).fit(x_train, y_train)
    fit_cpu, fit_seconds = time.process_time() - cpu, time.perf_counter() - started
    probs = model.predict_proba(x_test)
    result = {"log_loss": log_loss(y_test, probs), "accuracy": float((probs.argmax(1) == y_test).mean())}
    return result | {"fit_seconds": fit_seconds}, fit_cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    x, y = load_digits(return_X_y=True)
    parts = train_test_split(x, y, train_size=options.train, stratify=y, random_state=options.seed)
    x_train, x_test, y_train, y_test = parts
    mean, scale = x_train.mean(0), x_train.std(0)
    scale[scale == 0] = 1.0
    data = ((x_train - mean) / scale, (x_test - mean) / scale, y_train, y_test)
    ours, our_cpu = siskin(*data)
    theirs, their_cpu = sklearn(*data)
    print(f"{'':12}{'log-loss':>10}{'accuracy':>10}{'fit, s':>10}{'CPU, s':>10}")
    for name, result, cpu in (("siskin", ours, our_cpu), ("scikit-learn", theirs, their_cpu)):
        print(f"{name:12}{result['log_loss']:10.4f}{result['accuracy']:10.4f}{result['fit_seconds']:10.2f}{cpu:10.2f}")
    print(f"CPU time to fit, scikit-learn / siskin: {their_cpu / our_cpu:.1f}")
    print("siskin:", json.dumps(ours))


if __name__ == "__main__":
    main()
