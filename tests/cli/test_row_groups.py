"""`flipproof certify --label --by`: bounds of the predictions of groups, in all outputs, equal to the library's."""

import json
from fractions import Fraction

import numpy as np
import pytest
from pyarrow import csv
from small_tables import N_TEST, write_emails

import flipproof
from flipproof import Adversary, CertifiedRidgeClassifier, collective_certify
from flipproof.cli.group import run
from flipproof.readable import percent_above
from flipproof.tables import TableEncoder

FEATURES = ["length", "country", "answered"]


@pytest.fixture
def files(tmp_path):
    return [*write_emails(tmp_path), "--features", ",".join(FEATURES), "-q"]


def expected(folder, flips):
    train, test = (csv.read_csv(folder / f"{name}.csv") for name in ("train", "test"))
    encoder = TableEncoder()
    X = encoder.fit_transform(train.select(FEATURES))
    model = CertifiedRidgeClassifier().fit(X, train["kind"].to_numpy(zero_copy_only=False))
    groups = test["country"].to_numpy(zero_copy_only=False)
    Z = encoder.transform(test.select(FEATURES))
    return [collective_certify(model, Z, one, groups=groups) for one in flips], model, Z, groups, test


def test_the_command_bounds_the_predictions_of_groups(files, tmp_path, capfd):
    page, text = tmp_path / "report.html", tmp_path / "report.md"
    command = ["certify", *files, "--by", "country"]
    assert run([*command, "--json", "--report", str(page)]) == 0
    found = json.loads(capfd.readouterr().out)["groups"]
    bounds, model, Z, groups, test = expected(tmp_path, [1, 5, 10])
    correct = model.predict(Z) == test["kind"].to_numpy(zero_copy_only=False)
    assert found["flips"] == [1, 5, 10]
    assert [one["id"] for one in found["lines"]] == ["elsewhere", "here", "all test rows"]
    for line in found["lines"]:
        is_whole = line["id"] == "all test rows"
        of_group = [one if is_whole else one.by_group[line["id"]] for one in bounds]
        assert line["most_changed"] == [one.most_changed for one in of_group]
        assert line["pointwise_changed"] == [one.pointwise_changed for one in of_group]
        is_member = np.ones(N_TEST, dtype=bool) if is_whole else groups == line["id"]
        assert (line["n"], line["n_correct"]) == (is_member.sum(), correct[is_member].sum())
    html = page.read_text("utf-8")
    assert 'id="groups"' in html
    assert "elsewhere - here" in html
    assert run([*command, "--flips", "2", "--report", str(text)]) == 0
    said = capfd.readouterr().out
    assert "changed at 2" in said
    lines = [line for line in said.splitlines() if not line.startswith("Written: ")]  # paths are not wrapped
    assert max(map(len, lines)) <= 80
    (bound,), *_ = expected(tmp_path, [2])
    one, other = bound.by_group["elsewhere"], bound.by_group["here"]
    moved = Fraction(one.most_changed, one.n_predictions) + Fraction(other.most_changed, other.n_predictions)
    assert f"| elsewhere \\- here | {percent_above(moved)} |" in text.read_text("utf-8").replace(" - ", " \\- ")


def test_without_groups_nothing_is_added(files, capfd):
    assert run(["certify", *files, "--json"]) == 0
    assert "groups" not in json.loads(capfd.readouterr().out)


def test_the_column_of_groups_need_not_be_in_the_training_rows(files, tmp_path, capfd):
    table = csv.read_csv(tmp_path / "train.csv")
    assert run(["certify", *files, "--by", "country", "--json"]) == 0
    whole = json.loads(capfd.readouterr().out)["groups"]
    csv.write_csv(
        table.drop_columns("key").rename_columns(["length", "country", "answered", "kind"]), tmp_path / "t.csv"
    )
    plain = [
        str(tmp_path / "t.csv") if one.endswith("train.csv") else one for one in files if one not in ("--id", "key")
    ]
    assert run(["certify", *plain, "--by", "key", "--json"]) == 0
    by_row = json.loads(capfd.readouterr().out)["groups"]
    assert len(by_row["lines"]) == N_TEST + 1
    assert by_row["lines"][-1]["most_changed"] <= whole["lines"][-1]["pointwise_changed"]


def test_a_stored_model_and_arrays_are_divided_too(files, tmp_path, capfd):
    stored = tmp_path / "model.flipproof"
    test_at = files.index("--test")
    without_test = [*files[:test_at], *files[test_at + 2 :]]
    assert run(["fit", *without_test, "--model", str(stored)]) == 0
    capfd.readouterr()
    options = ["--by", "country", "--flips", "1,5", "--json", "-q"]
    assert run(["certify", "--model", str(stored), *files[test_at : test_at + 2], *options]) == 0
    found = json.loads(capfd.readouterr().out)["groups"]
    bounds, model, Z, groups, _ = expected(tmp_path, [1, 5])
    assert found["lines"][0]["most_changed"] == [one.by_group["elsewhere"].most_changed for one in bounds]
    of_arrays = flipproof.audit(model=model, test=Z, by=groups, flips=[5, 1], attack=False)
    assert [one.flips for one in of_arrays.of_groups] == [1, 5]
    assert of_arrays.of_groups[1].by_group["here"].most_changed == bounds[1].by_group["here"].most_changed
    text = flipproof.audit(model=model, test=Z, attack=False)
    assert text.of_groups is None


def test_limits_of_the_adversary_count(files, tmp_path):
    train = csv.read_csv(tmp_path / "train.csv").to_pandas()
    test = csv.read_csv(tmp_path / "test.csv").to_pandas()
    who = Adversary(groups=np.arange(len(train)) % 4)
    options = {"label": "kind", "features": FEATURES, "by": "country", "attack": False}
    found = flipproof.audit(train, test, adversary=who, flips=[1, 9], **options)
    assert [one.unit for one in found.of_groups] == ["annotators"] * 2
    assert [one.flips for one in found.of_groups] == [1, 4]  # there are no more annotators
    summary = found.summary()["groups"]
    assert summary["unit"] == "annotators"
    everything = found.of_groups[-1].most_changed
    assert everything == len(test)  # all labels may be wrong


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--by", "land"], "has no column 'land'"),
        (["--by", "length"], ""),
        (["--flips", "3"], "requires --target, or --by"),
        (["--by", "country", "--learner", "partition"], "--by: "),
        (["--by", "country", "--reference", "train", "--changes", "rows"], "--by is about changed labels"),
    ],
)
def test_what_cannot_be_bounded_is_refused_in_one_line(files, tmp_path, capfd, options, fragment):
    given = [str(tmp_path / "train.csv") if one == "train" else one for one in options]
    code = run(["certify", *files, *given])
    said = capfd.readouterr().err
    assert fragment in said
    assert code == (2 if fragment else 0)
    assert len(said.strip().splitlines()) == bool(fragment)


def test_rows_in_blocks_have_no_bounds_of_groups(tmp_path, capfd):
    write_emails(tmp_path, ".parquet")
    options = ["--train", str(tmp_path / "train*.parquet"), "--test", str(tmp_path / "test.parquet"), "--label", "kind"]
    assert run(["certify", *options, "--features", "length", "--by", "country", "-q"]) == 2
    assert "--by needs training rows in memory" in capfd.readouterr().err


def test_shares_are_rounded_up():
    assert percent_above(Fraction(1, 3)) == "33.4%"
    assert percent_above(Fraction(2, 25)) == "8.0%"
    assert percent_above(Fraction(0)) == "0.0%"
    assert percent_above(Fraction(4, 3)) == "133.4%"
