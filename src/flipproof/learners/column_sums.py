"""What is added up over training rows, wherever they are: ranges, moments and products of columns, without labels.

Summaries of some rows have a sum, ``+``, which is that of the rows together. They hold integers or maxima, so the sum
over all rows does not depend on how the rows are cut up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.learners.exact_products import FEATURE_BITS, HALF_BITS, ColumnGrid, chunks, halves, round_columns
from flipproof.rounding import Floats, Integers, grid_exponent

#: Gram matrices of many chunks are added as integers in two parts, of which this is the lower one's size.
LOW_BITS = 26

#: Beyond this, squares of features would overflow.
LARGEST_TRAINING_FEATURE = 1e150


@dataclass(frozen=True)
class ColumnRanges:
    """The lowest and highest value of each column; they add up to those of all rows."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, X: Floats) -> ColumnRanges:
        """Return the ranges of some rows."""
        return cls(X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64))

    def __add__(self, other: ColumnRanges) -> ColumnRanges:
        return ColumnRanges(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def check_size(self) -> None:
        """Refuse features whose squares would overflow."""
        if max(-self.low.min(), self.high.max()) > LARGEST_TRAINING_FEATURE:
            raise ValueError(
                f"Training features must be between -{LARGEST_TRAINING_FEATURE:g} and {LARGEST_TRAINING_FEATURE:g}. "
                f"Got values from {self.low.min():g} to {self.high.max():g} instead: rescale them, or see what is "
                "wrong with them."
            )

    def grid(self, center: bool) -> tuple[Floats, Integers, NDArray[np.bool_]]:
        """Return the midpoint and grid of each column, and whether it is used."""
        if center:
            # the middle of the range is the same in any order of the rows; one bit is left for the shift to the mean
            midpoint = self.low / 2 + self.high / 2
            largest, bits = self.high / 2 - self.low / 2, FEATURE_BITS - 1
        else:
            midpoint = np.zeros(len(self.low))
            largest, bits = np.maximum(np.abs(self.low), np.abs(self.high)), FEATURE_BITS
        used = largest > 0
        exponent = grid_exponent(largest, bits)
        return midpoint, np.where(used, exponent, exponent[used].max() if used.any() else 0), used


@dataclass(frozen=True)
class ColumnMoments:
    """Number of rows, sums and sums of squares of columns on the grid, as Python's integers, which have no end."""

    n_rows: int
    sums: NDArray[np.object_]
    squares: NDArray[np.object_]

    @classmethod
    def of(cls, X: Floats, midpoint: Floats, exponent: Integers) -> ColumnMoments:
        """Return the moments of some rows: exact by chunk, then added as Python's integers."""
        sums, squares = np.zeros((2, X.shape[1]), dtype=object)
        for rows in chunks(len(X)):
            integers = round_columns(X[rows], midpoint, exponent)
            high, low = halves(integers)
            sums += _whole(integers.sum(axis=0))
            products = [_whole(np.einsum("ij,ij->j", a, b)) for a, b in ((high, high), (high, low), (low, low))]
            squares += products[0] * 4**HALF_BITS + products[1] * 2 ** (HALF_BITS + 1) + products[2]
        return cls(len(X), sums, squares)

    def __add__(self, other: ColumnMoments) -> ColumnMoments:
        return ColumnMoments(self.n_rows + other.n_rows, self.sums + other.sums, self.squares + other.squares)

    @property
    def spread(self) -> Floats:
        """Sum of squares of each column around its mean, in grid steps."""
        n = self.n_rows
        return np.asarray((n * self.squares - self.sums * self.sums) / n, dtype=np.float64)


@dataclass(frozen=True)
class GramSums:
    """Products of all pairs of columns, summed over rows: of their high halves, of a high and a low one, of low ones.

    Integers in two parts each, of which the lower has LOW_BITS bits per chunk. What they come to is rounded once, and
    does not depend on the chunks: both parts are exact in float64 for fewer than 2**39 rows.
    """

    high: Integers
    low: Integers

    @classmethod
    def of(cls, X: Floats, grid: ColumnGrid) -> GramSums:
        """Return the products of some rows."""
        k = X.shape[1]
        sums = np.zeros((2, 3, k, k), dtype=np.int64)
        for rows in chunks(len(X)):
            high, low = halves(grid.integers(X[rows]))
            products = np.stack([high.T @ high, high.T @ low, low.T @ low]).astype(np.int64)
            sums[0] += products >> LOW_BITS
            sums[1] += products & (2**LOW_BITS - 1)
        return cls(sums[0], sums[1])

    def __add__(self, other: GramSums) -> GramSums:
        return GramSums(self.high + other.high, self.low + other.low)

    def matrix(self) -> Floats:
        """Return the Gram matrix, in units of each column's own grid step."""
        squares, mixed, small = self.high * 2.0**LOW_BITS + self.low
        return np.asarray(squares * 4.0**HALF_BITS + (mixed + mixed.T) * 2.0**HALF_BITS + small)


@dataclass(frozen=True)
class Largest:
    """The largest of each of some numbers; they add up to the largest of all."""

    values: Floats

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.values, other.values))


def _whole(x: Floats) -> NDArray[np.object_]:
    return x.astype(np.int64).astype(object)
