"""How far probabilities can be trusted, and what mends them.

Everywhere ``p`` are probabilities [N, C] and ``y`` the true classes as numbers 0..C-1 (columns of ``p``).

>>> from pysiskin import calibration
>>> round(calibration.ece([[0.9, 0.1], [0.6, 0.4]], [0, 1]), 6)
0.35
"""

from __future__ import annotations

import warnings
from typing import Literal

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


def _y(y: ArrayLike) -> list[int]:
    y = np.asarray(y)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise ValueError("labels must be one row of whole numbers: the columns of the true classes")
    if y.size and y.min() < 0:
        raise ValueError(f"label {y.min()} is negative; labels are the columns of the true classes")
    columns: list[int] = y.tolist()
    return columns


def accuracy(p: ArrayLike, y: ArrayLike) -> float:
    """Share of rows whose most probable class is the true one."""
    return _native.accuracy(_p(p), _y(y))


def nll(p: ArrayLike, y: ArrayLike) -> float:
    """Mean negative log-probability of the truth."""
    return _native.nll(_p(p), _y(y))


def brier(p: ArrayLike, y: ArrayLike) -> float:
    """Brier score: the mean of sum_c (p_c - 1[y = c])^2."""
    return _native.brier(_p(p), _y(y))


def ece(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS) -> float:
    """Expected calibration error over equal-width bins (lo, hi]."""
    return _native.ece(_p(p), _y(y), bins)


def mce(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS) -> float:
    """Maximum calibration error over the same bins."""
    return _native.mce(_p(p), _y(y), bins)


def adaptive_ece(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS) -> float:
    """Expected calibration error over bins of equal mass."""
    return _native.adaptive_ece(_p(p), _y(y), bins)


def classwise_ece(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS) -> float:
    """Expected calibration error of every class's probability, averaged over classes."""
    return _native.classwise_ece(_p(p), _y(y), bins)


def reliability(p: ArrayLike, y: ArrayLike, bins: int = PAPER_BINS) -> dict[str, NDArray[np.float64]]:
    """The reliability diagram as a dict of arrays [bins]: lower, upper, count, confidence, accuracy."""
    return _native.reliability(_p(p), _y(y), bins)


def fit_temperature(p: ArrayLike, y: ArrayLike) -> float:
    """The temperature T that makes ``sharpen(p, T)`` most probable on validation data.

    Where no temperature is best (all predictions right, say: the surer the better), the last one tried is returned with a
    warning."""
    temperature, best = _native.fit_temperature(_p(p), _y(y))
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
) -> list[list[int]]:
    """For each row of ``p`` the classes that hold the truth with probability at least 1 - alpha, for data like the
    calibration data. ``rule``: "lac" (small sets, may be empty) or "aps" (never empty)."""
    return _native.conformal_sets(_p(p_calibration), _y(y_calibration), _p(p), alpha, rule)
