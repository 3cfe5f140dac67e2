"""Values of kernels, the same to the last bit in any batch and on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from flipproof.core.linalg import (
    FEATURE_BITS,
    ColumnRanges,
    Rotation,
    Total,
    Visited,
    column_grid,
    in_memory,
    rotation_of,
)
from flipproof.core.rounding import Floats, exponent_above, grid_exponent, scale, to_grid
from flipproof.core.votes import (
    tiles,
)
from flipproof.runtime.determinism import on_one_thread

Kernel = str | Callable[[Floats, Floats], Floats]

#: Names of kernels, as in scikit-learn.
KERNELS = ("rbf", "laplacian", "poly", "polynomial", "linear", "cosine")

#: Kernels that are functions of a dot product.
PRODUCTS = ("poly", "polynomial", "linear", "cosine")

#: Larger features and kernel values of training rows are refused, and kernel values of test rows are clipped to this:
#: sums of squares stay finite.
LARGEST_NUMBER = 1e100

#: If all kernel values are below this, they are scaled up, so that reciprocals of eigenvalues stay finite.
SMALLEST_NUMBER = 1e-100

#: The largest default of gamma.
LARGEST_GAMMA = float(np.finfo(np.float64).max)

#: Number of training rows whose kernel values are computed at a time.
ROWS_AT_A_TIME = 512


@dataclass(frozen=True)
class KernelValues:
    """Computes the kernel values of rows with the landmarks.

    Attributes
    ----------
    kernel : str or callable
        One of KERNELS, or a function of two matrices of rows.
    gamma, degree, coef0 : numbers
        Parameters of the named kernels.
    landmarks : floats of shape (m, k)
        The rows that all others are compared with.
    factor : Rotation or None
        The landmarks (of length 1 for the cosine) as columns, for kernels that need dot products.
    shift : int
        Kernel values are multiplied by ``2**shift``; if lambda is too, no vote changes.
    """

    kernel: Kernel
    gamma: float
    degree: int
    coef0: float
    landmarks: Floats
    factor: Rotation | None
    shift: int = 0

    def rows(self, Z: Floats) -> Floats:
        """Return the kernel values of each row with all landmarks, shape (len(Z), m), bit-identical in any batch."""
        if callable(self.kernel):
            Z, compute = _contiguous(Z), self._custom
            return np.vstack(on_one_thread(lambda: [compute(Z[row : row + 1]) for row in range(len(Z))]))
        return self._named(_contiguous(Z))

    def matrix(self, X: Floats, visited: Visited | None = None) -> Floats:
        """Return the kernel values of training rows, many at a time, on which a custom kernel may depend.

        `visited` is called with the number of rows after each of these parts.
        """
        values = np.empty((len(X), len(self.landmarks)))
        compute = self._custom_on_one_thread if callable(self.kernel) else self._named
        for start, stop in tiles(len(X), ROWS_AT_A_TIME):
            values[start:stop] = compute(_contiguous(X[start:stop]))
            if visited is not None:
                visited(stop - start)
        return values

    def _named(self, Z: Floats) -> Floats:
        if len(Z) == len(self.landmarks) == 1:
            # NumPy computes functions of a contiguous array and of a single number in different ways
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

    def _custom_on_one_thread(self, rows: Floats) -> Floats:
        return on_one_thread(lambda: self._custom(rows))

    def _custom(self, rows: Floats) -> Floats:
        assert callable(self.kernel)
        values = np.asarray(
            self.kernel(rows.copy(), self.landmarks), dtype=np.float64
        )  # a copy: it may write into rows
        expected = len(rows), len(self.landmarks)
        if values.shape != expected:
            raise ValueError(
                "The 'kernel' function of CertifiedKernelClassifier must take two matrices of rows and return a value "
                f"for every pair, shape {expected} here. Got shape {values.shape} instead."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError(
                "The 'kernel' function of CertifiedKernelClassifier must return finite values. Got NaN or infinity."
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
    """Return 1 / (2 d), where d is a typical value of what gamma multiplies; it reads no label.

    For rbf, d is the mean squared distance over all pairs of rows; for laplacian, their mean city-block distance; for
    kernels of dot products, the mean squared length of a row.
    """
    n = len(X)
    if kernel == "laplacian":  # of sorted numbers, the step after the i-th lies between the two of i (n - i) pairs
        pairs = np.arange(1, n) * np.arange(n - 1, 0, -1)
        return _gamma(float(2 * (np.diff(np.sort(X, axis=0), axis=0) * (pairs / n**2)[:, None]).sum()))
    return gamma_in_passes(kernel, in_memory(X))


def gamma_in_passes(kernel: Kernel, total: Total, ranges: ColumnRanges | None = None) -> float:
    """Return the default gamma for training rows in memory or in blocks, from sums that do not depend on the blocks.

    The kernel "laplacian" is not supported: it would need sorted rows.
    """
    grid, moments = column_grid(total, center=kernel == "rbf", ranges=ranges)
    squares = 2 * moments.spread if kernel == "rbf" else moments.squares.astype(np.float64)
    return _gamma(float(scale(squares, -2 * grid.exponent).sum() / moments.n_rows))


def _gamma(typical: float) -> float:
    """Return ``1 / (2 typical)``, limited to finite numbers: infinity times a distance of 0 would be NaN."""
    return min(0.5 / typical, LARGEST_GAMMA) if typical > 0 else 1.0


def exact_product(rows: Floats, matrix: Rotation) -> Floats:
    """Return ``rows @ matrix``, each row on a separate grid: the same bits in any order of summation."""
    exponent = grid_exponent(np.abs(rows).max(axis=1, initial=0.0), FEATURE_BITS)[:, None]
    return scale(matrix.apply(to_grid(rows, exponent, FEATURE_BITS)), -exponent)


def _contiguous(X: Floats) -> Floats:
    return np.ascontiguousarray(X, dtype=np.float64)


def _of_length_one(X: Floats) -> Floats:
    """Divide each row by its length, unless that is 0."""
    X = scale(X, -exponent_above(np.abs(X).max(axis=1))[:, None])  # so that squares are finite, and not all 0
    length = cdist(X, np.zeros((1, X.shape[1])))
    return np.asarray(np.divide(X, length, out=np.zeros_like(X), where=length > 0))
