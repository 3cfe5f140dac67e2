"""Columns of a table: what they hold, and that as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Different words from which on a column, most of which is numbers, was meant to be numbers.
MANY_WORDS = 20

#: Words that say whether a row is trusted.
ANSWERS = {
    **dict.fromkeys(("true", "yes", "y", "1", "1.0"), 1),
    **dict.fromkeys(("false", "no", "n", "0", "0.0"), 0),
}

#: Different words from which on a column of words may be a text, or a name for each row.
MANY_CATEGORIES = 100


def column_kind(name: str, column: pa.ChunkedArray) -> str:
    """Return what a column holds: "numbers", "booleans", "words" or "vectors".

    Raises
    ------
    ValueError
        If it holds nothing, or something else.
    """
    if column.null_count == len(column):
        raise ValueError(f"column {name!r} has no values at all: leave it out.")
    return type_kind(name, column.type)


def type_kind(name: str, kind: pa.DataType) -> str:
    """Return what a column of a type holds: "numbers", "booleans", "words" or "vectors".

    Raises
    ------
    ValueError
        If it is something else.
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
    raise ValueError(f"column {name!r} holds {kind}, not numbers, words or vectors: leave it out, or convert it first.")


def index_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that hold the index of pandas' data frame: pandas does not regard them as columns."""
    try:
        written = schema.pandas_metadata
    except ValueError:  # something else under the key of pandas
        return []
    listed = written.get("index_columns") if isinstance(written, dict) else None
    if not isinstance(listed, list):
        return []
    return [name for name in listed if isinstance(name, str) and name in schema.names]  # a range is no column


def as_numbers(name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers or booleans as floats, NaN where they are missing; refuse infinite ones."""
    values = plain_numbers(column)
    if np.isinf(values).any():
        raise ValueError(f"column {name!r} holds infinity in row {int(np.flatnonzero(np.isinf(values))[0])}.")
    return values


def plain_numbers(column: pa.ChunkedArray, dtype: Any = np.float64) -> NDArray[Any]:
    """Return numbers or booleans as floats, whatever they are, and NaN where they are missing."""
    column = without_dictionary(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy().astype(dtype))


def as_words(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Return words as an array of str, None where they are missing; numbers are written out."""
    column = without_dictionary(column)
    if not is_words(column.type):
        column = column.cast(pa.string())
    return np.array(column.to_pylist(), dtype=object)


def as_vectors(name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column of vectors as a matrix; refuse missing and infinite numbers."""
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise ValueError(f"column {name!r} has no vector in row {row}.")
    matrix = plain_vectors(name, column)
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise ValueError(f"column {name!r} holds a missing or infinite number in row {row}.")
    return matrix


def plain_vectors(
    name: str, column: pa.ChunkedArray, length: int | None = None, dtype: Any = np.float64
) -> NDArray[Any]:
    """Return a column of vectors as a matrix of whatever numbers they hold, and NaN where they are missing.

    Parameters
    ----------
    name, column
        What the column is called, for errors, and the vectors.
    length : int, optional
        How long they must be; by default as long as each other.
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
        What the column is called, for errors, and the labels.
    source : str
        Where they are from, for errors.
    first_row : int
        Number of the first row, for errors.

    Raises
    ------
    ValueError
        In one line, if labels are missing or are no classes.
    """
    column = without_dictionary(column)
    row = _first_missing(column)
    if row is not None:
        raise ValueError(
            f"{source} has missing labels in column {name!r}, the first in row {first_row + row}: "
            "leave those rows out, or label them."
        )
    if is_words(column.type):
        return np.array(column.to_pylist(), dtype=str)
    if pa.types.is_boolean(column.type):
        return np.array(column.to_pylist(), dtype=bool)
    if pa.types.is_integer(column.type):
        numbers = column.to_numpy()
        _check_range(name, numbers, numbers > np.iinfo(np.int64).max, source, first_row)
        return np.asarray(numbers.astype(np.int64))
    if pa.types.is_floating(column.type):
        values = column.to_numpy().astype(np.float64)
        if not np.array_equal(values, np.rint(values)):
            raise ValueError(f"column {name!r} of {source} holds fractions: labels must be classes.")
        _check_range(name, values, (values < -(2.0**63)) | (values >= 2.0**63), source, first_row)
        return np.asarray(values.astype(np.int64))
    raise ValueError(f"column {name!r} of {source} holds {column.type}: labels must be words or whole numbers.")


def as_names(name: str, column: pa.ChunkedArray, source: str, first_row: int = 0) -> NDArray[Any]:
    """Return who labelled each row: numbers and booleans as they are, anything else as strings."""
    column = without_dictionary(column)
    row = _first_missing(column)
    if row is not None:
        raise ValueError(f"column {name!r} of {source} does not say who labelled row {first_row + row}.")
    if pa.types.is_nested(column.type):
        raise ValueError(f"column {name!r} of {source} must hold a name for each row. Got {column.type} instead.")
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return np.asarray(column.to_numpy())
    return np.array([str(value) for value in column.to_pylist()], dtype=str)


def as_mask(name: str, column: pa.ChunkedArray, source: str, first_row: int = 0) -> NDArray[np.bool_]:
    """Return which rows are trusted, from booleans, 0 and 1, or words such as yes and no."""
    column = without_dictionary(column)
    missing = _first_missing(column)
    if missing is not None:
        raise ValueError(f"column {name!r} of {source} does not say whether row {first_row + missing} is trusted.")
    expected = f"column {name!r} of {source} must say who is trusted: yes or no, true or false, 1 or 0."
    if is_words(column.type):
        values = np.array([ANSWERS.get(word.strip().lower(), np.nan) for word in column.to_pylist()], dtype=np.float64)
    elif pa.types.is_boolean(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = plain_numbers(column)
    else:
        raise ValueError(f"{expected} Got {column.type} instead.")
    strange = np.flatnonzero((values != 0) & (values != 1))
    if strange.size:
        row = int(strange[0])
        raise ValueError(f"{expected} Got {column[row].as_py()!r} in row {first_row + row} instead.")
    return np.asarray(values == 1)


def check_categories(name: str, words: NDArray[np.object_]) -> None:
    """Refuse words that were meant as numbers, and words of which nearly every row has its own.

    Raises
    ------
    ValueError
        That says what to do.
    """
    different = {word for word in words.tolist() if word is not None}
    if len(different) > MANY_WORDS:
        strange = sorted(word for word in different if not _is_number(word))
        if 0 < len(strange) < len(different) / 2:
            row = words.tolist().index(strange[0])
            raise ValueError(f"column {name!r} holds numbers, but in row {row} it holds {_shown(strange[0])}.")
    if len(different) > max(MANY_CATEGORIES, len(words) / 2):
        raise ValueError(
            f"column {name!r} holds {len(different)} different words in {len(words)} rows, too many for categories: "
            "read it as text, or leave it out."
        )


def _check_range(name: str, values: NDArray[Any], is_beyond: NDArray[np.bool_], source: str, first_row: int) -> None:
    """Refuse labels that int64 does not hold: all of them would become one class."""
    if is_beyond.any():
        row = int(np.flatnonzero(is_beyond)[0])
        raise ValueError(
            f"column {name!r} of {source} holds {values[row].item()!r} in row {first_row + row}: labels must be words, "
            "or whole numbers below 2**63."
        )


def _first_missing(column: pa.ChunkedArray) -> int | None:
    """Return the first row without a value, or with NaN; None if there is none."""
    missing = pc.is_null(column, nan_is_null=True)
    row = int(pc.index(missing, True).as_py())
    return None if row < 0 else row


def without_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose values stand in it, not in a dictionary beside it."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def is_words(kind: Any) -> bool:
    """Whether columns of a type hold words."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
