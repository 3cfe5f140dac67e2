"""Label-free coordinates in which ridge regression is diagonal, made of exact products.

With the singular value decomposition X = U S V' of the (centred) training features, ridge weighs training row j for a
test row z by ``alpha_j = sum_r U_jr * s_r^2 / (s_r^2 + lambda) * u_r(z)``, where ``u(z) = S^-1 V' z`` are the test
row's own coordinates. So all that votes need of the training features is U.

Training rows are visited a chunk at a time, in a few passes that each add something up: their range, their moments,
their Gram matrix, the range of U. Whoever has the rows in memory, in files or on other machines says how to do a pass,
as a `Total`; the sums are of integers, or are maxima, so it does not matter how the rows are cut up.

Nothing here reads a label, so everything may be rounded (M9), and it is rounded such that no result depends on the
order of a summation: features and V S^-1 are put on fixed grids and split into two halves each, with so few bits that
every float64 dot product of halves is an exact integer. Only the eigenvalue problem is not: it runs on one thread.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from flipproof.learners.column_sums import ColumnMoments, ColumnRanges, GramSums, Largest
from flipproof.learners.exact_products import HALF_BITS, ColumnGrid, Rotation, chunks, rotation_of
from flipproof.learners.one_thread import on_one_thread
from flipproof.rounding import Floats, Integers, above, grid_exponent, scale, to_grid


class Total(Protocol):
    """A pass over the training rows."""

    def __call__(self, summary: Callable[[Floats], Any]) -> Any:
        """Return the sum of the summaries of all chunks of the training rows, however they are cut up."""
        ...


@dataclass(frozen=True)
class Whitening:
    """The map that takes rows to whitened coordinates; those of the training rows, U, are its `basis`.

    Attributes
    ----------
    grid : ColumnGrid
        Puts rows of features on a grid.
    rotation : Rotation
        V S^-1, for rows on that grid.
    basis_exponent : integers, one per column of the basis
        ``basis * 2**-basis_exponent`` is U.
    eigenvalues : floats of shape (rank,)
        Of the Gram matrix, in units of the squared coarsest grid step; only those above the numerical rank.
    n_rows : int
        Number of training rows.
    largest_leverage : float
        Upper bound on the squared length of a row of U; infinite until the rows have been visited for it.
    """

    grid: ColumnGrid
    rotation: Rotation
    basis_exponent: Integers
    eigenvalues: Floats
    n_rows: int
    largest_leverage: float = np.inf

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.eigenvalues)

    @property
    def is_centered(self) -> bool:
        """Whether the features were centred, so that the basis has its last column."""
        return len(self.basis_exponent) > self.rank

    def coordinates(self, Z: Floats) -> Floats:
        """Return u(z) for each row: the same bits in whatever blocks the rows come."""
        return self.rotation.apply(self.grid.integers(Z))

    def basis(self, X: Floats) -> NDArray[np.float32]:
        """Return training rows of U, on a grid per column; if centred, followed by a column that stands for 1.

        Integers of shape (rows, rank) or (rows, rank + 1), in float32, which holds them exactly.
        """
        basis = np.empty((len(X), len(self.basis_exponent)), dtype=np.float32)
        basis[:, self.rank :] = 2.0 ** (HALF_BITS - 1)
        for rows in chunks(len(X)):
            basis[rows, : self.rank] = to_grid(self.coordinates(X[rows]), self.basis_exponent[: self.rank], HALF_BITS)
        return basis

    def leverage(self, basis: NDArray[np.float32]) -> float:
        """Return the largest squared length of these rows of U."""
        largest = 0.0
        for rows in chunks(len(basis)):
            coordinates = scale(basis[rows, : self.rank].astype(np.float64), -self.basis_exponent[: self.rank])
            largest = float(np.maximum(largest, np.einsum("ij,ij->i", coordinates, coordinates).max()))
        return largest

    def with_leverage(self, largest: float) -> Whitening:
        """Return the same, now that the largest leverage of all training rows is known."""
        return replace(self, largest_leverage=float(above(largest, 1e-12)))

    def in_grid_units(self, regularization: float) -> float:
        """Return a ridge parameter in the units of `eigenvalues`."""
        with np.errstate(over="ignore"):
            return float(scale(regularization, 2 * self.grid.coarsest))

    def in_feature_units(self, regularization: float) -> float:
        """Return a ridge parameter in units of the squared features."""
        with np.errstate(over="ignore"):
            return float(scale(regularization, -2 * self.grid.coarsest))


def whiten(X: Floats, center: bool) -> tuple[Whitening, NDArray[np.float32]]:
    """Decompose training features that are in memory; `center` subtracts their mean (an unpenalised intercept).

    Returns the map to whitened coordinates, and the training rows there: its basis.
    """
    whitening = whiten_in_passes(in_memory(X), center)
    basis = whitening.basis(X)
    return whitening.with_leverage(whitening.leverage(basis)), basis


def in_memory(X: Floats) -> Total:
    """Return how to do a pass over rows that are in memory."""
    return lambda summary: reduce(operator.add, (summary(X[rows]) for rows in chunks(len(X))))


def column_grid(total: Total, center: bool, ranges: ColumnRanges | None = None) -> tuple[ColumnGrid, ColumnMoments]:
    """Return the grid of the training features, and their moments on it; `ranges` saves a pass where they are known."""
    ranges = total(ColumnRanges.of) if ranges is None else ranges
    ranges.check_size()
    midpoint, exponent, used = ranges.grid(center)
    moments: ColumnMoments = total(partial(ColumnMoments.of, midpoint=midpoint, exponent=exponent))
    mean = np.rint(np.asarray(moments.sums / moments.n_rows, dtype=np.float64)) if center else np.zeros(len(midpoint))
    return ColumnGrid(midpoint, exponent, mean, moments.spread, used), moments


def whiten_in_passes(total: Total, center: bool, ranges: ColumnRanges | None = None) -> Whitening:
    """Decompose training features wherever they are; their leverage is left to be found together with their basis."""
    grid, moments = column_grid(total, center, ranges)
    n, k = moments.n_rows, len(grid.exponent)
    if k <= n:
        eigenvalues, matrix = _eigen_primal(total(partial(GramSums.of, grid=grid)), grid, n)
    else:
        eigenvalues, matrix = _eigen_dual(np.vstack(total(partial(_rows_on_grid, grid=grid))), grid)
    rotation = rotation_of(matrix)
    largest: Largest = total(partial(_largest_coordinates, grid=grid, rotation=rotation))
    basis_exponent = grid_exponent(np.append(largest.values, [1.0] * center), HALF_BITS)
    return Whitening(grid, rotation, basis_exponent, eigenvalues, n)


def _largest_coordinates(X: Floats, grid: ColumnGrid, rotation: Rotation) -> Largest:
    largest = np.zeros(rotation.width)
    for rows in chunks(len(X)):
        largest = np.maximum(largest, np.abs(rotation.apply(grid.integers(X[rows]))).max(axis=0))
    return Largest(largest)


def _rows_on_grid(X: Floats, grid: ColumnGrid) -> list[Floats]:
    """Return the rows themselves, for fewer rows than columns."""
    return [grid.integers(X)]


def _eigen_primal(sums: GramSums, grid: ColumnGrid, n_rows: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and V S^-1 (in grid units) from the Gram matrix of the columns."""
    weight = grid.column_weight
    gram = sums.matrix() * weight[:, None] * weight
    eigenvalues, vectors = on_one_thread(lambda: eigh(gram, check_finite=False))
    kept = _above_rank(eigenvalues, max(n_rows, len(gram)))
    return eigenvalues[kept], weight[:, None] * vectors[:, kept] / np.sqrt(eigenvalues[kept])


def _eigen_dual(integers: Floats, grid: ColumnGrid) -> tuple[Floats, Floats]:
    """Return the same from the Gram matrix of the rows, for more columns than rows."""
    weight = grid.column_weight
    rows = integers * weight

    def decompose() -> tuple[Floats, Floats]:
        eigenvalues, vectors = eigh(rows @ rows.T, check_finite=False)
        kept = _above_rank(eigenvalues, max(rows.shape))
        return eigenvalues[kept], weight[:, None] * (rows.T @ vectors[:, kept]) / eigenvalues[kept]

    return on_one_thread(decompose)


def _above_rank(eigenvalues: Floats, size: int) -> NDArray[np.bool_]:
    """Tell which eigenvalues are not rounding error."""
    tolerance = size * np.finfo(np.float64).eps * max(float(eigenvalues[-1]), 0.0)
    return eigenvalues > tolerance
