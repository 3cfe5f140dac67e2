"""What learners over rows in blocks share: fit, predict and certify in passes, with the same votes as in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.adversary import Adversary, check_adversary, refuse_windows, rights_of
from flipproof.assumptions import as_assumption
from flipproof.certificates import Certificates, check_limit, check_method, up_to
from flipproof.core.contents import row_hashes
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
from flipproof.core.linalg import Total, Whitening
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import EstimatedScores, ProductVotes, grouped, tiles, vote_totals
from flipproof.learners.base import (
    MEMORY_BUDGET,
    MOST_ROWS,
    LabelLinearParameters,
)
from flipproof.learners.certified import TrustedPart
from flipproof.learners.prior import Prior, RowsWithPrior, features_in, is_fitted, reads_no_labels
from flipproof.learners.ridge import (
    LabelSums,
    largest_products,
)
from flipproof.learners.statements import (
    Statement,
    assumptions_against,
    attained_by_reference,
    checked_rates,
    class_values,
    noises_to_try,
    random_error_bounds,
    refuse_noise_against_rows,
    resolve_noise,
    vote_limits,
)
from flipproof.origins import Origin
from flipproof.parameters import NONE, Constraints, check_parameters, parameter_error
from flipproof.streaming.blocks import Block, Part, as_features
from flipproof.streaming.known_rows import KnownRows
from flipproof.streaming.passes import (
    Census,
    FirstRow,
    GatherTrusted,
    InThisProcess,
    Keep,
    LabelledSums,
    OfFeatures,
    SurveyedRows,
    Visit,
    VisitEach,
    Visited,
    census,
    labelled_sums,
    survey,
)
from flipproof.streaming.row_blocks import RowBlocks, as_row_blocks
from flipproof.streaming.voting import (
    BlockAdversary,
    GroupSums,
    GroupTally,
    ListRows,
    Scores,
    Tally,
    TallyOfSizes,
    Voted,
    Voters,
    VoteSums,
    VotingRows,
    block_adversary,
)

#: Memory for the counts of one pass over the training rows.
TALLY_BYTES = 64 * 2**20

#: Number of test rows whose scores are summed in one pass.
SCORED_ROWS = 2**14


#: Arguments of `fit` that only learners in memory take.
IN_MEMORY_ONLY = ("sample_weight",)


class Engine(Protocol):
    """Visits the rows: in this process or on a cluster."""

    def total(self, visit: Callable[[Part], Any], rows: RowBlocks, says: str) -> Any:
        """Return the sum of the results of all parts, in order; None if there are no rows."""
        ...

    def kept(self, visit: Callable[[Part], Part], rows: RowBlocks, n_bytes: int, says: str) -> RowBlocks | None:
        """Keep the result of each part, `n_bytes` in total, if there is enough memory; otherwise return None."""
        ...

    def each(self, visit: Callable[[Part], Iterator[Any]], rows: RowBlocks, says: str) -> Iterator[Any]:
        """Yield the findings of all blocks, in order."""
        ...

    def keeps(self, rows: RowBlocks) -> bool:
        """Tell whether kept rows are still available."""
        ...


class Rule(Protocol):
    """The deployed rule of a learner: everything fitted except the training rows."""

    def products(self, Z: Floats) -> ProductVotes:
        """Return the factors of the votes on test rows."""
        ...

    def estimated_scores(self, Z: Floats) -> EstimatedScores:
        """Return the scores without offsets, estimated cheaply with a proven error bound."""
        ...

    def offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats | None:
        """Return the offsets in grid units, given the sum of all votes on each test row; None if all are zero."""
        ...

    def with_labels(self, labels: LabelSums) -> Rule:
        """Return the same rule for other training rows."""
        ...


class RowsInBlocks(LabelLinearParameters):
    """A label-linear learner that reads its training rows one block at a time, without holding them.

    It keeps only a few matrices of shape (columns, columns). Votes of single rows are not available: there is no
    `votes_on` for attacks and no `vote_weights`.
    """

    parameter_constraints: ClassVar[Constraints] = {
        "features": NONE.explained("transform the rows first, with RowBlocks.map(f) or map_blocks of a Dask array."),
    }

    holds_training_rows = False

    _whitening: Whitening
    _reference_basis: NDArray[np.float32]
    _reference_hashes: NDArray[np.uint64] | None
    _rule: Rule
    _mapping: Any
    _known: KnownRows
    _kept: RowBlocks | None

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        reference: Any = None,
        reference_labels: Any = None,
        trusted: Any = None,
        groups: Any = None,
        client: Any = None,
        **unsupported: Any,
    ) -> RowsInBlocks:
        """Fit to training rows in blocks, in a few passes over them; labels that are not trusted are only counted.

        Parameters
        ----------
        X : rows
            `numpy.memmap` or array; path of a folder of NPY or Parquet files, or a pattern of file names; list of
            tuples (X, y), or function that returns a new iterator of them on every call;
            :class:`~flipproof.streaming.RowBlocks`; `dask.array` or `dask.dataframe`.
        y : labels
            Array of n labels; path of NPY files; column of the Parquet files or of the data frame; `dask.array` or
            series. None if the rows include their labels.
        reference : array or data frame of shape (r, k), optional
            Rows in memory that nobody may have changed; their labels are not needed. If given, everything but the votes
            is learned from them, and nothing from the training rows: certificates against added, removed and replaced
            rows, ``Adversary(changes="rows")``, are then possible.
        reference_labels : array of shape (r,), optional
            Trusted labels of the reference: nobody may have changed them. An unfitted `prior` is fitted to the
            reference and these labels.
        trusted : like `y`, optional
            Booleans: True for rows whose labels cannot be changed, or that cannot be removed and replaced. Without
            `reference_labels`, an unfitted `prior` is fitted to these rows, which must fit in memory: they are then
            trusted in every certificate of this model.
        groups : like `y`, optional
            The annotator or source of each row. Radii then count annotators, or sources.
        client : distributed.Client, optional
            The cluster that visits the rows. By default, rows in Dask are visited by the active client, or by Dask's
            threads, and all other rows by this process.

        Returns
        -------
        self
        """
        for name in unsupported:
            in_memory = " Use the learner in memory, which takes it." if name in IN_MEMORY_ONLY else ""
            raise TypeError(f"fit of {type(self).__name__} does not take {name}.{in_memory}")
        self.validate_parameters()
        for name in [name for name in vars(self) if name[0] != "_" and name[-1] == "_"]:
            delattr(self, name)  # if anything fails from here on, the model is not fitted
        self._label_readers, self._trusted, self._reads_trusted_rows = (), None, False
        given_reference = reference
        if reference_labels is not None:
            self._trusted = self._labelled_reference(reference, reference_labels)
        if reference is None:
            self._check_without_reference()
        else:
            reference = self._fit_features_to_reference(reference)
            self.n_reference_ = len(reference)
        self._reference_hashes = None if reference is None else row_hashes(reference)
        self._client, self._kept = client, None
        rows = self._as_rows(X, y, trusted, groups)
        self._begin(rows)
        visited = self._survey(rows)
        self._known = KnownRows.of(rows, visited.seen)
        self.n_rows_ = self.n_labels_ = self._known.n_rows
        self._require_rows(1 if reference is not None else 2)
        found: SurveyedRows = visited.found
        self._name_columns(found, reference)
        self.classes_, _ = self._encoded(found.labels)
        self._prior = self._learn_prior(given_reference)
        self.precision_, self._clip = int(self.precision), self.clip
        self._mapping = None
        if reference is None:
            self._whitening = self._decompose(found)
        else:
            self._n_in_reference = found.n_in_reference
            self._whitening, self._reference_basis = self._decompose_reference(reference)
        self.noise_ = resolve_noise(self.noise, len(self.classes_), self._rule_depends_on_noise(), type(self).__name__)
        self._sum_up_labels()
        self.assumptions_ = (*self.common_assumptions(), *map(as_assumption, self.learner_assumptions()))
        self._forget_trusted_part()
        return self

    def _learn_prior(self, reference: Any) -> Prior | None:
        """Return the fitted prior, if there is one; trusted training rows are gathered only if it reads their labels.

        Soundness: labels that a prior has read are trusted in every certificate, see `_rows_against`.
        """
        if self.prior is None or is_fitted(self.prior):
            reads_labels = False
        else:
            reads_labels = not reads_no_labels(self.prior)
            if reference is None and not reads_labels:
                wanted, remedy = "fitted where training rows are in blocks", "fit it, or give reference=..."
                raise parameter_error(type(self).__name__, "prior", wanted, self.prior, remedy)
        if reads_labels and self._trusted is None and self._known.rows.has_trusted:
            self._trusted = self._trusted_rows()
        asks_training_rows = self.prior is not None and reference is None
        return self._prepare_prior(self._first_row() if asks_training_rows else None, reference)

    def _trusted_rows(self) -> TrustedPart | None:
        """Return the trusted training rows and their labels, in memory; None if there are none."""
        found: list[TrustedPart] = self._found(GatherTrusted(self.classes_), "Gathering trusted rows")
        if not found:
            return None
        joined = [np.concatenate([getattr(one, name) for one in found]) for name in ("rows", "labels", "numbers")]
        return TrustedPart(*joined)

    def _first_row(self) -> NDArray[Any]:
        """Return the first training row, to ask the prior about it."""
        at = next(number for number, n_rows in enumerate(self._known.rows_per_part) if n_rows)
        part = replace(self._known.rows, parts=self._known.rows.parts[at : at + 1])
        return np.asarray(self._engine.total(FirstRow(), part, "Reading a row"))

    def _n_trusted_at_fit(self) -> int:
        """Return how many training labels were trusted and read in the fit; other trusted labels are only votes."""
        if self._sums.census.trusted is None or not self._trust_is_fixed:
            return 0
        return int(self._sums.census.trusted.sum())

    @property
    def _trust_is_fixed(self) -> bool:
        """Whether labels of training rows were read, so that no adversary can be allowed to change them (M15)."""
        if self._trusted is None:
            return self._reads_trusted_rows
        return self._trusted.numbers is not None and bool(self._label_readers)

    def _name_columns(self, found: SurveyedRows, reference: Floats | None) -> None:
        """Keep the number of columns, and their names, if any, so that test rows with other columns are refused."""
        names = self._known.rows.feature_names
        if reference is None:
            self.features_, self.n_features_in_ = None, len(found.ranges.low)
        self._refuse_columns_unlike_the_reference(found, names)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _refuse_columns_unlike_the_reference(self, found: SurveyedRows, names: tuple[str, ...] | None) -> None:
        n_columns = len(found.ranges.low)
        if n_columns != self.n_features_in_:
            raise ValueError(
                f"The reference has {self.n_features_in_} columns, but {found.name} has {n_columns}: give rows with "
                "the same columns."
            )
        of_reference = getattr(self, "feature_names_in_", None)
        if names is not None and of_reference is not None and tuple(of_reference) != names:
            one, other = next(pair for pair in zip(of_reference, names, strict=True) if pair[0] != pair[1])
            raise ValueError(
                f"The reference has a column {one!r} where the training rows have {other!r}: give rows with the same "
                "columns, in the same order."
            )

    def _rows_in_reference(self) -> int:
        return self._n_in_reference

    def _as_rows(self, X: Any, y: Any, trusted: Any, groups: Any) -> RowBlocks:
        if hasattr(X, "__dask_graph__"):
            from flipproof.streaming.dask_rows import dask_rows

            return dask_rows(X, y, trusted, groups)
        return as_row_blocks(X, y, trusted, groups)

    def _survey(self, rows: RowBlocks) -> Visited:
        """Visit rows for the first time, and return what was seen, with SurveyedRows unless there are no rows."""
        work = Visit(partial(survey, reference_hashes=self._reference_hashes))
        return self._engine.total(work, rows, "Surveying the rows") or Visited(None, ())

    def _require_rows(self, least: int) -> None:
        if self._known.n_rows < least:
            needed = "two training rows are" if least == 2 else "one training row is"
            raise ValueError(f"At least {needed} needed. Got {self._known.n_rows} instead.")

    def _check_without_reference(self) -> None:
        """Refuse parameters that need a reference in memory."""

    @abstractmethod
    def _decompose(self, found: SurveyedRows) -> Whitening:
        """Return the coordinates of the training rows, before their leverage is known; set `_mapping`, if any."""

    @abstractmethod
    def _decompose_reference(self, X: Floats) -> tuple[Whitening, NDArray[np.float32]]:
        """Return the coordinates that rows have by the reference, and those of the reference; set `_mapping`."""

    @abstractmethod
    def _settle(self, labels: LabelSums) -> Rule:
        """Return the deployed rule, given the sums of each class."""

    def _rule_depends_on_noise(self) -> bool:
        """Tell whether the deployed rule depends on the noise (M5)."""
        return False

    def _sum_up_labels(self) -> None:
        self._kept = self._kept_basis(self._known.rows)
        sums = self._labelled_sums(self._known, self._kept)
        if self.n_reference_ is None:
            self._whitening = self._whitening.with_leverage(sums.leverage)
        self._sums = sums
        self._rule = self._settle(LabelSums(sums.class_sums, sums.census.counts))

    def _kept_basis(self, rows: RowBlocks) -> RowBlocks | None:
        """Let the workers keep the basis of rows, if there is enough memory for the basis of all training rows."""
        n_bytes = 4 * self.n_rows_ * len(self._whitening.basis_exponent)
        keep = Keep(self._whitening, self.classes_, self._mapping)
        return self._engine.kept(keep, rows, n_bytes, "Rotating the rows")

    def _labelled_sums(self, known: KnownRows, kept: RowBlocks | None) -> LabelledSums:
        """Return the sums over known rows, whose basis may be kept."""
        found: LabelledSums = self._total(
            self._labels_summary, "Summing the labels", known.rows if kept is None else kept, known
        )
        return found

    @property
    def _labels_summary(self) -> Callable[[Block], LabelledSums]:
        return partial(labelled_sums, whitening=self._whitening, classes=self.classes_)

    def _feature_passes(self, says: str) -> Total:
        """Return a function that makes one pass over the features of the training rows."""
        return lambda summary: self._total(OfFeatures(summary), says)

    def _total(self, summary: Any, says: str, rows: RowBlocks | None = None, known: KnownRows | None = None) -> Any:
        return self._found(Visit(summary, self._mapping), says, rows, known)

    def _found(
        self,
        visit: Callable[[Part], Visited],
        says: str,
        rows: RowBlocks | None = None,
        known: KnownRows | None = None,
    ) -> Any:
        """Return the results of all rows, which must be the same rows as on the first visit.

        `rows` are other forms of the `known` rows, by default of all training rows.
        """
        known = self._known if known is None else known
        visited: Visited = self._engine.total(visit, known.rows if rows is None else rows, says)
        known.check(visited.seen)
        return visited.found

    @property
    def _basis_rows(self) -> RowBlocks:
        """The rows to visit for votes: those whose basis the workers keep, otherwise the original rows."""
        return self._known.rows if self._kept is None else self._kept

    def _count_votes(self, summary: Any, says: str, rows: RowBlocks, counted: Census) -> Any:
        """Visit the rows for their votes, and check that they are still the rows of the fit, as `counted`."""
        voted: Voted = self._total(summary, says, rows)
        self._check_unchanged(voted.sums, counted)
        return voted.counted

    def _check_unchanged(self, sums: LabelledSums | None, counted: Census) -> None:
        """Refuse rows with other sums than in the fit, or with labels that are not as `counted`."""
        if sums is None or not sums.is_of_the_rows_of(replace(self._sums, census=counted)):
            raise ValueError("The training rows have changed since the model was fitted: fit it again.")

    def _begin(self, rows: RowBlocks | None = None) -> None:
        """Prepare to visit the rows, by default the training rows."""
        if self._client is not None or (self._known.rows if rows is None else rows).is_in_dask:
            try:
                from flipproof.streaming.dask_cluster import on_cluster
            except ModuleNotFoundError as error:
                raise ImportError("A client needs Dask: pip install 'flipproof[dask]'") from error
            self._engine: Engine = on_cluster(self._client, self.verbose)
        else:
            self._engine = InThisProcess(self.n_jobs, self.verbose)
        if self._kept is not None and not self._engine.keeps(self._kept):
            self._kept = None

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether a fit has been completed."""
        return hasattr(self, "assumptions_")

    def step_features(self, X: Any) -> Floats:
        """Return the features of rows, which may be in Dask."""
        return super().step_features(self._in_this_process(X))

    def _in_this_process(self, X: Any) -> Any:
        """Return rows that may be in Dask."""
        if not hasattr(X, "__dask_graph__"):
            return X
        from flipproof.streaming.dask_cluster import computed

        return computed(X, getattr(self, "_client", None))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted classes; ties go to the class that sorts first.

        An estimate decides every row whose lead exceeds the proven error of the estimate; the training rows are
        visited only for the others.
        """
        codes = predicted_codes(self.test_rows(X), self._estimate, self._scores)
        return np.asarray(self.classes_[codes])

    def decision_function(self, X: Any) -> Floats:
        """Return the class scores of the deployed rule, shape (m, K); with two classes their difference, shape (m,)."""
        return class_values(*self._scores(self.test_rows(X)))

    def test_rows(self, X: Any) -> Any:
        """Return all that the prediction of test rows depends on: their features, and what the prior says, if any."""
        X = self._in_this_process(X)
        Z = self.test_features(X)
        if self._prior is None:
            return Z
        in_frame = self._reads_trusted_rows and hasattr(X, "columns")  # training rows have no names of columns
        return RowsWithPrior(Z, self._prior.shares(as_features(X, "X") if in_frame else X))

    def _estimate(self, Z: Any) -> EstimatedScores | None:
        """Return the estimated scores of the deployed rule; None with a prior or limited votes, as in memory."""
        if self._clip is not None or self.n_reference_ is not None or self._prior is not None:
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
        return self._prior is not None and self.n_reference_ is None

    def _with_prior(self, products: ProductVotes, Z: Any, totals: Integers | None) -> ProductVotes:
        """Return the factors with the offsets of the prior, given the absolute votes of training rows, if needed.

        Soundness: as in memory, :meth:`flipproof.LabelLinearClassifier.total_votes`. The sums are integers, and clipped
        as the votes are.
        """
        if self._prior is None:
            return products
        if totals is None:
            totals = self._votes_of_reference(products, vote_totals)
        return replace(products, prior=self._prior.offsets(totals, Z.shares))

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

    def _scores(self, Z: Any) -> tuple[Integers, Integers]:
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

    def transitions(self, adversary: Adversary | None) -> NDArray[np.bool_]:
        """Return from which class (line) to which class (column) an adversary can change labels."""
        return rights_of(adversary, self.classes_).transitions

    def certify(
        self, X: Any, method: str | None = None, adversary: Adversary | None = None, at_least: int | None = None
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
            rows = rows.with_columns(self._known.rows_per_part, *columns, keep_trusted=self._reads_trusted_rows)
            counted = self._found(Visit(partial(census, classes=self.classes_)), "Counting labels", rows)
        if not self._reads_trusted_rows:
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
        self, X: Any, rate: Any = 0.05, direction: str = "worst", trusted: ArrayLike | None = None
    ) -> Floats:
        """Bound the probability that random errors in the training labels change each prediction.

        As for the learner in memory: :meth:`flipproof.LabelLinearClassifier.random_error_bound`. Trusted labels are
        those of `fit`, unless given.
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

    def _certify_groups(self, Z: Any, known: BlockAdversary, rows: RowBlocks) -> CertifiedBlock:
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

    def _is_attained(self, Z: Any, products: ProductVotes, known: BlockAdversary) -> bool:
        """Tell whether on every test row, the largest vote is known to be that of some row that could be added."""
        assert products.limit is not None
        if known.scope.changes == "removals":
            return True
        return bool(self._attained(features_in(Z), products, products.limit).all())

    def _attained(self, Z: Floats, products: ProductVotes, limit: Integers) -> NDArray[np.bool_]:
        """Tell on which test rows some row is known to have a vote of this size: by default, of the reference."""
        votes = replace(products, limit=None).of(self._reference_basis)
        return attained_by_reference(self._clip, limit, votes.on_rows)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the cluster, which belongs to this process."""
        state = dict(super().__getstate__())
        return {**state, "_client": None, "_kept": None, "_engine": InThisProcess()} if "_client" in state else state
