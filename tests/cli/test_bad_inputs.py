"""Files and options as they come from users in a hurry and from attackers: one line, the right exit code, no file."""

import bz2
import contextlib
import errno
import gzip
import io
import json
import lzma
import os
import sqlite3
import sys
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from flipproof.cli.group import run

HEADER = "length,country,kind\n"
LINES = [
    f"{length / 7:.3f},{'here' if length % 3 else 'there'},{'spam' if length > 6 else 'ham'}" for length in range(14)
]
GOOD = HEADER + "\n".join(LINES) + "\n"
NEW = HEADER + "0.05,here,ham\n1.95,there,spam\n"
USUAL = ("--train", "train.csv", "--test", "test.csv", "--label", "kind")


def replaced(old, new, text=GOOD):
    """Return a text with one part replaced."""
    assert old in text
    return text.replace(old, new, 1)


def saved(write):
    """Return what a function writes to a file."""
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def zipped(**members):
    """Return a ZIP archive."""

    def write(stream):
        with zipfile.ZipFile(stream, "w") as archive:
            for name, content in members.items():
                archive.writestr(name.replace("__", "/").replace("_", "."), content)

    return saved(write)


def tarred():
    def write(stream):
        with tarfile.open(fileobj=stream, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("train.csv"))

    return saved(write)


def stored(columns, write=parquet.write_table):
    """Return a table as Parquet, or as `write` writes it."""
    return saved(lambda stream: write(pa.table(columns), stream))


def damaged_arrow():
    """Return an Arrow file with a word that ends far behind the last one: to read it would crash the process."""
    content = stored(
        {"kind": ["ham", "spam"]}, lambda table, stream: feather.write_feather(table, stream, "uncompressed")
    )
    offsets = np.array([0, 3, 7], dtype="<i4").tobytes()
    assert content.count(offsets) == 1
    return content.replace(offsets, np.array([0, 3, 2**30], dtype="<i4").tobytes())


def lines(*rows):
    """Return JSON lines."""
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


def sqlite_database():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table emails (length real)")
        return connection.serialize()


@dataclass(frozen=True)
class Bad:
    """A bad input: what the message must contain, files that replace or join the usual ones, options, exit code."""

    said: str
    train: str | bytes | None = None
    test: str | bytes | None = None
    more: dict = field(default_factory=dict)
    options: tuple = ()
    usual: tuple = USUAL
    command: str = "certify"


def named(name, said, content, *options, **settings):
    """Return a bad training file with another name."""
    usual = ("--train", name, "--holdout", "0.5", "--label", settings.pop("label", "kind"))
    return Bad(said, more={name: content}, options=options, usual=usual, **settings)


HOLDOUT = ("--train", "train.csv", "--holdout", "0.5", "--label", "kind")
TWO = [{"length": 1, "kind": "ham"}, {"length": 2, "kind": "spam"}]
ARRAYS = {"X": np.arange(8.0).reshape(4, 2), "kind": np.array([0, 1, 0, 1])}

BAD = {
    # nothing, or hardly anything
    "empty": Bad("the file is empty", ""),
    "blank lines": Bad("it has no lines with text", "\n \n\n"),
    "header only": Bad("has no rows", HEADER),
    "one row": Bad("leaves no training rows or no test rows", HEADER + LINES[0] + "\n", usual=HOLDOUT),
    "only the label": Bad("has no feature columns left", "kind\nham\nspam\nham\n", "kind\nham\n"),
    "column without values": Bad("column 'length' has no values", HEADER + "NA,here,ham\n,there,spam\n"),
    "one class": Bad("all labels in column 'kind' are 'ham'", GOOD.replace("spam", "ham")),
    "missing label": Bad("missing labels in column 'kind', the first in line 2:", replaced("here,ham", "here,", NEW)),
    "missing test label": Bad("missing labels in column 'kind', the first in line 3", test=replaced(",spam", ",", NEW)),
    "every label once": Bad(
        "is it the label column?", "length,kind\n" + "".join(f"{i},k{i}\n" for i in range(60)), usual=HOLDOUT
    ),
    # other formats under any name
    "Excel": named("train.xlsx", "an Excel workbook", zipped(xl__workbook_xml=b"<workbook/>")),
    "Excel as CSV": Bad("an Excel workbook", zipped(xl__workbook_xml=b"<workbook/>")),
    "old Excel": named("train.xls", "an Excel workbook (.xls)", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
    "OpenDocument": named("train.ods", "an OpenDocument file", zipped(content_xml=b"<office/>")),
    "ZIP": named("train.zip", "a ZIP archive, not a table. To use it, unpack it", zipped(train_csv=GOOD)),
    "empty ZIP": named("train.zip", "a ZIP archive", zipped()),
    "TAR": named("train.tar", "a TAR archive", tarred()),
    "TAR.GZ": named("train.tar.gz", "a TAR archive", gzip.compress(tarred())),
    "PNG": named("train.png", "a PNG image", b"\x89PNG\r\n\x1a\n" + bytes(50)),
    "JPEG as CSV": Bad("a JPEG image", b"\xff\xd8\xff\xe0" + bytes(50)),
    "PDF": named("table.pdf", "a PDF document", b"%PDF-1.7\n%\xe2\xe3"),
    "HTML": named("page.html", "an HTML page", "<!DOCTYPE html>\n<html><body>404</body></html>"),
    "HTML as CSV": Bad("download the file itself", "\n  <html><head></head></html>"),
    "XML": named("table.xml", "an XML file", '<?xml version="1.0"?><rows/>'),
    "pickle": named("frame.pkl", "a Python pickle", b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00}\x94."),
    "pickle as Parquet": named("frame.parquet", "it is never read", b"\x80\x05\x95" + bytes(20)),
    "PyTorch": named("model.pt", "contains a pickle", zipped(archive__data_pkl=b"\x80\x02}.")),
    "SQLite": named("emails.db", "an SQLite database", sqlite_database()),
    "HDF5": named("train.h5", "an HDF5 file", b"\x89HDF\r\n\x1a\n" + bytes(50)),
    "Git LFS": Bad("run git lfs pull", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
    "random bytes": Bad("has a NUL byte", bytes(range(1, 9)) + b"\x00\n" * 9),
    # damaged or misnamed
    "gzip cut": named("train.csv.gz", "compressed, but damaged", gzip.compress(GOOD.encode())[:40]),
    "xz cut": named("train.csv.xz", "compressed, but damaged", lzma.compress(GOOD.encode())[:50]),
    "bzip2 cut": named("train.csv.bz2", "compressed, but damaged", bz2.compress(GOOD.encode())[:60]),
    "zstd damaged": named("train.csv.zst", "compressed, but damaged", b"\x28\xb5\x2f\xfd" + b"\xff" * 40),
    "not compressed": named("train.csv.gz", "not compressed as its ending says", GOOD),
    "Parquet cut": named("train.parquet", "cannot read 'train.parquet' as PARQUET", stored({"kind": ["a", "b"]})[:80]),
    "Parquet with a bad footer": named("a.parquet", "as PARQUET", b"PAR1" + b"\xff" * 40 + b"\x04\x00\x00\x00PAR1"),
    "Arrow cut": named(
        "train.arrow",
        "as ARROW",
        stored({"kind": ["a"]}, lambda t, s: feather.write_feather(t, s, "uncompressed"))[:70],
    ),
    "NPZ cut": named("train.npz", "as NPZ", saved(lambda stream: np.savez(stream, **ARRAYS))[:200]),
    "NPY cut": named("train.npy", "as NPY", saved(lambda stream: np.save(stream, ARRAYS["X"]))[:90]),
    "NPY with a bad header": named("a.npy", "as NPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8', (\n" + bytes(64)),
    "Arrow with bad offsets": named("train.arrow", "binary offsets", damaged_arrow()),
    "NPZ of objects": named(
        "train.npz", "allow_pickle=False", saved(lambda s: np.savez(s, X=np.array([{}, 1], dtype=object), kind=[0, 1]))
    ),
    "NPY of objects": named(
        "train.npy", "allow_pickle=False", saved(lambda s: np.save(s, np.array([[{}, 1]], dtype=object)))
    ),
    "NPZ of different lengths": named(
        "train.npz", "same number of rows", saved(lambda s: np.savez(s, X=np.zeros((3, 2)), kind=[0, 1]))
    ),
    "CSV as Parquet": named("train.parquet", "as PARQUET", GOOD),
    # CSV
    "fewer values": Bad("line 4 has 2 columns, but the first line has 3", replaced(LINES[2], "1.0,here")),
    "more values": Bad("line 4 has 4 columns, but the first line has 3", replaced(LINES[2], "1,0,here,ham")),
    "fewer values after a line break in quotes": Bad(
        "line 5 has 1 column", replaced(LINES[1], '1,"he\nre",ham').replace(LINES[2], "lost")
    ),
    "quote never closed": Bad('line 3 has a quote (") that is never closed', replaced(LINES[1], '1,"here,ham')),
    "NUL": Bad("line 3 has a NUL byte", replaced(LINES[1], "1,he\0re,ham")),
    "UTF-16 without a mark": Bad("--encoding utf-16-le", GOOD.encode("utf-16-le")),
    "UTF-16 cut": Bad("not a text in utf-16", GOOD.encode("utf-16")[:-1]),
    "Latin-1": Bad(
        "line 2 is not UTF-8. Give its encoding, for example --encoding cp1252",
        GOOD.replace("here", "hér").encode("latin-1"),
    ),
    "mark inside": Bad("line 16 has a byte order mark", (GOOD + "\ufeff" + LINES[1] + "\n")),
    "encoding against the mark": Bad(
        "byte order mark of UTF-8", b"\xef\xbb\xbf" + GOOD.encode(), options=("--encoding", "cp1252")
    ),
    "same name twice": Bad("more than one column is called 'length'", GOOD.replace("country", "length")),
    "no header": Bad("give --no-header", "0,0,1,ham\n0,1,1,spam\n" * 4, usual=(*HOLDOUT[:5], "1")),
    "no header, label by number": Bad("give --no-header", "0,7,1\n2,4,9\n" * 4, usual=(*HOLDOUT[:5], "f2")),
    "wrong separator": Bad("Its only column is 'length:country:kind'", GOOD.replace(",", ":")),
    "separator of another file": Bad("Its only column is", options=("--separator", ";")),
    "names too few": Bad("line 1 has 3 columns, but names have 2", options=("--names", "kind,length")),
    "joined files": Bad(
        "column 'length': 1 of 14 values is not a number: 'length' in line 8", replaced(LINES[6], HEADER.strip())
    ),
    # values
    "word among numbers": Bad(
        "column 'length': 1 of 14 values is not a number: 'N/A?' in line 4 of 'train.csv'",
        replaced(LINES[2], "N/A?,here,ham"),
    ),
    "words among numbers": Bad(
        "--na 'unknown'", replaced(LINES[2], "unknown,here,ham").replace(LINES[5], "unknown,here,ham")
    ),
    "few codes among numbers": Bad("--categories 'length'", HEADER + "1,here,ham\n2,here,spam\n3+,there,ham\n" * 4),
    "word among test numbers": Bad(
        "but words in the test rows: 'long' in line 2 of 'test.csv'", test=replaced("0.05", "long", NEW)
    ),
    "decimal commas": Bad(
        "numbers with decimal commas: '0,000' in line 2 of 'train.csv'. Give --decimal ,",
        GOOD.replace(",", ";").replace(".", ","),
        NEW.replace(",", ";").replace(".", ","),
    ),
    "decimal points as commas": Bad("decimal points", GOOD.replace(",", ";"), options=("--decimal", ",")),
    "thousands": Bad(
        "numbers with other signs: '$1,234.5'", "price,kind\n" + '"$1,234.5",ham\n"$12",spam\n' * 4, usual=HOLDOUT
    ),
    "infinity": Bad("column 'length' holds infinity in line 4 of 'train.csv'", replaced(LINES[2], "inf,here,ham")),
    "infinity in test": Bad("holds infinity in line 3 of 'test.csv'", test=replaced("1.95", "-inf", NEW)),
    "infinity with holdout": Bad(
        "holds infinity in line 4 of 'train.csv'", replaced(LINES[2], "inf,here,ham"), usual=HOLDOUT
    ),
    "dates": Bad(
        "column 'length' holds date32", HEADER + "2020-01-01,here,ham\n2020-01-02,there,spam\n" * 4, usual=HOLDOUT
    ),
    "label spelled twice": Bad(
        "holds '1' and '01', one number in two spellings", "length,kind\n1,1\n2,0\n3,01\n4,0\n", usual=HOLDOUT
    ),
    "label with a decimal": Bad(
        "holds '1' and '1.0', one number in two spellings", "length,kind\n1,1\n2,0\n3,1.0\n4,0\n", usual=HOLDOUT
    ),
    "label almost a number": Bad(
        "column 'kind': 1 of 5 labels is not a number: '?' in line 6",
        "length,kind\n1,1\n2,0\n3,1\n4,0\n5,?\n",
        usual=HOLDOUT,
    ),
    "label of fractions": Bad(
        "holds fractions: labels must be classes", "length,kind\n1,0.5\n2,1.5\n3,0.5\n4,2.5\n", usual=HOLDOUT
    ),
    "label of booleans in two spellings": Bad(
        "write True in one way", "length,kind\n1,true\n2,True\n3,false\n4,false\n", usual=HOLDOUT
    ),
    "label in test of another type": Bad(
        "must contain classes of the training rows", test=NEW.replace("ham", "0").replace("spam", "1")
    ),
    "copy of the label": Bad(
        "column 'again' is a copy of the label",
        "".join(f"{line},{line.rsplit(',')[-1] if n else 'again'}\n" for n, line in enumerate(GOOD.split())),
    ),
    "distinct words": Bad(
        "too many for categories. Give --text 'name'",
        "name,kind\n" + "".join(f"n{i}x,{'ab'[i % 2]}\n" for i in range(250)),
        usual=HOLDOUT,
    ),
    "text without words": Bad(
        "too few words", GOOD.replace("here", "!").replace("t!", "."), NEW, options=("--text", "country")
    ),
    # columns
    "label misspelled": Bad(
        "has no column 'knid'. Did you mean 'kind'? It has 'length', 'country', 'kind'.", usual=(*USUAL[:5], "knid")
    ),
    "label in other case": Bad("Did you mean 'kind'?", usual=(*USUAL[:5], "KIND")),
    "unicode name": Bad("has no column 'größe'", usual=(*USUAL[:5], "größe")),
    "test without a column": Bad(
        "'test.csv' has no column 'country', which the training rows have", test="length,kind\n1,ham\n"
    ),
    "id missing in test": Bad(
        "'test.csv' has no column 'key'",
        "key," + GOOD.replace("\n0", "\n7,0").replace("\n1", "\n8,1").replace("\n2", "\n9,2"),
        options=("--id", "key"),
    ),
    "text and categories": Bad(
        "cannot be both --text and --categories", options=("--text", "country", "--categories", "country")
    ),
    "categories misspelled": Bad(
        "--categories: 'train.csv' has no column 'countri'", options=("--categories", "countri")
    ),
    "label as text": Bad("the label column 'kind' cannot be a feature", options=("--text", "kind")),
    "nothing left": Bad("has no feature columns left", options=("--drop", "*")),
    "numbers as text": Bad(
        "column 'length' must hold words to be read as text",
        more={"t.parquet": stored({"length": [1.0, 2.0] * 4, "kind": ["a", "b"] * 4})},
        usual=("--train", "t.parquet", "--holdout", "0.5", "--label", "kind"),
        options=("--text", "length"),
    ),
    "Parquet with nested columns": named(
        "train.parquet", "column 'a' holds struct", stored({"a": [{"b": 1}] * 8, "kind": ["a", "a", "b", "b"] * 2})
    ),
    "Parquet with times": named(
        "train.parquet",
        "column 'a' holds timestamp",
        stored({"a": np.arange(8).astype("datetime64[s]"), "kind": ["a", "a", "b", "b"] * 2}),
    ),
    "Parquet with the same name twice": named(
        "train.parquet",
        "more than one column called 'a'",
        saved(lambda s: parquet.write_table(pa.table([[1, 2], [1, 2], [0, 1]], names=["a", "a", "kind"]), s)),
    ),
    "Parquet with vectors of two lengths": named(
        "train.parquet", "vectors of the same length", stored({"v": [[1.0], [1.0, 2.0]] * 4, "kind": ["a", "b"] * 4})
    ),
    "Parquet with a missing vector": named(
        "train.parquet",
        "has no vector in row 1 of 'train.parquet'",
        stored({"v": [[1.0], None, [2.0], [3.0]] * 2, "kind": ["a", "b"] * 4}),
        "--seed",
        "1",
    ),
    "Parquet label of lists": named(
        "train.parquet", "labels must be words or whole numbers", stored({"x": [1, 2, 3, 4], "kind": [[1], [2]] * 2})
    ),
    "Parquet label too large": named(
        "train.parquet",
        "labels must be words, or whole numbers of at most 64 bits",
        stored({"x": [1, 2, 3, 4], "kind": [1.0, 2.0, 1e300, 1.0]}),
    ),
    # JSON
    "JSON cut": named("train.jsonl", "line 2 is not valid JSON", lines(TWO[0], '{"length": 2, "ki')),
    "JSON of two kinds": named(
        "train.jsonl",
        "column 'length' holds a number in line 1, but a string in line 3: 'N/A?'",
        lines(TWO[0], "", {"length": "N/A?", "kind": "ham"}),
    ),
    "JSON with a name twice": named("train.jsonl", "it has 'kind' twice", lines('{"kind": 1, "kind": 2}')),
    "JSON list lines": named(
        "train.jsonl", "line 1 is not a JSON object", lines([1, 2], [3, 4]).replace("[1", " 7, [1", 1)
    ),
    "JSON array of numbers": named("train.json", "entry 0 of the JSON array is not an object", "[1, 2]"),
    "JSON of columns": named(
        "train.json", "Write one object per row", json.dumps({"length": {"0": 1}, "kind": {"0": "a"}})
    ),
    "JSON over several lines": named("train.json", "Write one object per line", json.dumps(TWO[0], indent=1)),
    "JSON bomb": named("train.jsonl", "is not valid JSON", '{"kind": ' + "[" * 200_000 + "]" * 200_000 + "}"),
    "JSON array bomb": named("train.json", "not valid JSON", "[" * 200_000),
    "JSON labels too large": named(
        "train.jsonl",
        "more than 53 bits: write them as strings",
        lines({"x": 1, "kind": 2**63}, {"x": 2, "kind": 2**63 + 1}),
    ),
    "JSON with nested objects": named(
        "train.jsonl", "column 'a' holds struct", lines({"a": {"b": 1}, "kind": 1}, {"a": {"b": 2}, "kind": 2}) * 3
    ),
    "JSON with names": named("train.jsonl", "JSON has names of its own", lines(*TWO), "--names", "a,b"),
    # paths
    "no such file": Bad("there is no such file", usual=("--train", "nowhere.csv", *USUAL[2:])),
    "no such test file": Bad("there is no such file", usual=(*USUAL[:3], "nowhere.csv", *USUAL[4:])),
    "pattern without files": Bad("no file matches", usual=("--train", "nowhere*.parquet", *USUAL[2:])),
    "folder without tables": Bad("has no files that end in", usual=("--train", ".", *USUAL[2:])),
    "folder as test": Bad("it is a folder", usual=(*USUAL[:3], ".", *USUAL[4:])),
    "broken link": Bad("it is a link to 'gone.csv', which does not exist", usual=("--train", "link.csv", *USUAL[2:])),
    "device": Bad("neither a file nor a pipe", usual=("--train", "/dev/null", *USUAL[2:])),
    "standard input twice": Bad(
        "--train and --test cannot both be -", usual=("--train", "-", "--test", "-", *USUAL[4:])
    ),
    "name with NUL": Bad("null byte", usual=("--train", "tr\0ain.csv", *USUAL[2:])),
    "very long name": Bad("File name too long", usual=("--train", "x" * 300, *USUAL[2:])),
    # outputs
    "output in no folder": Bad("there is no folder 'gone'", options=("-o", "gone/out.csv")),
    "output is a folder": Bad("it is a folder", options=("-o", "folder.csv")),
    "output is an input": Bad("it is also an input file", options=("-o", "train.csv")),
    "output is the test file, by another name": Bad(
        "it is also an input file", options=("-o", "./folder.csv/../test.csv")
    ),
    "output of an unknown kind": Bad("its name must end in", options=("-o", "out.xlsx")),
    "output without an ending": Bad("its name must end in", options=("-o", "out")),
    "report of an unknown kind": Bad("its name must end in .html, .md or .json", options=("--report", "r.pdf")),
    "two outputs at one path": Bad("two options name this file", options=("-o", "same.json", "--report", "same.json")),
    "output not writable": Bad("cannot write '/proc/self/out.csv'", options=("-o", "/proc/self/out.csv")),
    # options
    "unknown encoding": Bad("'utf-9' is not a known encoding", options=("--encoding", "utf-9")),
    "encoding that is none": Bad("'rot13' is not a known encoding", options=("--encoding", "rot13")),
    "unknown decimal": Bad("'x' is not one of '.', ','", options=("--decimal", "x")),
    "decimal is the separator": Bad("cannot both be ','", options=("--decimal", ",", "--separator", ",")),
    "separator of two characters": Bad("must be one character", options=("--separator", "||")),
    "unknown format": Bad("'xls' is not one of", options=("--format", "xls")),
    "wrong format": Bad("as PARQUET", options=("--format", "parquet")),
    "holdout and test": Bad("Give either --test FILE or --holdout SHARE.", options=("--holdout", "0.5")),
    "holdout of everything": Bad("--holdout", usual=(*HOLDOUT[:3], "1", *HOLDOUT[4:])),
    "holdout of nothing": Bad("leaves no training rows", usual=(*HOLDOUT[:3], "0.001", *HOLDOUT[4:])),
    "no label": Bad("--label", usual=USUAL[:4]),
    "option without a value": Bad("--na", options=("--na",)),
    "unknown option": Bad("--trian", options=("--trian", "x.csv")),
    "unknown command": Bad("No such command", usual=(), command="certfy"),
    "attack on a bad file": Bad(
        "is not a number: 'N/A?' in line 4", replaced(LINES[2], "N/A?,here,ham"), command="attack"
    ),
    "attack on standard input twice": Bad(
        "cannot both be -", usual=("--train", "-", "--test", "-", *USUAL[4:]), command="attack"
    ),
    "report of a table": Bad("saved report", usual=("train.csv",), command="report"),
    "reference with a word": Bad(
        "in the reference, column 'length': 1 of 14 values is not a number: 'x' in line 2 of 'r.csv'",
        more={"r.csv": replaced("0.000", "x")},
        options=("--reference", "r.csv", "--changes", "rows"),
    ),
    "training rows against the reference": Bad(
        "holds numbers in the reference, but words in the training rows: 'x' in line 2 of 'train.csv'",
        replaced("0.000", "x"),
        more={"r.csv": GOOD},
        options=("--reference", "r.csv", "--changes", "rows"),
    ),
}


@pytest.mark.few(21)
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, tmp_path, monkeypatch, capfd):
    bad = BAD[name]
    monkeypatch.chdir(tmp_path)
    given = {"train.csv": GOOD if bad.train is None else bad.train, "test.csv": NEW if bad.test is None else bad.test}
    contents = {file: one.encode() if isinstance(one, str) else one for file, one in (given | bad.more).items()}
    for file, content in contents.items():
        (tmp_path / file).write_bytes(content)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to("gone.csv")
    has_output = {"-o", "--report"}.intersection(bad.options) or bad.command not in ("certify", "attack")
    before = sorted(tmp_path.rglob("*"))
    assert run([bad.command, *(() if has_output else ("-o", "out.csv")), *bad.usual, *bad.options]) == 2
    captured = capfd.readouterr()
    assert bad.said in captured.err
    assert captured.err.startswith("flipproof: error: ")
    assert captured.err.count("\n") == 1
    assert len(captured.err) < 600
    assert captured.out == ""
    assert sorted(tmp_path.rglob("*")) == before
    assert all((tmp_path / file).read_bytes() == content for file, content in contents.items())


def test_many_columns(tmp_path, monkeypatch, capfd):
    """Time must not grow with the square of the number of columns."""
    monkeypatch.chdir(tmp_path)
    names = [f"c{column}" for column in range(8_000)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *(",".join(["1"] * len(names)) for _ in range(3))]))
    assert run(["certify", "--train", "wide.csv", "--holdout", "0.4", "--label", "kind"]) == 2
    assert "has no column 'kind'" in capfd.readouterr().err


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("a\nb"), RuntimeError(), ZeroDivisionError("z" * 999)])
def test_unexpected_errors_are_bugs(error, tmp_path, monkeypatch, capfd):
    def fails(*_arguments, **_settings):
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flipproof.auditing.classes.audit", fails)
    monkeypatch.delenv("FLIPPROOF_DEBUG", raising=False)
    (tmp_path / "train.csv").write_text(GOOD)
    arguments = ["certify", *HOLDOUT, "-o", "out.csv"]
    assert run(arguments) == 70
    said = capfd.readouterr().err
    assert said.startswith(f"flipproof: error: this is a bug in flipproof: {type(error).__name__}")
    assert said.count("\n") == 1
    assert len(said) < 600
    assert "FLIPPROOF_DEBUG=1" in said
    monkeypatch.setenv("FLIPPROOF_DEBUG", "1")
    assert run(arguments) == 70
    assert "Traceback" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


@pytest.mark.parametrize("full", ["out.csv", "report.md"])
def test_a_full_disk_names_the_file_and_leaves_none(full, tmp_path, monkeypatch, capfd):
    def open_file(path, *arguments, opened=Path.open, **settings):
        if path.name.startswith(f".{full}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, *arguments, **settings)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text(GOOD)
    monkeypatch.setattr(Path, "open", open_file)
    assert run(["certify", *HOLDOUT, "-o", "out.csv", "--report", "report.md"]) == 2
    assert f"cannot write '{full}': No space left on device." in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text(GOOD)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["certify", *HOLDOUT]) == 2
    assert "cannot write to stdout: No space left on device." in capfd.readouterr().err


PIECES = [
    b"\0",
    b'"',
    b"\n",
    b"\r",
    b",",
    b";",
    b"\xff",
    b"\xef\xbb\xbf",
    b"inf",
    b"1e999",
    b"{",
    b"[",
    b"true",
    b"9" * 30,
]


def damaged(content, rng):
    """Return a content with some bytes inserted, removed, replaced or repeated."""
    found = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        place, other = rng.integers(0, len(found) + 1, 2)
        kind = rng.integers(4)
        if kind == 0:
            found[place:place] = PIECES[rng.integers(len(PIECES))]
        elif kind == 1:
            del found[place : place + rng.integers(1, 9)]
        elif kind == 2:
            found[place : place + 1] = bytes([rng.integers(256)])
        else:
            found[place:place] = found[other : other + rng.integers(1, 30)]
    return bytes(found)


@pytest.mark.few(2)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow", "npz", "npy"])
def test_damaged_files_are_read_or_refused(ending, tmp_path, monkeypatch, capfd):
    columns = {"length": [one / 7 for one in range(14)], "v": [[1.0, 2.0]] * 14, "kind": ["ham"] * 7 + ["spam"] * 7}
    whole = {
        "csv": GOOD.encode(),
        "jsonl": lines(*pa.table(columns).to_pylist()).encode(),
        "parquet": stored(columns, lambda table, stream: parquet.write_table(table, stream, compression="none")),
        "arrow": stored(columns, lambda table, stream: feather.write_feather(table, stream, "uncompressed")),
        "npz": saved(lambda stream: np.savez(stream, X=np.arange(28.0).reshape(14, 2), kind=np.arange(14) % 2)),
        "npy": saved(lambda stream: np.save(stream, np.arange(28.0).reshape(14, 2))),
    }
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for _ in range(15):
        (tmp_path / f"a.{ending}").write_bytes(damaged(whole[ending], rng))
        code = run(["certify", "--quiet", "--train", f"a.{ending}", "--holdout", "0.4", "--label", "kind"])
        said = capfd.readouterr().err
        assert (code, said.count("\n")) in ((0, 0), (2, 1)), said
