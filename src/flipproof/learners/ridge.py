"""Certified ridge regression on class indicators: the paper's classifier, and a better one."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from flipproof.assumptions import Assumption
from flipproof.core.invariants import check_finite
from flipproof.core.linalg import HALF_BITS, Whitening, whiten
from flipproof.core.rounding import Floats, Integers, above, bits_left, grid_exponent, scale, to_grid
from flipproof.core.votes import EstimatedScores, ProductVotes, class_sums, estimate_scores
from flipproof.learners.base import LabelLinearClassifier
from flipproof.parameters import BOOLEAN, Constraints, number, one_of

#: Bits to which a length is rounded up before it is squared, so that sums of squares are exact.
LENGTH_BITS = 16


class LabelDependenceWarning(UserWarning):
    """Something that a certificate takes as given was computed from the labels that it protects."""


class CertifiedRidgeClassifier(LabelLinearClassifier):
    """Ridge classifier whose every prediction comes with a certificate against changed training labels.

    Parameters
    ----------
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs none.
        ``"auto"``: the best of a grid of q for each test row, where the prediction does not depend on q (an intercept,
        or more than two classes).
    regularization : {"label-free", "paper"} or float, default="label-free"
        The ridge parameter lambda. ``"label-free"``: the mean eigenvalue of the centred Gram matrix, which reads no
        label. ``"paper"``: the rule of the paper, ``(1 + q) sigma^2 k / (2 n) kappa(X'X)``, whose sigma^2 reads the
        labels: certificates then hold for that lambda, not for one that is estimated again after an attack.
    fit_intercept : bool, default=True
        Whether to centre the features and let every label vote 1/n on top. False with two classes is the paper's rule
        ``alpha' y >= 1/2``.
    method : {"exact", "tight", "kl"}, default="exact"
        Default of :meth:`certify`.
    precision : int, default=10
        Bits of a vote, 2 to 24. Votes are integers: the certificate is about the rounded classifier, which is the one
        that predicts.
    features : transformer, optional
        Cloned and fitted on the training features *without* labels. Its random states, unless numbers, are set to 0: a
        refit must give the same features.
    classes : array of shape (K,), optional
        The class set. Without it, it is read from the labels, and that it is fixed becomes an assumption.
    block_size : int, optional
        Test rows that are certified at a time; by default as many as 256 MiB hold. No result depends on it.
    n_jobs : int, optional
        Threads over blocks of test rows, as in joblib. No result depends on it.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    regularization_ : float
        The lambda that was used.
    precision_ : int
        The bits of a vote that were used.
    noise_ : LabelFlip or None
        The noise with its number of classes; None for ``"auto"``.
    features_ : transformer or None
        The fitted `features`.
    n_features_in_ : int
        Number of input columns.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    >>> model.certify(X[1000:])
    <Certificates: 797 predictions, method 'exact', median radius 12 of 1000 labels>
    """

    parameter_constraints: ClassVar[Constraints] = {
        "regularization": one_of("label-free", "paper") | number(0, closed="low"),
        "fit_intercept": BOOLEAN,
    }

    def __init__(
        self,
        noise: Any = 0.1,
        *,
        regularization: str | float = "label-free",
        fit_intercept: bool = True,
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
        self.regularization = regularization
        self.fit_intercept = fit_intercept

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.regularization == "paper" and self.noise == "auto":
            raise ValueError("regularization='paper' needs one noise q. Got noise='auto' instead: give q as a number.")

    def fit_without_labels(self, X: Floats) -> None:
        """Decompose the training features."""
        self._whitening, self._basis = whiten(X, center=bool(self.fit_intercept))

    def _fit_with_labels(self, codes: Integers) -> None:
        """Sum up each class, for quick predictions, and settle lambda."""
        self._class_sums = class_sums(self._basis, codes, len(self.classes_))
        self._class_counts = np.bincount(codes, minlength=len(self.classes_))
        self._settle_regularization()

    def _settle_regularization(self) -> None:
        """Settle lambda, which reads labels only by the paper's rule."""
        mean_eigenvalue = self._whitening.grid.variance / max(self._whitening.rank, 1)
        if self.regularization == "label-free":
            regularization = mean_eigenvalue
        elif self.regularization == "paper" and self.noise_ is not None:
            regularization = self._whitening.in_grid_units(self._paper_regularization(self.noise_.q))
            warnings.warn(
                "regularization='paper' estimates lambda from the labels: certificates hold for this lambda, not for "
                "one that is estimated again after an attack. Use 'label-free' or a number outside reproductions.",
                LabelDependenceWarning,
                stacklevel=5,
            )
        else:
            regularization = self._whitening.in_grid_units(float(self.regularization))
        self.regularization_ = self._whitening.in_feature_units(regularization)
        eigenvalues = self._whitening.eigenvalues
        self._shrinkage = eigenvalues / (eigenvalues + regularization)

    def _paper_regularization(self, q: float) -> float:
        """Return ``(1 + q) sigma^2 k / (2 n) kappa(X'X)``, k being the numerical rank.

        sigma^2 is the residual variance of least squares over n - k; with K > 2 the mean over the class indicators.
        """
        n, k = self._whitening.n_rows, self._whitening.rank
        if n <= k:
            raise ValueError(
                f"regularization='paper' needs more rows than independent features. Got {n} rows and rank {k} instead: "
                "use 'label-free' or a number."
            )
        if k == 0:
            return 0.0
        # of each class indicator: its sum of squares, and how much of it least squares explains
        squares = self._class_counts.astype(np.float64)
        fitted = scale(self._class_sums, -self._whitening.basis_exponent[:, None])[:k]
        if self._whitening.is_centered:
            share = squares / n
            fitted = fitted - fitted.sum(axis=1, keepdims=True) * share
            squares = squares * (1 - share)
        residual = np.maximum(squares - (fitted**2).sum(axis=0), 0) / (n - k)
        if len(residual) == 2:  # the paper's y is the indicator of class 1
            residual = residual[1:]
        eigenvalues = self._whitening.eigenvalues
        kappa = eigenvalues.max() / eigenvalues.min()
        return float((1 + q) * residual.mean() * k / (2 * n) * kappa)

    def _votes(self, Z: Floats) -> ProductVotes:
        return self._products(Z).of(self._basis)

    def _products(self, Z: Floats) -> ProductVotes:
        """Return what the votes on test rows are made of; those of training rows are ``_products(Z).of(basis)``."""
        return ridge_products(self._whitening, self._shrinkage, Z, self.precision_)

    def _estimated_scores(self, Z: Floats) -> EstimatedScores:
        return estimate_scores(self._products(Z), self._class_sums, self._class_counts)

    def _rule_depends_on_noise(self) -> bool:
        return not self._whitening.is_centered and len(self.classes_) == 2

    def _deployed_offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats | None:
        """The paper's binary rule ``alpha' y >= 1/2`` is the offset ``1 - sum(alpha)`` of class 0, scaled as in M5."""
        if self.noise_ is None or not self._rule_depends_on_noise():
            return None
        raw = scale(np.ones(len(votes)), exponent) - votes
        with np.errstate(over="ignore"):
            return np.stack([raw, np.zeros(len(votes))], axis=1) / self.noise_.signal

    def _numbers_per_row(self) -> int:
        return 0

    def _learner_assumptions(self) -> list[Assumption]:
        if self.regularization == "paper":
            return [Assumption("lambda-from-labels", {"regularization": float(self.regularization_)})]
        return []


def ridge_products(whitening: Whitening, shrinkage: Floats, Z: Floats, precision: int) -> ProductVotes:
    """Return the votes alpha on test rows, on a grid that is known before any training row is visited; of no row yet.

    ``|alpha_j| <= sqrt(largest leverage) * |c| + 1/n`` by Cauchy and Schwarz, with c the shrunken coordinates as they
    are used, that is after rounding: no vote needs more than `precision` bits.
    """
    c = whitening.coordinates(Z) * shrinkage
    if whitening.is_centered:
        c = np.hstack([c, np.full((len(c), 1), 1 / whitening.n_rows)])
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


def _length_above(c: Floats) -> Floats:
    """Return a number that is slightly above the length of each row, the same in any order of summation."""
    exponent = grid_exponent(np.abs(c).max(axis=1, initial=0.0), LENGTH_BITS)
    coarse = np.ceil(scale(np.abs(c), exponent[:, None]))
    return scale(np.sqrt((coarse**2).sum(axis=1)), -exponent)
