"""Certified regressors: ridge, kernel ridge, nearest neighbours and forests, on the geometries of the classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from flipproof.adversary import Adversary
from flipproof.core.ballots import cast
from flipproof.core.rounding import Floats, Integers
from flipproof.core.target_medians import median_moves, median_reach
from flipproof.core.target_rows import RowPower, RowReach
from flipproof.core.targets import (
    NEVER,
    ListedVotes,
    NumberRule,
    Reach,
    Reachable,
    Units,
    listed_votes,
    rows_at_a_time,
)
from flipproof.core.votes import VoteSource
from flipproof.intervals import CertifiedIntervals
from flipproof.learners.base import MEMORY_BUDGET
from flipproof.learners.forest import CertifiedForestClassifier
from flipproof.learners.kernel import CertifiedKernelClassifier
from flipproof.learners.kernel_values import Kernel
from flipproof.learners.nearest_rows import in_order
from flipproof.learners.neighbor_search import ExactSearch
from flipproof.learners.neighbors import CertifiedNeighborsClassifier
from flipproof.learners.prior import features_in
from flipproof.learners.regression import CertifiedRegressor, Question, certified_parts
from flipproof.learners.regression_rows import (
    BYTES_IN_ORDER,
    OrderedRows,
    OrderedTiles,
    adversary_adds,
    reach_of_nearest,
)
from flipproof.learners.ridge import CertifiedRidgeClassifier, coefficient_products
from flipproof.learners.targets_in_memory import CLIP, PLACEHOLDER_CLASSES, named_after
from flipproof.origins import Origin
from flipproof.parameters import BOOLEAN, Constraints, number, one_of


@named_after("CertifiedRidgeRegressor")
class RidgeGeometry(CertifiedRidgeClassifier):
    """The geometry of ridge regression."""

    def slope_votes(self) -> Any:
        """Return the votes of training targets on the coefficients of all columns."""
        votes = coefficient_products(self._rule).of(self._held)
        return votes if self._ballots is None else cast(votes, self._ballots, self.precision_)


@named_after("CertifiedKernelRegressor")
class KernelGeometry(CertifiedKernelClassifier):
    """The geometry of kernel ridge regression."""


@named_after("CertifiedNeighborsRegressor")
class NeighborsGeometry(CertifiedNeighborsClassifier):
    """The geometry of nearest neighbours."""

    def refuse_weights_against_rows(self) -> None:
        """Refuse weights and metrics without certificates against changed rows."""
        self._check_row_changes("exact", self.powers(None))

    def _search(self) -> ExactSearch:
        assert isinstance(self._held, ExactSearch)
        return self._held

    def ordered(self, Z: Any) -> OrderedRows:
        """Return all training rows in order, for each test row of a block."""
        search, features = self._search(), features_in(Z)
        if not self.n_rows_:
            nothing = np.zeros((len(features), 0), dtype=np.int64)
            return OrderedRows(nothing, nothing.astype(bool), np.zeros(len(features), dtype=bool))
        relative, own_squares = search.compare(features)
        listed = in_order(relative, search.contents, self.n_rows_)
        first = np.take_along_axis(relative, listed.rows[:, :1], axis=1)[:, 0] + own_squares
        return OrderedRows(listed.rows, listed.ends_pile, first == 0)

    def has_nearest(self, Z: Any) -> bool:
        """Tell whether a copy of each test row would be nearer than any other row could be."""
        return self._search().has_nearest(features_in(Z))


@named_after("CertifiedForestRegressor")
class ForestGeometry(CertifiedForestClassifier):
    """The geometry of forests."""


class CertifiedRidgeRegressor(CertifiedRegressor):
    """Ridge regression with an exact interval for every prediction: where changed training targets can move it.

    A prediction is ``f(z) = y0 + sum_j alpha_j(z) (y_j - y0)``, where the weights alpha are those of ridge regression,
    read features alone, and are rounded to integer votes. Changing target j within the target range moves it by at
    most ``|alpha_j|`` times the distance to an end of the range, so the r largest of these add up to the exact interval
    under any r changed targets. See `docs/regression.md`.

    Parameters
    ----------
    regularization : "label-free" or float, default="label-free"
        The ridge parameter lambda. ``"label-free"``: the mean eigenvalue of the centred Gram matrix, which reads no
        target. Smaller values usually fit better, and are easier to move.
    fit_intercept : bool, default=True
        Whether to centre the features and add an intercept.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row is much louder than others, as for the classifier. Predictions
        are then usually nearer to the middle of the range, and harder to move.
    target_range : pair of numbers, optional
        The lowest and highest possible target, (low, high). An attacker cannot leave it either. If omitted, it is read
        from the training targets, and certificates assume that it is fixed.
    precision : int, default=16
        Bits per vote, 2 to 24. Weights are rounded to integer votes; predictions and intervals both use these votes.
    features : transformer, optional
        Cloned and fitted on the training features *without* targets. Random states that are not integers are set to 0.
    block_size : int, optional
        Test rows certified at a time; by default as many as fit in 256 MiB. It does not affect results.

    Attributes
    ----------
    coef_ : floats of shape (k,)
        The coefficients of the columns, as :meth:`certify_coefficients` has them.
    regularization_ : float
        The lambda that was used.
    target_range_ : pair of floats
        The target range that was used.
    n_features_in_ : int
        Number of input columns.

    See Also
    --------
    flipproof.CertifiedRidgeClassifier : Ridge regression, as in the paper.
    flipproof.CertifiedKernelRegressor : Kernel ridge regression for numbers.
    flipproof.CertifiedIntervals : Exact intervals of regressors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof import CertifiedRidgeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
    >>> found = model.certify(X[300:], flips=5, tolerance=20)
    >>> print(f"{found.prediction[0]:.1f} is between {found.low[0]:.1f} and {found.high[0]:.1f} after any 5 changes")
    191.2 is between 171.5 and 204.9 after any 5 changes
    """

    parameter_constraints: ClassVar[Constraints] = {
        "regularization": one_of("label-free") | number(0, closed="low"),
        "fit_intercept": BOOLEAN,
        "clip": CLIP,
    }

    def __init__(
        self,
        *,
        regularization: str | float = "label-free",
        fit_intercept: bool = True,
        clip: str | float | None = None,
        target_range: Any = None,
        precision: int = 16,
        features: Any = None,
        block_size: int | None = None,
    ):
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.target_range = target_range
        self.precision = precision
        self.features = features
        self.block_size = block_size

    def _new_geometry(self) -> RidgeGeometry:
        return RidgeGeometry(
            regularization=self.regularization,
            fit_intercept=self.fit_intercept,
            clip=self.clip,
            precision=self.precision,
            features=self.features,
            classes=PLACEHOLDER_CLASSES,
        )

    @property
    def regularization_(self) -> float:
        """The lambda that was used."""
        return self._geometry_of(RidgeGeometry).regularization_

    @property
    def coef_(self) -> Floats:
        """The coefficients of the columns."""
        return self.certify_coefficients(flips=0).prediction

    def certify_coefficients(
        self, flips: int | Sequence[int] | None = None, *, adversary: Adversary | None = None
    ) -> CertifiedIntervals:
        """Certify how far changed training targets can move each coefficient, and how many turn its sign.

        A coefficient is a weighted sum of the targets too, so that its interval is exact in the same way (M16).

        Parameters
        ----------
        flips : int, or several, optional
            Numbers of changed targets. Default: 1.
        adversary : Adversary, optional
            As for :meth:`certify`.

        Returns
        -------
        CertifiedIntervals
            One line per column, in units of the target per unit of the column; `radius` is the largest number of
            changes after which the coefficient still has its sign; 0 for a coefficient of 0. If `features` is a
            StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler, columns are those of its input, in their own
            units; so are columns of numbers that a :class:`~flipproof.tables.TableEncoder` standardises. With any other
            step, columns are those of its output.
        """
        check_is_fitted(self)
        if self._geometry._clip is not None:
            raise ValueError("Coefficients need clip=None: clipped votes are not linear in the columns.")
        if self.n_reference_ is not None:
            raise ValueError(
                "Coefficients need a fit without reference=...: votes of rows beyond the reference end at a limit, and "
                "are not linear in the columns."
            )
        question, reachable = self._question(flips, None, 0.0), self._reachable(adversary)
        source, parts = self._geometry_of(RidgeGeometry).slope_votes(), []
        size = self.block_size or rows_at_a_time(self.n_rows_, MEMORY_BUDGET)
        steps = self._steps_per_unit(len(source.exponent))
        for start in range(0, len(source.exponent), size):
            some = source.on_rows(slice(start, start + size))
            listed = listed_votes(some)
            reach = self._reach(listed, reachable)
            units = replace(self._units(listed, some), origin=0.0)
            value, low, high, _ = certified_parts(reach, units, question)
            per_unit = steps[start : start + size]
            ends = (one * per_unit[:, None] for one in (low, high))
            parts.append((value * per_unit, *ends, _turning(reach)))
        names = self._names_of_columns(len(source.exponent))
        origin = Origin(np.arange(len(source.exponent)), names=names)
        return self._intervals(parts, question, reachable, adversary, origin, "coefficient")

    def _steps_per_unit(self, n_columns: int) -> Floats:
        """Return how far each column of the geometry moves if the column of the user moves by 1; all are positive.

        Soundness: multiplication by a positive number that reads no target is monotone, so intervals stay exact.
        """
        features = getattr(self.features_, "encoded_features", None)
        if features is not None:
            return np.array([one.scale for one in features()], dtype=np.float64)
        scales = getattr(self.features_, "scale_", None)
        if type(self.features_) not in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler) or scales is None:
            return np.ones(n_columns)
        steps = np.asarray(scales, dtype=np.float64)
        return steps if isinstance(self.features_, MinMaxScaler) else 1 / steps

    def _names_of_columns(self, n_columns: int) -> list[Any] | None:
        """Return the names of the columns that have coefficients, if they are known."""
        if self.features_ is None:
            return list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        try:
            names = list(self.features_.get_feature_names_out())
        except (AttributeError, ValueError, TypeError):  # the step does not name its output
            return None
        return names if len(names) == n_columns else None


def _turning(reach: Reach) -> Integers:
    """Return the fewest changes after which each integer no longer has its sign; 1 for 0, so that its radius is 0."""
    zero = np.zeros_like(reach.value)
    fewest = np.where(reach.value > 0, reach.fewest(zero, upward=False), reach.fewest(zero, upward=True))
    return np.where(reach.value == 0, 1, np.minimum(fewest, NEVER))


class CertifiedKernelRegressor(CertifiedRegressor):
    """Kernel ridge regression with an exact interval for every prediction: where changed targets can move it.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        As for :class:`CertifiedKernelClassifier`.
    gamma : float, optional
        As for :class:`CertifiedKernelClassifier`: by default from the distances of training rows.
    degree, coef0
        Parameters of ``"poly"``.
    regularization : "label-free" or float, default="label-free"
        The ridge parameter lambda, as for :class:`CertifiedKernelClassifier`.
    n_components : int, optional
        Number of landmarks, as for :class:`CertifiedKernelClassifier`.
    fit_intercept : bool, default=True
        Whether to centre the kernel and add an intercept.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row is much louder than others, as for the classifier. Predictions
        are then usually nearer to the middle of the range, and harder to move.
    target_range : pair of numbers, optional
        The lowest and highest possible target, (low, high). If omitted, it is read from the training targets, and
        certificates assume that it is fixed.
    precision : int, default=16
        Bits per vote, 2 to 24. Weights are rounded to integer votes; predictions and intervals both use these votes.
    features : transformer, optional
        Cloned and fitted on the training features *without* targets.
    block_size : int, optional
        Test rows certified at a time. It does not affect results.

    Attributes
    ----------
    target_range_ : pair of floats
        The target range that was used.
    n_features_in_ : int
        Number of input columns.

    See Also
    --------
    flipproof.CertifiedKernelClassifier : Kernel ridge regression.
    flipproof.CertifiedRidgeRegressor : Ridge regression for numbers.
    flipproof.CertifiedIntervals : Exact intervals of regressors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof import CertifiedKernelRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CertifiedKernelRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
    >>> model.certify(X[300:], flips=5)
    <CertifiedIntervals: 142 predictions, median widths 32.6 at 5 changed targets>
    """

    parameter_constraints: ClassVar[Constraints] = {"clip": CLIP}

    def __init__(
        self,
        kernel: Kernel = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        regularization: str | float = "label-free",
        n_components: int | None = None,
        fit_intercept: bool = True,
        clip: str | float | None = None,
        target_range: Any = None,
        precision: int = 16,
        features: Any = None,
        block_size: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.regularization = regularization
        self.n_components = n_components
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.target_range = target_range
        self.precision = precision
        self.features = features
        self.block_size = block_size

    def _new_geometry(self) -> KernelGeometry:
        return KernelGeometry(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            regularization=self.regularization,
            n_components=self.n_components,
            fit_intercept=self.fit_intercept,
            clip=self.clip,
            precision=self.precision,
            features=self.features,
            classes=PLACEHOLDER_CLASSES,
        )


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
        self, X: Any, y: Any = None, sample_weight: Any = None, reference: Any = None, trusted: Any = None
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
        return super().rule if self._average == "mean" else NumberRule("median", self._grid, 0, 1.0)

    def nearest(self, X: Any) -> Iterator[tuple[OrderedRows, Floats]]:
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
        return Units(self._grid.low, np.ones(shape, dtype=np.int64), np.full(shape, self._grid.exponent))

    def _value(self, listed: ListedVotes, as_it_is: Reachable) -> Integers:
        return super()._value(listed, as_it_is) if self._average == "mean" else median_reach(listed, as_it_is).value

    def _reach(self, listed: ListedVotes, reachable: Reachable) -> Reach:
        return super()._reach(listed, reachable) if self._average == "mean" else median_reach(listed, reachable)

    def _certify_rows(self, X: Any, question: Question, adversary: Adversary) -> CertifiedIntervals:
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
        targets = self._integers - self._origin if is_mean else self._integers
        ways = self._ways if is_mean else (self._grid.steps, 0)

        def reach_of(row: int, upward: bool) -> RowReach:
            median = None if is_mean else int(value[row])
            ordered, place = tiles.of(row)
            return reach_of_nearest(ordered, place, targets, ways, power, upward, k, median)

        return reach_of

    def _attains_row_ends(self, Z: Any, source: VoteSource, adversary: Adversary) -> bool:
        return not adversary_adds(adversary) or self._geometry_of(NeighborsGeometry).has_nearest(Z)

    def _best_changes(
        self, listed: ListedVotes, reachable: Reachable, flips: int, upward: bool
    ) -> tuple[Integers, NDArray[np.bool_]]:
        if self._average == "mean":
            return super()._best_changes(listed, reachable, flips, upward)
        return median_moves(median_reach(listed, reachable), listed.members[0], flips, upward)


class CertifiedForestRegressor(CertifiedRegressor):
    """A forest whose trees never see a target, with an exact interval: where changed targets can move a prediction.

    Each tree predicts the mean target of a leaf, and the forest the mean over trees, by weights that are rounded to
    integer votes. See :class:`CertifiedForestClassifier` for how trees grow without targets.

    Parameters
    ----------
    n_estimators, max_depth, min_samples_leaf, max_features, random_state
        As for :class:`CertifiedForestClassifier`.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row is much louder than others, as for the classifier. Predictions
        are then usually nearer to the middle of the range, and harder to move.
    target_range : pair of numbers, optional
        The lowest and highest possible target, (low, high). If omitted, it is read from the training targets, and
        certificates assume that it is fixed.
    precision : int, default=16
        Bits per vote, 2 to 24. Weights are rounded to integer votes; predictions and intervals both use these votes.
    features : transformer, optional
        Cloned and fitted on the training features *without* targets.
    block_size : int, optional
        Test rows certified at a time. It does not affect results.
    n_jobs : int, optional
        Threads over trees in `fit`, as in joblib. It does not affect results.

    Attributes
    ----------
    target_range_ : pair of floats
        The target range that was used.
    n_features_in_ : int
        Number of input columns.

    See Also
    --------
    flipproof.CertifiedForestClassifier : Rows in the same leaves vote.
    flipproof.CertifiedNeighborsRegressor : Nearest rows for numbers.
    flipproof.CertifiedIntervals : Exact intervals of regressors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof import CertifiedForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CertifiedForestRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
    >>> model.certify(X[300:], flips=5)
    <CertifiedIntervals: 142 predictions, median widths 63.9 at 5 changed targets>
    """

    parameter_constraints: ClassVar[Constraints] = {"clip": CLIP}

    _is_mean = True

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int | None = None,
        min_samples_leaf: int | float = 0.02,
        max_features: str | int | float | None = "sqrt",
        random_state: int = 0,
        clip: str | float | None = None,
        target_range: Any = None,
        precision: int = 16,
        features: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ):
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.random_state = random_state
        self.clip = clip
        self.target_range = target_range
        self.precision = precision
        self.features = features
        self.block_size = block_size
        self.n_jobs = n_jobs

    def _new_geometry(self) -> ForestGeometry:
        return ForestGeometry(
            self.n_estimators,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            random_state=self.random_state,
            clip=self.clip,
            precision=self.precision,
            features=self.features,
            classes=PLACEHOLDER_CLASSES,
            n_jobs=self.n_jobs,
        )
