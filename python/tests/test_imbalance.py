"""Weights, class priors, sets by class, the choice of a kernel, and when to stop."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score

from pysiskin import LogisticSoftmaxGPC


@pytest.fixture(scope="module")
def rare():
    x, y = make_classification(1300, 5, n_informative=3, weights=[0.88], class_sep=0.8, flip_y=0.02, random_state=3)
    return x[:300], y[:300], x[300:], y[300:]


@pytest.fixture(scope="module")
def plain(rare):
    return LogisticSoftmaxGPC().fit(*rare[:2])


def test_weights_and_a_prior_find_the_rare_class(rare, plain):
    x, y, x_test, y_test = rare
    score = lambda model: balanced_accuracy_score(y_test, model.predict(x_test))
    balanced = LogisticSoftmaxGPC(class_weight="balanced").fit(x, y)
    assert score(balanced) > score(plain) + 0.02
    weights = np.where(y == 1, np.sum(y == 0) / np.sum(y == 1), 1.0)
    np.testing.assert_allclose(balanced.hyperparameters_["shares"], [0.5, 0.5])
    by_rows = LogisticSoftmaxGPC().fit(x, y, sample_weight=weights * len(y) / weights.sum())
    np.testing.assert_allclose(by_rows.predict_proba(x_test), balanced.predict_proba(x_test), atol=1e-6)
    before = plain.predict_proba(x_test)
    try:
        plain.set_params(class_prior="uniform")
        assert score(plain) > 0.02 + balanced_accuracy_score(y_test, before.argmax(axis=1))
        plain.set_params(class_prior=[3.0, 1.0])
        shares = np.bincount(y) / len(y)
        want = before * np.array([0.75, 0.25]) / shares
        np.testing.assert_allclose(plain.predict_proba(x_test), want / want.sum(axis=1, keepdims=True), atol=1e-12)
        for wrong in ([1.0], [1.0, -1.0], "even"):
            with pytest.raises(ValueError, match="prior"):
                plain.set_params(class_prior=wrong).predict(x_test)
    finally:
        plain.set_params(class_prior=None)
    with pytest.raises(ValueError, match="logistic-softmax"):
        LogisticSoftmaxGPC(likelihood="softmax").fit(x, y, sample_weight=weights)


def test_sets_by_class_hold_the_rare_class(rare, plain):
    _, y, x_test, y_test = rare
    held = lambda sets: np.array([label in s for label, s in zip(y_test, sets)])
    by_class = held(plain.predict_set(x_test, 0.9, by_class=True))
    for c in (0, 1):
        n, m = np.sum(y == c), np.sum(y_test == c)
        # Three deviations of the training and test rows of the class below the level.
        assert by_class[y_test == c].mean() >= 0.9 - 3 * np.sqrt(0.09 * (1 / n + 1 / m)), c
    assert by_class[y_test == 1].mean() > held(plain.predict_set(x_test, 0.9))[y_test == 1].mean()
    # Under other shares only these hold, so they are the default there.
    try:
        plain.set_params(class_prior="uniform")
        np.testing.assert_array_equal(held(plain.predict_set(x_test, 0.9)), by_class)
        assert not np.array_equal(held(plain.predict_set(x_test, 0.9, by_class=False)), by_class)
    finally:
        plain.set_params(class_prior=None)


def test_the_kernel_is_chosen_by_leave_one_out(rare):
    x, y = rare[0][:80], rare[1][:80]
    chosen = LogisticSoftmaxGPC(kernel="auto").fit(x, y)
    others = [LogisticSoftmaxGPC(kernel=k).fit(x, y) for k in (None, "linear+constant", "rbf", "rbf+linear")]
    assert chosen.loo_["log_loss"] == min(other.loo_["log_loss"] for other in others)
    for kernel in ("rbf+white", "rbf+linear+white"):
        assert LogisticSoftmaxGPC(kernel=kernel).fit(x, y).score(x, y) > 0.8
    lengths = LogisticSoftmaxGPC(kernel="rbf", class_lengths=True).fit(x, y).hyperparameters_["kernel_shape"]
    assert len(lengths) == 2


def test_advice_when_to_stop(plain):
    advice = plain.stopping_advice()
    assert advice["at_most"] >= advice["gain"] and advice["enough"] == (advice["at_most"] < 0.05)
    assert advice["sentence"].startswith("More labels would")
