"""Rows of NPY files."""

import os
import pickle
import tracemalloc

import numpy as np
import pytest
from row_sources import assert_rows, gathered, some_rows

from flipproof.streaming import RowBlocks, arrays
from flipproof.streaming import blocks as blocks_module
from flipproof.streaming.row_blocks import as_row_blocks

COLUMNS = ("X", "y", "trusted", "groups")


@pytest.fixture
def small_blocks(monkeypatch):
    """Make blocks of four rows of three columns, and parts of eight rows."""
    monkeypatch.setattr(blocks_module, "NUMBERS_IN_BLOCK", 12)
    monkeypatch.setattr(arrays, "ROWS_IN_PART", 8)


def written(folder, sizes, n_columns=3):
    """Write a folder of files for each of `COLUMNS`, and return all rows."""
    given = [some_rows(size, n_columns) for size in sizes]
    for name, column in zip(COLUMNS, zip(*given, strict=True), strict=True):
        (folder / name).mkdir()
        for number, array in enumerate(column):
            np.save(folder / name / f"part-{number}.npy", array)
    return [np.concatenate(column) for column in zip(*given, strict=True)]


@pytest.mark.parametrize("sizes", [[3], [5, 0, 2], [1, 9, 1], [17]])
def test_folders_of_files(tmp_path, small_blocks, sizes):
    whole = written(tmp_path, sizes)
    rows = RowBlocks.from_npy(*(tmp_path / name for name in COLUMNS))
    assert_rows(rows, *whole)
    assert_rows(pickle.loads(pickle.dumps(rows)), *whole)
    assert all(len(pickle.dumps(part)) < 10_000 for part in rows.parts)
    assert_rows(
        RowBlocks.from_npy(str(tmp_path / "X" / "*.npy"), whole[1], groups=whole[3]), *whole[:2], None, whole[3]
    )
    assert_rows(as_row_blocks(tmp_path / "X", tmp_path / "y", whole[2]), *whole[:3])


def test_files_one_by_one(tmp_path, small_blocks):
    whole = written(tmp_path, [5, 0, 9])
    files = [[str(tmp_path / name / f"part-{number}.npy") for number in (2, 0)] for name in COLUMNS]
    wanted = [np.concatenate([column[5:], column[:5]]) for column in whole]
    assert_rows(RowBlocks.from_npy(*files), *wanted)
    assert_rows(as_row_blocks(files[0], tuple(files[1])), *wanted[:2])
    words = [f"class {number % 3}" for number in range(14)]
    assert_rows(RowBlocks.from_npy(files[0], words), wanted[0], np.array(words))
    with pytest.raises(ValueError, match=r"^y must have one file for each of the 2 files of X\. Got 1 instead\.$"):
        RowBlocks.from_npy(files[0], files[1][:1])


def test_a_large_file_is_several_parts(tmp_path, small_blocks):
    written(tmp_path, [17, 0])
    rows = RowBlocks.from_npy(tmp_path / "X", tmp_path / "y")
    shown = repr(str(tmp_path / "X" / "part-0.npy"))
    assert [part.name.removeprefix(shown) for part in rows.parts[:3]] == [", rows 0 to 7", ", rows 8 to 15", ", row 16"]
    assert [one.name.removeprefix(shown) for one in rows.parts[1].blocks()] == [", rows 8 to 11", ", rows 12 to 15"]
    assert rows.parts[3].name.endswith("part-1.npy', no rows")


def test_files_in_fortran_order_and_of_any_number_type(tmp_path, small_blocks):
    X = np.arange(30, dtype=np.uint8).reshape(10, 3)
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    rows = as_row_blocks(str(tmp_path / "X.npy"), np.arange(10))
    assert_rows(rows, X, np.arange(10))
    assert gathered(rows)[0].dtype == np.uint8


def test_workers_may_be_in_another_folder(tmp_path, monkeypatch):
    whole = written(tmp_path, [5])
    monkeypatch.chdir(tmp_path)
    rows = RowBlocks.from_npy("X", "y")
    assert rows.parts[0].name == "'X/part-0.npy', rows 0 to 4"
    monkeypatch.chdir("/")
    assert_rows(rows, *whole[:2])


def test_other_files_in_a_folder_are_ignored(tmp_path):
    whole = written(tmp_path, [3, 4])
    (tmp_path / "X" / "README.txt").write_text("rows")
    (tmp_path / "X" / "._part-0.npy").write_text("left by a file manager")
    (tmp_path / "X" / "_part-0.npy").write_text("left by a job that failed")
    (tmp_path / "X" / "old.npy").mkdir()
    assert_rows(RowBlocks.from_npy(tmp_path / "X", whole[1]), *whole[:2])


def test_a_broken_link_is_named(tmp_path):
    whole = written(tmp_path, [3])
    (tmp_path / "X" / "part-1.npy").symlink_to("elsewhere.npy")
    for X in (tmp_path / "X", str(tmp_path / "X" / "*.npy")):
        with pytest.raises(
            OSError, match=r"^cannot read '.*part-1\.npy': it is a link to 'elsewhere\.npy', which does not exist"
        ):
            RowBlocks.from_npy(X, whole[1])
    (tmp_path / "X" / "part-1.npy").unlink()
    (tmp_path / "X" / "part-1.npy").symlink_to(".")  # a folder
    assert_rows(RowBlocks.from_npy(tmp_path / "X", whole[1]), *whole[:2])


def saved(folder, **files):
    """Write a file of two rows by each name, in folders for X, y, trusted and groups."""
    for kind, names in files.items():
        (folder / kind).mkdir()
        for name in names:
            np.save(folder / kind / f"{name}.npy", np.ones((2, 1)) if kind == "X" else np.ones(2, bool))


@pytest.mark.parametrize("kind", ["y", "trusted", "groups"])
@pytest.mark.parametrize(
    ("X", "others", "message"),
    [
        (["X-2", "X-10"], ["y-02", "y-10"], r"'.*y-02\.npy' would belong to '.*X-10\.npy'"),
        (["9", "10", "11"], ["09", "10", "11"], r"'.*09\.npy' would belong to '.*10\.npy'"),
        (["v1 a 1", "v1 b 2"], ["a2", "b1"], r"'.*a2\.npy' would .* '.*a 1\.npy'"),
    ],
)
def test_files_that_sort_differently_from_the_rows_are_refused(tmp_path, kind, X, others, message):
    saved(tmp_path, X=X, **{kind: others})
    given = {"y": np.ones(2 * len(X)), kind: tmp_path / kind}
    with pytest.raises(ValueError, match=rf"^{kind}: sorted by name, {message}: name the files alike, with"):
        RowBlocks.from_npy(tmp_path / "X", **given)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (["X-2", "X-10"], ["y-2", "y-10"]),
        (["X-02", "X-10"], ["y-002", "y-010"]),
        (["X-1", "X-2"], ["y-2", "y-3"]),
        (["a", "b"], ["c", "d"]),
        (["a", "b-1"], ["a-1", "b"]),
        (["part-1 of 2", "part-2 of 2"], ["labels-1 of 2", "labels-2 of 2"]),
    ],
)
def test_files_with_other_names_are_matched_in_sorted_order(tmp_path, X, y):
    saved(tmp_path, X=X, y=y)
    assert len(RowBlocks.from_npy(tmp_path / "X", tmp_path / "y").parts) == 2


def test_files_are_never_in_memory_as_a_whole(tmp_path):
    n_rows = 400_000
    np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n_rows, 100))  # 160 MB, of which none are written
    tracemalloc.start()
    try:
        rows = RowBlocks.from_npy(tmp_path / "X.npy", np.zeros(n_rows, np.int8)).map(lambda X: X + 1)
        assert sum(len(one) for part in rows.parts for one in part.blocks()) == n_rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 4 * blocks_module.NUMBERS_IN_BLOCK


def test_only_headers_are_read_at_first(tmp_path):
    written(tmp_path, [1000])
    path = tmp_path / "X" / "part-0.npy"
    content = path.read_bytes()
    path.write_bytes(content[:128] + bytes(os.path.getsize(path) - 128))
    rows = RowBlocks.from_npy(tmp_path / "X", tmp_path / "y")
    path.write_bytes(content)
    assert_rows(rows, some_rows(1000)[0], some_rows(1000)[1])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("nowhere", [0], r"cannot read '.*nowhere': there is no such file or folder"),
        ("empty", [0], r"the folder '.*empty' has no files that end in \.npy"),
        ("X/x*.npy", [0], r"no file matches '.*x\*\.npy'"),
        ("objects.npy", [0], r"cannot read '.*objects\.npy' as NPY: Array can't be memory-mapped: Python objects"),
        ("garbage.npy", [0], r"cannot read '.*garbage\.npy' as NPY: "),
        ("nothing.npy", [0], r"cannot read '.*nothing\.npy' as NPY: "),
        ("cut.npy", [0], r"cannot read '.*cut\.npy' as NPY: "),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, X, y, message):
    written(tmp_path, [5, 2])
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "objects.npy", np.array([[None]], dtype=object))
    (tmp_path / "garbage.npy").write_bytes(b"garbage" * 100)
    (tmp_path / "nothing.npy").write_bytes(b"")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "X" / "part-0.npy").read_bytes()[:-8])
    with pytest.raises(OSError, match=message) as caught:
        RowBlocks.from_npy(tmp_path / X, y)
    assert "\n" not in str(caught.value)


def test_files_that_do_not_fit_are_named(tmp_path):
    whole = written(tmp_path, [5, 2])
    X, y = tmp_path / "X", tmp_path / "y"
    for arguments, message in [
        ((X, None), r"y must have a label for each row of X\. Got None instead"),
        ((X, whole[1][1:]), r"y must have one entry for each of the 7 rows\. Got 6 instead"),
        (
            (X, y / "part-0.npy"),
            r"y must have one file for each of the 2 files of X\. Got 1 in '.*part-0\.npy' instead",
        ),
        ((X, X), r"'.*X.part-0\.npy' must have one entry for each of the 5 rows of .*Got an array of shape \(5, 3\)"),
        ((X, y, y), r"'.*y.part-0\.npy' must be a mask of booleans, one per row\. Got int64"),
        ((X, y, whole[1]), r"trusted must be a mask of booleans, one per row\. Got int64"),
        ((y, y), r"'.*y.part-0\.npy' must have rows and columns\. Got an array of shape \(5,\) instead"),
    ]:
        with pytest.raises(ValueError, match=message):
            RowBlocks.from_npy(*arguments)
    np.save(y / "part-1.npy", np.zeros(3))
    with pytest.raises(
        ValueError, match=r"'.*y.part-1\.npy' must have one entry for each of the 2 rows of '.*X.part-1\.npy'\. Got 3"
    ):
        RowBlocks.from_npy(X, y)
    np.save(X / "part-1.npy", np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"'.*X.part-1\.npy' has 4 columns, but '.*X.part-0\.npy' has 3\."):
        RowBlocks.from_npy(X, whole[1])


def test_files_of_two_kinds_are_refused(tmp_path):
    written(tmp_path, [5])
    (tmp_path / "X" / "a.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must all end in \.npy, or all in \.parquet or \.pq\. Got '.*X' instead"):
        as_row_blocks(tmp_path / "X", [0])
    (tmp_path / "a.csv").write_text("a,b")
    with pytest.raises(
        ValueError, match=r"must all end in \.npy, or all in \.parquet or \.pq\. Got '.*a\.csv' instead"
    ):
        as_row_blocks(tmp_path / "a.csv", "b")
