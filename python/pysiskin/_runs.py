"""Training and testing runs, as ``siskin train`` and ``siskin test`` do them."""

from __future__ import annotations

import html
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._few_shot import FewShotClassifier

_Path = str | os.PathLike[str]
_Listener = Callable[[dict[str, Any]], None]


class _Progress:
    """A bar of tqdm where it is installed, else a line on standard error every half minute."""

    def __init__(self, what: str) -> None:
        self.what, self.told = what, time.monotonic()
        self.bar: Any = None
        self.tqdm: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self.tqdm = tqdm

    def __call__(self, event: dict[str, Any]) -> None:
        if event["kind"] == "step":
            self.step(event)
        elif event["kind"] == "validation" and event["accuracy"] is not None and self.bar is not None:
            self.bar.set_postfix_str(f"validation {100 * event['accuracy']:.2f} %")
        elif event["kind"] == "notice":
            print(f"episode {event['episode']}: Attention: {event['text']}.", file=sys.stderr)

    def step(self, event: dict[str, Any]) -> None:
        if self.tqdm is not None:
            if self.bar is None:
                self.bar = self.tqdm(total=event["of"], desc=self.what, unit="episode")
            self.bar.update(event["episode"] - self.bar.n)
        elif time.monotonic() - self.told >= 30:
            self.told = time.monotonic()
            print(f"{self.what}: {event['episode']} of {event['of']} episodes", file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def _listening(progress: bool | _Listener, what: str) -> tuple[Callable[[str], None] | None, Callable[[], None]]:
    """What the native part calls, and what ends it."""
    if progress is False:
        return None, lambda: None
    shown = _Progress(what) if progress is True else progress
    close = shown.close if isinstance(shown, _Progress) else lambda: None
    return lambda text: shown(json.loads(text)), close


def _settings(keys: Mapping[str, Any] | None, inside: str = "") -> list[str]:
    """``{"train": {"episodes": 5}}`` or ``{"train.episodes": 5}`` as ``train.episodes=5``."""
    found: list[str] = []
    for key, value in (keys or {}).items():
        if isinstance(value, Mapping):
            found += _settings(value, f"{inside}{key}.")
        else:
            # JSON is TOML for text, numbers, truth values and lists of them.
            found.append(f"{inside}{key}={json.dumps(value)}")
    return found


@dataclass(frozen=True)
class Test:
    """What a test found. ``accuracy`` has the 95 % ``interval`` over episodes; ``probabilities`` [N, C] are as predicted, and
    ``labels`` [N] the true columns (both ``None`` where episodes differ in their number of classes)."""

    model: Path
    protocol: str
    accuracy: float
    interval: float
    groups: list[float]
    measures: dict[str, float] | None
    probabilities: NDArray[np.float64] | None = field(repr=False)
    labels: NDArray[np.intp] | None = field(repr=False)

    def _repr_html_(self) -> str:
        rows = {"accuracy": f"{100 * self.accuracy:.2f} ± {100 * self.interval:.2f} %"}
        for name in ("ece", "mce", "nll", "brier"):
            if self.measures is not None:
                rows[name.upper() if name != "brier" else "Brier"] = f"{self.measures[name]:.3f}"
        return _table(f"{self.model}: {self.protocol}", rows)


@dataclass(frozen=True)
class Run:
    """A training run in its ``folder``. ``best`` is the validation that chose the model, if there was one."""

    folder: Path
    episodes: int
    of: int
    finished: bool
    best: dict[str, Any] | None

    @property
    def report(self) -> Path:
        """The page about it, once training has finished."""
        return self.folder / "report.html"

    def test(self, **options: Any) -> Test:
        """Tests its best model: see :func:`pysiskin.test`."""
        return test(self, **options)

    def classifier(self) -> FewShotClassifier:
        """A classifier by its best model, to be adapted to images."""
        return FewShotClassifier(self.folder)

    def _repr_html_(self) -> str:
        rows = {"training episodes": f"{self.episodes} of {self.of}" + ("" if self.finished else ", stopped")}
        if self.best is not None:
            rows["best validation"] = f"{100 * self.best['accuracy']:.2f} % at episode {self.best['episode']}"
        return _table(str(self.folder), rows)


def _table(title: str, rows: Mapping[str, str]) -> str:
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(k)}</th><td style='text-align:left'>{html.escape(v)}</td></tr>"
        for k, v in rows.items()
    )
    return f"<p><b>{html.escape(title)}</b></p><table>{cells}</table>"


def train(
    config: _Path | Mapping[str, Any],
    out: _Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: bool | _Listener = True,
) -> Run:
    """Trains by a config, as ``siskin train`` does: the same config gives the same bytes.

    ``config``: a TOML file, or its keys as a dict (``{"train": {"episodes": 500}}``); with ``resume=True`` the folder of a run
    that was stopped.
    ``out``: the run folder; by default ``runs/`` and the name of the config file.
    ``settings``: keys that override those of the config.
    ``progress``: a bar by tqdm (where it is installed, else a line every half minute), nothing, or a function that gets a dict
    for everything that happens.

    Ctrl-C saves, stops and raises ``KeyboardInterrupt``; ``resume=True`` goes on as if nothing had happened.
    """
    keys = _settings(settings)
    path: str | None = None
    if isinstance(config, Mapping):
        if out is None or resume:
            raise ValueError("with a dict, say where the run shall be: out=")
        keys = _settings(config) + keys
    elif resume:
        if settings or out is not None:
            raise ValueError("resume goes on as the run began: neither out nor settings can be given")
        out = config
    else:
        path = os.fspath(config)
        out = Path("runs", Path(path).stem) if out is None else out
    assert out is not None
    on, close = _listening(progress, "training")
    try:
        found = json.loads(_native.train(path, os.fspath(out), keys, resume, on))
    finally:
        close()
    return Run(folder=Path(out), **found)


def test(
    model: Run | _Path,
    *,
    data: str | None = None,
    settings: Mapping[str, Any] | None = None,
    episodes: _Path | None = None,
    progress: bool | _Listener = True,
) -> Test:
    """Tests a model on episodes of classes it has never seen, as ``siskin test`` does.

    ``model``: a :class:`Run`, the folder of one, a file of ``siskin export`` or the name of a shipped model.
    ``data``: other data than those of the run; a model file has none of its own.
    ``settings``: keys such as ``{"test.shot": 5}``.
    ``episodes``: a list that ``siskin data episodes`` wrote.

    Into a run folder it writes what ``siskin test`` writes: ``test.json``, ``test-episodes.jsonl``, ``report.html``.
    """
    path = model.folder if isinstance(model, Run) else Path(model)
    on, close = _listening(progress, "testing")
    try:
        said, raw = _native.test(
            os.fspath(path), data, _settings(settings), None if episodes is None else os.fspath(episodes), on
        )
    finally:
        close()
    found = json.loads(said)
    over = found["report"]["over_episodes"]
    return Test(
        model=path,
        protocol=found["protocol"],
        accuracy=over["mean"],
        interval=over["spread"],
        groups=found["report"]["groups"],
        measures=found.get("measures"),
        probabilities=None if raw is None else raw[0],
        labels=None if raw is None else np.array(raw[1]),
    )



# pytest collects what is called test: these are not tests.
setattr(Test, "__test__", False)
setattr(test, "__test__", False)
