# %% [markdown]
# # A tour of pysiskin
#
# Few examples, honest probabilities: images, vectors, and a training run of your own. This notebook is made by
# `scripts/make_notebook.py` from `python/examples/tour.py`; nothing of it was edited by hand.

# %%
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

import pysiskin
from pysiskin import FewShotClassifier, LogisticSoftmaxGPC, calibration

print("pysiskin", pysiskin.__version__)

# %% [markdown]
# ## Images: two drawings of each class are enough
#
# Drawings made here: bars, crosses, rings. The network in the package has seen other characters, none of these.

# %%
rng = np.random.default_rng(2)


def drawing(kind):
    """A shape somewhere near the middle, black on white."""
    y, x = np.mgrid[:40, :40] - 20 - rng.integers(-3, 4, (2, 1, 1))
    size, line = np.maximum(abs(x), abs(y)), 1
    on = {
        "bar": (abs(x) <= line) & (abs(y) <= 13),
        "cross": (abs(abs(x) - abs(y)) <= line) & (size <= 12),
        "ring": abs(np.hypot(x, y) - 10) <= line,
        "stairs": (abs(x - 4 * np.round(y / 4)) <= line) & (size <= 12),
    }[kind]
    return np.where(on, 0, 255).astype("uint8")


labels = ["bar", "bar", "cross", "cross", "ring", "ring"]
examples = [drawing(kind) for kind in labels]
model = FewShotClassifier().fit(examples, labels)
model

# %% [markdown]
# Ask about another ring and about something it has never been shown. `predict` answers with one of the classes, as scikit-learn
# asks for; with `none_of_these=True` it may also say that it is none of them.

# %%
new = [drawing("ring"), drawing("stairs")]
print(model.predict(new), model.predict(new, none_of_these=True))
print(model.predict_set(new, level=0.95))

# %% [markdown]
# The examples that an answer rests on:

# %%
figure = pysiskin.plot_nearest(model, new, examples)

# %% [markdown]
# One broken file among many need not stop the work:

# %%
with tempfile.TemporaryDirectory() as folder:
    broken = Path(folder, "broken.png")
    broken.write_bytes(b"no image")
    careful = FewShotClassifier(on_bad_image="skip").fit([*examples, str(broken)], [*labels, "ring"])
    print([(Path(image).name, reason.split(": ", 1)[1]) for image, reason in careful.skipped_])

# %% [markdown]
# ## Vectors: a classifier for scikit-learn
#
# Thirteen measurements of wines from three growers, 60 of them to learn from. No setting, no random seed.

# %%
x, y = load_wine(return_X_y=True)
names = np.array(["Barolo", "Grignolino", "Barbera"])
x_train, x_test, y_train, y_test = train_test_split(x, names[y], train_size=60, random_state=0, stratify=y)
wines = LogisticSoftmaxGPC().fit(x_train, y_train)
p = wines.predict_proba(x_test)
print(f"accuracy {wines.score(x_test, y_test):.3f}")
print(f"log-loss {calibration.nll(p, y_test, classes=wines.classes_):.3f}")
print(f"ECE      {calibration.ece(p, y_test, classes=wines.classes_):.3f}")

# %%
ax = pysiskin.plot_reliability(p, y_test, classes=wines.classes_)

# %%
ax = pysiskin.plot_sets(wines.predict_set(x_test, level=0.9), y=y_test.tolist())

# %% [markdown]
# ## A training run
#
# On characters that the program draws itself, small enough for a notebook. The same config gives the same bytes, on any number of
# threads, stopped and resumed anywhere; `siskin train` does the same.

# %%
config = {
    "data.train": "glyphs",
    "episode": {"way": 5, "shot": 1, "query": 5},
    "train": {"episodes": 60, "validate_every": 30, "validate_episodes": 20},
    "test": {"groups": 1, "episodes": 50},
}
with tempfile.TemporaryDirectory() as folder:
    run = pysiskin.train(config, out=Path(folder, "run"), progress=False)
    result = run.test(progress=False)
    print(sorted(path.name for path in run.folder.iterdir() if "tfevents" not in path.name))
print(f"{result.protocol}: {100 * result.accuracy:.1f} ± {100 * result.interval:.1f} %")

# %%
ax = pysiskin.plot_reliability(result.probabilities, result.labels)
