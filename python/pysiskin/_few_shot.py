"""A trained network and a handful of labelled images."""

from __future__ import annotations

import html
import json
import numbers
import os
import warnings
from typing import Any, Iterable, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from . import _native

_Array = NDArray[np.float64]
_Path = str | os.PathLike[str]

# What becomes of Pillow's modes so that nothing transparent turns black; all others become RGB.
_MODES = {"L": "L", "1": "L", "RGBA": "RGBA", "LA": "RGBA", "PA": "RGBA", "P": "RGBA"}


def _pixels(image: Any) -> NDArray[np.uint8]:
    if hasattr(image, "convert") and hasattr(image, "getexif"):
        from PIL import ImageOps

        image = ImageOps.exif_transpose(image)
        if not image.mode.startswith(("I", "F")):
            image = image.convert(_MODES.get(image.mode, "RGB"))
    array = np.asarray(image)
    if array.dtype != np.uint8:
        raise TypeError(
            f"an image has the type {array.dtype}; pixels must be uint8, 0 to 255 "
            "(for floats in 0..1: (255 * image).round().astype('uint8'))"
        )
    return array


def _images(images: Iterable[Any]) -> list[str | NDArray[np.uint8]]:
    """Paths as they are; Pillow images and arrays as uint8 arrays."""
    if isinstance(images, (str, os.PathLike)) or hasattr(images, "convert"):
        raise TypeError("give a list of images, even if it is one: [image]")
    return [os.fspath(image) if isinstance(image, (str, os.PathLike)) else _pixels(image) for image in images]


class FewShotClassifier(ClassifierMixin, BaseEstimator):
    """Classifies images after a few labelled examples of each class.

    Images are paths, uint8 arrays [H, W], [H, W, 3] or [H, W, 4], or Pillow images. What is transparent shows white.

    Parameters
    ----------
    model : str, path or None
        The name of a shipped model ("omniglot-conv4s" for drawn characters, "mini-imagenet-conv4" for photos) or of a network
        that was added by ``siskin model add``, a file written by ``siskin export``, or the folder of a training run. It is
        opened at the first use. None takes the shipped model that suits what the images of the fit look like.
    on_bad_image : {"error", "skip"}
        What a fit does about an image that cannot be read. "skip" leaves it out and reports it in ``skipped_``; ``answers`` has
        a dict with ``error`` for it. Other predictions have one row for each image, so that a bad one is always an error there.

    Attributes
    ----------
    classes_ : array [C], the class labels
    model_ : str, the model that was used: its name or path
    calibration_ : str, what the answers rest on
    skipped_ : list of (image, reason), what the last fit left out: the path, or the place in the list
    left_out_ : (right, of) or None, the examples that were right when left out, one of each class at a time; ``None`` if no
        class has two

    Examples
    --------
    >>> import numpy as np
    >>> from pysiskin import FewShotClassifier
    >>> bar, ring = np.full((28, 28), 255, "uint8"), np.full((28, 28), 255, "uint8")
    >>> bar[4:24, 13:15] = 0
    >>> ring[6:22, 6:22] = 0; ring[8:20, 8:20] = 255
    >>> FewShotClassifier().fit([bar, ring], ["bar", "ring"]).predict([np.roll(bar, 2, axis=1)]).tolist()
    ['bar']
    """

    classes_: NDArray[Any]
    model_: str
    calibration_: str
    left_out_: tuple[int, int] | None
    skipped_: list[tuple[str | int, str]]
    _opened: tuple[str, _native.Network]
    _adapted: tuple[_native.Network, _native.Task]

    def __init__(self, model: _Path | None = None, *, on_bad_image: Literal["error", "skip"] = "error") -> None:
        self.model = model
        self.on_bad_image = on_bad_image

    def _open(self) -> _native.Network:
        if self.model is None:
            if not hasattr(self, "_adapted"):
                raise NotFittedError("no model was named, and one is chosen when the classifier is fitted: fit it, or name a model")
            return self._adapted[0]
        name = os.fspath(self.model)
        if not hasattr(self, "_opened") or self._opened[0] != name:
            self._opened = name, _native.Network.open(name)
        return self._opened[1]

    def _take(
        self, network: _native.Network, task: _native.Task, classes: NDArray[Any]
    ) -> FewShotClassifier:
        self._adapted = network, task
        self.model_ = network.origin()
        self.classes_ = classes
        self.calibration_ = task.calibration()
        self.left_out_ = task.left_out()
        return self

    def _skips(self) -> bool:
        if self.on_bad_image not in ("error", "skip"):
            raise ValueError(f'on_bad_image = {self.on_bad_image!r} must be "error" or "skip"')
        return self.on_bad_image == "skip"

    def _readable(
        self, network: _native.Network, images: list[str | NDArray[np.uint8]], y: NDArray[Any]
    ) -> tuple[list[str | NDArray[np.uint8]], NDArray[Any]]:
        """The images that can be read, with their labels. The others are reported."""
        if y.ndim != 1:
            raise ValueError(f"labels have the shape {y.shape}; expected a list with one label per image")
        if len(images) != len(y):
            raise ValueError(f"{len(images)} images have {len(y)} labels")
        self.skipped_ = []
        if self._skips():
            faults = network.faults(images)
            for place, (image, fault) in enumerate(zip(images, faults)):
                if fault is not None:
                    self.skipped_.append((image if isinstance(image, str) else place, fault))
            good = [place for place, fault in enumerate(faults) if fault is None]
            images, y = [images[place] for place in good], y[good]
        return images, y

    def _answer(self, images: Iterable[Any]) -> tuple[_Array, _Array, _Array, _Array]:
        check_is_fitted(self)
        network, task = self._adapted
        return network.predictions(task, _images(images))

    @property
    def card(self) -> dict[str, Any]:
        """What the model is, as a dict: training data, measured accuracy and calibration."""
        card: dict[str, Any] = json.loads(self._open().card())
        return card

    def embed(self, images: Iterable[Any]) -> _Array:
        """Features of images, [N, D]."""
        return self._open().embed(_images(images))

    def fit(self, images: Iterable[Any], labels: ArrayLike) -> FewShotClassifier:
        """Adapts to labelled images. Returns the classifier."""
        given = _images(images)
        network = _native.Network.suiting(given) if self.model is None else self._open()
        given, y = self._readable(network, given, np.asarray(labels))
        if y.dtype.kind == "f" and np.isnan(y).any():
            raise ValueError("a label is NaN")
        classes, indices = np.unique(y, return_inverse=True)
        task = network.adapt(given, indices.tolist(), [str(c) for c in classes])
        return self._take(network, task, classes)

    def fit_folder(self, folder: _Path) -> FewShotClassifier:
        """Adapts to a folder with one folder of images per class (or any other layout that ``siskin adapt`` reads): the same
        task, to the byte. Returns the classifier."""
        network = _native.Network.suiting_folder(os.fspath(folder)) if self.model is None else self._open()
        task, skipped = network.adapt_folder(os.fspath(folder), self._skips())
        self.skipped_ = list(skipped)
        return self._take(network, task, np.array(task.classes()))

    def partial_fit(self, images: Iterable[Any], labels: ArrayLike) -> FewShotClassifier:
        """Adapts to more labelled images, of the classes that are there or of new ones, which come last in ``classes_``. The
        images of before are not needed again. Without a fit before it is a fit. Returns the classifier."""
        if not hasattr(self, "_adapted"):
            return self.fit(images, labels)
        network, task = self._adapted
        given, y = self._readable(network, _images(images), np.asarray(labels))
        names, indices = np.unique(y, return_inverse=True)
        task = network.add(task, given, indices.tolist(), [str(name) for name in names])
        known = {str(name): name for name in [*names.tolist(), *self.classes_.tolist()]}
        return self._take(network, task, np.array([known[name] for name in task.classes()]))

    def add_class(self, label: Any, images: Iterable[Any]) -> FewShotClassifier:
        """Adapts to one more class, or to more images of one. Returns the classifier."""
        check_is_fitted(self)
        given = _images(images)
        return self.partial_fit(given, [label] * len(given))

    def add_others(self, images: Iterable[Any]) -> FewShotClassifier:
        """Puts other images of the same kind beside the classes, at least ten that belong to none of them, in place of those that
        were there. With a network that was added they say where the classes end: "none of these" may find more strangers. No
        probability changes. Returns the classifier."""
        check_is_fitted(self)
        network, task = self._adapted
        return self._take(network, network.beside(task, _images(images)), self.classes_)

    def remove_class(self, label: Any) -> FewShotClassifier:
        """Forgets a class and its images; two must stay. Returns the classifier."""
        check_is_fitted(self)
        network, task = self._adapted
        task = network.remove(task, str(label))
        kept = [name for name in self.classes_.tolist() if str(name) != str(label)]
        return self._take(network, task, np.array(kept))

    def remove_example(self, example: int | str) -> FewShotClassifier:
        """Forgets one example: by its place (they stand as they were given), or by the path it was given as. The last example of a
        class takes the class with it. Returns the classifier."""
        check_is_fitted(self)
        network, task = self._adapted
        if isinstance(example, str):
            places = [place for place, name in enumerate(task.names()) if name == example]
            if len(places) != 1:
                raise ValueError(f"{len(places)} examples are called {example!r}; give the place of one")
            example = places[0]
        if example < 0:
            raise ValueError(f"there is no example {example}; they are counted from 0")
        task = network.remove_example(task, int(example))
        left = task.classes()
        return self._take(network, task, np.array([name for name in self.classes_.tolist() if str(name) in left]))

    def suggest(
        self, images: Iterable[Any], n: int = 5, *, criterion: Literal["bald", "entropy", "margin", "variance"] = "bald"
    ) -> tuple[NDArray[np.intp], _Array]:
        """The places of the images whose labels would tell the most, the most telling first, and their scores: see
        :meth:`LogisticSoftmaxGPC.suggest`. Then :meth:`partial_fit` with their labels."""
        check_is_fitted(self)
        if not isinstance(n, numbers.Integral) or n < 1:
            raise ValueError(f"n = {n!r} must be a whole number from 1 on")
        network, task = self._adapted
        found = network.suggest(task, _images(images), int(n), criterion)
        return np.array([place for place, _ in found], dtype=np.intp), np.array([score for _, score in found])

    def stopping_advice(self) -> dict[str, Any] | None:
        """Whether more labels would change little: see :meth:`LogisticSoftmaxGPC.stopping_advice`."""
        check_is_fitted(self)
        found = self._adapted[1].advice()
        return None if found is None else dict(zip(("enough", "gain", "at_most", "sentence"), found))

    def predict_proba(self, images: Iterable[Any]) -> _Array:
        """Class probabilities [N, C], columns as in ``classes_``."""
        return self._answer(images)[0]

    def predict(self, images: Iterable[Any], *, none_of_these: bool = False) -> NDArray[Any]:
        """The most probable class of each image, as scikit-learn asks for: one of ``classes_`` even for an image that is none of
        them. With ``none_of_these=True`` such an image has ``None``, by the rule of :meth:`answers` and :meth:`predict_set`,
        and the array holds objects."""
        given = _images(images)
        best = np.argmax(self.predict_proba(given), axis=1)
        labels = self.classes_[best]
        if not none_of_these:
            return labels
        named = labels.astype(object)
        named[[possible is None for possible in self.predict_set(given)]] = None
        return named

    def uncertainty(self, images: Iterable[Any]) -> dict[str, _Array]:
        """Entropy (nats), latent variance and novelty of each image, as a dict of arrays [N]."""
        return dict(zip(("entropy", "latent_variance", "novelty"), self._answer(images)[1:]))

    def predict_set(
        self,
        images: Iterable[Any],
        level: float = _native.DEFAULT_LEVEL,
        abstain: float | None = _native.DEFAULT_ABSTAIN,
        min_probability: float = _native.DEFAULT_MIN_PROBABILITY,
    ) -> list[list[Any] | None]:
        """Of each image the list of classes that are possible, with the rules of ``siskin predict``.

        ``level``: the rate at which the lists hold the true class, for images like those of the calibration.
        ``abstain``: an image that looks stranger than all but this share of true members is none of the classes: it gets
        ``None`` in place of a list. Without abstaining: ``abstain=None`` or 0.
        ``min_probability``: so does an image whose most probable class has less than this.
        What cannot be promised with this calibration is a warning.
        """
        check_is_fitted(self)
        network, task = self._adapted
        decided, notes = network.decisions(
            task, _images(images), level=level, abstain=abstain, min_probability=min_probability
        )
        for note in notes:
            warnings.warn(note, stacklevel=2)
        labels = self.classes_.tolist()
        return [None if none else [labels[c] for c in possible] for possible, none in decided]

    def answers(
        self,
        images: Iterable[Any],
        level: float = _native.DEFAULT_LEVEL,
        abstain: float | None = _native.DEFAULT_ABSTAIN,
        min_probability: float = _native.DEFAULT_MIN_PROBABILITY,
        explain: int = 0,
    ) -> list[dict[str, Any]]:
        """Of each image a dict, as ``siskin predict --format jsonl`` prints it. An image that is none of the classes has
        ``label`` and ``probability`` ``None`` and an empty ``set``. Classes are strings. ``strangers_found`` is the share of
        strangers that are noticed, where the model's validation classes tell."""
        check_is_fitted(self)
        network, task = self._adapted
        given = _images(images)
        faults = network.faults(given) if self._skips() else [None] * len(given)
        good = [image for image, fault in zip(given, faults) if fault is None]
        found = iter(
            network.named_answers(
                task, good, level=level, abstain=abstain, min_probability=min_probability, explain=explain
            )
            if good
            else []
        )
        return [json.loads(next(found)) if fault is None else {"error": fault} for fault in faults]

    def _repr_html_(self) -> str:
        model = getattr(self, "model_", self.model)
        name = html.escape("FewShotClassifier()" if model is None else f"FewShotClassifier({os.fspath(model)!r})")
        if not hasattr(self, "_adapted"):
            return f"<p><b>{name}</b>, not adapted to examples yet</p>"
        counts = self._adapted[1].counts()
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(str(label))}</td><td>{count}</td></tr>"
            for label, count in zip(self.classes_, counts)
        )
        checked = ""
        if self.left_out_ is not None:
            checked = f"Left out, one of each class at a time, {self.left_out_[0]} of {self.left_out_[1]} examples were right. "
        skipped = getattr(self, "skipped_", [])
        if skipped:
            checked += f"{len(skipped)} images were left out: see <code>skipped_</code>. "
        head = "<tr><th style='text-align:left'>class</th><th>examples</th></tr>"
        return f"<p><b>{name}</b></p><table>{head}{rows}</table><p>{checked}{html.escape(self.calibration_)}</p>"

    def save(self, path: _Path) -> None:
        """Writes the task to a file that ``siskin predict`` and :meth:`load` read. The model is not in it."""
        check_is_fitted(self)
        self._adapted[1].save(os.fspath(path))

    @classmethod
    def load(cls, path: _Path, model: _Path | None = None) -> FewShotClassifier:
        """Reads a task file of :meth:`save` or ``siskin adapt``. Class labels are strings then.

        ``model``: where the model of the task is now; by default where it was. Another model is refused.
        """
        network, task = _native.Task.load(os.fspath(path), None if model is None else os.fspath(model))
        origin = task.model() if model is None else model
        assert origin is not None, "a task without a model is not loaded"
        loaded = cls(origin)
        loaded._opened = os.fspath(origin), network
        return loaded._take(network, task, np.array(task.classes()))
