"""Calibrated few-shot classification with deep-kernel Gaussian processes.

>>> from pysiskin import LogisticSoftmaxGPC, FewShotClassifier, calibration
"""

from . import calibration
from ._estimator import LogisticSoftmaxGPC
from ._few_shot import FewShotClassifier
from ._label_sets import LabelSetGPC
from ._native import VERSION as __version__
from ._onnx import use_onnxruntime
from ._networks import add_model
from ._plots import plot_nearest, plot_reliability, plot_sets
from ._runs import Run, Test, test, train

__all__ = [
    "FewShotClassifier",
    "LabelSetGPC",
    "LogisticSoftmaxGPC",
    "Run",
    "Test",
    "__version__",
    "add_model",
    "calibration",
    "plot_nearest",
    "plot_reliability",
    "plot_sets",
    "test",
    "train",
    "use_onnxruntime",
]
