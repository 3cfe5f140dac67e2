"""The nearest training rows of a test row: the same ones, at the same distances, in whatever company it is asked for.

Euclidean and cosine distances are exact: all rows are put on one grid with so few bits that ``|x|^2 + |z|^2 - 2 x'z``
is an integer that float64 holds, hence the same for any number of threads and any block of test rows. All other
distances are computed for one test row at a time. Where distances are equal, the lower row number counts as nearer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from flipproof.learners.clones import start_anew, with_seeds
from flipproof.learners.column_sums import LARGEST_TRAINING_FEATURE
from flipproof.learners.one_thread import on_one_thread
from flipproof.rounding import Floats, Integers, bits_left, grid_exponent, scale, to_grid
from flipproof.votes import tiles

#: Integers of this many bits are exact in float32, which the training rows are kept in.
FLOAT32_BITS = 24

#: The box that rows are moved into, in times the farthest training row and in times the median one, whichever is less:
#: without the second, a single absurd number would take all bits and leave none for the other rows.
BOX = 4.0
OUTLYING = 2.0**10

#: Features of training rows that are converted at a time: 8 MiB.
FEATURES_AT_A_TIME = 2**20

#: Distances that are selected from at a time: 2 MiB, which a cache holds.
NUMBERS_TO_SELECT_FROM = 2**18


@dataclass(frozen=True)
class Neighbors:
    """The k nearest training rows of each test row.

    Attributes
    ----------
    rows : integers of shape (m, k)
        Their row numbers, in rising order.
    distances : floats of shape (m, k)
        Their distances, in the same order.
    """

    rows: Integers
    distances: Floats


class NeighborSearch(Protocol):
    """Finds the nearest training rows."""

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest training rows of each row of Z."""
        ...


@dataclass(frozen=True)
class Grid:
    """All columns as integers of `bits` bits on one grid, ``rint((x - center) * 2**exponent)``.

    What is farther than `box` from the centre, in any column, is moved there.
    """

    center: Floats
    box: float
    exponent: int
    bits: int

    def integers(self, X: Floats) -> Floats:
        """Return rows on the grid, in float64."""
        moved = np.subtract(X, self.center, dtype=np.float64)
        return to_grid(np.clip(moved, -self.box, self.box, out=moved), self.exponent, self.bits)


@dataclass(frozen=True)
class ExactSearch:
    """Euclidean or cosine distances to the training rows, as exact integers.

    Attributes
    ----------
    grid : Grid
        Of the rows; in the case of the cosine, of rows of length 1.
    columns : integers in float32 of shape (k, n)
        The training rows on the grid, one column each.
    squares : floats of shape (n,)
        Their squared lengths: integers.
    by_angle : bool
        Whether this is the cosine distance, ``1 - cos``.
    """

    grid: Grid
    columns: NDArray[np.float32]
    squares: Floats
    by_angle: bool

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest training rows of each row of Z.

        Soundness: all numbers up to the square root are integers below 2**53, and so are all partial sums.
        """
        integers, own_squares = _on_grid(Z, self.grid, self.by_angle)
        # squared distances, but for the squared length of the test row, which they have in common
        relative = self._products(-2 * integers)
        relative += self.squares
        rows = smallest(relative, k)
        squared = np.take_along_axis(relative, rows, axis=1) + own_squares[:, None]
        if self.by_angle:
            return Neighbors(rows, scale(squared, -2 * self.grid.exponent - 1))
        return Neighbors(rows, scale(np.sqrt(squared), -self.grid.exponent))

    def _products(self, integers: Floats) -> Floats:
        n_features, n = self.columns.shape
        products = np.empty((len(integers), n))
        for start, stop in tiles(n, _rows_at_a_time(n_features)):
            np.matmul(integers, self.columns[:, start:stop].astype(np.float64), out=products[:, start:stop])
        return products


def exact_search(X: Floats, by_angle: bool = False) -> ExactSearch:
    """Prepare exact Euclidean distances to the training rows X, or exact cosine distances."""
    _check_size(X)
    grid = _angle_grid(X.shape[1]) if by_angle else _box_grid(X)
    n, n_features = X.shape
    columns, squares = np.empty((n_features, n), dtype=np.float32), np.empty(n)
    for start, stop in tiles(n, _rows_at_a_time(n_features)):
        integers, squares[start:stop] = _on_grid(X[start:stop], grid, by_angle)
        columns[:, start:stop] = integers.T
    return ExactSearch(grid, columns, squares, by_angle)


def _check_size(X: Floats) -> None:
    low, high = float(X.min()), float(X.max())
    if max(-low, high) > LARGEST_TRAINING_FEATURE:
        raise ValueError(
            f"Training features must be between -{LARGEST_TRAINING_FEATURE:g} and {LARGEST_TRAINING_FEATURE:g}. "
            f"Got values from {low:g} to {high:g} instead: rescale them, or see what is wrong with them."
        )


def _rows_at_a_time(n_features: int) -> int:
    return max(FEATURES_AT_A_TIME // n_features, 64)


def _on_grid(X: Floats, grid: Grid, by_angle: bool) -> tuple[Floats, Floats]:
    """Return rows as integers, and their squared lengths; for angles, a row of zeros is at a right angle to all."""
    integers = grid.integers(_unit_rows(X) if by_angle else X)
    squares = np.einsum("ij,ij->i", integers, integers)
    if by_angle:
        squares[squares == 0] = 4.0**grid.exponent
    return integers, squares


def _unit_rows(X: Floats) -> Floats:
    """Divide rows by their lengths, sums of exact squares that are the same in any order; rows of zeros stay."""
    bits = bits_left(X.shape[1]) // 2
    exponent = grid_exponent(np.abs(X).max(axis=1), bits)
    integers = to_grid(X, exponent[:, None], bits)
    length = np.sqrt(np.einsum("ij,ij->i", integers, integers))
    return np.asarray(integers / np.where(length > 0, length, 1.0)[:, None])


def _angle_grid(n_features: int) -> Grid:
    """Return the grid of rows of length 1: twice that, squared, has 50 bits whatever the number of columns."""
    return Grid(np.zeros(n_features), 1.0, int(grid_exponent(1.0, FLOAT32_BITS)), FLOAT32_BITS)


def _box_grid(X: Floats) -> Grid:
    """Return a grid around the columns' medians, fine enough for most rows and wide enough for nearly all."""
    middle = (len(X) - 1) // 2
    center = np.array([np.partition(column, middle)[middle] for column in X.T], dtype=np.float64)
    reach = np.empty(len(X))
    for start, stop in tiles(len(X), _rows_at_a_time(X.shape[1])):
        reach[start:stop] = np.abs(np.subtract(X[start:stop], center, dtype=np.float64)).max(axis=1)
    apart = np.sort(reach[reach > 0])
    box = min(BOX * apart[-1], OUTLYING * apart[(len(apart) - 1) // 2]) if apart.size else 1.0
    # the squared distance of two rows in the box, 4 * columns * 2**(2 bits) at most, has to be exact
    bits = min(bits_left(4 * X.shape[1]) // 2, FLOAT32_BITS)
    return Grid(center, float(box), int(grid_exponent(box, bits)), bits)


def smallest(values: Floats, k: int) -> Integers:
    """Return the columns of the k smallest values of each row, in rising order; of equal values, the first ones."""
    m, n = values.shape
    if k == n:
        return np.tile(np.arange(n), (m, 1))
    chosen = np.empty((m, k), dtype=np.int64)
    for start, stop in tiles(m, max(NUMBERS_TO_SELECT_FROM // n, 1)):
        chosen[start:stop] = _smallest_of_few(values[start:stop], k)
    return chosen


def _smallest_of_few(values: Floats, k: int) -> Integers:
    m, n = values.shape
    threshold = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    cells = np.flatnonzero(values <= threshold)
    if len(cells) > m * k:  # more than k are not above the threshold: the last of those that equal it have to go
        row = cells // n
        equal = np.flatnonzero(values.ravel()[cells] == threshold[row, 0])
        n_equal = np.bincount(row[equal], minlength=m)
        surplus = np.bincount(row, minlength=m) - k
        place = np.arange(len(equal)) - (np.cumsum(n_equal) - n_equal)[row[equal]]
        cells = np.delete(cells, equal[place >= (n_equal - surplus)[row[equal]]])
    return np.asarray(cells.reshape(m, k) % n)


@dataclass(frozen=True)
class MeasuredSearch:
    """Distances by any metric of :func:`scipy.spatial.distance.cdist`, or by a function of two rows.

    One test row at a time; a function, which may use BLAS, on one thread.
    """

    training_rows: Floats
    metric: str | Callable[[Floats, Floats], float]

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest training rows of each row of Z."""
        distances = on_one_thread(lambda: self._distances(Z)) if callable(self.metric) else self._distances(Z)
        rows = smallest(distances, k)
        return Neighbors(rows, np.take_along_axis(distances, rows, axis=1))

    def _distances(self, Z: Floats) -> Floats:
        measure = self.metric
        # scipy would take a function that is called like one of its own metrics for that one
        metric = (lambda u, v: measure(u, v)) if callable(measure) else measure
        distances = np.empty((len(Z), len(self.training_rows)))
        for i in range(len(Z)):
            distances[i] = cdist(Z[i : i + 1].copy(), self.training_rows, metric)[0]
        if not np.all(np.isfinite(distances)):
            raise ValueError(
                f"The metric {self.metric!r} must give finite distances. Got NaN or infinity for some pair of a test "
                "row and a training row: it is not defined for all rows."
            )
        return distances


def measured_search(X: Floats, metric: str | Callable[[Floats, Floats], float]) -> MeasuredSearch:
    """Prepare distances to the training rows X by a metric; raises what scipy raises if it does not know it."""
    # a copy: what somebody does to the rows later must not move them
    search = MeasuredSearch(np.array(X, dtype=np.float64, order="C"), metric)
    search.training_rows.setflags(write=False)  # nor must a metric that writes into them
    MeasuredSearch(search.training_rows[:2], metric).nearest(search.training_rows[:1], 1)
    return search


@dataclass(frozen=True)
class IndexedSearch:
    """Whatever neighbours an index finds: a fitted transformer to sparse matrices of distances.

    Asked for one test row at a time and on one thread, since its answers may depend on company.
    """

    index: Any
    n_train: int

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest of the training rows that the index names for each row of Z."""
        found = on_one_thread(lambda: with_seeds(lambda: self._ask(Z, k)))
        return Neighbors(np.array([rows for rows, _ in found]), np.array([distances for _, distances in found]))

    def _ask(self, Z: Floats, k: int) -> list[tuple[Integers, Floats]]:
        def ask(row: Floats) -> Any:
            start_anew()
            return self.index.transform(row)

        with threadpool_limits(limits=1):  # of OpenMP as well, which decides between equals
            return [self._nearest_of_named(ask(Z[i : i + 1]), k) for i in range(len(Z))]

    def _nearest_of_named(self, answer: Any, k: int) -> tuple[Integers, Floats]:
        answer = csr_array(answer, dtype=np.float64)
        if answer.shape != (1, self.n_train):
            raise ValueError(
                f"The index must return one column per training row, shape (1, {self.n_train}) for one test row. "
                f"Got shape {answer.shape} instead."
            )
        answer.sort_indices()
        rows, distances = answer.indices.astype(np.int64), answer.data
        if len(np.unique(rows)) != len(rows) or not np.all(np.isfinite(distances)):
            raise ValueError("The index must return finite distances, one per neighbour. Got others instead.")
        if len(rows) < k:
            raise ValueError(
                f"The index must return at least {k} neighbours for each row. Got {len(rows)} instead: let it look for "
                "more of them."
            )
        chosen = smallest(distances[None, :], k)[0]
        return rows[chosen], distances[chosen]
