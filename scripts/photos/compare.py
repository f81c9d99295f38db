"""Answers of `photo_tasks` beside scikit-learn on the same vectors and tasks.

    siskin embed lite0 PHOTOS --out photos.npy --unit
    cargo run --release --workspace --example photo_tasks -- photos.npy 200 > answers.jsonl
    python scripts/photos/compare.py photos.npy answers.jsonl

Sets of the others are conformal by examples that were left out, as ours are: one of each class at a time, scored by a classifier of the
rest. Needs numpy and scikit-learn.
"""

import json
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

BINS = 15
LEVEL = 0.9


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


def strangeness(classifier, known, labels, queries):
    """How ill each class fits each query, [M, C]: by the probability of the class, by how far the value of its decision lies below the
    largest other one, or by the distance to its nearest example over that to the nearest of another class."""
    if isinstance(classifier, KNeighborsClassifier):
        distance = np.linalg.norm(queries[:, None] - known[None], axis=2)
        of = np.stack([distance[:, labels == c].min(1) for c in np.unique(labels)], axis=1)
        ratio = lambda c: of[:, c] / np.maximum(np.delete(of, c, 1).min(1), 1e-12)
        return np.stack([ratio(c) for c in range(of.shape[1])], axis=1)
    classifier.fit(known, labels)
    if hasattr(classifier, "predict_proba"):
        return 1 - classifier.predict_proba(queries)
    value = classifier.decision_function(queries)
    return np.stack([np.delete(value, c, 1).max(1) - value[:, c] for c in range(value.shape[1])], axis=1)


def left_out_sets(classifier, known, labels, queries):
    """Conformal sets at 90 %, [M, C] of booleans; the class that fits best is always among them."""
    places = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    scores = []
    for fold in range(max(len(place) for place in places)):
        out = np.array([place[fold] for place in places if fold < len(place)])
        rest = np.setdiff1d(np.arange(len(labels)), out)
        found = strangeness(classifier, known[rest], labels[rest], known[out])
        scores.extend(found[np.arange(len(out)), labels[out]])
    rank = int(np.ceil((len(scores) + 1) * LEVEL))
    limit = np.sort(scores)[rank - 1] if rank <= len(scores) else np.inf
    found = strangeness(classifier, known, labels, queries)
    return (found <= limit) | (found == found.min(1, keepdims=True))


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
        parts, right, sets = [], [], []
        for task in tasks:
            known, labels, queries = vectors[task["support"]], np.array(task["labels"]), vectors[task["queries"]]
            sets.append(left_out_sets(classifier, known, labels, queries))
            classifier.fit(known, labels)
            right.append(classifier.predict(queries) == task["truth"])
            if hasattr(classifier, "predict_proba"):
                parts.append(classifier.predict_proba(queries))
        line = f"{name:30} accuracy {100 * np.concatenate(right).mean():6.2f} %"
        if parts:
            p = np.concatenate(parts)
            line += f"          ECE {ece(p, truth):.4f}  NLL {nll(p, truth):.4f}"
        sets = np.concatenate(sets)
        print(f"{line}\n  sets: hold the true class {100 * sets[np.arange(len(truth)), truth].mean():.2f} %, mean size {sets.sum(1).mean():.3f}")


if __name__ == "__main__":
    main()
