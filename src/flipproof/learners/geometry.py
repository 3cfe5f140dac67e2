"""What a label-linear learner defines: who votes on a test row and how loudly, without reading a label."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.assumptions import Assumption
from flipproof.core.ballots import Ballots, cast
from flipproof.core.gains import GainBounds
from flipproof.core.histograms import clip_levels
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import EstimatedScores, ProductVotes, VoteSource, all_votes, clipped, vote_totals, with_prior
from flipproof.learners.prior import RowsWithPrior, features_in
from flipproof.learners.row_by_row import votes_pair_by_pair, votes_row_by_row
from flipproof.learners.statements import attained_by_reference, vote_limits
from flipproof.learners.weighted_labels import WeightedLabels


class LabelFreeVotes(WeightedLabels):
    """A certified classifier with the votes of its training rows; a learner overrides what makes them its own."""

    _held: Any  # what `hold` returned for the training rows
    _reference_held: Any  # what it returned for the reference
    _clip: str | float | None

    #: Whether `fit_without_labels` gets a copy of the rows. Needed by learners that keep the rows: later changes to the
    #: original array must not change any vote.
    _gets_a_copy = True

    def fit_without_labels(self, X: Floats) -> Any:
        """Learn what the weights need from features alone: of the training rows, or of the reference.

        It may return what `place` returns for these rows, if that is known already.

        Parameters
        ----------
        X : floats of shape (n, k)
            Training rows, after the `features` step; with a reference, the rows of the reference.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import LabelLinearClassifier
        >>> class ParzenWindow(LabelLinearClassifier):
        ...     def fit_without_labels(self, X):
        ...         self.rows_ = X
        ...     def label_free_weights(self, Z):
        ...         return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))
        >>> ParzenWindow(classes=[0, 1]).fit([[0.0], [0.2], [3.0]], [0, 0, 1]).rows_.tolist()
        [[0.0], [0.2], [3.0]]
        """
        raise NotImplementedError(f"{type(self).__name__} must define fit_without_labels(X).")

    def label_free_weights(self, Z: Floats) -> Any:
        """Return the weights of all training rows for test rows: a dense or sparse array of shape (m, n).

        It may also return a pair: the weights, and offsets of shape (m, K) that are added to the scores. It is called
        with one row at a time and on one thread, so that the weights for a row are bit-identical in any batch.

        Parameters
        ----------
        Z : floats of shape (m, k)
            Test rows, after the `features` step.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import LabelLinearClassifier
        >>> class ParzenWindow(LabelLinearClassifier):
        ...     def fit_without_labels(self, X):
        ...         self.rows_ = X
        ...     def label_free_weights(self, Z):
        ...         return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))
        >>> model = ParzenWindow(classes=[0, 1]).fit([[0.0], [0.2], [3.0]], [0, 0, 1])
        >>> model.label_free_weights(np.array([[0.1]])).round(2)
        array([[0.9 , 0.9 , 0.06]])
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define label_free_weights(Z), which returns weights of shape (m, n)."
        )

    def weight_of_row(self, x: Floats, z: Floats) -> float:
        """Return the weight of one training row for one test row, both of shape (k,), given the reference.

        Only for fits with ``reference=...``. It is called for every pair of rows. It must not depend on other training
        rows, nor on labels.

        Parameters
        ----------
        x, z : floats of shape (k,)
            A training row and a test row.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import Adversary, LabelLinearClassifier
        >>> class ParzenWindow(LabelLinearClassifier):
        ...     def fit_without_labels(self, X):
        ...         pass  # the width of the window is fixed, so nothing is learned from the reference
        ...     def weight_of_row(self, x, z):
        ...         return np.exp(-np.abs(z - x).sum())
        >>> X, y, reference = [[0.0], [0.2], [0.4], [3.0]], [0, 0, 0, 1], [[0.0], [3.0]]
        >>> model = ParzenWindow(classes=[0, 1]).fit(X, y, reference=reference)
        >>> model.certify([[0.1]], adversary=Adversary(changes="removals")).radius
        array([2])
        """
        raise NotImplementedError(f"{type(self).__name__} must define weight_of_row(x, z) to support reference=....")

    def place(self, X: Floats) -> NDArray[Any]:
        """Return what the votes of training rows depend on, one line per row, given the reference (M12).

        A line must depend on its own row only, bit by bit. By default, it is the row itself.
        """
        if type(self).weight_of_row is LabelFreeVotes.weight_of_row:
            raise ValueError(
                f"{type(self).__name__} does not support reference=...: its weights depend on all training rows. Use "
                "another learner, for example CertifiedRidgeClassifier, or define weight_of_row(x, z)."
            )
        return np.array(X, dtype=np.float64)

    def hold(self, placed: Any) -> Any:
        """Return what `label_free_votes` needs to let the placed rows vote: an index, or the lines themselves."""
        return placed

    def hold_more(self, held: Any, placed: Any, n_before: int) -> Any:
        """Return what `hold` returns for placed rows, given what it returned for the first `n_before` of them.

        For `partial_fit`. By default this calls `hold`; override it if that takes long.
        """
        return self.hold(placed)

    def label_free_votes(self, Z: Floats, held: Any) -> VoteSource:
        """Return the votes of training rows on a block of test rows, given as `test_features` returned them.

        This calls `label_free_weights` with one row at a time. Override it for speed: round the weights to `precision_`
        bits by :func:`~flipproof.core.votes.dense_votes` or :func:`~flipproof.core.votes.sparse_votes`. The votes on a
        row must be bit-identical in any block, and must not depend on any label. `held` is what `hold` returned
        for the rows that vote; None if the learner does not place rows.

        Parameters
        ----------
        Z : array
            Test rows.
        held : object
            The training rows that vote.

        Returns
        -------
        VoteSource
            The votes of a block.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import LabelLinearClassifier
        >>> from flipproof.core.votes import dense_votes
        >>> class ParzenWindow(LabelLinearClassifier):
        ...     def fit_without_labels(self, X):
        ...         self.rows_ = X
        ...     def label_free_votes(self, Z, held):
        ...         weights = np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))
        ...         return dense_votes(weights, precision=self.precision_)
        >>> ParzenWindow(classes=[0, 1]).fit([[0.0], [0.2], [0.4], [3.0]], [0, 0, 0, 1]).certify([[0.1]]).radius
        array([1])
        """
        if self.n_reference_ is not None:
            return votes_pair_by_pair(self.weight_of_row, Z, held, self._reference_held, self.precision_)
        n_train, n_classes = self.n_rows_, len(self.classes_)
        return votes_row_by_row(self.label_free_weights, Z, n_train, n_classes, self.precision_)

    def test_rows(self, X: object) -> Any:
        """Return all that the prediction of test rows depends on: their features, and what the prior says, if any."""
        Z = self.test_features(X)
        return Z if self.weighted_prior_ is None else RowsWithPrior(Z, self.weighted_prior_.shares(X))

    def votes_on(self, Z: object) -> VoteSource:
        """Return the votes of all training rows on a block of test rows, clipped to their limit, if any.

        `Z` is what `test_rows` returns. If there is a prior, the votes carry its offsets.
        """
        if self._majority is None:
            return self._votes_with_prior(Z, self._ballots)
        assert self._ballots is not None
        return cast(self._votes_with_prior(Z, None), self._ballots, self.precision_)

    def votes_of_items(self, Z: object) -> VoteSource:
        """Return the votes of all rows on a block of test rows, also of those that have no majority and drop out."""
        return self._votes_with_prior(Z, None)

    def _votes_with_prior(self, Z: object, ballots: Ballots | None) -> VoteSource:
        """Return the votes on a block of test rows, of rows or of ballots.

        Soundness: which items have a majority depends on labels. So limits and the prior's scale are taken from the
        votes of all items, and only then do the items without a majority drop out.
        """
        features = features_in(Z)
        source = self.label_free_votes(features, self._held)
        if ballots is not None and self.n_reference_ is None:
            source = cast(source, ballots, self.precision_)
        limit = self._vote_limits(features, source)
        source = source if limit is None else clipped(source, limit)
        if ballots is not None and self.n_reference_ is not None:  # limits are in units of the reference's votes
            source = cast(source, ballots, self.precision_)
        if self.weighted_prior_ is None:
            return source
        if not isinstance(Z, RowsWithPrior):
            raise TypeError("A learner with a prior needs test rows as test_rows(X) returns them.")
        return with_prior(source, self.weighted_prior_.offsets(self.total_votes(features, source), Z.shares))

    def total_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Return the sum of the absolute votes on each test row of the rows that the geometry was learned from (M15).

        Soundness: these are the training rows if only labels can be changed, else the rows of the reference. So the sum
        depends on nothing that an adversary can change, and is an integer that is exact in any order of summation.
        """
        if self.n_reference_ is None or self._ballots is not None:  # with weights, rows cannot be changed
            return vote_totals(source)
        of_reference = self.label_free_votes(Z, self._reference_held)
        return vote_totals(of_reference if source.limit is None else clipped(of_reference, source.limit))

    def _vote_limits(self, Z: Floats, source: VoteSource) -> Integers | None:
        """Return the largest vote of any possible row on each test row, by `clip` and by a frozen geometry."""
        largest = None if self.n_reference_ is None else self.largest_votes(Z, source)

        def levels(share: float) -> Integers:
            all_rows = source if self.n_reference_ is None else self.label_free_votes(Z, self._reference_held)
            return clip_levels(all_rows, share, self.precision_)

        return vote_limits(self._clip, len(source.exponent), largest, levels)

    def largest_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Return a bound on the vote of any possible row on each test row: V in M12. By default the end of the grid."""
        return np.full(len(source.exponent), 2**self.precision_ - 1, dtype=np.int64)

    def attains_largest_votes(self, Z: Floats, limit: Integers) -> bool:
        """Tell whether on every test row of a block, some row that could be added is known to have a vote of this size.

        By default, this is known only for votes that are clipped: a row of the reference may have such a vote.
        """
        return bool(self._attained_by_reference(Z, limit).all())

    def _attained_by_reference(self, Z: Floats, limit: Integers) -> NDArray[np.bool_]:
        """Tell on which test rows some row of the reference is known to have a clipped vote of this size."""
        return attained_by_reference(
            self._clip, limit, lambda rows: self.label_free_votes(Z[rows], self._reference_held)
        )

    #: Whether the vote of a row never depends on other training rows, given a reference; not so for neighbours.
    rows_vote_separately = True

    def votes_of(self, X: Any, Z: Any) -> Integers:
        """Return the votes that rows would have on a block of test rows if they were training rows, shape (m, rows).

        Needs a fit with ``reference=...``: the vote of a row then does not depend on other training rows.

        Parameters
        ----------
        X : array or data frame of shape (rows, k)
            Rows as `fit` takes them.
        Z : array
            Test rows as `test_rows` returns them.
        """
        Z = features_in(Z)
        source = self.label_free_votes(Z, self.hold(self.place(self._rows_in_geometry(X))))
        limit = self._vote_limits(Z, source)
        return all_votes(source if limit is None else clipped(source, limit)).astype(np.int64)

    def loudest_rows(self, X: object) -> Any:
        """Return, for each test row, a row whose vote on it is probably large, as `fit` takes rows.

        By default, these are the test rows themselves. Attacks add these rows; no certificate depends on them.
        """
        return X

    def _fit_with_labels(self, codes: Integers) -> None:
        """Compute what needs the labels. If a vote depends on it, `learner_assumptions` must say so."""

    def _fit_with_more_labels(self, codes: Integers, n_before: int) -> None:
        """Compute what needs the labels again after all but the first `n_before` have joined."""
        self._fit_with_labels(codes)

    def rule_depends_on_noise(self) -> bool:
        """Tell whether the deployed rule depends on the noise (M5)."""
        return False

    def _deployed_offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats | None:
        """Return the offsets of the deployed rule in grid units, given the sum of all votes on each test row."""
        return None

    def _estimated_scores(self, Z: Floats) -> EstimatedScores | None:
        """Return cheap estimates of the scores without offsets, with proven error bounds; None by default."""
        return None

    def _products_held(self) -> tuple[Callable[[Floats], ProductVotes], GainBounds] | None:
        """Return the factor of the votes that depends on test rows, and bounds on the other factor; None by default."""
        return None

    def _without_repeats(self, Z: Floats) -> tuple[Floats, Integers]:
        """Return test rows with distinct votes, and for each test row the index of the one that has its votes."""
        return Z, np.arange(len(Z))

    def _different(self, Z: Any) -> tuple[Any, Integers]:
        """Return test rows without repeats; a prior may say something else about each row."""
        return self._without_repeats(Z) if self.weighted_prior_ is None else (Z, np.arange(len(Z)))

    def votes_per_row(self) -> int:
        """Return how many votes on a test row can differ from 0."""
        return self.n_rows_

    def numbers_per_row(self) -> int:
        """Return how many numbers `label_free_votes` holds in memory per test row, besides the votes themselves."""
        return 3 * self.n_rows_

    def learner_assumptions(self) -> Iterable[Assumption | str]:
        """Return the assumptions of this learner, besides those common to all learners, as objects or as sentences."""
        return []

    def learn_from_trusted(self, X: Floats, codes: Integers) -> Iterable[str]:
        """Learn from trusted rows and their labels, before `fit_without_labels`; return what has read these labels.

        Called with the features of trusted rows and their labels as positions in `classes_`, if the fit got any (M15).
        By default, nothing is learned. A learner that learns from them names the part that did, for instance "the
        trees": certificates list it among their assumptions.
        """
        return ()
