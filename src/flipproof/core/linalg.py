"""Sums, products and coordinates of features that are bitwise identical in any order of summation (M9).

Features are rounded to a grid per column, and so are the matrices that they are multiplied with. Both are split into
two halves of few enough bits that every float64 dot product of halves is an exact integer.

Training rows are processed in chunks, in a few passes that add up summaries: ranges, moments, the Gram matrix, the
range of U. The rows may be in memory, in files or on other machines; a `Total` does the pass. Summaries hold integers
or maxima, so the result does not depend on how the rows are split into chunks.

With the singular value decomposition X = U S V' of the (centred) training features, ridge weighs training row j for a
test row z by ``alpha_j = sum_r U_jr * s_r^2 / (s_r^2 + lambda) * u_r(z)``, where ``u(z) = S^-1 V' z`` are the
coordinates of the test row. So votes need only U from the training features. No code here reads a label, so everything
may be rounded. Only the eigenvalue problem depends on the order of summation: it runs on one thread, by a function that
the caller gives (`OnOneThread`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from flipproof.core.rounding import (
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

#: Bits of half a feature and of an entry of U, without the sign.
HALF_BITS = 20

#: Bits of a feature.
FEATURE_BITS = 2 * HALF_BITS

#: Rows over which sums of features, and of products of two halves, are exact.
CHUNK_ROWS = 2 ** (EXACT_BITS - FEATURE_BITS)

#: Numbers that are multiplied at a time: as many as fit into a processor's cache.
NUMBERS_AT_A_TIME = 2**17

#: Features farther outside the training range (in grid steps) are clipped to this, so that nothing overflows.
LARGEST_FEATURE = 2.0**900


@dataclass(frozen=True)
class ColumnGrid:
    """Features as integers: column i of row x is ``rint((x_i - midpoint_i) * 2**exponent_i) - mean_i``.

    `spread` is the sum of squares of each column around its mean over the training rows, in grid steps. Columns without
    information (constant, or all zero if not centred) are not `used`: they are 0 for every row.
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

    Column r is ``(high + low * 2**-bits) * 2**-exponent_r``; `high` and `low` hold integers of `bits` bits and are
    stored side by side in `both`, low first.
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
        """Return ``integers @ matrix``; rows with more bits are rounded to a coarser grid first."""
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
        """Compute the four products of halves as one product of stacked halves: exact, and added in a fixed order."""
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


Result = TypeVar("Result")


class OnOneThread(Protocol):
    """Runs computations whose last bits depend on the number of threads: `runtime.determinism.on_one_thread`."""

    def __call__(self, compute: Callable[[], Result], /) -> Result:
        """Return what `compute` returns on one thread."""
        ...


#: Called with the number of rows of each chunk that was visited.
Visited = Callable[[int], None]


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
    for rows in chunks(len(matrix)):  # in place, a few rows at a time: a kernel's matrix is large
        low[rows] = scale(matrix[rows], exponent)
    np.clip(np.rint(low, out=high), -limit, limit, out=high)
    low -= high
    low *= 2.0 ** (bits - 1)
    np.rint(low, out=low)
    low *= 2
    np.clip(low, -limit, limit, out=low)
    return Rotation(both, exponent, bits)


def round_columns(X: Floats, midpoint: Floats, exponent: Integers) -> Floats:
    """Round columns to their grids; values far outside the range stay finite."""
    on_grid = np.subtract(X, midpoint, dtype=np.float64)
    with np.errstate(over="ignore"):
        on_grid *= power_of_two(exponent)
    np.rint(on_grid, out=on_grid)
    return np.clip(on_grid, -LARGEST_FEATURE, LARGEST_FEATURE, out=on_grid)


#: Gram matrices of many chunks are added as integers in two parts; the lower part has this many bits.
LOW_BITS = 26

#: Beyond this, squares of features would overflow.
LARGEST_TRAINING_FEATURE = 1e150


@dataclass(frozen=True)
class ColumnRanges:
    """The lowest and highest value of each column; ``+`` combines the ranges of two sets of rows."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, X: Floats) -> ColumnRanges:
        """Return the ranges of some rows."""
        return cls(X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64))

    def __add__(self, other: ColumnRanges) -> ColumnRanges:
        return ColumnRanges(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def check_size(self) -> None:
        """Raise an error if squares of the features would overflow."""
        if max(-self.low.min(), self.high.max()) > LARGEST_TRAINING_FEATURE:
            raise ValueError(
                f"Training features must be between -{LARGEST_TRAINING_FEATURE:g} and {LARGEST_TRAINING_FEATURE:g}. "
                f"Got values from {self.low.min():g} to {self.high.max():g} instead: rescale or correct them."
            )

    def grid(self, center: bool) -> tuple[Floats, Integers, NDArray[np.bool_]]:
        """Return the midpoint and grid of each column, and whether it is used."""
        if center:
            # the middle of the range does not depend on the order of the rows; the shift to the mean needs one bit
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
    """Number of rows, sums and sums of squares of columns on the grid, as Python integers, which cannot overflow."""

    n_rows: int
    sums: NDArray[np.object_]
    squares: NDArray[np.object_]

    @classmethod
    def of(cls, X: Floats, midpoint: Floats, exponent: Integers) -> ColumnMoments:
        """Return the moments of some rows: exact by chunk, then added as Python integers."""
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
    """Products of all pairs of columns, summed over rows: high by high halves, high by low, and low by low.

    Each is an integer in two parts; the lower part has LOW_BITS bits per chunk. The result is rounded once and does not
    depend on the chunks: both parts are exact in float64 for fewer than 2**39 rows.
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
    """Elementwise maxima; ``+`` takes the larger of two."""

    values: Floats

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.values, other.values))


def _whole(x: Floats) -> NDArray[np.object_]:
    return x.astype(np.int64).astype(object)


class Total(Protocol):
    """A pass over the training rows."""

    def __call__(self, summary: Callable[[Floats], Any]) -> Any:
        """Return the sum of the summaries of all chunks of the training rows, for any split into chunks."""
        ...


@dataclass(frozen=True)
class Whitening:
    """The map from rows to whitened coordinates; the coordinates of the training rows, U, are its `basis`.

    Attributes
    ----------
    grid : ColumnGrid
        Rounds rows of features to a grid.
    rotation : Rotation
        V S^-1, for rows on that grid.
    basis_exponent : integers, one per column of the basis
        ``basis * 2**-basis_exponent`` is U.
    eigenvalues : floats of shape (rank,)
        Eigenvalues of the Gram matrix within the numerical rank, in units of the squared coarsest grid step.
    n_rows : int
        Number of training rows.
    largest_leverage : float
        Upper bound on the squared length of a row of U; infinite until a pass over the rows has computed it.
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
        """Whether the features were centred, so that the basis has a last column for the intercept."""
        return len(self.basis_exponent) > self.rank

    def coordinates(self, Z: Floats) -> Floats:
        """Return u(z) for each row: bitwise identical for any split into blocks."""
        return self.rotation.apply(self.grid.integers(Z))

    def basis(self, X: Floats, visited: Visited | None = None) -> NDArray[np.float32]:
        """Return training rows of U, on a grid per column; if centred, followed by a column that represents 1.

        Integers of shape (rows, rank) or (rows, rank + 1), exact in float32. `visited` as in :func:`whiten`.
        """
        basis = np.empty((len(X), len(self.basis_exponent)), dtype=np.float32)
        basis[:, self.rank :] = 2.0 ** (HALF_BITS - 1)
        with np.errstate(over="ignore"):  # rows far outside the range that the grid was made for are clipped
            for rows in chunks(len(X)):
                coordinates = self.coordinates(X[rows])
                basis[rows, : self.rank] = to_grid(coordinates, self.basis_exponent[: self.rank], HALF_BITS)
                if visited is not None:
                    visited(len(coordinates))
        return basis

    @property
    def largest_basis(self) -> Floats:
        """The largest size of a number in each column of a basis."""
        largest = np.full(len(self.basis_exponent), 2.0**HALF_BITS - 1)
        largest[self.rank :] = 2.0 ** (HALF_BITS - 1)
        return largest

    def slopes(self) -> Floats:
        """Return V S^-1: by how much each coordinate grows with a grid step of each column, shape (columns, rank)."""
        halves_joined = self.rotation.high + self.rotation.low * 2.0**-self.rotation.bits
        return np.asarray(halves_joined * power_of_two(-self.rotation.exponent))

    def rows_beyond(self, signs: Floats, on_one_thread: OnOneThread) -> Floats:
        """Return rows of features whose coordinates are far outside the range of the basis, with these signs.

        The rotation has full column rank, so there is such a row for any signs, up to rounding: check its basis.
        """
        matrix = self.slopes()
        ends = scale(np.full(self.rank, 2.0 ** (HALF_BITS + 1)), -self.basis_exponent[: self.rank])
        integers = on_one_thread(lambda: np.linalg.lstsq(matrix.T, (signs * ends).T, rcond=None)[0].T)
        return np.asarray(self.grid.midpoint + scale(np.rint(integers) + self.grid.mean, -self.grid.exponent))

    def leverage(self, basis: NDArray[np.float32]) -> float:
        """Return the largest squared length of these rows of U."""
        largest = 0.0
        for rows in chunks(len(basis)):
            coordinates = scale(basis[rows, : self.rank].astype(np.float64), -self.basis_exponent[: self.rank])
            largest = float(np.maximum(largest, np.einsum("ij,ij->i", coordinates, coordinates).max()))
        return largest

    def with_leverage(self, largest: float) -> Whitening:
        """Return a copy with the largest leverage of all training rows, rounded up."""
        return replace(self, largest_leverage=float(above(largest, 1e-12)))

    def in_grid_units(self, regularization: float) -> float:
        """Return a ridge parameter in the units of `eigenvalues`."""
        with np.errstate(over="ignore"):
            return float(scale(regularization, 2 * self.grid.coarsest))

    def in_feature_units(self, regularization: float) -> float:
        """Return a ridge parameter in units of the squared features."""
        with np.errstate(over="ignore"):
            return float(scale(regularization, -2 * self.grid.coarsest))


#: Passes over rows in memory of which `whiten` reports every chunk.
LONG_PASSES = 3


def whiten(
    X: Floats, center: bool, on_one_thread: OnOneThread, visited: Visited | None = None
) -> tuple[Whitening, NDArray[np.float32]]:
    """Decompose training features that are in memory; `center` subtracts their mean (an unpenalised intercept).

    Returns the map to whitened coordinates and its basis, the coordinates of the training rows. `visited` is called
    after each chunk of the passes that take long, `LONG_PASSES` in all.
    """
    whitening = whiten_in_passes(in_memory(X), center, on_one_thread, products=in_memory(X, visited))
    basis = whitening.basis(X, visited)
    return whitening.with_leverage(whitening.leverage(basis)), basis


def in_memory(X: Floats, visited: Visited | None = None) -> Total:
    """Return a `Total` over rows that are in memory; `visited` as in :func:`whiten`."""

    def summaries(summary: Callable[[Floats], Any]) -> Iterator[Any]:
        for rows in chunks(len(X)):
            yield summary(X[rows])
            if visited is not None:
                visited(len(X[rows]))

    return lambda summary: reduce(operator.add, summaries(summary))


def column_grid(total: Total, center: bool, ranges: ColumnRanges | None = None) -> tuple[ColumnGrid, ColumnMoments]:
    """Return the grid of the training features and their moments on it; known `ranges` save a pass."""
    ranges = total(ColumnRanges.of) if ranges is None else ranges
    ranges.check_size()
    midpoint, exponent, used = ranges.grid(center)
    moments: ColumnMoments = total(partial(ColumnMoments.of, midpoint=midpoint, exponent=exponent))
    mean = np.rint(np.asarray(moments.sums / moments.n_rows, dtype=np.float64)) if center else np.zeros(len(midpoint))
    return ColumnGrid(midpoint, exponent, mean, moments.spread, used), moments


def whiten_in_passes(
    total: Total,
    center: bool,
    on_one_thread: OnOneThread,
    ranges: ColumnRanges | None = None,
    products: Total | None = None,
) -> Whitening:
    """Decompose training features in passes over them; the leverage is computed later, together with the basis.

    `products` does the passes with matrix products, if it is given.
    """
    grid, moments = column_grid(total, center, ranges)
    total = total if products is None else products
    n, k = moments.n_rows, len(grid.exponent)
    if k <= n:
        eigenvalues, matrix = _eigen_primal(total(partial(GramSums.of, grid=grid)), grid, n, on_one_thread)
    else:
        eigenvalues, matrix = _eigen_dual(np.vstack(total(partial(_rows_on_grid, grid=grid))), grid, on_one_thread)
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
    """Return the rows themselves; used if there are fewer rows than columns."""
    return [grid.integers(X)]


def _eigen_primal(sums: GramSums, grid: ColumnGrid, n_rows: int, on_one_thread: OnOneThread) -> tuple[Floats, Floats]:
    """Return eigenvalues and V S^-1 (in grid units) from the Gram matrix of the columns."""
    weight = grid.column_weight
    gram = sums.matrix() * weight[:, None] * weight
    eigenvalues, vectors = on_one_thread(lambda: eigh(gram, check_finite=False))
    kept = _above_rank(eigenvalues, max(n_rows, len(gram)))
    return eigenvalues[kept], weight[:, None] * vectors[:, kept] / np.sqrt(eigenvalues[kept])


def _eigen_dual(integers: Floats, grid: ColumnGrid, on_one_thread: OnOneThread) -> tuple[Floats, Floats]:
    """Return the same from the Gram matrix of the rows; used if there are more columns than rows."""
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
