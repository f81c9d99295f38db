"""Calibrated few-shot classification with deep-kernel Gaussian processes.

>>> from pysiskin import LogisticSoftmaxGPC, FewShotClassifier, calibration
"""

from . import calibration
from ._estimator import LogisticSoftmaxGPC
from ._few_shot import FewShotClassifier

__all__ = ["FewShotClassifier", "LogisticSoftmaxGPC", "calibration"]
