"""Integer votes: every training label votes with a whole number, and only the histogram of the votes matters.

A label-linear learner scores class c by the sum of alpha_j over the rows j that are labelled c (plus an offset). Since
alpha never reads a label, it may be *defined* on a grid, ``alpha_j = k_j * 2**-s`` with integers
``|k_j| < 2**precision`` (M9). Scores, margins and gains are then exact integers, and everything that a certificate
needs is the histogram of (vote, label).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from flipproof.rounding import SUM_RUN, Floats, Integers, whole_runs

#: Above this many levels a histogram keeps only the votes that occur.
MOST_SHARED_LEVELS = 2**13

#: Levels of a coarse histogram; a run of levels holds a whole number of merged ones.
COARSE_LEVELS = 128

#: Training rows that are visited at a time.
TILE_ROWS = 2**14


class VoteSource(Protocol):
    """The votes of all training rows on a block of test rows, made a tile of training rows at a time."""

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        ...

    @property
    def exponent(self) -> Integers:
        """The grid of each test row: a vote k stands for the weight ``k * 2**-exponent``."""
        ...

    def tile(self, start: int, stop: int) -> Floats:
        """Return the votes of training rows start to stop, integers in float64, one line per test row."""
        ...


@dataclass(frozen=True)
class ProductVotes:
    """Votes that are one matrix product and one rounding: ``rint(coefficients @ basis.T)``.

    `basis` holds integers and `coefficients` integers times a power of two, with so few bits that every dot product is
    exact in float64: the votes do not depend on the order of summation, hence not on threads, blocks or partitions.
    """

    coefficients: Floats
    basis: Floats
    exponent: Integers

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return len(self.basis)

    def tile(self, start: int, stop: int) -> Floats:
        """Return the votes of training rows start to stop."""
        votes = self.coefficients @ self.basis[start:stop].T
        return np.rint(votes, out=votes)


@dataclass(frozen=True)
class VoteHistogram:
    """How many training labels of each class cast each vote, for a block of test rows.

    Attributes
    ----------
    values : integers of shape (1, levels) or (rows, levels)
        The votes, in rising order. One line: all rows share the levels -h, ..., h - 1.
    counts : integers of shape (rows, classes, levels)
        How many labels of a class cast that vote. Unused levels have count 0.
    n_levels : int
        How many levels there could have been. The outer ones are left out in whole runs where no row of the block uses
        them; results must not depend on that, down to the last bit, so what they depend on is this number.
    """

    values: Integers
    counts: Integers
    n_levels: int

    @cached_property
    def has_all_levels(self) -> bool:
        """Whether all rows share the levels -h, ..., h - 1, without a gap."""
        half = self.values.shape[1] // 2
        return len(self.values) == 1 and np.array_equal(self.values[0], np.arange(-half, half))

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
        """Sum of all |votes|: the most that labels can move a margin away from its offset."""
        return np.asarray((self.all_counts * np.abs(self.values)).sum(axis=-1))

    @cached_property
    def n_labels(self) -> int:
        """Number of training labels."""
        return int(self.all_counts[0].sum()) if len(self.counts) else 0

    def rows(self, which: Integers) -> VoteHistogram:
        """Return the histograms of some of the test rows."""
        if len(which) == len(self.counts):
            return self
        values = self.values if len(self.values) == 1 else self.values[which]
        return VoteHistogram(values, self.counts[which], self.n_levels)


def coarse_histogram(histogram: VoteHistogram) -> VoteHistogram:
    """Merge neighbouring levels into their middle, for searches that need not be exact."""
    merged = histogram.n_levels // COARSE_LEVELS
    if merged < 2:
        return histogram
    starts = np.arange(0, histogram.values.shape[1], merged)
    stops = np.append(starts[1:], histogram.values.shape[1]) - 1
    middles = (histogram.values[:, starts] + histogram.values[:, stops]) // 2
    counts = np.add.reduceat(histogram.counts, starts, axis=-1)
    # levels that were left out come back empty: the number of terms, hence the order of a sum, is always the same
    left_out = (histogram.n_levels - histogram.values.shape[1]) // (2 * merged)
    margin = ((0, 0), (left_out, left_out))
    return VoteHistogram(np.pad(middles, margin), np.pad(counts, ((0, 0), *margin)), histogram.n_levels)


def tiles(n_train: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of the tiles in which training rows are visited."""
    for start in range(0, n_train, TILE_ROWS):
        yield start, min(start + TILE_ROWS, n_train)


def class_scores(source: VoteSource, codes: Integers, n_classes: int) -> Integers:
    """Sum the votes of each class: the scores without offsets, and without a histogram.

    Soundness: sums of integers below 2**24 over fewer than 2**29 rows are exact in float64.
    """
    scores = np.zeros((len(source.exponent), n_classes), dtype=np.int64)
    for start, stop in tiles(source.n_train):
        one_hot = (codes[start:stop, None] == np.arange(n_classes)).astype(np.float64)
        scores += (source.tile(start, stop) @ one_hot).astype(np.int64)
    return scores


def possible_levels(precision: int, n_train: int) -> int:
    """Return how many levels a histogram may have; it depends on nothing but the learner."""
    all_levels = 2 ** (precision + 1)
    return all_levels if _levels_are_shared(precision, n_train) else whole_runs(min(all_levels, n_train))


def histogram(source: VoteSource, codes: Integers, n_classes: int, precision: int) -> VoteHistogram:
    """Count the votes of a block of test rows by level and label."""
    levels = possible_levels(precision, source.n_train)
    if _levels_are_shared(precision, source.n_train):
        return _shared_histogram(source, codes, n_classes, levels)
    return _own_histogram(source, codes, n_classes, levels)


def _levels_are_shared(precision: int, n_train: int) -> bool:
    """Tell whether it pays to keep every possible level rather than those that occur."""
    return bool(2 ** (precision + 1) <= min(MOST_SHARED_LEVELS, 4 * n_train))


def _shared_histogram(source: VoteSource, codes: Integers, n_classes: int, levels: int) -> VoteHistogram:
    rows = len(source.exponent)
    counts = np.zeros(rows * n_classes * levels, dtype=np.int64)
    cell_of_row = (np.arange(rows) * (n_classes * levels))[:, None]
    for start, stop in tiles(source.n_train):
        cell_of_label = (codes[start:stop] * levels + levels // 2)[None, :]
        cells = source.tile(start, stop).astype(np.int64)
        cells += cell_of_label
        cells += cell_of_row
        counts += np.bincount(cells.ravel(), minlength=counts.size)
    return _without_outer_levels(counts.reshape(rows, n_classes, levels))


def _without_outer_levels(counts: Integers) -> VoteHistogram:
    """Leave out whole runs of levels at both ends that no row uses."""
    half = counts.shape[2] // 2
    used = np.flatnonzero(counts.any(axis=(0, 1))) - half
    reach = max(-int(used[0]), int(used[-1]) + 1) if used.size else 0
    kept = half if half < SUM_RUN else min(max(-(-reach // SUM_RUN), 1) * SUM_RUN, half)
    return VoteHistogram(np.arange(-kept, kept)[None, :], counts[:, :, half - kept : half + kept], counts.shape[2])


def _own_histogram(source: VoteSource, codes: Integers, n_classes: int, levels: int) -> VoteHistogram:
    """Keep, per test row, the votes that occur, in rising order; unused levels repeat the last one."""
    rows = len(source.exponent)
    votes = np.concatenate([source.tile(*tile).astype(np.int64) for tile in tiles(source.n_train)], axis=1)
    order = np.argsort(votes, axis=1, kind="stable")
    in_order = np.take_along_axis(votes, order, axis=1)
    is_new = np.diff(in_order, axis=1, prepend=in_order[:, :1]) > 0
    level = np.cumsum(is_new, axis=1)
    row = np.arange(rows)[:, None]
    values = np.repeat(in_order[:, -1:], levels, axis=1)
    values[np.broadcast_to(row, level.shape), level] = in_order
    cells = (row * n_classes + codes[order]) * levels + level
    counts = np.bincount(cells.ravel(), minlength=rows * n_classes * levels)
    return VoteHistogram(values, counts.reshape(rows, n_classes, levels), levels)
