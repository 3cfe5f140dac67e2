"""Certified kernel ridge regression on class indicators: exact, or on landmarks (Nystroem).

Kernel values of a test row are bit-identical in any batch: distances are computed pair by pair, dot products are exact
(:mod:`flipproof.core.linalg`), and the rest is computed element by element. A custom kernel function is called with one
test row at a time, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotri

from flipproof.assumptions import Assumption
from flipproof.core.gains import GainBounds
from flipproof.core.linalg import (
    FEATURE_BITS,
    LONG_PASSES,
    Rotation,
    Visited,
    Whitening,
    rotation_of,
    whiten,
)
from flipproof.core.rounding import Floats, Integers, exponent_above, scale
from flipproof.core.votes import (
    EstimatedScores,
    ProductVotes,
    VoteSource,
    dense_votes,
    estimate_scores,
    tiles,
)
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.clones import name_of
from flipproof.learners.kernel_values import (
    KERNELS,
    LARGEST_NUMBER,
    ROWS_AT_A_TIME,
    SMALLEST_NUMBER,
    Kernel,
    KernelValues,
    default_gamma,
    exact_product,
    kernel_values,
)
from flipproof.learners.label_linear import LabelLinearParameters
from flipproof.learners.ridge import LabelSums, RidgeRule, largest_products
from flipproof.parameters import BOOLEAN, NONE, Constraints, function, integer, number, one_of
from flipproof.runtime.determinism import on_one_thread
from flipproof.runtime.progress import CountedProgress, announce

#: Up to this many training rows, the fit is exact and uses n x n matrices: at most three at a time, of 0.8 GB each.
LARGEST_EXACT = 10_000

#: Default number of landmarks for more training rows.
DEFAULT_COMPONENTS = 1_000

#: Seed of the landmarks, so that a refit draws the same ones.
SEED = 0

#: Limits of lambda: above, only the intercept has an effect; below, lambda is treated as 0. Within them, neither lambda
#: nor its reciprocal, times a kernel value, leaves the range of float64.
LARGEST_LAMBDA = 1e200
SMALLEST_LAMBDA = 1e-200

#: Eigenvalues below this fraction of the largest one, times the number of rows, are rounding error: kernel values are
#: on a grid of FEATURE_BITS bits.
SMALLEST_EIGENVALUE = 2.0**-FEATURE_BITS


class KernelParameters(LabelLinearParameters):
    """The parameters of kernel learners, in memory and in blocks, and the assumptions about them."""

    gamma_: float
    regularization_: float
    component_indices_: Integers | None

    parameter_constraints: ClassVar[Constraints] = {
        "kernel": one_of(*KERNELS) | function(),
        "gamma": NONE | number(0),
        "degree": integer(1),
        "coef0": number(),
        "regularization": one_of("label-free") | number(0, closed="low"),
        "n_components": NONE | integer(1),
        "fit_intercept": BOOLEAN,
    }

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
        noise: object = 0.1,
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
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.regularization = regularization
        self.n_components = n_components
        self.fit_intercept = fit_intercept

    def learner_assumptions(self) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        if not callable(self.kernel):
            return []
        return [Assumption("custom-function", {"parameter": "kernel", "function": name_of(self.kernel)})]


class CertifiedKernelClassifier(KernelParameters, LabelLinearClassifier):
    """Kernel ridge classifier with a certificate against changed training labels for every prediction.

    Kernel ridge regression on class indicators is label-linear: with G the matrix of kernel values of the training
    rows, g(z) those of a test row, m the mean of the columns of G and H the matrix that subtracts the mean,

        alpha(z) = 1/n + H (H G H + lambda I)^-1 H (g(z) - m),

    which does not depend on labels. This is ridge regression in the kernel's feature space, with an unpenalised
    intercept. The output of H sums to 0, hence the weights sum to 1, and so do the scores of all classes: the largest
    wins, and there are no offsets. Without an intercept, ``alpha(z) = (G + lambda I)^-1 g(z)``, which is scikit-learn's
    `KernelRidge` on class indicators, and again the largest score wins.

    Choose it over :class:`CertifiedRidgeClassifier` where classes are not linearly separable, or where features have
    heavy tails, so that a few rows would get too much weight: a bounded kernel (rbf, laplacian, cosine) prevents that.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        ``"rbf"``, ``"laplacian"``, ``"poly"`` (or ``"polynomial"``), ``"linear"`` or ``"cosine"``, as in
        :func:`sklearn.metrics.pairwise.pairwise_kernels`. Or a function of two matrices of rows that returns the matrix
        of values, for example ``sklearn.metrics.pairwise.chi2_kernel`` or
        ``sklearn.gaussian_process.kernels.Matern()``. If G + lambda I is not positive definite, directions in which G
        is not positive are left out.
    gamma : float, optional
        Factor of the distance or the dot product in ``"rbf"``, ``"laplacian"`` and ``"poly"``. By default
        ``1 / (2 d)``, where d is the mean squared distance of two training rows for ``"rbf"``, their mean city-block
        distance for ``"laplacian"``, and the mean squared length of a row for ``"poly"``.
    degree : int, default=3
        Degree of ``"poly"``.
    coef0 : float, default=1.0
        Constant in ``"poly"``.
    regularization : "label-free" or float, default="label-free"
        The ridge parameter lambda. ``"label-free"``: the mean of the eigenvalues of the centred kernel matrix, each
        weighted by itself, ``sum(w^2) / sum(w)``, which reads no label. Smaller values usually give higher accuracy and
        smaller radii.
    n_components : int, optional
        Number of landmarks: training rows, drawn at random with a fixed seed, with which all rows are compared
        (Nystroem's approximation). By default all rows are landmarks up to 10,000 rows, which is exact, and 1,000
        beyond. Fewer landmarks are faster, especially for prediction; even a hundred usually give larger radii, at a
        slightly lower accuracy.
    fit_intercept : bool, default=True
        Whether to centre the kernel and add a vote of 1/n for every label.
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs no noise.
        ``"auto"``: the best of a grid of q for each test row.
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
        Cloned and fitted on the training features *without* labels. Random states that are not integers are set to 0,
        so that a refit gives the same features. Distances depend on the units of features: consider a scaler.
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
    gamma_ : float
        The gamma that was used.
    regularization_ : float
        The lambda that was used.
    component_indices_ : integers of shape (landmarks,) or None
        Training rows that are landmarks; None if all are, and kernel ridge is exact.
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
    flipproof.CertifiedRidgeClassifier : Ridge regression, as in the paper.
    flipproof.StreamingKernelClassifier : Kernels on more rows than memory.
    flipproof.CertifiedKernelRegressor : Kernel ridge regression for numbers.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from flipproof import CertifiedKernelClassifier
    >>> X, y = make_circles(400, noise=0.1, factor=0.4, random_state=0)
    >>> model = CertifiedKernelClassifier(classes=[0, 1]).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:])
    1.0
    >>> model.certify(X[300:])
    <Certificates: 100 predictions, method 'exact', median radius 13 of 300 labels>
    """

    _gets_a_copy = False

    def fit_without_labels(self, X: Floats) -> NDArray[np.float32] | None:
        """Choose landmarks, and solve for the weights of the training rows; on landmarks, return the basis."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        check_size(X, "Training features")
        n = len(X)
        self.gamma_ = default_gamma(self.kernel, X) if self.gamma is None else float(self.gamma)
        choose = landmark_rows if self.n_reference_ is None else drawn_landmarks
        self.component_indices_ = choose(n, self.n_components)
        landmarks = X.copy() if self.component_indices_ is None else X[self.component_indices_]
        values = kernel_values(self.kernel, self.gamma_, int(self.degree), float(self.coef0), landmarks)
        with CountedProgress(len(landmarks), "landmarks compared", self.verbose) as progress:
            compared = compare_landmarks(values, self.regularization, n, progress.advance)
        self._kernel, self.regularization_ = compared.kernel, compared.in_units_of_the_kernel
        if self.component_indices_ is not None:
            return self._solve_on_landmarks(compared, X)
        inverse = self._solve_exactly(compared.matrix, compared.regularization)
        del compared  # at most three matrices of this size are in memory
        self._inverse = rotation_of(inverse)
        return None

    def _solve_exactly(self, K: Floats, regularization: float) -> Floats:
        """Return the inverse that maps kernel values, minus their means, to weights; K may be overwritten."""
        self._mean, self._intercept = np.zeros(len(K)), 0.0
        if self.fit_intercept:
            self._mean, self._intercept = K.mean(axis=0), 1 / len(K)
            _center(K)
        announce(f"Inverting a matrix of {len(K)} x {len(K)} numbers", self.verbose)
        inverse = on_one_thread(lambda: _inverse(K, regularization))
        if self.fit_intercept:
            _center(inverse)
        return inverse

    def _solve_on_landmarks(self, compared: ComparedLandmarks, X: Floats) -> NDArray[np.float32]:
        """Ridge regression on the features ``K_mm^-1/2 k(x)``, whose dot products are Nystroem's kernel."""
        self._map, self._lambda = landmark_map(compared.matrix), compared.regularization
        with CountedProgress((1 + LONG_PASSES) * len(X), "visits to training rows", self.verbose) as progress:
            mapped = landmark_features(X, self._kernel, self._map, visited=progress.advance)
            self._whitening, basis = whiten(mapped, bool(self.fit_intercept), on_one_thread, progress.advance)
        return basis

    def place(self, X: Floats) -> NDArray[np.float32]:
        """Return the coordinates of training rows, each compared with the landmarks separately."""
        return self._whitening.basis(landmark_features(X, self._kernel, self._map, separately=True))

    def _fit_with_labels(self, codes: Integers) -> None:
        """Sum the basis over each class, for fast predictions."""
        if self.component_indices_ is not None:
            labels = LabelSums.of(self._held, codes, len(self.classes_))
            self._rule = landmark_rule(self._kernel, self._map, self._whitening, self._lambda, labels, self.precision_)

    def _fit_with_more_labels(self, codes: Integers, n_before: int) -> None:
        labels = self._rule.ridge.labels.with_more(self._held[n_before:], codes[n_before:])
        self._rule = replace(self._rule, ridge=replace(self._rule.ridge, labels=labels))

    def largest_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Return a bound on the vote of any row: all of its coordinates are within their range."""
        assert isinstance(source, ProductVotes)
        return largest_products(source, self._whitening, self.precision_)

    def label_free_votes(self, Z: Floats, held: Any) -> VoteSource:
        """Return the votes of training rows on a block of test rows, compared to all rows or to landmarks."""
        if self.component_indices_ is not None:
            return self._rule.products(Z).of(held)
        alpha = exact_product(self._kernel.rows(Z) - self._mean, self._inverse)
        return dense_votes(alpha + self._intercept, self.precision_)

    def _estimated_scores(self, Z: Floats) -> EstimatedScores | None:
        return None if self.component_indices_ is None else self._rule.estimated_scores(Z)

    def _products_held(self) -> tuple[Callable[[Floats], ProductVotes], GainBounds] | None:
        if self.component_indices_ is None:
            return None
        return self._rule.products, self._rule.ridge.labels.gain_bounds(self._held, self.label_codes_)

    def numbers_per_row(self) -> int:
        """Return how many numbers are held per test row, besides the votes."""
        if self.component_indices_ is None:
            return super().numbers_per_row()
        return 8 * len(self._kernel.landmarks)


@dataclass(frozen=True)
class ComparedLandmarks:
    """Kernel values of the landmarks with each other, and the resulting lambda.

    Attributes
    ----------
    kernel : KernelValues
        Scaled up if all values are tiny.
    matrix : floats of shape (landmarks, landmarks)
        The kernel values.
    regularization : float
        Lambda, scaled like the kernel values.
    """

    kernel: KernelValues
    matrix: Floats
    regularization: float

    @property
    def in_units_of_the_kernel(self) -> float:
        """Lambda for unscaled kernel values."""
        return float(scale(self.regularization, -self.kernel.shift))


def compare_landmarks(
    kernel: KernelValues, regularization: str | float, n: int, visited: Visited | None = None
) -> ComparedLandmarks:
    """Compute the kernel values of the landmarks with each other, and lambda for `n` rows."""
    K = kernel.matrix(kernel.landmarks, visited)
    check_size(K, "Kernel values of training rows")
    largest = max(float(K.max()), -float(K.min()))
    if 0 < largest < SMALLEST_NUMBER:
        kernel = replace(kernel, shift=-int(exponent_above(largest)))
        K = scale(K, kernel.shift)
    if regularization == "label-free":
        # eigenvalues grow in proportion to the number of rows
        return ComparedLandmarks(kernel, K, _self_weighted_mean_eigenvalue(K) * n / len(K))
    with np.errstate(over="ignore"):
        given = float(scale(float(regularization), kernel.shift))
    return ComparedLandmarks(kernel, K, min(given, LARGEST_LAMBDA) if given > SMALLEST_LAMBDA else 0.0)


@dataclass(frozen=True)
class LandmarkRule:
    """The deployed rule of kernel ridge regression on landmarks: the whole fit, except the training rows.

    Attributes
    ----------
    kernel : KernelValues
        Compares rows with the landmarks.
    map : Rotation
        Maps kernel values to features whose dot products are Nystroem's kernel.
    ridge : RidgeRule
        Ridge regression on these features.
    """

    kernel: KernelValues
    map: Rotation
    ridge: RidgeRule

    def with_labels(self, labels: LabelSums) -> LandmarkRule:
        """Return the rule, with the same lambda, for other training rows."""
        return replace(self, ridge=self.ridge.with_labels(labels))

    def products(self, Z: Floats) -> ProductVotes:
        """Return the factor of the votes that depends on test rows."""
        return self.ridge.products(exact_product(self.kernel.rows(Z), self.map))

    def estimated_scores(self, Z: Floats) -> EstimatedScores:
        """Return the scores, estimated from the sums of each class."""
        labels = self.ridge.labels
        parts = [
            estimate_scores(self.products(Z[start:stop]), labels.sums, labels.counts)
            for start, stop in tiles(len(Z), ROWS_AT_A_TIME)
        ]
        scores, error, exponent = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "error", "exponent")
        )
        return EstimatedScores(scores, error, exponent)

    def offsets(self, votes: Integers | Floats, exponent: Integers) -> None:
        """The largest score wins: there are no offsets."""


def landmark_rule(
    kernel: KernelValues,
    to_features: Rotation,
    whitening: Whitening,
    regularization: float,
    labels: LabelSums,
    precision: int,
) -> LandmarkRule:
    """Return the rule of ridge regression on the features of rows, for a lambda in the units of these features."""
    ridge = RidgeRule(whitening, whitening.in_grid_units(regularization), labels, precision)
    return LandmarkRule(kernel, to_features, ridge)


def landmark_map(K: Floats) -> Rotation:
    """Return ``K^-1/2``, which maps kernel values to features whose dot products are Nystroem's kernel."""
    eigenvalues, vectors = on_one_thread(lambda: _positive_part(K))
    return rotation_of(vectors / np.sqrt(eigenvalues))


def landmark_features(
    X: Floats, kernel: KernelValues, to_features: Rotation, separately: bool = False, visited: Visited | None = None
) -> Floats:
    """Return the features of rows whose dot products are Nystroem's kernel.

    If `separately`, each row is compared with the landmarks on its own, and numbers of any size are accepted: very
    large ones are clipped.
    """
    compare: Callable[[Floats], Floats] = kernel.matrix
    if separately:
        X, compare = np.clip(np.asarray(X, dtype=np.float64), -LARGEST_NUMBER, LARGEST_NUMBER), kernel.rows
    mapped = np.empty((len(X), to_features.width))
    for start, stop in tiles(len(X), ROWS_AT_A_TIME):
        mapped[start:stop] = exact_product(compare(X[start:stop]), to_features)
        if visited is not None:
            visited(stop - start)
    return mapped


def check_size(values: Floats, what: str) -> None:
    """Refuse numbers whose sums of squares might not be finite."""
    largest = max(float(values.max()), -float(values.min()))
    if not largest < LARGEST_NUMBER:  # also refuses NaN
        raise ValueError(
            f"{what} must be between -{LARGEST_NUMBER:g} and {LARGEST_NUMBER:g}. Got {largest:g} instead: rescale the "
            "features, or check them for wrong values."
        )


def landmark_rows(n: int, n_components: int | None) -> Integers | None:
    """Return the rows that are landmarks, or None if all are by default; no label is read."""
    return None if n_components is None and n <= LARGEST_EXACT else drawn_landmarks(n, n_components)


def drawn_landmarks(n: int, n_components: int | None) -> Integers:
    """Return the rows that are landmarks, at most 1,000 by default: always so for a reference."""
    wanted = DEFAULT_COMPONENTS if n_components is None else int(n_components)
    return np.sort(np.random.default_rng(SEED).choice(n, size=min(wanted, n), replace=False))


def _center(K: Floats) -> None:
    """Replace K by H K H."""
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]


def _self_weighted_mean_eigenvalue(K: Floats) -> float:
    """Return ``sum(w^2) / sum(w)`` over the eigenvalues of H K H, without computing that matrix; 0 if H K H is 0."""
    n, mean = len(K), K.mean(axis=0)
    total = float(np.trace(K))
    trace = total - n * float(mean.mean())
    squares = float(np.einsum("ij,ij->", K, K)) - 2 * n * float((mean**2).sum()) + (n * float(mean.mean())) ** 2
    return max(squares, 0.0) / trace if trace > n * SMALLEST_EIGENVALUE * abs(total) else 0.0


def _inverse(K: Floats, regularization: float) -> Floats:
    """Return ``(K + regularization I)^-1`` on the directions in which K is positive."""
    n = len(K)
    if regularization > n * SMALLEST_EIGENVALUE * float(np.linalg.norm(K)):
        inverse = K.copy().T  # in LAPACK's memory order, so that it works in place
        inverse[np.diag_indices(n)] += regularization
        inverse, failed = dpotrf(inverse, lower=1, overwrite_a=1)
        if not failed:
            inverse, _ = dpotri(inverse, lower=1, overwrite_c=1)
            for start, stop in tiles(n, ROWS_AT_A_TIME):  # only one triangle is computed
                corner = inverse[start:stop, start:stop]
                corner[:] = np.tril(corner) + np.tril(corner, -1).T
                inverse[start:stop, stop:] = inverse[stop:, start:stop].T
            return np.asarray(inverse.T)
    eigenvalues, vectors = _positive_part(K)
    return np.asarray((vectors / (eigenvalues + regularization)) @ vectors.T)


def _positive_part(K: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues above rounding error, and their vectors; if there are none, 1 and a zero vector."""
    eigenvalues, vectors = eigh(K, check_finite=False)
    kept = eigenvalues > len(K) * SMALLEST_EIGENVALUE * np.abs(eigenvalues).max()
    if not kept.any():
        return np.ones(1), np.zeros((len(K), 1))
    return eigenvalues[kept], vectors[:, kept]
