"""Names and labels are compared by value, independently of their container."""

import enum
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipproof.values import as_mask, as_names, as_values, distinct, joined, positions, union

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(2**53 - 2, 2**53 + 2),
    st.integers(2**63 - 2, 2**63 + 2),
    st.integers(2**64 - 2, 2**64 + 2),
    st.integers(-3, 3),
)


def shown(value):
    """Name a case without its address in memory, which differs between the processes that share the tests."""
    return re.sub(r" object at 0x[0-9a-f]+", "", repr(value))


def held_by(numbers):
    """Return the numbers in every container that holds them exactly."""
    held = [numbers, tuple(numbers), np.array(numbers, dtype=object), [Decimal(one) for one in numbers]]
    held.append([Decimal(one) * Decimal("1.00") if abs(one) < 2**63 else Fraction(one) for one in numbers])
    for kind in (np.int8, np.uint8, np.int32, np.int64, np.uint64):
        if np.iinfo(kind).min <= min(numbers) and max(numbers) <= np.iinfo(kind).max:
            held += [np.array(numbers, dtype=kind), [kind(one) for one in numbers], pd.Series(numbers, dtype=kind)]
            held.append(pd.Categorical(np.array(numbers, dtype=kind)))
    for kind in (np.float32, np.float64):
        if all(abs(one) < 2**100 and int(kind(one)) == one for one in numbers):
            held += [np.array(numbers, dtype=kind), [kind(one) for one in numbers]]
    return held


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.data())
def test_equal_numbers_match_in_every_container(numbers, data):
    known = sorted(set(numbers))
    for one in held_by(numbers):
        found, codes = distinct(as_names(one, "names"))
        assert [int(value) for value in found.tolist()] == known
        assert [known[code] for code in codes] == numbers
    first, second = (as_names(data.draw(st.sampled_from(held_by(numbers))), "names") for _ in range(2))
    assert [int(value) for value in union(distinct(first)[0], distinct(second)[0]).tolist()] == known
    assert [int(value) for value in joined([first, second]).tolist()] == 2 * numbers
    place, is_known = positions(distinct(first)[0], second)
    assert is_known.all()
    assert [known[code] for code in place] == numbers


@given(st.lists(NUMBERS, min_size=1, max_size=4), NUMBERS, st.data())
def test_absent_numbers_are_not_found(numbers, other, data):
    known = distinct(as_names(data.draw(st.sampled_from(held_by(numbers))), "names"))[0]
    for one in held_by([other]):
        strange = as_names(one, "names")
        place, is_known = positions(known, strange)
        assert is_known.tolist() == [other in numbers]
        assert not is_known[0] or int(known[place[0]]) == other
        assert len(union(known, strange)) == len({*numbers, other})


@pytest.mark.parametrize("large", [2**53, 2**63, 2**64])
def test_large_integers_that_are_equal_as_floats_differ(large):
    as_float, next_one = np.array([float(large)]), as_names([large + 1], "names")
    assert positions(as_float, as_names([large], "names"))[1].all()
    for known, strange in ((as_float, next_one), (next_one, as_float)):
        assert not positions(known, strange)[1].any()
        assert [int(one) for one in union(known, strange).tolist()] == [large, large + 1]


class Word(str, enum.Enum):  # noqa: UP042 - as a str, it is called Word.ANN
    ANN = "ann"
    BOB = "bob"


WORDS = [
    ["ann", "bob", "ann"],
    np.array(["ann", "bob", "ann"], dtype="U20"),
    np.array(["ann", "bob", "ann"], dtype=object),
    np.array(["ann", "bob", "ann"], dtype=">U3"),
    np.array(["ann", "bob", "ann"], dtype=np.dtypes.StringDType()),
    pd.Series(["ann", "bob", "ann"]),
    pd.Series(["ann", "bob", "ann"], dtype="string"),
    pd.Series(["ann", "bob", "ann"], dtype="category"),
    pd.Series(["ann", "bob", "ann"], dtype=pd.ArrowDtype(pa.large_string())),
    pa.array(["ann", "bob", "ann"]),
    [Word.ANN, Word.BOB, np.str_("ann")],
    ["ann\0", "bob", "ann\0\0"],
]


@pytest.mark.parametrize("words", WORDS, ids=lambda one: str(getattr(one, "dtype", type(one))))
def test_strings_of_any_type_are_compared_by_value(words):
    found, codes = distinct(as_names(words, "names"))
    assert (found.tolist(), codes.tolist()) == (["ann", "bob"], [0, 1, 0])
    wide = np.array(["a", "ann", "bobby"])
    assert positions(wide, as_names(words, "names"))[1].tolist() == [True, False, True]
    assert union(wide, found).tolist() == ["a", "ann", "bob", "bobby"]


@pytest.mark.parametrize("width", [2, 5])
def test_bytes_of_any_width_are_compared_by_value(width):
    padded = pa.array([one.ljust(width, b"\0") for one in (b"a", b"b")], pa.binary(width))
    for one in ([b"a", b"b"], np.array([b"a", b"b"], dtype=f"S{width}"), padded, np.array([b"a", b"b"], dtype=object)):
        assert distinct(as_names(one, "names"))[0].tolist() == [b"a", b"b"]
        assert positions(np.array([b"a", b"c"]), as_names(one, "names"))[1].tolist() == [True, False]


@pytest.mark.parametrize(
    ("words", "numbers"), [(["1", "2"], [1, 2]), ([b"1", b"2"], [1, 2]), (["1", "2"], [b"1", b"2"])]
)
def test_values_of_a_different_kind_are_not_found(words, numbers):
    assert not positions(as_names(words, "names"), as_names(numbers, "names"))[1].any()
    assert not positions(as_names(numbers, "names"), as_names(words, "names"))[1].any()


def test_positive_and_negative_zero_are_equal():
    assert distinct(as_names([0.0, -0.0], "names"))[0].tolist() == [0.0]
    assert positions(np.array([0]), np.array([-0.0]))[1].all()


def test_fractions_are_compared_exactly():
    halves = as_names([0.5, 1.0], "names")
    assert positions(halves, as_names([Decimal("0.5"), Fraction(1)], "names"))[1].all()
    assert union(halves, np.array([2])).tolist() == [0.5, 1, 2]
    # one tenth differs between these types, so one annotator would become two
    narrow = np.array([0.1], dtype=np.float32)
    for tenth in (narrow, list(narrow), [Decimal("0.1")], [np.longdouble("0.1")], [Fraction(1, 10)]):
        with pytest.raises(ValueError, match=r"Got fractions of another type.*"):
            as_names(tenth, "names")


@pytest.mark.parametrize(
    "missing",
    [
        ["a", None],
        ["a", float("nan")],
        ["a", np.float64("nan")],
        [1, None],
        [1, float("nan")],
        [1.0, float("nan")],
        np.array([1.0, np.nan]),
        np.array(["a", np.nan], dtype=object),
        np.array([1, pd.NaT], dtype=object),
        [True, None],
        [b"a", None],
        ["a", pd.NA],
        ["a", pd.NaT],
        ["a", np.ma.masked],
        [Decimal("NaN"), Decimal(1)],
        [Decimal("sNaN"), Decimal(1)],
        pd.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series(["a", None]),
        pd.Series(["a", None], dtype="string"),
        pd.Categorical(["a", None]),
        pd.Categorical([1, None]),
        pd.Series([1, None], dtype=pd.ArrowDtype(pa.int64())),
        pa.array([1, None]),
        pa.array(["a", None]),
        np.ma.array([1, 2], mask=[False, True]),
        np.ma.array(["a", "b"], mask=[False, True]),
    ],
    ids=shown,
)
def test_missing_names_are_refused(missing):
    with pytest.raises(ValueError, match="names must not be missing"):
        as_names(missing, "names")


@pytest.mark.parametrize(
    ("mixed", "message"),
    [
        (["a", 1], "mix of numbers and strings"),
        (["a", b"a"], "mix of bytes and strings"),
        ([True, 1], "mix of booleans and numbers"),
        (np.array([True, "a"], dtype=object), "mix of booleans and strings"),
        ([1j], "Got complex instead"),
        (np.array([1j]), "Got complex128"),
        (np.array(["2026-01-01"], dtype="M8[D]"), "Got datetime64"),
        ([[1], [2]], r"one name per training row. Got shape \(2, 1\)"),
    ],
    ids=shown,
)
def test_names_of_unsupported_or_mixed_kinds_are_refused(mixed, message):
    with pytest.raises(ValueError, match=message):
        as_names(mixed, "names")


@pytest.mark.parametrize("pair", [("Jos\u00e9", "Jose\u0301"), ("K", "\u212a")])
def test_a_text_in_two_unicode_forms_is_refused(pair):
    for call in (lambda: distinct(as_names(pair, "names")), lambda: union(*(as_names([one], "names") for one in pair))):
        with pytest.raises(ValueError, match="the same text in two Unicode forms"):
            call()
    assert len(distinct(as_names(["Jos\u00e9", "Jose", "jos\u00e9"], "names"))[0]) == 3


def test_arrays_keep_their_type():
    for array in (
        np.array([1, 0], dtype=np.int8),
        np.array([1.0, 0.0]),
        np.array([True]),
        np.array(["a"]),
        np.zeros(0),
    ):
        assert as_values(array, "labels") is array
    assert as_values(pd.Series([1, 0], dtype="Int64"), "labels").dtype == np.int64
    assert as_values(pd.Series([True, False], dtype="boolean"), "labels").dtype == bool
    assert as_values([2**64 - 1, 0], "labels").dtype == np.uint64
    assert as_values([2**64, 0], "labels").tolist() == [2**64, 0]


@pytest.mark.parametrize(
    "mask",
    [
        [True, False],
        np.array([True, False]),
        pd.Series([True, False], dtype="boolean"),
        np.array([True, False], dtype=object),
        np.ma.array([True, False], mask=[False, False]),
    ],
)
def test_masks_of_any_container_are_accepted(mask):
    found = as_mask(mask, "mask", "a mask.")
    assert type(found) is np.ndarray
    assert found.tolist() == [True, False]


@pytest.mark.parametrize(
    "mask",
    [
        np.ma.array([True, False], mask=[True, False]),
        pd.Series([True, None], dtype="boolean"),
        pd.Series([True, None], dtype=pd.ArrowDtype(pa.bool_())),
        [True, None],
        [True, pd.NA],
    ],
)
def test_masks_with_missing_values_are_refused(mask):
    with pytest.raises(ValueError, match="mask must not be missing"):
        as_mask(mask, "mask", "a mask.")
