"""What regressors keep of their training rows: a geometry, and targets on a grid."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from flipproof.assumptions import Assumption, as_assumption
from flipproof.core.rounding import Floats
from flipproof.core.target_rows import LARGEST_SUM
from flipproof.core.votes import LARGEST_PRECISION
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.certified import LABEL_FREE_TRANSFORMER
from flipproof.learners.in_memory import NeedsReference, all_or_nothing, mask_of_trusted, rows_to_forget
from flipproof.learners.label_linear import SMALLEST_PRECISION
from flipproof.learners.numeric_targets import TARGET_RANGE, TargetScale, checked_targets, refuse_outside
from flipproof.parameters import (
    NONE,
    Constraints,
    check_parameters,
    integer,
    one_of,
    share,
    with_methods,
)
from flipproof.values import check_nothing_masked

#: Classes that a geometry is told: it gets no target, so they matter only in that there are more than two, since the
#: paper's rule for two classes without an intercept has an offset that regression does not have.
PLACEHOLDER_CLASSES = (0, 1, 2)

Learner = TypeVar("Learner", bound=type)
Geometry = TypeVar("Geometry", bound=LabelLinearClassifier)


def named_after(regressor: str) -> Any:
    """Let a geometry call itself like the regressor in its messages; users know no other name."""

    def named(cls: Learner) -> Learner:
        cls.__name__ = regressor
        return cls

    return named


#: Valid limits of votes, as for classifiers.
CLIP = NONE | one_of("sign") | share(includes_all=True)


class TargetsInMemory(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose training rows and targets are arrays in memory: `fit`, `partial_fit` and `forget`.

    The geometry is that of the certified classifier with the same parameters, fitted to placeholders instead of labels.
    So nothing but the votes of a prediction depends on the targets, and votes are integers (M9, M16).
    """

    parameter_constraints: ClassVar[Constraints] = {
        "target_range": NONE | TARGET_RANGE,
        "precision": integer(SMALLEST_PRECISION, LARGEST_PRECISION, "the bits per vote"),
        "features": NONE | with_methods("fit", "transform", described=LABEL_FREE_TRANSFORMER),
        "block_size": NONE | integer(1),
    }

    target_range: Any
    precision: int
    features: Any
    block_size: int | None
    targets_: Floats
    is_trusted_: NDArray[np.bool_]
    target_range_: tuple[float, float]
    assumptions_: tuple[Assumption, ...]
    n_rows_: int

    @abstractmethod
    def _new_geometry(self) -> LabelLinearClassifier:
        """Return the classifier whose geometry this regressor uses, not fitted."""

    #: Functions that are about classes refuse such learners.
    predicts_numbers = True

    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        reference: object = None,
        trusted: object = None,
    ) -> Self:
        """Fit to training features and targets; targets enter only as what the votes weigh.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            Training features, or the input of `features`.
        y : array of shape (n,)
            Training targets: numbers within `target_range`.
        sample_weight : array of shape (n,), optional
            Weights of the targets, finite and not negative: a target has the vote of its row times its weight. They
            must have been chosen without targets; the geometry does not depend on them. Only the ratios of weights
            matter. Not for the median, nor against changed rows.
        reference : array or data frame of shape (r, k), optional
            Rows that nobody may have changed; their targets are not needed. If given, everything but the votes is
            learned from them, the `features` step included: certificates against added, removed and replaced rows,
            ``Adversary(changes="rows")``, are then possible. Ridge and kernel regression then predict the mean over all
            training rows of what each of them adds. Needs `target_range`.
        trusted : booleans of shape (n,), optional
            True for training rows whose targets nobody can change: they are trusted in every certificate of this model.
            If rows can be changed, these rows cannot be removed or replaced.

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
        with all_or_nothing(self):
            check_parameters(self)
            check_nothing_masked(y, "y")
            if reference is not None and self.target_range is None:
                raise ValueError(
                    f"{type(self).__name__}.fit(reference=...) needs target_range=(low, high): a range that is read "
                    "from the targets would change with the training rows."
                )
            if getattr(X, "comes_in_blocks", False) is not False:
                raise ValueError(
                    f"{type(self).__name__} needs all training rows in memory. Got {type(X).__name__} instead: give an "
                    "array or a data frame, or use StreamingRidgeRegressor."
                )
            targets = checked_targets(type(self).__name__, y)
            check_consistent_length(X, targets)
            placeholders = np.zeros(len(targets), dtype=np.int64)
            self._geometry = self._new_geometry().fit(X, placeholders, sample_weight=sample_weight, reference=reference)
            self._also_assumed: tuple[Assumption, ...] = ()
            self._state_of_geometry()
            is_read, has_intercept = self.target_range is None, bool(getattr(self, "fit_intercept", True))
            ends = (targets.min(), targets.max()) if is_read else self.target_range
            self._scale = TargetScale.of(type(self).__name__, ends, is_read, has_intercept)
            self.target_range_ = self._scale.range
            refuse_outside(targets, *self.target_range_)
            self._keep_targets(targets, self._trusted_mask(trusted, len(targets)))
        return self

    def _trusted_mask(self, trusted: object, n_rows: int) -> NDArray[np.bool_]:
        return np.zeros(n_rows, dtype=bool) if trusted is None else mask_of_trusted(trusted, n_rows)

    def _keep_targets(self, targets: Floats, is_trusted: NDArray[np.bool_]) -> None:
        """Keep the targets of the rows that vote."""
        self.targets_, self.is_trusted_, self.n_rows_ = targets, is_trusted, len(targets)
        for fixed in (self.targets_, self.is_trusted_):
            fixed.setflags(write=False)
        self._integers = self._scale.grid.integers(targets)
        self.n_reference_ = self._geometry.n_reference_
        self._check_sums()
        self.assumptions_ = self._fit_assumptions()

    #: Number of rows of the reference; None if the geometry was learned from the training rows.
    n_reference_: int | None = None

    @NeedsReference
    def partial_fit(self, X: object, y: object) -> Self:
        """Let more rows vote, as if they had been given to `fit`, after the others; to the last bit.

        Needs a fit with ``reference=...``.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            More training rows.
        y : array of shape (n,)
            Their targets, within the target range.

        Returns
        -------
        self

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40))
        >>> model.fit(X, y, reference=[[-1.0], [41.0]]).partial_fit([[5.1], [5.2]], [20.0, 20.0]).predict([[5.0]])
        array([11.])
        """
        check_nothing_masked(y, "y")
        more = checked_targets(type(self).__name__, y)
        refuse_outside(more, *self.target_range_)
        with all_or_nothing(self):
            geometry = copy(self._geometry)
            self._geometry = geometry.partial_fit(X, np.zeros(len(more), dtype=np.int64))
            is_trusted = np.concatenate([self.is_trusted_, np.zeros(len(more), dtype=bool)])
            self._keep_targets(np.concatenate([self.targets_, more]), is_trusted)
        return self

    @NeedsReference
    def forget(self, rows: object) -> Self:
        """Remove rows from the vote, as if they had never been given to `fit`; to the last bit.

        Needs a fit with ``reference=...``. What was learned from the reference is kept.

        Parameters
        ----------
        rows : integers, or booleans of shape (n,)
            Numbers of the training rows to withdraw, in the order of `fit` and `partial_fit`, or a mask.

        Returns
        -------
        self

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40))
        >>> model.fit(X, y, reference=[[-1.0], [41.0]]).forget([4, 5]).predict([[5.0]])
        array([5.2])
        """
        gone = rows_to_forget(rows, self.n_rows_)
        kept = np.delete(np.arange(self.n_rows_), gone)
        with all_or_nothing(self):
            geometry = copy(self._geometry)
            self._geometry = geometry.forget(gone)
            self._keep_targets(self.targets_[kept], self.is_trusted_[kept])
        return self

    def _geometry_of(self, kind: type[Geometry]) -> Geometry:
        """Return the fitted geometry, whose class is known."""
        check_is_fitted(self)
        assert isinstance(self._geometry, kind)
        return self._geometry

    def _state_of_geometry(self) -> None:
        """Copy what scikit-learn expects of a fitted estimator."""
        self.features_ = self._geometry.features_
        for name in ("n_features_in_", "feature_names_in_"):  # texts and node numbers have no columns
            self.__dict__.pop(name, None)
            if hasattr(self._geometry, name):
                setattr(self, name, getattr(self._geometry, name))

    def _check_sums(self) -> None:
        owner, precision = type(self).__name__, self._geometry.precision_
        if self.n_reference_ is not None and self._most_row_changes() < max(self.n_rows_, 1):
            raise ValueError(
                f"{owner}.fit(reference=...) with precision={self.precision} and {self.n_rows_:,} training rows has "
                "sums beyond 53 bits: lower the precision."
            )
        self._scale.check_sums(owner, self.n_rows_, precision, self.precision)

    def _fit_assumptions(self) -> tuple[Assumption, ...]:
        n_trusted = int(np.count_nonzero(self.is_trusted_))
        return self._scale.assumptions(n_trusted, self.n_rows_, self._geometry.assumptions_, self._also_assumed)

    def also_assume(self, assumption: Assumption | str) -> None:
        """Add an assumption to the certificates of this fit, and of rows that join or leave it."""
        self._also_assumed = (*self._also_assumed, as_assumption(assumption))
        self.assumptions_ = self._fit_assumptions()

    def _most_row_changes(self) -> int:
        """Return how many rows an adversary can add before sums might not be exact in floats."""
        farthest = max(abs(way) for way in self._scale.ways)
        return int(LARGEST_SUM // max(2**self._geometry.precision_ * farthest, 1)) - self.n_rows_
