"""Moves of sums by changed targets where training rows are visited in parts: what is found in the parts adds up.

A part of the training rows contributes the sum of its votes times targets, the sum of all of its moves, and its largest
moves. The largest moves of all rows are among the largest ones of the parts. Integers: nothing depends on how the rows
are divided (M16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flipproof.core.rounding import Integers
from flipproof.core.targets import (
    NEVER,
    LargestMoves,
    ListedVotes,
    Reachable,
    first_at_least,
    largest_first,
    moves_of_sums,
    sum_of_votes,
)
from flipproof.core.votes import tiles

#: Most of the largest moves of each direction that are kept; more are counted by size.
MOST_KEPT = 4096

#: Bits of the place of a move among those of its size: how finely one pass tells sizes apart.
PLACE_BITS = 12
N_PLACES = 2**PLACE_BITS

#: Test rows of which moves are counted by size in one pass: 64 MiB.
ROWS_COUNTED = 1024


@dataclass(frozen=True)
class PartOfSums:
    """What some training rows contribute to the sums of a block of test rows.

    Attributes
    ----------
    value : integers of shape (m,)
        Sums of votes times targets.
    totals : integers of shape (2, m)
        Sums of all moves, down and up.
    moves : integers of shape (2, m, any)
        The largest moves down and up, in descending order; or the moves of all groups, in the order of the groups.
    most : int or None
        How many moves are kept in each direction; None: those of all groups.
    """

    value: Integers
    totals: Integers
    moves: Integers
    most: int | None

    @classmethod
    def of(
        cls, listed: ListedVotes, reachable: Reachable, origin: int, most: int, n_groups: int | None = None
    ) -> PartOfSums:
        """Return what the listed rows contribute: the `most` largest moves, or the moves of `n_groups` groups."""
        value, every = sum_of_votes(listed, reachable.targets - origin), np.arange(len(listed.votes))
        moves = moves_of_sums(listed, reachable)
        if n_groups is not None:
            moves = replace(moves, n_groups=n_groups)
            by_group = np.stack([moves.of(every, upward) for upward in (False, True)]).astype(np.int64)
            return cls(value, by_group.sum(axis=2), by_group, None)
        largest = LargestMoves(moves)
        totals = np.stack([largest.totals(every, upward) for upward in (False, True)])
        return cls(value, totals, np.diff(largest.sums(most), axis=2)[:, :, :most], most)

    @classmethod
    def without_moves(cls, listed: ListedVotes, targets: Integers, origin: int) -> PartOfSums:
        """Return the sums of the listed rows alone."""
        m = len(listed.votes)
        nothing = np.zeros((2, m), dtype=np.int64), np.zeros((2, m, 0), dtype=np.int64)
        return cls(sum_of_votes(listed, targets - origin), *nothing, 0)

    @classmethod
    def joined(cls, parts: Sequence[PartOfSums]) -> PartOfSums:
        """Return what the same rows contribute to several blocks of test rows."""
        value = np.concatenate([one.value for one in parts])
        totals, moves = (
            np.concatenate(each, axis=1) for each in zip(*((one.totals, one.moves) for one in parts), strict=True)
        )
        return cls(value, totals, moves, parts[0].most)

    def __add__(self, other: PartOfSums) -> PartOfSums:
        value, totals = self.value + other.value, self.totals + other.totals
        if self.most is None:
            return PartOfSums(value, totals, self.moves + other.moves, None)
        both = np.concatenate([self.moves, other.moves], axis=2)
        return PartOfSums(value, totals, np.sort(both, axis=2)[:, :, : -self.most - 1 : -1], self.most)


@dataclass(frozen=True)
class SizesOfMoves:
    """Which moves a pass counts, one direction of some test rows: those from `low` to below ``low + N_PLACES * step``.

    Attributes
    ----------
    upward : bool
        The direction.
    low : integers of shape (a,)
        The smallest move that is counted, of each test row.
    step : int
        Moves are told apart by this step.
    """

    upward: bool
    low: Integers
    step: int

    def tally(self, listed: ListedVotes, reachable: Reachable) -> TallyOfMoves:
        """Count the moves of the listed rows; `low` is that of the test rows listed."""
        moves, counts, sums = moves_of_sums(listed, reachable), [], []
        for row, low in enumerate(self.low.tolist()):
            found = moves.of(slice(row, row + 1), self.upward)[0].astype(np.int64)
            found = found[(found >= low) & (found < low + N_PLACES * self.step)]
            place, of_place = (found - low) // self.step, np.zeros(N_PLACES, dtype=np.int64)
            np.add.at(of_place, place, found)
            counts.append(np.bincount(place, minlength=N_PLACES))
            sums.append(of_place)
        return TallyOfMoves(np.array(counts), np.array(sums))

    def on_rows(self, rows: slice) -> SizesOfMoves:
        """Return the same for some of the test rows."""
        return replace(self, low=self.low[rows])


@dataclass(frozen=True)
class TallyOfMoves:
    """How many moves have each size, and their sums; shape (a, N_PLACES), from the smallest."""

    numbers: Integers
    sums: Integers

    def __add__(self, other: TallyOfMoves) -> TallyOfMoves:
        return TallyOfMoves(self.numbers + other.numbers, self.sums + other.sums)


@dataclass(frozen=True)
class SumsReach:
    """The reach of sums over training rows in parts, see :class:`flipproof.core.targets.SumReach`.

    The largest moves are known; where more are needed, passes over the rows count moves by size, and divide the size
    that decides, until all moves in it are equal.

    Attributes
    ----------
    part : PartOfSums
        What all training rows contribute together.
    n_targets : int
        Number of training rows.
    count : function
        Visits all rows again, and counts moves on the test rows with these numbers.
    """

    part: PartOfSums
    n_targets: int
    count: Callable[[Integers, SizesOfMoves], TallyOfMoves]

    @property
    def value(self) -> Integers:
        """The sum of each test row as it is."""
        return self.part.value

    @property
    def _knows_all(self) -> bool:
        return self.part.most is None or self.n_targets <= self.part.most

    def _sums(self, direction: int) -> Integers:
        return largest_first(self.part.moves[direction])

    def ends(self, n_changes: Sequence[int]) -> tuple[Integers, Integers]:
        """Return the lowest and the highest sum after any `n_changes` changes of different targets."""
        down, up = (np.stack([self._farthest(one, direction) for one in n_changes], axis=1) for direction in (0, 1))
        return self.value[:, None] - down, self.value[:, None] + up

    def _farthest(self, n_changes: int, direction: int) -> Integers:
        """Return the sums of the `n_changes` largest moves."""
        known = self._sums(direction)
        if self._knows_all or n_changes < known.shape[1]:
            return np.asarray(known[:, min(n_changes, known.shape[1] - 1)])
        if n_changes >= self.n_targets:
            return np.asarray(self.part.totals[direction])
        goal = np.full(len(self.value), n_changes, dtype=np.int64)
        number, total, size = self._divided(np.arange(len(goal)), direction, goal, by_number=True)
        return total + (n_changes - number) * size

    def fewest(self, goal: Integers, upward: bool) -> Integers:
        """Return the fewest changes that bring the sum to `goal` or beyond; NEVER where all of them do not."""
        direction = int(upward)
        needed = goal - self.value if upward else self.value - goal
        found = first_at_least(self._sums(direction), needed)
        if self._knows_all:
            return found
        rows = np.flatnonzero((found == NEVER) & (self.part.totals[direction] >= needed))
        if len(rows):
            number, total, size = self._divided(rows, direction, needed[rows], by_number=False)
            found[rows] = number - (total - needed[rows]) // size  # the quotient is rounded up
        return found

    def _divided(
        self, rows: Integers, direction: int, goal: Integers, by_number: bool
    ) -> tuple[Integers, Integers, Integers]:
        """Return the size of move with which a goal is reached, and number and sum of the larger moves.

        The goal is a number of moves, or a sum of the largest ones; all moves together reach it.

        Soundness: the moves above those that are looked at do not reach the goal, together with these they do. In the
        end, these are equal, since the step is 1.
        """
        parts = [self._divided_at_once(rows[one], direction, goal[one], by_number) for one in _runs(len(rows))]
        number, total, size = (np.concatenate(one) for one in zip(*parts, strict=True))
        return number, total, size

    def _divided_at_once(
        self, rows: Integers, direction: int, goal: Integers, by_number: bool
    ) -> tuple[Integers, Integers, Integers]:
        low, number, total = (np.zeros(len(rows), dtype=np.int64) for _ in range(3))
        bits = int(self.part.moves[direction][rows].max(initial=1)).bit_length()
        for places in range(-(-bits // PLACE_BITS) - 1, -1, -1):
            step = N_PLACES**places
            tally = self.count(rows, SizesOfMoves(bool(direction), low, step))
            numbers, sums = (_from_the_largest(one) for one in (tally.numbers, tally.sums))
            reached = number[:, None] + numbers if by_number else total[:, None] + sums
            place = np.argmax(reached[:, 1:] >= goal[:, None], axis=1)[:, None]
            number += np.take_along_axis(numbers, place, axis=1)[:, 0]
            total += np.take_along_axis(sums, place, axis=1)[:, 0]
            low += (N_PLACES - 1 - place[:, 0]) * step
        return number, total, low


def _runs(n_rows: int) -> list[slice]:
    return [slice(*ends) for ends in tiles(n_rows, ROWS_COUNTED)]


def _from_the_largest(tally: Integers) -> Integers:
    """Return sums over the 0, 1, ... largest sizes, shape (a, N_PLACES + 1)."""
    found = np.zeros((len(tally), N_PLACES + 1), dtype=np.int64)
    np.cumsum(tally[:, ::-1], axis=1, out=found[:, 1:])
    return found
