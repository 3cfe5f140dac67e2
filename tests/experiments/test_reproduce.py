"""A slice of every experiment on real data; interrupted runs are resumed."""

import json
import os
import signal
import sys
import threading
import time
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

from flipproof.cli.group import run as command
from flipproof.experiments import experiment_names, feature_store, read_experiment, reproduce, runner, study_names
from flipproof.experiments.row_files import FINISHED, GROWING, RowFile

NEEDED = {"mnist17": ("torch", "umap")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.deep(*NEEDED.get(name, ("umap",)))) for name in experiment_names()]
)
def test_a_quick_slice_of_every_data_set(name, data_dir, tmp_path, capfd):
    arguments = ["reproduce", name, "--quick", "--data-dir", str(data_dir), "--out", str(tmp_path)]
    assert command(arguments) == 0
    experiment, folder = read_experiment(name), tmp_path / f"{name}-quick"
    assert str(folder / "tables.md") in capfd.readouterr().out
    runs = RowFile(folder).runs()
    done = [run for run in experiment.runs if not run.only_with or run.in_quick]
    assert list(runs) == [run.name for run in done]
    assert {len(rows.index) for rows in runs.values()} == {experiment.quick["test_rows"]}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["quick"]
    assert manifest["n_train"] == experiment.quick["train_rows"]
    assert set(manifest["runs"]) == set(runs)
    tables = (folder / "tables.md").read_text()
    assert "not a result" in tables
    assert all(run.name in tables for run in experiment.runs if run.group != "reference")
    for figure in experiment.figures:
        assert (folder / f"{figure.file}.png").read_bytes().startswith(b"\x89PNG")
    assert tables.count("skipped (not part of a quick run)") == len(experiment.runs) - len(done)
    for run in done:
        if {"tight", "exact"} <= set(run.methods):
            assert (runs[run.name]["kl"] <= runs[run.name]["tight"]).all()
            assert (runs[run.name]["tight"] <= runs[run.name]["exact"]).all()
        if run.attacked:
            found = runs[run.name]["flips_needed"] > 0
            assert (runs[run.name]["exact"][found] == runs[run.name]["flips_needed"][found] - 1).all()


class CountingThreads(FunctionTransformer):
    """Returns features unchanged and records the number of threads."""

    def transform(self, X):
        self.threads = {pool["num_threads"] for pool in threadpool_info()}
        return X


def test_features_do_not_depend_on_the_number_of_cores(data_dir, tmp_path, monkeypatch):
    made = CountingThreads()
    monkeypatch.setitem(feature_store.BUILDERS, "pca", lambda store, parameters: made)
    experiment = read_experiment("dogfish")
    data = feature_store.load(experiment, data_dir)
    part = feature_store.slice_of(experiment, data, quick=True, seed=0)
    store = feature_store.FeatureStore(experiment, data, part, tmp_path, data_dir, 0, say=lambda text: None)
    with threadpool_limits(limits=2):
        assert store["fifty"][0].shape == data.X_train[part.train].shape
    assert made.threads == {1}


class Stop(Exception):  # noqa: N818 - not an error
    """Simulates a crash."""


def test_a_resumed_run_gives_the_same_rows(data_dir, tmp_path):
    experiment = read_experiment("dogfish")
    reproduce(experiment, tmp_path / "whole", data_dir, quick=True)
    done = []

    def stop_in_the_middle(text):
        done.append(text)
        if text.startswith("q = 0.01:"):
            raise Stop

    with pytest.raises(Stop):
        reproduce(experiment, tmp_path / "parts", data_dir, quick=True, say=stop_in_the_middle)
    assert (tmp_path / "parts" / GROWING).exists()
    again = []
    reproduce(experiment, tmp_path / "parts", data_dir, quick=True, say=again.append)
    assert not any(text.startswith("undefended") for text in again)
    assert any(text.startswith("q = 0.01:") for text in again)
    whole, parts = ((tmp_path / name / FINISHED).read_bytes() for name in ("whole", "parts"))
    assert whole == parts
    once_more = []
    reproduce(experiment, tmp_path / "parts", data_dir, quick=True, say=once_more.append)
    assert once_more == ["Dogfish stand-in: loading"]


@pytest.mark.parametrize("times", [1, 2])
def test_interrupted_attacks_write_no_rows(data_dir, tmp_path, monkeypatch, times):
    attack = runner.undefended_attack

    def interrupted(*arguments):
        for number in range(times):
            threading.Timer(0.2 * (1 + number), os.kill, (os.getpid(), signal.SIGINT)).start()
        found = attack(*arguments)
        time.sleep(0.2 * (1 + times))  # a Ctrl-C after the attack would be one of another kind
        return found

    monkeypatch.setattr(runner, "undefended_attack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce(read_experiment("dogfish"), tmp_path, data_dir, quick=True)
    assert RowFile(tmp_path).runs() == {}


def test_another_seed_is_another_run(data_dir, tmp_path):
    experiment = read_experiment("imdb")
    reproduce(experiment, tmp_path, data_dir, quick=True, seed=0)
    first = RowFile(tmp_path).runs()
    reproduce(experiment, tmp_path, data_dir, quick=True, seed=1)
    second = RowFile(tmp_path).runs()
    assert not np.array_equal(first["q = 0.1"].index, second["q = 0.1"].index)
    assert len(second["q = 0.1"].index) == experiment.quick["test_rows"]


@pytest.mark.parametrize(
    ("name", "hidden", "named"),
    [
        ("mnist17", ("torch", "umap", "matplotlib"), "matplotlib, PyTorch, umap-learn."),
        ("imdb", ("umap",), "umap-learn."),
        ("dogfish", ("umap", "PIL"), "pillow, umap-learn."),
        ("imdb", ("matplotlib",), "matplotlib."),
        ("all", ("torch", "umap", "PIL"), "pillow, PyTorch, umap-learn."),
    ],
)
def test_all_missing_packages_are_named_at_once(name, hidden, named, data_dir, tmp_path, monkeypatch, capfd):
    for package in ("torch", "umap"):  # those that are not hidden need not be installed either
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
        sys.modules[package].__spec__ = ModuleSpec(package, None)
    for package in hidden:
        monkeypatch.setitem(sys.modules, package, None)
    assert command(["reproduce", name, "--quick", "--data-dir", str(data_dir), "--out", str(tmp_path)]) == 2
    *progress, said = capfd.readouterr().err.splitlines()
    assert len(progress) == (len([*experiment_names(), *study_names()]) if name == "all" else 1), "that it is loading"
    assert f"{named} Install all: pip install 'flipproof[reproduce]'" in said
    assert not any(file.is_file() for file in tmp_path.rglob("*"))


def test_bad_input_gives_a_one_line_error(data_dir, tmp_path, capfd):
    (tmp_path / "file").touch()
    for arguments, message in (
        (["reproduce", "imdb", "--data-dir", str(data_dir), "--out", str(tmp_path / "file")], "file' is not a folder"),
        (["reproduce", "imagenet"], "'imagenet' is not one of"),
        (["reproduce", "mnist", "--data-dir", str(tmp_path / "none")], "does not exist"),
        (["reproduce", "dogfish", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")], "dogfish"),
    ):
        assert command(arguments) == 2
        assert message in capfd.readouterr().err
