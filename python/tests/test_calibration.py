"""Calibration functions against plain NumPy."""

import numpy as np
import pytest

from pysiskin import calibration


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(4), size=500)
    y = np.array([rng.choice(4, p=row) for row in p])
    return p, y


def plain_ece(p, y, bins):
    confidence, right = p.max(1), p.argmax(1) == y
    edges, gaps = np.linspace(0, 1, bins + 1), []
    for low, high in zip(edges, edges[1:]):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gaps.append((inside.mean(), abs(right[inside].mean() - confidence[inside].mean())))
    return sum(w * g for w, g in gaps), max(g for _, g in gaps)


def test_measures_equal_numpy(data):
    p, y = data
    one_hot = np.eye(4)[y]
    assert calibration.accuracy(p, y) == pytest.approx((p.argmax(1) == y).mean())
    assert calibration.nll(p, y) == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean())
    assert calibration.brier(p, y) == pytest.approx(((p - one_hot) ** 2).sum(1).mean())
    for bins in (10, 15):
        ece, mce = plain_ece(p, y, bins)
        assert calibration.ece(p, y, bins) == pytest.approx(ece)
        assert calibration.mce(p, y, bins) == pytest.approx(mce)
    assert 0 <= calibration.adaptive_ece(p, y) < 0.2
    assert 0 <= calibration.classwise_ece(p, y) < 0.2


def test_reliability_sums_to_the_ece(data):
    p, y = data
    bins = calibration.reliability(p, y)
    weights = bins["count"] / len(y)
    assert (weights * abs(bins["accuracy"] - bins["confidence"])).sum() == pytest.approx(calibration.ece(p, y))
    assert bins["count"].sum() == len(y)


def test_temperature_undoes_sharpening(data):
    p, y = data
    sharp = calibration.sharpen(p, 0.25)
    np.testing.assert_allclose(sharp, (p**4) / (p**4).sum(1, keepdims=True), rtol=1e-9)
    t = calibration.fit_temperature(sharp, y)
    assert t == pytest.approx(4 * calibration.fit_temperature(p, y), rel=1e-3)
    assert calibration.nll(calibration.sharpen(sharp, t), y) < calibration.nll(sharp, y)


@pytest.mark.parametrize("rule", ["lac", "aps"])
def test_conformal_sets_cover(data, rule):
    p, y = data
    sets = calibration.conformal_sets(p[:250], y[:250], p[250:], alpha=0.2, rule=rule)
    covered = np.mean([label in s for label, s in zip(y[250:], sets)])
    assert covered > 0.7


@pytest.mark.parametrize(
    "p, y, says",
    [
        ([[0.5, 0.5]], [2], "2"),
        ([[0.5, 0.4]], [0], "sum|row"),
        ([[np.nan, 1.0]], [0], "NaN|nan|finite"),
        ([0.5, 0.5], [0], "dimensions"),
        ([[0.5, 0.5]], [-1], "negative"),
        ([[0.5, 0.5]], [0.5], "whole numbers"),
    ],
)
def test_bad_input_is_named(p, y, says):
    with pytest.raises(ValueError, match=says):
        calibration.ece(p, y)


def test_no_best_temperature_is_a_warning():
    with pytest.warns(UserWarning, match="no temperature is best"):
        calibration.fit_temperature([[0.9, 0.1], [0.2, 0.8]], [0, 1])


def test_labels_may_be_of_any_kind():
    p = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1]]
    numbers, names = [0, 1, 2, 1], np.array(["wren", "crane", "finch"])
    given = names[numbers]
    for measure in (
        calibration.accuracy, calibration.nll, calibration.brier, calibration.ece, calibration.mce,
        calibration.adaptive_ece, calibration.classwise_ece, calibration.fit_temperature,
    ):  # fmt: skip
        assert measure(p, given, classes=names) == measure(p, numbers)
    for key, values in calibration.reliability(p, numbers).items():
        np.testing.assert_array_equal(calibration.reliability(p, given, classes=names)[key], values)
    sets = calibration.conformal_sets(p * 10, numbers * 10, p, 0.3)
    assert calibration.conformal_sets(p * 10, list(given) * 10, p, 0.3, classes=names) == [
        [names[c] for c in one] for one in sets
    ]
    with pytest.raises(ValueError, match="no column is of the class 'owl'"):
        calibration.ece(p, ["owl", "wren", "wren", "wren"], classes=names)
    with pytest.raises(ValueError, match="classes=model.classes_"):
        calibration.ece(p, given)
    with pytest.raises(ValueError, match="3 columns"):
        calibration.ece(p, given, classes=["wren", "crane"])
    with pytest.raises(ValueError, match="named twice"):
        calibration.ece(p, given, classes=["wren", "wren", "finch"])
