#!/usr/bin/env python3
"""Label sets: LabelSetGPC beside binary relevance, classifier chains and a Gaussian process for each label.

    python scripts/vectors/label_sets.py [--sets yeast,synthetic] [--rows 600] [--test 400] [--seeds 2] [--inducing 200]

Needs the packages `pysiskin`, scikit-learn and `river` 0.26.1 (its yeast.csv.gz: 2,417 rows of 103 numbers, 14 labels). For each seed `--rows`
rows are drawn to learn from and `--test` others to test. Binary relevance is a logistic regression for each label; a chain adds the labels before it
to the inputs (five random orders, their mean probability); "a GP for each label" is LogisticSoftmaxGPC for each. Inputs are scaled for all.
`--inducing` points for both of ours.

Hamming loss: the share of labels that are wrong, a label said where its probability is above one half. Subset accuracy: how often the whole set is
right, by the same rule, and for LabelSetGPC by its most probable set too. ECE: of "has the label" in 15 bins, for each label, averaged. Log-loss: of
the labels one by one. ± is the 95 % interval over seeds (Student's t).
"""
import argparse
import gzip
import pathlib
import time
import warnings

import numpy as np
from scipy import stats
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler

from pysiskin import LabelSetGPC, LogisticSoftmaxGPC


def yeast():
    import river.datasets

    path = pathlib.Path(river.datasets.__file__).parent / "yeast.csv.gz"
    with gzip.open(path, "rt") as file:
        header = next(file).strip().split(",")
        table = [line.strip().split(",") for line in file]
    labels = [i for i, name in enumerate(header) if name.lower().startswith("class")]
    truth = {"TRUE": 1, "FALSE": 0, "True": 1, "False": 0, "1": 1, "0": 0}
    y = np.array([[truth[row[i]] for i in labels] for row in table])
    x = np.array([[float(v) for i, v in enumerate(row) if i not in labels] for row in table])
    return x, y


def synthetic():
    return make_multilabel_classification(3000, 20, n_classes=8, n_labels=3, length=30, random_state=0)


class EachLabel:
    """A classifier for each label on its own; a label that all or no rows have is said with that share."""

    def __init__(self, make):
        self.make = make

    def fit(self, x, y):
        self.models = [self.make().fit(x, of) if 0 < of.sum() < len(of) else float(of.mean()) for of in y.T]
        return self

    def labels(self, x):
        one = lambda m: np.full(len(x), m) if isinstance(m, float) else m.predict_proba(x)[:, 1]
        return np.column_stack([one(m) for m in self.models]), None


class Chains:
    """Classifier chains in random orders, their mean probability."""

    def fit(self, x, y):
        make = lambda seed: ClassifierChain(LogisticRegression(max_iter=500), order="random", random_state=seed)
        self.chains = [make(seed).fit(x, y) for seed in range(5)]
        return self

    def labels(self, x):
        return np.mean([chain.predict_proba(x) for chain in self.chains], axis=0), None


class Sets:
    def __init__(self, inducing):
        self.inducing = inducing

    def fit(self, x, y):
        self.model = LabelSetGPC(n_inducing=self.inducing).fit(x, y)
        return self

    def labels(self, x):
        chosen = np.zeros((len(x), len(self.model.classes_)), dtype=int)
        for row, labels in enumerate(self.model.predict_sets(x)[0]):
            chosen[row, labels] = 1
        return self.model.predict_proba(x), chosen


def ece(p, y, bins=15):
    place = np.minimum((p * bins).astype(int), bins - 1)
    gap = lambda b: abs(p[place == b].sum() - y[place == b].sum()) if (place == b).any() else 0.0
    return sum(gap(b) for b in range(bins)) / len(p)


def scores(p, sets, y):
    hard = (p > 0.5).astype(int)
    q = np.clip(p, 1e-6, 1 - 1e-6)
    loss = -np.mean(y * np.log(q) + (1 - y) * np.log(1 - q))
    whole = np.mean((hard == y).all(axis=1))
    best = np.nan if sets is None else np.mean((sets == y).all(axis=1))
    return [np.mean(hard != y), whole, best, np.mean([ece(p[:, c], y[:, c]) for c in range(y.shape[1])]), loss]


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default="yeast,synthetic")
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--test", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--without", default="", help="who is left out, by the first word of the row")
    options = parser.parse_args()
    who = {
        "binary relevance (logistic)": lambda: EachLabel(lambda: LogisticRegression(max_iter=500)),
        "classifier chains (logistic)": Chains,
        "a GP for each label": lambda: EachLabel(lambda: LogisticSoftmaxGPC(n_inducing=options.inducing)),
        "LabelSetGPC": lambda: Sets(options.inducing),
    }
    print("| set | classifier | Hamming loss | subset accuracy | of the most probable set | ECE by label | log-loss | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.sets.split(","):
        x, y = yeast() if name == "yeast" else synthetic()
        for title, make in who.items():
            if title.split()[0] in options.without.split(","):
                continue
            found = []
            for seed in range(options.seeds):
                rows = np.random.default_rng(seed).permutation(len(x))
                known, test = rows[: options.rows], rows[options.rows : options.rows + options.test]
                scaler = StandardScaler().fit(x[known])
                began = time.process_time()
                p, sets = make().fit(scaler.transform(x[known]), y[known]).labels(scaler.transform(x[test]))
                found.append([*scores(p, sets, y[test]), time.process_time() - began])
            wide = stats.t.ppf(0.975, len(found) - 1) / np.sqrt(len(found))
            mean, error = np.mean(found, axis=0), wide * np.std(found, axis=0, ddof=1)
            cells = [f"{m:.4f} ± {e:.4f}" if np.isfinite(m) else "" for m, e in zip(mean[:5], error[:5])]
            print(f"| {name} | {title} | {' | '.join(cells)} | {mean[5]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
