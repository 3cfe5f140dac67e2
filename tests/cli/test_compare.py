"""`flipproof compare`: a table of learners, a choice on trusted labels, and options that are given twice."""

import json

import numpy as np
import pytest

import flipproof
from flipproof.cli.group import run
from flipproof.fitting import memory

pa_csv = pytest.importorskip("pyarrow.csv")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Training and test rows with a column of trusted labels."""
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=260) > 0, "spam", "ham")
    checked = np.where(np.arange(260) % 3 == 0, "yes", "no")
    lines = [f"{a:.4f},{b:.4f},{label},{trust}" for (a, b), label, trust in zip(X, y, checked, strict=True)]
    for name, part in {"train": lines[:200], "test": lines[200:]}.items():
        (folder / f"{name}.csv").write_text("\n".join(["a,b,kind,checked", *part]))
    (folder / "new.csv").write_text("\n".join(["a,b,checked", "0.1,0.2,no"]))
    return folder


@pytest.fixture
def arguments(tables):
    return ["--train", f"{tables / 'train.csv'}", "--test", f"{tables / 'test.csv'}", "--label", "kind"]


TWO = ["--learner", "ridge", "--learner", "neighbors", "--drop", "checked"]


def test_the_table_has_the_figures_of_certify(arguments, capfd):
    assert run(["compare", *arguments, *TWO, "--flips", "0,3", "--set", "neighbors:n_neighbors=20", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [one["model"] for one in found["models"]] == ["ridge", "neighbors"]
    for one, parameters in zip(found["models"], ({}, {"n_neighbors": 20}), strict=True):
        result = flipproof.audit(
            arguments[1], arguments[3], label="kind", drop=["checked"], learner=one["model"], parameters=parameters
        )
        expected = flipproof.certified_accuracy(result.test.labels, result.main, [0, 3])
        np.testing.assert_allclose([one["certified_accuracy_0"], one["certified_accuracy_3"]], expected)
        assert one["fit_seconds"] > 0
    assert run(["compare", *arguments, *TWO]) == 0
    said = capfd.readouterr()
    assert "Certified accuracy of 60 test rows, by changed labels of 200:" in said.out
    assert "Assumptions of all:" in said.out
    assert said.err == ""


def test_rows_are_read_and_encoded_once(arguments, capfd, monkeypatch):
    read, encoded = [], memory.encode_rows
    monkeypatch.setattr(memory, "encode_rows", lambda *given: read.append(1) or encoded(*given))
    assert run(["compare", *arguments, *TWO]) == 0
    assert read == [1]


def test_table_and_plot_are_written(arguments, capfd, tmp_path):
    pytest.importorskip("matplotlib")
    table, plot = tmp_path / "table.csv", tmp_path / "curves.png"
    assert run(["compare", *arguments, *TWO, "-o", f"{table}", "--plot", f"{plot}"]) == 0
    assert pa_csv.read_csv(table)["model"].to_pylist() == ["ridge", "neighbors"]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_select_chooses_on_trusted_labels(arguments, tables, capfd, tmp_path):
    choose = ["--trusted", "checked", "--select", "5", "--learner", "ridge", "--learner", "neighbors"]
    grid = ["--set", "ridge:regularization=[1,100000]", "--set", "neighbors:n_neighbors=[0.1,0.2]"]
    assert run(["compare", *arguments, *choose, *grid, "--json"]) == 0
    first = json.loads(capfd.readouterr().out)["selection"]
    assert len(first["candidates"]) == 4
    assert first["candidates"][0]["learner"] == first["learner"]
    # all other labels swapped: the same choice, with the same scores
    header, *lines = (tables / "train.csv").read_text().splitlines()
    other = {"spam": "ham", "ham": "spam"}
    changed = [header]
    for line in lines:
        *numbers, label, trust = line.split(",")
        changed.append(",".join([*numbers, other[label] if trust == "no" else label, trust]))
    poisoned = tmp_path / "poisoned.csv"
    poisoned.write_text("\n".join(changed))
    assert run(["compare", "--train", f"{poisoned}", *arguments[2:], *choose, *grid, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["selection"] == first
    assert run(["compare", *arguments, *choose, *grid]) == 0
    said = capfd.readouterr().out
    assert f"Chosen: {first['learner']} (" in said
    assert "were chosen on the labels of" in " ".join(said.split())


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (["--learner", "ridge", "--set", "forest:n_estimators=3"], "must begin with one of the learners, ridge"),
        (["--learner", "ridge", "--set", "ridge:bogus=1"], "must be NAME=VALUE with one of regularization"),
        (["--learner", "ridge", "--set", "regularization=[1,2]"], "ridge:regularization has several values"),
        (["--select", "3"], "--select requires --trusted"),
        (["--flips", "x"], "must be numbers of changed labels"),
        (["--flips", "1", "--flips", "2"], "--flips is given twice, but takes one value"),
        (["--learner", "ridge", "--plot", "curves.gif"], "must end in .png, .svg or .pdf"),
        (["--learner", "neighbors", "--clip", "0.9"], "has no votes to clip"),
    ],
)
def test_bad_input_is_one_line(arguments, capfd, more, wanted):
    assert run(["compare", *arguments, *more]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert wanted in said.err


def test_test_rows_need_labels(arguments, tables, capfd):
    assert run(["compare", *arguments[:2], "--test", f"{tables / 'new.csv'}", "--label", "kind", *TWO]) == 2
    assert "compare needs test rows with labels" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["certify", "attack"])
def test_one_learner_elsewhere(arguments, capfd, command):
    assert run([command, *arguments, "--learner", "ridge", "--learner", "forest"]) == 2
    said = capfd.readouterr().err
    assert "--learner is given twice, but takes one value. To compare learners, use 'flipproof compare'." in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("more", [["--holdout", "0.2", "--holdout", "0.3"], ["-o", "a.csv", "--out", "b.csv"]])
def test_a_single_value_is_given_once(arguments, capfd, more):
    assert run(["certify", *arguments, *more]) == 2
    assert "is given twice" in capfd.readouterr().err


def test_flags_and_lists_may_be_repeated(arguments, capfd):
    assert run(["certify", *arguments, "-q", "-q", "--drop", "a", "--drop", "checked"]) == 0
