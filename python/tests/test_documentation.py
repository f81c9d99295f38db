"""What the documentation shows is true: doctests, and stubs that agree with the module."""

import doctest
import subprocess
import sys

import pytest

import pysiskin
from pysiskin import _estimator, _few_shot, calibration


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
