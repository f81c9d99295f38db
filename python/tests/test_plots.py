"""Plots show the numbers they are made of."""

import builtins

import numpy as np
import pytest

import pysiskin
from pysiskin import FewShotClassifier, calibration

pytest.importorskip("matplotlib").use("agg")


@pytest.fixture
def answers():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    y = np.array([rng.choice(3, p=row) for row in p])
    return p, y


def test_bars_are_as_high_as_accuracy(answers):
    p, y = answers
    names = np.array(["a", "b", "c"])
    ax = pysiskin.plot_reliability(p, names[y], classes=names, bins=10)
    found = calibration.reliability(p, y, 10)
    some = found["count"] > 0
    tops = {}
    for bar in ax.patches:
        lower, top = round(bar.get_x(), 6), bar.get_y() + bar.get_height()
        tops[lower] = max(tops.get(lower, 0.0), top)
    wanted = np.maximum(found["accuracy"], found["confidence"])[some]
    np.testing.assert_allclose([tops[round(x, 6)] for x in found["lower"][some]], wanted, atol=1e-9)
    assert f"{calibration.ece(p, y, 10):.3f}" in ax.get_title()


def test_sets_are_counted():
    sets = [["a"], ["a", "b"], None, ["b"], ["a", "b"]]
    ax = pysiskin.plot_sets(sets, y=["a", "b", "a", "a", "c"])
    assert ax.get_title().startswith("40%")
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == [0, 1, 1, 1, 1, 1]
    assert [bar.get_height() for bar in pysiskin.plot_sets(sets).patches] == [1, 2, 2]
    with pytest.raises(ValueError, match="5 sets have 1"):
        pysiskin.plot_sets(sets, y=["a"])


def test_nearest_examples_are_shown():
    bar, ring = np.full((28, 28), 255, "uint8"), np.full((28, 28), 255, "uint8")
    bar[4:24, 13:15] = 0
    ring[6:22, 6:22] = 0
    ring[8:20, 8:20] = 255
    examples = [bar, ring]
    model = FewShotClassifier().fit(examples, ["bar", "ring"])
    figure = pysiskin.plot_nearest(model, [np.roll(bar, 2, axis=1)], examples, count=2)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[0].startswith(("bar", "none")) and titles[1].startswith("bar (")
    assert (figure.axes[1].images[0].get_array() == bar).all()
    with pytest.raises(ValueError, match="1 examples were given"):
        pysiskin.plot_nearest(model, [ring], [bar])


def test_without_matplotlib_it_says_what_is_missing(answers, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        pysiskin.plot_reliability(*answers)
