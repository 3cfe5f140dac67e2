"""Text files as they come: JSON lines, encodings, decimal commas, values that mean a missing one, standard input."""

import io
import json
import os
import sys
import threading

import pyarrow as pa
import pytest
from pyarrow import parquet

from flipproof.tables import TextLayout, read_table
from flipproof.tables.file_content import digest_of_source
from flipproof.tables.reading import read_file

ROWS = {"length": [1.5, None, 3.0], "kind": ["ham", "spam", "größe"]}
LINES = '{"length": 1.5, "kind": "ham"}\n\n{"kind": "spam"}\n{"length": 3, "kind": "größe"}\n'


def written(folder, name, content):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a", "a.txt"])
def test_json_lines(tmp_path, name):
    assert read_table(written(tmp_path, name, LINES)).to_pydict() == ROWS


def test_arrays_of_json_objects(tmp_path):
    rows = [{"length": 1.5, "kind": "ham"}, {"kind": "spam"}, {"length": 3, "kind": "größe"}]
    for indent in (None, 2):
        assert read_table(written(tmp_path, "a.json", json.dumps(rows, indent=indent))).to_pydict() == ROWS


def test_json_values(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"v": [1, 2.5], "b": true, "n": 7}\n{"v": [0, 1], "b": null, "n": -8}\n')
    assert read_table(path).to_pydict() == {"v": [[1.0, 2.5], [0.0, 1.0]], "b": [True, None], "n": [7, -8]}


def test_json_dates_are_words_where_words_are_expected(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"a": "2020-01-01", "b": "2020-01-01"}\n')
    table = read_table(path, purposes={"a": "label"})
    assert table["a"].to_pylist() == ["2020-01-01"]
    assert pa.types.is_timestamp(table["b"].type)


def test_json_strings_that_mean_missing_values(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"age": 7}\n{"age": "?"}\n')
    with pytest.raises(ValueError, match=r"a string in line 2: '\?'.*give layout=TextLayout\(na='\?'\)"):
        read_table(path)
    assert read_table(path, TextLayout(na="?")).to_pydict() == {"age": [7, None]}


def test_zstandard(tmp_path):
    compressed = pa.compress(LINES.encode(), "zstd", asbytes=True)
    assert read_table(written(tmp_path, "a.jsonl.zst", compressed)).to_pydict() == ROWS


@pytest.mark.parametrize(
    ("encoding", "given"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("utf-32", None),
        ("utf-16-le", "utf-16-le"),
        ("cp1252", "latin-1"),
        ("utf-8-sig", "utf8"),
        ("utf-16", "UTF-16"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_encodings(tmp_path, name, encoding, given):
    text = LINES if name == "a.jsonl" else "length,kind\r\n1.5,ham\r\nNA,spam\r\n3,größe\r\n"
    assert read_table(written(tmp_path, name, text.encode(encoding)), TextLayout(encoding=given)).to_pydict() == ROWS


def test_decimal_commas(tmp_path):
    path = written(tmp_path, "a.csv", "x;y;w\n1,5;1;a,b\n-2;2;c\n,5;1;d\n")
    table = read_table(path, TextLayout(decimal=","), purposes={"y": "label"})
    assert table.to_pydict() == {"x": [1.5, -2.0, 0.5], "y": [1, 2, 1], "w": ["a,b", "c", "d"]}
    assert read_table(path)["x"].to_pylist() == ["1,5", "-2", ",5"]


def test_labels_with_decimal_commas_merge_no_classes(tmp_path):
    path = written(tmp_path, "a.csv", "x;y\n1;1,0\n2;2\n3;1\n")
    with pytest.raises(ValueError, match="one number in two spellings"):
        read_table(path, TextLayout(decimal=","), purposes={"y": "label"})


def test_values_that_mean_a_missing_one(tmp_path):
    path = written(tmp_path, "a.csv", "x,w\n1, ?\n ?,a\n3,- \nN/A ,b\n")
    assert read_table(path, TextLayout(na=("?", "-"))).to_pydict() == {
        "x": [1, None, 3, None],
        "w": [None, "a", None, "b"],
    }
    assert read_table(path)["x"].to_pylist() == ["1", "?", "3", None]
    assert read_table(path, TextLayout(na=("?",)), as_words=["x"])["x"].to_pylist() == ["1", None, "3", None]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_separators_are_found_in_csv_files(tmp_path, separator):
    path = written(tmp_path, "a.csv", f'x{separator}"y, z"\n1{separator}2\n')
    assert read_table(path).to_pydict() == {"x": [1], "y, z": [2]}


@pytest.mark.parametrize("name", ["BZhello", "RDX_score", "GIF8", "PAR1", "BM", "PK", "Obj"])
def test_names_of_columns_that_begin_like_other_formats(tmp_path, name):
    assert read_table(written(tmp_path, "a.csv", f"{name},y\n1,2\n")).to_pydict() == {name: [1], "y": [2]}


def test_content_counts_more_than_the_ending(tmp_path):
    table = pa.table({"x": [1, 2]})
    parquet.write_table(table, tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv").equals(table)
    assert read_table(written(tmp_path, "b.xlsx", "x,y\n1,2\n")).to_pydict() == {"x": [1], "y": [2]}


@pytest.mark.parametrize(
    ("content", "layout", "lines"),
    [
        ("x,y\n1,2\n3,4\n", TextLayout(), [2, 3]),
        ("\nx,y\r\n\r\n1,2\r\n\n3,4", TextLayout(), [4, 6]),
        ('x,y\n"a\nb",2\n"c",4\n', TextLayout(), [2, 4]),
        ('"a,2\nc",4\n', TextLayout(header=False, quotes=False), [1, 2]),
        ("1,2\n3,4\n", TextLayout(names=("x", "y")), [1, 2]),
    ],
)
def test_lines_of_rows(tmp_path, content, layout, lines):
    rows = read_file(written(tmp_path, "a.csv", content), layout).rows
    assert [rows.named(row) for row in range(2)] == [f"line {line}" for line in lines]


def test_lines_of_other_files(tmp_path):
    rows = read_file(written(tmp_path, "a.jsonl", LINES)).rows
    assert [rows.named(row) for row in range(3)] == ["line 1", "line 3", "line 4"]
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    assert read_file(tmp_path / "a.parquet").rows.named(0) == "row 0"


def test_standard_input(tmp_path, monkeypatch):
    path = written(tmp_path, "a.csv", "x,y\n1,2\n")
    parquet.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "a.parquet")
    for file in (path, tmp_path / "a.parquet"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
        assert read_table("-").to_pydict() == {"x": [1], "y": [2]}
        assert digest_of_source("-") == digest_of_source(file)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="no standard input"):
        read_table("-")


def test_pipes_are_read_once(tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"x,y\n1,2\n",))
    writer.start()
    rows = read_file(path)
    writer.join()
    assert rows.table.to_pydict() == {"x": [1], "y": [2]}
    assert rows.rows.named(0) == "line 2"
    assert digest_of_source(path) == digest_of_source(written(tmp_path, "a.csv", b"x,y\n1,2\n"))
