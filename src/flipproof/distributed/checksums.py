"""Checksums that tell whether rows are those of the last visit: they depend on every bit, and on the order of rows.

A checksum is a sum over rows, modulo 2**64, so it does not depend on how the rows are cut up. It is there for
accidents, such as a file that is written while it is read: it is no signature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flipproof.rounding import Floats
from flipproof.votes import tiles

#: Numbers that are looked at together: 512 KiB, which a cache holds.
NUMBERS_AT_A_TIME = 2**16


def scattered(first: int, count: int) -> NDArray[np.uint64]:
    """Return 64 bits for each of so many numbers from `first` on, which only the number determines (splitmix64)."""
    bits = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def features_checksum(X: Floats, first_row: int) -> int:
    """Return the checksum of the features of some rows, the first of which has the given number."""
    n_rows, n_columns = X.shape
    of_row, of_column = scattered(first_row, n_rows), scattered(0, n_columns)
    total = 0
    for start, stop in tiles(n_rows, max(1, NUMBERS_AT_A_TIME // max(n_columns, 1))):
        bits = _bits(X[start:stop])
        rows = np.einsum("ij,j->i", _folded(bits), of_column[: bits.shape[1]])
        rows += np.uint64(n_columns + 1)  # rows and columns of zeros count, too
        total += int((_folded(rows) * of_row[start:stop]).sum())
    return total % 2**64


def _bits(X: Floats) -> NDArray[np.uint64]:
    """Return the bits of each row, 64 at a time: two numbers of 32 bits together, if that comes out even."""
    rows = np.ascontiguousarray(X)
    return rows.view(np.uint64) if rows.shape[1] * rows.itemsize % 8 == 0 else rows.view(np.uint32).astype(np.uint64)


def _folded(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Let high bits count among the low ones, too: of the highest one, the sign, a product keeps one bit only."""
    return bits ^ (bits >> np.uint64(32))
