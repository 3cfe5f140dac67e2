"""Arrays and lists to which rows are appended: the cost depends on the new rows, not on those before.

Nothing here changes a value: the result is what concatenation would return.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from flipproof.core.rounding import Values

#: How much larger a new buffer is than its contents; each row is then copied three times at most, on average.
ROOM = 1.5

#: Held while room in a buffer is claimed: copies of a model may grow in several threads.
_CLAIM = threading.Lock()


class _Buffer(np.ndarray):
    """Bytes that arrays share, of which the first `used` belong to one of them."""

    used: int


def appended(first: Values, more: Values) -> NDArray[Any]:
    """Return ``np.concatenate([first, more])``, which may share memory with `first`; neither changes the other.

    Soundness: rows are written only behind the last row of any array that uses the buffer. An array to which rows
    were appended before, for example by a copy of a model, is copied. Room is claimed before it is written to, by one
    thread at a time.
    """
    n, dtype = len(first) + len(more), np.result_type(first, more)
    size = dtype.itemsize * int(np.prod(first.shape[1:], dtype=np.int64))
    if dtype.hasobject or size == 0:
        return np.concatenate([first, more])
    buffer = _owner(first)
    with _CLAIM:
        has_room = (
            isinstance(buffer, _Buffer)
            and first.dtype == dtype
            and first.flags.c_contiguous
            and first.ctypes.data == buffer.ctypes.data
            and buffer.used == size * len(first)
            and size * n <= len(buffer)
        )
        if has_room:
            buffer.used = size * n
    if not has_room:
        buffer = _Buffer((int(ROOM * size * n),), np.uint8)
        buffer.used = size * n
        _rows(buffer, 0, (len(first), *first.shape[1:]), dtype)[:] = first
    assert isinstance(buffer, _Buffer)
    _rows(buffer, size * len(first), more.shape, dtype)[:] = more
    return _rows(buffer, 0, (n, *first.shape[1:]), dtype)


def _owner(array: Values) -> Any:
    """Return the object whose memory an array uses, if it is not its own."""
    owner = array.base
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _rows(buffer: _Buffer, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    stop = start + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return buffer[start:stop].view(np.ndarray).view(dtype).reshape(shape)


class GrowingLines:
    """Sparse lines with a column per row of a table, to which columns are appended; they are joined when needed."""

    def __init__(self, parts: tuple[csr_array, ...]):
        self._parts = parts

    @classmethod
    def of(cls, lines: csr_array | GrowingLines, more: csr_array) -> GrowingLines:
        """Return lines with more columns."""
        return cls((*(lines._parts if isinstance(lines, GrowingLines) else (lines,)), more))

    def joined(self) -> csr_array:
        """Return all columns, as ``hstack`` does."""
        parts = self._parts
        if len(parts) > 1:
            parts = (csr_array(hstack(parts, format="csr")),)
            self._parts = parts  # another thread would join the same
        return parts[0]


def joined_lines(lines: csr_array | GrowingLines) -> csr_array:
    """Return sparse lines as one matrix."""
    return lines.joined() if isinstance(lines, GrowingLines) else lines
