"""Columns of a table: what they hold, and that as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Different words from which on a column, most of which is numbers, was meant to be numbers.
MANY_WORDS = 20

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
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "booleans"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if _is_words(kind):
        return "words"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "vectors"
    raise ValueError(f"column {name!r} holds {kind}, not numbers, words or vectors: leave it out, or convert it first.")


def as_numbers(name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers or booleans as floats, NaN where they are missing."""
    column = _plain(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values = column.to_numpy().astype(np.float64)
    if np.isinf(values).any():
        raise ValueError(f"column {name!r} holds infinity in row {int(np.flatnonzero(np.isinf(values))[0])}.")
    return np.asarray(values)


def as_words(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Return words as an array of str, None where they are missing; numbers are written out."""
    column = _plain(column)
    if not _is_words(column.type):
        column = column.cast(pa.string())
    return np.array(column.to_pylist(), dtype=object)


def as_vectors(name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column of vectors as a matrix."""
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise ValueError(f"column {name!r} has no vector in row {row}.")
    lengths = np.unique(pc.list_value_length(column).to_numpy())
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} must hold vectors of the same length. Got {lengths[0]} to {lengths[-1]}.")
    flat = pc.list_flatten(column)
    if not (pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type)):
        raise ValueError(f"column {name!r} must hold vectors of numbers. Got vectors of {flat.type} instead.")
    matrix = flat.to_numpy().astype(np.float64).reshape(len(column), -1)
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise ValueError(f"column {name!r} holds a missing or infinite number in row {row}.")
    return np.asarray(matrix)


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


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_words(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
