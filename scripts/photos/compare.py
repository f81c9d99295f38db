"""Answers of `photo_tasks` beside scikit-learn on the same vectors and tasks.

    siskin embed lite0 PHOTOS --out photos.npy --unit
    cargo run --release --workspace --example photo_tasks -- photos.npy 200 > answers.jsonl
    python scripts/photos/compare.py photos.npy answers.jsonl

Needs numpy and scikit-learn.
"""

import json
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

BINS = 15


def ece(probabilities, truth):
    """Expected calibration error with 15 bins of equal width over the largest probability."""
    top, right = probabilities.max(1), probabilities.argmax(1) == truth
    place = np.minimum((top * BINS).astype(int), BINS - 1)
    parts = [abs(right[place == b].mean() - top[place == b].mean()) * (place == b).mean() for b in np.unique(place)]
    return float(np.sum(parts))


def nll(probabilities, truth):
    return float(-np.log(np.maximum(probabilities[np.arange(len(truth)), truth], 1e-300)).mean())


def others():
    """Classifiers with their usual settings, and with weaker regularisation: vectors of length 1 need it."""
    return {
        "logistic regression, C = 1": LogisticRegression(C=1.0, max_iter=2000),
        "logistic regression, C = 100": LogisticRegression(C=100.0, max_iter=2000),
        "linear SVM, C = 1": SVC(C=1.0, kernel="linear"),
        "linear SVM, C = 100": SVC(C=100.0, kernel="linear"),
        "RBF SVM, C = 1": SVC(C=1.0),
        "RBF SVM, C = 10": SVC(C=10.0),
        "1 nearest neighbour": KNeighborsClassifier(1),
        "5 nearest neighbours": KNeighborsClassifier(5),
    }


def main():
    vectors = np.load(sys.argv[1]).astype(np.float64)
    tasks = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
    truth = np.concatenate([t["truth"] for t in tasks])
    ours = np.concatenate([t["probabilities"] for t in tasks])
    per_task = [(np.argmax(t["probabilities"], 1) == t["truth"]).mean() for t in tasks]
    spread = 1.96 * np.std(per_task) / np.sqrt(len(tasks))
    accuracy = 100 * (ours.argmax(1) == truth).mean()
    print(f"{len(tasks)} tasks, {len(truth)} queries")
    print(f"{'siskin':30} accuracy {accuracy:6.2f} +- {100 * spread:.2f} %  ECE {ece(ours, truth):.4f}  NLL {nll(ours, truth):.4f}")
    sets = [s for t in tasks for s in t["sets"]]
    held = np.mean([y in s for s, y in zip(sets, truth)])
    print(f"  sets: hold the true class {100 * held:.2f} %, mean size {np.mean([len(s) for s in sets]):.3f}")
    alarms = np.mean(np.concatenate([t["none"] for t in tasks]))
    caught = np.mean(np.concatenate([t["strangers_none"] for t in tasks]))
    print(f"  none of these: {100 * alarms:.2f} % of members, {100 * caught:.2f} % of strangers")
    known = [np.array(t["novelty"]) for t in tasks]
    strange = [np.array(t["strangers_novelty"]) for t in tasks]
    limit = np.quantile(np.concatenate(known), 0.95)
    at_five = np.mean(np.concatenate(strange) > limit)
    auroc = np.mean([(s[:, None] > k[None, :]).mean() for k, s in zip(known, strange)])
    print(f"  novelty: AUROC within tasks {auroc:.4f}; one limit for all at 5 % false alarms catches {100 * at_five:.2f} %")
    for name, classifier in others().items():
        parts, right = [], []
        for task in tasks:
            classifier.fit(vectors[task["support"]], task["labels"])
            queries = vectors[task["queries"]]
            right.append(classifier.predict(queries) == task["truth"])
            if hasattr(classifier, "predict_proba"):
                parts.append(classifier.predict_proba(queries))
        line = f"{name:30} accuracy {100 * np.concatenate(right).mean():6.2f} %"
        if parts:
            p = np.concatenate(parts)
            line += f"          ECE {ece(p, truth):.4f}  NLL {nll(p, truth):.4f}"
        print(line)


if __name__ == "__main__":
    main()
