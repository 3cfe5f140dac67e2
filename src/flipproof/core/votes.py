"""Integer votes: every training label votes with an integer.

A label-linear learner scores class c by the sum of alpha_j over the rows j that are labelled c (plus an offset). Since
alpha never reads a label, it may be *defined* on a grid, ``alpha_j = k_j * 2**-s`` with integers
``|k_j| < 2**precision`` (M9). Scores, margins and gains are then exact integers, and a certificate needs only the
histogram of (vote, label), :mod:`flipproof.core.histograms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flipproof.core.invariants import check_finite, check_votes
from flipproof.core.rounding import UNIT_ROUNDOFF, Floats, Integers, above, grid_exponent, scale, to_grid

#: Largest number of bits of a vote.
LARGEST_PRECISION = 24

#: Smallest number of training rows, and default number of test rows, that are processed at a time.
TILE_ROWS = 2**14
ROWS_AT_A_TIME = 128

#: Training rows whose basis is converted to float64 at a time, so that it stays in a cache.
CONVERTED_ROWS = 2**11

#: Test rows, training rows, and the unrounded votes of these training rows on these test rows.
Tile: TypeAlias = "tuple[slice, slice, Floats]"


class VoteSource(Protocol):
    """The votes of all training rows on a block of test rows, computed a tile of training rows at a time."""

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        ...

    @property
    def exponent(self) -> Integers:
        """The grid of each test row: a vote k represents the weight ``k * 2**-exponent``."""
        ...

    @property
    def limit(self) -> Integers | None:
        """The largest size of a vote on each test row, by any row that could be a training row; None if unknown."""
        ...

    def unrounded(self, start: int, stop: int) -> Floats:
        """Return new numbers whose nearest integers (ties to even) are the votes of training rows start to stop."""
        ...


@dataclass(frozen=True)
class ProductVotes:
    """Votes that are one matrix product and one rounding: ``rint(coefficients @ basis.T)``.

    `basis` holds integers that fit into float32, and `coefficients` integers times a power of two, of few enough bits
    that every dot product is exact in float64: the votes do not depend on the order of summation, hence not on threads,
    blocks or partitions. Votes beyond the `limit` of a test row, if there is one, are clipped to it. With `members` and
    `weights`, the vote of label i is ``weights[i]`` times the product of row ``members[i]``, rounded
    (:mod:`flipproof.core.ballots`). `prior` are the offsets of a prior, if there is
    one, in grid units (M15).
    """

    coefficients: Floats
    basis: NDArray[np.float32]
    exponent: Integers
    limit: Integers | None = None
    prior: Floats | None = None
    members: Integers | None = None
    weights: Floats | None = None

    def __post_init__(self) -> None:
        check_finite(self.coefficients)

    @property
    def n_train(self) -> int:
        """Number of training labels: one for each row, unless there are `members`."""
        return len(self.basis if self.members is None else self.members)

    def _basis(self, start: int, stop: int) -> NDArray[np.float32]:
        return self.basis[start:stop] if self.members is None else self.basis[self.members[start:stop]]

    def unrounded(self, start: int, stop: int) -> Floats:
        """Return the products for training labels start to stop, one line per test row."""
        votes = np.empty((len(self.coefficients), stop - start))
        for begin, end in tiles(stop - start, CONVERTED_ROWS):
            some = self._basis(start + begin, start + end).astype(np.float64)
            np.matmul(self.coefficients, some.T, out=votes[:, begin:end])
        if self.weights is not None:
            votes *= self.weights[start:stop]
        return votes if self.limit is None else _clip(votes, self.limit)

    def in_tiles(self, size: int, at_a_time: int) -> Iterator[Tile]:
        """Yield the products of runs of test rows and training rows; they reuse one buffer, as allocation is slow."""
        n_rows, size = len(self.coefficients), max(min(size, self.n_train), 1)
        wide = np.empty((min(CONVERTED_ROWS, size), self.basis.shape[1]))
        products = np.empty(min(at_a_time, n_rows) * size)
        for start, stop in tiles(self.n_train, size):
            for first, last in tiles(n_rows, at_a_time):
                votes = products[: (last - first) * (stop - start)].reshape(last - first, stop - start)
                for begin, end in tiles(stop - start, CONVERTED_ROWS):
                    some = wide[: end - begin]
                    some[:] = self._basis(start + begin, start + end)
                    np.matmul(self.coefficients[first:last], some.T, out=votes[:, begin:end])
                if self.weights is not None:
                    votes *= self.weights[start:stop]
                if self.limit is not None:
                    _clip(votes, self.limit[first:last])
                yield slice(first, last), slice(start, stop), votes

    def on_rows(self, rows: slice | Integers) -> ProductVotes:
        """Return the votes on some of the test rows."""
        limit = None if self.limit is None else self.limit[rows]
        prior = None if self.prior is None else self.prior[rows]
        return replace(
            self, coefficients=self.coefficients[rows], exponent=self.exponent[rows], limit=limit, prior=prior
        )

    def of(self, basis: NDArray[np.float32]) -> ProductVotes:
        """Return the votes of other training rows."""
        return replace(self, basis=basis)


@dataclass(frozen=True)
class DenseVotes:
    """Votes in memory, one line per test row; integers in float64.

    `offsets`, if given, are those of the deployed rule: floats of shape (rows, classes), in grid units. No vote exceeds
    `limit`, if there is one. `prior` are further offsets, those of a prior (M15).
    """

    votes: Floats
    exponent: Integers
    offsets: Floats | None = None
    limit: Integers | None = None
    prior: Floats | None = None

    def __post_init__(self) -> None:
        check_votes(self.votes, LARGEST_PRECISION)

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return int(self.votes.shape[1])

    def unrounded(self, start: int, stop: int) -> Floats:
        """Return the votes of training rows start to stop."""
        return self.votes[:, start:stop].copy()


@dataclass(frozen=True)
class SparseVotes:
    """Votes of a few training rows on each test row; all others vote 0.

    Attributes
    ----------
    votes : sparse array of shape (rows, n)
        Integers, in CSR format.
    exponent : integers of shape (rows,)
        The grid of each test row.
    most_per_row : int
        Largest number of votes that a test row of this learner can have, in any block.
    offsets : floats of shape (rows, classes), optional
        Offsets of the deployed rule, in grid units.
    limit : integers of shape (rows,), optional
        No vote on a test row exceeds it.
    prior : floats of shape (rows, classes), optional
        Further offsets, those of a prior (M15), in grid units.
    """

    votes: csr_array
    exponent: Integers
    most_per_row: int
    offsets: Floats | None = None
    limit: Integers | None = None
    prior: Floats | None = None

    def __post_init__(self) -> None:
        check_votes(self.votes.data, LARGEST_PRECISION)

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return int(self.votes.shape[1])

    def unrounded(self, start: int, stop: int) -> Floats:
        """Return the votes of training rows start to stop, zeros included."""
        return np.asarray(self.votes[:, start:stop].toarray(), dtype=np.float64)


def dense_votes(weights: Floats, precision: int, offsets: Floats | None = None) -> DenseVotes:
    """Round the weights of all training rows to votes, on a grid set by the largest weight of each test row."""
    exponent = row_exponents(np.abs(weights).max(axis=1, initial=0.0), precision)
    return DenseVotes(to_grid(weights, exponent[:, None], precision), exponent, _on_grid(offsets, exponent))


def sparse_votes(weights: csr_array, precision: int, most_per_row: int, offsets: Floats | None = None) -> SparseVotes:
    """Round sparse weights to votes, on a grid set by the largest weight of each test row; zeros may be omitted."""
    check_finite(weights.data)
    row_of_each = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    largest = np.zeros(weights.shape[0])
    np.maximum.at(largest, row_of_each, np.abs(weights.data))
    exponent = row_exponents(largest, precision)
    rounded = to_grid(weights.data, exponent[row_of_each], precision)
    votes = csr_array((rounded, weights.indices, weights.indptr), shape=weights.shape)
    return SparseVotes(votes, exponent, most_per_row, _on_grid(offsets, exponent))


def clipped(source: VoteSource, limit: Integers) -> VoteSource:
    """Return the votes, clipped to -limit and limit on each test row (M14).

    Limits are integers, so clipping before or after rounding to votes gives the same votes.
    """
    if isinstance(source, ProductVotes):
        return replace(source, limit=limit)
    if isinstance(source, SparseVotes):
        row_of_each = np.repeat(limit, np.diff(source.votes.indptr))
        votes = source.votes.copy()
        votes.data = np.clip(votes.data, -row_of_each, row_of_each)
        return replace(source, votes=votes, limit=limit)
    if isinstance(source, DenseVotes):
        return replace(source, votes=_clip(source.votes.copy(), limit), limit=limit)
    raise TypeError(f"Votes must be ProductVotes, DenseVotes or SparseVotes. Got {type(source).__name__} instead.")


def _clip(votes: Floats, limit: Integers) -> Floats:
    """Clip the votes on each test row in place."""
    most = limit[:, None].astype(np.float64)
    return np.clip(votes, -most, most, out=votes)


def _on_grid(offsets: Floats | None, exponent: Integers) -> Floats | None:
    """Return offsets in grid units, shifted so that each test row's highest is 0; very low ones may become -inf."""
    if offsets is None:
        return None
    with np.errstate(over="ignore"):
        return scale(offsets - offsets.max(axis=1, keepdims=True), exponent[:, None])


def row_exponents(largest: Floats, precision: int) -> Integers:
    """Return the grid on which the largest weight of a row uses all bits; 0 for a row of zeros."""
    check_finite(largest)
    return np.where(largest > 0, grid_exponent(largest, precision), 0)


def all_votes(source: VoteSource) -> Floats:
    """Return the votes of all training rows; needs memory for test rows times training rows."""
    return np.rint(source.unrounded(0, source.n_train))


def has_votes(source: VoteSource) -> NDArray[np.bool_]:
    """Tell for each test row whether any vote is not 0."""
    found = np.zeros(len(source.exponent), dtype=bool)
    for rows, _, votes in votes_in_tiles(source, TILE_ROWS):
        found[rows] |= np.rint(votes, out=votes).any(axis=1)
    return found


def vote_totals(source: VoteSource) -> Integers:
    """Return the sum of the absolute votes on each test row; exact, as in :func:`class_scores`."""
    totals = np.zeros(len(source.exponent), dtype=np.int64)
    if isinstance(source, SparseVotes):
        return np.asarray(abs(source.votes).sum(axis=1)).astype(np.int64)
    for rows, _, votes in votes_in_tiles(source, TILE_ROWS):
        totals[rows] += np.abs(np.rint(votes, out=votes), out=votes).sum(axis=1).astype(np.int64)
    return totals


def with_prior(source: VoteSource, offsets: Floats) -> VoteSource:
    """Return the votes with the offsets of a prior, in grid units (M15)."""
    assert isinstance(source, (ProductVotes, DenseVotes, SparseVotes))
    return replace(source, prior=offsets)


def class_scores(source: VoteSource, codes: Integers, n_classes: int) -> Integers:
    """Sum the votes of each class without a histogram: the scores without offsets.

    Soundness: sums of integers below 2**24 over fewer than 2**29 rows are exact in float64.
    """
    if isinstance(source, SparseVotes):
        return np.asarray(source.votes @ one_hot(codes, n_classes)).astype(np.int64)
    scores = np.zeros((len(source.exponent), n_classes), dtype=np.int64)
    for rows, train, votes in votes_in_tiles(source, TILE_ROWS):
        scores[rows] += (np.rint(votes, out=votes) @ one_hot(codes[train], n_classes)).astype(np.int64)
    return scores


@dataclass(frozen=True)
class GroupVotes:
    """The votes of each group's changeable labels on a block of test rows, added up by class and by sign.

    Attributes
    ----------
    positive, negative : integers of shape (rows, cells)
        Sums of the absolute values of the votes above and below 0. A cell is a group and a class that its labels name.
    label : integers of shape (cells,)
        The class of each cell.
    first_cell : integers of shape (groups,)
        Where the cells of each group begin; groups without a changeable label are omitted.
    """

    positive: Integers
    negative: Integers
    label: Integers
    first_cell: Integers


def group_votes(
    source: VoteSource, codes: Integers, n_classes: int, groups: Integers, changeable: NDArray[np.bool_]
) -> GroupVotes:
    """Add up the votes of every group; `groups` numbers the group of each training row."""
    members = np.flatnonzero(changeable)
    cells, cell_of_member = group_cells(codes, n_classes, groups, changeable)
    return grouped(votes_by_cell(source, members, cell_of_member, len(cells)), cells, n_classes)


def group_cells(
    codes: Integers, n_classes: int, groups: Integers, changeable: NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """Return the cells of changeable rows, a group and a class each, and the position of each row's cell."""
    numbers = groups[changeable] * n_classes + codes[changeable]
    cells, cell_of_member = np.unique(numbers, return_inverse=True)
    return cells, cell_of_member


def votes_by_cell(source: VoteSource, members: Integers, cell_of_member: Integers, n_cells: int) -> Integers:
    """Sum the absolute votes of some training rows by cell, separately above and below 0, shape (2, rows, cells).

    Soundness: sums of integers that are exact in float64, as in :func:`class_scores`.
    """
    ones = np.ones(len(members))
    belongs = csr_array((ones, (members, cell_of_member)), shape=(source.n_train, n_cells))
    sums = np.zeros((2, len(source.exponent), n_cells))
    if isinstance(source, SparseVotes):
        for side, votes in zip(sums, (source.votes, -source.votes), strict=True):
            side += (votes.maximum(0) @ belongs).toarray()
    else:
        for rows, train, unrounded in votes_in_tiles(source, TILE_ROWS):
            votes, part = np.rint(unrounded, out=unrounded), belongs[train].T
            sums[0, rows] += (part @ np.maximum(votes, 0).T).T
            sums[1, rows] += (part @ np.maximum(-votes, 0).T).T
    return sums.astype(np.int64)


def grouped(sums: Integers, cells: Integers, n_classes: int) -> GroupVotes:
    """Return sums of votes by cell as GroupVotes; a cell's number is its group times `n_classes` plus its class."""
    first_cell = np.flatnonzero(np.diff(cells // n_classes, prepend=-1))
    return GroupVotes(sums[0], sums[1], cells % n_classes, first_cell)


@dataclass(frozen=True)
class EstimatedScores:
    """Class scores with an error of at most `error`, both of shape (rows, classes) and in grid units."""

    scores: Floats
    error: Floats
    exponent: Integers

    def with_offsets(self, offsets: Floats, signal: float) -> EstimatedScores:
        """Add offsets, whose error is that of the sum of all votes, divided by `signal` (M5), and a rounding."""
        error = above(self.error.sum(axis=1)[:, None] / signal + 4 * UNIT_ROUNDOFF * np.abs(offsets) + 1)
        return EstimatedScores(self.scores + offsets, self.error + error, self.exponent)

    def decided(self) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the leading class, and whether its lead is larger than the sum of the possible errors."""
        rows = np.arange(len(self.scores))
        leader = np.argmax(self.scores, axis=1)
        with np.errstate(invalid="ignore"):  # an infinite offset decides nothing here
            lead = self.scores[rows, leader][:, None] - self.scores
        possible = self.error + self.error[rows, leader][:, None]
        is_decided = lead > possible
        is_decided[rows, leader] = True
        return leader, np.all(is_decided, axis=1)


def estimate_scores(source: ProductVotes, sums: Floats, class_counts: Integers) -> EstimatedScores:
    """Estimate the class scores from the sums of the basis over each class, at a cost that does not grow with n.

    Soundness: each vote is within 1/2 of the product that it rounds, so a class's score is within half its number of
    labels of the sum of its products. That sum is one product here, with an error of at most the second term.
    """
    terms = sums.shape[0] + 2
    size = np.abs(source.coefficients) @ np.abs(sums)
    error = 0.5 * class_counts + 4 * terms * UNIT_ROUNDOFF * size
    return EstimatedScores(source.coefficients @ sums, error, source.exponent)


def class_sums(basis: NDArray[np.float32], codes: Integers, n_classes: int) -> Floats:
    """Sum the rows of the basis over each class, shape (columns, classes); exact while the sums are below 2**53."""
    sums = np.zeros((basis.shape[1], n_classes))
    for start, stop in tiles(len(basis), TILE_ROWS):
        sums += basis[start:stop].astype(np.float64).T @ one_hot(codes[start:stop], n_classes)
    return sums


def votes_in_tiles(source: VoteSource, size: int, at_a_time: int = ROWS_AT_A_TIME) -> Iterator[Tile]:
    """Yield runs of test rows and of `size` training rows, with numbers whose nearest integers are the votes.

    The numbers are valid until the next run.
    """
    if isinstance(source, ProductVotes):
        yield from source.in_tiles(size, at_a_time)
        return
    for start, stop in tiles(source.n_train, size):
        votes = source.unrounded(start, stop)
        for first, last in tiles(len(votes), at_a_time):
            yield slice(first, last), slice(start, stop), votes[first:last]


def tiles(n_train: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ends of runs of training rows."""
    for start in range(0, n_train, size):
        yield start, min(start + size, n_train)


def one_hot(codes: Integers, n_classes: int) -> Floats:
    """Return an indicator column per class."""
    return np.asarray(codes[:, None] == np.arange(n_classes), dtype=np.float64)
