"""`flipproof certify --target` and `flipproof.audit_numbers`: the numbers of the library, requirements, bad input."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import flipproof
from flipproof import CertifiedRidgeRegressor, StreamingRidgeRegressor, audit_numbers
from flipproof.cli.group import run
from flipproof.streaming import RowBlocks
from flipproof.tables import TableEncoder

COLUMNS = ["size", "town"]


def houses(n, seed):
    rng = np.random.default_rng(seed)
    size = rng.uniform(20, 200, size=n).round(1)
    town = rng.choice(["ash", "oak"], size=n)
    price = (size * 3000 + 20_000 * (town == "oak") + rng.normal(scale=2e4, size=n)).clip(0, 1e6).round(2)
    return pd.DataFrame(
        {
            "size": size,
            "town": town,
            "price": price,
            "agent": rng.choice(list("abcde"), size=n),
            "checked": rng.choice(["yes", "no"], size=n),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("houses")
    houses(60, 0).to_csv(folder / "train.csv", index=False)
    houses(20, 1).to_csv(folder / "test.csv", index=False)
    return folder


def base(files):
    return ["certify", "--train", str(files / "train.csv"), "--test", str(files / "test.csv"), "-q"]


FEATURES = ["--features", "size,town", "--target", "price", "--range", "0:1000000"]


def test_the_command_returns_the_numbers_of_the_library(files, tmp_path, capfd):
    out, page = tmp_path / "out.parquet", tmp_path / "report.html"
    arguments = [*base(files), *FEATURES, "--tolerance", "5000", "--flips", "1,3", "--by", "town", "-o", str(out)]
    assert run([*arguments, "--report", str(page), "--json"]) == 0
    summary = json.loads(capfd.readouterr().out)
    train, test = houses(60, 0), houses(20, 1)
    encoder = TableEncoder()
    X = encoder.fit_transform(train[COLUMNS])
    model = CertifiedRidgeRegressor(target_range=(0, 1e6)).fit(X, train["price"])
    expected = model.certify(encoder.transform(test[COLUMNS]), [1, 3], tolerance=5000)
    table = parquet.read_table(out).to_pandas()
    np.testing.assert_array_equal(table["prediction"], expected.prediction)
    np.testing.assert_array_equal(table["low_3"], expected.low[:, 1])
    np.testing.assert_array_equal(table["radius"], expected.radius)
    np.testing.assert_array_equal(table["target"], test["price"])
    means = model.certify_means(encoder.transform(test[COLUMNS]), test["town"].to_numpy(), [1, 3])
    assert [one["id"] for one in summary["means"]] == ["ash", "oak"]
    assert [one["prediction"] for one in summary["means"]] == means.prediction.tolist()
    assert [one["id"] for one in summary["gaps"]] == ["ash - oak"]
    text = page.read_text("utf-8")
    assert "Gaps between groups" in text
    assert "<script" not in text


def test_coefficients_are_those_of_the_library_in_units_of_the_columns(files, tmp_path, capfd):
    out, page = tmp_path / "coefficients.csv", tmp_path / "report.md"
    arguments = [*base(files), *FEATURES, "--flips", "1,3", "--coefficients-out", str(out), "--report", str(page)]
    assert run([*arguments, "--json"]) == 0
    lines = json.loads(capfd.readouterr().out)["coefficients"]
    model = CertifiedRidgeRegressor(target_range=(0, 1e6), features=TableEncoder())
    train = houses(60, 0)
    expected = model.fit(train[COLUMNS], train["price"]).certify_coefficients([1, 3])
    assert [one["id"] for one in lines] == expected.ids == ["size", "town = ash", "town = oak"]
    assert [one["prediction"] for one in lines] == expected.prediction.tolist()
    assert [one["low"] for one in lines] == expected.low.tolist()
    assert [one["high"] for one in lines] == expected.high.tolist()
    assert [one["sign_turned_by"] for one in lines] == (expected.radius + 1).tolist()
    # per unit of the size, prices rise by about 3,000, less what ridge regression shrinks
    assert 1500 < expected.prediction[0] < 3000
    np.testing.assert_allclose(expected.prediction, slopes(model, train), rtol=0.01)  # votes are rounded
    table = pd.read_csv(out, dtype=str)  # older versions of pandas may miss the last bit of a float
    assert table["id"].tolist() == expected.ids
    np.testing.assert_array_equal(table["high_3"].astype(float), expected.high[:, 1])
    np.testing.assert_array_equal(table["radius"].astype(int), expected.radius)
    assert "## Coefficients" in page.read_text("utf-8")
    assert run([*base(files), *FEATURES, "--coefficients"]) == 0
    shown_text = capfd.readouterr().out
    assert "sign turned by" in shown_text
    assert "town = oak" in shown_text


def slopes(model, rows):
    """Return how far predictions move if a column moves by 1, or a word is there instead of none."""
    (plain,) = model.predict(rows[COLUMNS][:1])
    (larger,) = model.predict(rows[COLUMNS][:1].assign(size=rows["size"][0] + 1))
    by_word = [model.predict(rows[COLUMNS][:1].assign(town=town))[0] for town in ("ash", "oak", "elm")]
    return larger - plain, by_word[0] - by_word[2], by_word[1] - by_word[2]


def test_a_sign_that_nothing_turns_is_said_to_be_safe(tmp_path, capfd):
    """No target can be changed: both signs hold, and a column without any variance has no sign."""
    rows = houses(30, 0).assign(checked="yes", constant=1.5)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    options = ["--train", str(tmp_path / "rows.csv"), "--holdout", "0.2", "--features", "size,constant", "-q"]
    command = ["certify", *options, "--target", "price", "--range", "0:1e6", "--trusted", "checked", "--coefficients"]
    assert run([*command, "--json"]) == 0
    lines = json.loads(capfd.readouterr().out)["coefficients"]
    assert [(one["id"], one["sign_turned_by"]) for one in lines] == [("size", None), ("constant", 0)]
    assert run(command) == 0
    assert "none" in capfd.readouterr().out


def test_requirements_decide_on_the_exit_code(files, capfd):
    assert run([*base(files), *FEATURES, "--max-shift", "1000000@60"]) == 0
    assert run([*base(files), *FEATURES, "--max-shift", "1@1"]) == 1
    assert "not met: --max-shift 1@1" in capfd.readouterr().err
    assert run([*base(files), *FEATURES, "--tolerance", "1e6", "--min-radius", "60@0.9"]) == 0
    assert run([*base(files), *FEATURES, "--threshold", "1e5", "--min-radius", "60"]) == 1


def test_limits_of_the_adversary_are_columns(files, capfd):
    limits = ["--trusted", "checked", "--annotator", "agent", "--max-change", "500"]
    assert run([*base(files), *FEATURES, *limits, "--learner", "neighbors", "--set", "average=median", "--json"]) == 0
    summary = json.loads(capfd.readouterr().out)
    assert summary["problem"]["unit"] == "annotators"
    codes = {one["code"] for one in summary["assumptions"]}
    assert codes >= {"trusted-targets", "target-annotators", "targets-moved"}


def test_saved_reports_are_converted(files, tmp_path, capfd):
    saved = tmp_path / "saved.json"
    assert run([*base(files), *FEATURES, "--tolerance", "9000", "--report", str(saved)]) == 0
    assert "Assumptions:" in capfd.readouterr().out
    assert run(["report", str(saved)]) == 0
    assert "## Most fragile predictions" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        (["--target", "prize"], "--target: "),
        (["--target", "town"], "targets must be numbers"),
        (["--target", "price", "--range", "0:100"], "within target_range"),
        (["--target", "price", "--range", "100"], "LOW:HIGH"),
        (["--target", "price", "--range", "0:inf"], "LOW:HIGH"),
        (["--target", "price", "--tolerance", "-1"], "--tolerance"),
        (["--target", "price", "--tolerance", "nan"], "--tolerance"),
        (["--target", "price", "--max-shift", "5"], "EPS@FLIPS"),
        (["--target", "price", "--max-shift", "-5@1"], "EPS@FLIPS"),
        (["--target", "price", "--flips", "1.5"], "whole numbers"),
        (["--target", "price", "--label", "town"], "--label cannot be combined"),
        (["--target", "price", "--method", "kl"], "--method cannot be combined"),
        (["--target", "price", "--bom", "bom.cdx.json"], "--bom cannot be combined"),
        (["--target", "price", "--learner", "cluster"], "has no regressor"),
        (["--target", "price", "--set", "colour=1"], "--set"),
        (["--target", "price", "--tolerance", "1", "--threshold", "2"], "not both"),
        (["--target", "price", "--by", "size", "--range", "0:1000000"], ""),
        (["--target", "price", "--by", "colour"], "--by: "),
        (["--target", "price", "--min-radius", "3"], "--tolerance or --threshold"),
        (["--label", "town", "--tolerance", "3"], "requires --target"),
        (["--label", "town", "--coefficients"], "requires --target"),
        (["--label", "town", "--coefficients-out", "c.csv"], "requires --target"),
        (["--target", "price", "--coefficients-out", "c.txt"], "must end in"),
        (["--target", "price", "--coefficients", "--learner", "forest"], "forest has none. Use --learner ridge"),
        (["--target", "price", "--coefficients", "--set", "clip=0.9"], "clip=None"),
    ],
)
def test_bad_input_is_refused_in_one_line(files, capfd, given, fragment):
    code = run([*base(files), *given])
    said = capfd.readouterr()
    if fragment:
        assert code == 2
        assert fragment in said.err
        assert "Traceback" not in said.err
        assert len(said.err.strip().splitlines()) == 1
    else:
        assert code == 0


def test_frames_and_arrays():
    train, test = houses(60, 0), houses(20, 1).set_index(np.arange(100, 120))
    found = flipproof.audit_numbers(
        train,
        test,
        target="price",
        features=COLUMNS,
        target_range=(0, 1e6),
        flips=2,
        tolerance=1e4,
        requirements="shift <= 2e4 @ 3 @ 0.5",
    )
    assert list(found.to_frame().index) == list(range(100, 120))
    assert list(found.to_frame().columns)[:2] == ["target", "prediction"]
    assert "NumberAudit" in repr(found)
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(30, 3)), rng.uniform(size=30), rng.normal(size=(6, 3))
    groups = np.arange(6) % 2
    by_arrays = flipproof.audit_numbers((X, y), Z, learner=CertifiedRidgeRegressor(), flips=[1], by=groups)
    np.testing.assert_array_equal(by_arrays.intervals.prediction, CertifiedRidgeRegressor().fit(X, y).predict(Z))
    assert by_arrays.gaps is not None
    assert by_arrays.test.labels is None


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"target": "y"}, "requires a file"),
        ({"target_range": (1, 0)}, "target_range"),
        ({"learner": "partition"}, "one of ridge"),
        ({"learner": 3}, "one of ridge"),
        ({"requirements": ["accuracy >= 0.9 @ 3"]}, "shift <= 5000"),
        ({"requirements": ["shift <= 1e999 @ 3"]}, "shift <= 5000"),
        ({"parameters": {"n_neighbors": 3}}, "must be one of"),
    ],
)
def test_bad_arguments_are_refused(options, fragment):
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match=fragment):
        flipproof.audit_numbers((X, np.arange(6.0)), X, **options)


def test_more_changes_than_targets_break_nothing_more(files, capfd):
    """A radius that nothing can break holds at any number of changes, and no number shown exceeds the targets."""
    arguments = [*base(files), *FEATURES, "--tolerance", "1e9", "--flips", "10,500,99999999999999999999"]
    assert run([*arguments, "--max-shift", "1e9@500", "--min-radius", "70"]) == 0
    shown_text = " ".join(capfd.readouterr().out.split())
    assert "Even if any 60 of 60 training targets are changed, 100.0% of predictions" in shown_text
    assert "500" not in shown_text.replace("--max-shift 1e9@500", "")
    found = flipproof.audit_numbers(files / "train.csv", files / "test.csv", target="price", annotator="agent")
    assert found.intervals.flips == (1, 5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the same rows in one Parquet file, in several, and test rows."""
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "rows").mkdir()
    rows = houses(90, 0)
    rows.to_parquet(folder / "all.parquet", index=False)
    for number in range(3):
        rows[30 * number : 30 * number + 30].to_parquet(folder / "rows" / f"{number}.parquet", index=False)
    houses(20, 1).to_csv(folder / "test.csv", index=False)
    return folder


LIMITS = {
    "any change": [],
    "limits": ["--trusted", "checked", "--annotator", "agent", "--max-change", "20000"],
}


@pytest.mark.parametrize("limits", LIMITS)
def test_files_in_blocks_have_the_results_of_one_file_in_memory(folder, tmp_path, capfd, limits):
    summaries = []
    for train in ("all.parquet", "rows"):
        out = tmp_path / f"{Path(train).stem}.csv"
        arguments = ["certify", "--train", str(folder / train), "--test", str(folder / "test.csv"), "-q", "--json"]
        arguments += ["--target", "price", "--range", "0:1000000", "--tolerance", "5000", "--coefficients"]
        assert run([*arguments, "--max-shift", "500000@1", "-o", str(out), *LIMITS[limits]]) == 0
        summaries.append(json.loads(capfd.readouterr().out))
    assert (tmp_path / "all.csv").read_bytes() == (tmp_path / "rows.csv").read_bytes()
    memory, blocks = summaries
    for part in ("headline", "flips", "coefficients", "requirement", "radius"):
        assert blocks.get(part) == memory.get(part)
    assert blocks["facts"]["training_files"] == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--by", "town"], "--by needs training rows in memory"),
        (["--proof", "p.flipproof"], "--proof needs training rows in memory"),
        (["--learner", "forest"], "forest needs all training rows in memory. For rows in blocks, use ridge"),
        (["--set", "clip=7"], "clip"),
        (["--set", "colour=7"], "must be NAME=VALUE with one of"),
    ],
)
def test_what_needs_rows_in_memory_is_refused_for_files_in_blocks(folder, capfd, more, message):
    arguments = ["certify", "--train", str(folder / "rows"), "--test", str(folder / "test.csv"), "-q"]
    assert run([*arguments, "--target", "price", *more]) == 2
    said = capfd.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_files_in_blocks_need_test_rows_and_numbers(folder, capfd):
    train = ["certify", "--train", str(folder / "rows"), "-q"]
    assert run([*train, "--holdout", "0.2", "--target", "price"]) == 2
    assert "--holdout needs training rows in memory" in capfd.readouterr().err
    assert run([*train, "--test", str(folder / "test.csv"), "--target", "town"]) == 2
    assert "targets must be numbers" in capfd.readouterr().err


def test_the_library_takes_row_blocks_and_a_regressor_for_them():
    train, test = (one["size"].to_numpy()[:, None] for one in (houses(60, 0), houses(20, 1)))
    y = houses(60, 0)["price"].to_numpy()
    blocks = RowBlocks.from_blocks([(train[:20], y[:20]), (train[20:], y[20:])])
    settings = {"target_range": (0, 1e6), "flips": [1, 3]}
    wanted = audit_numbers((train, y), test, **settings).intervals
    found = audit_numbers(blocks, test, learner=StreamingRidgeRegressor(block_size=7), **settings)
    np.testing.assert_array_equal(found.intervals.low, wanted.low)
    assert found.provenance.n_train == 60
