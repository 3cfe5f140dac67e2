"""Hashes of the contents of rows: they depend on no label and on no other row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers

#: Numbers that are hashed at a time: 16 MiB.
NUMBERS_AT_A_TIME = 2**21


def row_hashes(X: NDArray[Any]) -> NDArray[np.uint64]:
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


def rows_found(hashes: NDArray[np.uint64], among: NDArray[np.uint64]) -> Integers:
    """Return the numbers of the rows whose hashes are among others."""
    return np.flatnonzero(np.isin(hashes, among))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return each word with its bits mixed by a bijection: a step of the generator SplitMix64."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
