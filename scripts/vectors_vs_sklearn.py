#!/usr/bin/env python3
"""LogisticSoftmaxGPC beside scikit-learn's classifiers, each with its defaults, on the same scaled rows.

    OMP_NUM_THREADS=1 python scripts/vectors_vs_sklearn.py [--sets iris,wine] [--seed 0]

Needs the package `siskin` and scikit-learn. Prints, for every set, raw log-loss and raw expected calibration error (15 bins) of each
classifier, seconds of CPU time to fit and to predict ours, and the ratio of our log-loss to that of the best rival. Rivals: logistic
regression, SVC with probabilities, random forest, k nearest neighbours, and scikit-learn's GaussianProcessClassifier where there are at
most 450 training rows (it takes minutes beyond).
"""
import argparse
import math
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

from siskin import LogisticSoftmaxGPC, calibration


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


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ratios = []
    print("| set | siskin log-loss | ECE | fit, CPU s | predict, CPU s | best rival | its log-loss | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.sets.split(","):
        load, rows = SETS[name]
        x, y = load()
        x, x_test, y, y_test = train_test_split(x, y, train_size=rows, stratify=y, random_state=options.seed)
        scaler = StandardScaler().fit(x)
        x, x_test = scaler.transform(x), scaler.transform(x_test)
        losses = {}
        for rival, model in rivals(rows).items():
            losses[rival] = log_loss(y_test, model.fit(x, y).predict_proba(x_test))
        began = time.process_time()
        model = LogisticSoftmaxGPC().fit(x, y)
        fitted = time.process_time()
        p = model.predict_proba(x_test)
        predicted = time.process_time()
        loss, ece = log_loss(y_test, p), calibration.ece(p, y_test)
        best = min(losses, key=losses.get)
        ratios.append(loss / losses[best])
        print(
            f"| {name} | {loss:.4f} | {ece:.3f} | {fitted - began:.1f} | {predicted - fitted:.2f} | {best} | "
            f"{losses[best]:.4f} | {ratios[-1]:.2f} |",
            flush=True,
        )
    print(f"geometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
