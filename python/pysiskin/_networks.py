"""Networks of other people, kept under a name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from typing import Any, Literal, Sequence

from . import _native

# A process of its own with 4 GB of memory and 60 s of processor time: what a hostile file asks for, it does not get.
_CHILD = """
import sys
from pysiskin import _native
try:
    import resource
    for what, most in ((resource.RLIMIT_AS, 4 << 30), (resource.RLIMIT_CPU, 60)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
except ImportError:
    pass
try:
    print(_native.probe_network(sys.argv[1], sys.argv[2]))
except (OSError, ValueError) as error:
    print(error, file=sys.stderr)
    sys.exit(3)
"""
_REFUSED = 3
_PATIENCE = 300


def add_model(
    file: str | os.PathLike[str],
    name: str,
    *,
    preset: Literal["imagenet", "clip", "dinov2", "efficientnet-lite", "siglip"] = "imagenet",
    output: str | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    bgr: bool = False,
    resize: Literal["squash", "crop"] | None = None,
    pool: Literal["first", "mean"] | None = None,
) -> dict[str, Any]:
    """Keeps an ONNX image network under a name, as ``siskin model add`` does: ``FewShotClassifier(name)`` and the command take it then.

    ``preset`` is the preprocessing of its family; ``mean`` and ``std`` (of red, green and blue, for colours from 0 to 1), ``resize`` and
    ``size`` change it. ``bgr``: it takes blue first. ``output`` gives the features, by default ``image_embeds``, ``pooler_output``,
    ``embeddings`` or the first; ``pool`` says what becomes of several tokens. The file is tried in a process of its own with bounds on
    memory and time. Returns what was found: ``spec``, ``inputs``, ``outputs``, and ``scores``, where the output looks like scores of
    classes, which is a warning too.
    """
    _native.check_network_name(name)
    path = os.fspath(file)
    wishes = {
        "preset": preset,
        "output": output,
        "size": size,
        "mean": None if mean is None else [float(v) for v in mean],
        "std": None if std is None else [float(v) for v in std],
        "bgr": bool(bgr),
        "squash": None if resize is None else {"squash": True, "crop": False}[resize],
        "pool": pool,
    }
    # Threads of NumPy's libraries would take a part of the memory.
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment = os.environ | quiet | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    tried = subprocess.run(
        [sys.executable, "-c", _CHILD, path, json.dumps(wishes)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    if tried.returncode == _REFUSED:
        raise ValueError(tried.stderr.strip())
    if tried.returncode != 0:
        raise ValueError(
            f"{path} cannot be used: to read and to try it takes more than 4 GB of memory or 60 s, or it made the program that "
            f"tried it fail ({tried.returncode})"
        )
    found: dict[str, Any] = json.loads(tried.stdout)
    scores = found["scores"]
    if scores is not None:
        cure = "export the network without its last layer"
        if scores["features"] is not None:
            cure = f"output={scores['features']!r}"
        warnings.warn(
            f"the output {found['spec']['output']!r} looks like scores of {scores['classes']} classes; what they are computed from "
            f"is mostly better: {cure}",
            stacklevel=2,
        )
    _native.keep_network(path, name, json.dumps(found["spec"]))
    return found
