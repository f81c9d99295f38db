"""FewShotClassifier on drawings made here: two bars, crosses and rings each, then another ring.

    python python/examples/shapes.py
"""

import tempfile
from pathlib import Path

import numpy as np

from pysiskin import FewShotClassifier

rng = np.random.default_rng(2)


def drawing(kind):
    """A shape somewhere near the middle, black on white."""
    y, x = np.mgrid[:40, :40] - 20 - rng.integers(-3, 4, (2, 1, 1))
    size, line = np.maximum(abs(x), abs(y)), 1
    on = {
        "bar": (abs(x) <= line) & (abs(y) <= 13),
        "cross": (abs(abs(x) - abs(y)) <= line) & (size <= 12),
        "ring": abs(np.hypot(x, y) - 10) <= line,
    }[kind]
    return np.where(on, 0, 255).astype("uint8")


# %% Adapt: a network that has seen other characters, six drawings, no training
labels = ["bar", "bar", "cross", "cross", "ring", "ring"]
model = FewShotClassifier().fit([drawing(kind) for kind in labels], labels)
print(model.calibration_)

# %% Ask
new = [drawing("ring")]
print(model.predict(new), model.predict_proba(new).round(3))
print(model.predict_set(new, level=0.95))
print(model.uncertainty(new))

# %% Keep: `siskin predict` reads the file too
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder, "shapes.task"))
    print(FewShotClassifier.load(Path(folder, "shapes.task")).predict(new))
