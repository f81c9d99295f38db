"""The classifier of label sets, as a scikit-learn estimator."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from . import _native

_Array = NDArray[np.float64]


class LabelSetGPC(ClassifierMixin, BaseEstimator):
    """Gaussian-process classifier of label sets: rows that have any number of labels.

    ``p(S | x) = p(size | x) p(S | size, x)``: a classifier of sizes, and given the size labels that are drawn from the logistic-softmax
    likelihood, none twice. At a low temperature all labels with positive latent values share alike (docs/equations.md).

    Parameters
    ----------
    kernel : str or None
        As in `LogisticSoftmaxGPC`, "auto" excepted.
    standardise : bool
        Shift and scale every column to mean 0 and standard deviation 1 first.
    n_inducing : int or None
        Inducing points; None: all rows up to 512, beyond that as many as work and memory allow, at most 1,024.
    decide : {"labels", "set"}
        What ``predict`` says. "labels": every label whose probability is above one half, which makes the fewest mistakes in labels (Hamming
        loss). "set": the most probable set, which is right as a whole most often (subset accuracy).
    verbose : bool
        Write how far a fit is to the standard error stream.

    Attributes
    ----------
    classes_ : array [L], the labels
    sizes_ : array of the sizes that sets had
    n_features_in_ : int, number of columns
    hyperparameters_ : dict, of the labels given the size

    Examples
    --------
    >>> import numpy as np
    >>> from pysiskin import LabelSetGPC
    >>> x = np.linspace(0, 3, 40)[:, None]
    >>> y = np.hstack([x < 2, x > 1]).astype(int)
    >>> LabelSetGPC().fit(x, y).predict([[0.3], [1.5], [2.7]]).tolist()
    [[1, 0], [1, 1], [0, 1]]
    """

    classes_: NDArray[Any]
    sizes_: NDArray[np.intp]
    hyperparameters_: dict[str, Any]
    _classifier: _native.LabelSets

    def __init__(
        self,
        *,
        kernel: str | None = None,
        standardise: bool = True,
        n_inducing: int | None = None,
        decide: Literal["labels", "set"] = "labels",
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.standardise = standardise
        self.n_inducing = n_inducing
        self.decide = decide
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> LabelSetGPC:
        """Learns from rows ``X`` [N, D] and ``y``: indicators [N, L], 1 where a row has a label; or one label per row [N]."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True)
        if self.n_inducing is not None and (not isinstance(self.n_inducing, numbers.Integral) or self.n_inducing < 1):
            raise ValueError(f"n_inducing = {self.n_inducing!r} must be None or a whole number from 1 on")
        if self.decide not in ("labels", "set"):
            raise ValueError(f'decide = {self.decide!r} must be "labels" or "set"')
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if y.ndim == 1:
            classes, of = np.unique(y, return_inverse=True)
            if len(classes) < 2:
                raise ValueError("y has one class only; a classifier needs at least 2 classes to tell apart")
            sets = [[int(c)] for c in of]
        else:
            if type_of_target(y) != "multilabel-indicator":
                raise ValueError("y must be indicators [N, L], 0 or 1, or one label per row [N]")
            classes = np.arange(y.shape[1])
            sets = [np.flatnonzero(row).tolist() for row in y]
        settings = {name: getattr(self, name) for name in ("kernel", "standardise", "n_inducing", "verbose")}
        self._classifier = _native.LabelSets.fit(X, sets, len(classes), settings)
        self.classes_ = classes
        self._one = y.ndim == 1
        self.sizes_ = np.unique([len(s) for s in sets])
        self.hyperparameters_ = self._classifier.learned()
        if not self.hyperparameters_["converged"]:
            warnings.warn("the posterior did not come to rest; the one reached is used", ConvergenceWarning, stacklevel=2)
        return self

    def _predictions(self, X: ArrayLike) -> tuple[_Array, _Array, list[int], list[tuple[list[int], float]]]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._classifier.predictions(X)

    def predict_proba(self, X: ArrayLike) -> _Array:
        """The probability of each label [M, L]; rows sum to the expected size of the set."""
        return self._predictions(X)[0]

    def predict_size_proba(self, X: ArrayLike) -> _Array:
        """The probability of each size in ``sizes_`` [M, K]."""
        return self._predictions(X)[1]

    def predict_sets(self, X: ArrayLike) -> tuple[list[NDArray[Any]], _Array]:
        """The most probable set of each row, as labels, and its probability [M]."""
        sets = self._predictions(X)[3]
        return [self.classes_[chosen] for chosen, _ in sets], np.array([p for _, p in sets])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Indicators [M, L] as ``decide`` says; the most probable label of each row where ``y`` had one label per row."""
        labels, _, _, sets = self._predictions(X)
        if self._one:
            return self.classes_[np.argmax(labels, axis=1)]
        if self.decide == "labels":
            return (labels > 0.5).astype(int)
        found = np.zeros(labels.shape, dtype=int)
        for row, (chosen, _) in enumerate(sets):
            found[row, chosen] = 1
        return found
