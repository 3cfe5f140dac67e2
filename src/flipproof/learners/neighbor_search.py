"""Search for the nearest training rows: distances, the order of the rows, and piles of equal rows.

A search finds the same rows at the same distances for a test row in any batch. Euclidean and cosine distances are
exact: all rows are put on one grid, with few enough bits that ``|x|^2 + |z|^2 - 2 x'z`` is an integer that float64
represents exactly, hence the same for any number of threads and any block of test rows. All other distances are
computed for one test row at a time.

Training rows are ordered by distance, then by a hash of their content, never by their place in the file or by their
label. Rows with equal distance and equal content form a *pile*: nothing but place and label tells them apart, so either
all of them vote or none (M13). Two rows of different content and equal hash that are equally far are also one pile;
this depends on no other row either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from flipproof.core.contents import row_hashes
from flipproof.core.growth import appended
from flipproof.core.linalg import LARGEST_TRAINING_FEATURE
from flipproof.core.rounding import Floats, Integers, bits_left, grid_exponent, scale, to_grid
from flipproof.core.votes import tiles
from flipproof.learners.nearest_rows import nearest_piles, smallest
from flipproof.runtime.determinism import on_one_thread, single_threaded, start_anew, with_seeds

#: Integers of this many bits are exact in float32, the type that training rows are stored in.
FLOAT32_BITS = 24

#: Rows are clipped to a box of BOX times the farthest training row or OUTLYING times the median one, the smaller of the
#: two: without the second limit, a single huge number would use up all bits and leave none for the other rows.
BOX = 4.0
OUTLYING = 2.0**10

#: Number of training features converted at a time: 8 MiB.
FEATURES_AT_A_TIME = 2**20


@dataclass(frozen=True)
class Neighbors:
    """The k nearest training rows of each test row.

    Attributes
    ----------
    rows : integers of shape (m, k)
        Their row numbers, in ascending order.
    distances : floats of shape (m, k)
        Their distances, in the same order.
    """

    rows: Integers
    distances: Floats


@dataclass(frozen=True)
class Voters:
    """The training rows that vote on each test row: the k nearest, and the rest of the last one's pile.

    Attributes
    ----------
    starts : integers of shape (m + 1,)
        Where the rows of each test row begin and end in the other arrays.
    rows : integers
        Their row numbers, in ascending order for each test row.
    distances : floats
        Their distances.
    contents : integers
        What orders rows of equal distance; rows for which it is equal too are one pile.
    """

    starts: Integers
    rows: Integers
    distances: Floats
    contents: NDArray[np.uint64]

    @property
    def test_rows(self) -> Integers:
        """The test row that each entry belongs to."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class NeighborSearch(Protocol):
    """Finds the training rows that vote."""

    def voters(self, Z: Floats, k: int) -> Voters:
        """Return the k nearest training rows of each row of Z, and the rest of the last one's pile."""
        ...

    def most_voters(self, k: int) -> int:
        """Return how many training rows can vote on a test row."""
        ...


@dataclass(frozen=True)
class Grid:
    """All columns as integers of `bits` bits on one grid, ``rint((x - center) * 2**exponent)``.

    Values farther than `box` from the centre are clipped, in each column.
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
        The grid of the rows; for the cosine, of rows scaled to length 1.
    columns : integers in float32 of shape (k, n)
        The training rows on the grid, one column each.
    squares : floats of shape (n,)
        Their squared lengths, which are integers.
    by_angle : bool
        Whether this is the cosine distance, ``1 - cos``.
    """

    grid: Grid
    columns: NDArray[np.float32]
    squares: Floats
    by_angle: bool

    @cached_property
    def contents(self) -> NDArray[np.uint64]:
        """Hashes of the training rows on the grid."""
        return row_hashes(self.columns.T)

    @cached_property
    def largest_pile(self) -> int:
        """Largest number of training rows that can be in one pile."""
        return _most_equal(self.contents)

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest training rows of each row of Z.

        Soundness: all numbers up to the square root are integers below 2**53, and so are all partial sums.
        """
        relative, own_squares = self.compare(Z)
        rows = smallest(relative, k)
        squared = np.take_along_axis(relative, rows, axis=1) + own_squares[:, None]
        return Neighbors(rows, self._distances(squared))

    def voters(self, Z: Floats, k: int) -> Voters:
        """Return the k nearest training rows of each row of Z, and the rest of the last one's pile."""
        relative, own_squares = self.compare(Z)
        starts, rows = nearest_piles(relative, self.contents, k)
        test_rows = np.repeat(np.arange(len(Z)), np.diff(starts))
        squared = relative[test_rows, rows] + own_squares[test_rows]
        return Voters(starts, rows, self._distances(squared), self.contents[rows])

    def most_voters(self, k: int) -> int:
        """Return how many training rows can vote on a test row."""
        return _most_voters(k, len(self.squares), self.largest_pile)

    def compare(self, Z: Floats, order: Integers | None = None) -> tuple[Floats, Floats]:
        """Return the squared distances, less the squared length of the test row, and these squared lengths.

        `order`: training rows in this order, if it is not their own.

        Soundness: all numbers are integers below 2**53, and so are all partial sums. Their sum is 0 if and only if the
        two rows are equal on the grid; for angles, a row of zeros is at distance 0 from no row.
        """
        integers, own_squares = _on_grid(Z, self.grid, self.by_angle)
        relative = self._products(-2 * integers, order)
        relative += self.squares if order is None else self.squares[order]
        return relative, own_squares

    def with_more(self, placed: NDArray[np.float32]) -> ExactSearch:
        """Return a search among more training rows; the first rows on the grid are those of this search."""
        n, by_angle = len(self.squares), self.by_angle
        squares = appended(self.squares, _squares_of_many(placed[n:], self.grid, by_angle))
        search = ExactSearch(self.grid, placed.T, squares, by_angle)
        if "contents" in vars(self):  # else they are not computed yet
            vars(search)["contents"] = appended(self.contents, row_hashes(placed[n:]))
        return search

    def reordered(self, order: Integers) -> ExactSearch:
        """Return a search among the same training rows in another order; a copy of them."""
        search = replace(self, columns=self.columns.T.take(order, axis=0).T, squares=self.squares[order])
        vars(search)["contents"] = self.contents[order]
        return search

    def has_nearest(self, Z: Floats) -> bool:
        """Tell whether a copy of each row of Z would be strictly nearer to it than every other row could be."""
        return not self.by_angle or bool(grid_rows(Z, self.grid, by_angle=True).any(axis=1).all())

    def _distances(self, squared: Floats) -> Floats:
        if self.by_angle:
            return scale(squared, -2 * self.grid.exponent - 1)
        return scale(np.sqrt(squared), -self.grid.exponent)

    def _products(self, integers: Floats, order: Integers | None = None) -> Floats:
        n_features, n = self.columns.shape
        products = np.empty((len(integers), n))
        for start, stop in tiles(n, _rows_at_a_time(n_features)):
            rows = self.columns.T
            # "clip" skips a slow check; an order has valid row numbers
            some = rows[start:stop] if order is None else rows.take(order[start:stop], axis=0, mode="clip")
            np.matmul(integers, some.astype(np.float64).T, out=products[:, start:stop])
        return products


def exact_search(X: Floats, by_angle: bool = False) -> ExactSearch:
    """Prepare exact Euclidean distances to the training rows X, or exact cosine distances."""
    grid = exact_grid(X, by_angle)
    return search_on_grid(grid_rows(X, grid, by_angle), grid, by_angle)


def exact_grid(X: Floats, by_angle: bool) -> Grid:
    """Return the grid for exact distances between rows like those of X."""
    _check_size(X)
    return _angle_grid(X.shape[1]) if by_angle else _box_grid(X)


def grid_rows(X: Floats, grid: Grid, by_angle: bool) -> NDArray[np.float32]:
    """Return rows on the grid, each independent of all others; far rows are moved to the edge of the grid's box."""
    placed = np.empty(X.shape, dtype=np.float32)
    for start, stop in tiles(len(X), _rows_at_a_time(X.shape[1])):
        placed[start:stop] = _on_grid(X[start:stop], grid, by_angle)[0]
    return placed


def search_on_grid(placed: NDArray[np.float32], grid: Grid, by_angle: bool) -> ExactSearch:
    """Prepare exact distances to rows that are on the grid already."""
    return ExactSearch(grid, placed.T, _squares_of_many(placed, grid, by_angle), by_angle)


def _squares_of_many(placed: NDArray[np.float32], grid: Grid, by_angle: bool) -> Floats:
    squares = np.empty(len(placed))
    for start, stop in tiles(len(placed), _rows_at_a_time(placed.shape[1])):
        squares[start:stop] = _squares(placed[start:stop].astype(np.float64), grid, by_angle)
    return squares


def _check_size(X: Floats) -> None:
    low, high = float(X.min()), float(X.max())
    if max(-low, high) > LARGEST_TRAINING_FEATURE:
        raise ValueError(
            f"Training features must be between -{LARGEST_TRAINING_FEATURE:g} and {LARGEST_TRAINING_FEATURE:g}. "
            f"Got values from {low:g} to {high:g} instead: rescale them, or check them for wrong values."
        )


def _rows_at_a_time(n_features: int) -> int:
    return max(FEATURES_AT_A_TIME // n_features, 64)


def _on_grid(X: Floats, grid: Grid, by_angle: bool) -> tuple[Floats, Floats]:
    """Return rows as integers, and their squared lengths."""
    integers = grid.integers(_unit_rows(X) if by_angle else X)
    return integers, _squares(integers, grid, by_angle)


def _squares(integers: Floats, grid: Grid, by_angle: bool) -> Floats:
    """Return the squared lengths of rows; for angles, a row of zeros is at a right angle to all."""
    squares: Floats = np.einsum("ij,ij->i", integers, integers)
    if by_angle:
        squares[squares == 0] = 4.0**grid.exponent
    return squares


def _unit_rows(X: Floats) -> Floats:
    """Divide rows by their lengths, computed from exact squares in any order; rows of zeros are unchanged."""
    bits = bits_left(X.shape[1]) // 2
    exponent = grid_exponent(np.abs(X).max(axis=1), bits)
    integers = to_grid(X, exponent[:, None], bits)
    length = np.sqrt(np.einsum("ij,ij->i", integers, integers))
    return np.asarray(integers / np.where(length > 0, length, 1.0)[:, None])


def _angle_grid(n_features: int) -> Grid:
    """Return the grid of rows of length 1: twice that, squared, has 50 bits for any number of columns."""
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
    # the squared distance of two rows in the box, at most 4 * columns * 2**(2 bits), must be exact
    bits = min(bits_left(4 * X.shape[1]) // 2, FLOAT32_BITS)
    return Grid(center, float(box), int(grid_exponent(box, bits)), bits)


def _most_equal(contents: NDArray[np.uint64]) -> int:
    return int(np.unique(contents, return_counts=True)[1].max(initial=1))


def _most_voters(k: int, n: int, largest_pile: int) -> int:
    return min(n, k + largest_pile - 1)


@dataclass(frozen=True)
class MeasuredSearch:
    """Distances by any metric of :func:`scipy.spatial.distance.cdist`, or by a function of two rows.

    Computed for one test row at a time; for a function, which may use BLAS, on one thread.
    """

    training_rows: Floats
    metric: str | Callable[[Floats, Floats], float]

    @cached_property
    def contents(self) -> NDArray[np.uint64]:
        """Hashes of the training rows."""
        return row_hashes(self.training_rows)

    @cached_property
    def largest_pile(self) -> int:
        """Largest number of training rows that can be in one pile."""
        return _most_equal(self.contents)

    def voters(self, Z: Floats, k: int) -> Voters:
        """Return the k nearest training rows of each row of Z, and the rest of the last one's pile."""
        distances = on_one_thread(lambda: self._distances(Z)) if callable(self.metric) else self._distances(Z)
        starts, rows = nearest_piles(distances, self.contents, k)
        test_rows = np.repeat(np.arange(len(Z)), np.diff(starts))
        return Voters(starts, rows, distances[test_rows, rows], self.contents[rows])

    def most_voters(self, k: int) -> int:
        """Return how many training rows can vote on a test row."""
        return _most_voters(k, len(self.training_rows), self.largest_pile)

    def _distances(self, Z: Floats) -> Floats:
        measure = self.metric
        # scipy would replace a function that has the name of a scipy metric by that metric
        metric = (lambda u, v: measure(u, v)) if callable(measure) else measure
        distances = np.empty((len(Z), len(self.training_rows)))
        for i in range(len(Z)):
            distances[i] = cdist(Z[i : i + 1].copy(), self.training_rows, metric)[0]
        if not np.all(np.isfinite(distances)):
            raise ValueError(
                f"The metric {self.metric!r} must give finite distances. Got NaN or infinity for a pair of rows: use a "
                "metric that is defined for all rows."
            )
        return distances


def measured_search(placed: Floats, metric: str | Callable[[Floats, Floats], float]) -> MeasuredSearch:
    """Prepare distances by a metric to training rows; these are the search's own from now on."""
    placed.setflags(write=False)  # a metric that writes into its input must not change them
    return MeasuredSearch(placed, metric)


@dataclass(frozen=True)
class IndexedSearch:
    """Neighbours found by an index: a fitted transformer to sparse matrices of distances.

    Called with one test row at a time and on one thread, since its output may depend on the batch.
    """

    index: Any
    n_train: int

    def voters(self, Z: Floats, k: int) -> Voters:
        """Return exactly k of the training rows that the index finds for each row of Z; of equally near, the first."""
        found = on_one_thread(lambda: with_seeds(lambda: self._search(Z, k)))
        rows, distances = (np.concatenate(both) for both in zip(*found, strict=True))
        return Voters(k * np.arange(len(Z) + 1), rows, distances, rows.astype(np.uint64))

    def most_voters(self, k: int) -> int:
        """Return how many training rows can vote on a test row."""
        return k

    def _search(self, Z: Floats, k: int) -> list[tuple[Integers, Floats]]:
        def search(row: Floats) -> Any:
            start_anew()
            return self.index.transform(row)

        with single_threaded():  # also for OpenMP, on which the order of ties may depend
            return [self._nearest_found(search(Z[i : i + 1]), k) for i in range(len(Z))]

    def _nearest_found(self, answer: Any, k: int) -> tuple[Integers, Floats]:
        answer = csr_array(answer, dtype=np.float64)
        if answer.shape != (1, self.n_train):
            raise ValueError(
                f"The index must return one column per training row, shape (1, {self.n_train}) for one test row. "
                f"Got shape {answer.shape} instead."
            )
        answer.sort_indices()
        rows, distances = answer.indices.astype(np.int64), answer.data
        if len(np.unique(rows)) != len(rows) or not np.all(np.isfinite(distances)):
            raise ValueError(
                "The index must return finite distances, one per neighbour. Got repeated rows, NaN or infinity."
            )
        if len(rows) < k:
            raise ValueError(
                f"The index must return at least {k} neighbours for each row. Got {len(rows)} instead: increase its "
                "number of neighbours."
            )
        chosen = smallest(distances[None, :], k)[0]
        return rows[chosen], distances[chosen]
