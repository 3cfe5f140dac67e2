"""What all label-linear learners share: fit, predict, certify."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from flipproof.adversary import Adversary, adversary_assumptions
from flipproof.certificates import METHODS, Certificates, check_method
from flipproof.core.engine import BlockCertificates, certify_exact, certify_groups_exactly, certify_smoothed, winners
from flipproof.core.histograms import VoteHistogram, block_rows, changeable_histogram
from flipproof.core.inequalities import VoteTable
from flipproof.core.invariants import check_counts, require
from flipproof.core.noise import LabelFlip
from flipproof.core.powers import Powers, Scope
from flipproof.core.rounding import UNIT_ROUNDOFF, Floats, Integers, above, scale
from flipproof.core.votes import LARGEST_PRECISION, EstimatedScores, VoteSource, all_votes, class_scores, group_votes
from flipproof.determinism import single_threaded
from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.row_by_row import votes_row_by_row
from flipproof.parameters import NONE, Constraints, check_parameters, instance, integer, number, one_of

#: Memory that `certify` and `predict` may use on top of the data.
MEMORY_BUDGET = 256 * 2**20

#: Test rows whose scores are estimated at a time.
ESTIMATED_ROWS = 4096

#: Noises that ``noise="auto"`` tries, as parts of the largest valid q, (K - 1) / K. The smallest is mostly the best.
AUTO_NOISES = (1e-100, 1e-30, 1e-9, 1e-4, 0.01, 0.1, 0.35, 0.65, 0.9)

SMALLEST_PRECISION = 2


class LabelLinearClassifier(CertifiedClassifier):
    """A classifier whose class scores are sums of label-free votes over the training labels; subclass it for your own.

    A subclass says how much every training row weighs for a test row: `fit_without_labels` sees the training features,
    `label_free_weights` the test features, and neither ever sees a label. That is all: predictions, certificates and
    attacks follow. :func:`flipproof.checks.check_certifier` tries every attack on small problems.

    Parameters
    ----------
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs none.
        ``"auto"``: the best of a grid of q for each test row.
    method : {"exact", "tight", "kl"}, default="exact"
        Default of :meth:`certify`.
    precision : int, default=10
        Bits of a vote, 2 to 24. Weights are rounded to votes: the certificate is about the rounded classifier, which is
        the one that predicts.
    features : transformer, optional
        Cloned and fitted on the training features *without* labels. Its random states, unless numbers, are set to 0.
    classes : array of shape (K,), optional
        The class set. Without it, it is read from the labels, and that it is fixed becomes an assumption.
    block_size : int, optional
        Test rows that are certified at a time; by default as many as 256 MiB hold. No result depends on it.
    n_jobs : int, optional
        Threads over blocks of test rows, as in joblib. No result depends on it.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof import LabelLinearClassifier
    >>> class ParzenWindow(LabelLinearClassifier):
    ...     def fit_without_labels(self, X):
    ...         self.rows_ = X
    ...     def label_free_weights(self, Z):
    ...         return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))
    >>> model = ParzenWindow(classes=[0, 1]).fit([[0.0], [0.2], [0.4], [3.0]], [0, 0, 0, 1])
    >>> model.certify([[0.1]]).radius
    array([1])
    """

    parameter_constraints: ClassVar[Constraints] = {
        "noise": number(closed="both") | instance(LabelFlip, "a LabelFlip") | one_of("auto"),
        "method": one_of(*METHODS),
        "precision": integer(SMALLEST_PRECISION, LARGEST_PRECISION, "the bits of a vote"),
        "block_size": NONE | integer(1),
    }

    def __init__(
        self,
        noise: Any = 0.1,
        *,
        method: str = "exact",
        precision: int = 10,
        features: Any = None,
        classes: ArrayLike | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ):
        self.noise = noise
        self.method = method
        self.precision = precision
        self.features = features
        self.classes = classes
        self.block_size = block_size
        self.n_jobs = n_jobs

    def fit_without_labels(self, X: Floats) -> None:
        """Learn whatever the weights need from the training features alone."""
        raise NotImplementedError(f"{type(self).__name__} must say what it learns from X in fit_without_labels(X).")

    def label_free_weights(self, Z: Floats) -> Any:
        """Return the weights of all training rows for test rows: an array, dense or sparse, of shape (m, n).

        Or a pair of those and offsets of shape (m, K), which are added to the scores. Called with one row at a time and
        on one thread, so that the weights for a row never depend on the rows that come with it, down to the last bit.
        """
        raise NotImplementedError(f"{type(self).__name__} must return weights (m, n) from label_free_weights(Z).")

    def _votes(self, Z: Floats) -> VoteSource:
        """Return the votes of all training rows on a block of test rows."""
        n_train, n_classes = self._n_rows, len(self.classes_)
        return votes_row_by_row(self.label_free_weights, Z, n_train, n_classes, self.precision_)

    @property
    def _weighs_row_by_row(self) -> bool:
        return type(self)._votes is LabelLinearClassifier._votes

    def _fit_with_labels(self, codes: Integers) -> None:
        """Do what has to read labels; each such thing belongs into `_learner_assumptions`."""

    def _rule_depends_on_noise(self) -> bool:
        """Tell whether the deployed rule depends on the noise (M5)."""
        return False

    def _deployed_offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats | None:
        """Return the offsets of the deployed rule in grid units, given the sum of all votes on each test row."""
        return None

    def _estimated_scores(self, Z: Floats) -> EstimatedScores | None:
        """Return the scores without offsets, estimated cheaply and with a proven error; None if there is no way."""
        return None

    def _without_repeats(self, Z: Floats) -> tuple[Floats, Integers]:
        """Return test rows whose votes are those of all, and for each test row the number of the one with its votes."""
        return Z, np.arange(len(Z))

    def _votes_per_row(self) -> int:
        """Return how many votes on a test row can differ from 0."""
        return self._n_rows

    def _numbers_per_row(self) -> int:
        """Return how many numbers `_votes` has in memory for each test row, besides the votes themselves."""
        return 3 * self._n_rows

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
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, unlabeled: Any = None) -> LabelLinearClassifier:
        X = self._read_training_rows(X, y, unlabeled)
        self.precision_ = int(self.precision)
        # a copy for learners that keep the rows themselves: what their owner does to them later must not move any
        self.fit_without_labels(X.copy() if self._weighs_row_by_row else X)
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
        winner, is_decided = self._estimated_winners(Z)
        open_rows = np.flatnonzero(~is_decided)
        if open_rows.size:
            winner[open_rows] = winners(self._scores(Z[open_rows])[0])
        return np.asarray(self.classes_[winner])

    def _estimated_winners(self, Z: Floats) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the class that the estimated scores name for each row, and whether the votes can name no other."""
        winner, is_decided = np.zeros(len(Z), dtype=np.int64), np.zeros(len(Z), dtype=bool)
        for start in range(0, len(Z), ESTIMATED_ROWS):
            rows = np.arange(start, min(start + ESTIMATED_ROWS, len(Z)))
            estimate = self._estimated_scores(Z[rows])
            if estimate is not None:
                winner[rows], is_decided[rows] = self._with_offsets(estimate).decided()
        return winner, is_decided

    def decision_function(self, X: Any) -> Floats:
        """Return the class scores of the deployed rule, shape (m, K); with two classes their difference, shape (m,)."""
        scores, exponent = self._scores(self._test_features(X))
        values = scale(scores.astype(np.float64), -exponent[:, None])
        return values[:, 1] - values[:, 0] if len(self.classes_) == 2 else values

    def vote_weights(self, X: Any) -> tuple[Floats, Floats]:
        """Return what the prediction is made of: alpha (m, n) and offsets (m, K), in the paper's notation.

        ``argmax(alpha @ onehot(y) + offsets)`` is the prediction, whatever the labels y. This is the one method that
        needs memory of m times n: call it on a few rows.
        """
        source = self._votes(self._test_features(X))
        votes = all_votes(source)
        offsets = self._offsets(source, votes.sum(axis=1).astype(np.int64))
        down = -source.exponent[:, None]
        return scale(votes, down), scale(offsets.astype(np.float64), down)

    def certify(self, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            ``"exact"``: the largest radius that is true. ``"kl"`` and ``"tight"``: by noise on the labels, as in the
            paper. All three speak of what :meth:`predict` returns. Default: the learner's `method`.
        adversary : Adversary, optional
            What can be done to the labels. Default: any label may be changed to anything.

        Returns
        -------
        Certificates
        """
        method = check_method(self.method if method is None else method, type(self).__name__)
        Z, like = self._without_repeats(self._test_features(X))
        powers = self._powers(adversary)
        n_jobs = effective_n_jobs(self.n_jobs)
        blocks = self._blocks(len(Z), n_jobs, powers)
        if n_jobs == 1:
            parts = [self._certify_block(Z[rows], method, powers) for rows in blocks]
        else:
            with single_threaded("blas"):
                work = (delayed(self._certify_block)(Z[rows], method, powers) for rows in blocks)
                parts = Parallel(n_jobs=n_jobs, require="sharedmem")(work)
        self._check_parts(parts, Z, powers.scope)
        limits = adversary_assumptions(adversary, powers.scope, method)
        return self._certificates(parts, like, method, adversary, powers.scope, limits)

    def _check_parts(self, parts: list[tuple[BlockCertificates, Integers]], Z: Floats, scope: Scope) -> None:
        """Make sure that certificates do not contradict themselves, nor what `predict` says of the same rows."""
        for block, _ in parts:
            block.check(scope.n_touchable)
        certified = np.concatenate([block.winner for block, _ in parts])
        predicted, is_decided = self._estimated_winners(Z)
        require(np.all((certified == predicted) | ~is_decided), "certify and predict name different classes")

    def _certify_block(self, Z: Floats, method: str, powers: Powers) -> tuple[BlockCertificates, Integers]:
        source, n_classes = self._votes(Z), len(self.classes_)
        if method == "exact" and powers.groups is not None:
            votes = class_scores(source, self._codes, n_classes)
            scores = votes + self._offsets(source, votes.sum(axis=1))
            by_group = group_votes(source, self._codes, n_classes, powers.groups, powers.changeable)
            return certify_groups_exactly(by_group, scores, powers.scope), source.exponent
        free, fixed = changeable_histogram(source, self._codes, n_classes, self.precision_, powers.changeable)
        return self._certify_counted(free, fixed, source, method, powers.scope), source.exponent

    def _certify_counted(
        self, free: VoteHistogram, fixed: Integers, source: VoteSource, method: str, scope: Scope
    ) -> BlockCertificates:
        """Certify from the counted votes of changeable labels, and the sums of those of all others by class."""
        check_counts(free.counts.sum(axis=2), scope.n_changeable)
        offsets = fixed + self._offsets(source, (free.scores + fixed).sum(axis=1))
        if method == "exact":
            return certify_exact(free, offsets, scope)
        return certify_smoothed(free, offsets, method, self._noises(), scope)

    def _certificates(
        self,
        parts: list[tuple[BlockCertificates, Integers]],
        like: Integers,
        method: str,
        adversary: Adversary | None,
        scope: Scope,
        limits: list[str],
    ) -> Certificates:
        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(block, name) for block, _ in parts])[like]

        exponent = np.concatenate([exponent for _, exponent in parts])[like]
        winner = joined("winner")
        noise: float | Floats = joined("noise") if self.noise_ is None else self.noise_.q
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
            n_train=self._n_labels,
            classes=self.classes_.copy(),
            assumptions=(*self._assumed, *limits),
            unit=scope.unit,
            n_touchable=scope.n_touchable,
            adversary=adversary,
        )

    def _scores(self, Z: Floats) -> tuple[Integers, Integers]:
        """Return the scores of the deployed rule, counted vote by vote, and the grid of each row."""
        Z, like = self._without_repeats(Z)
        scores, exponents = [], []
        for rows in self._blocks(len(Z), 1):
            source = self._votes(Z[rows])
            votes = class_scores(source, self._codes, len(self.classes_))
            scores.append(votes + self._offsets(source, votes.sum(axis=1)))
            exponents.append(source.exponent)
        return np.concatenate(scores)[like], np.concatenate(exponents)[like]

    def _vote_table(self, Z: Floats, adversary: Adversary | None) -> VoteTable:
        """Return all votes on a few test rows, for attacks on several predictions at once."""
        source = self._votes(Z)
        votes = all_votes(source)
        offsets = self._offsets(source, votes.sum(axis=1).astype(np.int64))
        return VoteTable(votes, offsets, self._codes, self._powers(adversary))

    def _offsets(self, source: VoteSource, votes: Integers) -> Integers:
        """Return the offsets of the deployed rule on the grid, given the sum of all votes on each test row.

        The highest becomes 0, and a class that could not even draw level with it is cut off there: nothing overflows.
        """
        offsets = getattr(source, "offsets", None)
        if offsets is None:
            offsets = self._deployed_offsets(votes, source.exponent)
        if offsets is None:
            return np.zeros((len(votes), len(self.classes_)), dtype=np.int64)
        hopeless = float(self._n_rows * 2**self.precision_)
        behind = np.minimum(offsets, np.finfo(np.float64).max)
        behind = behind - behind.max(axis=1, keepdims=True)
        return np.asarray(np.maximum(np.rint(behind), -hopeless), dtype=np.int64)

    def _with_offsets(self, estimate: EstimatedScores) -> EstimatedScores:
        """Add the offsets of the deployed rule, whose error is that of the sum of votes, scaled, and a rounding."""
        offsets = self._deployed_offsets(estimate.scores.sum(axis=1), estimate.exponent)
        if offsets is None or self.noise_ is None:
            return estimate
        error = above(
            estimate.error.sum(axis=1)[:, None] / self.noise_.signal + 4 * UNIT_ROUNDOFF * np.abs(offsets) + 1
        )
        return estimate.shifted(offsets, error)

    def _noises(self) -> list[LabelFlip]:
        if self.noise_ is not None:
            return [self.noise_]
        K = len(self.classes_)
        return [LabelFlip(part * (K - 1) / K, K) for part in AUTO_NOISES]

    def _blocks(self, n_rows: int, n_jobs: int, powers: Powers | None = None) -> Iterator[slice]:
        """Yield blocks of test rows, as large as memory allows."""
        check_parameters(self, "block_size")
        n_classes, held = len(self.classes_), self._numbers_per_row()
        if powers is not None and not powers.changeable.all():
            n_classes *= 2  # those that cannot be changed are counted apart
        if powers is not None and powers.groups is not None:
            held += 8 * min(self._n_rows, powers.scope.n_touchable * len(self.classes_))
        budget = MEMORY_BUDGET // n_jobs
        size = self.block_size or block_rows(self._votes_per_row(), n_classes, self.precision_, budget, held)
        for start in range(0, n_rows, size):
            yield slice(start, start + size)

    def _resolve_noise(self, n_classes: int) -> LabelFlip | None:
        if isinstance(self.noise, str):  # "auto"
            if self._rule_depends_on_noise():
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
