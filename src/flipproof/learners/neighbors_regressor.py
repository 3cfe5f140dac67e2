"""The certified regressor of nearest neighbours: the mean or the median of their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.core.rounding import Floats, Integers
from flipproof.core.target_medians import median_moves, median_reach
from flipproof.core.target_rows import RowPower, RowReach
from flipproof.core.targets import (
    ListedVotes,
    NumberRule,
    Reach,
    Reachable,
    Units,
    listed_votes,
)
from flipproof.core.votes import VoteSource
from flipproof.intervals import CertifiedIntervals
from flipproof.learners.label_linear import MEMORY_BUDGET
from flipproof.learners.nearest_rows import in_order
from flipproof.learners.neighbor_search import ExactSearch
from flipproof.learners.neighbors import CertifiedNeighborsClassifier
from flipproof.learners.number_questions import Question
from flipproof.learners.prior import features_in
from flipproof.learners.regression import CertifiedRegressor
from flipproof.learners.regression_rows import (
    BYTES_IN_ORDER,
    OrderedRows,
    OrderedTiles,
    adversary_adds,
    reach_of_nearest,
)
from flipproof.learners.targets_in_memory import PLACEHOLDER_CLASSES, named_after
from flipproof.parameters import Constraints, one_of


@named_after("CertifiedNeighborsRegressor")
class NeighborsGeometry(CertifiedNeighborsClassifier):
    """The geometry of nearest neighbours."""

    def refuse_weights_against_rows(self) -> None:
        """Refuse weights and metrics without certificates against changed rows."""
        self._check_row_changes("exact", self.powers(None))

    def _search(self) -> ExactSearch:
        assert isinstance(self._held, ExactSearch)
        return self._held

    def ordered(self, Z: object) -> OrderedRows:
        """Return all training rows in order, for each test row of a block."""
        search, features = self._search(), features_in(Z)
        if not self.n_rows_:
            nothing = np.zeros((len(features), 0), dtype=np.int64)
            return OrderedRows(nothing, nothing.astype(bool), np.zeros(len(features), dtype=bool))
        relative, own_squares = search.compare(features)
        listed = in_order(relative, search.contents, self.n_rows_)
        first = np.take_along_axis(relative, listed.rows[:, :1], axis=1)[:, 0] + own_squares
        return OrderedRows(listed.rows, listed.ends_pile, first == 0)

    def has_nearest(self, Z: object) -> bool:
        """Tell whether a copy of each test row would be nearer than any other row could be."""
        return self._search().has_nearest(features_in(Z))


class CertifiedNeighborsRegressor(CertifiedRegressor):
    """The mean or median target of the nearest rows, with an exact interval: where changed targets can move it.

    Rows with equal features vote together, as in :class:`CertifiedNeighborsClassifier`. The median of an even number of
    targets is the lower one of the two in the middle. The median is hard to move: before half of the neighbours have
    been changed, it stays among the targets of the others.

    Parameters
    ----------
    n_neighbors : int or float, optional
        Number of rows that vote, or their share of all rows; as for :class:`CertifiedNeighborsClassifier`.
    average : {"mean", "median"}, default="mean"
        How targets are averaged.
    weights : {"uniform", "distance"}, default="uniform"
        Weight of each neighbour; "median" needs "uniform".
    metric : str or callable, default="euclidean"
        As for :class:`CertifiedNeighborsClassifier`.
    target_range : pair of numbers, optional
        The lowest and highest possible target, (low, high). If omitted, it is read from the training targets, and
        certificates assume that it is fixed.
    precision : int, default=16
        Bits per vote, 2 to 24. Uniform votes are 1 at any precision.
    features : transformer, optional
        Cloned and fitted on the training features *without* targets.
    block_size : int, optional
        Test rows certified at a time. It does not affect results.

    Attributes
    ----------
    n_neighbors_ : int
        Number of rows that vote, without further rows with equal features.
    target_range_ : pair of floats
        The target range that was used.
    n_features_in_ : int
        Number of input columns.

    See Also
    --------
    flipproof.CertifiedNeighborsClassifier : The nearest rows vote.
    flipproof.CertifiedForestRegressor : The same trees for numbers.
    flipproof.CertifiedIntervals : Exact intervals of regressors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof import CertifiedNeighborsRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CertifiedNeighborsRegressor(25, average="median", target_range=(25, 350)).fit(X[:300], y[:300])
    >>> model.certify(X[300:], flips=[1, 5])
    <CertifiedIntervals: 142 predictions, median widths 14 at 1, 79 at 5 changed targets>
    """

    parameter_constraints: ClassVar[Constraints] = {
        "average": one_of("mean", "median"),
        "weights": one_of("uniform", "distance"),
    }

    _is_mean = True

    def __init__(
        self,
        n_neighbors: int | float | None = None,
        *,
        average: str = "mean",
        weights: str = "uniform",
        metric: Any = "euclidean",
        target_range: Any = None,
        precision: int = 16,
        features: Any = None,
        block_size: int | None = None,
    ):
        self.n_neighbors = n_neighbors
        self.average = average
        self.weights = weights
        self.metric = metric
        self.target_range = target_range
        self.precision = precision
        self.features = features
        self.block_size = block_size

    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        reference: object = None,
        trusted: object = None,
    ) -> CertifiedNeighborsRegressor:
        """Fit to training features and targets; targets enter only as what the votes weigh.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            Training features, or the input of `features`.
        y : array of shape (n,)
            Training targets: numbers within `target_range`.
        sample_weight : array of shape (n,), optional
            Weights of the targets in the mean, not negative. They do not decide who the neighbours are. If all
            neighbours of a test row weigh 0, the prediction is the middle of the target range. Not for the median.
        reference, trusted
            As for :meth:`CertifiedRidgeRegressor.fit`. Without any neighbour, a mean is the middle of the range, and a
            median its low end.

        Returns
        -------
        self

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y).predict([[5.0]])
        array([5.])
        """
        if sample_weight is not None and self.average == "median":
            raise ValueError("average='median' takes no sample_weight: a median counts targets.")
        super().fit(X, y, sample_weight, reference, trusted)
        return self

    def _check_means_are_linear(self) -> None:
        if self._average == "median":
            raise ValueError("Means and gaps of medians are not certified: use average='mean'.")

    def _new_geometry(self) -> NeighborsGeometry:
        if self.average == "median" and self.weights != "uniform":
            raise ValueError("average='median' needs weights='uniform': a median counts targets.")
        self._average = self.average  # as fitted; set_params may change it before the next fit
        return NeighborsGeometry(
            self.n_neighbors,
            weights=self.weights,
            metric=self.metric,
            precision=self.precision,
            features=self.features,
            classes=PLACEHOLDER_CLASSES,
        )

    @property
    def n_neighbors_(self) -> int:
        """Number of rows that vote."""
        return self._geometry_of(NeighborsGeometry).n_neighbors_

    @property
    def rule(self) -> NumberRule:
        """How votes and targets make a prediction."""
        return super().rule if self._average == "mean" else NumberRule("median", self._scale.grid, 0, 1.0)

    def nearest(self, X: object) -> Iterator[tuple[OrderedRows, Floats]]:
        """Yield all training rows in order, for blocks of test rows, with the predictions."""
        geometry = self._geometry_of(NeighborsGeometry)
        Z = self._geometry.test_rows(X)
        for rows, source in self._blocks(Z):
            listed = listed_votes(source)
            value = self._value(listed, self._as_it_is())
            yield geometry.ordered(Z[rows]), self._units(listed, source).numbers(value)

    def _units(self, listed: ListedVotes, source: Any) -> Units:
        if self._average == "mean":
            return super()._units(listed, source)
        shape = len(listed.votes)
        return Units(self._scale.grid.low, np.ones(shape, dtype=np.int64), np.full(shape, self._scale.grid.exponent))

    def _value(self, listed: ListedVotes, as_it_is: Reachable) -> Integers:
        return super()._value(listed, as_it_is) if self._average == "mean" else median_reach(listed, as_it_is).value

    def _reach(self, listed: ListedVotes, reachable: Reachable) -> Reach:
        return super()._reach(listed, reachable) if self._average == "mean" else median_reach(listed, reachable)

    def _certify_rows(self, X: object, question: Question, adversary: Adversary) -> CertifiedIntervals:
        self._geometry.refuse_unless_frozen(adversary)
        self._check_votes_against_rows()
        return super()._certify_rows(X, question, adversary)

    def _check_votes_against_rows(self) -> None:
        self._geometry_of(NeighborsGeometry).refuse_weights_against_rows()

    def _row_reaches(
        self, Z: Any, source: VoteSource, listed: ListedVotes, value: Integers, power: RowPower
    ) -> Callable[[int, bool], RowReach]:
        is_mean, k, order = self._average == "mean", self.n_neighbors_, self._geometry_of(NeighborsGeometry).ordered
        tiles = OrderedTiles(
            lambda rows: order(Z[rows]), max(1, MEMORY_BUDGET // (BYTES_IN_ORDER * (self.n_rows_ + 1)))
        )
        targets = self._integers - self._scale.origin if is_mean else self._integers
        ways = self._scale.ways if is_mean else (self._scale.grid.steps, 0)

        def reach_of(row: int, upward: bool) -> RowReach:
            median = None if is_mean else int(value[row])
            ordered, place = tiles.of(row)
            return reach_of_nearest(ordered, place, targets, ways, power, upward, k, median)

        return reach_of

    def _attains_row_ends(self, Z: object, source: VoteSource, adversary: Adversary) -> bool:
        return not adversary_adds(adversary) or self._geometry_of(NeighborsGeometry).has_nearest(Z)

    def _best_changes(
        self, listed: ListedVotes, reachable: Reachable, flips: int, upward: bool
    ) -> tuple[Integers, NDArray[np.bool_]]:
        if self._average == "mean":
            return super()._best_changes(listed, reachable, flips, upward)
        return median_moves(median_reach(listed, reachable), listed.members[0], flips, upward)
