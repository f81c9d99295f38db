"""Unequal numbers of examples: does a class with many pull the queries of one with few that looks like it?

    siskin embed lite0 PHOTOS --out photos.npy --unit          # a folder with one folder of photos per class
    python scripts/photos/unequal.py photos.npy --tasks 60

Any vectors will do: X.npy with X_labels.npy beside it. Of eight classes (or as many as there are) the two with the most similar means make a task;
30 rows of each class are used, ten of them to ask about. Prints the shares of queries of the first class named the second, and of the second named the
first. Needs numpy and the command siskin.
"""

import argparse
import json
import os
import subprocess
import tempfile

import numpy as np

COUNTS = [(20, 20), (20, 1), (15, 15), (15, 1), (5, 5), (5, 1), (1, 1)]
ROWS, ASKED, CHOICE = 30, 10, 8


def answers(siskin, folder, support, labels, queries):
    """Names of the classes that a task of these vectors gives to the queries."""
    place = lambda name: os.path.join(folder, name)
    np.save(place("x.npy"), support)
    np.save(place("labels.npy"), labels)
    np.save(place("q.npy"), queries)
    run = lambda *words: subprocess.run([siskin, "--threads", "1", *words], check=True, capture_output=True, text=True).stdout
    run("adapt", place("x.npy"), "--out", place("x.task"))
    lines = run("predict", place("x.task"), place("q.npy"), "--format", "jsonl").splitlines()
    probabilities = [json.loads(line)["probabilities"] for line in lines]
    return np.array([int(max(p, key=p.get)) for p in probabilities])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--siskin", default="siskin")
    options = parser.parse_args()
    x = np.load(options.vectors).astype("f4")
    y = np.load(options.vectors[: -len(".npy")] + "_labels.npy")
    classes = [c for c in np.unique(y) if (y == c).sum() >= ROWS]
    if len(classes) < 2:
        parser.error(f"{options.vectors} has {len(classes)} classes with {ROWS} rows; two are needed")
    wrong, asked = np.zeros((len(COUNTS), 2)), np.zeros(2)
    for task in range(options.tasks):
        rng = np.random.default_rng(task)
        some = rng.choice(classes, min(CHOICE, len(classes)), replace=False)
        means = [x[y == c].mean(0) for c in some]
        means = [m / np.linalg.norm(m) for m in means]
        pairs = [(i, j) for i in range(len(some)) for j in range(i + 1, len(some))]
        pair = max(pairs, key=lambda p: means[p[0]] @ means[p[1]])
        rows = [rng.permutation(np.flatnonzero(y == some[k]))[:ROWS] for k in rng.permutation(pair)]
        queries = np.concatenate([rows[0][-ASKED:], rows[1][-ASKED:]])
        asked += ASKED
        with tempfile.TemporaryDirectory() as folder:
            for k, (first, second) in enumerate(COUNTS):
                support = np.concatenate([rows[0][:first], rows[1][:second]])
                labels = np.repeat([0, 1], [first, second])
                named = answers(options.siskin, folder, x[support], labels, x[queries])
                wrong[k] += [(named[:ASKED] == 1).sum(), (named[ASKED:] == 0).sum()]
    print("| examples | first named second | second named first |\n| --- | --- | --- |")
    for (first, second), share in zip(COUNTS, 100 * wrong / asked):
        print(f"| {first} : {second} | {share[0]:.1f} % | {share[1]:.1f} % |")


if __name__ == "__main__":
    main()
