"""Certified ridge regression on class indicators: the paper's classifier, and one with an intercept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.assumptions import Assumption
from flipproof.core.gains import GainBounds
from flipproof.core.invariants import check_finite
from flipproof.core.linalg import HALF_BITS, LONG_PASSES, Whitening, whiten
from flipproof.core.noise import LabelFlip
from flipproof.core.rounding import Floats, Integers, above, bits_left, grid_exponent, scale, to_grid
from flipproof.core.votes import EstimatedScores, ProductVotes, VoteSource, class_sums, estimate_scores
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.label_linear import LabelLinearParameters
from flipproof.parameters import BOOLEAN, Constraints, number, one_of
from flipproof.runtime.determinism import on_one_thread
from flipproof.runtime.progress import CountedProgress

#: Bits to which a length is rounded up before it is squared, so that sums of squares are exact.
LENGTH_BITS = 16


class LabelDependenceWarning(UserWarning):
    """A certificate assumes something to be fixed that was computed from the labels that it protects.

    See Also
    --------
    flipproof.CertifiedRidgeClassifier : Ridge regression, as in the paper.
    """


class RidgeParameters(LabelLinearParameters):
    """The parameters of ridge learners, in memory and in blocks, and the assumptions about them."""

    regularization_: float

    parameter_constraints: ClassVar[Constraints] = {
        "regularization": one_of("label-free", "paper") | number(0, closed="low"),
        "fit_intercept": BOOLEAN,
    }

    def __init__(
        self,
        noise: object = 0.1,
        *,
        regularization: str | float = "label-free",
        fit_intercept: bool = True,
        clip: str | float | None = None,
        prior: object = None,
        prior_weight: float = 1.0,
        method: str = "exact",
        precision: int = 10,
        features: object = None,
        classes: ArrayLike | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            noise,
            clip=clip,
            prior=prior,
            prior_weight=prior_weight,
            method=method,
            precision=precision,
            features=features,
            classes=classes,
            block_size=block_size,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.regularization = regularization
        self.fit_intercept = fit_intercept

    def validate_parameters(self) -> None:
        """Refuse parameters that `fit` cannot use."""
        super().validate_parameters()
        if self.regularization == "paper" and self.noise == "auto":
            raise ValueError(
                "regularization='paper' needs a single noise q. Got noise='auto' instead: give q as a number."
            )

    def learner_assumptions(self) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        if self.regularization == "paper":
            return [Assumption("lambda-from-labels", {"regularization": float(self.regularization_)})]
        return []


class CertifiedRidgeClassifier(RidgeParameters, LabelLinearClassifier):
    """Ridge classifier with a certificate against changed training labels for every prediction.

    Parameters
    ----------
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs no noise.
        ``"auto"``: the best of a grid of q for each test row; only if the prediction does not depend on q (with an
        intercept, or more than two classes).
    regularization : {"label-free", "paper"} or float, default="label-free"
        The ridge parameter lambda. ``"label-free"``: the mean eigenvalue of the centred Gram matrix, which reads no
        label. ``"paper"``: the rule of the paper, ``(1 + q) sigma^2 k / (2 n) kappa(X'X)``, where sigma^2 is estimated
        from the labels: certificates then hold for that lambda, not for one estimated again after an attack.
    fit_intercept : bool, default=True
        Whether to centre the features and add a vote of 1/n for every label. False, with two classes, gives the paper's
        rule ``alpha' y >= 1/2``.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row has a much larger vote. A share in (0, 1]: votes are
        clipped to the size that this share of all votes other than 0 do not exceed. ``"sign"``: every vote is -1, 0 or
        1. Clipping usually increases radii; see `docs/poisoned-rows.md`.
    prior : classifier, optional
        A classifier that votes beside the training labels. If it is fitted, on data that nobody can change, it is used
        as it is; otherwise it is cloned and fitted to the trusted rows and labels of :meth:`fit`. It gets rows as they
        are given, before `features`. See `docs/trusted-labels.md`.
    prior_weight : float, default=1.0
        Weight of the prior. With 1, it counts as much as the votes of all rows that the geometry was learned from.
    method : {"exact", "tight", "kl"}, default="exact"
        Default of :meth:`certify`.
    precision : int, default=10
        Bits per vote, 2 to 24. Weights are rounded to integer votes; predictions and certificates both use these votes.
    features : transformer, optional
        Cloned and fitted on the training features *without* labels; a step that needs labels gets trusted ones only,
        see :meth:`fit`. Random states that are not integers are set to 0, so that a refit gives the same features.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    block_size : int, optional
        Test rows certified at a time; by default as many as fit in 256 MiB. It does not affect results.
    n_jobs : int, optional
        Threads over blocks of test rows, as in joblib. It does not affect results.
    verbose : int, default=0
        1: show progress and the time left on stderr in `fit`, `predict` and `certify`. It does not affect results.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    regularization_ : float
        The lambda that was used.
    precision_ : int
        Bits per vote that were used.
    noise_ : LabelFlip or None
        The noise with its number of classes; None for ``"auto"``.
    features_ : transformer or None
        The fitted `features`.
    prior_ : classifier or None
        The fitted `prior`.
    n_features_in_ : int
        Number of input columns.

    See Also
    --------
    flipproof.CertifiedKernelClassifier : Kernel ridge regression.
    flipproof.CertifiedNeighborsClassifier : The nearest rows vote.
    flipproof.StreamingRidgeClassifier : Ridge regression on more rows than memory.
    flipproof.CertifiedRidgeRegressor : Ridge regression for numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    >>> model.certify(X[1000:])
    <Certificates: 797 predictions, method 'exact', median radius 12 of 1000 labels>
    """

    _gets_a_copy = False

    def fit_without_labels(self, X: Floats) -> NDArray[np.float32]:
        """Decompose the features, and return the basis: the coordinates of these rows."""
        with CountedProgress(LONG_PASSES * len(X), "visits to training rows", self.verbose) as progress:
            self._whitening, basis = whiten(X, bool(self.fit_intercept), on_one_thread, progress.advance)
        self._regularization = self.regularization  # as fitted; set_params may change it before the next fit
        if self.n_reference_ is not None:
            refuse_rules_of_all_rows(self._whitening, len(self.classes_), self.regularization)
        return basis

    def place(self, X: Floats) -> NDArray[np.float32]:
        """Return the coordinates of training rows; those outside the range of the reference are clipped to it."""
        return self._whitening.basis(X)

    def _fit_with_labels(self, codes: Integers) -> None:
        """Sum the basis over each class, for fast predictions, and compute lambda."""
        labels = LabelSums.of(self._held, codes, len(self.classes_))
        self._rule = ridge_rule(self._whitening, labels, self._regularization, self.noise_, self.precision_)
        self.regularization_ = self._whitening.in_feature_units(self._rule.regularization)

    def _fit_with_more_labels(self, codes: Integers, n_before: int) -> None:
        self._rule = replace(self._rule, labels=self._rule.labels.with_more(self._held[n_before:], codes[n_before:]))

    def label_free_votes(self, Z: Floats, held: NDArray[np.float32]) -> ProductVotes:
        """Return the votes of training rows on a block of test rows: one matrix product."""
        return self._rule.products(Z).of(held)

    def largest_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Return the vote of a row whose coordinates are at the ends of their range, with the best signs."""
        assert isinstance(source, ProductVotes)
        return largest_products(source, self._whitening, self.precision_)

    def attains_largest_votes(self, Z: Floats, limit: Integers) -> bool:
        """Without a features step, construct rows with coordinates beyond their range, and look at their votes."""
        attained = self._attained_by_reference(Z, limit)
        if self.features_ is None and not attained.all():
            attained |= self._rule.largest_votes_found(Z) >= limit
        return bool(attained.all())

    def loudest_rows(self, X: object) -> Any:
        """Return, for each test row, a row whose vote on it is positive and large, as `fit` takes rows.

        Without a features step, its coordinates are beyond their range. Otherwise it is the test row itself.
        """
        return X if self.features_ is not None else self._rule.loudest_rows(self.test_features(X))

    def _estimated_scores(self, Z: Floats) -> EstimatedScores:
        return self._rule.estimated_scores(Z)

    def _products_held(self) -> tuple[Callable[[Floats], ProductVotes], GainBounds]:
        return self._rule.products, self._rule.labels.gain_bounds(self._held, self.label_codes_)

    def rule_depends_on_noise(self) -> bool:
        """Tell whether this is the paper's binary rule, whose offsets depend on the noise (M5)."""
        return is_paper_rule(self._whitening, len(self.classes_))

    def _deployed_offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats | None:
        return self._rule.offsets(votes, exponent)

    def numbers_per_row(self) -> int:
        """Return how many numbers are held per test row, besides the votes."""
        return 0


@dataclass(frozen=True)
class LabelSums:
    """What the rule reads from the training labels: the sums of the basis over each class, and the class counts.

    Attributes
    ----------
    sums : floats of shape (columns, classes)
        Exact integers.
    counts : integers of shape (classes,)
        Number of labels of each class.
    """

    sums: Floats
    counts: Integers

    @classmethod
    def of(cls, basis: NDArray[np.float32], codes: Integers, n_classes: int) -> LabelSums:
        """Sum rows in memory."""
        return cls(class_sums(basis, codes, n_classes), np.bincount(codes, minlength=n_classes))

    @cached_property
    def kept(self) -> dict[str, GainBounds]:
        """What is computed once, when it is first needed."""
        return {}

    def gain_bounds(self, basis: NDArray[np.float32], codes: Integers) -> GainBounds:
        """Return bounds on the votes of these rows, the ones that were summed."""
        if "gains" not in self.kept:
            self.kept["gains"] = GainBounds.of(basis, codes, len(self.counts))
        return self.kept["gains"]

    def with_more(self, basis: NDArray[np.float32], codes: Integers) -> LabelSums:
        """Return the sums with more rows; integers, so that the order of summation does not matter."""
        more = LabelSums.of(basis, codes, len(self.counts))
        return LabelSums(self.sums + more.sums, self.counts + more.counts)


@dataclass(frozen=True)
class RidgeRule:
    """The deployed rule of ridge regression on class indicators: the whole fit, except the training rows.

    Attributes
    ----------
    whitening : Whitening
        Maps rows to coordinates.
    regularization : float
        Lambda, in the units of the whitening's grid.
    labels : LabelSums
        Used to estimate scores.
    precision : int
        Bits per vote.
    noise : LabelFlip or None
        Noise of the paper's binary rule; None for all other rules.
    """

    whitening: Whitening
    regularization: float
    labels: LabelSums
    precision: int
    noise: LabelFlip | None = None

    @cached_property
    def shrinkage(self) -> Floats:
        """The factors by which ridge regression shrinks the coordinates, shape (rank,)."""
        return np.asarray(self.whitening.eigenvalues / (self.whitening.eigenvalues + self.regularization))

    def with_labels(self, labels: LabelSums) -> RidgeRule:
        """Return the rule, with the same lambda, for other training rows."""
        return replace(self, labels=labels)

    def products(self, Z: Floats) -> ProductVotes:
        """Return the factor of the votes that depends on test rows; the votes are ``products(Z).of(basis)``."""
        return ridge_products(self.whitening, self.shrinkage, Z, self.precision)

    def loudest_rows(self, Z: Floats) -> Floats:
        """Return, for each test row, finite features with coordinates beyond their range, as far as there are any."""
        signs = np.sign(self.products(Z).coefficients[:, : self.whitening.rank])
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(self.whitening.rows_beyond(signs, on_one_thread))

    def largest_votes_found(self, Z: Floats) -> Floats:
        """Return the vote of the loudest row on each test row."""
        coefficients, basis = self.products(Z).coefficients, self.whitening.basis(self.loudest_rows(Z))
        return np.asarray(np.rint(np.einsum("ij,ij->i", coefficients, basis, dtype=np.float64)))

    def estimated_scores(self, Z: Floats) -> EstimatedScores:
        """Return the scores without offsets, estimated from the sums of each class."""
        return estimate_scores(self.products(Z), self.labels.sums, self.labels.counts)

    def offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats | None:
        """The paper's binary rule ``alpha' y >= 1/2`` is the offset ``1 - sum(alpha)`` of class 0, scaled as in M5."""
        if self.noise is None:
            return None
        raw = scale(np.ones(len(votes)), exponent) - votes
        with np.errstate(over="ignore"):
            return np.stack([raw, np.zeros(len(votes))], axis=1) / self.noise.signal


def is_paper_rule(whitening: Whitening, n_classes: int) -> bool:
    """Tell whether ridge regression is deployed by the paper's rule: two classes, and no intercept."""
    return not whitening.is_centered and n_classes == 2


def refuse_rules_of_all_rows(whitening: Whitening, n_classes: int, regularization: str | float) -> None:
    """Refuse what depends on all training rows, for a geometry that was learned from a reference (M12)."""
    if regularization == "paper":
        raise ValueError(
            "regularization='paper' estimates lambda from all training rows and labels: it cannot be used with "
            "reference=... Use 'label-free' or a number."
        )
    if is_paper_rule(whitening, n_classes):
        raise ValueError(
            "fit_intercept=False with two classes is the paper's rule, whose offset depends on all training rows: "
            "it cannot be used with reference=... Use fit_intercept=True."
        )


def ridge_rule(
    whitening: Whitening, labels: LabelSums, regularization: str | float, noise: LabelFlip | None, precision: int
) -> RidgeRule:
    """Return the rule with its lambda. Only the paper's lambda reads labels, which triggers a warning.

    The warning points to the caller of `fit`: the frame four calls above this one, in memory and in blocks.
    """
    if regularization == "label-free":
        chosen = whitening.grid.variance / max(whitening.rank, 1)
    elif regularization == "paper" and noise is not None:
        chosen = whitening.in_grid_units(_paper_regularization(whitening, labels, noise.q))
        warnings.warn(
            "regularization='paper' estimates lambda from the labels: certificates hold for this lambda, not for "
            "one estimated again after an attack. Use 'label-free' or a number, except to reproduce the paper.",
            LabelDependenceWarning,
            stacklevel=5,
        )
    else:
        chosen = whitening.in_grid_units(float(regularization))
    deployed = noise if is_paper_rule(whitening, len(labels.counts)) else None
    return RidgeRule(whitening, chosen, labels, precision, deployed)


def _paper_regularization(whitening: Whitening, labels: LabelSums, q: float) -> float:
    """Return ``(1 + q) sigma^2 k / (2 n) kappa(X'X)``, where k is the numerical rank.

    sigma^2 is the residual variance of least squares over n - k; with K > 2 the mean over the class indicators.
    """
    n, k = whitening.n_rows, whitening.rank
    if n <= k:
        raise ValueError(
            f"regularization='paper' needs more rows than independent features. Got {n} rows and rank {k} instead: "
            "use 'label-free' or a number."
        )
    if k == 0:
        return 0.0
    # for each class indicator: its sum of squares, and its least-squares coordinates
    squares = labels.counts.astype(np.float64)
    fitted = scale(labels.sums, -whitening.basis_exponent[:, None])[:k]
    if whitening.is_centered:
        share = squares / n
        fitted = fitted - fitted.sum(axis=1, keepdims=True) * share
        squares = squares * (1 - share)
    residual = np.maximum(squares - (fitted**2).sum(axis=0), 0) / (n - k)
    if len(residual) == 2:  # the paper's y is the indicator of class 1
        residual = residual[1:]
    kappa = whitening.eigenvalues.max() / whitening.eigenvalues.min()
    return float((1 + q) * residual.mean() * k / (2 * n) * kappa)


def ridge_products(whitening: Whitening, shrinkage: Floats, Z: Floats, precision: int) -> ProductVotes:
    """Return the votes alpha on test rows, still without training rows; see :func:`_products_of`."""
    c = whitening.coordinates(Z) * shrinkage
    if whitening.is_centered:
        c = np.hstack([c, np.full((len(c), 1), 1 / whitening.n_rows)])
    return _products_of(whitening, c, precision)


def coefficient_products(rule: RidgeRule) -> ProductVotes:
    """Return the votes on the coefficients of all columns, in units of these columns: the slopes of the weights alpha.

    Coordinates are linear in the features, up to rounding: the slope in column i is a line of the rotation, times the
    number of grid steps in a unit of the column. The slope of columns without information and of the intercept is 0.
    """
    whitening = rule.whitening
    c = scale(whitening.slopes(), whitening.grid.exponent[:, None]) * rule.shrinkage
    c = np.where(whitening.grid.used[:, None], c, 0.0)
    if whitening.is_centered:
        c = np.hstack([c, np.zeros((len(c), 1))])
    return _products_of(whitening, c, rule.precision)


def _products_of(whitening: Whitening, c: Floats, precision: int) -> ProductVotes:
    """Return the votes ``sum_r c_r U_jr``, still without training rows, on a grid that does not depend on these rows.

    ``|alpha_j| <= sqrt(largest leverage) * |c| + 1/n`` by Cauchy and Schwarz, where c are the shrunken coordinates
    after rounding, as they are used: no vote needs more than `precision` bits.
    """
    columns = scale(c, -whitening.basis_exponent)
    bits = bits_left(columns.shape[1], HALF_BITS)
    fine = grid_exponent(np.abs(columns).max(axis=1, initial=0.0), bits)
    integers = to_grid(columns, fine[:, None], bits)
    rounded = np.abs(scale(integers, whitening.basis_exponent - fine[:, None]))
    bound = np.sqrt(whitening.largest_leverage) * _length_above(rounded[:, : whitening.rank])
    bound = above(bound + rounded[:, whitening.rank :].sum(axis=1))
    check_finite(bound)
    exponent = grid_exponent(bound, precision)
    exponent -= scale(bound, exponent) > 2.0**precision - 1
    no_rows = np.empty((0, columns.shape[1]), dtype=np.float32)
    return ProductVotes(scale(integers, (exponent - fine)[:, None]), no_rows, exponent)


def largest_products(votes: ProductVotes, whitening: Whitening, precision: int) -> Integers:
    """Return the largest vote of any row on each test row: of a row with all coordinates at the end of their range.

    Soundness: every number in a basis is an integer within that range, so no dot product is larger. The sum is exact,
    as the products are. The end of the grid of votes is another limit.
    """
    largest = np.rint(np.abs(votes.coefficients) @ whitening.largest_basis)
    return np.asarray(np.minimum(largest, 2.0**precision - 1), dtype=np.int64)


def _length_above(c: Floats) -> Floats:
    """Return an upper bound of the length of each row, slightly above it and the same in any order of summation."""
    exponent = grid_exponent(np.abs(c).max(axis=1, initial=0.0), LENGTH_BITS)
    coarse = np.ceil(scale(np.abs(c), exponent[:, None]))
    return scale(np.sqrt((coarse**2).sum(axis=1)), -exponent)
