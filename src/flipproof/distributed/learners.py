"""Ridge and kernel learners over rows in blocks: the same votes, hence the same certificates, as in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from flipproof.blocks.block import Block, rows_at_a_time
from flipproof.distributed.classifier import RowsInBlocks
from flipproof.distributed.summaries import SurveyedRows
from flipproof.learners import kernel, ridge
from flipproof.learners.exact_products import Rotation
from flipproof.learners.kernel_values import ROWS_AT_A_TIME, Kernel, KernelValues, exact_product, gamma_in_passes
from flipproof.learners.whitening import Whitening, whiten_in_passes
from flipproof.rounding import Floats, Integers
from flipproof.votes import tiles


class CertifiedRidgeClassifier(RowsInBlocks, ridge.CertifiedRidgeClassifier):
    """Certified ridge classifier for more rows than memory holds: in files, in blocks, or in Dask.

    The same learner as :class:`flipproof.CertifiedRidgeClassifier`, with the same votes and hence the same predictions
    and certificates, to the last bit, however the rows are cut up and whoever visits them. What is kept of the training
    rows are matrices of columns by columns; rows are visited five times to fit, and once more for a few thousand
    certificates. There are no attacks and no `weights`: these need the rows in memory.

    Parameters
    ----------
    noise, regularization, fit_intercept, method, precision, classes
        As of :class:`flipproof.CertifiedRidgeClassifier`.
    features : None
        Must be None: transform the rows first, with :meth:`flipproof.blocks.RowBlocks.map` or Dask's `map_blocks`.
    block_size : int, optional
        Test rows that are certified in one pass; by default as many as 64 MiB of counts hold.
    n_jobs : int, optional
        Threads that visit rows in this process; on a cluster, its workers do. No result depends on it.
    verbose : int, default=0
        1 shows on stderr how far each pass over the rows has come.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from flipproof.distributed import CertifiedRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> blocks = [(X[start : start + 300], y[start : start + 300]) for start in range(0, 1200, 300)]
    >>> model = CertifiedRidgeClassifier(classes=range(10)).fit(blocks)
    >>> model.certify(X[1200:])
    <Certificates: 597 predictions, method 'exact', median radius 14 of 1200 labels>
    """

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
        verbose: int = 0,
    ):
        super().__init__(
            noise,
            regularization=regularization,
            fit_intercept=fit_intercept,
            method=method,
            precision=precision,
            features=features,
            classes=classes,
            block_size=block_size,
            n_jobs=n_jobs,
        )
        self.verbose = verbose

    def _decompose(self, found: SurveyedRows) -> Whitening:
        return whiten_in_passes(self._feature_passes("Fitting"), bool(self.fit_intercept), found.ranges)

    # the method itself, not a call of it: it warns whoever is so many calls away
    _settle = ridge.CertifiedRidgeClassifier._settle_regularization


class CertifiedKernelClassifier(RowsInBlocks, kernel.CertifiedKernelClassifier):
    """Certified kernel classifier on landmarks for more rows than memory holds: in files, in blocks, or in Dask.

    The same learner as :class:`flipproof.CertifiedKernelClassifier` with `n_components`, to the last bit: ridge
    regression on comparisons with landmarks, which each pass over the rows makes anew.

    Parameters
    ----------
    kernel : str, default="rbf"
        A kernel that goes by a name; functions are asked about many rows at once, and what they answer might depend on
        how the rows are cut up.
    gamma, degree, coef0, regularization, n_components, fit_intercept, noise, method, precision, classes
        As of :class:`flipproof.CertifiedKernelClassifier`. Up to 10,000 rows, `n_components` must be given; the kernel
        ``"laplacian"`` needs `gamma`.
    features : None
        Must be None: transform the rows first.
    block_size : int, optional
        Test rows that are certified in one pass; by default as many as 64 MiB of counts hold.
    n_jobs : int, optional
        Threads that visit rows in this process; on a cluster, its workers do. No result depends on it.
    verbose : int, default=0
        1 shows on stderr how far each pass over the rows has come.
    """

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
        noise: Any = 0.1,
        method: str = "exact",
        precision: int = 10,
        features: Any = None,
        classes: ArrayLike | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            regularization=regularization,
            n_components=n_components,
            fit_intercept=fit_intercept,
            noise=noise,
            method=method,
            precision=precision,
            features=features,
            classes=classes,
            block_size=block_size,
            n_jobs=n_jobs,
        )
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require(isinstance(self.kernel, str), "kernel", "the name of a kernel where rows come in blocks")
        if self.kernel == "laplacian":
            self._require(self.gamma is not None, "gamma", "a number for the kernel 'laplacian' on rows in blocks")

    def _decompose(self, found: SurveyedRows) -> Whitening:
        kernel.check_size(np.stack([found.ranges.low, found.ranges.high]), "Training features")
        passes = self._feature_passes("Fitting")
        n = self._n_rows
        self.component_indices_ = kernel.landmark_rows(n, self.n_components)
        if self.component_indices_ is None:
            raise ValueError(
                f"The 'n_components' parameter of {type(self).__name__} must be given for {n} rows: kernel ridge on "
                "all rows is for rows in memory."
            )
        self.gamma_ = (
            float(self.gamma) if self.gamma is not None else gamma_in_passes(self.kernel, passes, found.ranges)
        )
        landmarks = self._rows_at(self.component_indices_)
        K = self._compare(landmarks, n)
        self._map = kernel.landmark_map(K)
        self._mapping = LandmarkFeatures(self._kernel, self._map)
        return whiten_in_passes(passes, bool(self.fit_intercept))

    def _rows_at(self, indices: Integers) -> Floats:
        """Return some of the training rows."""
        numbered = self._rows.with_columns(self._rows_per_part)
        found: list[Floats] = self._total(partial(_rows_among, indices=indices), "Fetching landmarks", numbered)
        return np.ascontiguousarray(np.vstack(found), dtype=np.float64)

    _settle = kernel.CertifiedKernelClassifier._settle_shrinkage


@dataclass(frozen=True)
class LandmarkFeatures:
    """Takes rows to features whose dot products are Nystroem's kernel."""

    kernel: KernelValues
    map: Rotation

    def pieces(self, n_rows: int) -> Iterator[slice]:
        """Yield runs of rows whose features a block can hold."""
        for start, stop in tiles(n_rows, rows_at_a_time(len(self.kernel.landmarks))):
            yield slice(start, stop)

    def __call__(self, X: Floats) -> Floats:
        """Return the features of some rows."""
        parts = [
            exact_product(self.kernel.matrix(X[start:stop]), self.map) for start, stop in tiles(len(X), ROWS_AT_A_TIME)
        ]
        return np.concatenate(parts)


def _rows_among(block: Block, indices: Integers) -> list[Floats]:
    """Return those rows of a block whose numbers are among the indices."""
    within = indices[(indices >= block.first_row) & (indices < block.first_row + len(block))]
    return [block.X[within - block.first_row]]
