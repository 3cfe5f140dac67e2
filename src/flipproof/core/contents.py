"""Hashes of the contents of rows: they depend on no label and on no other row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers, Values

#: Numbers that are hashed at a time: 16 MiB.
NUMBERS_AT_A_TIME = 2**21


def row_hashes(X: Values) -> NDArray[np.uint64]:
    """Hash the numbers of each row to 64 bits, which depend on no other row; 0.0 and -0.0 are the same number.

    Each number's bits are mixed with a key of its column, and the results are summed modulo 2**64, which is exact in
    any order. Without the mixing, small integers, as floats with lower bits of 0, would share a handful of hashes.
    """
    keys = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64))
    hashes = np.empty(len(X), dtype=np.uint64)
    at_a_time = max(1, NUMBERS_AT_A_TIME // max(1, X.shape[1]))
    for start in range(0, len(X), at_a_time):
        numbers = X[start : start + at_a_time].astype(np.float64, order="C") + 0.0  # turns -0.0 into 0.0
        hashes[start : start + at_a_time] = _mixed(numbers.view(np.uint64) + keys).sum(axis=1, dtype=np.uint64)
    return hashes


def partition_numbers(hashes: NDArray[np.uint64], n_partitions: int) -> Integers:
    """Return a partition for each row, from 0 on, that depends on its hash alone.

    The hash is mixed once more. It is a sum over columns, so the remainder of the sum would be a sum too: with two
    partitions and features of 0 and 1, for example, the parity of some of the features.
    """
    return (_mixed(hashes) % np.uint64(n_partitions)).astype(np.int64)


def order_by_content(X: Values, hashes: NDArray[np.uint64], codes: Integers) -> Integers:
    """Return the rows in an order that does not depend on their present order: by hash, then numbers, then label.

    Rows that have the same place in this order have equal numbers and equal labels. -0.0 and 0.0 are equal, so to get
    the same bits in any order, X must not contain both: add 0.0 first.

    Parameters
    ----------
    X : array of shape (n, k)
        Rows without NaN.
    hashes : integers of shape (n,)
        Their hashes, by :func:`row_hashes`.
    codes : integers of shape (n,)
        Their labels, as class codes.
    """
    order = np.lexsort((codes, hashes))
    in_order = hashes[order]
    alike = np.flatnonzero(in_order[1:] == in_order[:-1])
    differ = (X[order[alike]] != X[order[alike + 1]]).any(axis=1)
    if differ.any():  # rows whose hashes collide by chance, or on purpose, are sorted by their numbers
        places = np.flatnonzero(np.isin(in_order, in_order[alike[differ]]))
        rows = order[places]
        order[places] = rows[np.lexsort((codes[rows], *X[rows].T[::-1], hashes[rows]))]
    return order


def rows_found(hashes: NDArray[np.uint64], among: NDArray[np.uint64]) -> Integers:
    """Return the numbers of the rows whose hashes are among others."""
    return np.flatnonzero(np.isin(hashes, among))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return each word with its bits mixed by a bijection: a step of the generator SplitMix64."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
