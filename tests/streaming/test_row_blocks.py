"""Rows of arrays, of blocks that are given one by one, and of all that `fit` accepts."""

import pickle
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from row_sources import assert_rows, gathered, some_rows
from scipy.sparse import csr_array
from sklearn.preprocessing import StandardScaler

from flipproof.streaming import Block, RowBlocks
from flipproof.streaming import blocks as blocks_module
from flipproof.streaming.blocks import numbers_of_frame
from flipproof.streaming.row_blocks import as_row_blocks


@pytest.fixture
def small_blocks(monkeypatch):
    """Make blocks of four rows of three columns."""
    monkeypatch.setattr(blocks_module, "NUMBERS_IN_BLOCK", 12)


def mapped(path, array, order="C", offset=0):
    """Return an array as one that is mapped from a file."""
    one = np.memmap(path, array.dtype, "w+", offset, array.shape, order)
    one[:] = array
    one.flush()
    return np.memmap(path, array.dtype, "r", offset, array.shape, order)


def names(rows):
    return [one.name for part in rows.parts for one in part.blocks()]


def three_blocks(n_columns=3):
    for n_rows in (5, 0, 2):
        yield some_rows(n_rows, n_columns)[:2]


@pytest.mark.parametrize("n_rows", [1, 4, 5, 11])
def test_arrays_are_cut_into_blocks(small_blocks, n_rows):
    X, y, trusted, groups = some_rows(n_rows)
    rows = RowBlocks.from_arrays(X, y, trusted, groups)
    assert_rows(rows, X, y, trusted, groups)
    assert len(rows.parts) == -(-n_rows // 4)
    assert [part.name for part in rows.parts] == names(rows)
    assert_rows(RowBlocks.from_arrays(X, y), X, y)
    assert all(np.shares_memory(one.X, X) for part in rows.parts for one in part.blocks())


def test_blocks_are_named_by_their_rows(small_blocks):
    X, y, *_ = some_rows(9)
    assert names(RowBlocks.from_arrays(X, y)) == ["rows 0 to 3", "rows 4 to 7", "row 8"]


def test_no_rows_are_one_part_without_blocks():
    rows = RowBlocks.from_arrays(np.empty((0, 3)), np.empty(0))
    assert len(rows.parts) == 1
    assert rows.parts[0].name == "no rows"
    assert names(rows) == []


def test_a_representation_says_how_many_parts(small_blocks):
    X, y, trusted, groups = some_rows(9)
    assert repr(RowBlocks.from_arrays(X, y)) == "<RowBlocks: 3 parts>"
    assert repr(RowBlocks.from_arrays(X[:1], y[:1], trusted[:1])) == "<RowBlocks: 1 part, with trusted rows>"
    assert repr(RowBlocks.from_arrays(X, y, trusted, groups)) == "<RowBlocks: 3 parts, with trusted rows and groups>"


@pytest.mark.few(21)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [0, 24, 2**16 + 8])
@pytest.mark.parametrize(
    "view",
    [
        lambda X: X,
        lambda X: X[3:8],
        lambda X: X[1:][::2, 1:],
        lambda X: np.asarray(X)[2:],
        lambda X: X[::-1],
        lambda X: X.reshape(-1, 3),
        lambda X: X[:0],
    ],
)
def test_views_of_mapped_files_are_read_from_the_file(tmp_path, small_blocks, order, offset, view):
    X = view(mapped(tmp_path / "X.bin", some_rows(12)[0], order, offset))
    y = mapped(tmp_path / "y.bin", np.arange(20))[2 : 2 + len(X)]
    rows = RowBlocks.from_arrays(X, y)
    for one in (rows, pickle.loads(pickle.dumps(rows))):
        if len(X):
            assert_rows(one, X, y)
        else:
            assert names(one) == []


def test_copy_on_write_changes_of_a_mapped_file_are_used(tmp_path):
    X, y, *_ = some_rows(5)
    mapped(tmp_path / "X.bin", X)
    changed = np.memmap(tmp_path / "X.bin", mode="c", shape=X.shape, dtype=X.dtype)
    changed[2] = 7.0
    assert_rows(RowBlocks.from_arrays(changed, y), np.asarray(changed), y)
    assert_rows(RowBlocks.from_arrays(changed + 1, y), np.asarray(changed) + 1, y)


@pytest.mark.slow
def test_a_part_of_a_mapped_file_is_pickled_without_its_numbers(tmp_path):
    X, y, trusted, groups = (mapped(tmp_path / f"{i}.bin", one) for i, one in enumerate(some_rows(100_000, 100)))
    rows = RowBlocks.from_arrays(X, y, trusted, groups)
    assert len(rows.parts) == 2
    assert all(len(pickle.dumps(part)) < 10_000 for part in rows.parts)
    listed = RowBlocks.from_blocks([(X, y, trusted, groups)])
    assert len(pickle.dumps(listed.parts)) < 10_000
    assert_rows(pickle.loads(pickle.dumps(listed)), X, y, trusted, groups)


def test_a_part_of_an_array_is_pickled_with_its_own_rows_only(small_blocks):
    X, y, trusted, groups = some_rows(4000)
    rows = RowBlocks.from_arrays(X, y, trusted, groups)
    assert len(pickle.dumps(rows.parts[0])) < 2000
    assert_rows(pickle.loads(pickle.dumps(rows)), X, y, trusted, groups)


def test_a_mapped_file_is_never_in_memory_as_a_whole(tmp_path):
    X = np.memmap(tmp_path / "X.bin", np.float32, "w+", shape=(400_000, 100))  # 160 MB, of which none are written
    y = np.memmap(tmp_path / "y.bin", np.int8, "w+", shape=400_000)
    tracemalloc.start()
    try:
        rows = RowBlocks.from_arrays(X, y).map(partial(np.add, 1))
        assert sum(len(one) for part in rows.parts for one in part.blocks()) == 400_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 4 * blocks_module.NUMBERS_IN_BLOCK


def test_a_file_that_is_gone_or_shorter_is_named(tmp_path):
    X, y, *_ = some_rows(1000)
    rows = RowBlocks.from_arrays(mapped(tmp_path / "X.bin", X), y)
    (tmp_path / "X.bin").write_bytes(b"short")
    with pytest.raises(OSError, match=r"cannot read '.*X.bin': it is shorter than before\."):
        gathered(rows)
    (tmp_path / "X.bin").unlink()
    with pytest.raises(OSError, match=r"cannot read '.*X.bin': No such file or directory\."):
        gathered(rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]], [0]), r"X must be a numpy array with rows and columns\. Got list instead"),
        ((np.ones(3), [0, 1, 1]), r"X must have rows and columns\. Got an array of shape \(3,\) instead"),
        ((np.array([["a"]]), [0]), r"X must contain numbers\. Got <U1 instead: encode words first"),
        ((np.ones((3, 2)), None), r"y must have a label for each row of X\. Got None"),
        ((np.ones((3, 2)), "y.npy"), r"y must be an array, like X\. Got the path 'y\.npy' instead"),
        ((np.ones((3, 2)), [0, 1]), r"y must have one entry for each of the 3 rows\. Got 2 instead"),
        ((np.ones((3, 2)), np.ones((3, 1))), r"y must have one entry .* Got an array of shape \(3, 1\) instead"),
        ((np.ones((3, 2)), [0, 1, 1], [True]), r"trusted must have one entry for each of the 3 rows\. Got 1 instead"),
        ((np.ones((3, 2)), [0, 1, 1], [0, 1, 2]), r"trusted must be a mask of booleans, one per row\. Got int64"),
        ((np.ones((3, 2)), [0, 1, 1], None, "abcd"), r"groups must be an array, like X\."),
        ((np.ones((3, 2)), [0, 1, 1], None, list("abcd")), r"groups must have one entry .* Got 4 instead"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        RowBlocks.from_arrays(*arguments)


@pytest.mark.parametrize(("labels", "message"), [(["a", 1, 2], "of one kind"), (["a", "b", None], "not be missing")])
def test_mixed_labels_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        RowBlocks.from_arrays(np.ones((3, 1)), labels)


@pytest.mark.parametrize("sizes", [[3], [5, 0, 2], [1, 9, 1]])
def test_blocks_of_a_list(small_blocks, sizes):
    given = [some_rows(size) for size in sizes]
    whole = [np.concatenate(column) for column in zip(*given, strict=True)]
    rows = RowBlocks.from_blocks(given)
    assert [part.name for part in rows.parts] == [f"block {i}" for i in range(len(sizes))]
    assert_rows(rows, *whole)
    assert_rows(pickle.loads(pickle.dumps(rows)), *whole)
    assert_rows(RowBlocks.from_blocks([one[:2] for one in given]), *whole[:2])
    assert_rows(RowBlocks.from_blocks([(X, y, None, groups) for X, y, _, groups in given]), *whole[:2], None, whole[3])


def test_large_blocks_are_cut(small_blocks):
    X, y, *_ = some_rows(9)
    assert names(RowBlocks.from_blocks([(X[:2], y[:2]), (X, y)])) == [
        "block 0",
        "block 1, rows 0 to 3",
        "block 1, rows 4 to 7",
        "block 1, row 8",
    ]


def test_blocks_of_a_function():
    rows = RowBlocks.from_blocks(three_blocks)
    X, y = (np.concatenate(column) for column in zip(*three_blocks(), strict=True))
    assert [part.name for part in rows.parts] == ["blocks of three_blocks"]
    assert names(rows) == ["block 0", "block 1", "block 2"]
    assert_rows(rows, X, y)
    assert_rows(pickle.loads(pickle.dumps(rows)), X, y)
    X, y = (np.concatenate(column) for column in zip(*three_blocks(2), strict=True))
    assert_rows(RowBlocks.from_blocks(partial(three_blocks, 2)), X, y)


def test_iterators_that_are_used_up_are_refused():
    with pytest.raises(ValueError, match=r"a function without arguments .* Got"):
        RowBlocks.from_blocks(three_blocks())
    once = three_blocks()
    with pytest.raises(ValueError, match=r"must return a new iterator at every call.* Got the same one twice"):
        RowBlocks.from_blocks(lambda: once)
    left = [list(three_blocks())]
    rows = RowBlocks.from_blocks(lambda: left.pop() if left else [])
    with pytest.raises(ValueError, match=r"returned no blocks on a later call"):
        gathered(rows)


def test_a_function_is_called_no_more_than_needed_before_the_first_visit():
    for make, expected in ((list, 1), (iter, 2)):  # a second iterator shows that it is a new one
        calls = []
        rows = RowBlocks.from_blocks(lambda make=make, calls=calls: calls.append(1) or make([*three_blocks()]))
        assert len(calls) == expected
        gathered(rows)
        assert len(calls) == expected + 1


class UsedUp:
    """Can be visited once, and is no iterator itself."""

    def __init__(self, blocks):
        self.blocks = iter(blocks)

    def __iter__(self):
        return self.blocks


def test_a_function_must_return_a_new_iterator_at_every_call():
    X, y = (np.concatenate(column) for column in zip(*three_blocks(), strict=True))
    assert_rows(RowBlocks.from_blocks(lambda: UsedUp(three_blocks())), X, y)
    once = UsedUp(three_blocks())
    with pytest.raises(ValueError, match=r"must return a new iterator at every call.* Got the same one twice"):
        RowBlocks.from_blocks(lambda: once)


A = np.ones((3, 2))
F = pd.DataFrame(A, columns=["a", "b"])
SAME_COLUMNS = r": give all blocks the same columns, in the same order\."


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], r"at least one block \(X, y\)\. Got none"),
        ([(A, [0, 1, 1]), (A,)], r"block 1 must be a tuple \(X, y\) or .* Got 1 entries instead"),
        ([(A, [0, 1, 1]), A], r"block 1 must be a tuple \(X, y\) or .* Got ndarray instead"),
        ([(A, [0, 1, 1]), (A[0], [0])], r"block 1: X must have rows and columns\. Got an array of shape \(2,\)"),
        ([(A, [0, 1])], r"block 0: y must have one entry for each of the 3 rows\. Got 2 instead"),
        ([(A, [0, 1, 1]), (A[:, :1], [0, 1, 1])], r"block 1 has 1 columns, but block 0 has 2"),
        ([(A, [0, 1, 1]), (A, [0, 1, 1], None, [1, 2, 3])], r"block 1 has 'groups', but block 0 has not: give it"),
        ([(A, [0, 1, 1], [True] * 3, None), (A, [0, 1, 1])], r"block 1 has no 'trusted', but block 0 has: give it"),
        ([(A, [0, 1, 1], [1, 0, 1], None)], r"block 0: trusted must be a mask of booleans"),
        ([(A, [0, 1, 1], None, ["ann"])], r"block 0: groups must have one entry for each of the 3 rows"),
        (
            [(F, [0, 1, 1]), (F[["b", "a"]], [0, 1, 1])],
            rf"^block 1 has 'b' as column 0, but block 0 has 'a'{SAME_COLUMNS}",
        ),
        (
            [(F, [0, 1, 1]), (pa.table({"a": [1.0], "c": [2.0]}), [0])],
            rf"^block 1 has 'c' as column 1, but block 0 has 'b'{SAME_COLUMNS}",
        ),
        (
            [(pd.DataFrame(A), [0, 1, 1]), (pd.DataFrame(A)[[1, 0]], [0, 1, 1])],
            r"^block 1 has names of columns, but block 0 has none: give data frames for all blocks, or for none\.",
        ),
        ([(F, [0, 1, 1]), (A, [0, 1, 1])], r"^block 1 has no names of columns, but block 0 has some: give data frames"),
        (
            [(A, [0, 1, 1]), (csr_array(A), [0, 1, 1])],
            r"^block 1: X must be dense\. Got csr_array .* with \.toarray\(\)\.",
        ),
        ([(A, [0, 1, 1]), ([[1, 2], [3]], [0, 1])], r"^block 1: X must have rows and columns: "),
        (
            [(F.assign(a=list("xyz")), [0, 1, 1])],
            r"^block 0: X holds (str|object) in column 'a': features must be numbers\.",
        ),
    ],
)
def test_blocks_that_do_not_fit_are_named(blocks, message):
    with pytest.raises(ValueError, match=message):
        RowBlocks.from_blocks(blocks)
    with pytest.raises(ValueError, match=r"at least one\. Got none" if not blocks else message):
        gathered(RowBlocks.from_blocks(lambda: iter(blocks)))


def test_blocks_of_data_frames_have_names():
    X, y, *_ = some_rows(9)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    given = [(frame[:4], y[:4]), (frame[4:], pd.Series(y[4:]))]
    for blocks in (given, lambda: iter(given)):
        rows = RowBlocks.from_blocks(blocks)
        assert rows.feature_names == ("a", "b", "c")
        assert_rows(rows, X, y)
        assert rows.map(np.abs).feature_names is None
    assert RowBlocks.from_blocks([(frame.set_axis([2, 1, 0], axis=1), y)]).feature_names is None
    assert RowBlocks.from_blocks([(pd.DataFrame(X), y), (X, y)]).feature_names is None


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        ({"a": "float64", "b": "bool"}, np.float64),
        ({"a": "float32", "b": "bool"}, np.float64),
        ({"a": "int64", "b": "bool"}, np.float64),
        ({"a": "Int64", "b": "Float64"}, np.float64),
        ({"a": "boolean", "b": "boolean"}, np.float64),
        ({"a": "double[pyarrow]", "b": "bool[pyarrow]", "c": "int8"}, np.float64),
        ({"a": "Float32", "b": "float[pyarrow]", "c": "float32"}, np.float32),
        ({"a": "float32", "b": "float32"}, np.float32),
        ({"a": "int8", "b": "int8"}, np.int8),
        ({"a": "bool", "b": "bool"}, np.bool_),
        ({"a": "int8", "b": "float64"}, np.float64),
    ],
)
def test_frames_of_numbers_of_any_type(columns, dtype):
    values = np.array([[1, 0, 1], [0, 1, 1]])[:, : len(columns)]
    frame = pd.DataFrame({name: values[:, i].astype(bool) for i, name in enumerate(columns)}).astype(columns)
    X = gathered(RowBlocks.from_blocks([(frame, [0, 1])]))[0]
    np.testing.assert_array_equal(X, values)
    assert X.dtype == dtype
    made = RowBlocks.from_arrays(values, [0, 1]).map(lambda X: frame)
    np.testing.assert_array_equal(gathered(made)[0], values)


def test_missing_values_of_a_frame_become_nan():
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None], "Int64"),
            "b": [True, False],
            "c": pd.array([None, True], "boolean"),
            "d": pd.array([0.5, None], "double[pyarrow]"),
        }
    )
    np.testing.assert_array_equal(numbers_of_frame(frame, "rows"), [[1, 1, np.nan, 0.5], [np.nan, 0, 1, np.nan]])


@pytest.mark.parametrize("column", [["x"], pd.to_datetime(["2026-01-01"]), [None], [1j], pd.Categorical([1])])
def test_columns_of_a_frame_that_are_not_numbers_are_named(column):
    with pytest.raises(ValueError, match=r"^block 3 holds .+ in column 'w'"):
        numbers_of_frame(pd.DataFrame({"a": [1.0], "w": column}), "block 3")


def test_invalid_blocks_and_functions_are_refused():
    with pytest.raises(ValueError, match=r"blocks must be a list of tuples.* Got"):
        RowBlocks.from_blocks(5)
    with pytest.raises(ValueError, match=r"must return an iterator of tuples \(X, y\)\. Got NoneType instead"):
        RowBlocks.from_blocks(lambda: None)


def test_features_can_be_mapped(small_blocks):
    X, y, trusted, groups = some_rows(9)
    scaler = StandardScaler().fit(X)
    rows = RowBlocks.from_arrays(X, y, trusted, groups).map(scaler.transform).map(np.abs)
    assert_rows(rows, np.abs(scaler.transform(X)), y, trusted, groups)
    assert_rows(pickle.loads(pickle.dumps(rows)), np.abs(scaler.transform(X)), y, trusted, groups)
    assert [part.name for part in rows.parts] == names(rows) == ["rows 0 to 3", "rows 4 to 7", "row 8"]


def test_empty_blocks_are_not_mapped():
    rows = RowBlocks.from_blocks(three_blocks).map(StandardScaler().fit(np.eye(3)).transform)
    assert names(rows) == ["block 0", "block 2"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda X: X[1:],
            r"rows 0 to 3: the result of the function must have 4 rows, as many as its input\. Got 3 instead",
        ),
        (lambda X: X[:, 0], r"rows 0 to 3: the result of the function must have rows and columns"),
        (lambda X: X.astype(str), r"rows 0 to 3: the result of the function must contain numbers"),
        (csr_array, r"rows 0 to 3: the result of the function must be dense\. Got csr_array instead"),
    ],
)
def test_a_function_must_keep_the_rows(small_blocks, function, message):
    X, y, *_ = some_rows(8)
    with pytest.raises(ValueError, match=message):
        gathered(RowBlocks.from_arrays(X, y).map(function))


def test_sources_that_fit_gets():
    X, y, trusted, groups = some_rows(5)
    rows = as_row_blocks(X, y, trusted, groups)
    assert_rows(rows, X, y, trusted, groups)
    assert as_row_blocks(rows) is rows
    assert_rows(as_row_blocks([(X, y), (X, y)]), np.tile(X, (2, 1)), np.tile(y, 2))
    assert_rows(as_row_blocks(lambda: iter([(X, y)])), X, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((RowBlocks.from_arrays(A, [0, 1, 1]), [0, 1, 1]), r"y must be None if X is RowBlocks.* Got list"),
        ((lambda: [(A, [0, 1, 1])], None, [True]), r"trusted must be None if X is blocks.* Got list"),
        ((three_blocks(),), r"Got an iterator that is used up after one pass"),
        (([[1.0]], [0]), r"rows in blocks must be RowBlocks, an array, a path .* Got list instead"),
        (({"a": [1]}, [0]), r"rows in blocks must be RowBlocks.* Got dict instead"),
    ],
)
def test_invalid_sources_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        as_row_blocks(*arguments)


def test_a_block_knows_its_rows():
    X, y, trusted, groups = some_rows(5)
    some = Block("block 0", X, y, trusted, groups).rows(slice(1, 3))
    assert (len(some), some.name) == (2, "block 0")
    np.testing.assert_array_equal(some.groups, groups[1:3])
    np.testing.assert_array_equal(some.trusted, trusted[1:3])
