"""Certified nearest neighbours: the labels of the k nearest training rows vote.

A search finds the same rows at the same distances for a test row in any batch. Euclidean and cosine distances are
exact: all rows are put on one grid, with few enough bits that ``|x|^2 + |z|^2 - 2 x'z`` is an integer that float64
represents exactly, hence the same for any number of threads and any block of test rows. All other distances are
computed for one test row at a time. Ties in distance go to the lower row number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from flipproof.assumptions import Assumption
from flipproof.core.linalg import LARGEST_TRAINING_FEATURE
from flipproof.core.rounding import Floats, Integers, bits_left, grid_exponent, scale, to_grid
from flipproof.core.votes import SparseVotes, sparse_votes, tiles
from flipproof.determinism import on_one_thread, single_threaded, start_anew, with_seeds
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.clones import fit_label_free, label_free_assumptions, name_of
from flipproof.parameters import (
    NONE,
    Constraints,
    function,
    instance,
    integer,
    is_integer,
    one_of,
    parameter_error,
    share,
    with_methods,
)

#: Integers of this many bits are exact in float32, the type that training rows are stored in.
FLOAT32_BITS = 24

#: Rows are clipped to a box of BOX times the farthest training row or OUTLYING times the median one, the smaller of the
#: two: without the second limit, a single huge number would use up all bits and leave none for the other rows.
BOX = 4.0
OUTLYING = 2.0**10

#: Number of training features converted at a time: 8 MiB.
FEATURES_AT_A_TIME = 2**20

#: Number of distances to select from at a time: 2 MiB, which fits in a cache.
NUMBERS_TO_SELECT_FROM = 2**18


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


class NeighborSearch(Protocol):
    """Finds the nearest training rows."""

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest training rows of each row of Z."""
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

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest training rows of each row of Z.

        Soundness: all numbers up to the square root are integers below 2**53, and so are all partial sums.
        """
        integers, own_squares = _on_grid(Z, self.grid, self.by_angle)
        # squared distances, without the squared length of the test row, which they have in common
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
            f"Got values from {low:g} to {high:g} instead: rescale them, or check them for wrong values."
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


def smallest(values: Floats, k: int) -> Integers:
    """Return the columns of the k smallest values of each row, in ascending order; of equal values, the first ones."""
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
    if len(cells) > m * k:  # more than k are at or below the threshold: drop the last of those equal to it
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

    Computed for one test row at a time; for a function, which may use BLAS, on one thread.
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


def measured_search(X: Floats, metric: str | Callable[[Floats, Floats], float]) -> MeasuredSearch:
    """Prepare distances to the training rows X by a metric; raises the error of scipy if the metric is unknown."""
    # a copy: later changes to the rows must not change distances
    search = MeasuredSearch(np.array(X, dtype=np.float64, order="C"), metric)
    search.training_rows.setflags(write=False)  # a metric that writes into its input must not change them either
    MeasuredSearch(search.training_rows[:2], metric).nearest(search.training_rows[:1], 1)
    return search


@dataclass(frozen=True)
class IndexedSearch:
    """Neighbours found by an index: a fitted transformer to sparse matrices of distances.

    Called with one test row at a time and on one thread, since its output may depend on the batch.
    """

    index: Any
    n_train: int

    def nearest(self, Z: Floats, k: int) -> Neighbors:
        """Return the k nearest of the training rows that the index finds for each row of Z."""
        found = on_one_thread(lambda: with_seeds(lambda: self._search(Z, k)))
        return Neighbors(np.array([rows for rows, _ in found]), np.array([distances for _, distances in found]))

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


#: Number of neighbours for ``n_neighbors=None``, if there are that many training rows.
DEFAULT_NEIGHBORS = 15

#: Description of a valid index.
INDEX = "a transformer to sparse matrices of distances that can be fitted without labels, as KNeighborsTransformer is"

#: Bits per vote if every neighbour votes 1.
UNIFORM_PRECISION = 1

#: Names of metrics in scikit-learn that scipy lacks, and their names in scipy.
OTHER_NAMES = {"l2": "euclidean", "l1": "cityblock", "manhattan": "cityblock"}

#: Metrics that scipy scales by the test rows too, and what to use instead.
SCALED_METRICS = {
    **dict.fromkeys(("seuclidean", "se", "s"), "features=StandardScaler()"),
    **dict.fromkeys(("mahalanobis", "mahal", "mah"), "features=PCA(whiten=True)"),
}


class CertifiedNeighborsClassifier(LabelLinearClassifier):
    """Nearest neighbours with a certificate against changed training labels for every prediction.

    The score of class c is the sum of ``w(distance_j) [y_j = c]`` over the k nearest training rows j. These rows and
    their weights depend on features alone: alpha_j is w(distance_j) for the k nearest rows and 0 for all others, and
    there is no offset. With uniform weights all labels count the same, and the radius is half the winner's lead in
    votes: up to k / 2.

    Choose it for large radii: on spambase, certified accuracy at 172 changed labels, 5 % of all, is 0.69 (cosine, 30 %
    of the rows), where ridge has 0.17. It needs features in which near rows are similar: principal components,
    embeddings, standardised columns. More neighbours trade accuracy for radius; start with a few per cent of the rows,
    and choose the number without the labels that are to be protected. If you expect few changed labels and a linear
    rule fits, ridge is more accurate, and it predicts much faster.

    Parameters
    ----------
    n_neighbors : int or float, optional
        Number of rows that vote: an integer from 1 to n, or a share of the training rows between 0 and 1, rounded up.
        Default: 15, or all rows if there are fewer. An integer above n is an error in `fit`; to tune on folds of any
        size, use shares.
    weights : {"uniform", "distance"} or callable, default="uniform"
        Weight of each neighbour. ``"uniform"``: 1. ``"distance"``: one over its distance; if some are at distance 0,
        these have weight 1 and all others 0. A function gets the distances of one test row, shape (1, k), in ascending
        order, and returns weights of the same shape; they may be negative.
    metric : str or callable, default="euclidean"
        ``"euclidean"`` and ``"cosine"`` are fast. Also any other metric of :func:`scipy.spatial.distance.cdist` that
        needs no parameters, or a function of two rows. For the fast metrics, features are rounded to about 20 bits, so
        that distances are exact (cosine: of rows of length 1). Values are clipped, in each column, at a distance from
        the columns' medians of four times the farthest training row, or 1024 times the median one if that is less.
    index : transformer, optional
        Finds neighbours, perhaps approximately, in the way of :class:`sklearn.neighbors.KNeighborsTransformer` with
        ``mode="distance"``: ``fit(X)``, then ``transform(Z)`` returns a sparse matrix of distances with at least
        n_neighbors entries per row. Cloned and fitted without labels, with random states that are not integers set to
        0, and called with one row at a time on one thread. Certificates assume that a refit gives the same index. The
        index measures distances: `metric` must keep its default.
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs no noise.
        ``"auto"``: the best of a grid of q for each test row.
    method : {"exact", "tight", "kl"}, default="exact"
        Default of :meth:`certify`.
    precision : int, default=10
        Bits per vote, 2 to 24. Weights are rounded to integer votes; predictions and certificates both use these votes.
        Uniform votes are 1 at any precision.
    features : transformer, optional
        Cloned and fitted on the training features *without* labels. Random states that are not integers are set to 0,
        so that a refit gives the same features.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    block_size : int, optional
        Test rows certified at a time; by default as many as fit in 256 MiB. It does not affect results.
    n_jobs : int, optional
        Threads over blocks of test rows, as in joblib. It does not affect results.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    n_neighbors_ : int
        Number of rows that vote.
    index_ : transformer or None
        The fitted `index`.
    precision_ : int
        Bits per vote that were used; 1 if all votes are 1.
    noise_ : LabelFlip or None
        The noise with its number of classes; None for ``"auto"``.
    features_ : transformer or None
        The fitted `features`.
    n_features_in_ : int
        Number of input columns.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedNeighborsClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedNeighborsClassifier(50, classes=range(10)).fit(X[:1000], y[:1000])
    >>> model.certify(X[1000:])
    <Certificates: 797 predictions, method 'exact', median radius 18 of 1000 labels>
    """

    parameter_constraints: ClassVar[Constraints] = {
        "n_neighbors": NONE | integer(1) | share(),
        "weights": one_of("uniform", "distance") | function("a function of distances"),
        "metric": instance(str, "the name of a metric") | function("a function of two rows"),
        "index": NONE | with_methods("fit", "transform", "get_params", described=INDEX),
    }

    def __init__(
        self,
        n_neighbors: int | float | None = None,
        *,
        weights: str | Callable[[Floats], Floats] = "uniform",
        metric: str | Callable[[Floats, Floats], float] = "euclidean",
        index: Any = None,
        noise: Any = 0.1,
        method: str = "exact",
        precision: int = 10,
        features: Any = None,
        classes: ArrayLike | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(
            noise,
            method=method,
            precision=precision,
            features=features,
            classes=classes,
            block_size=block_size,
            n_jobs=n_jobs,
        )
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.metric = metric
        self.index = index

    def validate_parameters(self) -> None:
        """Refuse parameters that `fit` cannot use."""
        super().validate_parameters()
        owner, metric = type(self).__name__, self.metric
        if self.index is not None and not (isinstance(metric, str) and metric == "euclidean"):
            remedy = "it has no effect on an index. Omit it, and set the metric of the index."
            raise parameter_error(owner, "metric", "'euclidean' where an index measures distances", metric, remedy)
        if isinstance(metric, str) and metric.lower() in SCALED_METRICS:
            remedy = f"use {SCALED_METRICS[metric.lower()]} and the Euclidean metric."
            raise parameter_error(owner, "metric", "one that does not depend on other test rows", metric, remedy)

    _gets_a_copy = False
    rows_vote_separately = False

    def fit_without_labels(self, X: Floats) -> None:
        """Keep the training features, on a grid or in an index."""
        self.n_neighbors_ = self._resolve_n_neighbors(len(X))
        self._weights = self.weights  # as fitted; set_params may change the parameter before the next fit
        if self._weights == "uniform":
            self.precision_ = UNIFORM_PRECISION
        self.index_: Any = None
        self._search: NeighborSearch = self._metric_search(X) if self.index is None else self._index_search(X)

    def _resolve_n_neighbors(self, n: int) -> int:
        if self.n_neighbors is None:
            return min(DEFAULT_NEIGHBORS, n)
        if not is_integer(self.n_neighbors):
            share = round(float(self.n_neighbors) * n, 6)  # 0.07 * 100 is slightly above 7
            return max(math.ceil(share), 1)
        if self.n_neighbors > n:
            wanted, remedy = f"at most the number of training rows, {n}", "give fewer, or a share between 0 and 1."
            raise parameter_error(type(self).__name__, "n_neighbors", wanted, self.n_neighbors, remedy)
        return int(self.n_neighbors)

    def _metric_search(self, X: Floats) -> NeighborSearch:
        metric = OTHER_NAMES.get(self.metric, self.metric) if isinstance(self.metric, str) else self.metric
        if isinstance(metric, str) and metric in ("euclidean", "cosine"):
            return exact_search(X, by_angle=metric == "cosine")
        try:
            return measured_search(X, metric)
        except ValueError as error:
            if "Unknown Distance Metric" not in str(error):
                raise
            wanted = "'euclidean', 'cosine', another metric of scipy.spatial.distance.cdist, or a function of two rows"
            raise parameter_error(type(self).__name__, "metric", wanted, self.metric) from error

    def _index_search(self, X: Floats) -> NeighborSearch:
        owner, settings = type(self).__name__, self.index.get_params()
        if any(name.endswith("mode") and value == "connectivity" for name, value in settings.items()):
            raise parameter_error(owner, "index", INDEX, self.index, "set its mode to 'distance'.")
        try:
            self.index_ = fit_label_free(
                self.index, X.copy()
            )  # a copy: it may keep the rows, and the caller may change them
        except (TypeError, ValueError) as error:
            raise parameter_error(owner, "index", f"{INDEX}, to these rows", self.index, f"{error}") from error
        search = IndexedSearch(self.index_, len(X))
        search.nearest(X[:1], self.n_neighbors_)  # raises now if its output is invalid
        return search

    def label_free_votes(self, Z: Floats, held: Any) -> SparseVotes:
        """Return the votes of the nearest training rows on each test row."""
        k, n = self.n_neighbors_, self.n_rows_
        neighbors = self._search.nearest(Z, k)
        starts = k * np.arange(len(Z) + 1)
        weights = csr_array((self._weigh(neighbors).ravel(), neighbors.rows.ravel(), starts), shape=(len(Z), n))
        if self._weights == "uniform":
            return SparseVotes(weights, np.zeros(len(Z), dtype=np.int64), k)
        return sparse_votes(weights, self.precision_, k)

    def _weigh(self, neighbors: Neighbors) -> Floats:
        if callable(self._weights):
            return _weigh_row_by_row(self._weights, neighbors.distances)
        return _inverse(neighbors.distances) if self._weights == "distance" else np.ones(neighbors.rows.shape)

    def _votes_per_row(self) -> int:
        return self.n_neighbors_

    def _numbers_per_row(self) -> int:
        """Count the distances to all rows (none for an index), and the neighbours with their weights."""
        return (0 if self.index_ is not None else self.n_rows_) + 5 * self.n_neighbors_

    def learner_assumptions(self) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        found: list[Assumption] = []
        if self.index_ is not None:
            found += label_free_assumptions(self.index, "neighbour index")
        for name in ("weights", "metric"):
            given = getattr(self, name)
            if callable(given):
                found.append(Assumption("custom-function", {"parameter": name, "function": name_of(given)}))
        return found


def _inverse(distances: Floats) -> Floats:
    """Return one over each distance; if that is infinite somewhere in a row, 1 there and 0 elsewhere in the row."""
    with np.errstate(divide="ignore", over="ignore"):
        weights = 1 / distances
    hits = np.isinf(weights)
    return np.where(hits.any(axis=1, keepdims=True), hits, weights)


def _weigh_row_by_row(weigh: Callable[[Floats], Any], distances: Floats) -> Floats:
    """Return the function's weights; it gets the distances of each row in ascending order, as in scikit-learn."""
    order = np.argsort(distances, axis=1, kind="stable")
    in_order = np.take_along_axis(distances, order, axis=1)

    def weigh_all() -> list[Floats]:
        return [_checked_weights(weigh(row[None, :]), len(row)) for row in in_order]

    weights = np.empty(distances.shape)
    np.put_along_axis(weights, order, np.vstack(on_one_thread(weigh_all)), axis=1)
    return weights


def _checked_weights(answer: Any, k: int) -> Floats:
    weights = np.asarray(answer, dtype=np.float64)
    if weights.shape != (1, k) or not np.all(np.isfinite(weights)):
        what = f"shape {weights.shape}" if weights.shape != (1, k) else "NaN or infinity"
        raise ValueError(
            f"The 'weights' function must return finite weights, one per distance, shape (1, {k}) for one test row. "
            f"Got {what} instead."
        )
    return weights
