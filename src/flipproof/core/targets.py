"""Numbers instead of classes: how far changed training targets move a prediction (M16).

A prediction is ``f = y0 + sum_j alpha_j (y_j - y0)``, where the weights alpha and y0 read no target. Weights are
integer votes (M9). Targets lie in a range that is fixed in advance, and are rounded to an integer grid that only the
range decides on. So intervals and radii are exact integers; the last step, to numbers, is monotone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flipproof.core.rounding import Floats, Integers, Values, grid_exponent, scale
from flipproof.core.votes import SparseVotes, VoteSource, tiles

#: Bits of a target on the grid.
TARGET_BITS = 20

#: Sums of votes times targets stay below 2**61, so that a sum and the way to it fit into 64 bits, and searches between
#: -2**61 and 2**61 find all of them.
SUM_BITS = 61

#: Up to this number of moves, all of them are sorted at once; of more, first the largest ones.
ALWAYS_SORTED = 2048
USUAL_DEPTH = 512

#: One in this many moves is looked at to guess how large the largest ones are.
SAMPLED = 32

#: Moves that are computed at a time: 1 MiB.
MOVES_AT_A_TIME = 2**17

#: More changes than any adversary can make: the answer where no number of changes is enough.
NEVER: int = 2 ** (SUM_BITS + 1)


@dataclass(frozen=True)
class TargetGrid:
    """The integer grid of targets from `low` to `high`: target y is the integer ``rint((y - low) * 2**exponent)``.

    Soundness: the grid depends on the range alone. Rounding is monotone, so the targets that an adversary can choose
    from `low` to `high` are exactly the integers from 0 to `steps` that rounding reaches, and both ends are reached.

    Attributes
    ----------
    low, high : float
        The range.
    exponent : int
        A step of the grid is ``2**-exponent``.
    steps : int
        The integer of `high`; that of `low` is 0.
    """

    low: float
    high: float
    exponent: int
    steps: int

    @classmethod
    def of(cls, low: float, high: float) -> TargetGrid:
        """Return the grid of a range; `low` must be below `high`, and their difference finite."""
        exponent = int(grid_exponent(high - low, TARGET_BITS))
        return cls(low, high, exponent, int(np.rint(scale(high - low, exponent))))

    def integers(self, y: Floats) -> Integers:
        """Round targets within the range to the grid."""
        return np.rint(scale(y - self.low, self.exponent)).astype(np.int64)

    def value(self, integer: int) -> float:
        """Return the number that an integer of the grid represents."""
        return self.low + float(scale(float(integer), -self.exponent))

    def ends_within(self, y: Floats, max_change: float) -> tuple[Floats, Floats]:
        """Return the lowest and highest number that targets can be moved to by at most `max_change`, within the range.

        Soundness: the ends are rounded to the grid after the move, ``round(y + delta)``, not ``round(y) +
        round(delta)``. The sum in floating point is never below a number that is within `max_change` above y, and
        rounding to the grid is monotone: no such number is rounded to an integer beyond that of the end.
        """
        with np.errstate(over="ignore"):
            return np.maximum(y - max_change, self.low), np.minimum(y + max_change, self.high)


@dataclass(frozen=True)
class NumberRule:
    """How the targets that vote become a number, apart from the votes; no part of it reads a target.

    Attributes
    ----------
    average : {"sum", "mean-of-rows", "mean-of-votes", "median"}
        What is done with the sum of votes times targets: used as it is, divided by the number of training rows, or by
        the sum of the votes; or the lower median of the targets that vote.
    grid : TargetGrid
        The grid of the targets.
    origin : int
        The target on the grid that sums count from.
    factor : float
        What weighted sums are multiplied by.
    """

    average: str
    grid: TargetGrid
    origin: int
    factor: float


@dataclass(frozen=True)
class Touchable:
    """How many targets, or groups, can be changed, and which of these is counted."""

    n_touchable: int
    unit: str

    def radius(self, fewest: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the largest numbers of changes that are not enough; all that can be changed where none is, and where.

        Parameters
        ----------
        fewest : integers of shape (m,)
            The fewest changes that are enough, or NEVER.
        """
        unlimited = fewest == NEVER
        return np.where(unlimited, self.n_touchable, fewest - 1), unlimited


@dataclass(frozen=True)
class Reachable:
    """What an adversary can do to the training targets, on the grid.

    Attributes
    ----------
    targets : integers of shape (n,)
        The targets as they are.
    lowest, highest : integers of shape (n,)
        The ends of what each target can be changed to; both are the target itself where it is trusted.
    groups : integers of shape (n,) or None
        The group of each target, 0 to n_groups - 1, if the adversary controls whole groups.
    n_touchable : int
        How many targets, or groups, can be changed.
    """

    targets: Integers
    lowest: Integers
    highest: Integers
    groups: Integers | None
    n_touchable: int

    @property
    def unit(self) -> str:
        """What is counted."""
        return "targets" if self.groups is None else "annotators"

    def radius(self, fewest: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return what :meth:`Touchable.radius` does."""
        return Touchable(self.n_touchable, self.unit).radius(fewest)

    @property
    def n_groups(self) -> int:
        """Number of groups, with or without a target that can be changed."""
        return 0 if self.groups is None or not len(self.groups) else int(self.groups.max()) + 1


class Reach(Protocol):
    """How far changes move the integers that the predictions on a block of test rows are made of."""

    @property
    def value(self) -> Integers:
        """The integer of each test row as it is, shape (m,)."""
        ...

    def ends(self, n_changes: Sequence[int]) -> tuple[Integers, Integers]:
        """Return the lowest and the highest integer after any `n_changes` changes, each of shape (m, numbers)."""
        ...

    def fewest(self, goal: Integers, upward: bool) -> Integers:
        """Return the fewest changes that reach `goal` or go beyond it; NEVER where no number of changes does."""
        ...


@dataclass(frozen=True)
class ListedVotes:
    """The votes on a block of test rows, and which training rows cast them.

    Attributes
    ----------
    votes : integers, or whole numbers in floats, of shape (m, w)
        Votes; where fewer than w rows vote on a test row, 0 follows.
    members : integers of shape (m, w) or (1, w)
        The training row of each vote.
    """

    votes: NDArray[Any]
    members: Integers


def listed_votes(source: VoteSource) -> ListedVotes:
    """List the votes of all rows that vote; of a sparse source, only those that are stored."""
    if not isinstance(source, SparseVotes):
        products = source.unrounded(0, source.n_train)
        return ListedVotes(np.rint(products, out=products), np.arange(source.n_train)[None])
    counts = np.diff(source.votes.indptr)
    is_listed = np.arange(int(counts.max(initial=0))) < counts[:, None]  # in the order of the sparse votes
    votes, members = np.zeros(is_listed.shape, dtype=np.int64), np.zeros(is_listed.shape, dtype=np.int64)
    votes[is_listed], members[is_listed] = source.votes.data, source.votes.indices
    return ListedVotes(votes, members)


@dataclass(frozen=True)
class Moves:
    """How far each target, or group, can move the sums of a block of test rows.

    Attributes
    ----------
    votes : whole numbers of shape (m, w)
        Votes on each test row.
    to_highest, to_lowest : floats of shape (m, w) or (1, w)
        The way of each target to its ends, on the grid: not negative, and not positive.
    groups : integers of shape (m, w) or (1, w), or None
        The group of each target.
    n_groups : int
        Number of groups.
    """

    votes: NDArray[Any]
    to_highest: Floats
    to_lowest: Floats
    groups: Integers | None
    n_groups: int

    @property
    def width(self) -> int:
        """How many targets, or groups, can move a sum."""
        return self.votes.shape[1] if self.groups is None else self.n_groups

    def of(self, rows: Integers | slice, upward: bool) -> NDArray[Any]:
        """Return the moves of the sums of some test rows, not negative, shape (m, width).

        Soundness: a vote times a way has at most 44 bits, so products of floats are exact.
        """
        votes = self.votes[rows]
        to_highest, to_lowest = (
            votes * (one[rows] if len(one) > 1 else one) for one in (self.to_highest, self.to_lowest)
        )
        if upward:
            moves = np.maximum(to_highest, to_lowest, out=to_highest)
        else:
            moves = np.minimum(to_highest, to_lowest, out=to_highest)
            np.negative(moves, out=moves)
        if self.groups is None:
            return np.asarray(moves)
        groups = self.groups[rows] if len(self.groups) > 1 else self.groups
        return _by_group(moves.astype(np.int64), groups, self.n_groups)

    def guessed_bounds(self, rows: Integers, depth: int) -> Floats:
        """Return what about twice `depth` moves of some test rows reach, by a sample; shape (2, rows), down and up."""
        votes = self.votes[:, ::SAMPLED][rows]
        ways = (one[:, ::SAMPLED][rows if len(one) > 1 else slice(None)] for one in (self.to_highest, self.to_lowest))
        samples = np.stack(_both_moves(votes, *ways))
        place = samples.shape[2] - min(2 * depth // SAMPLED + 8, samples.shape[2])
        return np.asarray(np.partition(samples, place, axis=2)[:, :, place], dtype=np.float64)

    def largest(self, row: int, depth: int, bounds: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the `depth` largest moves of a test row down and up, in descending order; for targets without groups.

        Soundness: if `depth` moves or more reach a bound, they are the largest ones; else all moves are looked at.
        """
        ways = (one[row if len(one) > 1 else 0] for one in (self.to_highest, self.to_lowest))
        found = []
        for moves, bound in zip(_both_moves(self.votes[row], *ways), bounds.tolist(), strict=True):
            chosen = moves[moves >= bound]
            found.append(_first_of(chosen if len(chosen) >= depth else moves, depth))
        return found[0], found[1]


def _both_moves(votes: NDArray[Any], to_highest: Floats, to_lowest: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how far each target moves a sum down and up, not negative."""
    one, other = votes * to_highest, votes * to_lowest
    up = np.maximum(one, other)
    down = np.minimum(one, other, out=one)
    return np.negative(down, out=down), up


@dataclass
class LargestMoves:
    """Sums of the largest moves of each test row, down and up; moves are sorted only as far as needed.

    Soundness: the sum of the r largest moves does not depend on which of equal moves are taken, nor on what is sorted
    beyond them.
    """

    moves: Moves
    _sums: Integers | None = None

    def sums(self, depth: int) -> Integers:
        """Return the sums of the 0, 1, ... largest moves, of `depth` moves or more; shape (2, m, any), down and up."""
        if self._sums is None or self._sums.shape[2] <= min(depth, self.moves.width):
            self._sums = self._listed(np.arange(len(self.moves.votes)), max(depth, USUAL_DEPTH))
        return self._sums

    def _listed(self, rows: Integers, depth: int) -> Integers:
        """Return the sums of the largest moves of some test rows."""
        width, is_grouped = self.moves.width, self.moves.groups is not None
        depth = width if width <= ALWAYS_SORTED else min(depth, width)
        sums = np.zeros((2, len(rows), depth + 1), dtype=np.int64)
        if depth < width and not is_grouped:
            for start, stop in tiles(len(rows), self._at_a_time * SAMPLED):
                bounds = self.moves.guessed_bounds(rows[start:stop], depth)
                for place in range(start, stop):
                    both = self.moves.largest(int(rows[place]), depth, bounds[:, place - start])
                    for direction, largest in enumerate(both):
                        np.cumsum(largest, out=sums[direction, place, 1:], dtype=np.int64)
            return sums
        for start, stop in tiles(len(rows), self._at_a_time):
            for direction in range(2):
                moves = self.moves.of(rows[start:stop], bool(direction))
                largest = (
                    np.sort(moves, axis=1)[:, ::-1]
                    if depth == width
                    else np.array([_largest(one, depth) for one in moves])
                )
                np.cumsum(largest, axis=1, out=sums[direction, start:stop, 1:], dtype=np.int64)
        return sums

    @property
    def _at_a_time(self) -> int:
        return max(MOVES_AT_A_TIME // max(self.moves.width, 1), 1)

    def totals(self, rows: Integers, upward: bool) -> Integers:
        """Return the sums of all moves of some test rows."""
        totals = np.zeros(len(rows), dtype=np.int64)
        for start, stop in tiles(len(rows), self._at_a_time):
            totals[start:stop] = self.moves.of(rows[start:stop], upward).sum(axis=1, dtype=np.int64)
        return totals

    def fewest(self, needed: Integers, upward: bool) -> Integers:
        """Return how many of the largest moves add up to `needed` or more; NEVER where all of them do not."""
        listed = self.sums(0)[int(upward)]
        found = first_at_least(listed, needed)
        if listed.shape[1] > self.moves.width:
            return found
        rows, depth = np.flatnonzero(found == NEVER), listed.shape[1] - 1
        rows = rows[self.totals(rows, upward) >= needed[rows]]
        while len(rows):
            depth = 2 * depth
            found[rows] = first_at_least(self._listed(rows, depth)[int(upward)], needed[rows])
            rows = rows[found[rows] == NEVER]
        return found


@dataclass(frozen=True)
class SumReach:
    """The reach of a sum of votes times targets: the r largest moves add up.

    Attributes
    ----------
    value : integers of shape (m,)
        ``sum_j k_j (t_j - t0)``.
    moves : LargestMoves
        The farthest that changes move the sum down and up.
    """

    value: Integers
    moves: LargestMoves

    def ends(self, n_changes: Sequence[int]) -> tuple[Integers, Integers]:
        """Return the lowest and the highest sum after any `n_changes` changes of different targets."""
        places = [min(int(one), self.moves.moves.width) for one in n_changes]  # they may not fit into 64 bits
        down, up = self.moves.sums(max(places, default=0))[:, :, places]
        return self.value[:, None] - down, self.value[:, None] + up

    def fewest(self, goal: Integers, upward: bool) -> Integers:
        """Return the fewest changes that bring the sum to `goal` or beyond."""
        return self.moves.fewest(goal - self.value if upward else self.value - goal, upward)


def sum_reach(listed: ListedVotes, reachable: Reachable, origin: int) -> SumReach:
    """Return the reach of ``sum_j k_j (t_j - origin)`` under changed targets.

    Soundness: targets enter the sum separately. Changing t_j within its ends moves the sum up by at most
    ``u_j = max(k_j (highest_j - t_j), k_j (lowest_j - t_j))``, which is not negative and attained at an end; down
    likewise. So r changes move it by at most the sum of the r largest u_j, and changing these r targets attains it. The
    moves of a group add up in the same way. Integers: exact, both ways (M16).
    """
    moves = LargestMoves(moves_of_sums(listed, reachable))
    return SumReach(sum_of_votes(listed, reachable.targets - origin), moves)


def moves_of_sums(listed: ListedVotes, reachable: Reachable) -> Moves:
    """Return how far each target, or group, can move a sum of votes times targets."""
    t, members = reachable.targets, listed.members
    up, down = ((end - t).astype(np.float64)[members] for end in (reachable.highest, reachable.lowest))
    groups = None if reachable.groups is None else reachable.groups[members]
    return Moves(listed.votes, up, down, groups, reachable.n_groups)


def sum_of_votes(listed: ListedVotes, targets: Integers) -> Integers:
    """Return ``sum_j k_j t_j`` for each test row."""
    if len(listed.members) > 1:
        return np.asarray((listed.votes * targets[listed.members]).sum(axis=1), dtype=np.int64)
    t = targets[listed.members[0]]
    largest = max(int(listed.votes.max(initial=0)), -int(listed.votes.min(initial=0))) * int(np.abs(t).max(initial=0))
    if len(t) * largest < 2**53:  # exact in floats, in any order
        return np.asarray(listed.votes.astype(np.float64, copy=False) @ t.astype(np.float64)).astype(np.int64)
    return np.asarray(listed.votes.astype(np.int64) @ t)


def sums_fit(n_rows: int, precision: int, grid: TargetGrid, origin: int) -> bool:
    """Tell whether sums of votes times targets fit into 64 bits for any targets of this range."""
    farthest = max(grid.steps, abs(grid.steps - origin), abs(origin))
    return bool(n_rows * 2**precision * farthest < 2**SUM_BITS)


def _by_group(moves: Integers, groups: Integers, n_groups: int) -> Integers:
    """Add up the moves of each group, shape (m, groups)."""
    m, w = moves.shape
    belongs = np.broadcast_to(groups, moves.shape).ravel()
    return np.asarray(csr_array((moves.ravel(), belongs, w * np.arange(m + 1)), shape=(m, n_groups)).toarray())


def _largest(line: Values, depth: int) -> NDArray[Any]:
    """Return the largest numbers of a line, in descending order.

    A bound is guessed from a sample: it saves time, and where too few numbers reach it, all are looked at.
    """
    sample = line[::SAMPLED]
    rank = min(2 * depth // SAMPLED + 8, len(sample))
    chosen = line[line >= np.partition(sample, len(sample) - rank)[len(sample) - rank]]
    return _first_of(chosen if len(chosen) >= depth else line, depth)


def _first_of(numbers: Values, depth: int) -> NDArray[Any]:
    """Return the largest of some numbers, in descending order."""
    if len(numbers) > 8 * depth:
        numbers = np.partition(numbers, len(numbers) - depth)[len(numbers) - depth :]
    return np.sort(numbers)[::-1][:depth]


def largest_first(moves: Integers) -> Integers:
    """Return the sums of the 0, 1, ... largest moves of each test row."""
    sums = np.zeros((len(moves), moves.shape[1] + 1), dtype=np.int64)
    np.cumsum(np.sort(moves, axis=1)[:, ::-1], axis=1, out=sums[:, 1:])
    return sums


def first_at_least(rising: Integers, needed: Integers) -> Integers:
    """Return the first place in each ascending line that is at least `needed`; NEVER where there is none."""
    places = (rising < needed[:, None]).sum(axis=1)
    return np.asarray(np.where(places < rising.shape[1], places, NEVER), dtype=np.int64)


@dataclass(frozen=True)
class Units:
    """From the integers of a block to numbers: N of a test row is ``origin + factor * N / divisor * 2**-exponent``.

    Soundness: conversion to floating point, division by a positive number, multiplication by positive numbers and
    addition are all monotone, so `numbers` never changes the order of two integers.

    Attributes
    ----------
    origin : float
        What the integer 0 represents.
    divisor : integers of shape (m,)
        At least 1.
    exponent : integers of shape (m,)
        Powers of two.
    factor : float
        A positive number.
    """

    origin: float
    divisor: Integers
    exponent: Integers
    factor: float = 1.0

    def numbers(self, integers: Integers) -> Floats:
        """Return the numbers that integers of shape (m,) or (m, any) represent."""
        shape = (-1,) + (1,) * (integers.ndim - 1)
        ratio = integers.astype(np.float64) / self.divisor.reshape(shape).astype(np.float64)
        return self.origin + scale(ratio * self.factor, -self.exponent.reshape(shape))

    def number_of(self, row: int, ratio: Fraction) -> float:
        """Return the number of a test row that a fraction, of any divisor, represents.

        Soundness: a fraction of integers below 2**53 has the same float as their quotient, so this is what `numbers`
        returns for them.
        """
        return float(self.origin + scale(float(ratio) * self.factor, -self.exponent[row]))

    def way(self, row: int, tolerance: float) -> Fraction:
        """Return the fraction that moves the number of a test row by `tolerance`, exactly."""
        return Fraction(tolerance) / Fraction(self.factor) * Fraction(2) ** int(self.exponent[row])

    def moves_within(self, tolerance: float) -> Integers:
        """Return the largest move of each integer that moves its number by at most `tolerance`.

        Soundness: ``floor(tolerance / factor * divisor * 2**exponent)`` in rational arithmetic, without rounding.
        """
        pairs = np.stack([self.divisor, self.exponent], axis=1)
        different, like = np.unique(pairs, axis=0, return_inverse=True)
        exact = Fraction(tolerance) / Fraction(self.factor)
        moves = [min(int(exact * int(d) * Fraction(2) ** int(e)), NEVER // 2) for d, e in different.tolist()]
        return np.array(moves, dtype=np.int64)[like.reshape(-1)]

    def least_reaching(self, threshold: float) -> Integers:
        """Return the least integer of each test row whose number, as `numbers` returns it, is at least `threshold`.

        Soundness: `numbers` is monotone, so bisection finds it; between -NEVER / 2 and NEVER / 2, where sums are.
        """
        low, high = (np.full(len(self.divisor), end, dtype=np.int64) for end in (-NEVER // 2, NEVER // 2))
        while np.any(high - low > 1):
            middle = (low + high) // 2
            reaches = self.numbers(middle) >= threshold
            low, high = np.where(reaches, low, middle), np.where(reaches, middle, high)
        return high


def tolerated(reach: Reach, units: Units, tolerance: float) -> Integers:
    """Return the fewest changes that move each number by more than `tolerance`; NEVER where none do."""
    beyond = units.moves_within(tolerance) + 1
    return np.minimum(reach.fewest(reach.value + beyond, upward=True), reach.fewest(reach.value - beyond, upward=False))


def crossing(reach: Reach, units: Units, threshold: float) -> Integers:
    """Return the fewest changes that take each number to the other side of `threshold`; NEVER where none do.

    The sides are "at least the threshold" and "below it", as numbers in floating point are compared.
    """
    least = units.least_reaching(threshold)
    is_above = reach.value >= least
    return np.where(is_above, reach.fewest(least - 1, upward=False), reach.fewest(least, upward=True))


def rows_at_a_time(n_votes: int, budget: int) -> int:
    """Return how many test rows to process at a time, given the number of votes on each and the bytes of memory."""
    arrays = 4  # products, votes, and what sparse votes are listed from; moves are computed for a few rows at a time
    return max(1, budget // (8 * arrays * max(n_votes, 1)))


def largest_moves(
    listed: ListedVotes, reachable: Reachable, n_changes: int, upward: bool
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the training rows whose targets to change, and whether to their highest, for the only test row listed.

    These are the rows of the `n_changes` targets or groups that move the sum farthest.
    """
    members, votes = listed.members[0], listed.votes[0].astype(np.int64) * (1 if upward else -1)
    up = votes * (reachable.highest - reachable.targets)[members]
    down = votes * (reachable.lowest - reachable.targets)[members]
    moves = np.maximum(up, down)
    chosen = _members_of_largest(moves, members, reachable, n_changes)
    chosen &= moves > 0
    return members[chosen], (up > down)[chosen]


def _members_of_largest(moves: Integers, members: Integers, reachable: Reachable, n_changes: int) -> NDArray[np.bool_]:
    """Tell which members belong to the targets or groups with the largest total moves."""
    if reachable.groups is None:
        chosen = np.zeros(len(moves), dtype=bool)
        chosen[np.argsort(-moves, kind="stable")[:n_changes]] = True
        return chosen
    totals = _by_group(moves[None], reachable.groups[members][None], reachable.n_groups)[0]
    return np.isin(reachable.groups[members], np.argsort(-totals, kind="stable")[:n_changes])
