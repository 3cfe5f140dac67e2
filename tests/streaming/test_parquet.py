"""Rows of Parquet files."""

import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from row_sources import assert_rows, gathered, some_rows

from flipproof.streaming import RowBlocks, StreamingRidgeClassifier
from flipproof.streaming import blocks as blocks_module
from flipproof.streaming.row_blocks import as_row_blocks
from flipproof.tables import TableEncoder

LABELS = np.array(["ham", "spam", "maybe"])


@pytest.fixture
def small_blocks(monkeypatch):
    """Make blocks of four rows of three columns."""
    monkeypatch.setattr(blocks_module, "NUMBERS_IN_BLOCK", 12)


def table_of(X, y, trusted, groups):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table(columns | {"spam": LABELS[y].tolist(), "ok": trusted, "who": groups.tolist()})


def written(folder, sizes, row_group_size=7):
    """Write a file for each size, and return all rows."""
    given = [some_rows(size) for size in sizes]
    for number, rows in enumerate(given):
        parquet.write_table(table_of(*rows), folder / f"part-{number}.parquet", row_group_size=row_group_size)
    X, y, trusted, groups = (np.concatenate(column) for column in zip(*given, strict=True))
    return X, LABELS[y], trusted, groups


def saved(path, **columns):
    parquet.write_table(pa.table(columns), path)
    return path


def features(path, **given):
    return gathered(RowBlocks.from_parquet(path, "y", **given))[0]


@pytest.mark.parametrize("sizes", [[3], [5, 0, 2], [1, 20, 1]])
def test_files_of_a_folder(tmp_path, small_blocks, sizes):
    X, y, trusted, groups = written(tmp_path, sizes)
    rows = RowBlocks.from_parquet(tmp_path, "spam", trusted="ok", groups="who")
    assert_rows(rows, X, y, trusted, groups)
    assert_rows(pickle.loads(pickle.dumps(rows)), X, y, trusted, groups)
    assert all(len(pickle.dumps(part)) < 10_000 for part in rows.parts)
    chosen = RowBlocks.from_parquet(str(tmp_path / "part-*.parquet"), "spam", ["x2", "x0"])
    assert_rows(chosen, X[:, [2, 0]], y)
    listed = RowBlocks.from_parquet(sorted(tmp_path.iterdir(), reverse=True)[-1:], "spam", ["x1"])
    assert_rows(listed, X[: sizes[0], [1]], y[: sizes[0]])


def test_parts_are_row_groups_and_blocks_say_which_rows(tmp_path, small_blocks):
    written(tmp_path, [9])
    rows = RowBlocks.from_parquet(tmp_path / "part-0.parquet", "spam", ["x0", "x1", "x2"])
    shown = repr(str(tmp_path / "part-0.parquet"))
    assert [part.name.removeprefix(shown) for part in rows.parts] == [", rows 0 to 6", ", rows 7 to 8"]
    names = [one.name.removeprefix(shown) for part in rows.parts for one in part.blocks()]
    assert names == [", rows 0 to 3", ", rows 4 to 6", ", rows 7 to 8"]


def test_workers_may_be_in_another_folder(tmp_path, monkeypatch):
    X, y, *_ = written(tmp_path, [5])
    monkeypatch.chdir(tmp_path)
    rows = RowBlocks.from_parquet("part-0.parquet", "spam", ["x0", "x1", "x2"])
    assert rows.parts[0].name == "'part-0.parquet', rows 0 to 4"
    monkeypatch.chdir("/")
    assert_rows(rows, X, y)


def test_blocks_of_vectors_with_gaps_are_small_too(tmp_path, small_blocks):
    vectors = [[1.0, 2.0, None], None, *[[1.0, 2.0, 3.0]] * 9]
    path = saved(tmp_path / "a.parquet", a=vectors, y=[0] * 11)
    rows = RowBlocks.from_parquet(path, "y")
    assert [len(one) for part in rows.parts for one in part.blocks()] == [4, 4, 3]
    assert np.isnan(gathered(rows)[0]).sum(axis=1).tolist() == [1, 3, *[0] * 9]


def test_sources_that_fit_gets(tmp_path):
    X, y, trusted, groups = written(tmp_path, [5, 4])
    assert_rows(as_row_blocks(tmp_path, "spam", "ok", "who"), X, y, trusted, groups)
    assert_rows(as_row_blocks([*sorted(tmp_path.iterdir())], "spam", "ok", "who"), X, y, trusted, groups)
    with pytest.raises(ValueError, match=r"y must be the name of the column of labels in '.*'\. Got ndarray instead"):
        as_row_blocks(tmp_path, y)
    with pytest.raises(ValueError, match=r"y must be the name of the column of labels in '.*'\. Got None instead"):
        as_row_blocks(tmp_path)
    with pytest.raises(ValueError, match=r"trusted must be the name of a column\. Got ndarray instead"):
        as_row_blocks(tmp_path, "spam", trusted)


def test_columns_of_numbers_booleans_and_vectors(tmp_path):
    missing = None if int(pa.__version__.split(".")[0]) > 25 else [None, None]  # older versions cannot write it
    path = saved(
        tmp_path / "a.parquet",
        whole=pa.array([1, None, 3], pa.int16()),
        real=[0.5, float("nan"), float("inf")],
        sure=[True, False, None],
        few=pa.array(["1", "2", "1"]).cast(pa.int64()).dictionary_encode(),
        price=pa.array([1, 2, None], pa.decimal128(5, 2)),
        vector=[[1.0, 2.0], [3.0, None], None],
        fixed=pa.array([[1, 2], missing, [5, 6]], pa.list_(pa.int32(), 2)),
        y=[0, 1, 1],
    )
    nan = np.nan
    expected = [
        [1, 0.5, 1, 1, 1, 1, 2, 1, 2],
        [nan, nan, 0, 2, 2, 3, nan, nan, nan],
        [3, np.inf, nan, 1, nan, nan, nan, 5, 6],
    ]
    found = features(path)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(features(path, features=["fixed", "real"]), np.array(expected)[:, [7, 8, 1]])


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        ({"a": pa.float32()}, np.float32),
        ({"a": pa.float32(), "b": pa.float16(), "c": pa.bool_()}, np.float32),
        ({"a": pa.float32(), "b": pa.float64()}, np.float64),
        ({"a": pa.float32(), "b": pa.int8()}, np.float64),
        ({"a": pa.bool_()}, np.float64),
    ],
)
def test_narrow_numbers_stay_narrow(tmp_path, columns, dtype):
    arrays = {name: pa.array(np.ones(4, kind.to_pandas_dtype()), kind) for name, kind in columns.items()}
    assert features(saved(tmp_path / "a.parquet", **arrays, y=[0, 1, 1, 0])).dtype == dtype


def test_narrow_vectors_stay_narrow_unless_one_file_has_wide_ones(tmp_path):
    saved(tmp_path / "a.parquet", e=pa.array([[1, 2]], pa.list_(pa.float32())), y=[0])
    assert features(tmp_path).dtype == np.float32
    saved(tmp_path / "b.parquet", e=pa.array([[3, 4]], pa.list_(pa.float64())), y=[0])
    found = RowBlocks.from_parquet(tmp_path, "y")
    assert {one.X.dtype for part in found.parts for one in part.blocks()} == {np.dtype(np.float64)}


def test_whole_numbers_in_one_file_and_fractions_in_another(tmp_path):
    saved(tmp_path / "a.parquet", a=[1, 2], b=[True, False], c=pa.nulls(2), y=[0, 1])
    saved(tmp_path / "b.parquet", a=[0.5], b=[7], c=[8.0], y=[1.0])
    rows = RowBlocks.from_parquet(tmp_path, "y")
    assert_rows(rows, np.array([[1, 1, np.nan], [2, 0, np.nan], [0.5, 7, 8]]), np.array([0, 1, 1]))
    assert {one.labels.dtype.kind for part in rows.parts for one in part.blocks()} == {"i"}


def test_names_with_dots(tmp_path):
    path = saved(tmp_path / "a.parquet", **{"a": [1.0], "a.b": [[2.0, 3.0]], "y": [0]})
    np.testing.assert_array_equal(features(path), [[1, 2, 3]])
    np.testing.assert_array_equal(features(path, features=["a"]), [[1]])


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (["a", "b"], "U", ["a", "b"]),
        (pa.array(["a", "b"]).dictionary_encode(), "U", ["a", "b"]),
        (pa.array([3, 250], pa.uint8()), "i", [3, 250]),
        ([1.0, 0.0], "i", [1, 0]),
        ([-(2.0**63), 2.0**62], "i", [-(2**63), 2**62]),
        (pa.array([0, 2**63 - 1], pa.uint64()), "i", [0, 2**63 - 1]),
        (pa.array([2**64 - 2, 2**64 - 1], pa.uint64()), "u", [2**64 - 2, 2**64 - 1]),
        ([2.0**63, 0.0], "u", [2**63, 0]),
        ([Decimal("7.00"), Decimal("-1.00")], "i", [7, -1]),
        ([True, False], "b", [True, False]),
    ],
)
def test_kinds_of_labels(tmp_path, column, kind, expected):
    labels = gathered(RowBlocks.from_parquet(saved(tmp_path / "a.parquet", a=[1, 2], y=column), "y"))[1]
    assert labels.dtype.kind == kind
    assert labels.tolist() == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["ann", "bob"], ["ann", "bob"]),
        ([7, 8], [7, 8]),
        ([True, False], [True, False]),
        ([b"ann", b"bob"], [b"ann", b"bob"]),
        ([Decimal("7.00"), Decimal("8.50")], [7, 8.5]),
        ([Decimal(2**70), Decimal(2**70 + 1)], [2**70, 2**70 + 1]),
        (pa.array([0, 1], pa.date32()), ["1970-01-01", "1970-01-02"]),
    ],
)
def test_kinds_of_groups(tmp_path, column, expected):
    rows = RowBlocks.from_parquet(saved(tmp_path / "a.parquet", a=[1, 2], y=[0, 1], who=column), "y", groups="who")
    assert gathered(rows)[3].tolist() == expected


@pytest.mark.parametrize(
    "column", [[True, False], [1, 0], [1.0, 0.0], pa.array([1, 0]).dictionary_encode(), [" Yes", "no"]]
)
def test_kinds_of_trusted(tmp_path, column):
    rows = RowBlocks.from_parquet(saved(tmp_path / "a.parquet", a=[1, 2], y=[0, 1], ok=column), "y", trusted="ok")
    assert gathered(rows)[2].tolist() == [True, False]


def test_words_with_an_encoder(tmp_path):
    table = pa.table(
        {"job": ["cook", None, "nurse", "cook", "cook"], "age": [20, 30, 40, None, 50], "y": list("abbab")}
    )
    encoder = TableEncoder().fit(table.select(["age", "job"]))
    parquet.write_table(table.slice(0, 3), tmp_path / "a.parquet")
    parquet.write_table(table.slice(3), tmp_path / "b.parquet")
    parquet.write_table(table.slice(0, 0), tmp_path / "c.parquet")
    rows = RowBlocks.from_parquet(tmp_path, "y", encode=encoder.transform)
    expected = encoder.transform(table.select(["age", "job"]))
    assert_rows(rows, expected, np.array(list("abbab")))
    assert_rows(pickle.loads(pickle.dumps(rows)), expected, np.array(list("abbab")))


def test_names_of_features(tmp_path):
    path = saved(tmp_path / "a.parquet", a=[1, 2], b=[True, False], y=[0, 1], e=[[1.0], [2.0]])
    rows = RowBlocks.from_parquet(path, "y", ["b", "a"])
    assert rows.feature_names == ("b", "a")
    assert rows.map(np.abs).feature_names is None
    assert RowBlocks.from_parquet(path, "y", ["a", "e"]).feature_names is None
    encoded = RowBlocks.from_parquet(path, "y", ["a"], encode=lambda table: np.ones((len(table), 1)))
    assert encoded.feature_names is None


def test_test_rows_with_columns_in_another_order_are_refused(tmp_path):
    X, *_ = written(tmp_path, [20])
    model = StreamingRidgeClassifier().fit(RowBlocks.from_parquet(tmp_path, "spam", ["x0", "x1", "x2"]))
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    model.certify(frame)
    with pytest.raises(ValueError, match="The feature names should match"):
        model.certify(frame[["x2", "x1", "x0"]])


def from_pandas(path, index, **columns):
    pd.DataFrame(columns, index=index).to_parquet(path)
    return path


def test_the_index_of_pandas_is_not_a_feature(tmp_path):
    shuffled, named = [5, 3], pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["key", "word"])
    columns = {"a": [1.0, 2.0], "y": [0, 1]}
    for number, index in enumerate((shuffled, None, named, shuffled)):
        from_pandas(tmp_path / f"{number}.parquet", index, **columns)
    rows = RowBlocks.from_parquet(tmp_path, "y")
    assert rows.feature_names == ("a",)
    assert_rows(rows, np.tile([[1.0], [2.0]], (4, 1)), np.tile([0, 1], 4))
    first = tmp_path / "0.parquet"
    assert "__index_level_0__" in parquet.read_schema(first).names
    np.testing.assert_array_equal(features(first, features=["__index_level_0__", "a"]), [[5, 1], [3, 2]])
    assert gathered(RowBlocks.from_parquet(first, "y", groups="__index_level_0__"))[3].tolist() == [5, 3]
    labelled = RowBlocks.from_parquet(tmp_path / "2.parquet", "word", trusted="y", groups="key")
    assert_rows(labelled, [[1.0], [2.0]], ["x", "y"], [False, True], [1, 2])


def test_an_index_column_of_any_file_is_not_a_feature(tmp_path):
    for order in (("a", "b"), ("b", "a")):
        from_pandas(tmp_path / f"{order[0]}.parquet", None, a=[1.0], key=[7], y=[0])
        from_pandas(tmp_path / f"{order[1]}.parquet", pd.Index([8], name="key"), a=[2.0], y=[1])
        assert RowBlocks.from_parquet(tmp_path, "y").feature_names == ("a",)


def test_a_file_with_only_an_index(tmp_path):
    path = from_pandas(tmp_path / "a.parquet", [5, 3], y=[0, 1])
    with pytest.raises(ValueError, match=r"has no columns except 'y', '__index_level_0__'"):
        RowBlocks.from_parquet(path, "y")


@pytest.mark.parametrize(
    "note", [b"", b"{", b"\xff", b"[1]", b"{}", b'{"index_columns": 1}', b'{"index_columns": [["a"]]}']
)
def test_invalid_pandas_metadata_is_ignored(tmp_path, note):
    table = pa.table({"a": [1], "y": [0]}).replace_schema_metadata({b"pandas": note})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert RowBlocks.from_parquet(tmp_path, "y").feature_names == ("a",)


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (
            lambda table: np.ones((1, 2)),
            r"a\.parquet', rows 0 to 1: the result of 'encode' must have 2 rows, as many as its input",
        ),
        (lambda table: np.ones(2), r"a\.parquet', rows 0 to 1: the result of 'encode' must have rows and columns"),
        (TableEncoder().fit(pa.table({"b": [1, 2]})).transform, r"rows 0 to 1: column 'b' is missing"),
    ],
)
def test_an_encoder_that_fails_names_the_block(tmp_path, encode, message):
    path = saved(tmp_path / "a.parquet", a=["x", "z"], y=[0, 1])
    with pytest.raises(ValueError, match=message):
        gathered(RowBlocks.from_parquet(path, "y", encode=encode))


NUMBERS = {"a": [1.0, 2.0], "y": [0, 1]}


@pytest.mark.parametrize(
    ("first", "second", "given", "message"),
    [
        (NUMBERS, {"y": [0]}, {}, r"'.*b\.parquet' has no column 'a', which '.*a\.parquet' has\."),
        (
            NUMBERS,
            NUMBERS | {"c": [1, 2]},
            {},
            r"'.*b\.parquet' has a column 'c', which '.*a\.parquet' does not have: name",
        ),
        (NUMBERS, {"a": ["x"], "y": [0]}, {}, r"column 'a' holds words in '.*b\.parquet', but numbers in '.*a\.parq"),
        (NUMBERS, {"a": [1], "y": ["x"]}, {}, r"column 'y' holds words in '.*b\.parquet', but numbers in '.*a\.parq"),
        (NUMBERS, {"a": [1], "y": [True]}, {}, r"column 'y' holds booleans in '.*b\.parquet', but numbers in '.*a\."),
        (NUMBERS, NUMBERS, {"label": "z"}, r"'.*a\.parquet' has no column 'z'; its columns are 'a', 'y'\."),
        (NUMBERS, NUMBERS, {"features": ["b"]}, r"'.*a\.parquet' has no column 'b'; its columns are 'a', 'y'\."),
        (NUMBERS, NUMBERS, {"features": "a"}, r"features must be a list of columns\. Got 'a' instead: write \['a'\]"),
        (NUMBERS, NUMBERS, {"features": ["a", "y"]}, r"column 'y' is named more than once among features, label"),
        (NUMBERS, NUMBERS, {"features": []}, r"'.*a\.parquet' has no columns except 'y': there are no features"),
        (NUMBERS, NUMBERS, {"label": 1}, r"label must be the name of a column\. Got int instead"),
        (
            {"a": ["x"], "y": [0]},
            {"a": ["x"], "y": [0]},
            {},
            r"column 'a' of '.*' holds words, not numbers: leave it out",
        ),
        (
            {"a": [["x"]], "y": [0]},
            {"a": [["x"]], "y": [0]},
            {},
            r"column 'a' of '.*' holds vectors of string, not num",
        ),
        (
            {"a": pa.array([0], pa.date32()), "y": [0]},
            {"a": pa.array([0], pa.date32()), "y": [0]},
            {},
            r"'.*a\.parquet': column 'a' holds date32\[day\], not numbers, words or vectors: leave it out, or",
        ),
        ({"a": pa.nulls(1), "y": [0]}, {"a": pa.nulls(1), "y": [0]}, {}, r"column 'a' of '.*' has no values"),
        ({"a": [0], "y": [[0]]}, {"a": [0], "y": [[0]]}, {}, r"column 'y' of '.*' holds list<.*: labels must be words"),
        (
            NUMBERS | {"ok": [[0], [1]]},
            NUMBERS | {"ok": [[0], [1]]},
            {"trusted": "ok"},
            r"column 'ok' of '.*' must say which rows are trusted: yes or no, true or false, 1 or 0\. Got list<",
        ),
        (
            NUMBERS | {"who": [[1], [2]]},
            NUMBERS | {"who": [[1], [2]]},
            {"groups": "who"},
            r"column 'who' of '.*' must contain a name for each row\. Got list<",
        ),
        (
            {"a": [[1, 2]], "y": [0]},
            {"a": [[1, 2, 3]], "y": [0]},
            {},
            r"column 'a' holds vectors of 3 numbers in '.*b\.parquet', but of 2 in '.*a\.parquet'",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused_at_once(tmp_path, first, second, given, message):
    saved(tmp_path / "a.parquet", **first)
    saved(tmp_path / "b.parquet", **second)
    with pytest.raises(ValueError, match=message) as caught:
        RowBlocks.from_parquet(tmp_path, **{"label": "y"} | given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [0, 1, None, 1]}, r"'.*a\.parquet' has missing labels in column 'y', the first in row 2: leave"),
        ({"y": [0, 1, float("nan"), 1]}, r"'.*a\.parquet' has missing labels in column 'y', the first in row 2: leave"),
        ({"y": [0, 1, 0.5, 1]}, r"column 'y' of '.*a\.parquet' holds fractions: labels must be classes"),
        ({"y": [0, 1, 1, np.inf]}, r"^column 'y' of '.*a\.parquet' holds inf in row 3: labels must be words, or whole"),
        ({"y": [0, 1, -1e300, 1e300]}, r"^column 'y' of '.*a\.parquet' holds -1e\+300 in row 2: labels must be words"),
        ({"y": [0, 1, 1, 2.0**64]}, r"^column 'y' of '.*a\.parquet' holds 1\.8.*e\+19 in row 3: labels must be words"),
        ({"y": [0, 1, -1, 2.0**63]}, r"^column 'y' of '.*a\.parquet' holds negative numbers and others of 2\*\*63 or"),
        (
            {"y": pa.array([0, 1, 2**64, 1], pa.decimal128(38, 0))},
            r"^column 'y' of '.*a\.parquet' holds 18446744073709551616 in row 2: labels must be words",
        ),
        (
            {"ok": [1, 0, 2, 2]},
            r"column 'ok' of '.*a\.parquet' must say which rows are trusted.* Got 2 in row 2 instead",
        ),
        ({"ok": ["yes", "No ", "so so", "no"]}, r"must say which rows are trusted.* Got 'so so' in row 2 instead"),
        ({"ok": [True, True, None, None]}, r"column 'ok' of '.*a\.parquet' does not say whether row 2 is trusted"),
        ({"who": ["a", "b", None, "b"]}, r"column 'who' of '.*a\.parquet' does not say who labelled row 2"),
        (
            {"a": [[1, 2], [3, 4], [5], [6, 7, 8]]},
            r"a\.parquet', rows 2 to 3: column 'a' must hold vectors of the same length. Got 1 to 3",
        ),
        (
            {"a": [[1, 2], [3, 4], [5], None]},
            r"a\.parquet', rows 2 to 3: column 'a' must hold vectors of the same length. Got 1 to 2",
        ),
        (
            {"a": [[1, 2], [3, 4], [5], [6]]},
            r"column 'a' holds vectors of 1 numbers in '.*a\.parquet', but of 2 in another of its row groups",
        ),
    ],
)
def test_rows_that_do_not_fit_are_named(tmp_path, columns, message):
    fine = {"a": [[1, 2]] * 4, "y": [0, 1, 1, 0], "ok": [1, 0, 0, 1], "who": ["a", "b", "b", "a"]}
    whole = pa.table(fine | columns)
    parquet.write_table(whole, tmp_path / "a.parquet", row_group_size=2)
    with pytest.raises(ValueError, match=message):
        gathered(RowBlocks.from_parquet(tmp_path, "y", ["a"], "ok", "who"))


def test_files_that_cannot_be_read_are_named(tmp_path):
    written(tmp_path, [5])
    (tmp_path / "empty").mkdir()
    (tmp_path / "garbage.pq").write_bytes(b"garbage" * 10)
    whole = (tmp_path / "part-0.parquet").read_bytes()
    (tmp_path / "damaged.pq").write_bytes(whole[:4] + bytes(200) + whole[204:])
    for name, message in [
        ("nowhere", r"cannot read '.*nowhere': there is no such file or folder\."),
        ("empty", r"the folder '.*empty' has no files that end in \.parquet or \.pq\."),
        ("*.dat", r"no file matches '.*\*\.dat'\."),
        ("garbage.pq", r"cannot read '.*garbage\.pq' as Parquet: "),
        ("damaged.pq", r"cannot read '.*damaged\.pq' as Parquet: "),
    ]:
        with pytest.raises(OSError, match=message) as caught:
            gathered(RowBlocks.from_parquet(tmp_path / name, "spam", ["x0"]))
        assert "\n" not in str(caught.value)
    with pytest.raises(OSError, match=r"cannot read '.*empty': it is not a file\."):
        RowBlocks.from_parquet([tmp_path / "empty"], "spam")
    with pytest.raises(ValueError, match=r"at least one Parquet file\. Got none"):
        RowBlocks.from_parquet([], "spam")


def test_a_file_that_changes_between_two_visits_is_named(tmp_path):
    written(tmp_path, [20])
    rows = RowBlocks.from_parquet(tmp_path, "spam", ["x0"])
    gathered(rows)
    written(tmp_path, [16])
    with pytest.raises(OSError, match=r"cannot read '.*part-0\.parquet'"):
        gathered(rows)
    saved(tmp_path / "part-0.parquet", y=[1])
    with pytest.raises(OSError, match=r"cannot read '.*part-0\.parquet' as Parquet: "):
        gathered(rows)


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([0])], ["a", "a", "y"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"'.*a\.parquet' has more than one column called 'a'"):
        RowBlocks.from_parquet(tmp_path, "y")


@pytest.mark.slow
def test_a_large_row_group_is_never_in_memory_as_a_whole(tmp_path):
    n_rows, n_columns = 300_000, 64  # 77 MB of features in one row group
    numbers = np.random.default_rng(0).random(n_rows * n_columns, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), n_columns)
    path = tmp_path / "a.parquet"
    table = pa.table({"e": vectors, "y": np.arange(n_rows) % 2})
    parquet.write_table(table, path, row_group_size=n_rows, use_dictionary=False, data_page_size=2**16)
    code = (
        "import sys, tracemalloc, pyarrow; from flipproof.streaming import RowBlocks, blocks, parquet\n"
        "blocks.NUMBERS_IN_BLOCK = 2**18\n"  # 1 MB
        "tracemalloc.start()\n"
        "rows = RowBlocks.from_parquet(sys.argv[1], 'y')\n"
        "n = sum(len(one) for part in rows.parts for one in part.blocks())\n"
        "print(len(rows.parts), n, pyarrow.default_memory_pool().max_memory(), tracemalloc.get_traced_memory()[1])\n"
    )
    # a process of its own: what pyarrow held at most is counted from its start
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    n_parts, n_visited, held_by_arrow, held_by_numpy = map(int, done.stdout.split())
    assert (n_parts, n_visited) == (1, n_rows)
    assert held_by_arrow < 12 * 2**20
    assert held_by_numpy < 12 * 2**20


@pytest.mark.slow
def test_pyarrow_is_needed_for_parquet_only(tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from flipproof.streaming import RowBlocks\n"
        "import numpy as np; RowBlocks.from_arrays(np.ones((2, 2)), [0, 1])\n"
        "try: RowBlocks.from_parquet('a.parquet', 'y')\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "reading Parquet files needs pyarrow: pip install 'flipproof[cli]'"
