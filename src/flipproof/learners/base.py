"""What all label-linear learners share: fit, predict, certify."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from flipproof.certificates import Certificates, check_method
from flipproof.learners.engine import BlockCertificates, certify_exact, certify_smoothed, winners
from flipproof.learners.labels import check_label_kinds, encode_labels
from flipproof.noise import LabelFlip
from flipproof.rounding import UNIT_ROUNDOFF, Floats, Integers, above, scale
from flipproof.votes import (
    LARGEST_PRECISION,
    EstimatedScores,
    VoteSource,
    all_votes,
    block_rows,
    class_scores,
    histogram,
)

#: Memory that `certify` and `predict` may use on top of the data.
MEMORY_BUDGET = 256 * 2**20

#: Test rows whose scores are estimated at a time.
ESTIMATED_ROWS = 4096

#: Noises that ``noise="auto"`` tries, as parts of the largest valid q, (K - 1) / K. The smallest is mostly the best.
AUTO_NOISES = (1e-100, 1e-30, 1e-9, 1e-4, 0.01, 0.1, 0.35, 0.65, 0.9)

SMALLEST_PRECISION = 2

#: What features are converted to: the first, unless they are of the other already.
FEATURE_TYPES = [np.float64, np.float32]


class LabelLinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose class scores are sums of label-free votes over the training labels.

    A subclass says how training rows vote on test rows (`_fit_votes`, `_votes`), without ever seeing a label; this
    class counts the votes and certifies the result.
    """

    noise: Any
    method: str
    precision: int
    features: Any
    classes: ArrayLike | None
    block_size: int | None
    n_jobs: int | None

    @abstractmethod
    def _fit_votes(self, X: Floats) -> None:
        """Prepare the votes from the training features alone."""

    @abstractmethod
    def _votes(self, Z: Floats) -> VoteSource:
        """Return the votes of all training rows on a block of test rows."""

    def _fit_with_labels(self, codes: Integers) -> None:
        """Do what has to read labels; each such thing belongs into `_learner_assumptions`."""

    def _has_offsets(self) -> bool:
        """Tell whether the scores have offsets; the deployed rule then depends on the noise (M5)."""
        return False

    def _raw_offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats:
        """Return the offsets b in grid units, given the sum of all votes on each test row."""
        return np.zeros((len(votes), len(self.classes_)))

    def _estimated_scores(self, Z: Floats) -> EstimatedScores | None:
        """Return the scores without offsets, estimated cheaply and with a proven error; None if there is no way."""
        return None

    def _learner_assumptions(self) -> list[str]:
        """Return what certificates rest on beyond what is common to all learners."""
        return []

    def fit(self, X: Any, y: Any) -> LabelLinearClassifier:
        """Fit to training features and labels; the labels are only counted, never learnt from.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            Training features, or the input of `features`.
        y : array of shape (n,)
            Training labels: numbers, strings or booleans.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_label_kinds(y, "The labels y")
        X, y = self._training_arrays(X, y)
        check_classification_targets(y)
        self.classes_, self._codes = encode_labels(y, self.classes)
        self.precision_ = int(self.precision)
        self._fit_votes(X)
        self.noise_ = self._resolve_noise(len(self.classes_))
        self._fit_with_labels(self._codes)
        self._assumed = (*self._common_assumptions(), *self._learner_assumptions())
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted classes; ties go to the class that sorts lowest.

        The learner's estimate decides every row whose lead is larger than the proven error of the estimate; the votes
        decide the rest. The answer is always that of the votes.
        """
        Z = self._test_features(X)
        winner = np.empty(len(Z), dtype=np.int64)
        for start in range(0, len(Z), ESTIMATED_ROWS):
            rows = np.arange(start, min(start + ESTIMATED_ROWS, len(Z)))
            estimate = self._estimated_scores(Z[rows])
            if estimate is not None:
                winner[rows], decided = self._with_offsets(estimate).decided()
                rows = rows[~decided]
            if rows.size:
                winner[rows] = winners(self._scores(Z[rows])[0])
        return np.asarray(self.classes_[winner])

    def decision_function(self, X: Any) -> Floats:
        """Return the class scores of the deployed rule, shape (m, K); with two classes their difference, shape (m,)."""
        scores, exponent = self._scores(self._test_features(X))
        values = scale(scores.astype(np.float64), -exponent[:, None])
        return values[:, 1] - values[:, 0] if len(self.classes_) == 2 else values

    def weights(self, X: Any) -> tuple[Floats, Floats]:
        """Return what the prediction is made of: alpha (m, n) and offsets (m, K), in the paper's notation.

        ``argmax(alpha @ onehot(y) + offsets)`` is the prediction, whatever the labels y. This is the one method that
        needs memory of m times n: call it on a few rows.
        """
        Z = self._test_features(X)
        source = self._votes(Z)
        votes = all_votes(source)
        offsets = self._offsets(votes.sum(axis=1).astype(np.int64), source.exponent)
        down = -source.exponent[:, None]
        return scale(votes, down), scale(offsets.astype(np.float64), down)

    def certify(self, X: Any, method: str | None = None) -> Certificates:
        """Predict, and certify every prediction.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            ``"exact"``: the largest radius that is true. ``"kl"`` and ``"tight"``: by noise on the labels, as in the
            paper. All three speak of what :meth:`predict` returns. Default: the learner's `method`.

        Returns
        -------
        Certificates
        """
        method = check_method(self.method if method is None else method, type(self).__name__)
        Z = self._test_features(X)
        n_jobs = effective_n_jobs(self.n_jobs)
        blocks = self._blocks(len(Z), n_jobs)
        if n_jobs == 1:
            parts = [self._certify_block(Z[rows], method) for rows in blocks]
        else:
            with threadpool_limits(limits=1, user_api="blas"):
                work = (delayed(self._certify_block)(Z[rows], method) for rows in blocks)
                parts = Parallel(n_jobs=n_jobs, require="sharedmem")(work)
        return self._certificates(parts, method)

    def _certify_block(self, Z: Floats, method: str) -> tuple[BlockCertificates, Integers]:
        source = self._votes(Z)
        votes = histogram(source, self._codes, len(self.classes_), self.precision_)
        offsets = self._offsets(votes.scores.sum(axis=1), source.exponent)
        if method == "exact":
            return certify_exact(votes, offsets), source.exponent
        return certify_smoothed(votes, offsets, method, self._noises()), source.exponent

    def _certificates(self, parts: list[tuple[BlockCertificates, Integers]], method: str) -> Certificates:
        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(block, name) for block, _ in parts])

        exponent = np.concatenate([exponent for _, exponent in parts])
        winner = joined("winner")
        if self.noise_ is not None:
            noise: float | Floats = self.noise_.q
        else:
            noise = joined("noise")
        return Certificates(
            prediction=self.classes_[winner],
            radius=joined("radius"),
            rival=self.classes_[joined("rival")],
            margin=scale(joined("margin").astype(np.float64), -exponent),
            log_failure=joined("log_failure"),
            abstained=np.zeros(len(winner), dtype=bool),
            witness=scale(joined("witness"), exponent[:, None]),
            method=method,
            noise=noise,
            n_train=len(self._codes),
            classes=self.classes_.copy(),
            assumptions=self._assumed,
        )

    def _common_assumptions(self) -> list[str]:
        """Say what certificates of any learner rest on, at the time of fitting."""
        said = [
            "Only training labels are changed: training features, the number of rows and the test row are as given."
        ]
        if self.classes is None:
            said.append(
                f"The class set ({len(self.classes_)} classes) was read from the training labels and is taken as "
                "fixed; give classes=... to drop this assumption."
            )
        if self.features is not None:
            said.append(
                f"The features step ({type(self.features).__name__}) was fitted without labels, and would come out the "
                "same if fitted again; its own settings are taken as chosen without labels."
            )
        return said

    def _scores(self, Z: Floats) -> tuple[Integers, Integers]:
        """Return the scores of the deployed rule, counted vote by vote, and the grid of each row."""
        scores, exponents = [], []
        for rows in self._blocks(len(Z), 1):
            source = self._votes(Z[rows])
            votes = class_scores(source, self._codes, len(self.classes_))
            scores.append(votes + self._offsets(votes.sum(axis=1), source.exponent))
            exponents.append(source.exponent)
        return np.concatenate(scores), np.concatenate(exponents)

    def _offsets(self, votes: Integers, exponent: Integers) -> Integers:
        """Return the offsets of the deployed rule (M5) on the grid.

        The highest becomes 0, and a class that could not even draw level with it is cut off there: nothing overflows.
        """
        if self.noise_ is None or not self._has_offsets():
            return np.zeros((len(votes), len(self.classes_)), dtype=np.int64)
        with np.errstate(over="ignore"):
            deployed = self._raw_offsets(votes, exponent) / self.noise_.signal
        hopeless = float(len(self._codes) * 2**self.precision_)
        behind = np.minimum(deployed, np.finfo(np.float64).max)
        behind = behind - behind.max(axis=1, keepdims=True)
        return np.asarray(np.maximum(np.rint(behind), -hopeless), dtype=np.int64)

    def _with_offsets(self, estimate: EstimatedScores) -> EstimatedScores:
        """Add the offsets of the deployed rule, whose error is that of the sum of votes, scaled, and a rounding."""
        if self.noise_ is None or not self._has_offsets():
            return estimate
        with np.errstate(over="ignore"):
            offsets = self._raw_offsets(estimate.scores.sum(axis=1), estimate.exponent) / self.noise_.signal
        error = above(
            estimate.error.sum(axis=1)[:, None] / self.noise_.signal + 4 * UNIT_ROUNDOFF * np.abs(offsets) + 1
        )
        return estimate.shifted(offsets, error)

    def _noises(self) -> list[LabelFlip]:
        if self.noise_ is not None:
            return [self.noise_]
        K = len(self.classes_)
        return [LabelFlip(part * (K - 1) / K, K) for part in AUTO_NOISES]

    def _blocks(self, n_rows: int, n_jobs: int) -> Iterator[slice]:
        """Yield blocks of test rows, as large as memory allows."""
        self._check_block_size()
        budget = MEMORY_BUDGET // n_jobs
        size = self.block_size or block_rows(len(self._codes), len(self.classes_), self.precision_, budget)
        for start in range(0, n_rows, size):
            yield slice(start, start + size)

    def _check_parameters(self) -> None:
        name = type(self).__name__
        check_method(self.method, name)
        integer = (int, np.integer)
        if (
            not isinstance(self.precision, integer)
            or isinstance(self.precision, bool)
            or not SMALLEST_PRECISION <= self.precision <= LARGEST_PRECISION
        ):
            raise ValueError(
                f"The 'precision' parameter of {name} must be an integer from {SMALLEST_PRECISION} to "
                f"{LARGEST_PRECISION}, the bits of a vote. Got {self.precision!r} instead."
            )
        self._check_block_size()

    def _check_block_size(self) -> None:
        size = self.block_size
        if size is not None and (not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1):
            raise ValueError(
                f"The 'block_size' parameter of {type(self).__name__} must be None or an integer of at least 1. "
                f"Got {size!r} instead."
            )

    def _resolve_noise(self, n_classes: int) -> LabelFlip | None:
        if isinstance(self.noise, str):
            if self.noise != "auto":
                raise ValueError(
                    f"The 'noise' parameter of {type(self).__name__} must be a number, a LabelFlip or 'auto'. "
                    f"Got {self.noise!r} instead."
                )
            if self._has_offsets():
                raise ValueError(
                    "noise='auto' needs a prediction that does not depend on the noise, but without an intercept and "
                    "with two classes it does. Set fit_intercept=True, or give q as a number."
                )
            return None
        flip = self.noise if isinstance(self.noise, LabelFlip) else LabelFlip(self.noise)
        if flip.n_classes not in (None, n_classes):
            raise ValueError(
                f"noise is for {flip.n_classes} classes, but there are {n_classes} in the training labels."
            )
        return flip.with_classes(n_classes)

    def _training_arrays(self, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
        if self.features is None:
            self.features_ = None
            X, y = validate_data(self, X, y, dtype=FEATURE_TYPES, ensure_min_samples=2)
            return X, y
        _, y = validate_data(self, X, y, skip_check_array=True)
        y = np.asarray(y)
        wanted = (
            f"The 'features' parameter of {type(self).__name__} must be a transformer that can be fitted without labels"
        )
        if not (hasattr(self.features, "fit") and hasattr(self.features, "transform")):
            raise ValueError(f"{wanted}. Got {self.features!r} instead.")
        try:
            self.features_ = _with_fixed_random_state(clone(self.features)).fit(X)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{wanted} to these rows. {self.features!r} could not be: {error}") from error
        X = check_array(self.features_.transform(X), dtype=FEATURE_TYPES, ensure_min_samples=2, estimator=self)
        check_consistent_length(X, y)
        return X, y

    def _test_features(self, X: Any) -> Floats:
        check_is_fitted(self)
        if self.features_ is None:
            return np.asarray(validate_data(self, X, dtype=FEATURE_TYPES, reset=False))
        validate_data(self, X, skip_check_array=True, reset=False)
        return np.asarray(check_array(self.features_.transform(X), dtype=FEATURE_TYPES, estimator=self))


def _with_fixed_random_state(transformer: Any) -> Any:
    """Set every random state that is None, so that a refit gives the same features."""
    names = [
        name for name, value in transformer.get_params().items() if name.endswith("random_state") and value is None
    ]
    return transformer.set_params(**dict.fromkeys(names, 0))
