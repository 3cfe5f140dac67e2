"""Certified regressors whose predictions are weighted sums or means: ridge, kernel ridge and forests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from flipproof.adversary import Adversary
from flipproof.core.ballots import cast
from flipproof.core.rounding import Floats
from flipproof.core.targets import (
    listed_votes,
    rows_at_a_time,
)
from flipproof.intervals import CertifiedIntervals
from flipproof.learners.forest import CertifiedForestClassifier
from flipproof.learners.kernel import CertifiedKernelClassifier
from flipproof.learners.kernel_values import Kernel
from flipproof.learners.label_linear import MEMORY_BUDGET
from flipproof.learners.number_questions import as_question, certified_parts, turning
from flipproof.learners.regression import CertifiedRegressor
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
        Limits the votes on each test row, so that no row has a much larger vote, as for the classifier. Predictions
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
    flipproof.StreamingRidgeRegressor : Ridge regression for numbers, on more rows than memory.
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
        """Certify how far changed training targets can move each coefficient, and how many reverse its sign.

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

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from flipproof import CertifiedRidgeRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
        >>> model.certify_coefficients(flips=5).to_frame().loc[["bmi", "age"]].round(0)
             coefficient    low   high  radius     unit
        bmi        309.0  159.0  391.0      15  targets
        age         19.0  -74.0  111.0       0  targets
        """
        check_is_fitted(self)
        if self._geometry._clip is not None:
            raise ValueError("Coefficients need clip=None: clipped votes are not linear in the columns.")
        if self.n_reference_ is not None:
            raise ValueError(
                "Coefficients need a fit without reference=...: votes of rows beyond the reference end at a limit, and "
                "are not linear in the columns."
            )
        question, reachable = as_question(type(self).__name__, flips, None, 0.0), self._reachable(adversary)
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
            parts.append((value * per_unit, *ends, turning(reach)))
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
        Limits the votes on each test row, so that no row has a much larger vote, as for the classifier. Predictions
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


class CertifiedForestRegressor(CertifiedRegressor):
    """A forest whose trees never see a target, with an exact interval: where changed targets can move a prediction.

    Each tree predicts the mean target of a leaf, and the forest the mean over trees, by weights that are rounded to
    integer votes. See :class:`CertifiedForestClassifier` for how trees grow without targets.

    Parameters
    ----------
    n_estimators, max_depth, min_samples_leaf, max_features, random_state
        As for :class:`CertifiedForestClassifier`.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row has a much larger vote, as for the classifier. Predictions
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
