#!/usr/bin/env python3
"""Label efficiency: which rows to label next, by LogisticSoftmaxGPC.suggest, against random rows and scikit-activeml's uncertainty sampling.

    python scripts/vectors/active.py [--seeds 10] [--labels 40] [--batch 10] [--pool 400] [--sets digits] [--vectors NAME=FILE.npy] [--classes 10]
        [--strategies random,uncertainty,bald,entropy,margin]

Every strategy starts from the same rows (one of each class), asks for `--batch` labels at a time from the same pool, and is scored by the
same classifier (ours) on the same test rows. The figure is the area under the curve of accuracy over labels, as a mean accuracy, with the 95 %
interval over seeds (Student's t); the last columns are the mean differences to random rows and to uncertainty sampling, paired by seed. scikit-activeml
chooses by its `UncertaintySampling(method="entropy")` with our probabilities. --vectors adds sets: the .npy files of `siskin embed` (NAME_labels.npy
beside), the first --classes classes of them. `siskin embed models/omniglot-conv4s.safetensors FOLDER --out omniglot.npy` makes such files.
"""
import argparse
import warnings

import numpy as np
from scipy import stats
from sklearn import datasets
from skactiveml.classifier import SklearnClassifier
from skactiveml.pool import UncertaintySampling

from pysiskin import LogisticSoftmaxGPC


def ours(criterion):
    return lambda model, x, y, known, rest, n, seed: rest[model.suggest(x[rest], n, criterion=criterion)[0]]


def at_random(model, x, y, known, rest, n, seed):
    return np.random.default_rng([seed, len(known)]).choice(rest, n, replace=False)


def uncertainty(model, x, y, known, rest, n, seed):
    strategy = UncertaintySampling(method="entropy", random_state=seed)
    labels = np.full(len(x), np.nan)
    labels[known] = y[known]
    wrapped = SklearnClassifier(model, classes=np.unique(y), random_state=seed)
    wrapped.fit(x[known], y[known])
    return strategy.query(X=x, y=labels, clf=wrapped, fit_clf=False, candidates=rest, batch_size=n)


STRATEGIES = {
    "random": ("random", at_random),
    "uncertainty": ("uncertainty (scikit-activeml)", uncertainty),
    "bald": ("suggest, bald", ours("bald")),
    "entropy": ("suggest, entropy", ours("entropy")),
    "margin": ("suggest, margin", ours("margin")),
}


def curve(choose, x, y, start, pool, test, options, seed):
    known, found = list(start), []
    while True:
        model = LogisticSoftmaxGPC(learn_points=100).fit(x[known], y[known])
        found.append(model.score(x[test], y[test]))
        if len(known) >= options.labels:
            return float(np.mean(found))
        rest = np.setdiff1d(pool, known)
        known.extend(int(i) for i in choose(model, x, y, known, rest, options.batch, seed))


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--labels", type=int, default=40)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--pool", type=int, default=400)
    parser.add_argument("--sets", default="digits")
    parser.add_argument("--vectors", action="append", default=[], metavar="NAME=FILE.npy")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--strategies", default="random,uncertainty,bald", help="the first two must be random and uncertainty")
    options = parser.parse_args()
    sets = {name: datasets.load_digits(return_X_y=True) for name in options.sets.split(",") if name}
    for item in options.vectors:
        name, path = item.split("=", 1)
        y = np.load(path.replace(".npy", "_labels.npy"))
        few = y < options.classes
        sets[name] = (np.load(path)[few].astype(np.float64), y[few].astype(int))
    strategies = dict(STRATEGIES[key] for key in options.strategies.split(","))
    print("| set | strategy | area | against random | against uncertainty |")
    print("| --- | --- | --- | --- | --- |")
    for name, (x, y) in sets.items():
        areas = {who: [] for who in strategies}
        for seed in range(options.seeds):
            rows = np.random.default_rng(seed).permutation(len(x))
            half = min(options.pool, len(x) // 2)
            pool, test = rows[:half], rows[half : half + 600]
            start = [int(pool[np.flatnonzero(y[pool] == c)[0]]) for c in np.unique(y[pool])]
            for who, choose in strategies.items():
                areas[who].append(curve(choose, x, y, start, pool, test, options, seed))
        wide = 100 * stats.t.ppf(0.975, options.seeds - 1) / np.sqrt(options.seeds)
        interval = lambda a: f"{100 * np.mean(a):.2f} ± {wide * np.std(a, ddof=1):.2f}"
        for who, area in areas.items():
            against = [np.subtract(area, areas[rival]) for rival in list(strategies)[:2]]
            print(f"| {name} | {who} | {interval(area)} | {interval(against[0])} | {interval(against[1])} |", flush=True)


if __name__ == "__main__":
    main()
