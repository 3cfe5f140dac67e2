"""Commands on files as they come: JSON lines, standard input, encodings, decimal commas, codes, and warnings."""

import io
import json
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from small_tables import emails, write_emails

from flipproof.cli.group import run
from flipproof.runtime.files import digest_of


def as_csv(table, separator=",", decimal="."):
    """Return a table as CSV."""
    lines = [separator.join(table.column_names)]
    for row in table.to_pylist():
        lines.append(separator.join(str(one).replace(".", decimal) for one in row.values()))
    return "\n".join(lines) + "\n"


TRAIN, TEST = emails(60, 1), emails(12, 2)


@pytest.fixture
def certified(tmp_path, monkeypatch, capfd):
    """Return a function that runs `flipproof certify` and returns predictions and radii, the facts and the warnings."""
    monkeypatch.chdir(tmp_path)

    def check(train, test, *options, command="certify"):
        given = ["--train", train, "--test", test, "--label", "kind", "--id", "key", "-o", "out.parquet", "--json"]
        assert run([command, *given, *options]) == 0
        captured = capfd.readouterr()
        rows = parquet.read_table("out.parquet").to_pydict()
        return (rows["prediction"], rows["radius"]), json.loads(captured.out)["facts"], captured.err

    return check


@pytest.fixture
def expected(certified, tmp_path):
    (tmp_path / "train.csv").write_text(as_csv(TRAIN))
    (tmp_path / "test.csv").write_text(as_csv(TEST))
    rows, _, said = certified("train.csv", "test.csv")
    assert said == ""
    return rows


def test_json_lines(certified, expected, tmp_path):
    for name, table in (("train", TRAIN), ("test", TEST)):
        text = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
        (tmp_path / f"{name}.jsonl").write_text(text)
    rows, _, said = certified("train.jsonl", "test.jsonl")
    assert (rows, said) == (expected, "")


@pytest.mark.parametrize("option", ["--train", "--test"])
def test_standard_input(certified, expected, monkeypatch, option):
    table = TRAIN if option == "--train" else TEST
    content = as_csv(table).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    rows, facts, said = certified(*(("-", "test.csv") if option == "--train" else ("train.csv", "-")))
    assert (rows, said) == (expected, "")
    assert facts["sha256"]["standard input"] == digest_of(content)


def test_decimal_commas_encodings_and_missing_values(certified, expected, tmp_path):
    for name, table in (("train", TRAIN), ("test", TEST)):
        table = table.set_column(2, "country", [np.char.replace(table["country"].to_pylist(), "here", "hér")])
        (tmp_path / f"{name}.csv").write_text(as_csv(table, ";", ","), "cp1252")
    rows, _, said = certified("train.csv", "test.csv", "--decimal", ",", "--encoding", "cp1252")
    assert (rows, said) == (expected, "")
    text = (tmp_path / "train.csv").read_text("cp1252")
    first = text.splitlines()[1].split(";")[1]
    (tmp_path / "train.csv").write_text(text.replace(first, "?", 1), "utf-16")
    (tmp_path / "test.csv").write_text((tmp_path / "test.csv").read_text("cp1252"), "utf-16")
    _, facts, _ = certified("train.csv", "test.csv", "--decimal", ",", "--na", "?")
    assert facts["encoding"][0].startswith("1 column of numbers (length)")
    assert facts["encoding"][0].endswith("2 features")


@pytest.mark.parametrize("in_blocks", [False, True])
def test_codes_are_categories(certified, tmp_path, in_blocks):
    (tmp_path / "rows").mkdir()
    for name, table in (("rows/train", TRAIN), ("test", TEST)):
        codes = pa.array(np.arange(table.num_rows) % 5 + 100)
        parquet.write_table(table.append_column("code", codes), tmp_path / f"{name}.parquet")
    train = "rows" if in_blocks else "rows/train.parquet"
    _, facts, _ = certified(train, "test.parquet", "--categories", "code", "--quiet")
    assert any("2 columns of words (country, code)" in line for line in facts["encoding"])


@pytest.mark.parametrize("command", ["certify", "attack"])
def test_warnings_are_one_line_each(tmp_path, capfd, command):
    files = write_emails(tmp_path)
    train = emails(80, 1)
    keys = ["same", "same", *train["key"].to_pylist()[2:]]
    (tmp_path / "train.csv").write_text(as_csv(train.set_column(0, "key", [keys])))
    assert run([command, *files[:2], "--test", files[1], *files[4:]]) == 0
    said = capfd.readouterr().err.splitlines()
    assert all(line.startswith("flipproof: warning: ") for line in said)
    assert sum("is not unique: 2 rows have the id 'same'" in line for line in said) == 2
    assert sum("is both the training and the test file" in line for line in said) == 1
    assert len(said) == 3
    assert run([command, *files[:2], "--test", files[1], *files[4:], "--quiet"]) == 0
    assert capfd.readouterr().err == ""
