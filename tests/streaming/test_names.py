"""Annotators and labels in every type that holds them, a different one in each file, block or partition.

An annotator who is taken for two makes radii too large: all must be those of memory with plain names, and no radius may
reach an attack that a refit confirms.
"""

from decimal import Decimal

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.delayed import delayed
from pyarrow import parquet
from same_certificates import assert_same, cut, some_problem

import flipproof
from flipproof import Adversary
from flipproof.attacks import worst_flips
from flipproof.streaming import RowBlocks, StreamingRidgeClassifier

N, K = 120, 3
X, y, Z = some_problem(N, K, 3)
NAMES = [f"x{j}" for j in range(K)]
FRAME = pd.DataFrame(Z, columns=NAMES)  # of files and frames, whose columns have names
CODES = np.random.default_rng(5).integers(9, size=N)

HUGE = 2**70


def arrow(kind):
    return lambda values: pa.array(values, kind)


def dictionary(kind):
    return lambda values: pa.array(values, kind).dictionary_encode()


def decimals(scale):
    return lambda values: pa.array(
        [Decimal(int(one)).quantize(Decimal(1).scaleb(-scale)) for one in values], pa.decimal128(38, scale)
    )


#: The names of nine annotators, and types that hold all of them.
NUMBERS = (
    np.arange(1, 10),
    [
        *map(arrow, [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()]),
        *(decimals(scale) for scale in (0, 1, 2)),
        dictionary(pa.int16()),
        dictionary(pa.float64()),
    ],
)
#: Names that float64 takes for one another.
LARGE = (
    np.array([2**53 + one for one in range(9)], dtype=np.uint64),
    [*map(arrow, [pa.int64(), pa.uint64()]), decimals(0), decimals(2), dictionary(pa.uint64())],
)
BEYOND = (
    np.array([HUGE + one for one in range(9)], dtype=object),
    [decimals(0), decimals(1), lambda values: pa.array([Decimal(one) for one in values], pa.decimal256(50, 2))],
)
WORDS = (
    np.array(["ann", "b", "christine", "dé", "e1", "1", "01", "g", "h h"]),
    [*map(arrow, [pa.string(), pa.large_string()]), dictionary(pa.string()), dictionary(pa.large_string())],
)
BYTES = (
    np.array([b"ann", b"b", b"christine", b"d", b"e1", b"\xff", b"01", b"g", b"h h"]),
    [
        *map(arrow, [pa.binary(), pa.large_binary()]),
        dictionary(pa.binary()),
        *(
            lambda values, width=width: pa.array([one.ljust(width, b"\0") for one in values], pa.binary(width))
            for width in (9, 12)
        ),
    ],
)
FAMILIES = {"numbers": NUMBERS, "large": LARGE, "beyond": BEYOND, "words": WORDS, "bytes": BYTES}


@pytest.fixture(scope="module")
def memory():
    return flipproof.CertifiedRidgeClassifier().fit(X, y)


def pieces(n_parts):
    return np.array_split(np.arange(N), n_parts)


def confirmed_attacks(model):
    """Return how many annotators are enough to change each prediction, as a refit shows; none if that many are not."""
    found = worst_flips(model, Z, Adversary(groups=CODES))
    needed = np.full(len(Z), np.inf)
    for row in np.flatnonzero(found.success):
        labels = y.copy()
        labels[found.rows[row]] = found.new_labels[row]
        changed = flipproof.CertifiedRidgeClassifier(classes=range(3)).fit(X, labels).predict(Z[row : row + 1])
        if changed[0] != found.prediction[row]:
            needed[row] = len(np.unique(CODES[found.rows[row]]))
    return needed


@pytest.mark.few(1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["exact", "tight"])
def test_annotators_in_another_type_in_each_file(tmp_path, memory, family, method):
    names, types = FAMILIES[family]
    who = names[CODES]
    for number, (rows, make) in enumerate(zip(pieces(len(types)), types, strict=True)):
        columns = {name: X[rows, j] for j, name in enumerate(NAMES)}
        table = pa.table({**columns, "y": y[rows], "who": make(who[rows].tolist())})
        parquet.write_table(table, tmp_path / f"{number:02}.parquet", row_group_size=7)
    blocks = StreamingRidgeClassifier().fit(RowBlocks.from_parquet(tmp_path, "y", groups="who"))
    found, wanted = blocks.certify(FRAME, method), memory.certify(Z, method, Adversary(groups=CODES))
    assert_same(found, wanted, same_adversary=False)
    assert found.n_touchable == 9
    needed = confirmed_attacks(memory)
    assert np.isfinite(needed).any()
    assert (found.radius < needed).all()
    assert_same(memory.certify(Z, method, Adversary(groups=who)), wanted, same_adversary=False)
    assert_same(blocks.certify(FRAME, method, Adversary(groups=who)), wanted, same_adversary=False)


IN_MEMORY = {
    "numbers": [
        *(lambda values, kind=kind: np.array(values, dtype=kind) for kind in "bhqBQefdg"),
        list,
        lambda values: [Decimal(int(one)) for one in values],
        lambda values: [Decimal(f"{one}.00") for one in values],
        *(
            lambda values, kind=kind: pd.Series(values.astype(int), dtype=kind)
            for kind in ("Int8", "UInt64", "category")
        ),
        lambda values: np.array(values.tolist(), dtype=object),
    ],
    "large": [
        *(lambda values, kind=kind: np.array(values, dtype=kind) for kind in "qQO"),
        lambda values: values.tolist(),
        lambda values: pd.Series(values, dtype="UInt64"),
        lambda values: pd.Series(values.astype(np.int64), dtype="category"),
    ],
    "beyond": [list, np.array, lambda values: [Decimal(one) for one in values], lambda values: pd.Series(list(values))],
    "words": [
        *(lambda values, kind=kind: np.array(values, dtype=kind) for kind in ("U9", "U30", "O", "T")),
        *(lambda values, kind=kind: pd.Series(values, dtype=kind) for kind in ("str", "string", "category", "object")),
        lambda values: np.array([str(one) for one in values]),
    ],
    "bytes": [
        *(lambda values, kind=kind: np.array(values, dtype=kind) for kind in ("S9", "S12", "O")),
        lambda values: values.tolist(),
        lambda values: pd.Series(list(values), dtype=pd.ArrowDtype(pa.binary())),
    ],
}


@pytest.mark.few(2)
@pytest.mark.parametrize("family", IN_MEMORY)
def test_annotators_in_another_type_in_each_block(memory, family):
    who, types = FAMILIES[family][0][CODES], IN_MEMORY[family]
    rows = [(X[part], y[part], None, make(who[part])) for part, make in zip(pieces(len(types)), types, strict=True)]
    wanted = memory.certify(Z, adversary=Adversary(groups=CODES))
    for given in (rows, rows[::-1], lambda: iter(rows)):
        found = StreamingRidgeClassifier().fit(given).certify(Z)
        np.testing.assert_array_equal(found.radius, wanted.radius)
        assert found.n_touchable == 9
    for make in types:
        assert_same(memory.certify(Z, adversary=Adversary(groups=make(who))), wanted, same_adversary=False)


@pytest.mark.few(1)
@pytest.mark.parametrize("family", IN_MEMORY)
def test_annotators_in_another_type_in_each_partition(memory, family):
    who, types = FAMILIES[family][0][CODES], IN_MEMORY[family]
    frames = [
        pd.DataFrame(X[part], columns=NAMES).assign(label=y[part], who=make(who[part]))
        for part, make in zip(pieces(len(types)), types, strict=True)
    ]
    meta = frames[0].iloc[:0]
    frame = dd.from_delayed([delayed(one) for one in frames], meta=meta, verify_meta=False)
    found = StreamingRidgeClassifier().fit(frame, "label", groups="who").certify(FRAME)
    wanted = memory.certify(Z, adversary=Adversary(groups=CODES))
    assert_same(found, wanted, same_adversary=False)
    assert found.n_touchable == 9


def test_labels_in_another_type_in_each_file(tmp_path):
    large = 2**63 + y.astype(np.uint64)
    for kinds, labels in (
        ([pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(9, 2), pa.decimal128(9, 1)], y),
        ([pa.uint64(), pa.decimal128(38, 0), pa.decimal128(38, 2)], large),
    ):
        folder = tmp_path / str(len(kinds))
        folder.mkdir()
        for number, (rows, kind) in enumerate(zip(pieces(len(kinds)), kinds, strict=True)):
            given = [Decimal(int(one)) for one in labels[rows]] if pa.types.is_decimal(kind) else labels[rows].tolist()
            columns = {name: X[rows, j] for j, name in enumerate(NAMES)}
            parquet.write_table(pa.table({**columns, "y": pa.array(given, kind)}), folder / f"{number}.parquet")
        found = StreamingRidgeClassifier().fit(folder, "y")
        wanted = flipproof.CertifiedRidgeClassifier().fit(X, labels)
        assert found.classes_.dtype == wanted.classes_.dtype
        assert_same(found.certify(FRAME), wanted.certify(Z))


@pytest.mark.parametrize("labels", [2**53 + y.astype(np.uint64), 2**63 + y.astype(np.uint64), -(2**62) - y])
def test_large_labels(labels):
    wanted = flipproof.CertifiedRidgeClassifier().fit(X, y)
    classes = np.unique(labels)
    order = 1 if (np.diff(y[np.argsort(labels)]) >= 0).all() else -1
    for given in (None, classes, classes.tolist(), classes.tolist()[::-1], classes.astype(object)):
        memory = flipproof.CertifiedRidgeClassifier(classes=given).fit(X, labels)
        blocks = StreamingRidgeClassifier(classes=given).fit(cut([40, 1], X, labels))
        for model in (memory, blocks):
            assert model.classes_.tolist() == classes.tolist()
            assert model.predict(Z).tolist() == classes[::order][wanted.predict(Z)].tolist()
        allowed = Adversary(allowed=[(classes[0], int(classes[1]))])
        assert_same(blocks.certify(Z, adversary=allowed), memory.certify(Z, adversary=allowed))


def test_names_of_several_kinds_are_refused(tmp_path):
    for number, who in enumerate([[1, 2], ["1", "2"]]):
        parquet.write_table(pa.table({"x": [0.0, 1.0], "y": [0, 1], "who": who}), tmp_path / f"{number}.parquet")
    with pytest.raises(ValueError, match=r"column 'who' holds words in '.*1\.parquet', but numbers in '.*0\.parquet'"):
        RowBlocks.from_parquet(tmp_path, "y", groups="who")


COLUMNS = {"X": X, "y": y, "trusted": CODES > 4, "groups": CODES}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("where", ["array", "blocks", "dask"])
def test_masked_entries_are_refused(where, name):
    def fit(mask):
        given = {**COLUMNS, name: np.ma.array(COLUMNS[name], mask=mask)}
        if where == "blocks":
            return StreamingRidgeClassifier().fit([tuple(given.values())])
        if where == "dask":
            given = {one: da.from_array(array, chunks=(50, -1)[: array.ndim]) for one, array in given.items()}
        return StreamingRidgeClassifier().fit(given.pop("X"), given.pop("y"), **given)

    mask = np.zeros(COLUMNS[name].shape, dtype=bool)
    fit(mask)
    mask[60] = True
    with pytest.raises(ValueError, match=r"must not be missing. Got \d masked"):
        fit(mask)
