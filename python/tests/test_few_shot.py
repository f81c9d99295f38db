"""FewShotClassifier on drawings made here."""

import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from pysiskin import FewShotClassifier


def drawing(kind, rng):
    """A bar, a ring or a cross, shaky, black on white."""
    image = np.full((40, 40), 255, "uint8")
    i, j = rng.integers(-3, 4, 2)
    if kind == "bar":
        image[6 + i : 34 + i, 18 + j : 21 + j] = 0
    elif kind == "ring":
        image[8 + i : 32 + i, 8 + j : 32 + j] = 0
        image[11 + i : 29 + i, 11 + j : 29 + j] = 255
    else:
        for k in range(-12, 13):
            for s in (1, -1):
                image[20 + k + i : 23 + k + i, 20 + s * k + j : 23 + s * k + j] = 0
    return image


def pgm(path, image):
    path.write_bytes(b"P5 40 40 255\n" + image.tobytes())


KINDS = ["bar", "cross", "ring"]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    images = [drawing(kind, rng) for kind in KINDS for _ in range(3)]
    return FewShotClassifier().fit(images, [kind for kind in KINDS for _ in range(3)])


@pytest.fixture(scope="module")
def queries():
    rng = np.random.default_rng(1)
    return [drawing(kind, rng) for kind in KINDS for _ in range(5)], [kind for kind in KINDS for _ in range(5)]


@pytest.fixture(scope="module")
def mixed():
    """A bar within a ring: of a clear drawing the probability can be 1 to the last digit, of these it is not."""
    rng = np.random.default_rng(3)
    return [np.minimum(drawing("bar", rng), drawing("ring", rng)) for _ in range(5)]


def test_it_knows_what_it_was_shown(fitted, queries):
    images, truth = queries
    assert list(fitted.classes_) == KINDS
    assert fitted.score(images, truth) > 0.9
    p = fitted.predict_proba(images)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-9)
    assert fitted.calibration_


def test_sets_and_uncertainty(fitted, queries, mixed):
    images, truth = queries
    sets = fitted.predict_set(images, level=0.9)
    assert all(s is None or set(s) <= set(KINDS) for s in sets)
    assert np.mean([s is not None and t in s for s, t in zip(sets, truth)]) > 0.8
    # A stricter level can only add classes.
    wide = fitted.predict_set(images, level=0.99, abstain=None)
    assert all(set(s or []) <= set(w) for s, w in zip(sets, wide))
    assert fitted.predict_set(mixed, abstain=None, min_probability=1.0) == [None] * 5
    found = fitted.uncertainty(images)
    assert all(found[k].shape == (15,) for k in ("entropy", "latent_variance", "novelty"))
    p = fitted.predict_proba(images)
    np.testing.assert_allclose(found["entropy"], -(p * np.log(np.maximum(p, 1e-300))).sum(1), atol=1e-9)
    with pytest.raises(ValueError, match="level"):
        fitted.predict_set(images, level=1.5)


def test_the_shipped_model_is_chosen_by_what_the_images_look_like(fitted, tmp_path, recwarn):
    assert fitted.model is None and fitted.model_ == "omniglot-conv4s"
    photos = list(np.random.default_rng(2).integers(0, 256, (4, 60, 60, 3), dtype="uint8"))
    kinds = ["cat", "cat", "dog", "dog"]
    model = FewShotClassifier().fit(photos, kinds)
    assert model.model_ == model.card["name"] == "mini-imagenet-conv4"
    assert model.embed(photos[:1]).shape[0] == 1
    from PIL import Image

    for i, kind in enumerate(kinds):
        (tmp_path / kind).mkdir(exist_ok=True)
        Image.fromarray(photos[i]).save(tmp_path / kind / f"{i}.png")
    folder = FewShotClassifier().fit_folder(tmp_path)
    assert folder.model_ == "mini-imagenet-conv4" and (folder.predict_proba(photos) == model.predict_proba(photos)).all()
    assert not [w for w in recwarn if "has seen" in str(w.message)]
    for ask in (lambda: FewShotClassifier().card, lambda: FewShotClassifier().embed(photos)):
        with pytest.raises(NotFittedError, match="fit it, or name a model"):
            ask()


def test_photos_given_to_a_model_of_drawings_are_a_warning(fitted, queries, recwarn):
    photos = list(np.random.default_rng(2).integers(0, 256, (2, 60, 60, 3), dtype="uint8"))
    with pytest.warns(UserWarning, match="has seen drawn characters, but all 2 images look like photos"):
        FewShotClassifier("omniglot-conv4s").fit(photos, ["cat", "dog"])
    for ask in (fitted.predict, fitted.predict_set, fitted.embed):
        with pytest.warns(UserWarning, match="this image looks like a photo"):
            ask(photos[:1])
    recwarn.clear()
    fitted.predict(queries[0])
    assert not recwarn.list


def test_answers_never_contradict_themselves(fitted, queries, mixed):
    images = queries[0]
    for row in fitted.answers(mixed, abstain=None, min_probability=1.0):
        assert row["none_of_these"] and row["label"] is None and row["probability"] is None and row["set"] == []
    for row, label in zip(fitted.answers(images, abstain=None), fitted.predict(images)):
        assert row["label"] == label and label in row["set"]
        assert sum(row["probabilities"][name] for name in row["set"]) >= 0.9 - 1e-9
    right, of = fitted.left_out_
    assert 0 <= right <= of


def test_what_sets_cannot_promise_is_a_warning(fitted, queries):
    with pytest.warns(UserWarning, match="too few for this level"):
        sets = fitted.predict_set(queries[0][:1], level=0.99999, abstain=None)
    assert sets == [KINDS]


def test_paths_colour_and_folders(fitted, queries, tmp_path):
    rng = np.random.default_rng(2)
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        pgm(tmp_path / kind / "1.pgm", drawing(kind, rng))
    model = FewShotClassifier().fit_folder(tmp_path)
    assert list(model.classes_) == KINDS
    image = queries[0][0]
    pgm(tmp_path / "query.pgm", image)
    colour = np.repeat(image[:, :, None], 3, axis=2)
    p = [model.predict_proba([x])[0] for x in (image, tmp_path / "query.pgm", colour)]
    np.testing.assert_allclose(p[1], p[0], atol=1e-12)
    np.testing.assert_allclose(p[2], p[0], atol=1e-6)


def test_memory_and_files_give_the_same_features(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(5)
    smooth = np.kron(rng.integers(0, 256, (20, 30, 4)), np.ones((17, 17, 1))).astype("uint8")  # 340 x 510: made smaller
    model = FewShotClassifier("omniglot-conv4s")
    for mode, array in {"L": smooth[:, :, 0], "RGB": smooth[:, :, :3], "RGBA": smooth}.items():
        pillow = image.fromarray(array.copy())
        assert pillow.mode == mode
        pillow.save(tmp_path / f"{mode}.png")
        features = model.embed([tmp_path / f"{mode}.png", array, pillow])
        assert (features == features[0]).all(), mode
    # Transparent is white, not black; palettes and turned photos are as in a file.
    clear = image.new("LA", (40, 40), (0, 0))
    assert (model.embed([clear]) == model.embed([np.full((40, 40, 3), 255, "uint8")])).all()
    palette = image.fromarray(smooth[:, :, :3].copy()).quantize(16)
    palette.save(tmp_path / "palette.png")
    exif = image.Exif()
    exif[0x0112] = 6
    image.fromarray(smooth[:, :, 0].copy()).save(tmp_path / "turned.png", exif=exif)
    for name in ("palette.png", "turned.png"):
        features = model.embed([tmp_path / name, image.open(tmp_path / name)])
        assert (features[0] == features[1]).all(), name


def test_mistakes_are_named(fitted, queries, tmp_path):
    image = queries[0][0]
    with pytest.raises(TypeError, match="uint8"):
        fitted.predict([image / 255.0])
    with pytest.raises(TypeError, match="list of images"):
        fitted.predict("a.png")
    with pytest.raises(OSError, match="nowhere.png"):
        fitted.predict(["nowhere.png"])
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="bad.png"):
        fitted.predict([tmp_path / "bad.png"])
    with pytest.raises(ValueError, match="shape"):
        fitted.predict([np.zeros((4, 4, 5), "uint8")])
    with pytest.raises(ValueError, match="shape"):
        fitted.predict([np.zeros((0, 4), "uint8")])
    with pytest.raises(ValueError, match="no image"):
        fitted.predict([])
    with pytest.raises(ValueError, match="2 images have 1 labels"):
        FewShotClassifier().fit([image, image], ["one"])
    with pytest.raises(ValueError, match="at least two classes"):
        FewShotClassifier().fit([image], ["one"])
    with pytest.raises(ValueError, match="no-such-model"):
        FewShotClassifier("no-such-model").embed([image])
    with pytest.raises(FileNotFoundError, match="no-such-folder"):
        FewShotClassifier().fit_folder(tmp_path / "no-such-folder")
    with pytest.raises(OSError, match="no-such-folder"):
        fitted.save(tmp_path / "no-such-folder" / "x.task")
    with pytest.raises(ValueError, match="one label per image"):
        FewShotClassifier().fit([image, image], [["a"], ["b"]])
    with pytest.raises(ValueError, match="NaN"):
        FewShotClassifier().fit([image, image], [0.0, float("nan")])
    assert fitted.predict_set([image], abstain=0) == fitted.predict_set([image], abstain=None)


def test_it_is_a_scikit_learn_estimator(fitted, queries):
    images, truth = queries
    for ask in (FewShotClassifier().predict, FewShotClassifier().predict_set, FewShotClassifier().uncertainty):
        with pytest.raises(NotFittedError):
            ask(images)
    with pytest.raises(NotFittedError):
        FewShotClassifier().save("nowhere.task")
    fresh = clone(fitted)
    assert fresh.get_params() == {"model": None, "on_bad_image": "error"} and not hasattr(fresh, "classes_")
    assert cross_val_score(FewShotClassifier(), images, truth, cv=3).mean() > 0.9
    # A fitted classifier keeps its network until it is fitted again.
    fresh.fit(images, truth).set_params(model="no-such-model")
    assert fresh.score(images, truth) > 0.9
    with pytest.raises(ValueError, match="no-such-model"):
        fresh.fit(images, truth)


def test_a_pickle_predicts_the_same(fitted, queries):
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(queries[0]) == fitted.predict_proba(queries[0])).all()
    assert again.card == fitted.card


def test_a_saved_task_is_loaded(fitted, queries, tmp_path):
    fitted.save(tmp_path / "letters.task")
    again = FewShotClassifier.load(tmp_path / "letters.task")
    assert list(again.classes_) == KINDS and again.calibration_ == fitted.calibration_
    assert (again.predict_proba(queries[0]) == fitted.predict_proba(queries[0])).all()
    assert again.get_params() == {"model": "omniglot-conv4s", "on_bad_image": "error"}
    FewShotClassifier.load(tmp_path / "letters.task", model="omniglot-conv4s")
    with pytest.raises(ValueError, match="no-such-model"):
        FewShotClassifier.load(tmp_path / "letters.task", model="no-such-model")
    with pytest.raises(OSError, match="gone.task"):
        FewShotClassifier.load(tmp_path / "gone.task")
    bytes = (tmp_path / "letters.task").read_bytes()
    (tmp_path / "cut.task").write_bytes(bytes[:-100])
    with pytest.raises(ValueError, match="cut.task"):
        FewShotClassifier.load(tmp_path / "cut.task")


def test_numbers_as_labels_come_back(queries, tmp_path):
    images, truth = queries
    model = FewShotClassifier().fit(images, [10 * KINDS.index(t) for t in truth])
    assert model.classes_.tolist() == [0, 10, 20] and model.predict(images[:1]).tolist() == [0]
    model.save(tmp_path / "numbers.task")
    assert FewShotClassifier.load(tmp_path / "numbers.task").classes_.tolist() == ["0", "10", "20"]


def program():
    """The command `siskin`, built or installed: without it the test fails, and says what to do."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target"))
    built = target / "release" / "siskin"
    found = str(built) if built.exists() else shutil.which("siskin")
    assert found, "build the command first: cargo build --release"
    return found


def test_task_files_go_both_ways_to_the_command(queries, tmp_path):
    rng = np.random.default_rng(2)
    for kind in KINDS:
        (tmp_path / "shapes" / kind).mkdir(parents=True)
        pgm(tmp_path / "shapes" / kind / "1.pgm", drawing(kind, rng))
    run = lambda *args: subprocess.run([program(), *args], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    run("adapt", "shapes")
    model = FewShotClassifier().fit_folder(tmp_path / "shapes")
    model.save(tmp_path / "python.task")
    assert (tmp_path / "python.task").read_bytes() == (tmp_path / "shapes.task").read_bytes()
    pgm(tmp_path / "query.pgm", queries[0][7])
    row = json.loads(run("predict", "python.task", "query.pgm", "--format", "jsonl", "--abstain", "0"))
    p = FewShotClassifier.load(tmp_path / "shapes.task").predict_proba([tmp_path / "query.pgm"])[0]
    assert row["label"] == model.predict([tmp_path / "query.pgm"])[0]
    assert [row["probabilities"][kind] for kind in KINDS] == p.tolist()


def asked_in_a_child(model, images, answers):
    answers.put(model.predict_proba(images))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_works(fitted, queries):
    expected = fitted.predict_proba(queries[0])  # its threads are running now
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=asked_in_a_child, args=(fitted, queries[0], answers))
    child.start()
    assert (answers.get(timeout=60) == expected).all()
    child.join(timeout=10)
    assert child.exitcode == 0


def test_the_number_of_threads_changes_no_bit():
    code = (
        "import numpy as np, sys; from pysiskin import FewShotClassifier\n"
        "x = np.random.default_rng(4).integers(0, 256, (40, 30, 30), dtype='uint8')\n"
        "m = FewShotClassifier().fit(x[:20], np.arange(20) % 4)\n"
        "sys.stdout.buffer.write(m.predict_proba(x[20:]).tobytes())"
    )
    one, three = (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "RAYON_NUM_THREADS": n}
        ).stdout
        for n in "13"
    )
    assert len(one) == 20 * 4 * 8 and one == three


def test_others_are_for_added_networks(fitted, queries):
    with pytest.raises(ValueError, match="of no use to this model"):
        fitted.add_others(queries[0])
    with pytest.raises(NotFittedError):
        FewShotClassifier().add_others(queries[0])


def test_none_of_these_by_choice(fitted, queries):
    images, _ = queries
    plain, sets = fitted.predict(images), fitted.predict_set(images)
    asked = fitted.predict(images, none_of_these=True)
    assert [None if s is None else p for p, s in zip(plain.tolist(), sets)] == asked.tolist()
    noise = [np.random.default_rng(8).integers(0, 256, (40, 40), dtype="uint8")]
    assert fitted.predict(noise, none_of_these=True).tolist() == [None] and fitted.predict(noise)[0] in KINDS


def test_bad_images_are_skipped_by_choice(tmp_path, queries):
    rng = np.random.default_rng(4)
    images = [drawing(kind, rng) for kind in KINDS for _ in range(2)]
    labels = [kind for kind in KINDS for _ in range(2)]
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    given = [images[0], bad, *images[1:], tmp_path / "absent.png"]
    names = [labels[0], "ring", *labels[1:], "bar"]
    with pytest.raises((ValueError, OSError)):
        FewShotClassifier().fit(given, names)
    model = FewShotClassifier(on_bad_image="skip").fit(given, names)
    assert [image for image, _ in model.skipped_] == [str(bad), str(tmp_path / "absent.png")]
    assert all(reason for _, reason in model.skipped_) and "2 images were left out" in model._repr_html_()
    whole = FewShotClassifier().fit(images, labels)
    assert (model.predict_proba(queries[0]) == whole.predict_proba(queries[0])).all()
    rows = model.answers([queries[0][0], bad])
    assert rows[0]["probabilities"] and list(rows[1]) == ["error"]
    for kind in KINDS:
        (tmp_path / "folder" / kind).mkdir(parents=True)
        pgm(tmp_path / "folder" / kind / "1.pgm", drawing(kind, rng))
    (tmp_path / "folder" / "ring" / "2.png").write_bytes(b"no image")
    with pytest.raises(ValueError):
        FewShotClassifier().fit_folder(tmp_path / "folder")
    model = FewShotClassifier(on_bad_image="skip").fit_folder(tmp_path / "folder")
    assert len(model.skipped_) == 1 and model.skipped_[0][0].endswith("2.png")
    with pytest.raises(ValueError, match="on_bad_image"):
        FewShotClassifier(on_bad_image="ignore").fit(images, labels)


def test_a_notebook_shows_what_it_is(fitted):
    assert "not adapted" in FewShotClassifier()._repr_html_()
    shown = fitted._repr_html_()
    assert all(f">{kind}</td><td>3</td>" in shown for kind in KINDS)
    odd = FewShotClassifier().fit([drawing("bar", np.random.default_rng(0)), drawing("ring", np.random.default_rng(0))], ["<b>", "c"])
    assert "<td style='text-align:left'>&lt;b&gt;</td>" in odd._repr_html_()
