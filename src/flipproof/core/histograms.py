"""Histograms of votes: a certificate needs only how many labels of each class cast each vote (M9).

Tallies count the votes of some of the training rows; added in any order, they give the histogram of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from flipproof.core.invariants import check_votes
from flipproof.core.rounding import ROUNDING_SHIFT, SUM_RUN, Floats, Integers, rounded_sum, whole_runs
from flipproof.core.votes import (
    LARGEST_PRECISION,
    TILE_ROWS,
    DenseVotes,
    ProductVotes,
    SparseVotes,
    VoteSource,
    all_votes,
    tiles,
    votes_in_tiles,
)

#: With more levels than this, a histogram keeps only the votes that occur.
MOST_SHARED_LEVELS = 2**13

#: A coarse histogram merges votes that agree in the first bit and this many more leading bits.
COARSE_BITS = 3

#: Votes that are computed at a time: 32 MiB, enough to be worth converting the basis to float64 once more.
NUMBERS_AT_A_TIME = 2**22

#: Votes that are counted at a time: they stay in a cache, and threads rarely wait for each other.
CACHED_NUMBERS = 2**17


Counts = TypeVar("Counts", bound=np.signedinteger)


@dataclass(frozen=True)
class VoteHistogram:
    """How many training labels of each class cast each vote, for a block of test rows.

    Attributes
    ----------
    values : integers of shape (1, levels) or (rows, levels)
        The votes, in ascending order. With one line, all rows share the levels -h, ..., h - 1.
    counts : integers of shape (rows, classes, levels)
        How many labels of a class cast that vote. Unused levels have count 0.
    n_levels : int
        Number of possible levels. Runs of outer levels that no row of the block uses are omitted. Results must be
        bitwise independent of that, so error bounds use this number.
    """

    values: Integers
    counts: Integers
    n_levels: int

    @cached_property
    def has_all_levels(self) -> bool:
        """Whether all rows share the levels -h, ..., h - 1, without gaps."""
        half = self.values.shape[1] // 2
        return len(self.values) == 1 and np.array_equal(self.values[0], np.arange(-half, half))

    @cached_property
    def float_counts(self) -> Floats:
        """The counts as floating-point numbers, for sums of logarithms."""
        return self.counts.astype(np.float64)

    @cached_property
    def all_counts(self) -> Integers:
        """Labels of any class per level, shape (rows, levels)."""
        return np.asarray(self.counts.sum(axis=1))

    @cached_property
    def scores(self) -> Integers:
        """Sum of votes per class, without offsets."""
        return np.asarray((self.counts @ self.values[:, :, None])[:, :, 0])

    @cached_property
    def vote_mass(self) -> Integers:
        """Sum of all |votes|: the farthest that labels can move a margin from its offset."""
        return np.asarray((self.all_counts * np.abs(self.values)).sum(axis=-1))

    @cached_property
    def n_labels(self) -> int:
        """Number of training labels."""
        return int(self.all_counts[0].sum()) if len(self.counts) else 0

    def with_changed_labels(self, row: Integers, votes: Integers, old: Integers, new: Integers) -> VoteHistogram:
        """Return the histogram after label changes, each given by test row, vote, old class and new class."""
        n_levels = self.values.shape[1]
        line = row if len(self.values) > 1 else np.zeros_like(row)
        # levels are ascending in every line; shifting the lines far apart gives one long ascending list
        apart = 2 ** (LARGEST_PRECISION + 2)
        rising = (self.values + apart * np.arange(len(self.values))[:, None]).ravel()
        level = np.searchsorted(rising, votes + apart * line) - n_levels * line
        counts = self.counts.copy()
        np.subtract.at(counts, (row, old, level), 1)
        np.add.at(counts, (row, new, level), 1)
        return VoteHistogram(self.values, counts, self.n_levels)

    def rows(self, which: Integers) -> VoteHistogram:
        """Return the histograms of some of the test rows."""
        if len(which) == len(self.counts):
            return self
        values = self.values if len(self.values) == 1 else self.values[which]
        return VoteHistogram(values, self.counts[which], self.n_levels)


def coarse_histogram(histogram: VoteHistogram) -> VoteHistogram:
    """Merge neighbouring levels into their middle, for searches that need not be exact.

    Small votes keep their own level; larger votes share one with those that agree in the leading bits. The levels
    depend only on the learner, so the order of a sum over them is always the same.
    """
    largest = histogram.n_levels // 2 if histogram.has_all_levels else 2**LARGEST_PRECISION
    farthest = -int(_bin(np.array([largest]))[0])
    n_bins = 1 - 2 * farthest
    if histogram.has_all_levels:
        bins = _bin(histogram.values[0])
        starts = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
        merged = np.add.reduceat(histogram.counts, starts, axis=-1)
        outer = int(bins[0]) - farthest
        counts = np.zeros((*merged.shape[:2], n_bins), dtype=np.int64)
        counts[:, :, outer : outer + merged.shape[2]] = merged
    else:
        rows, n_classes = histogram.counts.shape[:2]
        line = np.arange(rows * n_classes).reshape(rows, n_classes, 1) * n_bins
        cells = line + (_bin(histogram.values) - farthest)[:, None, :]
        counts = np.bincount(cells.ravel(), weights=histogram.counts.ravel(), minlength=line.size * n_bins)
        counts = counts.astype(np.int64).reshape(rows, n_classes, -1)
    return VoteHistogram(_middles(np.arange(farthest, 1 - farthest))[None, :], counts, histogram.n_levels)


def _bin(votes: Integers) -> Integers:
    """Number the groups of levels that agree in sign and the leading COARSE_BITS + 1 bits, ascending, with 0 at 0."""
    size = np.abs(votes)
    exponent = np.maximum(np.frexp(size)[1] - 1 - COARSE_BITS, 0)
    return np.asarray(np.sign(votes) * ((size >> exponent) + (exponent << COARSE_BITS)), dtype=np.int64)


def _middles(bins: Integers) -> Integers:
    """Return the middle of the votes in each bin."""
    size = np.abs(bins)
    exponent = np.maximum((size >> COARSE_BITS) - 1, 0)
    first = (size - (exponent << COARSE_BITS)) << exponent
    return np.asarray(np.sign(bins) * (first + ((1 << exponent) - 1) // 2), dtype=np.int64)


def block_rows(n_votes: int, n_classes: int, precision: int, budget: int, held: int = 0) -> int:
    """Return how many test rows to process at a time: as many as fit into processor caches and a budget in bytes.

    `n_votes` is the largest number of non-zero votes of a test row, `held` how many other numbers are in memory for
    each test row.
    """
    levels = possible_levels(precision, n_votes)
    if levels_are_shared(precision, n_votes):
        tile = min(n_votes, tile_rows(n_classes, levels))
        numbers_per_row = 2 * tile + (3 * n_classes + 24) * levels
    else:  # whole rows of votes are sorted
        tile = n_votes
        numbers_per_row = 10 * n_votes + (3 * n_classes + 24) * levels
    return max(1, min(budget // (8 * (numbers_per_row + held)), NUMBERS_AT_A_TIME // max(tile + held, 1)))


def tile_rows(n_classes: int, levels: int) -> int:
    """Return how many training rows to process at a time: enough to be worth another pass over the histogram."""
    return max(TILE_ROWS, 4 * n_classes * levels)


def possible_levels(precision: int, n_train: int) -> int:
    """Return how many levels a histogram may have; it depends only on the learner."""
    all_levels = 2 ** (precision + 1)
    return all_levels if levels_are_shared(precision, n_train) else whole_runs(min(all_levels, max(n_train, 1)))


def histogram(source: VoteSource, codes: Integers, n_classes: int, precision: int) -> VoteHistogram:
    """Count the votes of a block of test rows by level and label; sparse votes stay sparse.

    Soundness: a vote of more than `precision` bits would be counted as another class's, so these are refused. Products
    have as many bits as their makers prove.
    """
    if isinstance(source, DenseVotes | SparseVotes):
        check_votes(source.votes if isinstance(source, DenseVotes) else source.votes.data, precision)
    n_votes = source.most_per_row + 1 if isinstance(source, SparseVotes) else source.n_train
    levels = possible_levels(precision, n_votes)
    if isinstance(source, SparseVotes):
        count = _sparse_shared_histogram if levels_are_shared(precision, n_votes) else _sparse_own_histogram
        return count(source, codes, n_classes, levels)
    if levels_are_shared(precision, n_votes):
        return _shared_histogram(source, codes, n_classes, levels)
    votes = all_votes(source).astype(np.int64)
    return _own_histogram(votes, np.broadcast_to(codes, votes.shape), n_classes, levels)


def changeable_histogram(
    source: VoteSource, codes: Integers, n_classes: int, precision: int, changeable: NDArray[np.bool_]
) -> tuple[VoteHistogram, Integers]:
    """Count the votes of the labels that can be changed, and sum the votes of the others by class, in one pass."""
    if changeable.all():
        return histogram(source, codes, n_classes, precision), np.zeros((len(source.exponent), n_classes), np.int64)
    # labels that cannot be changed are counted as additional classes
    both = histogram(source, np.where(changeable, codes, codes + n_classes), 2 * n_classes, precision)
    return changeable_part(both, n_classes)


def changeable_part(both: VoteHistogram, n_classes: int) -> tuple[VoteHistogram, Integers]:
    """Return the histogram of the changeable labels and the scores of the others, counted as additional classes."""
    if both.counts.shape[1] == n_classes:
        return both, np.zeros((len(both.counts), n_classes), dtype=np.int64)
    return VoteHistogram(both.values, both.counts[:, :n_classes], both.n_levels), both.scores[:, n_classes:]


def clip_levels(source: VoteSource, share: float, precision: int) -> Integers:
    """Return, for each test row, the size of vote that this share of all votes other than 0 do not exceed (M14).

    It is an order statistic: some vote has this size, if any vote is not 0. Otherwise it is 1.
    """
    return level_of_share(histogram(source, np.zeros(source.n_train, dtype=np.int64), 1, precision), share)


def level_of_share(counted: VoteHistogram, share: float) -> Integers:
    """Return the size of vote that this share of all counted votes other than 0, of any class, do not exceed."""
    size = np.broadcast_to(np.abs(counted.values), counted.all_counts.shape)
    counts = np.where(size > 0, counted.all_counts, 0)
    order = np.argsort(size, axis=1, kind="stable")
    upto = np.cumsum(np.take_along_axis(counts, order, axis=1), axis=1)
    if not upto.size:
        return np.ones(len(size), dtype=np.int64)
    wanted = np.ceil(np.round(share * upto[:, -1:], 6))  # 0.07 * 100 is slightly above 7
    at = np.argmax(upto >= np.maximum(wanted, 1), axis=1)
    found = np.take_along_axis(size, np.take_along_axis(order, at[:, None], axis=1), axis=1)[:, 0]
    return np.where(upto[:, -1] > 0, found, 1)


def levels_are_shared(precision: int, n_train: int) -> bool:
    """Tell whether keeping every possible level is cheaper than keeping those that occur."""
    return bool(2 ** (precision + 1) <= min(MOST_SHARED_LEVELS, 4 * n_train))


def _shared_histogram(source: VoteSource, codes: Integers, n_classes: int, levels: int) -> VoteHistogram:
    return without_outer_levels(count_levels(source, codes, n_classes, levels).astype(np.int64, copy=False), levels)


def count_levels(
    source: VoteSource, codes: Integers, n_classes: int, levels: int, kind: type[np.signedinteger] = np.int64
) -> NDArray[np.signedinteger]:
    """Count the votes by label and level, shape (rows, classes, levels), for all possible levels."""
    n_rows, cells_per_row, tile = len(source.exponent), n_classes * levels, tile_rows(n_classes, levels)
    at_a_time = max(1, NUMBERS_AT_A_TIME // max(1, min(source.n_train, tile)))
    counts = np.zeros((n_rows, cells_per_row), dtype=kind)
    # one cell per label and level; both terms of a label's cell number are even
    cell_of_label = (codes * levels + levels // 2).astype(np.float64)
    for rows, train, votes in votes_in_tiles(source, tile, at_a_time):
        shifted = cell_of_label[train] + ROUNDING_SHIFT
        totals = counts[rows]
        for start, stop in tiles(len(votes), max(CACHED_NUMBERS // max(votes.shape[1], cells_per_row), 1)):
            begins = cells_per_row * np.arange(stop - start)[:, None]
            cells = rounded_sum(votes[start:stop], shifted, begins).ravel()
            found = np.bincount(cells, minlength=cells_per_row * (stop - start))
            totals[start:stop] += found.reshape(-1, cells_per_row)
    return counts.reshape(n_rows, n_classes, levels)


def without_outer_levels(counts: Integers, n_levels: int) -> VoteHistogram:
    """Make a histogram of counts whose levels all test rows share; `n_levels` is the number of possible levels."""
    kept = trimmed(counts)
    half = kept.shape[2] // 2
    return VoteHistogram(np.arange(-half, half)[None, :], kept, n_levels)


def trimmed(counts: NDArray[Counts]) -> NDArray[Counts]:
    """Omit whole runs of levels at both ends that no row uses."""
    half = counts.shape[2] // 2
    used = np.flatnonzero(counts.any(axis=(0, 1))) - half
    reach = max(-int(used[0]), int(used[-1]) + 1) if used.size else 0
    kept = half if half < SUM_RUN else min(max(-(-reach // SUM_RUN), 1) * SUM_RUN, half)
    return counts[:, :, half - kept : half + kept]


def _own_histogram(votes: Integers, codes: Integers, n_classes: int, levels: int) -> VoteHistogram:
    """Keep, per test row, the votes that occur, in ascending order; unused levels repeat the last one.

    `votes` and `codes` have one line per test row; a label coded as -1 creates a level but is not counted.
    """
    rows = len(votes)
    if votes.shape[1] == 0:  # no training rows: one level for vote 0
        votes, codes = np.zeros((rows, 1), dtype=np.int64), np.full((rows, 1), -1)
    # one integer for each vote and label, so that numbers are sorted instead of their positions
    label_bits = int(n_classes).bit_length()
    largest = max(abs(int(votes.min(initial=0))), int(votes.max(initial=0)))
    kind: type[np.signedinteger] = np.int32 if (2 * largest + 1) << label_bits < 2**31 else np.int64
    keys: NDArray[np.signedinteger] = (((votes + largest) << label_bits) + (codes + 1)).astype(kind)
    keys.sort(axis=1)
    in_order, label = (keys >> label_bits).astype(np.int64) - largest, (keys & (2**label_bits - 1)).astype(np.int64) - 1
    level = np.zeros(votes.shape, dtype=np.int64)
    np.cumsum(in_order[:, 1:] != in_order[:, :-1], axis=1, out=level[:, 1:])
    row = np.arange(rows)[:, None]
    values = np.repeat(in_order[:, -1:], levels, axis=1)
    np.put(values, level + row * levels, in_order)
    cells = (row * n_classes + label) * levels + level
    cells = cells.ravel() if label.min(initial=0) >= 0 else cells[label >= 0]
    counts = np.bincount(cells, minlength=rows * n_classes * levels)
    return VoteHistogram(values, counts.reshape(rows, n_classes, levels), levels)


def _sparse_shared_histogram(source: SparseVotes, codes: Integers, n_classes: int, levels: int) -> VoteHistogram:
    rows = source.votes.shape[0]
    row, label = _rows_and_labels(source, codes)
    cells = (row * n_classes + label) * levels + levels // 2 + source.votes.data.astype(np.int64)
    counts = np.bincount(cells, minlength=rows * n_classes * levels).reshape(rows, n_classes, levels)
    counts[:, :, levels // 2] += _silent_labels(source, codes, n_classes)
    return without_outer_levels(counts, levels)


def _sparse_own_histogram(source: SparseVotes, codes: Integers, n_classes: int, levels: int) -> VoteHistogram:
    row, label = _rows_and_labels(source, codes)
    shape = source.votes.shape[0], source.most_per_row + 1
    votes, labels = np.zeros(shape, dtype=np.int64), np.full(shape, -1)  # the first column creates a level for vote 0
    at = row, np.arange(len(row)) - source.votes.indptr[row] + 1
    votes[at], labels[at] = source.votes.data, label
    counted = _own_histogram(votes, labels, n_classes, levels)
    zero_level = np.argmax(counted.values == 0, axis=1)
    counted.counts[np.arange(shape[0]), :, zero_level] += _silent_labels(source, codes, n_classes)
    return counted


def _rows_and_labels(source: SparseVotes, codes: Integers) -> tuple[Integers, Integers]:
    """Return the test row and the label of each vote."""
    row = np.repeat(np.arange(source.votes.shape[0]), np.diff(source.votes.indptr))
    return row, codes[source.votes.indices]


def _silent_labels(source: SparseVotes, codes: Integers, n_classes: int) -> Integers:
    """Count, per test row and class, the labels that do not vote."""
    row, label = _rows_and_labels(source, codes)
    voting = np.bincount(row * n_classes + label, minlength=source.votes.shape[0] * n_classes)
    return np.asarray(np.bincount(codes, minlength=n_classes) - voting.reshape(-1, n_classes))


#: Counts have 32 bits for at most this many training rows.
MOST_ROWS_IN_32_BITS = 2**31 - 1


@dataclass(frozen=True)
class VoteCount:
    """How votes are counted: the same for all tallies that are added up.

    Attributes
    ----------
    n_classes : int
        Number of classes; twice that of the learner if labels that cannot be changed are counted separately.
    precision : int
        Bits of a vote.
    n_train : int
        Number of all training rows, not only of those in a tally.
    """

    n_classes: int
    precision: int
    n_train: int

    @property
    def n_levels(self) -> int:
        """How many levels a histogram may have."""
        return possible_levels(self.precision, self.n_train)

    @property
    def all_levels(self) -> int:
        """How many different votes are possible."""
        return int(2 ** (self.precision + 1))

    @property
    def bytes_per_row(self) -> int:
        """Upper bound on the memory of a tally per test row."""
        if levels_are_shared(self.precision, self.n_train):
            return self.n_classes * self.n_levels * np.dtype(self._counts_type).itemsize
        return 16 * min(self.n_classes * self.all_levels, self.n_train)

    @property
    def _counts_type(self) -> type[np.signedinteger]:
        return np.int32 if self.n_train <= MOST_ROWS_IN_32_BITS else np.int64

    def tally(self, votes: ProductVotes, codes: Integers) -> LevelTally | CellTally:
        """Count the votes of some training rows, labelled `codes`, on some test rows."""
        if levels_are_shared(self.precision, self.n_train):
            return self._tally_levels(votes, codes)
        return self._tally_cells(votes, codes)

    def _tally_levels(self, votes: ProductVotes, codes: Integers) -> LevelTally:
        counts = count_levels(votes, codes, self.n_classes, self.n_levels, self._counts_type)
        return LevelTally(np.ascontiguousarray(trimmed(counts)), self.n_levels)

    def _tally_cells(self, votes: ProductVotes, codes: Integers) -> CellTally:
        shape = len(votes.exponent), self.n_classes, self.all_levels
        cell_of_row = np.arange(shape[0])[:, None] * (self.n_classes * self.all_levels)
        cell_of_label = codes * self.all_levels + self.all_levels // 2
        cells, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for start, stop in tiles(votes.n_train, max(1, NUMBERS_AT_A_TIME // max(1, shape[0]))):
            cast = np.rint(votes.unrounded(start, stop)).astype(np.int64)
            found, count = np.unique(cast + cell_of_label[start:stop] + cell_of_row, return_counts=True)
            cells.append(found)
            counts.append(count)
        return CellTally(*_merged(cells, counts), shape, self.n_levels)


@dataclass(frozen=True)
class LevelTally:
    """How many labels of each class cast each vote, for every possible vote.

    `counts` has shape (rows, classes, 2 h) for votes from -h to h - 1; no vote outside this range was cast. `n_levels`
    is the number of possible votes.
    """

    counts: NDArray[np.signedinteger]
    n_levels: int

    def __add__(self, other: LevelTally) -> LevelTally:
        wide, narrow = self.counts, other.counts
        if wide.shape[2] < narrow.shape[2]:
            wide, narrow = narrow, wide
        outer = (wide.shape[2] - narrow.shape[2]) // 2
        total = wide.copy()
        total[:, :, outer : outer + narrow.shape[2]] += narrow
        return LevelTally(total, self.n_levels)

    def histogram(self, start: int, stop: int, limit: Integers | None = None) -> VoteHistogram:
        """Return the histogram of some test rows, of votes clipped to the `limit` of each, if given."""
        counts = self.counts[start:stop].astype(np.int64)
        return without_outer_levels(counts if limit is None else _clipped_counts(counts, limit), self.n_levels)


def _clipped_counts(counts: Integers, limit: Integers) -> Integers:
    """Count votes beyond the limit of each test row as votes at the limit."""
    half, rows = counts.shape[2] // 2, np.arange(len(counts))
    vote, most = np.arange(-half, half), limit[:, None, None]
    kept = np.where(np.abs(vote) <= most, counts, 0)
    kept[rows, :, half + np.minimum(limit, half - 1)] += np.where(vote > most, counts, 0).sum(axis=2)
    kept[rows, :, half + np.maximum(-limit, -half)] += np.where(vote < -most, counts, 0).sum(axis=2)
    return kept


@dataclass(frozen=True)
class CellTally:
    """How many labels of each class cast each vote, stored only for votes that were cast.

    A cell is a test row, a class and a vote: `cells` holds the flat indices of those that occur in a grid of `shape`,
    in ascending order.
    """

    cells: Integers
    counts: Integers
    shape: tuple[int, int, int]
    n_levels: int

    def __add__(self, other: CellTally) -> CellTally:
        cells, counts = _merged([self.cells, other.cells], [self.counts, other.counts])
        return CellTally(cells, counts, self.shape, self.n_levels)

    def histogram(self, start: int, stop: int, limit: Integers | None = None) -> VoteHistogram:
        """Return the histogram of some test rows: the votes that occur; unused levels repeat the last one.

        Votes are clipped to the `limit` of each test row, if given.
        """
        _, n_classes, all_levels = self.shape
        first, last = np.searchsorted(self.cells, np.array([start, stop]) * n_classes * all_levels)
        row, label, vote = np.unravel_index(self.cells[first:last], self.shape)
        row, n_rows = row - start, stop - start
        if limit is not None:
            vote = np.clip(vote, all_levels // 2 - limit[row], all_levels // 2 + limit[row])
        occurring, level = np.unique(row * all_levels + vote, return_inverse=True)
        row_of_level, vote_of_level = np.divmod(occurring, all_levels)
        before = np.searchsorted(row_of_level, np.arange(n_rows))
        after = np.searchsorted(row_of_level, np.arange(n_rows), side="right")
        values = np.repeat((vote_of_level[after - 1] - all_levels // 2)[:, None], self.n_levels, axis=1)
        values[row_of_level, np.arange(len(occurring)) - before[row_of_level]] = vote_of_level - all_levels // 2
        counts = np.zeros((n_rows, n_classes, self.n_levels), dtype=np.int64)
        np.add.at(counts, (row, label, level - before[row]), self.counts[first:last])
        return VoteHistogram(values, counts, self.n_levels)


def _merged(cells: list[Integers], counts: list[Integers]) -> tuple[Integers, Integers]:
    """Add up the counts of the same cells."""
    found, position = np.unique(np.concatenate(cells), return_inverse=True)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, position, np.concatenate(counts))
    return found, total
