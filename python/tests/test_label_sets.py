"""LabelSetGPC: scikit-learn's own checks, numbers, pickling."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import hamming_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from pysiskin import FewShotClassifier, LabelSetGPC


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


def test_images_have_label_sets_by_their_features():
    """Bars and rings, alone and together: what the network gives for an image is a row."""
    rng = np.random.default_rng(0)

    def image(labels):
        pixels = np.full((40, 40), 255, "uint8")
        i, j = rng.integers(-2, 3, 2)
        if labels[0]:
            pixels[4 + i : 36 + i, 18 + j : 22 + j] = 0
        if labels[1]:
            pixels[8 + i : 32 + i, 8 + j : 11 + j] = pixels[8 + i : 32 + i, 29 + j : 32 + j] = 0
            pixels[8 + i : 11 + i, 8 + j : 32 + j] = pixels[29 + i : 32 + i, 8 + j : 32 + j] = 0
        return pixels

    sets = np.tile([[1, 0], [0, 1], [1, 1]], (8, 1))
    network = FewShotClassifier("omniglot-conv4s")
    features = network.embed([image(labels) for labels in sets])
    model = LabelSetGPC().fit(features, sets)
    again = np.tile([[1, 0], [0, 1], [1, 1]], (4, 1))
    found = model.predict(network.embed([image(labels) for labels in again]))
    assert np.mean((found == again).all(axis=1)) > 0.9
