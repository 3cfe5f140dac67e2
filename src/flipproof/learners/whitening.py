"""Label-free coordinates in which ridge regression is diagonal, made of exact products.

With the singular value decomposition X = U S V' of the (centred) training features, ridge weighs training row j for a
test row z by ``alpha_j = sum_r U_jr * s_r^2 / (s_r^2 + lambda) * u_r(z)``, where ``u(z) = S^-1 V' z`` are the test
row's own coordinates. So all that is kept of the training features is U.

Nothing here reads a label, so everything may be rounded (M9), and it is rounded such that no result depends on the
order of a summation: features and V S^-1 are put on fixed grids and split into two halves each, with so few bits that
every float64 dot product of halves is an exact integer. Only the eigenvalue problem is not: it runs on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from flipproof.learners.one_thread import on_one_thread
from flipproof.rounding import (
    EXACT_BITS,
    Floats,
    Integers,
    above,
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

#: Gram matrices of many chunks are added as integers in two parts, of which this is the lower one's size.
LOW_BITS = 26

#: Beyond this, squares of features would overflow.
LARGEST_TRAINING_FEATURE = 1e150

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
        integers = _round_columns(X, self.midpoint, self.exponent)
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

    Column r is ``(high + low * 2**-bits) * 2**-exponent_r``; `high` and `low` hold integers of `bits` bits.
    """

    high: Floats
    low: Floats
    exponent: Integers
    bits: int

    def apply(self, integers: Floats) -> Floats:
        """Return ``integers @ matrix``; rows with more bits are put on a coarser grid first."""
        coarser = np.minimum(FEATURE_BITS - exponent_above(np.abs(integers).max(axis=1, initial=0.0)), 0)[:, None]
        if coarser.any():
            integers = to_grid(integers, coarser, FEATURE_BITS)
        high, low = _halves(integers)
        # four exact products, added in a fixed order
        product = (high @ self.low) * 2.0 ** (HALF_BITS - self.bits) + (low @ self.low) * 2.0**-self.bits
        product += low @ self.high
        product += (high @ self.high) * 2.0**HALF_BITS
        product *= power_of_two(-self.exponent)
        return scale(product, -coarser) if coarser.any() else product


@dataclass(frozen=True)
class Whitening:
    """The training rows in whitened coordinates, and the map that takes a test row there.

    Attributes
    ----------
    grid : ColumnGrid
        Puts rows of features on a grid.
    rotation : Rotation
        V S^-1, for rows on that grid.
    basis : integers in float32, which holds them exactly, of shape (n, rank), or (n, rank + 1) if centred
        U, on a grid per column; if centred, followed by a column that stands for 1.
    basis_exponent : integers, one per column of `basis`
        ``basis * 2**-basis_exponent`` is U.
    eigenvalues : floats of shape (rank,)
        Of the Gram matrix, in units of the squared coarsest grid step; only those above the numerical rank.
    largest_leverage : float
        Upper bound on the squared length of a row of U.
    """

    grid: ColumnGrid
    rotation: Rotation
    basis: NDArray[np.float32]
    basis_exponent: Integers
    eigenvalues: Floats
    largest_leverage: float

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.eigenvalues)

    @property
    def is_centered(self) -> bool:
        """Whether the features were centred, so that `basis` has its last column."""
        return bool(self.basis.shape[1] > self.rank)

    def coordinates(self, Z: Floats) -> Floats:
        """Return u(z) for each row: the same bits in whatever blocks the rows come."""
        return self.rotation.apply(self.grid.integers(Z))

    def in_grid_units(self, regularization: float) -> float:
        """Return a ridge parameter in the units of `eigenvalues`."""
        with np.errstate(over="ignore"):
            return float(scale(regularization, 2 * self.grid.coarsest))

    def in_feature_units(self, regularization: float) -> float:
        """Return a ridge parameter in units of the squared features."""
        with np.errstate(over="ignore"):
            return float(scale(regularization, -2 * self.grid.coarsest))


def whiten(X: Floats, center: bool) -> Whitening:
    """Decompose the training features; `center` subtracts their mean (an unpenalised intercept)."""
    n, k = X.shape
    grid = _column_grid(X, center)
    eigenvalues, matrix = _eigen_primal(X, grid) if k <= n else _eigen_dual(X, grid)
    rotation, rank = rotation_of(matrix), len(eigenvalues)
    # two passes over the rows, so that nothing of their size is needed but the result
    largest = np.zeros(rank)
    for rows in _chunks(n):
        largest = np.maximum(largest, np.abs(rotation.apply(grid.integers(X[rows]))).max(axis=0))
    basis_exponent = grid_exponent(np.append(largest, [1.0] * center), HALF_BITS)
    basis = np.empty((n, rank + center), dtype=np.float32)
    basis[:, rank:] = 2.0 ** (HALF_BITS - 1)
    leverage = 0.0
    for rows in _chunks(n):
        on_grid = to_grid(rotation.apply(grid.integers(X[rows])), basis_exponent[:rank], HALF_BITS)
        basis[rows, :rank] = on_grid
        coordinates = scale(on_grid, -basis_exponent[:rank])
        leverage = max(leverage, float(np.einsum("ij,ij->i", coordinates, coordinates).max()))
    return Whitening(grid, rotation, basis, basis_exponent, eigenvalues, float(above(leverage, 1e-12)))


def _chunks(n: int) -> Iterator[slice]:
    for start in range(0, n, CHUNK_ROWS):
        yield slice(start, min(start + CHUNK_ROWS, n))


def _halves(integers: Floats) -> tuple[Floats, Floats]:
    """Split integers of FEATURE_BITS bits: ``integers = high * 2**HALF_BITS + low``."""
    high = np.rint(integers * 2.0**-HALF_BITS)
    return high, integers - high * 2.0**HALF_BITS


def rotation_of(matrix: Floats) -> Rotation:
    """Split a matrix into halves whose products with halves of integers are exact."""
    bits = bits_left(len(matrix), HALF_BITS)
    exponent = grid_exponent(np.abs(matrix).max(axis=0, initial=0.0), bits)
    limit = 2.0**bits - 1
    rest = scale(matrix, exponent)
    high = np.rint(rest)
    np.clip(high, -limit, limit, out=high)
    # in place: the matrix of a kernel is large
    rest -= high
    rest *= 2.0 ** (bits - 1)
    low = np.rint(rest, out=rest)
    low *= 2
    return Rotation(high, np.clip(low, -limit, limit, out=low), exponent, bits)


def _round_columns(X: Floats, midpoint: Floats, exponent: Integers) -> Floats:
    on_grid = np.subtract(X, midpoint, dtype=np.float64)
    with np.errstate(over="ignore"):
        on_grid *= power_of_two(exponent)
    np.rint(on_grid, out=on_grid)
    return np.clip(on_grid, -LARGEST_FEATURE, LARGEST_FEATURE, out=on_grid)


def _column_grid(X: Floats, center: bool) -> ColumnGrid:
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    if max(-low.min(), high.max()) > LARGEST_TRAINING_FEATURE:
        raise ValueError(
            f"Training features must be between -{LARGEST_TRAINING_FEATURE:g} and {LARGEST_TRAINING_FEATURE:g}. "
            f"Got values from {low.min():g} to {high.max():g} instead: rescale them, or see what is wrong with them."
        )
    if center:
        # the middle of the range is the same in any order of the rows; one bit is left for the shift to the mean
        midpoint = low / 2 + high / 2
        largest, bits = high / 2 - low / 2, FEATURE_BITS - 1
    else:
        midpoint = np.zeros(X.shape[1])
        largest, bits = np.maximum(np.abs(low), np.abs(high)), FEATURE_BITS
    used = largest > 0
    exponent = grid_exponent(largest, bits)
    exponent = np.where(used, exponent, exponent[used].max() if used.any() else 0)
    sums, squares = _moments(X, midpoint, exponent)
    n = len(X)
    spread = np.asarray((n * squares - sums * sums) / n, dtype=np.float64)
    mean = np.rint(np.asarray(sums / n, dtype=np.float64)) if center else np.zeros(X.shape[1])
    return ColumnGrid(midpoint, exponent, mean, spread, used)


def _moments(X: Floats, midpoint: Floats, exponent: Integers) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """Return sums and sums of squares of columns on the grid: exact by chunk, then added as Python's integers."""
    sums, squares = np.zeros((2, X.shape[1]), dtype=object)
    for rows in _chunks(len(X)):
        integers = _round_columns(X[rows], midpoint, exponent)
        high, low = _halves(integers)
        sums += _whole(integers.sum(axis=0))
        products = [_whole(np.einsum("ij,ij->j", a, b)) for a, b in ((high, high), (high, low), (low, low))]
        squares += products[0] * 4**HALF_BITS + products[1] * 2 ** (HALF_BITS + 1) + products[2]
    return sums, squares


def _whole(x: Floats) -> NDArray[np.object_]:
    return x.astype(np.int64).astype(object)


def _eigen_primal(X: Floats, grid: ColumnGrid) -> tuple[Floats, Floats]:
    """Return eigenvalues and V S^-1 (in grid units) from the Gram matrix of the columns."""
    k = X.shape[1]
    gram_high, gram_low = np.zeros((3, k, k), dtype=np.int64), np.zeros((3, k, k), dtype=np.int64)
    for rows in _chunks(len(X)):
        high, low = _halves(grid.integers(X[rows]))
        products = np.stack([high.T @ high, high.T @ low, low.T @ low]).astype(np.int64)
        gram_high += products >> LOW_BITS
        gram_low += products & (2**LOW_BITS - 1)
    squares, mixed, small = gram_high * 2.0**LOW_BITS + gram_low
    weight = grid.column_weight
    gram = (squares * 4.0**HALF_BITS + (mixed + mixed.T) * 2.0**HALF_BITS + small) * weight[:, None] * weight
    eigenvalues, vectors = on_one_thread(lambda: eigh(gram, check_finite=False))
    kept = _above_rank(eigenvalues, max(X.shape))
    return eigenvalues[kept], weight[:, None] * vectors[:, kept] / np.sqrt(eigenvalues[kept])


def _eigen_dual(X: Floats, grid: ColumnGrid) -> tuple[Floats, Floats]:
    """Return the same from the Gram matrix of the rows, for more columns than rows."""
    weight = grid.column_weight
    rows = grid.integers(X) * weight

    def decompose() -> tuple[Floats, Floats]:
        eigenvalues, vectors = eigh(rows @ rows.T, check_finite=False)
        kept = _above_rank(eigenvalues, max(X.shape))
        return eigenvalues[kept], weight[:, None] * (rows.T @ vectors[:, kept]) / eigenvalues[kept]

    return on_one_thread(decompose)


def _above_rank(eigenvalues: Floats, size: int) -> NDArray[np.bool_]:
    """Tell which eigenvalues are not rounding error."""
    tolerance = size * np.finfo(np.float64).eps * max(float(eigenvalues[-1]), 0.0)
    return eigenvalues > tolerance
