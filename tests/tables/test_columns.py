"""Labels, names and ids as files of text spell them, and as columns of any type hold them."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flipproof.tables import read_table
from flipproof.tables.columns import as_labels, as_names

PURPOSES = {"y": "label", "who": "names", "id": "ids"}


def column(folder, words, purpose):
    path = folder / "a.csv"
    path.write_text(f"{purpose},x\n" + "".join(f"{word},0\n" for word in words))
    return read_table(path, purposes=PURPOSES)[purpose]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["0", "1", " 1"], [0, 1, 1]),
        (["0.0", "1.0"], [0, 1]),
        (["1.", "-2e0"], [1, -2]),
        (["01", "02"], [1, 2]),
        (["18446744073709551615", "9007199254740993", "9007199254740992"], [2**64 - 1, 2**53 + 1, 2**53]),
        (["true", "false"], [True, False]),
        (["1", "False"], [True, False]),
        (["spam", "1", "", "ham"], ["spam", "1", None, "ham"]),
        (["1", "NA", "0"], [1, None, 0]),
        (["36893488147419103232", "1"], ["36893488147419103232", "1"]),
        (["1e5", "10e4", "ham"], ["1e5", "10e4", "ham"]),
        (["2026-01-01", "2026-01-02"], ["2026-01-01", "2026-01-02"]),
    ],
)
def test_labels_of_a_text(tmp_path, words, expected):
    found = column(tmp_path, words, "y").to_pylist()
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize("purpose", ["y", "who"])
@pytest.mark.parametrize(
    "words",
    [
        ["1", "01"],
        ["1", "1.0"],
        ["0", "-0"],
        ["1", "+1"],
        ["10", "1e1"],
        ["007", "7", "bond"],
        ["1000", "1E+03", "bob"],
        ["true", "True"],
        ["1", "true"],
    ],
)
def test_one_number_in_two_spellings_is_refused(tmp_path, purpose, words):
    with pytest.raises(ValueError, match=rf"column '{purpose}' holds '.*' and '.*'.* in (two spellings|one way)"):
        column(tmp_path, ["5", *words] if "true" not in words else words, purpose)


@pytest.mark.parametrize(
    "words",
    [["1", "2"], ["1e2", "10e1", "bob"], ["01", "02"], ["1.1", "1.2"], ["a", "1"], ["36893488147419103232", "3"]],
)
def test_names_stay_as_they_are_written(tmp_path, words):
    assert column(tmp_path, words, "who").to_pylist() == words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["1", "01"], ["1", "01"]),
        (["007", "008"], ["007", "008"]),
        (["1.0", "2.0"], ["1.0", "2.0"]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["a", "1"], ["a", "1"]),
    ],
)
def test_ids_are_numbers_only_if_they_are_written_so(tmp_path, words, expected):
    assert column(tmp_path, words, "id").to_pylist() == expected


def chunked(values, kind=None):
    return pa.chunked_array([pa.array(values, kind)])


DECIMALS = [pa.decimal128(9, 1), pa.decimal256(50, 3)]
if hasattr(pa, "decimal32"):  # since PyArrow 18
    DECIMALS += [pa.decimal32(5, 1), pa.decimal64(9, 1)]


@pytest.mark.parametrize("kind", DECIMALS)
def test_decimals_of_any_width(kind):
    values = chunked([Decimal(7), Decimal(-1), Decimal(7)], kind)
    for read in (as_labels, as_names):
        found = read("a", values, "a file")
        assert (found.dtype, found.tolist()) == (np.int64, [7, -1, 7])
    with pytest.raises(ValueError, match="holds fractions: labels must be classes"):
        as_labels("a", chunked([Decimal("0.5")], kind), "a file")


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_views(kind):
    values = ["ann", "bob", "ann"] if kind == pa.string_view() else [b"ann", b"bob", b"ann"]
    assert as_names("a", chunked(values, kind), "a file").tolist() == values


def test_identifiers_are_their_bytes():
    values = [bytes(range(one, one + 16)) for one in (1, 200, 1)]
    if hasattr(pa, "uuid"):  # since PyArrow 18
        array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        assert as_names("a", pa.chunked_array([array]), "").tolist() == values
    assert as_names("a", chunked(values, pa.binary(16)), "a file").tolist() == values


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.binary(), pa.int8(), pa.uint64(), pa.decimal128(5, 2), pa.bool_(), pa.float64()]
)
def test_no_rows(kind):
    assert (
        len(as_names("a", chunked([], kind), "a file")) == len(as_names("a", pa.chunked_array([], kind), "a file")) == 0
    )
    if kind != pa.binary():
        assert len(as_labels("a", pa.chunked_array([], kind), "a file")) == 0


def test_fractions_of_another_type_are_refused_as_names():
    with pytest.raises(ValueError, match=r"annotators in column 'a' of a file must be whole numbers.* Got fractions"):
        as_names("a", chunked([0.1, 1.0], pa.float32()), "a file")
    assert as_names("a", chunked([0.1, 1.0]), "a file").tolist() == [0.1, 1.0]
