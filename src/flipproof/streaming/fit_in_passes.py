"""How learners are fitted to rows in blocks: what is learned in passes over the rows, and kept of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from flipproof.assumptions import as_assumption
from flipproof.core.contents import row_hashes
from flipproof.core.linalg import Total, Whitening
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import EstimatedScores, ProductVotes
from flipproof.learners.certified import TrustedPart
from flipproof.learners.label_linear import LabelLinearParameters
from flipproof.learners.prior import Prior, is_fitted, reads_no_labels
from flipproof.learners.ridge import (
    LabelSums,
)
from flipproof.learners.statements import (
    resolve_noise,
)
from flipproof.parameters import NONE, Constraints, parameter_error
from flipproof.streaming.blocks import Block, Part
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
    Visited,
    labelled_sums,
    survey,
)
from flipproof.streaming.row_blocks import RowBlocks, as_row_blocks
from flipproof.streaming.voting import (
    Voted,
)

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


class FittedInPasses(LabelLinearParameters):
    """A label-linear learner that is fitted in passes over its training rows, without holding them.

    Subclasses say what is learned from the features: `_decompose`, `_decompose_reference` and `_settle`.
    """

    parameter_constraints: ClassVar[Constraints] = {
        "features": NONE.explained("transform the rows first, with RowBlocks.map(f) or map_blocks of a Dask array."),
    }

    holds_training_rows = False

    #: Whether rows come with numeric targets instead of labels.
    _labels_are_numbers = False

    _whitening: Whitening
    _reference_basis: NDArray[np.float32]
    _reference_hashes: NDArray[np.uint64] | None
    _rule: Rule
    _mapping: Any
    _known: KnownRows
    _kept: RowBlocks | None

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        reference: object = None,
        reference_labels: object = None,
        trusted: object = None,
        groups: object = None,
        client: object = None,
        **unsupported: object,
    ) -> FittedInPasses:
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

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import StreamingRidgeClassifier
        >>> X, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
        >>> StreamingRidgeClassifier(classes=[0, 1]).fit(X, y).predict([[5.0], [30.0]])
        array([0, 1])
        """
        for name in unsupported:
            in_memory = " Use the learner in memory, which takes it." if name in IN_MEMORY_ONLY else ""
            raise TypeError(f"fit of {type(self).__name__} does not take {name}.{in_memory}")
        self.validate_parameters()
        for name in [name for name in vars(self) if name[0] != "_" and name[-1] == "_"]:
            delattr(self, name)  # if anything fails from here on, the model is not fitted
        self.label_readers_, self.trusted_part_, self.reads_trusted_rows_ = (), None, False
        given_reference = reference
        if reference_labels is not None:
            self.trusted_part_ = self.labelled_reference(reference, reference_labels)
        if reference is None:
            self._check_without_reference()
        else:
            reference = self.fit_features_to_reference(reference)
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
        self.classes_, _ = self.encoded_labels(found.labels)
        self.weighted_prior_ = self._learn_prior(given_reference)
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
        self.forget_trusted_part()
        return self

    def _learn_prior(self, reference: object) -> Prior | None:
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
        if reads_labels and self.trusted_part_ is None and self._known.rows.has_trusted:
            self.trusted_part_ = self._trusted_rows()
        asks_training_rows = self.prior is not None and reference is None
        return self.prepare_prior(self._first_row() if asks_training_rows else None, reference)

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

    def n_trusted_at_fit(self) -> int:
        """Return how many training labels were trusted and read in the fit; other trusted labels are only votes."""
        if self._sums.census.trusted is None or not self._trust_is_fixed:
            return 0
        return int(self._sums.census.trusted.sum())

    @property
    def _trust_is_fixed(self) -> bool:
        """Whether labels of training rows were read, so that no adversary can be allowed to change them (M15)."""
        if self.trusted_part_ is None:
            return self.reads_trusted_rows_
        return self.trusted_part_.numbers is not None and bool(self.label_readers_)

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

    def rows_in_reference(self) -> int:
        """Return how many training rows have the same features as a row of the reference."""
        return self._n_in_reference

    def _as_rows(self, X: object, y: object, trusted: object, groups: object) -> RowBlocks:
        if hasattr(X, "__dask_graph__"):
            from flipproof.streaming.dask_rows import dask_rows

            return dask_rows(X, y, trusted, groups)
        return as_row_blocks(X, y, trusted, groups, self._labels_are_numbers)

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

    def _total(self, summary: object, says: str, rows: RowBlocks | None = None, known: KnownRows | None = None) -> Any:
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

    def _count_votes(self, summary: object, says: str, rows: RowBlocks, counted: Census) -> Any:
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

    def step_features(self, X: object) -> Floats:
        """Return the features of rows, which may be in Dask."""
        return super().step_features(self._in_this_process(X))

    def _in_this_process(self, X: object) -> Any:
        """Return rows that may be in Dask."""
        if not hasattr(X, "__dask_graph__"):
            return X
        from flipproof.streaming.dask_cluster import computed

        return computed(X, getattr(self, "_client", None))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the cluster, which belongs to this process."""
        state = dict(super().__getstate__())
        return {**state, "_client": None, "_kept": None, "_engine": InThisProcess()} if "_client" in state else state
