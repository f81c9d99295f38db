"""Pictures of what answers are worth. They need matplotlib (``pip install pysiskin[plot]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import calibration
from ._few_shot import FewShotClassifier, _images

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AGREE, _OVER, _UNDER = "#2f6fb0", "#d6483e", "#e0a526"


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    return pyplot


def plot_reliability(
    p: ArrayLike,
    y: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    bins: int = calibration.PAPER_BINS,
    ax: Axes | None = None,
) -> Axes:
    """How often answers are right, for each degree of confidence. Bars on the diagonal are calibrated.

    ``p``, ``y``, ``classes``, ``bins``: as in :func:`pysiskin.calibration.reliability`. Returns the axes.
    """
    if ax is None:
        ax = _pyplot().subplots(figsize=(4, 4), layout="constrained")[1]
    found = calibration.reliability(p, y, bins, classes=classes)
    some = found["count"] > 0
    lower, width = found["lower"][some], (found["upper"] - found["lower"])[some]
    said, right = found["confidence"][some], found["accuracy"][some]
    both, gap = np.minimum(said, right), np.abs(said - right)
    ax.bar(lower, both, width, align="edge", color=_AGREE, edgecolor="white", label="sure and right")
    for chosen, colour, name in ((said > right, _OVER, "too sure by"), (right > said, _UNDER, "too cautious by")):
        ax.bar(
            lower[chosen], gap[chosen], width[chosen], both[chosen],
            align="edge", color=colour, alpha=0.45, edgecolor="white", label=name,
        )  # fmt: skip
    ax.plot([0, 1], [0, 1], color="0.4", linestyle="--", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.set_title(f"ECE {calibration.ece(p, y, bins, classes=classes):.3f}")
    ax.legend(loc="upper left", fontsize="small", frameon=False)
    return ax


def plot_sets(
    sets: Sequence[Sequence[Any] | None],
    *,
    y: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How many classes are possible, over many answers: of ``predict_set``, where ``None`` is "none of these".

    ``y``: the true classes; then bars show which sets hold them, and the title how often. Returns the axes.
    """
    if ax is None:
        ax = _pyplot().subplots(figsize=(5, 3), layout="constrained")[1]
    sizes = np.array([0 if one is None else len(one) for one in sets])
    if y is not None and len(y) != len(sets):
        raise ValueError(f"{len(sets)} sets have {len(y)} true classes")
    held = np.array([False if one is None else (y is None or label in one) for one, label in zip(sets, y or sizes)])
    places = np.arange(sizes.max(initial=0) + 1)

    def count(chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        return np.bincount(sizes[chosen], minlength=len(places))

    if y is None:
        ax.bar(places, count(np.ones(len(sizes), bool)), color=_AGREE)
    else:
        ax.bar(places, count(held), color=_AGREE, label="the true class is in it")
        ax.bar(places, count(~held), bottom=count(held), color=_OVER, alpha=0.6, label="it is not")
        ax.set_title(f"{held.mean():.0%} of the sets hold the true class")
        ax.legend(fontsize="small", frameon=False)
    ax.set_xticks(places, ["none of\nthese", *map(str, places[1:])])
    ax.set(xlabel="possible classes", ylabel="answers")
    return ax


def plot_nearest(
    model: FewShotClassifier,
    images: Iterable[Any],
    examples: Iterable[Any],
    *,
    count: int = 3,
) -> Figure:
    """Each image with its answer and the examples that are most like it: the reason for the answer.

    ``examples``: the images that ``model`` was fitted to, in their order. Returns the figure.
    """
    asked, shown = _images(images), _images(examples)
    rows = model.answers(asked, explain=count)
    figure: Figure
    figure, grid = _pyplot().subplots(
        len(rows), count + 1, figsize=(1.7 * (count + 1), 1.9 * len(rows)), squeeze=False, layout="constrained"
    )
    for image, row, axes in zip(asked, rows, grid):
        head = "none of these" if row["none_of_these"] else f"{row['label']} {row['probability']:.0%}"
        _picture(axes[0], image, head, bold=True)
        for ax, near in zip(axes[1:], row["nearest"]):
            if near["index"] >= len(shown):
                raise ValueError(f"example {near['index']} is asked for, but {len(shown)} examples were given")
            _picture(ax, shown[near["index"]], f"{near['class']} ({near['kernel']:.2f})")
        for ax in axes[1 + len(row["nearest"]) :]:
            ax.set_axis_off()
    return figure


def _picture(ax: Axes, image: Any, title: str, bold: bool = False) -> None:
    pixels = _pyplot().imread(image) if isinstance(image, str) else image
    ax.imshow(pixels, cmap="gray" if np.ndim(pixels) == 2 else None)
    ax.set_title(title, fontsize="small", fontweight="bold" if bold else None)
    ax.set_axis_off()
