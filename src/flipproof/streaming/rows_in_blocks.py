"""What learners over rows in blocks predict and certify, in passes over the rows, with the same votes as in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.adversary import Adversary, check_adversary, refuse_windows, rights_of
from flipproof.certificates import Certificates
from flipproof.core.engine import (
    CertifiedBlock,
    certify_counted,
    certify_groups_exactly,
    certify_rows,
    certify_sources,
    check_blocks,
    estimated_winners,
    grid_offsets,
    predicted_codes,
)
from flipproof.core.histograms import (
    CellTally,
    LevelTally,
    VoteCount,
    VoteHistogram,
    block_rows,
    changeable_part,
    clip_levels,
    level_of_share,
)
from flipproof.core.powers import Scope
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import EstimatedScores, ProductVotes, grouped, tiles, vote_totals
from flipproof.learners.label_linear import MEMORY_BUDGET, MOST_ROWS
from flipproof.learners.prior import RowsWithPrior, features_in
from flipproof.learners.ridge import (
    largest_products,
)
from flipproof.learners.statements import (
    Statement,
    assumptions_against,
    attained_by_reference,
    check_limit,
    check_method,
    checked_rates,
    class_values,
    noises_to_try,
    random_error_bounds,
    refuse_noise_against_rows,
    up_to,
    vote_limits,
)
from flipproof.origins import Origin
from flipproof.parameters import check_parameters
from flipproof.streaming.blocks import as_features
from flipproof.streaming.fit_in_passes import FittedInPasses
from flipproof.streaming.passes import (
    Visit,
    VisitEach,
    census,
)
from flipproof.streaming.row_blocks import RowBlocks
from flipproof.streaming.voting import (
    BlockAdversary,
    GroupSums,
    GroupTally,
    ListRows,
    Scores,
    Tally,
    TallyOfSizes,
    Voters,
    VoteSums,
    VotingRows,
    block_adversary,
)

#: Memory for the counts of one pass over the training rows.
TALLY_BYTES = 64 * 2**20

#: Number of test rows whose scores are summed in one pass.
SCORED_ROWS = 2**14


class RowsInBlocks(FittedInPasses):
    """A label-linear learner that reads its training rows one block at a time, without holding them.

    It keeps only a few matrices of shape (columns, columns). Votes of single rows are not available: there is no
    `votes_on` for attacks and no `vote_weights`.
    """

    def predict(self, X: object) -> NDArray[Any]:
        """Return the predicted classes; ties go to the class that sorts first.

        An estimate decides every row whose lead exceeds the proven error of the estimate; the training rows are
        visited only for the others.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        array of shape (m,)
            A class for each test row.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import StreamingRidgeClassifier
        >>> X, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
        >>> model = StreamingRidgeClassifier(classes=[0, 1]).fit([(X[:20], y[:20]), (X[20:], y[20:])])
        >>> model.predict([[5.0], [30.0]])
        array([0, 1])
        """
        codes = predicted_codes(self.test_rows(X), self._estimate, self._scores)
        return np.asarray(self.classes_[codes])

    def decision_function(self, X: object) -> Floats:
        """Return the class scores of the deployed rule, shape (m, K); with two classes their difference, shape (m,).

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        floats of shape (m, K), or (m,) for two classes
            The scores. The class with the highest one is predicted.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import StreamingRidgeClassifier
        >>> X, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
        >>> model = StreamingRidgeClassifier(classes=[0, 1]).fit([(X[:20], y[:20]), (X[20:], y[20:])])
        >>> model.decision_function([[5.0], [30.0]]).round(2)
        array([-0.54,  0.39])
        """
        return class_values(*self._scores(self.test_rows(X)))

    def test_rows(self, X: object) -> Any:
        """Return all that the prediction of test rows depends on: their features, and what the prior says, if any."""
        X = self._in_this_process(X)
        Z = self.test_features(X)
        if self.weighted_prior_ is None:
            return Z
        in_frame = self.reads_trusted_rows_ and hasattr(X, "columns")  # training rows have no names of columns
        return RowsWithPrior(Z, self.weighted_prior_.shares(as_features(X, "X") if in_frame else X))

    def _estimate(self, Z: Any) -> EstimatedScores | None:
        """Return the estimated scores of the deployed rule; None with a prior or limited votes, as in memory."""
        if self._clip is not None or self.n_reference_ is not None or self.weighted_prior_ is not None:
            return None
        estimate = self._rule.estimated_scores(Z)
        if self.noise_ is None:
            return estimate
        offsets = self._rule.offsets(estimate.scores.sum(axis=1), estimate.exponent)
        return estimate if offsets is None else estimate.with_offsets(offsets, self.noise_.signal)

    def _offsets(self, products: ProductVotes, sums: Integers) -> Integers:
        """Return the offsets of the deployed rule on the grid, given the sum of all votes on each test row."""
        offsets = self._rule.offsets(sums, products.exponent)
        if products.prior is not None:
            offsets = products.prior if offsets is None else offsets + products.prior
        n_rows = self.n_rows_ if self.n_reference_ is None else MOST_ROWS  # else a floor would change with the rows
        return grid_offsets(offsets, (len(sums), len(self.classes_)), n_rows, self.precision_)

    @property
    def _needs_totals(self) -> bool:
        """Whether a prior is weighed by the absolute votes of the training rows; with a reference, by its votes."""
        return self.weighted_prior_ is not None and self.n_reference_ is None

    def _with_prior(self, products: ProductVotes, Z: Any, totals: Integers | None) -> ProductVotes:
        """Return the factors with the offsets of the prior, given the absolute votes of training rows, if needed.

        Soundness: as in memory, :meth:`flipproof.LabelLinearClassifier.total_votes`. The sums are integers, and clipped
        as the votes are.
        """
        if self.weighted_prior_ is None:
            return products
        if totals is None:
            totals = self._votes_of_reference(products, vote_totals)
        return replace(products, prior=self.weighted_prior_.offsets(totals, Z.shares))

    def _votes_of_reference(self, products: ProductVotes, summary: Callable[[ProductVotes], Integers]) -> Integers:
        """Return a summary of the votes of the reference on each test row, for as many rows at a time as fit."""
        assert self.n_reference_ is not None
        votes, size = products.of(self._reference_basis), self._rows_counted_at_once(1, self.n_reference_)
        return np.concatenate([summary(votes.on_rows(slice(*ends))) for ends in tiles(len(votes.exponent), size)])

    def _products(self, Z: Any) -> ProductVotes:
        """Return the factors of the votes on test rows, with the limit of votes, if there is one.

        A `clip` that is a share of the votes of the training rows needs a pass over them.
        """
        products = self._rule.products(features_in(Z))
        largest = None
        if self.n_reference_ is not None:
            largest = largest_products(products, self._whitening, self.precision_)
        limit = vote_limits(self._clip, len(Z), largest, partial(self._clip_levels, products))
        return replace(products, limit=limit)

    @property
    def _share_of_training_rows(self) -> float | None:
        """The share of the training rows' votes that sets the limit of votes; None if they do not set it."""
        if self.n_reference_ is not None or self._clip is None or isinstance(self._clip, str):
            return None
        return float(self._clip)

    def _clip_levels(self, products: ProductVotes, share: float) -> Integers:
        """Return the level for each test row: of the votes of the reference, if there is one, or the training rows."""
        if self.n_reference_ is not None:
            return self._votes_of_reference(products, lambda votes: clip_levels(votes, share, self.precision_))
        levels, count = [], VoteCount(1, self.precision_, self.n_rows_)
        for start, stop in tiles(len(products.exponent), self._rows_per_tally(count.bytes_per_row)):
            work = TallyOfSizes(self._voters(products.on_rows(slice(start, stop))), count)
            tally = self._count_votes(work, "Finding clip levels", self._basis_rows, self._sums.census)
            for some in tiles(stop - start, self._rows_counted_at_once(1, self.n_rows_)):
                levels.append(level_of_share(tally.histogram(*some), share))
        return np.concatenate(levels)

    def _rows_counted_at_once(self, n_classes: int, n_train: int) -> int:
        """Return how many test rows have their histograms in memory at the same time."""
        return block_rows(n_train, n_classes, self.precision_, MEMORY_BUDGET)

    def _scores(self, Z: object) -> tuple[Integers, Integers]:
        found = list(self.scored_factors(Z))
        scores = [votes + offsets for _, votes, offsets in found]
        return np.concatenate(scores), np.concatenate([factors.exponent for factors, _, _ in found])

    def scored_factors(self, Z: Any) -> Iterator[tuple[ProductVotes, Integers, Integers]]:
        """Yield runs of test rows: the factors of the votes on them, sums of votes by class, and offsets.

        `Z` is what :meth:`test_rows` returned.
        """
        self._begin()
        for start, stop in tiles(len(Z), SCORED_ROWS):
            products = self._products(Z[start:stop])
            work = Scores(self._voters(products), self._needs_totals)
            sums: VoteSums = self._count_votes(work, "Summing votes", self._basis_rows, self._sums.census)
            products = self._with_prior(products, Z[start:stop], sums.totals)
            yield products, sums.scores, self._offsets(products, sums.scores.sum(axis=1))

    def voting_rows(self, adversary: Adversary | None) -> Iterator[VotingRows]:
        """Yield the training rows, block after block, with what an adversary can do to them.

        Raises
        ------
        ValueError
            If the rows have changed since the fit; not before all of them were visited.
        """
        self._begin()
        rows, known = self._rows_against(adversary)
        visit, total = VisitEach(ListRows(self._whitening, self.classes_, known.rights), self._mapping), None
        for block in self._engine.each(visit, rows, "Listing rows"):
            total = block.sums if total is None else total + block.sums
            yield block
        self._check_unchanged(total, known.census)

    def scope(self, adversary: Adversary | None) -> Scope:
        """Return how many labels an adversary can change, and to what; trusted rows are those of `fit` unless given."""
        self._begin()
        return self._rows_against(adversary)[1].scope

    def transitions(self, adversary: Adversary | None) -> NDArray[np.bool_]:
        """Return from which class (line) to which class (column) an adversary can change labels."""
        return rights_of(adversary, self.classes_).transitions

    def certify(
        self, X: object, method: str | None = None, adversary: Adversary | None = None, at_least: int | None = None
    ) -> Certificates:
        """Predict, and certify every prediction; one pass over the training rows serves a few thousand test rows.

        Parameters
        ----------
        X : array, data frame, or either in Dask, of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            As for the learner in memory. Default: the learner's `method`.
        adversary : Adversary, optional
            What can be changed: labels, or whole rows after a fit with ``reference=...``. Trusted rows and groups that
            it does not give are those of `fit`. By default any label that is not trusted may be changed to any class.
        at_least : int, optional
            Return radii only up to this limit, see :attr:`Certificates.radius_limit`.

        Returns
        -------
        Certificates

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import StreamingRidgeClassifier
        >>> X, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
        >>> model = StreamingRidgeClassifier(classes=[0, 1]).fit([(X[:20], y[:20]), (X[20:], y[20:])])
        >>> model.certify([[5.0], [30.0]]).radius
        array([5, 4])
        """
        method = check_method(self.method if method is None else method, type(self).__name__)
        check_limit(type(self).__name__, at_least, method)
        X = self._in_this_process(X)
        Z = self.test_rows(X)
        self._begin()
        self.refuse_unless_frozen(adversary)
        rows, known = self._rows_against(adversary)
        if known.scope.changes != "labels":
            refuse_noise_against_rows(method)
        parts: list[CertifiedBlock] = []
        for start, stop in tiles(len(Z), self._rows_per_pass(known, method)):
            parts += self._certify_in_a_pass(Z[start:stop], method, known, rows)
        check_blocks(parts, known.scope, *estimated_winners(Z, self._estimate))
        limits = known.assumptions(method)
        statement = Statement(
            method=method,
            noise=self.noise_,
            classes=self.classes_,
            n_labels=self.n_labels_,
            assumptions=(*assumptions_against(known.scope, self.assumptions_, parts), *limits),
            adversary=adversary,
            scope=known.scope,
        )
        found = statement.certificates(parts, Origin.of(self, X, len(Z)))
        return found if at_least is None else up_to(found, at_least)

    def _rows_against(self, adversary: Adversary | None) -> tuple[RowBlocks, BlockAdversary]:
        """Return the rows with the trust and annotators of an adversary, and the powers of that adversary.

        Soundness: rows whose labels a prior has read are trusted, also by an adversary that does not name them (M15).
        """
        counted, rows = self._sums.census, self._basis_rows
        refuse_windows(adversary, type(self).__name__)
        check_adversary(adversary, self.n_rows_)
        if adversary is not None and (adversary.trusted is not None or adversary.groups is not None):
            columns = adversary.trusted, adversary.groups
            rows = rows.with_columns(self._known.rows_per_part, *columns, keep_trusted=self.reads_trusted_rows_)
            counted = self._found(Visit(partial(census, classes=self.classes_)), "Counting labels", rows)
        if not self.reads_trusted_rows_:
            n_trusted = None if counted.trusted is None else int(counted.trusted.sum())
        else:
            named = None if adversary is None else adversary.trusted
            n_trusted = None if named is None else int(np.count_nonzero(named))
        return rows, block_adversary(adversary, counted, self.classes_, n_trusted)

    def _rows_per_pass(self, known: BlockAdversary, method: str) -> int:
        check_parameters(self, "block_size")
        if known.rights.cells is not None and method == "exact":
            bytes_per_row = 16 * len(known.rights.cells.numbers)
        else:
            bytes_per_row = self._count(known).bytes_per_row
        return self.block_size or self._rows_per_tally(bytes_per_row)

    def _rows_per_tally(self, bytes_per_row: int) -> int:
        held = 8 * len(self._whitening.basis_exponent)
        return max(1, TALLY_BYTES // max(1, bytes_per_row + held))

    def _count(self, known: BlockAdversary) -> VoteCount:
        n_classes = len(self.classes_) * (2 if known.rights.is_limited else 1)
        return VoteCount(n_classes, self.precision_, self.n_rows_)

    def _voters(self, products: ProductVotes) -> Voters:
        return Voters(self._whitening, products, self.classes_)

    def _certify_in_a_pass(self, Z: Any, method: str, known: BlockAdversary, rows: RowBlocks) -> list[CertifiedBlock]:
        if method == "exact" and known.rights.cells is not None:
            return [self._certify_groups(Z, known, rows)]
        parts = []
        for rows_counted, part, free, offsets in self._counted_votes(Z, known, rows):
            if known.scope.changes == "labels":
                noises = noises_to_try(self.noise_, len(self.classes_))
                found = certify_counted(free, offsets, method, noises, known.scope)
                parts.append(CertifiedBlock(found, part.exponent))
            else:
                assert part.limit is not None
                found = certify_rows(free, offsets, part.limit, known.scope)
                parts.append(CertifiedBlock(found, part.exponent, self._is_attained(Z[rows_counted], part, known)))
        return parts

    def _counted_votes(
        self, Z: Any, known: BlockAdversary, rows: RowBlocks
    ) -> Iterator[tuple[slice, ProductVotes, VoteHistogram, Integers]]:
        """Count votes in one pass; yield runs of test rows, their products, changeable votes and offsets."""
        # levels that the training rows decide are read from the counts of unclipped votes, which are clipped afterwards
        share, n_classes = self._share_of_training_rows, len(self.classes_)
        products = self._products(Z) if share is None else self._rule.products(features_in(Z))
        count = self._count(known)
        work = Tally(self._voters(products), count, known.rights)
        tally: LevelTally | CellTally = self._count_votes(work, "Counting votes", rows, known.census)
        for start, stop in tiles(len(Z), self._rows_counted_at_once(count.n_classes, self.n_rows_)):
            counted, part = tally.histogram(start, stop), products.on_rows(slice(start, stop))
            if share is not None:
                counted = tally.histogram(start, stop, level_of_share(counted, share))
            part = self._with_prior(part, Z[start:stop], counted.vote_mass if self._needs_totals else None)
            free, fixed = changeable_part(counted, n_classes)
            yield slice(start, stop), part, free, fixed + self._offsets(part, (free.scores + fixed).sum(axis=1))

    def random_error_bound(
        self, X: object, rate: Any = 0.05, direction: str = "worst", trusted: ArrayLike | None = None
    ) -> Floats:
        """Bound the probability that random errors in the training labels change each prediction.

        As for the learner in memory: :meth:`flipproof.LabelLinearClassifier.random_error_bound`. Trusted labels are
        those of `fit`, unless given.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        rate, direction, trusted : optional
            As for the learners in memory.

        Returns
        -------
        floats of shape (m,), or (m, r) for r rates
            The bounds.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import StreamingRidgeClassifier
        >>> X, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
        >>> model = StreamingRidgeClassifier(classes=[0, 1]).fit([(X[:20], y[:20]), (X[20:], y[20:])])
        >>> model.random_error_bound([[5.0], [18.0]], rate=0.1).round(3)
        array([0.012, 1.   ])
        """
        rates = checked_rates(type(self).__name__, rate, direction)
        Z = self.test_rows(X)
        self._begin()
        rows, known = self._rows_against(None if trusted is None else Adversary(trusted=trusted))
        parts = []
        for start, stop in tiles(len(Z), self._rows_per_pass(known, "kl")):
            for _, _, free, offsets in self._counted_votes(Z[start:stop], known, rows):
                parts.append(random_error_bounds(free, offsets, rates, direction))
        return np.concatenate(parts).reshape(-1, *np.shape(rate))

    def _certify_groups(self, Z: object, known: BlockAdversary, rows: RowBlocks) -> CertifiedBlock:
        cells, products = known.rights.cells, self._products(Z)
        assert cells is not None
        work = GroupTally(self._voters(products), known.rights, self._needs_totals)
        sums: GroupSums = self._count_votes(work, "Summing votes", rows, known.census)
        products = self._with_prior(products, Z, sums.votes.totals)
        scores = sums.votes.scores + self._offsets(products, sums.votes.scores.sum(axis=1))
        by_group = grouped(sums.by_cell, cells.numbers, len(self.classes_))
        if known.scope.changes == "labels":
            return CertifiedBlock(certify_groups_exactly(by_group, scores, known.scope), products.exponent)
        assert products.limit is not None
        found = certify_sources(by_group, cells.n_rows, scores, products.limit, known.scope)
        return CertifiedBlock(found, products.exponent, self._is_attained(Z, products, known))

    def _is_attained(self, Z: object, products: ProductVotes, known: BlockAdversary) -> bool:
        """Tell whether on every test row, the largest vote is known to be that of some row that could be added."""
        assert products.limit is not None
        if known.scope.changes == "removals":
            return True
        return bool(self._attained(features_in(Z), products, products.limit).all())

    def _attained(self, Z: Floats, products: ProductVotes, limit: Integers) -> NDArray[np.bool_]:
        """Tell on which test rows some row is known to have a vote of this size: by default, of the reference."""
        votes = replace(products, limit=None).of(self._reference_basis)
        return attained_by_reference(self._clip, limit, votes.on_rows)
