"""LogisticSoftmaxGPC: scikit-learn's own checks, numbers, pickling, Ctrl-C."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from pysiskin import LogisticSoftmaxGPC, calibration


COPIES = "copies of a row may be held out one by one while hyperparameters are learned, a weighted row only whole"


@parametrize_with_checks(
    [LogisticSoftmaxGPC()], expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": COPIES}
)
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return train_test_split(x, names, random_state=0, stratify=y)


def test_labels_may_be_words(iris):
    x, x_test, y, y_test = iris
    model = LogisticSoftmaxGPC().fit(x, y)
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    assert model.score(x_test, y_test) > 0.9
    p = model.predict_proba(x_test)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
    assert set(model.predict(x_test)) <= set(model.classes_)
    assert model.hyperparameters_["tau"] > 0


def test_the_same_data_give_the_same_bits(iris):
    x, x_test, y, _ = iris
    a, b = (LogisticSoftmaxGPC().fit(x, y).predict_proba(x_test) for _ in range(2))
    assert (a == b).all()


@pytest.mark.parametrize("likelihood", ["logistic-softmax", "softmax", "one-vs-each", "gaussian"])
def test_a_pickle_predicts_the_same(iris, likelihood):
    x, x_test, y, _ = iris
    model = LogisticSoftmaxGPC(kernel="matern52", likelihood=likelihood).fit(x[::4], y[::4])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.predict_proba(x_test), model.predict_proba(x_test), atol=1e-12)
    assert list(again.classes_) == list(model.classes_)
    assert again.hyperparameters_ == model.hyperparameters_


def test_lists_and_named_columns_are_taken(iris):
    x, x_test, y, _ = iris
    model = LogisticSoftmaxGPC(learn=False).fit(x.tolist(), y.tolist())
    expected = model.predict_proba(x_test)
    assert (model.predict_proba(x_test.tolist()) == expected).all()
    # Any strides are taken.
    assert (model.predict_proba(np.asfortranarray(x_test)) == expected).all()
    assert (model.predict_proba(np.repeat(x_test, 2, axis=0)[::2]) == expected).all()
    assert model.n_features_in_ == 4 and not hasattr(model, "feature_names_in_")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, columns=list("abcd"))
    named = LogisticSoftmaxGPC(learn=False).fit(frame, y)
    assert list(named.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame[list("dcba")])


def test_a_failed_fit_leaves_the_fitted_one(iris):
    x, x_test, y, _ = iris
    model = LogisticSoftmaxGPC(learn=False).fit(x, y)
    before = model.predict(x_test)
    with pytest.raises(ValueError, match="tau"):
        model.set_params(tau=-1.0).fit(x, np.arange(len(x)))
    assert (model.predict(x_test) == before).all()


def test_not_fitted_is_said():
    for ask in (LogisticSoftmaxGPC().predict, LogisticSoftmaxGPC().predict_latent, LogisticSoftmaxGPC().predict_entropy):
        with pytest.raises(NotFittedError):
            ask([[0.0]])


def test_far_from_the_data_it_is_unsure(iris):
    x, x_test, y, _ = iris
    model = LogisticSoftmaxGPC().fit(x, y)
    near, far = model.predict_entropy(x_test), model.predict_entropy(x_test + 100)
    assert far.min() > np.median(near)
    assert (model.predict_latent(x_test + 100)[1] > model.predict_latent(x_test)[1].mean()).all()


@pytest.mark.parametrize("likelihood", ["logistic-softmax", "softmax", "one-vs-each", "gaussian"])
def test_every_likelihood(iris, likelihood):
    x, x_test, y, y_test = iris
    assert LogisticSoftmaxGPC(likelihood=likelihood).fit(x[::2], y[::2]).score(x_test, y_test) > 0.85


@pytest.mark.parametrize("kernel", ["cosine", "linear", "rbf", "matern52", "poly1", "poly2", "rational-quadratic", "two-scale"])
def test_every_kernel(iris, kernel):
    x, x_test, y, y_test = iris
    assert LogisticSoftmaxGPC(kernel=kernel).fit(x, y).score(x_test, y_test) > 0.75


def test_works_in_pipelines_and_grids(iris):
    x, _, y, _ = iris
    steps = make_pipeline(Normalizer(), LogisticSoftmaxGPC())
    grid = GridSearchCV(steps, {"logisticsoftmaxgpc__kernel": ["rbf", "linear"]}, cv=2)
    assert grid.fit(x, y).best_score_ > 0.8


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"kernel": "rbff"}, "there are: None, auto, .*, cosine, linear, rbf,"),
        ({"ard": True}, "need a kernel by its name"),
        ({"class_weight": "even"}, "balanced"),
        ({"likelihood": "x"}, "logistic-softmax"),
        ({"inference": "x"}, "collapsed, direct"),
        ({"tau": 0.0}, "tau"),
        ({"prior_mean": np.nan}, "prior mean"),
        ({"learn_points": 0}, "learn_points"),
        ({"learn_points": 1.5}, "learn_points"),
    ],
)
def test_wrong_settings_are_named(iris, settings, says):
    x, _, y, _ = iris
    with pytest.raises(ValueError, match=says):
        LogisticSoftmaxGPC(**settings).fit(x, y)


def test_digits_are_calibrated():
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x, y, train_size=300, random_state=1, stratify=y)
    model = LogisticSoftmaxGPC().fit(x, y)
    p = model.predict_proba(x_test)
    assert calibration.accuracy(p, y_test) > 0.9
    assert calibration.nll(p, y_test) < 0.3
    assert calibration.ece(p, y_test) < 0.05
    # Three deviations of 300 training and 1,497 test points below the level.
    held = np.mean([label in chosen for label, chosen in zip(y_test, model.predict_set(x_test, level=0.98))])
    assert held >= 0.98 - 3 * np.sqrt(0.98 * 0.02 * (1 / 300 + 1 / 1497))


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_ends_a_long_fit():
    code = (
        "import signal, numpy as np; from pysiskin import LogisticSoftmaxGPC\n"
        # A shell starts background jobs with SIGINT ignored, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "r = np.random.default_rng(0); x = r.normal(size=(1400, 5)); y = r.integers(0, 10, 1400)\n"
        "print('go', flush=True)\n"
        "try: LogisticSoftmaxGPC(learn_points=1400).fit(x, y)\n"
        "except KeyboardInterrupt: print('stopped', flush=True)\n"
        "else: print('finished', flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "go\n"
    time.sleep(0.5)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    said = child.stdout.readline()
    assert (said, time.monotonic() - began < 5) == ("stopped\n", True)
    assert child.wait(timeout=30) == 0


def test_other_threads_run_while_it_fits():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 5)), rng.integers(0, 6, 600)
    work = threading.Thread(target=lambda: LogisticSoftmaxGPC(learn=False).fit(x, y))
    began, ticks = time.monotonic(), 0
    work.start()
    while work.is_alive():
        time.sleep(0.005)
        ticks += 1
    seconds = time.monotonic() - began
    assert seconds > 0.2, "too quick to see anything"
    assert ticks > 20 * seconds


def small_sets():
    """Name, vectors and labels of scikit-learn's small sets; of the digits 300 train."""
    for name, load, train in [
        ("wine", load_wine, 0.5),
        ("breast_cancer", load_breast_cancer, 0.5),
        ("iris", load_iris, 0.5),
        ("digits", load_digits, 300),
    ]:
        x, y = load(return_X_y=True)
        yield pytest.param(train_test_split(x, y, train_size=train, random_state=0, stratify=y), id=name)


@pytest.mark.parametrize("split", list(small_sets()))
def test_the_default_learns_and_row_order_does_not_matter(split):
    x, x_test, y, y_test = split
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        model = LogisticSoftmaxGPC().fit(x[order], y[order])
        p = model.predict_proba(x_test)
        assert calibration.accuracy(p, y_test) >= 0.9
        assert calibration.nll(p, y_test) < 0.5
        found.append(p)
    np.testing.assert_allclose(found[1], found[0], atol=0.01)
    np.testing.assert_allclose(found[2], found[0], atol=0.01)


def test_the_guard_is_recorded(iris):
    x, _, y, _ = iris
    facts = LogisticSoftmaxGPC().fit(x, y).hyperparameters_
    assert 0 < facts["held_out"] < 0.5
    assert isinstance(facts["learned_kept"], bool)
    assert LogisticSoftmaxGPC(likelihood="gaussian").fit(x, y).hyperparameters_["held_out"] is None


def test_labels_that_nothing_explains_are_warned_of():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="nothing was learned"):
        LogisticSoftmaxGPC().fit(rng.normal(size=(60, 3)), rng.permutation(np.arange(60) % 3))


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_sets_that_once_collapsed_do_not_and_row_order_does_not_matter(name):
    from sklearn import datasets
    from sklearn.metrics import log_loss

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
    first = LogisticSoftmaxGPC().fit(x, y)
    p = first.predict_proba(x_test)
    assert log_loss(y_test, p) < 0.2 and first.score(x_test, y_test) > 0.93
    order = np.random.RandomState(1).permutation(len(y))
    assert np.abs(LogisticSoftmaxGPC().fit(x[order], y[order]).predict_proba(x_test) - p).max() < 0.01
    assert first.loo_["accuracy"] > 0.9 and first.loo_["log_loss"] < 0.2


def test_sets_hold_the_true_class(iris):
    x, x_test, y, y_test = iris
    model = LogisticSoftmaxGPC().fit(x, y)
    sets = model.predict_set(x_test, level=0.9)
    assert np.mean([label in chosen for label, chosen in zip(y_test, sets)]) >= 0.85
    assert all(len(chosen) >= 1 for chosen in sets)
    assert all(len(a) <= len(b) for a, b in zip(sets, model.predict_set(x_test, level=0.99)))
    with pytest.raises(ValueError, match="level"):
        model.predict_set(x_test, level=1.0)
