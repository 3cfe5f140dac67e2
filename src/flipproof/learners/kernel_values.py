"""Kernel values of test rows and landmarks: the same bits in whatever company a row comes.

Distances are computed pair by pair, dot products are exact (:mod:`flipproof.learners.whitening`), and the rest is done
number by number; anybody's own kernel is asked for one test row at a time, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from flipproof.learners.column_sums import ColumnRanges
from flipproof.learners.exact_products import FEATURE_BITS, Rotation, rotation_of
from flipproof.learners.one_thread import on_one_thread
from flipproof.learners.whitening import Total, column_grid, in_memory
from flipproof.rounding import Floats, exponent_above, grid_exponent, scale, to_grid
from flipproof.votes import tiles

Kernel = str | Callable[[Floats, Floats], Floats]

#: The kernels that go by a name, as in scikit-learn.
KERNELS = ("rbf", "laplacian", "poly", "polynomial", "linear", "cosine")

#: Those that are functions of a dot product.
PRODUCTS = ("poly", "polynomial", "linear", "cosine")

#: Features and kernel values of training rows beyond this are refused, and kernel values of test rows are moved here:
#: squares, and sums of them, stay finite.
LARGEST_NUMBER = 1e100

#: Kernel values that are all below this are scaled up: reciprocals of their eigenvalues stay finite.
SMALLEST_NUMBER = 1e-100

#: The largest default of gamma.
LARGEST_GAMMA = float(np.finfo(np.float64).max)

#: Training rows whose kernel values are computed at a time.
ROWS_AT_A_TIME = 512


@dataclass(frozen=True)
class KernelValues:
    """Makes the kernel values of any rows with the landmarks.

    Attributes
    ----------
    kernel : str or callable
        One of KERNELS, or a function of two matrices of rows.
    gamma, degree, coef0 : numbers
        Settings of the named kernels.
    landmarks : floats of shape (m, k)
        The rows that all others are compared with.
    factor : Rotation or None
        The landmarks (of length 1 for the cosine) as columns, for kernels that need dot products.
    shift : int
        Kernel values are multiplied by ``2**shift``, which changes no vote if lambda is, too.
    """

    kernel: Kernel
    gamma: float
    degree: int
    coef0: float
    landmarks: Floats
    factor: Rotation | None
    shift: int = 0

    def rows(self, Z: Floats) -> Floats:
        """Return the kernel values of each row with all landmarks, shape (len(Z), m), in any company the same."""
        if callable(self.kernel):
            Z, ask = _contiguous(Z), self._ask
            return np.vstack(on_one_thread(lambda: [ask(Z[row : row + 1]) for row in range(len(Z))]))
        return self._named(_contiguous(Z))

    def matrix(self, X: Floats) -> Floats:
        """Return the same for training rows: many at a time, which anybody's own kernel may take into account."""
        values = np.empty((len(X), len(self.landmarks)))
        compute = self._ask_on_one_thread if callable(self.kernel) else self._named
        for start, stop in tiles(len(X), ROWS_AT_A_TIME):
            values[start:stop] = compute(_contiguous(X[start:stop]))
        return values

    def _named(self, Z: Floats) -> Floats:
        if len(Z) == len(self.landmarks) == 1:
            # NumPy computes functions of a new, contiguous array in one way, but those of a single number in another
            return self._named(np.vstack([Z, Z]))[:1]
        with np.errstate(over="ignore"):
            if self.kernel == "rbf":
                values = np.exp(-self.gamma * cdist(Z, self.landmarks, "sqeuclidean"))
            elif self.kernel == "laplacian":
                values = np.exp(-self.gamma * cdist(Z, self.landmarks, "cityblock"))
            else:
                values = self._of_products(Z)
        return self._in_range(values)

    def _in_range(self, values: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(scale(values, self.shift), -LARGEST_NUMBER, LARGEST_NUMBER))

    def _of_products(self, Z: Floats) -> Floats:
        assert self.factor is not None
        if self.kernel == "cosine":
            return exact_product(_of_length_one(Z), self.factor)
        products = exact_product(Z, self.factor)
        return products if self.kernel == "linear" else (self.gamma * products + self.coef0) ** self.degree

    def _ask_on_one_thread(self, rows: Floats) -> Floats:
        return on_one_thread(lambda: self._ask(rows))

    def _ask(self, rows: Floats) -> Floats:
        assert callable(self.kernel)
        values = np.asarray(self.kernel(rows.copy(), self.landmarks), dtype=np.float64)  # should it write into rows
        expected = len(rows), len(self.landmarks)
        if values.shape != expected:
            raise ValueError(
                "The 'kernel' parameter of CertifiedKernelClassifier, if a function, must take two matrices of rows "
                f"and return a value for every pair, shape {expected} here. Got shape {values.shape} instead."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError(
                "The 'kernel' parameter of CertifiedKernelClassifier must give finite values. Got NaN or infinity."
            )
        return self._in_range(values)


def kernel_values(kernel: Kernel, gamma: float, degree: int, coef0: float, landmarks: Floats) -> KernelValues:
    """Prepare a kernel for comparisons with these landmarks."""
    factor = None
    if kernel in PRODUCTS:
        factor = rotation_of((_of_length_one(landmarks) if kernel == "cosine" else landmarks).T)
    landmarks.setflags(write=False)  # a function that writes into them would change all later values
    return KernelValues(kernel, gamma, degree, coef0, landmarks, factor)


def default_gamma(kernel: Kernel, X: Floats) -> float:
    """Return 1 / (2 d), d being typical of what gamma multiplies; it reads no label.

    That is the mean, over all pairs of rows, of their squared distance (rbf) or their city-block distance (laplacian),
    and the mean squared length of a row for kernels of dot products.
    """
    n = len(X)
    if kernel == "laplacian":  # of sorted numbers, the step after the i-th lies between the two of i (n - i) pairs
        pairs = np.arange(1, n) * np.arange(n - 1, 0, -1)
        return _gamma(float(2 * (np.diff(np.sort(X, axis=0), axis=0) * (pairs / n**2)[:, None]).sum()))
    return gamma_in_passes(kernel, in_memory(X))


def gamma_in_passes(kernel: Kernel, total: Total, ranges: ColumnRanges | None = None) -> float:
    """Return the same for training rows anywhere, from sums that do not depend on how these are cut up.

    Not for the kernel "laplacian", which would have to sort them.
    """
    grid, moments = column_grid(total, center=kernel == "rbf", ranges=ranges)
    squares = 2 * moments.spread if kernel == "rbf" else moments.squares.astype(np.float64)
    return _gamma(float(scale(squares, -2 * grid.exponent).sum() / moments.n_rows))


def _gamma(typical: float) -> float:
    """Return ``1 / (2 typical)``, but a finite number: infinity times a distance of 0 would be no number at all."""
    return min(0.5 / typical, LARGEST_GAMMA) if typical > 0 else 1.0


def exact_product(rows: Floats, matrix: Rotation) -> Floats:
    """Return ``rows @ matrix``, each row on a grid of its own: the same bits in any order of summation."""
    exponent = grid_exponent(np.abs(rows).max(axis=1, initial=0.0), FEATURE_BITS)[:, None]
    return scale(matrix.apply(to_grid(rows, exponent, FEATURE_BITS)), -exponent)


def _contiguous(X: Floats) -> Floats:
    return np.ascontiguousarray(X, dtype=np.float64)


def _of_length_one(X: Floats) -> Floats:
    """Divide each row by its length, unless that is 0."""
    X = scale(X, -exponent_above(np.abs(X).max(axis=1))[:, None])  # squares are finite then, and not all 0
    length = cdist(X, np.zeros((1, X.shape[1])))
    return np.asarray(np.divide(X, length, out=np.zeros_like(X), where=length > 0))
