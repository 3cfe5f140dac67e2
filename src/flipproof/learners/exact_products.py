"""Rows of features as integers, and products with them that are the same in any order of summation (M9).

Features are put on a grid per column, and matrices that they are multiplied with on a grid as well; both are split into
two halves with so few bits that every float64 dot product of halves is an exact integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.rounding import (
    EXACT_BITS,
    Floats,
    Integers,
    bits_left,
    exponent_above,
    grid_exponent,
    power_of_two,
    scale,
    to_grid,
)

#: Bits of half a feature, and of an entry of U, without the sign.
HALF_BITS = 20

#: Bits of a feature.
FEATURE_BITS = 2 * HALF_BITS

#: Rows over which sums of features, and of products of two halves, are exact.
CHUNK_ROWS = 2 ** (EXACT_BITS - FEATURE_BITS)

#: Numbers that are multiplied at a time: what a processor's cache holds.
NUMBERS_AT_A_TIME = 2**17

#: A test row this far outside the training range (in grid steps) is moved here, so that nothing overflows.
LARGEST_FEATURE = 2.0**900


@dataclass(frozen=True)
class ColumnGrid:
    """Features as integers: column i of row x is ``rint((x_i - midpoint_i) * 2**exponent_i) - mean_i``.

    `spread` is the sum of squares of each column around its mean over the training rows, in grid steps. Columns that
    tell training rows nothing (constant, or all zero if not centred) are not `used`: they are 0 for every row.
    """

    midpoint: Floats
    exponent: Integers
    mean: Floats
    spread: Floats
    used: NDArray[np.bool_]

    def integers(self, X: Floats) -> Floats:
        """Return the rows on the grid; values far outside the training range stay finite."""
        integers = round_columns(X, self.midpoint, self.exponent)
        integers -= self.mean
        if not self.used.all():
            integers[:, ~self.used] = 0.0
        return integers

    @property
    def coarsest(self) -> int:
        """Exponent of the column with the largest grid step."""
        return int(self.exponent.min())

    @property
    def column_weight(self) -> Floats:
        """Size of a grid step of each column, relative to the coarsest one."""
        return power_of_two(self.coarsest - self.exponent)

    @property
    def variance(self) -> float:
        """Sum of squares of the centred features, in units of the squared coarsest grid step."""
        return float((self.spread * self.column_weight**2).sum())


@dataclass(frozen=True)
class Rotation:
    """A matrix whose product with integers of FEATURE_BITS bits is the same in any order of summation.

    Column r is ``(high + low * 2**-bits) * 2**-exponent_r``; `high` and `low` hold integers of `bits` bits, and stand
    side by side in `both`, low first.
    """

    both: Floats
    exponent: Integers
    bits: int

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.exponent)

    @property
    def low(self) -> Floats:
        """The lower halves."""
        return self.both[:, : self.width]

    @property
    def high(self) -> Floats:
        """The higher halves."""
        return self.both[:, self.width :]

    def apply(self, integers: Floats) -> Floats:
        """Return ``integers @ matrix``; rows with more bits are put on a coarser grid first."""
        coarser = None
        if integers.size and max(integers.max(), -integers.min()) >= 2.0**FEATURE_BITS:
            coarser = np.minimum(FEATURE_BITS - exponent_above(np.abs(integers).max(axis=1)), 0)[:, None]
            integers = to_grid(integers, coarser, FEATURE_BITS)
        product = np.empty((len(integers), self.width))
        at_a_time = max(1, NUMBERS_AT_A_TIME // max(self.both.shape))
        buffers = np.empty((2 * at_a_time, self.both.shape[0])), np.empty((2 * at_a_time, 2 * self.width))
        for start in range(0, len(integers), at_a_time):
            self._multiply(integers[start : start + at_a_time], *buffers, product[start : start + at_a_time])
        return product if coarser is None else scale(product, -coarser)

    def _multiply(self, integers: Floats, stacked: Floats, products: Floats, out: Floats) -> None:
        """Make the four products of halves by one product of stacked halves: exact, and added in a fixed order."""
        n, width = len(integers), self.width
        high, low = stacked[:n], stacked[n : 2 * n]
        np.rint(np.multiply(integers, 2.0**-HALF_BITS, out=high), out=high)
        np.subtract(integers, np.multiply(high, 2.0**HALF_BITS, out=low), out=low)
        np.matmul(stacked[: 2 * n], self.both, out=products[: 2 * n])
        high_low, low_low = products[:n, :width], products[n : 2 * n, :width]
        high_high, low_high = products[:n, width:], products[n : 2 * n, width:]
        np.multiply(high_low, 2.0 ** (HALF_BITS - self.bits), out=out)
        out += np.multiply(low_low, 2.0**-self.bits, out=low_low)
        out += low_high
        out += np.multiply(high_high, 2.0**HALF_BITS, out=high_high)
        out *= power_of_two(-self.exponent)


def chunks(n: int) -> Iterator[slice]:
    """Yield runs of rows over which sums are exact."""
    for start in range(0, n, CHUNK_ROWS):
        yield slice(start, min(start + CHUNK_ROWS, n))


def halves(integers: Floats) -> tuple[Floats, Floats]:
    """Split integers of FEATURE_BITS bits: ``integers = high * 2**HALF_BITS + low``."""
    high = np.rint(integers * 2.0**-HALF_BITS)
    return high, integers - high * 2.0**HALF_BITS


def rotation_of(matrix: Floats) -> Rotation:
    """Split a matrix into halves whose products with halves of integers are exact."""
    bits = bits_left(len(matrix), HALF_BITS)
    exponent = grid_exponent(np.abs(matrix).max(axis=0, initial=0.0), bits)
    limit = 2.0**bits - 1
    both = np.empty((len(matrix), 2 * matrix.shape[1]))
    low, high = both[:, : matrix.shape[1]], both[:, matrix.shape[1] :]
    for rows in chunks(len(matrix)):  # in place, and a few rows at a time: the matrix of a kernel is large
        low[rows] = scale(matrix[rows], exponent)
    np.clip(np.rint(low, out=high), -limit, limit, out=high)
    low -= high
    low *= 2.0 ** (bits - 1)
    np.rint(low, out=low)
    low *= 2
    np.clip(low, -limit, limit, out=low)
    return Rotation(both, exponent, bits)


def round_columns(X: Floats, midpoint: Floats, exponent: Integers) -> Floats:
    """Put columns on their grids; what is far outside stays finite."""
    on_grid = np.subtract(X, midpoint, dtype=np.float64)
    with np.errstate(over="ignore"):
        on_grid *= power_of_two(exponent)
    np.rint(on_grid, out=on_grid)
    return np.clip(on_grid, -LARGEST_FEATURE, LARGEST_FEATURE, out=on_grid)
