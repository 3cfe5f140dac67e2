"""A run that needs more than the experiment's data is skipped if that is missing, and added once it is available."""

import json
from pathlib import Path

import pytest
from toy import IMAGES, SPEC, put_images, toy_experiment

from flipproof.cli.group import run as command
from flipproof.experiments import read_experiment, reproduce
from flipproof.experiments import spec as specs
from flipproof.experiments.feature_store import FeatureStore, load, slice_of
from flipproof.experiments.row_files import FINISHED, RowFile
from flipproof.experiments.spec import parse_experiment

COMMITTED = Path(__file__).parents[2] / "reproduction" / "cifar10" / "features"
NOT_RUN = "skipped (needs the toy images)."


@pytest.fixture
def toy(monkeypatch):
    return toy_experiment(monkeypatch)


def results(folder):
    return (folder / FINISHED).read_bytes(), (folder / "tables.md").read_text()


@pytest.mark.slow
def test_runs_without_their_data_are_skipped_and_added_later(toy, tmp_path):
    experiment, asked = toy
    data, parts, whole = tmp_path / "data", tmp_path / "parts", tmp_path / "whole"
    data.mkdir()
    said = []
    reproduce(experiment, parts, data, say=said.append)
    left_out = f"Skipped 'images' and 'few, of the images': needs the toy images. Put {IMAGES} into {data}."
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
    assert not any(text.startswith(("Skipped", "numbers")) for text in said)
    reproduce(experiment, whole, data)
    assert results(parts)[0] == results(whole)[0]
    assert list(RowFile(parts).runs()) == [run.name for run in experiment.runs]
    assert "skipped" not in results(parts)[1]
    assert "\nimages: as they are.\n" in results(parts)[1]


@pytest.mark.slow
def test_complete_runs_need_no_data(toy, tmp_path):
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


@pytest.mark.slow
def test_rows_of_a_skipped_run_are_kept(toy, tmp_path):
    experiment, _ = toy
    put_images(tmp_path)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        reproduce(experiment, folder, tmp_path)
    # all but one row of each run, and neither images nor features of them
    rows = RowFile(parts).runs()
    RowFile(parts).keep_only([])
    for name, of_run in rows.items():
        few = {column: values[1:] for column, values in of_run.columns.items()}
        RowFile(parts).append(name, of_run.index[1:], of_run.label[1:], few)
    (tmp_path / IMAGES).rename(tmp_path / "elsewhere")
    (parts / "features" / "few.npz").rename(tmp_path / "few.npz")
    reproduce(experiment, parts, tmp_path)
    assert "skipped" in (parts / "tables.md").read_text()
    assert {name: len(of_run.index) for name, of_run in RowFile(parts).runs().items()} == {
        "numbers": 20,
        "images": 19,
        "few, of the images": 19,
    }
    (tmp_path / "elsewhere").rename(tmp_path / IMAGES)
    (tmp_path / "few.npz").rename(parts / "features" / "few.npz")
    said = []
    reproduce(experiment, parts, tmp_path, say=said.append)
    assert "images: 19 of 20 test rows" in said
    assert results(parts)[0] == results(whole)[0]


def test_a_quick_run_skips_them_even_if_the_data_is_available(toy, tmp_path):
    experiment, asked = toy
    put_images(tmp_path)
    said = []
    reproduce(experiment, tmp_path / "out", tmp_path, quick=True, say=said.append)
    assert said[1] == "Skipped 'images' and 'few, of the images': not part of a quick run."
    assert asked == ["numbers"]


def test_other_missing_or_damaged_data_is_an_error(toy, tmp_path):
    experiment, _ = toy
    needed = parse_experiment("toy", SPEC.replace('only_with = "the toy images"', "").encode())
    said = []
    with pytest.raises(FileNotFoundError, match=f"Put {IMAGES}"):
        reproduce(needed, tmp_path / "needed", tmp_path, say=said.append)
    assert said == ["Toy: loading"]  # before anything took long
    (tmp_path / IMAGES).write_bytes(b"no array")
    with pytest.raises(OSError, match="is damaged"):
        reproduce(experiment, tmp_path / "damaged", tmp_path)
    assert RowFile(tmp_path / "damaged").runs() == {}


def test_the_command_reports_skipped_runs_in_one_line_and_succeeds(toy, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(specs, "read_experiment", lambda name: toy[0])
    assert command(["reproduce", "dogfish", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    printed = capfd.readouterr()
    assert printed.out == f"Toy: {tmp_path / 'out' / 'dogfish' / 'tables.md'}\n"
    assert [IMAGES in line for line in printed.err.splitlines()] == [False, True, False, False]


def test_the_images_of_cifar10_are_downloaded_at_most_once(data_dir, tmp_path, monkeypatch, capfd):
    attempts = []

    def fetch(url, member=None):
        attempts.append(url)
        raise OSError("no network")

    monkeypatch.setattr("flipproof.datasets.shelf.fetch", fetch)
    (tmp_path / "cifar10").mkdir()
    name = "cifar10_lite0_pca128.npz"
    (tmp_path / "cifar10" / name).symlink_to((data_dir / "cifar10" / name).resolve())
    experiment = read_experiment("cifar10")
    optional = [run for run in experiment.runs if run.only_with == "the images of CIFAR10"]
    assert [run.features for run in optional] == ["simclr", "pixels"]
    data = load(experiment, tmp_path)
    part = slice_of(experiment, data, quick=False, seed=0)

    features = FeatureStore(experiment, data, part, tmp_path / "features", tmp_path, 0, say=lambda text: None)
    for run in optional:
        with pytest.raises(FileNotFoundError, match=r"Put cifar-10-binary\.tar\.gz into") as missing:
            features.check(run.features)
        assert str(tmp_path / "cifar10") in str(missing.value)
    assert len(attempts) == 1
    assert capfd.readouterr().err.count("\n") == 1
    features = FeatureStore(experiment, data, part, COMMITTED, tmp_path, 0, say=lambda text: None)
    for run in optional:
        features.check(run.features)
    assert len(attempts) == 1
