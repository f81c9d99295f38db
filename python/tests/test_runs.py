"""Training and testing runs from Python."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

import pysiskin
from pysiskin import calibration

SMALL = {
    "data.train": "glyphs",
    "seed": 3,
    "episode": {"way": 3, "shot": 1, "query": 3},
    "train": {"episodes": 8, "validate_every": 4, "validate_episodes": 4},
    "test": {"groups": 2, "episodes": 5, "query": 4},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SISKIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def run(cache, tmp_path_factory):
    heard = []
    run = pysiskin.train(SMALL, out=tmp_path_factory.mktemp("runs") / "a", progress=heard.append)
    return run, heard


def test_a_run_is_trained_and_told_of(run):
    run, heard = run
    assert run.finished and (run.episodes, run.of) == (8, 8)
    assert run.best["accuracy"] > 0.2
    assert [e["episode"] for e in heard if e["kind"] == "validation"] == [4, 8]
    assert [e["episode"] for e in heard if e["kind"] == "step"][-1] == 8
    assert run.report.exists() and str(run.folder) in run._repr_html_()
    written = [json.loads(line) for line in (run.folder / "metrics.jsonl").open()]
    assert sum(line["kind"] == "step" for line in written) == 8


def test_a_test_is_what_its_probabilities_say(run):
    result = run[0].test(progress=False)
    assert result.probabilities.shape == (2 * 5 * 3 * 4, 3)
    right = np.argmax(result.probabilities, axis=1) == result.labels
    assert result.accuracy == pytest.approx(right.mean(), abs=1e-12)
    assert result.measures["ece"] == pytest.approx(calibration.ece(result.probabilities, result.labels), abs=1e-12)
    assert len(result.groups) == 2 and "3-way 1-shot" in result.protocol
    assert json.loads((run[0].folder / "test.json").read_text())["over_episodes"]["mean"] == result.accuracy
    again = pysiskin.test(run[0].folder, settings={"test.groups": 1}, progress=False)
    assert (again.probabilities == result.probabilities[: 5 * 3 * 4]).all()
    assert f"{100 * result.accuracy:.2f}" in result._repr_html_()


def test_dotted_and_nested_keys_are_the_same(run, tmp_path):
    flat = {f"{t}.{k}": v for t in ("episode", "train", "test") for k, v in SMALL[t].items()}
    other = pysiskin.train({"data.train": "glyphs", "seed": 3} | flat, out=tmp_path / "b", progress=False)
    weights = [r.folder / "best.safetensors" for r in (run[0], other)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_mistakes_are_sentences(cache, tmp_path):
    with pytest.raises(ValueError, match="train.episodes: it must be a whole number"):
        pysiskin.train({"train.episodes": "many"}, out=tmp_path / "x", progress=False)
    with pytest.raises(ValueError, match="out="):
        pysiskin.train(SMALL)
    with pytest.raises(ValueError, match="holds no run"):
        pysiskin.test(tmp_path, progress=False)
    with pytest.raises(ValueError, match="resume goes on"):
        pysiskin.train(tmp_path, resume=True, settings={"seed": 1})


def test_a_listener_that_fails_stops_the_run(cache, tmp_path):
    def listen(event):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pysiskin.train(SMALL, out=tmp_path / "c", progress=listen)
    resumed = pysiskin.train(tmp_path / "c", resume=True, progress=False)
    assert resumed.finished


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C as a signal")
def test_ctrl_c_saves_and_the_run_goes_on(run, tmp_path):
    code = (
        "import pysiskin, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"config = {SMALL!r} | {{'train': {{'episodes': 100000, 'validate_every': 0}}}}\n"
        "def listen(event):\n"
        "    print('on', flush=True)\n"
        "try:\n"
        f"    pysiskin.train(config, out={str(tmp_path / 'd')!r}, progress=listen)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "on\n"
    child.send_signal(signal.SIGINT)
    child.stdout.read()
    assert child.wait(timeout=60) == 7
    assert (tmp_path / "d" / "last.safetensors").exists()
