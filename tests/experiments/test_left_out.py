"""A run that needs more than the experiment's data is left out where that is not there, and added when it is."""

import json
from pathlib import Path

import numpy as np
import pytest

from flipproof import datasets
from flipproof.cli.group import run as command
from flipproof.datasets import Dataset
from flipproof.experiments import read_experiment, reproduce
from flipproof.experiments import spec as specs
from flipproof.experiments.rows import FINISHED, RowFile
from flipproof.experiments.sources import FeatureStore, load, slice_of
from flipproof.experiments.spec import parse_experiment

COMMITTED = Path(__file__).parents[2] / "reproduction" / "cifar10" / "features"
IMAGES = "images.npy"
SPEC = """
title = "Toy"
data = { loader = "toy", kind = "numbers" }
flips = [1, 2]
[features.numbers]
kind = "given"
[features.images]
kind = "given"
kind_of_data = "images"
[features.few]
kind = "pca"
of = "images"
n_components = 2
keep = true
[[figures]]
file = "certified"
title = "Toy"
kind = "certified"
runs = ["numbers", "images"]
method = "exact"
most_flips = 5
[[runs]]
name = "numbers"
features = "numbers"
learner = "ridge"
methods = ["exact"]
[[runs]]
name = "images"
features = "images"
learner = "ridge"
methods = ["exact"]
published = [0.5, 0.4]
note = "as they are."
only_with = "the toy images"
[[runs]]
name = "few, of the images"
group = "beyond"
features = "few"
learner = "ridge"
methods = ["exact"]
only_with = "the toy images"
"""
NOT_RUN = "not run here, for want of the toy images."


@pytest.fixture
def toy(monkeypatch):
    """The experiment, and the forms of its data that were asked for, in order."""
    asked = []

    def load_toy(kind, data_home):
        asked.append(kind)
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, size=80)
        X = rng.normal(size=(80, 3)) + y[:, None]
        if kind == "images":
            path = Path(data_home) / IMAGES
            if not path.exists():
                raise FileNotFoundError(f"Put {IMAGES} into {data_home}.")
            try:
                X = np.load(path)
            except ValueError as error:
                raise OSError(f"{path} is damaged.") from error
        rows = {"X_train": X[:60], "y_train": y[:60], "X_test": X[60:], "y_test": y[60:]}
        return Dataset("toy", **rows, classes=(0, 1), class_names=("a", "b"), provenance="Drawn.", checksums={})

    monkeypatch.setattr(datasets, "load_toy", load_toy, raising=False)
    return parse_experiment("toy", SPEC.encode()), asked


def put_images(folder):
    np.save(folder / IMAGES, np.random.default_rng(1).normal(size=(80, 4)))


def results(folder):
    return (folder / FINISHED).read_bytes(), (folder / "tables.md").read_text()


def test_runs_without_their_data_are_left_out_and_added_when_it_is_there(toy, tmp_path):
    experiment, asked = toy
    data, parts, whole = tmp_path / "data", tmp_path / "parts", tmp_path / "whole"
    data.mkdir()
    said = []
    reproduce(experiment, parts, data, say=said.append)
    left_out = f"Left out: 'images' and 'few, of the images', for want of the toy images. Put {IMAGES} into {data}."
    assert said[:2] == ["Toy: loading", left_out]
    assert said[-1] == "numbers: 0 of 20 test rows"
    assert asked == ["numbers", "images"]  # two runs, one attempt
    assert list(RowFile(parts).runs()) == ["numbers"]
    assert list(json.loads((parts / "manifest.json").read_text())["runs"]) == ["numbers"]
    tables = (parts / "tables.md").read_text()
    assert "| images | the paper |" in tables
    assert "| images | ours, exact |" not in tables
    assert f"\nimages: {NOT_RUN}\n" in tables
    assert f"\nfew, of the images: {NOT_RUN}\n" in tables
    assert (parts / "certified.png").read_bytes().startswith(b"\x89PNG")

    put_images(data)
    said.clear()
    reproduce(experiment, parts, data, say=said.append)
    assert not any(text.startswith(("Left out", "numbers")) for text in said)
    reproduce(experiment, whole, data)
    assert results(parts)[0] == results(whole)[0]
    assert list(RowFile(parts).runs()) == [run.name for run in experiment.runs]
    assert "not run here" not in results(parts)[1]
    assert "\nimages: as they are.\n" in results(parts)[1]


def test_what_is_done_needs_no_data_any_more(toy, tmp_path):
    experiment, asked = toy
    put_images(tmp_path)
    out = tmp_path / "out"
    reproduce(experiment, out, tmp_path)
    before = results(out)
    (tmp_path / IMAGES).unlink()
    asked.clear()
    reproduce(experiment, out, tmp_path)
    assert asked == ["numbers"]
    assert results(out) == before

    # features that were kept are as good as the data behind them
    (out / FINISHED).unlink()
    reproduce(experiment, out, tmp_path)
    assert list(RowFile(out).runs()) == ["numbers", "few, of the images"]


def test_a_quick_run_does_without_even_if_the_data_is_there(toy, tmp_path):
    experiment, asked = toy
    put_images(tmp_path)
    said = []
    reproduce(experiment, tmp_path / "out", tmp_path, quick=True, say=said.append)
    assert said[1] == "Left out: 'images' and 'few, of the images', as in every quick run."
    assert asked == ["numbers"]


def test_everything_else_fails_loudly(toy, tmp_path):
    experiment, _ = toy
    needed = parse_experiment("toy", SPEC.replace('only_with = "the toy images"', "").encode())
    with pytest.raises(FileNotFoundError, match=f"Put {IMAGES}"):
        reproduce(needed, tmp_path / "needed", tmp_path)
    (tmp_path / IMAGES).write_bytes(b"no array")
    with pytest.raises(OSError, match="is damaged"):
        reproduce(experiment, tmp_path / "damaged", tmp_path)
    assert RowFile(tmp_path / "damaged").runs() == {}  # before anything took long


def test_the_command_says_so_in_one_line_and_succeeds(toy, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(specs, "read_experiment", lambda name: toy[0])
    assert command(["reproduce", "dogfish", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    printed = capfd.readouterr()
    assert printed.out == f"Toy: {tmp_path / 'out' / 'dogfish' / 'tables.md'}\n"
    assert [IMAGES in line for line in printed.err.splitlines()] == [False, True, False, False]


def test_the_images_of_cifar10_are_fetched_at_most_once(data_dir, tmp_path, monkeypatch, capfd):
    attempts = []

    def fetch(url, member=None):
        attempts.append(url)
        raise OSError("no network")

    monkeypatch.setattr("flipproof.datasets.files.fetch", fetch)
    (tmp_path / "cifar10").mkdir()
    name = "cifar10_lite0_pca128.npz"
    (tmp_path / "cifar10" / name).symlink_to((data_dir / "cifar10" / name).resolve())
    experiment = read_experiment("cifar10")
    optional = [run for run in experiment.runs if run.only_with]
    assert [run.features for run in optional] == ["simclr", "pixels"]
    data = load(experiment, tmp_path)
    part = slice_of(experiment, data, quick=False, seed=0)

    def missing(folder):
        features = FeatureStore(experiment, data, part, folder, tmp_path, 0, say=lambda text: None)
        return {features.missing(run.features) for run in optional}

    (message,) = missing(tmp_path / "features")
    assert f"Put cifar-10-binary.tar.gz into {tmp_path / 'cifar10'}" in message
    assert len(attempts) == 1
    assert capfd.readouterr().err.count("\n") == 1
    assert missing(COMMITTED) == {""}
    assert len(attempts) == 1
