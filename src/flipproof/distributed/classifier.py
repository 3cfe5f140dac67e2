"""What learners over rows in blocks share: the passes of fit, and certificates from tallies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Protocol

import numpy as np

from flipproof.blocks.block import Part
from flipproof.blocks.rows import RowBlocks, as_row_blocks
from flipproof.certificates import Adversary, Certificates, check_method
from flipproof.distributed.here import InThisProcess
from flipproof.distributed.powers import BlockAdversary, block_adversary
from flipproof.distributed.summaries import (
    Census,
    Keep,
    LabelledSums,
    OfFeatures,
    SurveyedRows,
    Visit,
    Visited,
    census,
    labelled_sums,
    survey,
)
from flipproof.distributed.voting import GroupSums, GroupTally, Scores, Tally, Voted, Voters
from flipproof.histograms import block_rows, changeable_part
from flipproof.learners.adversaries import check_adversary
from flipproof.learners.base import MEMORY_BUDGET, LabelLinearClassifier
from flipproof.learners.engine import BlockCertificates, certify_groups_exactly
from flipproof.learners.labels import encode_labels
from flipproof.learners.whitening import Total, Whitening
from flipproof.rounding import Floats, Integers
from flipproof.tallies import CellTally, LevelTally, VoteCount
from flipproof.votes import ProductVotes, grouped, tiles

#: Memory of what is counted in one pass over the training rows.
TALLY_BYTES = 64 * 2**20

#: Test rows whose scores are summed in one pass.
SCORED_ROWS = 2**14


class Engine(Protocol):
    """Whatever visits the rows: this process, or a cluster."""

    def total(self, visit: Callable[[Part], Any], rows: RowBlocks, says: str) -> Any:
        """Return the sum of what is found in all parts, in their order; None where there are no rows."""
        ...

    def kept(self, visit: Callable[[Part], Part], rows: RowBlocks, n_bytes: int, says: str) -> RowBlocks | None:
        """Keep what is made of each part, `n_bytes` in all, where there is memory to spare for it; else None."""
        ...

    def keeps(self, rows: RowBlocks) -> bool:
        """Tell whether such rows are still there."""
        ...


class RowsInBlocks(LabelLinearClassifier):
    """A label-linear learner whose training rows stay where they are, and are visited a block at a time.

    All that is kept of them is of the size of a few columns by columns matrices.
    """

    verbose: int
    _whitening: Whitening
    _class_sums: Floats
    _class_counts: Integers
    _mapping: Any
    _kept: RowBlocks | None
    _products: Callable[[Floats], ProductVotes]

    def fit(
        self, X: Any, y: Any = None, *, trusted: Any = None, groups: Any = None, client: Any = None
    ) -> RowsInBlocks:
        """Fit to training rows in blocks, in a few passes over them; the labels are only counted, never learnt from.

        Parameters
        ----------
        X : rows
            `numpy.memmap` or array; path of a folder of NPY or Parquet files, or a pattern of such files; list of
            tuples (X, y), or function that returns a new iterator of them at every call;
            :class:`~flipproof.blocks.RowBlocks`; `dask.array` or `dask.dataframe`.
        y : labels
            Array of n labels; path of NPY files; column of the Parquet files or of the data frame; `dask.array` or
            series. None where the rows come with their labels.
        trusted : like `y`, optional
            Whose labels nobody can change: booleans.
        groups : like `y`, optional
            Who labelled each row. Radii then count annotators.
        client : distributed.Client, optional
            The cluster that visits the rows. By default rows in Dask are visited by the client that is active, or by
            Dask's threads, and all others by this process.

        Returns
        -------
        self
        """
        return self._fit_in_passes(X, y, trusted, groups, client)

    def _fit_in_passes(self, X: Any, y: Any, trusted: Any, groups: Any, client: Any) -> RowsInBlocks:
        self._check_parameters()
        if self.features is not None:
            raise ValueError(
                f"The 'features' parameter of {type(self).__name__} must be None: rows in blocks are not transformed "
                "here. Transform them first: RowBlocks.map(f), or map_blocks of a Dask array."
            )
        for name in [name for name in vars(self) if name == "_assumed" or (name[0] != "_" and name[-1] == "_")]:
            delattr(self, name)  # whatever goes wrong from here on, the model is not fitted
        self._rows, self._client, self._kept = self._as_rows(X, y, trusted, groups), client, None
        self._begin()
        found = self._survey()
        self.features_, self.n_features_in_ = None, len(found.ranges.low)
        self._name_features()
        self.classes_, _ = encode_labels(found.labels, self.classes)
        self.precision_ = int(self.precision)
        self._mapping = None
        self._whitening = self._decompose(found)
        self.noise_ = self._resolve_noise(len(self.classes_))
        self._sum_up_labels()
        self._assumed = (*self._common_assumptions(), *self._learner_assumptions())
        return self

    def _name_features(self) -> None:
        """Keep the names of the columns, if they have any, so that test rows in another order are refused."""
        if self._rows.feature_names is not None:
            self.feature_names_in_ = np.array(self._rows.feature_names, dtype=object)

    def _as_rows(self, X: Any, y: Any, trusted: Any, groups: Any) -> RowBlocks:
        if hasattr(X, "__dask_graph__"):
            from flipproof.distributed.collections import dask_rows

            return dask_rows(X, y, trusted, groups)
        return as_row_blocks(X, y, trusted, groups)

    def _survey(self) -> SurveyedRows:
        visited = self._engine.total(Visit(survey), self._rows, "Looking at the rows") or Visited(None, ())
        self._seen = visited.seen
        self._rows_per_part = tuple(part.n_rows for part in visited.seen)
        if self._n_rows < 2:
            raise ValueError(f"At least two training rows are needed. Got {self._n_rows} instead.")
        self._rows = self._rows.with_columns(self._rows_per_part)
        found: SurveyedRows = visited.found
        return found

    @abstractmethod
    def _decompose(self, found: SurveyedRows) -> Whitening:
        """Return the coordinates of the training rows, before their leverage is known; settle `_mapping`, if any."""

    @abstractmethod
    def _settle(self) -> None:
        """Settle lambda, now that the sums of each class are known."""

    def _sum_up_labels(self) -> None:
        n_bytes = 4 * self._n_rows * len(self._whitening.basis_exponent)
        keep = Keep(self._whitening, self.classes_, self._mapping)
        self._kept = self._engine.kept(keep, self._rows, n_bytes, "Rotating the rows")
        summary = partial(labelled_sums, whitening=self._whitening, classes=self.classes_)
        sums: LabelledSums = self._total(summary, "Summing up the labels", self._basis_rows)
        self._whitening = self._whitening.with_leverage(sums.leverage)
        self._class_sums, self._class_counts, self._sums = sums.class_sums, sums.census.counts, sums
        self._settle()

    def _feature_passes(self, says: str) -> Total:
        """Return how to do a pass over the features of the training rows."""
        return lambda summary: self._total(OfFeatures(summary), says)

    def _total(self, summary: Any, says: str, rows: RowBlocks | None = None) -> Any:
        return self._found(Visit(summary, self._mapping), self._rows if rows is None else rows, says)

    def _found(self, visit: Visit, rows: RowBlocks, says: str) -> Any:
        """Return what is found in all rows, which must be those that were seen when they were first looked at."""
        visited: Visited = self._engine.total(visit, rows, says)
        for part, before, now in zip(self._rows.parts, self._seen, visited.seen, strict=True):
            if now != before:
                raise ValueError(
                    f"{part.name}: the rows have changed since they were first looked at, and must be the same at "
                    "every visit."
                )
        return visited.found

    @property
    def _basis_rows(self) -> RowBlocks:
        """The rows that are visited for their votes: those whose basis the workers keep, or else all as they are."""
        return self._rows if self._kept is None else self._kept

    def _count_votes(self, summary: Any, says: str, rows: RowBlocks, counted: Census) -> Any:
        """Visit the rows for their votes, and make sure that they are still those of the fit, as `counted`."""
        voted: Voted = self._total(summary, says, rows)
        if not voted.sums.is_of_the_rows_of(replace(self._sums, census=counted)):
            raise ValueError("The training rows have changed since the model was fitted: fit it again.")
        return voted.counted

    def _begin(self) -> None:
        """Make sure that the rows can be visited, before a method starts to."""
        if self._client is not None or self._rows.is_in_dask:
            try:
                from flipproof.distributed.cluster import on_cluster
            except ModuleNotFoundError as error:
                raise ImportError("a client needs Dask: pip install 'flipproof[dask]'") from error
            self._engine: Engine = on_cluster(self._client, self.verbose)
        else:
            self._engine = InThisProcess(self.n_jobs, self.verbose)
        if self._kept is not None and not self._engine.keeps(self._kept):
            self._kept = None

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether a fit has come to its end."""
        return hasattr(self, "_assumed")

    @property
    def _n_rows(self) -> int:
        return sum(self._rows_per_part)

    @property
    def _n_labels(self) -> int:
        return self._n_rows

    def _test_features(self, X: Any) -> Floats:
        if hasattr(X, "__dask_graph__"):
            from flipproof.distributed.cluster import computed

            X = computed(X, getattr(self, "_client", None))
        return super()._test_features(X)

    @property
    def _codes(self) -> NoReturn:  # type: ignore[override]
        self._votes(np.empty((0, 0)))

    def _votes(self, Z: Floats) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__} does not hold the training rows: for attacks and single votes, fit "
            "flipproof's learner of the same name to rows in memory."
        )

    def _powers(self, adversary: Adversary | None) -> NoReturn:
        self._votes(np.empty((0, 0)))

    def _scores(self, Z: Floats) -> tuple[Integers, Integers]:
        self._begin()
        scores, exponents = [], []
        for start, stop in tiles(len(Z), SCORED_ROWS):
            products = self._products(Z[start:stop])
            votes = self._count_votes(
                Scores(self._voters(products)), "Summing up votes", self._basis_rows, self._sums.census
            )
            scores.append(votes + self._offsets(products, votes.sum(axis=1)))
            exponents.append(products.exponent)
        return np.concatenate(scores), np.concatenate(exponents)

    def certify(self, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction, in one pass over the training rows for a few thousand test rows.

        Parameters
        ----------
        X : array, data frame, or either in Dask, of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            As of the learner in memory. Default: the learner's `method`.
        adversary : Adversary, optional
            What can be done to the labels. What it does not say of trusted labels and annotators is as the fit was
            told. By default any label that is not trusted may be changed to anything.

        Returns
        -------
        Certificates
        """
        method = check_method(self.method if method is None else method, type(self).__name__)
        Z = self._test_features(X)
        self._begin()
        rows, known = self._rows_against(adversary)
        parts = []
        for start, stop in tiles(len(Z), self._rows_per_pass(known, method)):
            parts += self._certify_in_a_pass(self._products(Z[start:stop]), method, known, rows)
        self._check_parts(parts, Z, known.scope)
        limits = known.in_words(method)
        return self._certificates(parts, np.arange(len(Z)), method, adversary, known.scope, limits)

    def _rows_against(self, adversary: Adversary | None) -> tuple[RowBlocks, BlockAdversary]:
        """Return the rows with what an adversary says of each, and what that comes to."""
        counted, rows = self._sums.census, self._basis_rows
        check_adversary(adversary, self._n_rows)
        if adversary is not None and (adversary.trusted is not None or adversary.groups is not None):
            rows = rows.with_columns(self._rows_per_part, adversary.trusted, adversary.groups)
            counted = self._found(Visit(partial(census, classes=self.classes_)), rows, "Counting labels")
        return rows, block_adversary(adversary, counted, self.classes_)

    def _rows_per_pass(self, known: BlockAdversary, method: str) -> int:
        self._check_block_size()
        if known.powers.cells is not None and method == "exact":
            bytes_per_row = 16 * len(known.powers.cells)
        else:
            bytes_per_row = self._count(known).bytes_per_row
        held = 8 * len(self._whitening.basis_exponent)
        return self.block_size or max(1, TALLY_BYTES // max(1, bytes_per_row + held))

    def _count(self, known: BlockAdversary) -> VoteCount:
        n_classes = len(self.classes_) * (2 if known.powers.is_limited else 1)
        return VoteCount(n_classes, self.precision_, self._n_rows)

    def _voters(self, products: ProductVotes) -> Voters:
        return Voters(self._whitening, products, self.classes_)

    def _certify_in_a_pass(
        self, products: ProductVotes, method: str, known: BlockAdversary, rows: RowBlocks
    ) -> list[tuple[BlockCertificates, Integers]]:
        voters, n_rows = self._voters(products), len(products.exponent)
        if method == "exact" and known.powers.cells is not None:
            work = GroupTally(voters, known.powers)
            sums: GroupSums = self._count_votes(work, "Summing up votes", rows, known.census)
            return [self._certify_groups(products, sums, known)]
        count = self._count(known)
        tally: LevelTally | CellTally = self._count_votes(
            Tally(voters, count, known.powers), "Counting votes", rows, known.census
        )
        size = block_rows(self._n_rows, count.n_classes, self.precision_, MEMORY_BUDGET)
        parts = []
        for start, stop in tiles(n_rows, size):
            free, fixed = changeable_part(tally.histogram(start, stop), len(self.classes_))
            part = products.on_rows(start, stop)
            parts.append((self._certify_counted(free, fixed, part, method, known.scope), part.exponent))
        return parts

    def _certify_groups(
        self, products: ProductVotes, sums: GroupSums, known: BlockAdversary
    ) -> tuple[BlockCertificates, Integers]:
        assert known.powers.cells is not None
        scores = sums.scores + self._offsets(products, sums.scores.sum(axis=1))
        by_group = grouped(sums.by_cell, known.powers.cells, len(self.classes_))
        return certify_groups_exactly(by_group, scores, known.scope), products.exponent

    def weights(self, X: Any) -> NoReturn:
        """Refuse: the weights of all training rows are only there where the rows are in memory."""
        self._votes(np.empty((0, 0)))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the cluster out: it belongs to this process."""
        state = dict(super().__getstate__())
        return {**state, "_client": None, "_kept": None, "_engine": InThisProcess()} if "_client" in state else state
