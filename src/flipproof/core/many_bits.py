"""Exact radii for votes of more bits than a shared histogram has levels (M6), without sorting all votes.

Votes are counted by their leading bits, with the sum of each level, so that the sums from the top are exact at each
level. They tell between which two levels the gains reach the lead; only the votes between these are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flipproof.core.exact import UNREACHABLE, FromTheTop
from flipproof.core.rounding import ROUNDING_SHIFT, Floats, Integers, rounded_sum
from flipproof.core.votes import ProductVotes, SparseVotes, VoteSource, votes_in_tiles

#: Leading bits by which votes are counted.
LEADING_BITS = 8

#: With fewer training rows than this for each level, sorting the votes takes less time.
ROWS_PER_LEVEL = 16

#: Up to this many bits, a shared histogram takes less time for the sizes that it is used for.
MOST_BITS_COUNTED = 12


@dataclass(frozen=True)
class LeadingBits:
    """The votes of a block of test rows, and how many and how much they are by class and leading bits.

    Attributes
    ----------
    votes : floats of shape (rows, n)
        The votes; integers.
    codes : integers of shape (n,)
        The class of each label; labels that cannot be changed are counted as additional classes.
    shift : int
        Number of bits of a vote that are left out: the level of a vote k is ``sign(k) (|k| >> shift)``.
    counts, sums : integers of shape (rows, classes, 2 half)
        Number and sum of the votes of each level, from -half to half - 1.
    """

    votes: Floats
    codes: Integers
    shift: int
    counts: Integers
    sums: Integers

    @property
    def scores(self) -> Integers:
        """Sum of votes per class."""
        return np.asarray(self.sums.sum(axis=2))


def can_count_leading_bits(source: VoteSource, precision: int) -> bool:
    """Tell whether counting by leading bits is possible, and takes less time than a histogram of whole votes."""
    enough = source.n_train >= ROWS_PER_LEVEL * 2 ** (LEADING_BITS + 1)
    return precision > MOST_BITS_COUNTED and enough and not isinstance(source, SparseVotes)


def count_leading_bits(source: VoteSource, codes: Integers, n_classes: int, precision: int) -> LeadingBits:
    """Count votes by class and leading bits; all are kept, too.

    Soundness: votes are integers below 2**24, so dividing them by a power of two is exact, and sums of fewer than 2**29
    of them are, too.
    """
    shift, levels = precision - LEADING_BITS, 2 ** (LEADING_BITS + 1)
    votes = np.empty((len(source.exponent), source.n_train))
    if isinstance(source, ProductVotes):
        for rows, train, products in votes_in_tiles(source, source.n_train):
            np.rint(products, out=votes[rows, train])
    else:
        np.rint(source.unrounded(0, source.n_train), out=votes)
    shape = len(votes), n_classes, levels
    counts, sums = np.empty((2, len(votes), n_classes * levels), dtype=np.int64)
    cell_of_label = (codes * levels + levels // 2).astype(np.float64) + ROUNDING_SHIFT
    leading = np.empty(source.n_train)
    for line, count, total in zip(votes, counts, sums, strict=True):
        np.multiply(line, 2.0**-shift, out=leading)
        np.trunc(leading, out=leading)
        cells = rounded_sum(leading, cell_of_label)
        count[:] = np.bincount(cells, minlength=n_classes * levels)
        total[:] = np.bincount(cells, weights=line, minlength=n_classes * levels)
    return LeadingBits(votes, codes, shift, counts.reshape(shape), sums.reshape(shape))


def flips_by_leading_bits(counted: LeadingBits, winner: Integers, lead: Integers) -> Integers:
    """Return the least number of label changes that lets each class win, or a bound for rivals that need more.

    Any label may be changed to any class, except those counted as additional classes. The smallest number of each row
    and the first rival that it belongs to are exact; of the other rivals some have a lower bound that is larger.

    Soundness: for a gain that is an even number of levels, the labels with at least this gain are whole levels: votes
    of half as many levels gain twice their size, votes of as many levels once (M6). So their number and their total
    gain are exact sums over levels. Bisection finds, for each rival, consecutive gains of this kind: the labels above
    the upper one do not reach the lead, those above the lower one do (or the lower one is 0). The labels between are
    sorted, unless another rival surely needs fewer flips.
    """
    n_classes, rows = lead.shape[1], np.arange(len(winner))
    free = slice(0, n_classes)
    tops = FromTheTop.of_sums(counted.counts[:, free], counted.sums[:, free], winner)
    low, high = np.zeros_like(lead), np.full_like(lead, tops.half + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        enough = tops.reach(2 * middle) >= lead
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    before, missing = tops.labels(2 * low + 2), lead - tops.reach(2 * low + 2)
    most = np.where(low > 0, tops.labels(2 * low), UNREACHABLE)
    most[rows, winner] = UNREACHABLE
    flips = before + 1
    flips[rows, winner] = UNREACHABLE
    for row, rival in np.argwhere(flips <= most.min(axis=1)[:, None]):
        if rival != winner[row]:
            gains = _gains_between(counted, int(row), int(winner[row]), int(rival), int(low[row, rival]), n_classes)
            reached = np.searchsorted(np.cumsum(np.sort(gains)[::-1]), missing[row, rival])
            flips[row, rival] = before[row, rival] + reached + 1 if reached < len(gains) else UNREACHABLE
    return flips


def _gains_between(counted: LeadingBits, row: int, winner: int, rival: int, level: int, n_classes: int) -> Floats:
    """Return the gains from twice `level` up to the next even number of levels, in any order."""
    step, votes = 2.0**counted.shift, counted.votes[row]
    size = np.abs(votes)
    one = np.flatnonzero((size >= level * step) & (size < (level + 1) * step))
    label, sign = counted.codes[one], votes[one]
    twice = one[((label == winner) & (sign > 0)) | ((label == rival) & (sign < 0))]
    gains = 2 * size[twice]
    if n_classes == 2:
        return np.asarray(gains)
    one = np.flatnonzero((size >= 2 * level * step) & (size < 2 * (level + 1) * step))
    label = counted.codes[one]
    once = one[(label != winner) & (label != rival) & (label < n_classes)]
    return np.concatenate([gains, size[once]])
