"""Means of predictions over groups of test rows, and gaps between them, under changed training targets (M16).

A mean of predictions ``y0 + sum_j alpha_j(z) (y_j - y0)`` is of the same form, with the mean of the weights. The votes
of different test rows are on different grids, and means of neighbours have different divisors, so the weights of a
mean are integers over one common denominator, without a limit to their size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers
from flipproof.core.targets import NEVER, ListedVotes, Reachable, Units

#: Integers of any size, as Python has them.
BigIntegers: TypeAlias = NDArray[np.object_]

#: Most integers of votes, of any grid and group, that are kept at a time.
MOST_SUMS = 2**26


@dataclass
class SumsOfVotes:
    """Sums of votes over the test rows of each group, kept apart by grid: integers, exact in any order.

    Attributes
    ----------
    n_train : int
        Number of training rows.
    sums : mapping
        By (group, divisor, exponent): the sum of the votes of each training row, shape (n_train,).
    sizes : mapping
        The number of test rows of each group.
    limits : mapping
        By (group, divisor, exponent): the sum of the largest votes that a row could have, if rows can be added.
    """

    n_train: int
    sums: dict[tuple[int, int, int], Integers] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    limits: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def add(self, listed: ListedVotes, units: Units, groups: Integers, limit: Integers | None = None) -> None:
        """Add the votes on a block of test rows; `groups` are their groups, and `limit` the largest votes on them."""
        keys = np.stack([groups, units.divisor, units.exponent], axis=1)
        different, place = np.unique(keys, axis=0, return_inverse=True)
        if (len(self.sums) + len(different)) * self.n_train > MOST_SUMS:
            raise ValueError(
                "Means over this many test rows, each with weights of a different sum, take too much memory: certify "
                "fewer test rows, or use uniform neighbours or ridge."
            )
        found = np.zeros((len(different), self.n_train), dtype=np.int64)
        np.add.at(found, (place.reshape(-1)[:, None], listed.members), listed.votes.astype(np.int64))
        for key, votes in zip(map(tuple, different.tolist()), found, strict=True):
            self.sums[key] = votes + self.sums.get(key, 0)
        if limit is not None:
            for key, one in zip(map(tuple, keys.tolist()), limit.tolist(), strict=True):
                self.limits[key] = self.limits.get(key, 0) + int(one)
        for group, size in zip(*np.unique(groups, return_counts=True), strict=True):
            self.sizes[int(group)] = self.sizes.get(int(group), 0) + int(size)

    def combined(self, factors: dict[int, int]) -> Combination:
        """Return the sum over groups of a factor times the mean prediction.

        Soundness: the weight of target j is ``sum_g factor_g / size_g * sum_z k_j(z) / divisor(z) * 2**-exponent(z)``.
        Over the least common multiple of sizes times divisors, and the largest power of two, it is an integer.
        """
        chosen = [key for key in self.sums if key[0] in factors]
        common = lcm(*(self.sizes[group] * divisor for group, divisor, _ in chosen))
        finest = max(exponent for _, _, exponent in chosen)
        weights: Any = np.zeros(self.n_train, dtype=object)
        largest = 0
        for group, divisor, exponent in chosen:
            factor = factors[group] * (common // (self.sizes[group] * divisor)) * 2 ** (finest - exponent)
            weights += self.sums[group, divisor, exponent].astype(object) * factor
            largest += self.limits.get((group, divisor, exponent), 0) * abs(factor)
        return Combination(weights, Fraction(common) * Fraction(2) ** finest, sum(factors.values()), largest)


@dataclass(frozen=True)
class Combination:
    """A number ``n_origins * y0 + sum_j weights_j (t_j - t0) / denominator``.

    Attributes
    ----------
    weights : integers of any size, shape (n,)
        Of the training targets on their grid.
    denominator : Fraction
        What they are divided by.
    n_origins : int
        1 for a mean, 0 for a gap.
    largest : int
        No row that could be added has a larger weight, in absolute value.
    """

    weights: BigIntegers
    denominator: Fraction
    n_origins: int
    largest: int = 0

    def reach(self, reachable: Reachable, origin: int, y0: float) -> CombinationReach:
        """Return how far changed targets move the number.

        Soundness: as for one prediction, :func:`flipproof.core.targets.sum_reach`: targets enter separately, so the r
        largest moves add up, and are attained.
        """
        t = reachable.targets.astype(object)
        to_highest = self.weights * (reachable.highest - reachable.targets).astype(object)
        to_lowest = self.weights * (reachable.lowest - reachable.targets).astype(object)
        value = int((self.weights * (t - origin)).sum())
        moves = [np.maximum(to_highest, to_lowest), np.maximum(-to_highest, -to_lowest)]
        if reachable.groups is not None:
            moves = [_by_group(one, reachable.groups, reachable.n_groups) for one in moves]
        rising, falling = (_sums(one) for one in moves)
        return CombinationReach(value, rising, falling, self.denominator, self.n_origins * Fraction(y0))


def _by_group(moves: BigIntegers, groups: Integers, n_groups: int) -> BigIntegers:
    found = np.zeros(n_groups, dtype=object)
    np.add.at(found, groups, moves)
    return found


def _sums(moves: BigIntegers) -> list[int]:
    """Return the sums of the 0, 1, ... largest moves."""
    return [0, *np.cumsum(np.sort(moves)[::-1]).tolist()]


@dataclass(frozen=True)
class CombinationReach:
    """How far changes move a mean or a gap; `rising` and `falling` are the farthest moves of 0, 1, ... changes.

    Soundness: a number is computed as a fraction and rounded to a float once, to the nearest, which is monotone.
    """

    value: int
    rising: list[int]
    falling: list[int]
    denominator: Fraction
    start: Fraction

    def number(self, value: int) -> float:
        """Return the number of an integer."""
        return float(self.start + value / self.denominator)

    def ends(self, n_changes: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the lowest and highest number after any `n_changes` changes."""
        places = [min(one, len(self.rising) - 1) for one in n_changes]
        return (
            [self.number(self.value - self.falling[place]) for place in places],
            [self.number(self.value + self.rising[place]) for place in places],
        )

    def tolerated(self, tolerance: float) -> int:
        """Return the fewest changes that move the number by more than `tolerance`; NEVER if none do."""
        within = int(Fraction(tolerance) * self.denominator)  # not negative: rounds down
        places = [bisect_right(moves, within) for moves in (self.rising, self.falling)]
        return min((place for place in places if place < len(self.rising)), default=NEVER)

    def crossing(self, threshold: float) -> int:
        """Return the fewest changes that take the number to the other side of `threshold`; NEVER if none do."""
        if self.number(self.value) >= threshold:
            place = bisect_left(self.falling, True, key=lambda move: self.number(self.value - move) < threshold)
        else:
            place = bisect_left(self.rising, True, key=lambda move: self.number(self.value + move) >= threshold)
        return place if place < len(self.rising) else NEVER
