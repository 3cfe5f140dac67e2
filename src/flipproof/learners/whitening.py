"""Label-free coordinates in which ridge regression is diagonal, made of exact products.

With the singular value decomposition X = U S V' of the (centred) training features, ridge weighs training row j for a
test row z by ``alpha_j = sum_r U_jr * s_r^2 / (s_r^2 + lambda) * u_r(z)``, where ``u(z) = S^-1 V' z`` are the test
row's own coordinates. So all that is kept of the training features is U.

Nothing here reads a label, so everything may be rounded (M9), and it is rounded such that no result depends on the
order of a summation: features to a 20-bit grid per column, V S^-1 to a grid per column, U to a grid per column, each
with so few bits that float64 dot products are exact. Only the eigenvalue problem is not: it runs on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from flipproof.rounding import (
    EXACT_BITS,
    Floats,
    Integers,
    above,
    bits_left,
    exponent_above,
    grid_exponent,
    scale,
    to_grid,
)

#: Bits of a feature, and of an entry of U, without the sign.
FEATURE_BITS = 20

#: Rows whose products of two features add up exactly.
GRAM_ROWS = 2 ** (EXACT_BITS - 2 * FEATURE_BITS)

#: A test row this far outside the training range (in grid steps) is moved here, so that nothing overflows.
LARGEST_FEATURE = 2.0**900

#: Gram matrices of many chunks are added as integers in two parts, of which this is the lower one's size.
LOW_BITS = 26


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
        return np.where(self.used, _round_columns(X, self.midpoint, self.exponent) - self.mean, 0.0)

    @property
    def coarsest(self) -> int:
        """Exponent of the column with the largest grid step."""
        return int(self.exponent.min())

    @property
    def column_weight(self) -> Floats:
        """Size of a grid step of each column, relative to the coarsest one."""
        return scale(np.ones(len(self.exponent)), self.coarsest - self.exponent)

    @property
    def variance(self) -> float:
        """Sum of squares of the centred features, in units of the squared coarsest grid step."""
        return float((self.spread * self.column_weight**2).sum())


@dataclass(frozen=True)
class Whitening:
    """The training rows in whitened coordinates, and the map that takes a test row there.

    Attributes
    ----------
    basis : integers in float64, shape (n, rank), or (n, rank + 1) if centred
        U, on a grid per column; if centred, followed by a column that stands for 1.
    basis_exponent : integers, one per column of `basis`
        ``basis * 2**-basis_exponent`` is U.
    eigenvalues : floats of shape (rank,)
        Of the Gram matrix, in units of the squared coarsest grid step; only those above the numerical rank.
    largest_leverage : float
        Upper bound on the squared length of a row of U.
    """

    grid: ColumnGrid
    rotation: Floats
    rotation_exponent: Integers
    basis: Floats
    basis_exponent: Integers
    eigenvalues: Floats
    largest_leverage: float

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.eigenvalues)

    def coordinates(self, Z: Floats) -> Floats:
        """Return u(z) for each row: the same bits in whatever blocks the rows come."""
        return _rotate(self.grid.integers(Z), self.rotation, self.rotation_exponent)

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
    grid = _column_grid(X, center)
    n, k = X.shape
    if k <= n:
        eigenvalues, rotation = _eigen_primal(X, grid)
    else:
        eigenvalues, rotation = _eigen_dual(X, grid)
    rotation_bits = bits_left(k, FEATURE_BITS)
    rotation_exponent = grid_exponent(np.abs(rotation).max(axis=0, initial=0.0), rotation_bits)
    rotation = to_grid(rotation, rotation_exponent, rotation_bits)

    rank = len(eigenvalues)
    basis = np.empty((n, rank + center))
    for rows in _chunks(n):
        basis[rows, :rank] = _rotate(grid.integers(X[rows]), rotation, rotation_exponent)
    basis[:, rank:] = 1.0
    basis_exponent = grid_exponent(np.abs(basis).max(axis=0, initial=0.0), FEATURE_BITS)
    leverage = 0.0
    for rows in _chunks(n):
        basis[rows] = to_grid(basis[rows], basis_exponent, FEATURE_BITS)
        coordinates = scale(basis[rows, :rank], -basis_exponent[:rank])
        leverage = max(leverage, float((coordinates**2).sum(axis=1).max()))
    return Whitening(
        grid, rotation, rotation_exponent, basis, basis_exponent, eigenvalues, float(above(leverage, 1e-12))
    )


def _chunks(n: int) -> Iterator[slice]:
    for start in range(0, n, GRAM_ROWS):
        yield slice(start, min(start + GRAM_ROWS, n))


def _round_columns(X: Floats, midpoint: Floats, exponent: Integers) -> Floats:
    with np.errstate(over="ignore"):
        on_grid = np.rint(scale(np.asarray(X, dtype=np.float64) - midpoint, exponent))
    return np.asarray(np.clip(on_grid, -LARGEST_FEATURE, LARGEST_FEATURE), dtype=np.float64)


def _column_grid(X: Floats, center: bool) -> ColumnGrid:
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
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
    # sums over a chunk are exact in float64, sums over chunks in Python's integers
    n, sums, squares = len(X), 0, 0
    for rows in _chunks(n):
        integers = _round_columns(X[rows], midpoint, exponent)
        sums = sums + integers.sum(axis=0).astype(object)
        squares = squares + (integers**2).sum(axis=0).astype(object)
    spread = np.asarray((n * squares - sums * sums) / n, dtype=np.float64)
    mean = np.rint(np.asarray(sums / n, dtype=np.float64)) if center else np.zeros(X.shape[1])
    return ColumnGrid(midpoint, exponent, mean, spread, used)


def _eigen_primal(X: Floats, grid: ColumnGrid) -> tuple[Floats, Floats]:
    """Return eigenvalues and rotation V S^-1 (in grid units) from the Gram matrix of the columns."""
    k = X.shape[1]
    high, low = np.zeros((k, k), dtype=np.int64), np.zeros((k, k), dtype=np.int64)
    for rows in _chunks(len(X)):
        integers = grid.integers(X[rows])
        gram = (integers.T @ integers).astype(np.int64)
        high += gram >> LOW_BITS
        low += gram & (2**LOW_BITS - 1)
    weight = grid.column_weight
    gram_matrix = (high * 2.0**LOW_BITS + low) * weight[:, None] * weight
    with threadpool_limits(limits=1, user_api="blas"):
        eigenvalues, vectors = eigh(gram_matrix, check_finite=False)
    kept = _above_rank(eigenvalues, max(X.shape))
    return eigenvalues[kept], weight[:, None] * vectors[:, kept] / np.sqrt(eigenvalues[kept])


def _eigen_dual(X: Floats, grid: ColumnGrid) -> tuple[Floats, Floats]:
    """Return the same from the Gram matrix of the rows, for more columns than rows."""
    weight = grid.column_weight
    rows = grid.integers(X) * weight
    with threadpool_limits(limits=1, user_api="blas"):
        eigenvalues, vectors = eigh(rows @ rows.T, check_finite=False)
        kept = _above_rank(eigenvalues, max(X.shape))
        rotation = weight[:, None] * (rows.T @ vectors[:, kept]) / eigenvalues[kept]
    return eigenvalues[kept], rotation


def _above_rank(eigenvalues: Floats, size: int) -> NDArray[np.bool_]:
    """Tell which eigenvalues are not rounding error."""
    tolerance = size * np.finfo(np.float64).eps * max(float(eigenvalues[-1]), 0.0)
    return eigenvalues > tolerance


def _rotate(integers: Floats, rotation: Floats, rotation_exponent: Integers) -> Floats:
    """Return ``integers @ rotation`` in real units; rows beyond FEATURE_BITS are put on a coarser grid first."""
    largest = np.abs(integers).max(axis=1, initial=0.0)
    coarser = np.minimum(FEATURE_BITS - exponent_above(largest), 0)[:, None]
    products = to_grid(integers, coarser, FEATURE_BITS) @ rotation
    return scale(products, -(coarser + rotation_exponent))
