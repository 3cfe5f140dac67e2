"""`flipproof certify --reference FILE --changes rows`: the same as the library, and refusals in one line."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from small_tables import FEATURES, mails, write, write_mails

import flipproof
from flipproof.cli.group import run
from flipproof.files import digest_of_file


@pytest.fixture
def files(tmp_path):
    write(mails(40, 7).select(FEATURES), tmp_path / "reference.csv")
    return [*write_mails(tmp_path), "--reference", str(tmp_path / "reference.csv")]


@pytest.fixture
def refused(tmp_path, capfd):
    """Return a function that runs a command that fails, and returns its message."""

    def check(*arguments, command="certify"):
        assert run([command, *map(str, arguments), "-o", str(tmp_path / "out.csv")]) == 2
        captured = capfd.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert not (tmp_path / "out.csv").exists()
        return captured.err

    return check


@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
def test_the_output_matches_the_library(files, tmp_path, capfd, changes):
    out = tmp_path / "out.csv"
    assert run(["certify", *files, "--changes", changes, "--clip", "0.9", "--json", "-o", str(out)]) == 0
    summary, written = json.loads(capfd.readouterr().out), csv.read_csv(out)
    wanted = flipproof.audit(
        *(tmp_path / f"{name}.csv" for name in ("train", "test")),
        label="kind",
        id="key",
        reference=tmp_path / "reference.csv",
        changes=changes,
        clip=0.9,
    )
    assert written["radius"].to_pylist() == wanted.main.radius.tolist()
    assert written["unlimited"].to_pylist() == wanted.main.unlimited.tolist()
    assert (summary["problem"]["unit"], summary["problem"]["changes"]) == ("rows", changes)
    assert summary["facts"]["reference_rows"] == 40
    assert digest_of_file(tmp_path / "reference.csv") in summary["facts"]["sha256"].values()


def test_requirements_and_the_printed_summary(files, capfd):
    required = ["--changes", "rows", "--clip", "sign", "--min-radius", "1000"]
    assert run(["certify", *files, *required]) == 1
    printed = capfd.readouterr().out
    assert "40 reference rows:" in printed
    assert "changed rows" in printed
    assert run(["certify", *files]) == 0
    printed = capfd.readouterr().out
    assert "changed labels" in printed
    assert "changed rows" in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "tight"], "--method: only exact"),
        (["--allow", "ham:spam"], "--allow cannot be combined with --changes rows"),
        (["--clip", "1.5"], "above 0 and at most 1"),
        (["--clip", "loud"], "above 0 and at most 1"),
        (["--learner", "cluster", "--clip", "0.9"], "--clip: the learner 'cluster'"),
        (["--clip", "0.9", "--set", "clip=0.5"], "give --clip only once"),
    ],
)
def test_options_that_do_not_fit_are_refused(files, refused, options, said):
    assert said in refused(*files, "--changes", "rows", *options)


def test_changes_of_rows_require_a_reference(files, refused):
    assert "--changes rows requires --reference" in refused(*files[:-2], "--changes", "rows")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (mails(1, 7).select(FEATURES), "at least 2 are required"),
        (mails(9, 7).select(["length", "country"]), "no feature column 'answered'"),
        (mails(9, 7).select(FEATURES).append_column("more", [np.arange(9)]), "no feature column 'more'"),
        (mails(9, 7).select(FEATURES).set_column(0, "length", pa.array(["a"] * 9)), "holds words in the reference"),
        (mails(9, 7).select(FEATURES).set_column(0, "length", pa.nulls(9)), "in the reference, column 'length'"),
    ],
)
def test_references_that_do_not_fit_are_refused(files, refused, tmp_path, table, said):
    csv.write_csv(table, tmp_path / "reference.csv")
    if "holds words" in said:  # words are read as words, so that the training rows fit: in Parquet they do not
        write(table, tmp_path / "reference.parquet")
        write(mails(80, 1), tmp_path / "train.parquet")
        files = ["--train", tmp_path / "train.parquet", *files[2:-1], tmp_path / "reference.parquet"]
    assert said in refused(*files, "--changes", "rows")


def test_unreadable_references_are_refused(files, refused, tmp_path):
    assert "there is no such file" in refused(*files[:-1], tmp_path / "nowhere.csv")
    (tmp_path / "reference.csv").write_bytes(b"")
    assert "the file is empty" in refused(*files)


def test_the_reference_is_not_overwritten(files, capfd):
    assert run(["certify", *files, "-o", files[-1]]) == 2
    assert "it is also an input file" in capfd.readouterr().err


def test_attacks_by_rows_are_refused(files, refused):
    assert "omit --changes" in refused(*files, "--changes", "rows", command="attack")
