#!/usr/bin/env python3
"""LogisticSoftmaxGPC beside scikit-learn's classifiers, each with its defaults, on the same scaled rows.

    OMP_NUM_THREADS=1 python scripts/vectors_vs_sklearn.py [--sets iris,wine] [--seed 0]
    ... --photos FOLDER --onnx NETWORK.onnx      # or --photos VECTORS.npz

Needs the package `siskin` and scikit-learn. Prints, for every set, raw log-loss and raw expected calibration error (15 bins) of each
classifier, seconds of CPU time to fit and to predict ours, and the ratio of our log-loss to that of the best rival. Rivals: logistic
regression, SVC with probabilities, random forest, k nearest neighbours, and scikit-learn's GaussianProcessClassifier where there are at
most 450 training rows (it takes minutes beyond).

The set `photos` is tasks of 5 classes x 5 photos, the other photos of these classes as test rows, all tasks counted together. It takes
the vectors (`x` [N, D]) and labels (`y` [N]) of an .npz file, or a folder with one folder of photos a class and a network in ONNX
format whose first output are the features of images [N, 3, 224, 224], RGB, (value - 127) / 128; for that onnxruntime and Pillow are
needed. Without --photos the set is left out.
"""
import argparse
import math
import pathlib
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pysiskin import LogisticSoftmaxGPC, calibration

# Tasks of the set `photos`, their classes, photos of each to train on and to test on.
TASKS, CLASSES, SHOTS, QUERIES = 20, 5, 5, 30


def synthetic():
    """2,000 x 384: ten classes around centres of their own, 1,000 rows to train on."""
    return datasets.make_classification(
        2000, 384, n_informative=60, n_redundant=60, n_classes=10, n_clusters_per_class=1, class_sep=2.0, random_state=0
    )


# Name: the rows and how many of them are for training.
SETS = {
    "iris": (lambda: datasets.load_iris(return_X_y=True), 105),
    "wine": (lambda: datasets.load_wine(return_X_y=True), 124),
    "breast_cancer": (lambda: datasets.load_breast_cancer(return_X_y=True), 398),
    "digits-300": (lambda: datasets.load_digits(return_X_y=True), 300),
    "digits-1257": (lambda: datasets.load_digits(return_X_y=True), 1257),
    "synthetic": (synthetic, 1000),
}


def split(name, seed):
    """The one task of a set: vectors and labels to train on, and to test on."""
    load, rows = SETS[name]
    x, y = load()
    x, x_test, y, y_test = train_test_split(x, y, train_size=rows, stratify=y, random_state=seed)
    return [(x, y, x_test, y_test)]


def photo_vectors(folder, network):
    """Features of every photo below `folder`, and the number of its class."""
    import onnxruntime
    from PIL import Image

    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    read = lambda path: np.asarray(Image.open(path).convert("RGB").resize((224, 224)), dtype=np.float32)
    classes = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_dir())
    photos = [(c, path) for c, of_class in enumerate(classes) for path in sorted(of_class.iterdir())[: SHOTS + QUERIES]]
    vectors = []
    for _, path in photos:
        image = ((read(path) - 127) / 128).transpose(2, 0, 1)[None]
        vectors.append(session.run(None, {session.get_inputs()[0].name: image})[0][0])
    return np.array(vectors, dtype=np.float64), np.array([c for c, _ in photos])


def photo_tasks(x, y, seed):
    rng = np.random.default_rng(seed)
    tasks = []
    for _ in range(TASKS):
        train, test = [], []
        for c in rng.choice(np.unique(y), CLASSES, replace=False):
            rows = rng.permutation(np.flatnonzero(y == c))
            train.extend(rows[:SHOTS])
            test.extend(rows[SHOTS : SHOTS + QUERIES])
        tasks.append((x[train], y[train], x[test], y[test]))
    return tasks


def rivals(rows):
    found = {
        "logistic": LogisticRegression(),
        "svc": SVC(probability=True, random_state=0),
        "forest": RandomForestClassifier(random_state=0),
        "k-nn": KNeighborsClassifier(),
    }
    if rows <= 450:
        found["gpc"] = GaussianProcessClassifier(random_state=0)
    return found


def compare(name, tasks):
    """Prints one line of the table; the ratio of our log-loss to the best rival's, over all tasks."""
    losses, seconds, answers, truth = {}, [0.0, 0.0], [], []
    for x, y, x_test, y_test in tasks:
        classes, y = np.unique(y, return_inverse=True)
        y_test = np.searchsorted(classes, y_test)
        scaler = StandardScaler().fit(x)
        x, x_test = scaler.transform(x), scaler.transform(x_test)
        for rival, model in rivals(len(x)).items():
            losses.setdefault(rival, []).append(log_loss(y_test, model.fit(x, y).predict_proba(x_test)))
        began = time.process_time()
        model = LogisticSoftmaxGPC().fit(x, y)
        fitted = time.process_time()
        answers.append(model.predict_proba(x_test))
        truth.append(y_test)
        seconds = [seconds[0] + fitted - began, seconds[1] + time.process_time() - fitted]
    ours = float(np.mean([log_loss(y, p) for y, p in zip(truth, answers)]))
    ece = calibration.ece(np.concatenate(answers), np.concatenate(truth))
    losses = {rival: float(np.mean(found)) for rival, found in losses.items()}
    best = min(losses, key=losses.get)
    fit, predict = (total / len(tasks) for total in seconds)
    print(
        f"| {name} | {ours:.4f} | {ece:.3f} | {fit:.1f} | {predict:.2f} | {best} | {losses[best]:.4f} | "
        f"{ours / losses[best]:.2f} |",
        flush=True,
    )
    return ours / losses[best]


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--photos", help="a folder with one folder of photos a class, or an .npz file of vectors")
    parser.add_argument("--onnx", help="the network for a folder of photos")
    options = parser.parse_args()
    print("| set | siskin log-loss | ECE | fit, CPU s | predict, CPU s | best rival | its log-loss | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios = [compare(name, split(name, options.seed)) for name in options.sets.split(",") if name]
    if options.photos is None:
        print("(the set `photos` is left out: it needs --photos)")
    else:
        if options.photos.endswith(".npz"):
            vectors = (lambda file: (file["x"], file["y"]))(np.load(options.photos))
        else:
            vectors = photo_vectors(options.photos, options.onnx)
        ratios.append(compare("photos", photo_tasks(*vectors, options.seed)))
    print(f"geometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
