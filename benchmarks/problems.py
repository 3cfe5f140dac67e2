"""Problems of the sizes in the benchmarks, and the units of time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flipproof import CertifiedRidgeClassifier
from flipproof.core.histograms import block_rows
from flipproof.learners.label_linear import MEMORY_BUDGET


@dataclass(frozen=True)
class Size:
    """n training rows of k features in K classes, m test rows."""

    n: int
    k: int
    m: int
    K: int

    def doubled(self, name):
        """Return the size with one of its numbers doubled."""
        return replace(self, **{name: 2 * getattr(self, name)})


SIZES = {"A": Size(13_007, 50, 2_163, 2), "B": Size(50_000, 128, 400, 10), "C": Size(1_000_000, 64, 200, 2)}

#: Test rows of one product of the unit S.
S_ROWS = 100


@dataclass(frozen=True)
class Problem:
    """A fitted learner, test rows, and the arrays of the units U and S."""

    size: Size
    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    model: CertifiedRidgeClassifier

    def unit(self, buffer={}):  # noqa: B006 - the buffer is reused, so that no time is spent on allocation
        """Compute U: alpha by one float64 product, and one exp over it, in the learner's blocks and threads."""
        rows = min(block_rows(self.size.n, self.size.K, self.model.precision, MEMORY_BUDGET), self.size.m)
        if buffer.get("shape") != (rows, self.size.n):
            buffer.clear()
            buffer.update(shape=(rows, self.size.n), alpha=np.empty((rows, self.size.n)))
        for start in range(0, self.size.m, rows):
            Z = self.Z[start : start + rows]
            alpha = np.matmul(Z, self.X.T, out=buffer["alpha"][: len(Z)])
            np.exp(alpha, out=alpha)

    def single(self, buffer={}):  # noqa: B006 - as above
        """Compute S: one float32 product of the same shape, 100 test rows at a time."""
        if buffer.get("X") is not self.X:
            buffer.clear()
            buffer.update(X=self.X, x=self.X.astype(np.float32), out=np.empty((S_ROWS, self.size.n), np.float32))
        Z = self.Z.astype(np.float32)
        for start in range(0, len(Z), S_ROWS):
            some = Z[start : start + S_ROWS]
            np.matmul(some, buffer["x"].T, out=buffer["out"][: len(some)])


def make(size, precision=10, seed=0, noise=0.1):
    """Draw overlapping normal clusters, one per class, and fit."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(size.K, size.k)) * 3.5 / np.sqrt(size.k)
    y = rng.integers(size.K, size=size.n)
    X = rng.normal(size=(size.n, size.k)) + centres[y]
    Z = rng.normal(size=(size.m, size.k)) + centres[rng.integers(size.K, size=size.m)]
    model = CertifiedRidgeClassifier(noise, precision=precision, classes=range(size.K)).fit(X, y)
    return Problem(size, X, y, Z, model)


def at_precision(problem, precision):
    """Return the same problem with another precision; the decomposition of the features does not depend on it."""
    model = problem.model
    model.precision = model.precision_ = precision
    model.recount()
    return problem
