"""Ridge and kernel learners over rows in blocks, with the same votes and certificates as in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from flipproof.core.linalg import Rotation, Whitening, whiten, whiten_in_passes
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import ProductVotes, tiles
from flipproof.learners.kernel import (
    KernelParameters,
    check_size,
    compare_landmarks,
    drawn_landmarks,
    landmark_features,
    landmark_map,
    landmark_rows,
    landmark_rule,
)
from flipproof.learners.kernel_values import KERNELS, KernelValues, default_gamma, gamma_in_passes, kernel_values
from flipproof.learners.ridge import (
    LabelSums,
    RidgeParameters,
    RidgeRule,
    is_paper_rule,
    refuse_rules_of_all_rows,
    ridge_rule,
)
from flipproof.parameters import Constraints, one_of, parameter_error
from flipproof.runtime.determinism import on_one_thread
from flipproof.streaming.blocks import Block, rows_at_a_time
from flipproof.streaming.fit_in_passes import Rule
from flipproof.streaming.passes import (
    SurveyedRows,
)
from flipproof.streaming.updates import UpdatedRows


class StreamingRidgeClassifier(RidgeParameters, UpdatedRows):
    """Certified ridge classifier for training rows that do not fit in memory: in files, blocks or Dask.

    The same learner as :class:`flipproof.CertifiedRidgeClassifier`: votes, predictions and certificates are identical
    to the last bit, for any division into blocks and any workers. It keeps only matrices of shape (columns, columns). A
    fit visits the rows five times (twice with a reference), and every few thousand certificates need one more visit.
    There are no attacks and no `vote_weights`: these need the rows in memory.

    Parameters
    ----------
    noise, regularization, fit_intercept, clip
        As in :class:`flipproof.CertifiedRidgeClassifier`.
    prior, prior_weight
        As for the learner in memory. A prior that is not fitted is fitted to the labels of the reference, or else to
        the trusted training rows, which must fit in memory: as an array, without names of columns.
    method, precision
        As in :class:`flipproof.CertifiedRidgeClassifier`.
    features : None
        Must be None: transform the rows first, with :meth:`flipproof.streaming.RowBlocks.map` or Dask's `map_blocks`.
    classes : array of K classes, optional
        All classes. If omitted, they are read from the labels, and this is an assumption.
    block_size : int, optional
        Number of test rows certified in one pass; by default as many as fit into 64 MiB of counts.
    n_jobs : int, optional
        Number of threads that visit rows in this process; unused on a cluster. Results do not depend on it.
    verbose : int, default=0
        1: report the progress of each pass over the rows on stderr.

    See Also
    --------
    flipproof.CertifiedRidgeClassifier : Ridge regression, as in the paper.
    flipproof.StreamingKernelClassifier : Kernels on more rows than memory.
    flipproof.streaming.RowBlocks : Rows in parts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from flipproof.streaming import StreamingRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> blocks = [(X[start : start + 300], y[start : start + 300]) for start in range(0, 1200, 300)]
    >>> model = StreamingRidgeClassifier(classes=range(10)).fit(blocks)
    >>> model.certify(X[1200:])
    <Certificates: 597 predictions, method 'exact', median radius 14 of 1200 labels>
    """

    def _decompose(self, found: SurveyedRows) -> Whitening:
        return whiten_in_passes(self._feature_passes("Fitting"), bool(self.fit_intercept), on_one_thread, found.ranges)

    def _decompose_reference(self, X: Floats) -> tuple[Whitening, NDArray[np.float32]]:
        whitening, basis = whiten(X, bool(self.fit_intercept), on_one_thread)
        refuse_rules_of_all_rows(whitening, len(self.classes_), self.regularization)
        return whitening, basis

    def _settle(self, labels: LabelSums) -> RidgeRule:
        rule = ridge_rule(self._whitening, labels, self.regularization, self.noise_, self.precision_)
        self.regularization_ = self._whitening.in_feature_units(rule.regularization)
        return rule

    def _attained(self, Z: Floats, products: ProductVotes, limit: Integers) -> NDArray[np.bool_]:
        attained = super()._attained(Z, products, limit)
        if not attained.all():
            assert isinstance(self._rule, RidgeRule)
            attained |= self._rule.largest_votes_found(Z) >= limit
        return attained

    def _rule_depends_on_noise(self) -> bool:
        return is_paper_rule(self._whitening, len(self.classes_))


class StreamingKernelClassifier(KernelParameters, UpdatedRows):
    """Certified kernel classifier on landmarks for rows that do not fit in memory: in files, blocks or Dask.

    The same learner as :class:`flipproof.CertifiedKernelClassifier` with `n_components`, to the last bit: ridge
    regression on comparisons with landmarks, which each pass over the rows recomputes.

    Parameters
    ----------
    kernel : str, default="rbf"
        Name of a kernel. Functions are refused: they receive many rows at once, so their values might depend on the
        division into blocks.
    gamma, degree, coef0, regularization, n_components, fit_intercept, noise, clip
        As in :class:`flipproof.CertifiedKernelClassifier`. Without a reference, `n_components` must be given for up to
        10,000 rows, and the kernel ``"laplacian"`` needs `gamma`.
    prior, prior_weight
        As for the learner in memory. A prior that is not fitted is fitted to the labels of the reference, or else to
        the trusted training rows, which must fit in memory: as an array, without names of columns.
    method, precision
        As in :class:`flipproof.CertifiedKernelClassifier`.
    features : None
        Must be None: transform the rows first.
    classes : array of K classes, optional
        All classes. If omitted, they are read from the labels, and this is an assumption.
    block_size : int, optional
        Number of test rows certified in one pass; by default as many as fit into 64 MiB of counts.
    n_jobs : int, optional
        Number of threads that visit rows in this process; unused on a cluster. Results do not depend on it.
    verbose : int, default=0
        1: report the progress of each pass over the rows on stderr.

    See Also
    --------
    flipproof.CertifiedKernelClassifier : Kernel ridge regression.
    flipproof.StreamingRidgeClassifier : Ridge regression on more rows than memory.
    flipproof.streaming.RowBlocks : Rows in parts.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof.streaming import StreamingKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> blocks = [(X[start : start + 300], y[start : start + 300]) for start in range(0, 1200, 300)]
    >>> model = StreamingKernelClassifier(n_components=50, classes=range(10)).fit(blocks)
    >>> model.certify(X[1200:])
    <Certificates: 597 predictions, method 'exact', median radius 14 of 1200 labels>
    """

    parameter_constraints: ClassVar[Constraints] = {
        "kernel": one_of(*KERNELS).explained("kernel functions need rows in memory.")
    }

    def _check_without_reference(self) -> None:
        if self.kernel == "laplacian" and self.gamma is None:
            wanted = "a number for the kernel 'laplacian' on rows in blocks"
            raise parameter_error(type(self).__name__, "gamma", wanted, self.gamma)

    def _decompose(self, found: SurveyedRows) -> Whitening:
        check_size(np.stack([found.ranges.low, found.ranges.high]), "Training features")
        passes = self._feature_passes("Fitting")
        n = self.n_rows_
        self.component_indices_ = landmark_rows(n, self.n_components)
        if self.component_indices_ is None:
            wanted, remedy = f"an integer for {n} rows in blocks", "kernel ridge on all rows needs rows in memory."
            raise parameter_error(type(self).__name__, "n_components", wanted, self.n_components, remedy)
        self.gamma_ = (
            float(self.gamma) if self.gamma is not None else gamma_in_passes(self.kernel, passes, found.ranges)
        )
        self._mapping = self._compare(self._rows_at(self.component_indices_), n)
        return whiten_in_passes(passes, bool(self.fit_intercept), on_one_thread)

    def _decompose_reference(self, X: Floats) -> tuple[Whitening, NDArray[np.float32]]:
        X = np.ascontiguousarray(X)
        check_size(X, "Training features")
        self.component_indices_ = drawn_landmarks(len(X), self.n_components)
        self.gamma_ = default_gamma(self.kernel, X) if self.gamma is None else float(self.gamma)
        mapping = self._compare(X[self.component_indices_], len(X))
        self._mapping = replace(mapping, of_any_rows=True)
        return whiten(mapping(X), bool(self.fit_intercept), on_one_thread)

    def _compare(self, landmarks: Floats, n: int) -> LandmarkFeatures:
        """Compare the landmarks of `n` rows with each other, which fixes lambda and the features of rows."""
        values = kernel_values(self.kernel, self.gamma_, int(self.degree), float(self.coef0), landmarks)
        compared = compare_landmarks(values, self.regularization, n)
        self._lambda, self.regularization_ = compared.regularization, compared.in_units_of_the_kernel
        return LandmarkFeatures(compared.kernel, landmark_map(compared.matrix))

    def _rows_at(self, indices: Integers) -> Floats:
        """Return the training rows with these indices."""
        found: list[Floats] = self._total(partial(_rows_among, indices=indices), "Fetching landmarks")
        return np.ascontiguousarray(np.vstack(found), dtype=np.float64)

    def _settle(self, labels: LabelSums) -> Rule:
        kernel, to_features = self._mapping.kernel, self._mapping.map
        return landmark_rule(kernel, to_features, self._whitening, self._lambda, labels, self.precision_)


@dataclass(frozen=True)
class LandmarkFeatures:
    """Maps rows to features whose dot products are Nystroem's kernel; `of_any_rows` if numbers may have any size."""

    kernel: KernelValues
    map: Rotation
    of_any_rows: bool = False

    def pieces(self, n_rows: int) -> Iterator[slice]:
        """Yield slices of rows whose features fit into a block."""
        for start, stop in tiles(n_rows, rows_at_a_time(len(self.kernel.landmarks))):
            yield slice(start, stop)

    def __call__(self, X: Floats) -> Floats:
        """Return the features of some rows."""
        return landmark_features(X, self.kernel, self.map, separately=self.of_any_rows)


def _rows_among(block: Block, indices: Integers) -> list[Floats]:
    """Return the rows of a block whose row numbers are among the indices."""
    within = indices[(indices >= block.first_row) & (indices < block.first_row + len(block))]
    return [block.X[within - block.first_row]]
