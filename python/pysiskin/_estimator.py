"""The Gaussian-process classifier on vectors, as a scikit-learn estimator."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import _native

_Array = NDArray[np.float64]
Kernel = Literal[
    "auto", "cosine", "linear", "rbf", "matern52", "poly1", "poly2", "rational-quadratic", "two-scale", "arc-cosine", "constant"
]
ClassPrior = Literal["uniform"] | ArrayLike | None
Likelihood = Literal["logistic-softmax", "softmax", "one-vs-each", "gaussian"]
Inference = Literal["direct", "collapsed"]


class LogisticSoftmaxGPC(ClassifierMixin, BaseEstimator):
    """Gaussian-process classifier with the logistic-softmax likelihood.

    Kernel and temperature are learned by the log-loss of training points that are held out in turn, from the best of several
    starts. Posterior and probabilities are deterministic: the same data give the same numbers.

    Parameters
    ----------
    kernel : None, "auto", "cosine", "linear", "rbf", "matern52", "poly1", "poly2", "rational-quadratic", "two-scale", "arc-cosine", "constant"
        Or a sum or a product of forms, such as "rbf+linear+white" (docs/vectors.md). Lengthscales start at the median distance between training
        points. None is details on a trend that is nearly a linear model. Far from all points it says that it does not know; "linear" does
        not. "auto" fits with None, "linear+constant", "rbf" and "rbf+linear" and keeps the one whose leave-one-out log-loss is least: four fits.
    likelihood : {"logistic-softmax", "softmax", "one-vs-each", "gaussian"}
        How class probabilities arise from the latent functions.
    inference : {"direct", "collapsed"}
        "direct" is close to the exact posterior; "collapsed" is faster and under-confident, and what it learns may predict
        worse.
    standardise : bool
        Shift and scale every column to mean 0 and standard deviation 1 first.
    prior_mean, tau : float
        Where prior mean and temperature start (or stay, with ``learn=False``). Other starts are tried too.
    learn : bool
        Learn the hyperparameters.
    learn_points : int
        Learn them from posteriors of at most about this many points at a time; the last posterior always uses all.
    n_inducing : int or None
        Inducing points. None: a posterior over all rows up to 1,500 rows, beyond that as many inducing points as work and memory allow, at
        most 1,024. 0: always all rows, which costs their number cubed. Only "logistic-softmax" with "direct" has them.
    ard : bool
        Learn a length for each input (automatic relevance determination), by the bound of the log evidence. Needs a kernel by its name.
    class_scales : bool
        Learn an output scale for each class, by the bound too. Needs a kernel by its name.
    class_lengths : bool
        Learn the shapes of the kernel (its lengthscale) for each class, by the bound too. Needs a kernel by its name; not with inducing points.
    class_weight : None, "balanced" or dict
        How often the rows of a class count, as in scikit-learn; times ``sample_weight`` where both are given.
    class_prior : None, "uniform" or array [C]
        The shares of the classes where the classifier is used, if they are not those of the training rows: probabilities are corrected for
        it. May be set after ``fit``. Sets (``predict_set``) are then made by class: only these hold whatever the shares are.
    verbose : bool
        Write how far a fit by inducing points is to the standard error stream.

    Attributes
    ----------
    classes_ : array [C], the class labels
    n_features_in_ : int, number of columns
    feature_names_in_ : array of their names, if ``X`` had names that are all strings
    hyperparameters_ : dict
        ``tau``, ``prior_mean``, ``noise`` ("gaussian" only) and ``kernel_shape`` (variance, lengthscale or offset; the
        cosine kernel has none) and the name of the ``kernel`` as learned, the ``bound`` of the log evidence, its ``evaluations``, and whether learning
        (``converged``), the inference within each evaluation (``inner_converged``) and the posterior
        (``posterior_converged``) came to rest. ``held_out`` is the log-loss of points that others predicted while learning
        (logistic-softmax only). ``spread`` is the part of the posterior deviation that probabilities are averaged over: less
        than 1 where held-out points show that the posterior mean is surer than the posterior. ``learned_kept`` is False where by that loss the start predicted better than
        what was learned, and was kept.

    loo_ : dict or None
        ``log_loss`` and ``accuracy`` of all training points, each predicted by the others (logistic-softmax only).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pysiskin import LogisticSoftmaxGPC
    >>> x, y = load_iris(return_X_y=True)
    >>> bool(LogisticSoftmaxGPC().fit(x[::2], y[::2]).score(x[1::2], y[1::2]) > 0.9)
    True
    """

    classes_: NDArray[Any]
    hyperparameters_: dict[str, Any]
    loo_: dict[str, float] | None
    _classifier: _native.Classifier

    def __init__(
        self,
        *,
        kernel: Kernel | str | None = None,
        likelihood: Likelihood = "logistic-softmax",
        inference: Inference = "direct",
        standardise: bool = True,
        prior_mean: float = -1.0,
        tau: float = 0.5,
        learn: bool = True,
        learn_points: int = 200,
        n_inducing: int | None = None,
        ard: bool = False,
        class_scales: bool = False,
        class_lengths: bool = False,
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
        class_prior: ClassPrior = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.standardise = standardise
        self.prior_mean = prior_mean
        self.tau = tau
        self.learn = learn
        self.learn_points = learn_points
        self.n_inducing = n_inducing
        self.ard = ard
        self.class_scales = class_scales
        self.class_lengths = class_lengths
        self.class_weight = class_weight
        self.class_prior = class_prior
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> LogisticSoftmaxGPC:
        """Learns from vectors ``X`` [N, D] and labels ``y`` [N]; ``sample_weight`` [N]: how often each row counts. Returns the estimator."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = self._weights(X, y, sample_weight)
        if weights is not None:
            # Rows that do not count are as if they were not there.
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError("y has one class only; a classifier needs at least 2 classes to tell apart")
        if not isinstance(self.learn_points, numbers.Integral) or self.learn_points < 1:
            raise ValueError(f"learn_points = {self.learn_points!r} must be a whole number from 1 on")
        if self.n_inducing is not None and (not isinstance(self.n_inducing, numbers.Integral) or self.n_inducing < 0):
            raise ValueError(f"n_inducing = {self.n_inducing!r} must be None or a whole number from 0 on")
        later = ("verbose", "class_weight", "class_prior")
        settings = {name: value for name, value in self.get_params().items() if name not in later}
        weights = None if weights is None else weights.tolist()
        self._classifier = _native.Classifier.fit(X, labels.tolist(), weights, settings, self.verbose)
        self.classes_ = classes
        self.hyperparameters_ = self._classifier.learned()
        found = self._classifier.leave_one_out()
        self.loo_ = None if found is None else {"log_loss": found[0], "accuracy": found[1]}
        if not self.hyperparameters_["posterior_converged"]:
            warnings.warn(
                "the posterior did not come to rest; the one reached is used", ConvergenceWarning, stacklevel=2
            )
        shares = np.array(self.hyperparameters_["shares"])
        loss, guessing = self.hyperparameters_["held_out"], -float(np.sum(shares * np.log(shares)))
        # Where nothing was learned the two agree but for rounding.
        if self.learn and loss is not None and loss >= guessing - 1e-3:
            warnings.warn(
                f"nothing was learned: left out, the examples are predicted no better (log-loss {loss:.3f}) than by the "
                f"shares of the classes alone ({guessing:.3f})",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _weights(self, X: _Array, y: NDArray[Any], sample_weight: ArrayLike | None) -> _Array | None:
        """How often each row counts; None: all once."""
        if sample_weight is None and self.class_weight is None:
            return None
        given = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return given * compute_sample_weight(self.class_weight, y)

    def _prior(self) -> list[float] | None:
        if self.class_prior is None:
            return None
        if isinstance(self.class_prior, str):
            if self.class_prior != "uniform":
                raise ValueError(f'class_prior = {self.class_prior!r} must be None, "uniform" or the share of each class')
            return [1.0] * len(self.classes_)
        return np.asarray(self.class_prior, dtype=np.float64).ravel().tolist()

    def _predictions(self, X: ArrayLike) -> tuple[_Array, _Array, _Array, _Array]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._classifier.predictions(X, self._prior())

    def predict_proba(self, X: ArrayLike) -> _Array:
        """Class probabilities [M, C], columns as in ``classes_``."""
        return self._predictions(X)[0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def predict_set(self, X: ArrayLike, level: float = 0.9, *, by_class: bool | None = None) -> list[NDArray[Any]]:
        """A set of classes for each row that holds the true class with at least this chance: every class whose probability
        is not below what the training points, left out, gave to their own class in all but ``1 - level`` of the cases.

        ``by_class``: with a threshold for each class (Mondrian), so that the chance holds for the rows of every class, rare ones too.
        By default where ``class_prior`` is set."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        by_class = self.class_prior is not None if by_class is None else by_class
        return [self.classes_[chosen] for chosen in self._classifier.sets(X, level, by_class)]

    def predict_latent(self, X: ArrayLike) -> tuple[_Array, _Array]:
        """Mean and variance of the latent functions, each [M, C]. The variance is near the prior's where the training
        points say nothing."""
        _, mean, variance, _ = self._predictions(X)
        return mean, variance

    def predict_entropy(self, X: ArrayLike) -> _Array:
        """Entropy of the class probabilities in nats, [M]."""
        return self._predictions(X)[3]

    def suggest(self, X_pool: ArrayLike, n: int = 5, *, criterion: str = "bald") -> tuple[NDArray[np.intp], _Array]:
        """The rows of ``X_pool`` whose labels would tell the most, the most telling first, and their scores.

        ``criterion`` is "bald" (mutual information of the label and the latent functions), "entropy", "margin" or "variance". After each
        row the scores of rows like it fall, so that a batch does not ask for the same thing twice.
        """
        check_is_fitted(self)
        if not isinstance(n, numbers.Integral) or n < 1:
            raise ValueError(f"n = {n!r} must be a whole number from 1 on")
        X_pool = validate_data(self, X_pool, dtype=np.float64, reset=False)
        found = self._classifier.suggest(X_pool, int(n), criterion)
        return np.array([row for row, _ in found], dtype=np.intp), np.array([score for _, score in found])

    def stopping_advice(self) -> dict[str, Any] | None:
        """Whether more labels would change little, by training rows that are left out: ``enough``, the ``gain`` in log-loss (nats per row) of the
        last doubling of the labels, what it was ``at_most`` (one-sided 95 %), and a ``sentence``. None where a class has one row."""
        check_is_fitted(self)
        found = self._classifier.stopping()
        return None if found is None else dict(zip(("enough", "gain", "at_most", "sentence"), found))
