"""What the documentation shows is true: doctests, and stubs that agree with the module."""

import doctest
import subprocess
import sys

import pytest

import pysiskin
from pysiskin import _estimator, _few_shot, _native, calibration


@pytest.mark.parametrize("module", [pysiskin, _estimator, _few_shot, calibration], ids=lambda m: m.__name__)
def test_the_examples_in_the_source_run(module):
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0


def test_the_stubs_agree_with_the_module():
    pytest.importorskip("mypy")
    check = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "pysiskin._native"], capture_output=True, text=True
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_version_is_that_of_the_program():
    assert pysiskin.__version__ == _native.VERSION
    from importlib.metadata import version

    assert version("pysiskin") == pysiskin.__version__


def test_annotations_name_what_the_native_part_knows():
    """Every choice that the native part has stands in the types, and every choice of the types is taken."""
    from typing import get_args

    forms = {name for name in _native.KERNELS if not set(name) & set("+*")}  # sums and products are examples of what can be written
    assert set(get_args(_estimator.Kernel)) == {"auto"} | forms
    assert set(get_args(_estimator.Likelihood)) == set(_native.LIKELIHOODS)
    assert set(get_args(_estimator.Inference)) == set(_native.INFERENCES)

    import numpy as np

    x, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    for kernel in get_args(_estimator.Kernel):
        pysiskin.LogisticSoftmaxGPC(kernel=kernel, learn=False).fit(x, y)
    for likelihood in get_args(_estimator.Likelihood):
        pysiskin.LogisticSoftmaxGPC(likelihood=likelihood, learn=False).fit(x, y)
    for inference in get_args(_estimator.Inference):
        pysiskin.LogisticSoftmaxGPC(inference=inference, learn=False).fit(x, y)
