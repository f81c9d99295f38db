"""What runs added ONNX networks."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from . import _native

_LIBRARY = {"darwin": "libonnxruntime*.dylib", "win32": "onnxruntime.dll"}


def use_onnxruntime() -> str:
    """Runs networks that were added by ``siskin model add`` by the installed package ``onnxruntime`` (1.23 or later), from the next one that
    is opened on. Without it they are run by rten, which is inside: several times slower on convolutions, equal up to the last digits.
    Returns the path of the library. The command ``siskin`` does the same where ``ORT_DYLIB_PATH`` has that path.
    """
    package = importlib.util.find_spec("onnxruntime")
    if package is None or not package.submodule_search_locations:
        raise ImportError("the package onnxruntime is not installed: pip install onnxruntime")
    folder = Path(package.submodule_search_locations[0]) / "capi"
    found = sorted(folder.glob(_LIBRARY.get(sys.platform, "libonnxruntime.so*")))
    if not found:
        raise ImportError(f"the package onnxruntime has no library in {folder}: install it again")
    os.environ["ORT_DYLIB_PATH"] = str(found[0])
    if _native.onnx_engine() != "ONNX Runtime":
        raise ImportError("this build of pysiskin has no ONNX Runtime (the cargo feature `ort` is off)")
    return str(found[0])
