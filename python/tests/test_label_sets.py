"""LabelSetGPC: scikit-learn's own checks, numbers, pickling."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import hamming_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from pysiskin import LabelSetGPC


@parametrize_with_checks([LabelSetGPC()])
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def problem():
    x, y = make_multilabel_classification(500, 8, n_classes=5, n_labels=2, random_state=1)
    return x[:200], y[:200], x[200:], y[200:]


@pytest.fixture(scope="module")
def model(problem):
    return LabelSetGPC(n_inducing=80).fit(*problem[:2])


def test_labels_sizes_and_sets(problem, model):
    _, y, x_test, y_test = problem
    p, sizes = model.predict_proba(x_test), model.predict_size_proba(x_test)
    assert p.shape == y_test.shape and sizes.shape == (len(x_test), len(model.sizes_))
    np.testing.assert_allclose(sizes.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(p.sum(axis=1), sizes @ model.sizes_, atol=1e-5)
    shares = np.tile(y.mean(axis=0) > 0.5, (len(y_test), 1))
    assert hamming_loss(y_test, model.predict(x_test)) < 0.8 * hamming_loss(y_test, shares)
    sets, chances = model.predict_sets(x_test)
    exact = np.mean([set(s) == set(np.flatnonzero(row)) for s, row in zip(sets, y_test)])
    assert abs(exact - chances.mean()) < 0.12
    whole = LabelSetGPC(n_inducing=80, decide="set").fit(*problem[:2]).predict(x_test)
    assert [np.flatnonzero(row).tolist() for row in whole] == [s.tolist() for s in sets]


def test_a_pickle_predicts_the_same(problem, model):
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(problem[2]) == model.predict_proba(problem[2])).all()


def test_wrong_settings_are_named(problem):
    x, y = problem[0][:20], problem[1][:20]
    for settings, says in (({"decide": "x"}, "decide"), ({"n_inducing": 0}, "n_inducing"), ({"kernel": "auto"}, "auto"), ({"kernel": "x"}, "not known")):
        with pytest.raises(ValueError, match=says):
            LabelSetGPC(**settings).fit(x, y)
