"""Tables from files."""

import bz2
import gzip
import lzma

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from flipproof.tables import TextLayout, read_table


def written(folder, name, content):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


def test_blanks_around_names_and_words_are_removed(tmp_path):
    table = read_table(written(tmp_path, "a.csv", "age, job\n39, State-gov\n 50, Self-emp\n"))
    assert table.to_pydict() == {"age": [39, 50], "job": ["State-gov", "Self-emp"]}


def test_spellings_of_missing_values(tmp_path):
    table = read_table(written(tmp_path, "a.csv", "x,w,b\n1,a,true\n,NA,\nNaN,,false\n"))
    assert table.to_pydict() == {"x": [1, None, None], "w": ["a", None, None], "b": [True, None, False]}


def test_a_type_is_chosen_by_all_rows(tmp_path):
    content = "x\n" + "1\n" * 1_000_000 + "two\n"  # beyond the first megabyte
    table = read_table(written(tmp_path, "a.csv", content))
    assert table["x"].to_pylist()[-1] == "two"


def test_line_breaks_and_separators_within_quotes(tmp_path):
    path = written(tmp_path, "a.csv", 'text,y\n"a, b\nc",1\nd,2\n')
    assert read_table(path)["text"].to_pylist() == ["a, b\nc", "d"]


def test_quotes_can_be_letters(tmp_path):
    path = written(tmp_path, "a.tsv", '"so\t1\nd"\t2\n')
    table = read_table(path, TextLayout(names=("text", "y"), quotes=False))
    assert table.to_pydict() == {"text": ['"so', 'd"'], "y": [1, 2]}


def test_files_without_names(tmp_path):
    path = written(tmp_path, "a.data", "1,2\n3,4\n")
    assert read_table(path, TextLayout(header=False)).to_pydict() == {"f0": [1, 3], "f1": [2, 4]}
    assert read_table(path, TextLayout(names=("a", "b"))).to_pydict() == {"a": [1, 3], "b": [2, 4]}


def test_columns_without_a_name_are_ignored(tmp_path):
    assert read_table(written(tmp_path, "a.csv", ",x\n0,5\n1,6\n")).to_pydict() == {"x": [5, 6]}


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ";"), ("a", "\t"), ("a", ","), ("a.tab", "\t")])
def test_the_separator_is_found(tmp_path, name, separator):
    path = written(tmp_path, name, f"x{separator}y\n1{separator}2\n")
    assert read_table(path).to_pydict() == {"x": [1], "y": [2]}
    odd = written(tmp_path, "odd.csv", "x|y\n1|2\n")
    assert read_table(odd, TextLayout(separator="|")).to_pydict() == {"x": [1], "y": [2]}


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)])
def test_compressed_files(tmp_path, ending, compress):
    assert read_table(written(tmp_path, f"a.csv.{ending}", compress(b"x,y\n1,2\n"))).to_pydict() == {"x": [1], "y": [2]}
    assert read_table(written(tmp_path, f"a.{ending}", compress(b"x\ty,\n1\t2\n"))).column_names == ["x", "y,"]


def test_the_kind_of_a_file_by_its_first_bytes(tmp_path):
    table = pa.table({"x": [1, 2]})
    parquet.write_table(table, tmp_path / "anything")
    assert read_table(tmp_path / "anything").equals(table)
    np.savez(tmp_path / "a.npz", x=np.array([1, 2]))
    (tmp_path / "a.npz").rename(tmp_path / "b.dat")
    assert read_table(tmp_path / "b.dat").equals(table)
    parquet.write_table(table, tmp_path / "misleading.csv")
    assert read_table(tmp_path / "misleading.csv", TextLayout(kind="parquet")).equals(table)
    with pytest.raises(ValueError, match="must be one of 'csv', 'tsv'"):
        read_table(tmp_path / "anything", TextLayout(kind="xls"))


def test_words_that_look_like_numbers(tmp_path):
    path = written(tmp_path, "a.csv", "code , n\n007, 1\n")
    assert read_table(path, as_words=["code"]).to_pydict() == {"code": ["007"], "n": [1]}
    named = TextLayout(names=("a", "b"))
    plain = written(tmp_path, "b.csv", "007,1\n")
    assert read_table(plain, named, as_words=["a"]).to_pydict() == {"a": ["007"], "b": [1]}
    assert read_table(plain, TextLayout(header=False), as_words=["f0"])["f0"].to_pylist() == ["007"]


def test_arrays_of_training_and_test_in_one_file(tmp_path):
    X = np.arange(12, dtype=np.float16).reshape(6, 2)
    np.savez(tmp_path / "a.npz", X_train=X[:4], y_train=np.arange(4), X_test=X[4:], y_test=np.array(["a", "b"]), note=1)
    train, test = (read_table(tmp_path / "a.npz", part=part) for part in ("train", "test"))
    assert train.to_pydict() == {"X": X[:4].tolist(), "y": [0, 1, 2, 3]}
    assert test.to_pydict() == {"X": X[4:].tolist(), "y": ["a", "b"]}
    with pytest.raises(ValueError, match="X_train has 4"):
        read_table(tmp_path / "a.npz")


def test_arrays_of_images_are_vectors(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 4, 5), dtype=np.uint8), masks=np.ones((3, 2), dtype=bool))
    table = read_table(tmp_path / "a.npz")
    assert [table[name].type.list_size for name in ("images", "masks")] == [20, 2]
    assert table["masks"].to_pylist() == [[1, 1]] * 3


def test_npy_files(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert read_table(tmp_path / "a.npy").to_pydict() == {"f0": [1.0, 3.0], "f1": [2.0, 4.0]}
    np.save(tmp_path / "b.npy", np.array([(1, b"x"), (2, b"y")], dtype=[("n", int), ("w", "S1")]))
    assert read_table(tmp_path / "b.npy").to_pydict() == {"n": [1, 2], "w": ["x", "y"]}
    np.save(tmp_path / "c.npy", np.arange(3))
    with pytest.raises(ValueError, match="rows and columns"):
        read_table(tmp_path / "c.npy")
    np.savez(tmp_path / "d.npz", z=np.array([1j, 2j]))
    with pytest.raises(ValueError, match="complex128, not numbers or words"):
        read_table(tmp_path / "d.npz")
