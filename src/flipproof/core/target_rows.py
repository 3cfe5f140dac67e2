"""Numbers instead of classes: how far added, removed and replaced training rows move a prediction (M16).

With a frozen geometry (M12), a prediction is a weighted mean of the targets that vote, less a constant: ``N / D`` with
integers N and D. An attack of r changes adds a rows and removes e of those that can be removed, with a and e up to r,
in any combination: a replacement is one of each. What is certified here is the highest mean after such an attack; the
lowest one is that of the targets with their signs turned.

Adding more rows with the largest possible term never lowers the highest mean, as no mean exceeds that term. So a = r
where rows can be added, and what remains is to choose the rows to remove. All comparisons are of exact fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flipproof.core.exact import UNREACHABLE
from flipproof.core.neighbor_cuts import NearestRows, neighbor_changes_to_overturn
from flipproof.core.rounding import Integers
from flipproof.core.targets import NEVER

#: Whether a number no longer is what was certified.
IsBroken: TypeAlias = "Callable[[Fraction], bool]"

#: Up to this size, sums are exact in floats, so that a refit predicts what was computed here.
LARGEST_SUM = 2**53

#: Differences of targets have fewer bits.
TARGET_SHIFT = 24


@dataclass(frozen=True)
class RowPower:
    """What an adversary can do to the training rows.

    Attributes
    ----------
    changes : {"rows", "insertions", "removals"}
        The possible changes.
    removable : booleans of shape (n,)
        Which training rows can be removed or replaced.
    most : int
        Attacks of more changes than this are not looked at: where none of up to `most` changes is enough, `most` + 1
        are taken to be. If rows can only be removed, the number of those that can be.
    """

    changes: str
    removable: NDArray[np.bool_]
    most: int

    def added(self, n_changes: int) -> int:
        """Return how many rows are added."""
        return 0 if self.changes == "removals" else n_changes

    def removed(self, n_changes: int) -> int:
        """Return how many rows can be removed."""
        return 0 if self.changes == "insertions" else n_changes


class RowReach(Protocol):
    """How far changed rows move the prediction on one test row upwards."""

    @property
    def ceiling(self) -> Fraction:
        """A number that no prediction exceeds."""
        ...

    def best(self, n_changes: int) -> Fraction:
        """Return the highest prediction after any `n_changes` changes of rows."""
        ...

    def fewest(self, is_broken: IsBroken) -> int:
        """Return the fewest changes after which some prediction is broken; NEVER where no number of changes does."""
        ...


def searched(power: RowPower) -> Generator[int | None, bool, int]:
    """Search for the fewest changes that break a number, by bisection; NEVER where no number does.

    It yields a number of changes, or None for any number, and is sent whether that many break the number.

    Soundness: what r changes reach, r + 1 changes reach as well, and a number that is broken stays so farther up. Where
    `most` changes are not enough, the answer is too small rather than too large.
    """
    if not (yield None):
        return NEVER
    low, high, is_enough = 0, min(1, power.most), False
    while high < power.most:
        is_enough = yield high
        if is_enough:
            break
        low, high = high, min(2 * high, power.most)
    if not is_enough and not (yield high):
        return NEVER if power.changes == "removals" else power.most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if (yield middle) else (middle, high)
    return high


def fewest_changes(reach: RowReach, is_broken: IsBroken, power: RowPower) -> int:
    """Return the fewest changes that break a prediction, as :func:`searched` does."""
    search = searched(power)
    asked = next(search)
    while True:
        try:
            asked = search.send(is_broken(reach.ceiling if asked is None else reach.best(asked)))
        except StopIteration as found:
            return int(found.value)


@dataclass(frozen=True)
class MeanOfAll:
    """The mean of the terms of all training rows: ridge and kernel regression with a frozen geometry.

    The term of a row is ``k_j (t_j - t0)`` with its vote k_j. With no rows, the mean is 0.

    Soundness: no term of any row is larger than `largest`, the largest vote times the farthest target; so no mean
    is, and r rows of this size are added. Of e removed rows, those with the smallest terms leave the highest mean.
    Removing the next smallest row as well raises it if and only if its term is below the mean; if it is not, no further
    one is, since the mean does not rise any more. So bisection finds the best e. Exact if a row with the largest term
    exists, else an upper bound.

    Attributes
    ----------
    total : int
        The sum of all terms.
    n_rows : int
        Number of training rows.
    terms : integers, ascending
        The terms of the rows that can be removed.
    sums : integers
        The sums of the 0, 1, ... smallest of them.
    largest : int
        The largest term of a row that could be added.
    power : RowPower
        What an adversary can do.
    """

    total: int
    n_rows: int
    terms: Integers
    sums: Integers
    largest: int
    power: RowPower

    @classmethod
    def of(cls, terms: Integers, largest: int, power: RowPower) -> MeanOfAll:
        """Sort the terms of all training rows."""
        free = np.sort(terms[power.removable])
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(free)])
        return cls(int(terms.sum()), len(terms), free, sums, largest, power)

    @property
    def ceiling(self) -> Fraction:
        """The largest term."""
        return Fraction(self.largest)

    def best(self, n_changes: int) -> Fraction:
        """Return the highest mean after any `n_changes` changes of rows."""
        added = self.power.added(n_changes)
        total, n_rows = self.total + added * self.largest, self.n_rows + added
        low, high = 0, min(self.power.removed(n_changes), len(self.terms))
        while low < high:  # the first e at which removing one more does not help
            e = (low + high) // 2
            if int(self.terms[e]) * (n_rows - e) < total - int(self.sums[e]):
                low = e + 1
            else:
                high = e
        left = n_rows - low
        found = Fraction(total - int(self.sums[low]), left) if left else Fraction(0)
        can_empty = not added and self.power.removed(n_changes) >= n_rows == len(self.terms)
        return max(found, Fraction(0)) if can_empty else found

    def fewest(self, is_broken: IsBroken) -> int:
        """Return the fewest changes that break a mean."""
        return fewest_changes(self, is_broken, self.power)


@dataclass(frozen=True)
class WeightedMean:
    """The mean of targets with weights that are not negative, over their sum: forests with a frozen geometry.

    Soundness: after e removals and r additions of weight V at the top, the mean is at least l if and only if
    ``sum over kept rows of k_j (s_j - l) + r V (top - l) >= 0``; for a given l, the best rows to remove are those with
    the largest ``k_j (l - s_j)``. Starting from a mean that is reached, the best removals for it reach a higher one, or
    there is none (Dinkelbach 1967). That there is none is checked in integers. If no row with a weight is left, the
    number is 0. Exact.

    Attributes
    ----------
    weights, targets : integers of shape (w,)
        Votes and targets of the rows that vote, less the origin.
    removable : booleans of shape (w,)
        Which of them can be removed.
    largest : int
        The largest vote of a row that could be added.
    top : int
        The highest possible target, less the origin.
    power : RowPower
        What an adversary can do.
    """

    weights: Integers
    targets: Integers
    removable: NDArray[np.bool_]
    largest: int
    top: int
    power: RowPower

    @property
    def ceiling(self) -> Fraction:
        """The highest possible target; 0 if no row is left."""
        return Fraction(max(self.top, 0))

    @cached_property
    def _free(self) -> tuple[Integers, Integers]:
        """Votes and targets of the rows that vote and can be removed."""
        free = self.removable & (self.weights > 0)
        return self.weights[free].astype(np.int64), self.targets[free].astype(np.int64)

    @cached_property
    def _sums(self) -> tuple[int, int]:
        """The sums of the weighted targets and of the weights of all rows; below 2**53."""
        return int((self.weights * self.targets).sum()), int(self.weights.sum())

    def best(self, n_changes: int) -> Fraction:
        """Return the highest mean after any `n_changes` changes of rows."""
        weight = self.power.added(n_changes) * self.largest
        start = self._sums[0] + weight * self.top, self._sums[1] + weight
        k, s = self._free
        most = min(self.power.removed(n_changes), len(k))
        found = Fraction(*start) if start[1] else Fraction(0)
        while most and start[1]:
            chosen = best_removals(k, s, found, most)
            top, bottom = start[0] - int((k[chosen] * s[chosen]).sum()), start[1] - int(k[chosen].sum())
            better = Fraction(top, bottom) if bottom else found
            if better <= found:
                break
            found = better
        can_empty = not weight and start[1] and most == len(k) == np.count_nonzero(self.weights)
        return max(found, Fraction(0)) if can_empty else found

    def fewest(self, is_broken: IsBroken) -> int:
        """Return the fewest changes that break a mean."""
        return fewest_changes(self, is_broken, self.power)


def best_removals(weights: Integers, targets: Integers, level: Fraction, most: int) -> Integers:
    """Return the positions of the at most `most` rows with the largest gains ``k_j (level - s_j) > 0``.

    Soundness: with ``level = q + f`` and 0 <= f < 1, the gain is ``k (q - s) + k f``. The first term is an integer of
    at most 46 bits; votes have at most 24 bits, so the float of the gain is off by less than `off`. Rows whose floats
    are farther than that from the last one chosen are decided; all others are compared as integers.
    """
    q, rest = divmod(level.numerator, level.denominator)
    positive = np.flatnonzero(targets < q + (rest > 0))
    if len(positive) <= most:
        return positive
    k, s = weights[positive], targets[positive]
    gains = k * (q - s) + k * (rest / level.denominator)
    cut = np.partition(gains, len(gains) - most)[len(gains) - most]
    off = 4 * (float(gains.max()) * 2.0**-52 + 2.0**-27)
    chosen, near = np.flatnonzero(gains > cut + off), np.flatnonzero(np.abs(gains - cut) <= off)
    missing = most - len(chosen)
    if missing < len(near):  # equal votes and targets have equal gains: each pair is compared once
        pairs = k[near] * 2**TARGET_SHIFT + (s[near] - int(s.min()))
        different, place = np.unique(pairs, return_inverse=True)
        first = near[np.unique(place, return_index=True)[1]]
        exact = [int(k[one]) * (level.numerator - int(s[one]) * level.denominator) for one in first.tolist()]
        rank = np.empty(len(different), dtype=np.int64)
        rank[sorted(range(len(exact)), key=lambda one: -exact[one])] = np.arange(len(different))
        near = near[np.argsort(rank[place], kind="stable")[:missing]]
    return np.asarray(positive[np.concatenate([chosen, near])])


@dataclass(frozen=True)
class NearestMean:
    """The mean target of the nearest rows, with the whole pile at the cut (M13).

    Soundness: let pile t be at the cut after an attack, B rows be before it and E rows up to its end. All rows up to
    its end that are not removed vote, and so do the added ones, which join pile t or are in front of it. At least
    ``F = max(0, B - k + 1)`` rows before t must have been removed, or t would not be reached, and at most ``E + a - k``
    in all, or the cut would be behind it, unless t is the last pile. For a given number of removals, the F smallest
    rows before t and then the smallest of all others leave the highest mean. If no row is at the test row, k added
    ones there vote alone. All piles and all numbers of removals are tried: exact if a copy of the test row is nearer
    than any other row.

    Attributes
    ----------
    targets : integers of shape (n,)
        Targets of all training rows in order, less the origin.
    ends_pile, removable : booleans of shape (n,)
        Whether the next row has other features, and whether the row can be removed.
    is_hit : bool
        Whether the first row has the features of the test row.
    k : int
        Number of rows that vote.
    top : int
        The highest possible target, less the origin.
    power : RowPower
        What an adversary can do.
    """

    targets: Integers
    ends_pile: NDArray[np.bool_]
    removable: NDArray[np.bool_]
    is_hit: bool
    k: int
    top: int
    power: RowPower

    @property
    def ceiling(self) -> Fraction:
        """The highest possible target; 0 if no row is left."""
        return Fraction(max(self.top, 0))

    def _piles(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield where the piles begin and end that are at the cut after at most `most` removals, nearest first."""
        head = most + self.k
        ends = np.flatnonzero(self.ends_pile[:head]) + 1
        if len(self.ends_pile) > head and not (len(ends) and ends[-1] == head):
            ends = np.append(ends, head + 1 + int(np.argmax(self.ends_pile[head:])))
        begin = 0
        for end in ends.tolist():
            yield begin, end
            begin = end

    def best(self, n_changes: int) -> Fraction:
        """Return the highest mean after any `n_changes` changes of rows."""
        n, a, most, k = len(self.targets), self.power.added(n_changes), self.power.removed(n_changes), self.k
        if not n or (a >= k and not self.is_hit):  # added rows vote alone
            return Fraction(self.top if a else 0)
        found = None
        for begin, end in self._piles(most):
            forced = max(begin - k + 1, 0)
            limit = most if end == n else min(most, end + a - k)
            if limit < forced:
                continue
            one = self._highest(begin, end, forced, limit, a)
            found = one if found is None or (one is not None and one > found) else found
        assert found is not None  # the pile that is at the cut without any change
        return found

    def _highest(self, begin: int, end: int, forced: int, limit: int, added: int) -> Fraction | None:
        """Return the highest mean with a given pile at the cut; None if too few rows before it can be removed."""
        free, s = self.removable, self.targets
        before = np.sort(s[:begin][free[:begin]])
        if len(before) < forced:
            return None
        others = np.sort(np.concatenate([before[forced:], s[begin:end][free[begin:end]]]))[: limit - forced]
        total = int(s[:end].sum()) + added * self.top - int(before[:forced].sum())
        sums = total - np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(others)])
        left = end + added - forced - np.arange(len(sums))
        means = np.where(left > 0, sums / np.maximum(left, 1), 0.0)
        best = np.flatnonzero(means == means.max())  # rounded to floats, which is monotone: one of these is highest
        return max(Fraction(int(sums[e]), int(left[e])) if left[e] else Fraction(0) for e in best.tolist())

    def fewest(self, is_broken: IsBroken) -> int:
        """Return the fewest changes that break a mean."""
        return fewest_changes(self, is_broken, self.power)


@dataclass(frozen=True)
class NearestMedian:
    """The lower median target of the nearest rows; with no rows, the low end of the range.

    Soundness: the lower median is at least v if and only if more of the rows that vote are at least v than below, and
    at most v if and only if no more are above v than not. So it passes v when the second side of a vote of two classes
    wins, where a tie goes to the side of the lower numbers: what M13 answers exactly. Added rows have the farthest
    target, which is on the side of every v. The farthest median is a target of a training row, or that end.

    Attributes
    ----------
    targets : integers of shape (n,)
        Targets of all training rows in order; if `is_lowest`, with their signs turned.
    nearest : NearestRows
        These rows; its codes are not used.
    value : int
        The median as it is, with the sign of the targets.
    top : int
        The farthest possible target.
    is_lowest : bool
        Whether signs are turned.
    k : int
        Number of rows that vote.
    power : RowPower
        What an adversary can do.
    """

    targets: Integers
    nearest: NearestRows
    value: int
    top: int
    is_lowest: bool
    k: int
    power: RowPower

    @property
    def ceiling(self) -> Fraction:
        """The farthest possible target."""
        return Fraction(self.top)

    def _fewest_to(self, goal: int) -> int:
        """Return the fewest changes that bring the median to `goal` or beyond."""
        if goal <= self.value:
            return 0
        below = int(self.is_lowest)  # ties go to class 0
        codes = np.where(self.targets < goal, below, 1 - below)[None]
        nearest = NearestRows(
            codes, self.nearest.ends_pile, self.nearest.removable, self.nearest.is_hit, len(self.targets)
        )
        found = neighbor_changes_to_overturn(nearest, self.k, np.array([below]), 2, self.power.changes)[0, 1 - below]
        return NEVER if found >= UNREACHABLE else int(found)

    def best(self, n_changes: int) -> Fraction:
        """Return the farthest median after any `n_changes` changes of rows."""
        goals = np.unique(np.append(self.targets[self.targets > self.value], [self.value, self.top]))
        goals = goals[goals >= self.value]
        low, high = 0, len(goals)  # the first goal is the median as it is
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fewest_to(int(goals[middle])) <= n_changes else (low, middle)
        return Fraction(int(goals[low]))

    def fewest(self, is_broken: IsBroken) -> int:
        """Return the fewest changes that break a median: those to the nearest number that is broken."""
        if not is_broken(self.ceiling):
            return NEVER
        low, high = self.value, self.top
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_broken(Fraction(middle)) else (middle, high)
        return self._fewest_to(high)
