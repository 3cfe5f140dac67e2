"""`flipproof fit` and `flipproof certify --model`: the same certificates as in one run."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from small_tables import emails, write

import flipproof
from flipproof import Adversary
from flipproof.cli.group import run
from flipproof.store import model_digest


@pytest.fixture
def folder(tmp_path):
    """Training, test and reference rows, with columns about the labels."""
    for name, n, seed in (("train", 60, 1), ("test", 12, 2), ("reference", 40, 3)):
        rows = emails(n, seed)
        rows = rows.append_column("who", pa.array([f"ann{i % 7}" for i in range(n)]))
        rows = rows.append_column("checked", pa.array(["yes" if i % 5 == 0 else "no" for i in range(n)]))
        rows = rows.append_column("text", pa.array([f"word{i % 3} of letter {i % 4}" for i in range(n)]))
        write(rows, tmp_path / f"{name}.csv")
    return tmp_path


FIT = ["--label", "kind", "--id", "key", "--drop", "who,checked"]
WHO = ["--label", "kind", "--id", "key", "--text", "text", "--annotator", "who", "--trusted", "checked"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        [*FIT, "--learner", "ridge", "--clip", "0.9"],
        [*WHO, "--learner", "neighbors", "--set", "n_neighbors=9"],
        [*WHO, "--allow", "spam:ham", "--classes", "ham,spam,eggs"],
        [*FIT, "--learner", "forest", "--set", "n_estimators=5", "--reference", "reference.csv", "--changes", "rows"],
        [*FIT, "--learner", "partition", "--set", "n_partitions=5", "--scale", "rank"],
    ],
    ids=["ridge", "neighbors", "allowed", "rows", "partition"],
)
def test_certificates_are_those_of_one_run(options, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    at_once = ["--train", "train.csv", "--test", "test.csv", *options]
    assert run(["certify", *at_once, "-o", "once.parquet", "--report", "once.json", "-q"]) == 0
    assert run(["fit", "--train", "train.csv", *options, "--model", "m.flipproof", "-q"]) == 0
    with_model = ["certify", "--model", "m.flipproof", "--test", "test.csv"]
    assert run([*with_model, "-o", "later.parquet", "--report", "later.json", "-q"]) == 0
    assert parquet.read_table("once.parquet").equals(parquet.read_table("later.parquet"))
    once, later = (json.loads((folder / name).read_text()) for name in ("once.json", "later.json"))
    assert model_digest("m.flipproof") in (folder / "later.json").read_text()
    other = {name for name in once if once[name] != later[name]}
    assert other <= {"facts", "checksum", "created", "trusted_only"}  # the last needs the training rows
    assert capfd.readouterr().err == ""


def test_attacks_by_rows_without_the_training_rows(folder, monkeypatch):
    """A model from a file has no rows to copy: the attack adds copies of the test row."""
    monkeypatch.chdir(folder)
    options = ["--learner", "neighbors", "--reference", "reference.csv", "--changes", "rows"]
    assert run(["fit", "--train", "train.csv", *FIT, *options, "--model", "m.flipproof", "-q"]) == 0
    assert run(["certify", "--model", "m.flipproof", "--test", "test.csv", "--report", "later.json", "-q"]) == 0


def test_fit_says_what_it_wrote(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    assert run(["fit", "--train", "train.csv", *FIT, "--model", "m.flipproof", "--json", "-q"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["sha256"] == model_digest("m.flipproof")
    assert (facts["learner"], facts["training_rows"]) == ("CertifiedRidgeClassifier", 60)
    assert run(["fit", "--train", "train.csv", *FIT, "--model", "m.flipproof", "-q"]) == 0
    assert facts["sha256"] in capfd.readouterr().out


def test_requirements_set_the_exit_code(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run(["fit", "--train", "train.csv", *FIT, "--model", "m.flipproof", "-q"]) == 0
    command = ["certify", "--model", "m.flipproof", "--test", "test.csv", "-q"]
    assert run([*command, "--min-certified-accuracy", "0.1@0"]) == 0
    assert run([*command, "--min-certified-accuracy", "1@50"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "train.csv"], "--train cannot be combined with --model"),
        (["--learner", "ridge"], "--learner cannot be combined with --model"),
        (["--label", "kind"], "--label cannot be combined with --model"),
        (["--trusted", "checked"], "--trusted cannot be combined with --model"),
        (["--noise", "0.2"], "--noise cannot be combined with --model"),
        (["--holdout", "0.2"], "--holdout cannot be combined with --model"),
        (["--workers", "2"], "--workers cannot be combined with --model"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_options_of_the_fit_are_refused(arguments, message, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    assert run(["certify", "--model", "m.flipproof", "--test", "test.csv", *arguments]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_bad_models_are_one_line(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    (folder / "bad.flipproof").write_bytes(b"not a model")
    for command, message in (
        (["certify", "--model", "bad.flipproof", "--test", "test.csv"], "not a flipproof model"),
        (["certify", "--model", "missing.flipproof", "--test", "test.csv"], "missing.flipproof"),
        (["certify", "--model", "bad.flipproof"], "--model requires --test"),
        (["certify", "--test", "test.csv"], "--train"),
        (["fit", "--train", "train.csv", *FIT, "--model", "m.txt"], "must end in .flipproof"),
        (["fit", "--train", "train.csv", "--label", "kind"], "--model"),
        (["fit", "--train", ".", *FIT, "--model", "m.flipproof"], "must be a file"),
    ):
        assert run(command) == 2, command
        lines = capfd.readouterr().err.splitlines()
        assert len(lines) == 1, lines
        assert message in lines[0]
    assert not (folder / "m.flipproof").exists()


def test_models_from_notebooks(folder):
    """An audit returns the model with its encoder; a saved one predicts and certifies data frames."""
    import pandas as pd

    train, test = (pd.read_csv(folder / f"{name}.csv") for name in ("train", "test"))
    result = flipproof.audit(train, test, label="kind", id="key", drop=["checked"], annotator="who")
    flipproof.save(result.deployed, folder / "m.flipproof")
    loaded = flipproof.load(folder / "m.flipproof")
    assert np.array_equal(loaded.certify(test).radius, result.main.radius)
    assert loaded.certify(test).unit == "annotators"
    assert loaded.predict(test).tolist() == result.main.prediction.tolist()
    assert "60 training rows" in repr(loaded)
    again = flipproof.audit(test=test, model=folder / "m.flipproof")
    assert again.main.radius.tolist() == result.main.radius.tolist()
    assert again.attacks.flips_needed.tolist() == result.attacks.flips_needed.tolist()
    assert model_digest(loaded) in again.provenance.digests.values()
    again.save(folder / "report.html")
    assert model_digest(loaded) in (folder / "report.html").read_text()
    with pytest.raises(ValueError, match="'label' cannot be combined with 'model'"):
        flipproof.audit(test=test, model=loaded, label="kind")
    with pytest.raises(ValueError, match="'model' requires 'test'"):
        flipproof.audit(model=loaded)
    with pytest.raises(ValueError, match="give training rows"):
        flipproof.audit(test=test)


def test_models_of_arrays(folder):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    model = flipproof.CertifiedNeighborsClassifier(5, classes=[0, 1]).fit(X, y)
    result = flipproof.audit(model=model, test=(X[:9], y[:9]), requirements=["radius >= 0"])
    assert np.array_equal(result.main.radius, model.certify(X[:9]).radius)
    assert result.passed
    assert model_digest(model) in result.provenance.digests.values()


def test_windows_of_time_are_kept(folder, monkeypatch):
    monkeypatch.chdir(folder)
    rows = csv.read_csv("train.csv")
    days = np.datetime64("2024-01-01") + np.arange(60) % 20
    csv.write_csv(rows.append_column("day", pa.array(days)), "dated.csv")
    options = [*FIT, "--window", "day", "--length", "3d"]
    assert run(["fit", "--train", "dated.csv", *options, "--model", "m.flipproof", "-q"]) == 0
    assert run(["certify", "--model", "m.flipproof", "--test", "test.csv", "-o", "later.parquet", "-q"]) == 0
    assert run(["certify", "--train", "dated.csv", "--test", "test.csv", *options, "-o", "once.parquet", "-q"]) == 0
    assert parquet.read_table("once.parquet").equals(parquet.read_table("later.parquet"))
    assert isinstance(flipproof.load("m.flipproof").adversary, Adversary)
