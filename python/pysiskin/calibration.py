"""How far probabilities can be trusted, and what corrects them.

Everywhere ``p`` are probabilities [N, C] and ``y`` the true classes: as numbers 0..C-1 (columns of ``p``), or, with
``classes`` (the ``classes_`` of a classifier), as the labels themselves.

>>> from pysiskin import calibration
>>> round(calibration.ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 6)
0.35
>>> round(calibration.ece([[0.9, 0.1], [0.6, 0.4]], ["cat", "dog"], classes=["cat", "dog"]), 6)
0.35
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native

#: As many bins as the paper takes.
PAPER_BINS = 15


def _p(p: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 2:
        raise ValueError(f"probabilities have {p.ndim} dimensions; they must be [N, C]")
    return p


def _y(y: ArrayLike, classes: ArrayLike | None, width: int) -> list[int]:
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"labels have {y.ndim} dimensions; they must be one row")
    if classes is not None:
        return _columns(y, np.asarray(classes), width)
    if not np.issubdtype(y.dtype, np.integer):
        raise ValueError(
            "labels must be whole numbers, the columns of the true classes; for other labels say which column is which: "
            "classes=model.classes_"
        )
    if y.size and y.min() < 0:
        raise ValueError(f"label {y.min()} is negative; labels are the columns of the true classes")
    columns: list[int] = y.tolist()
    return columns


def _columns(y: NDArray[Any], classes: NDArray[Any], width: int) -> list[int]:
    """The column of each label."""
    if classes.shape != (width,):
        raise ValueError(f"classes have the shape {classes.shape}; the probabilities have {width} columns")
    column = {label: c for c, label in enumerate(classes.tolist())}
    if len(column) < width:
        raise ValueError("a class is named twice")
    labels = y.tolist()
    strange = sorted({str(label) for label in labels if label not in column})
    if strange:
        raise ValueError(f"no column is of the class {strange[0]!r}; classes are {', '.join(map(str, column))}")
    return [column[label] for label in labels]


def _both(p: ArrayLike, y: ArrayLike, classes: ArrayLike | None) -> tuple[NDArray[np.float64], list[int]]:
    p = _p(p)
    return p, _y(y, classes, p.shape[1])


def accuracy(p: ArrayLike, y: ArrayLike, *, classes: ArrayLike | None = None) -> float:
    """Share of rows whose most probable class is the true one."""
    return _native.accuracy(*_both(p, y, classes))


def nll(p: ArrayLike, y: ArrayLike, *, classes: ArrayLike | None = None) -> float:
    """Mean negative log-probability of the truth."""
    return _native.nll(*_both(p, y, classes))


def brier(p: ArrayLike, y: ArrayLike, *, classes: ArrayLike | None = None) -> float:
    """Brier score: the mean of sum_c (p_c - 1[y = c])^2."""
    return _native.brier(*_both(p, y, classes))


def ece(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS, *, classes: ArrayLike | None = None) -> float:
    """Expected calibration error over equal-width bins (lo, hi]."""
    return _native.ece(*_both(p, y, classes), bins)


def mce(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS, *, classes: ArrayLike | None = None) -> float:
    """Maximum calibration error over the same bins."""
    return _native.mce(*_both(p, y, classes), bins)


def adaptive_ece(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS, *, classes: ArrayLike | None = None) -> float:
    """Expected calibration error over bins of equal mass."""
    return _native.adaptive_ece(*_both(p, y, classes), bins)


def classwise_ece(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS, *, classes: ArrayLike | None = None) -> float:
    """Expected calibration error of every class's probability, averaged over classes."""
    return _native.classwise_ece(*_both(p, y, classes), bins)


def reliability(
    p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS, *, classes: ArrayLike | None = None
) -> dict[str, NDArray[np.float64]]:
    """The reliability diagram as a dict of arrays [bins]: lower, upper, count, confidence, accuracy."""
    return _native.reliability(*_both(p, y, classes), bins)


def fit_temperature(p: ArrayLike, y: ArrayLike, *, classes: ArrayLike | None = None) -> float:
    """The temperature T that makes ``sharpen(p, T)`` most probable on validation data.

    Where no temperature is best (all predictions right, say: the surer the better), the last one tried is returned with a
    warning."""
    temperature, best = _native.fit_temperature(*_both(p, y, classes))
    if not best:
        warnings.warn(f"no temperature is best on these data; {temperature:g} is the limit of the search", stacklevel=2)
    return temperature


def sharpen(p: ArrayLike, temperature: float) -> NDArray[np.float64]:
    """p^(1/T), rows normalised: T > 1 makes less sure, T < 1 surer."""
    return _native.sharpen(_p(p), temperature)


def conformal_sets(
    p_calibration: ArrayLike,
    y_calibration: ArrayLike,
    p: ArrayLike,
    alpha: float = 0.1,
    rule: Literal["lac", "aps"] = "lac",
    *,
    classes: ArrayLike | None = None,
) -> list[list[Any]]:
    """For each row of ``p`` the classes that hold the truth with probability at least 1 - alpha, for data like the
    calibration data. ``rule``: "lac" (small sets, may be empty) or "aps" (never empty). Sets have columns, or, with
    ``classes``, labels."""
    sets = _native.conformal_sets(*_both(p_calibration, y_calibration, classes), _p(p), alpha, rule)
    if classes is None:
        return sets
    labels = np.asarray(classes).tolist()
    return [[labels[c] for c in one] for one in sets]
