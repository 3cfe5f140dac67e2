"""Columns of a table: their kinds, and their values as arrays."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flipproof import values
from flipproof.errors import InputError, Parameter, RowNumber, Way

#: Words for trusted (1) and not trusted (0).
ANSWERS = {
    **dict.fromkeys(("true", "yes", "y", "1", "1.0"), 1),
    **dict.fromkeys(("false", "no", "n", "0", "0.0"), 0),
}


def column_kind(name: str, column: pa.ChunkedArray) -> str:
    """Return what a column holds: "numbers", "booleans", "words" or "vectors".

    Raises
    ------
    ValueError
        If it has no values, or values of another kind.
    """
    if column.null_count == len(column):
        raise InputError(f"column {name!r} has no values: ", *without(name), ".")
    return type_kind(name, column.type, without(name))


def without(name: str) -> tuple[str | Parameter, ...]:
    """Return the advice to leave out a column of a table, with the parameter that does it."""
    return "leave it out (", Parameter("drop", repr(name)), ")"


def type_kind(name: str, kind: pa.DataType, advice: tuple[str | Parameter, ...] = ("leave it out",)) -> str:
    """Return what a column of a type holds: "numbers", "booleans", "words" or "vectors".

    `advice` says how to do without the column, for errors.

    Raises
    ------
    ValueError
        If it is of another kind.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "booleans"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if is_words(kind):
        return "words"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "vectors"
    raise InputError(
        f"column {name!r} holds {kind}, not numbers, words or vectors: ", *advice, ", or convert it first."
    )


def index_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that hold the index of a pandas data frame, which pandas does not count as columns."""
    try:
        written = schema.pandas_metadata
    except ValueError:  # invalid metadata
        return []
    listed = written.get("index_columns") if isinstance(written, dict) else None
    if not isinstance(listed, list):
        return []
    return [name for name in listed if isinstance(name, str) and name in schema.names]  # a range is not a column


def index_range(schema: pa.Schema) -> tuple[int, int]:
    """Return start and step of the numbers that the index of a pandas data frame gives to its rows; else 0 and 1."""
    try:
        written = schema.pandas_metadata
        (listed,) = written["index_columns"]
        start, step = (listed["start"], listed["step"]) if listed["kind"] == "range" else (0, 1)
    except (ValueError, TypeError, KeyError):  # no or other metadata
        return 0, 1
    is_plain = all(type(one) is int and abs(one) <= LARGEST_INDEX for one in (start, step))
    return (start, step) if is_plain else (0, 1)


#: Largest start and step of an index that numbers rows: products with row numbers fit into 64 bits.
LARGEST_INDEX = 2**30


def as_numbers(name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers or booleans as floats, missing values as NaN; refuse infinity."""
    numbers = plain_numbers(column)
    if np.isinf(numbers).any():
        row = RowNumber(int(np.flatnonzero(np.isinf(numbers))[0]))
        raise InputError(f"column {name!r} holds infinity in ", row, ": remove it, or leave the column out.")
    return numbers


def plain_numbers(column: pa.ChunkedArray, dtype: object = np.float64) -> NDArray[Any]:
    """Return numbers or booleans as floats, including infinity, and missing values as NaN."""
    column = without_dictionary(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy().astype(dtype))


def as_words(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Return words as an array of str, missing values as None; numbers are converted to str."""
    column = without_dictionary(column)
    if not is_words(column.type):
        column = column.cast(pa.string())
    return np.array(column.to_pylist(), dtype=object)


def as_vectors(name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column of vectors as a matrix; refuse missing and infinite numbers."""
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise InputError(f"column {name!r} has no vector in ", RowNumber(row), ".")
    matrix = plain_vectors(name, column)
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise InputError(f"column {name!r} holds a missing or infinite number in ", RowNumber(row), ".")
    return matrix


def plain_vectors(
    name: str, column: pa.ChunkedArray, length: int | None = None, dtype: Any = np.float64
) -> NDArray[Any]:
    """Return a column of vectors as a matrix, including infinity, and missing values as NaN.

    Parameters
    ----------
    name, column
        The name of the column, for error messages, and the vectors.
    length : int, optional
        The required length; by default only equal lengths are required.
    dtype
        Type of the matrix.
    """
    lengths = np.unique(pc.list_value_length(column).drop_null().to_numpy())
    if length is not None:
        lengths = np.union1d(lengths, [length])
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} must hold vectors of the same length. Got {lengths[0]} to {lengths[-1]}.")
    flat = pc.list_flatten(column)
    if not (pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type)):
        raise ValueError(f"column {name!r} must hold vectors of numbers. Got vectors of {flat.type} instead.")
    width = int(lengths[0]) if len(lengths) else 0
    found = flat.to_numpy().astype(dtype).reshape(len(column) - column.null_count, width)
    if column.null_count == 0:
        return np.asarray(found)
    matrix = np.full((len(column), width), np.nan, dtype)
    matrix[pc.is_valid(column).to_numpy()] = found
    return matrix


def as_labels(name: str, column: pa.ChunkedArray, source: str, first_row: int = 0) -> NDArray[Any]:
    """Return labels as an array of integers, booleans or strings.

    Parameters
    ----------
    name, column
        The name of the column, for error messages, and the labels.
    source : str
        The source of the labels, for error messages.
    first_row : int
        Number of the first row, for error messages.

    Raises
    ------
    ValueError
        If labels are missing or are not classes; the message is one line.
    """
    column = without_dictionary(column)
    row = _first_missing(column)
    if row is not None:
        raise InputError(
            f"{source} has missing labels in column {name!r}, the first in ",
            RowNumber(first_row + row),
            ": leave those rows out, or label them.",
        )
    if type_kind_of_values(column.type) not in ("words", "booleans", "numbers"):
        raise ValueError(f"column {name!r} of {source} holds {column.type}: labels must be words or whole numbers.")
    labels, codes = _different(column, f"column {name!r} of {source}")
    if labels.dtype.kind not in "iufO":
        return labels[codes]
    numbers = labels.tolist()
    strange = next((code for code, one in enumerate(numbers) if not _fits_64_bits(one)), None)
    if strange is not None:
        if np.isfinite(float(numbers[strange])) and numbers[strange] != int(numbers[strange]):
            raise InputError(
                f"column {name!r} of {source} holds fractions: labels must be classes. For a numeric target, use ",
                Way(f"flipproof.audit_numbers(target={name!r})", f"`flipproof certify --target {shlex.quote(name)}`"),
                ".",
            )
        row = int(np.argmax(codes == strange))
        raise InputError(
            f"column {name!r} of {source} holds {numbers[strange]} in ",
            RowNumber(first_row + row),
            ": labels must be words, or whole numbers of at most 64 bits.",
        )
    whole = values.as_values([int(one) for one in numbers], f"The labels in column {name!r} of {source}")
    if whole.dtype.kind == "O":
        raise ValueError(
            f"column {name!r} of {source} holds negative numbers and others of 2**63 or more: no 64-bit type holds "
            "both. Convert them to words."
        )
    return whole[codes]


def as_names(name: str, column: pa.ChunkedArray, source: str, first_row: int = 0) -> NDArray[Any]:
    """Return the annotator of each row, by value: numbers, booleans, words and bytes; anything else as strings."""
    column = without_dictionary(column)
    row = _first_missing(column)
    if row is not None:
        raise InputError(f"column {name!r} of {source} does not say who labelled ", RowNumber(first_row + row), ".")
    if pa.types.is_nested(column.type):
        raise ValueError(f"column {name!r} of {source} must contain a name for each row. Got {column.type} instead.")
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return values.as_names(column.to_numpy(), f"The annotators in column {name!r} of {source}")
    if type_kind_of_values(column.type) is None:  # has the same type in all files
        return np.array([str(value) for value in column.to_pylist()], dtype=str)
    names, codes = _different(column, f"The annotators in column {name!r} of {source}")
    return values.as_names(names[codes], f"The annotators in column {name!r} of {source}")


def as_mask(name: str, column: pa.ChunkedArray, source: str, first_row: int = 0) -> NDArray[np.bool_]:
    """Return which rows are trusted, from booleans, 0 and 1, or words like yes and no."""
    column = without_dictionary(column)
    missing = _first_missing(column)
    if missing is not None:
        raise InputError(
            f"column {name!r} of {source} does not say whether ", RowNumber(first_row + missing), " is trusted."
        )
    expected = f"column {name!r} of {source} must say which rows are trusted: yes or no, true or false, 1 or 0."
    if is_words(column.type):
        said = np.array([ANSWERS.get(word.strip().lower(), np.nan) for word in column.to_pylist()], dtype=np.float64)
    elif pa.types.is_boolean(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        said = plain_numbers(column)
    else:
        raise ValueError(f"{expected} Got {column.type} instead.")
    strange = np.flatnonzero((said != 0) & (said != 1))
    if strange.size:
        row = int(strange[0])
        raise InputError(f"{expected} Got {column[row].as_py()!r} in ", RowNumber(first_row + row), " instead.")
    return np.asarray(said == 1)


def type_kind_of_values(kind: pa.DataType) -> str | None:
    """Return the kind of labels or names of a type: "numbers", "booleans", "words" or "bytes"; else None."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_boolean(kind):
        return "booleans"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if is_words(kind):
        return "words"
    # of fixed or variable size
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return "bytes" if is_bytes or pa.types.is_binary_view(kind) else None


def _different(column: pa.ChunkedArray, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values of a column, and the position of each row's value among them."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return values.distinct(column.to_numpy())
    if pa.types.is_decimal(column.type) and column.type.bit_width < 128:  # pyarrow cannot dictionary-encode these
        column = column.cast(pa.decimal128(38, column.type.scale))
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):  # without rows, or too long for one array
        encoded = encoded.unify_dictionaries()
        dictionary = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], column.type)
        indices = [chunk.indices.to_numpy() for chunk in encoded.chunks]
        codes = np.concatenate([np.zeros(0, dtype=np.int64), *indices])
    else:
        dictionary, codes = encoded.dictionary, encoded.indices.to_numpy()
    each = dictionary.to_pylist()
    if not each:
        return np.empty(0, {"words": str, "bytes": bytes}.get(type_kind_of_values(column.type) or "", np.int64)), codes
    return values.as_values(each, name), codes


def _fits_64_bits(number: Any) -> bool:
    """Whether a number is an integer that fits into 64 bits."""
    return bool(np.iinfo(np.int64).min <= number <= np.iinfo(np.uint64).max and number == int(number))


def _first_missing(column: pa.ChunkedArray) -> int | None:
    """Return the first row with a missing value or NaN; None if there is no such row."""
    missing = pc.is_null(column, nan_is_null=True)
    row = int(pc.index(missing, True).as_py())
    return None if row < 0 else row


def without_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with plain values: not dictionary-encoded and not of an extension type."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def is_words(kind: object) -> bool:
    """Whether columns of a type hold words."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
