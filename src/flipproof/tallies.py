"""Votes counted over some of the training rows: tallies, which add up to the histogram of all in any order (M9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.histograms import (
    NUMBERS_AT_A_TIME,
    VoteHistogram,
    count_levels,
    levels_are_shared,
    possible_levels,
    trimmed,
    without_outer_levels,
)
from flipproof.rounding import Integers
from flipproof.votes import ProductVotes, tiles

#: Up to this many training rows, counts have 32 bits.
MOST_ROWS_IN_32_BITS = 2**31 - 1


@dataclass(frozen=True)
class VoteCount:
    """How votes are counted: the same for all tallies that are to be added up.

    Attributes
    ----------
    n_classes : int
        Classes that a label can name; twice those of the learner if labels that cannot be changed are counted apart.
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
        """How many votes there are."""
        return int(2 ** (self.precision + 1))

    @property
    def bytes_per_row(self) -> int:
        """Memory of a tally for each test row, at most."""
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

    `counts` has shape (rows, classes, 2 h) for votes from -h to h - 1; what is outside was not cast. `n_levels` is how
    many votes are possible.
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

    def histogram(self, start: int, stop: int) -> VoteHistogram:
        """Return the histogram of some test rows."""
        return without_outer_levels(self.counts[start:stop].astype(np.int64), self.n_levels)


@dataclass(frozen=True)
class CellTally:
    """How many labels of each class cast each vote, for the votes that were cast, where most were not.

    A cell is a test row, a class and a vote: `cells` numbers those that occur in a grid of `shape`, in rising order.
    """

    cells: Integers
    counts: Integers
    shape: tuple[int, int, int]
    n_levels: int

    def __add__(self, other: CellTally) -> CellTally:
        cells, counts = _merged([self.cells, other.cells], [self.counts, other.counts])
        return CellTally(cells, counts, self.shape, self.n_levels)

    def histogram(self, start: int, stop: int) -> VoteHistogram:
        """Return the histogram of some test rows: those votes that occur, the last one repeated."""
        _, n_classes, all_levels = self.shape
        first, last = np.searchsorted(self.cells, np.array([start, stop]) * n_classes * all_levels)
        row, label, vote = np.unravel_index(self.cells[first:last], self.shape)
        row, n_rows = row - start, stop - start
        occurring, level = np.unique(row * all_levels + vote, return_inverse=True)
        row_of_level, vote_of_level = np.divmod(occurring, all_levels)
        before = np.searchsorted(row_of_level, np.arange(n_rows))
        after = np.searchsorted(row_of_level, np.arange(n_rows), side="right")
        values = np.repeat((vote_of_level[after - 1] - all_levels // 2)[:, None], self.n_levels, axis=1)
        values[row_of_level, np.arange(len(occurring)) - before[row_of_level]] = vote_of_level - all_levels // 2
        counts = np.zeros((n_rows, n_classes, self.n_levels), dtype=np.int64)
        counts[row, label, level - before[row]] = self.counts[first:last]
        return VoteHistogram(values, counts, self.n_levels)


def _merged(cells: list[Integers], counts: list[Integers]) -> tuple[Integers, Integers]:
    """Add up the counts of the same cells."""
    found, position = np.unique(np.concatenate(cells), return_inverse=True)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, position, np.concatenate(counts))
    return found, total
