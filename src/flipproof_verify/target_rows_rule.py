"""Numbers under added, removed and replaced training rows: the highest and the lowest fraction that an attack reaches.

A highest fraction is found with the targets as they are, a lowest one with their signs turned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.container import UnreadableFileError
from flipproof_verify.votes_rule import Integers

#: Sums below this are exact in float64, and so is the order of their quotients.
EXACT_SUM = 2**53

Flags = NDArray[np.bool_]
Contradicts = Callable[[Any, int], Any]


@dataclass(frozen=True)
class RowChanges:
    """What the adversary can do to the training rows; `sizes` are the changeable rows of sources, the largest first."""

    changes: str
    removable: Flags
    sizes: Integers | None

    @classmethod
    def of(cls, changes: str, removable: Flags, group: Integers | None) -> RowChanges:
        """Count the rows of sources, if there are any."""
        sizes = None if group is None else np.sort(np.bincount(group[removable]))[::-1]
        return cls(changes, removable, sizes)

    def has_no_limit(self, n_changes: int | None) -> bool:
        """Tell whether any number of rows is added."""
        return n_changes is None and self.sizes is None and self.changes != "removals"

    def most(self, n_changes: int | None) -> tuple[int, int]:
        """Return how many rows are added, and how many are removed at most."""
        n_rows = len(self.removable) if n_changes is None else n_changes
        if self.sizes is not None:
            n_rows = int(self.sizes[:n_changes].sum())
        return 0 if self.changes == "removals" else _exact(n_rows), 0 if self.changes == "insertions" else n_rows


class _Highest:
    """The highest fraction after changes of rows; breaks a claim if it contradicts it."""

    value: int
    divisor: int
    _changes: RowChanges

    def _ceiling(self, upward: bool) -> int:
        """Return an integer that no fraction exceeds."""
        raise NotImplementedError

    def _best(self, upward: bool, n_added: int, n_removed: int) -> Fraction:
        """Return the highest fraction; signs are turned unless `upward`."""
        raise NotImplementedError

    def breaks(self, contradicts: Contradicts, upward: bool, n_changes: int | None) -> bool:
        """Tell whether the farthest number contradicts a claim."""
        if self._changes.has_no_limit(n_changes):
            best = Fraction(self._ceiling(upward))
        else:
            best = self._best(upward, *self._changes.most(n_changes))
        return bool(contradicts(best.numerator if upward else -best.numerator, best.denominator))


def _largest_of(tops: Integers, bottoms: Integers) -> Fraction:
    """Return the largest of some fractions, of integers that are exact in float64; 0 for one of no rows."""
    _exact(int(np.abs(tops).max()))
    _exact(int(bottoms.max()))
    rounded = np.where(bottoms > 0, tops / np.maximum(bottoms, 1), 0.0)  # rounding is monotone
    at = np.flatnonzero(rounded == rounded.max())
    return max(Fraction(int(tops[i]), int(bottoms[i])) if bottoms[i] else Fraction(0) for i in at.tolist())


def _exact(total: int) -> int:
    """Return an integer that is exact in float64; refuse any other."""
    if abs(total) >= EXACT_SUM:
        raise UnreadableFileError("sums", "Sums of votes times targets are not exact in float64.")
    return total


def _added_up(values: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(values)]).astype(np.int64)


class MeanOfRows(_Highest):
    """The mean of the terms of all training rows; 0 without any. No term is larger than `largest`.

    Added rows have the largest term: they never lower the highest mean. For each number of removed rows, those with the
    smallest terms are the best.
    """

    def __init__(self, terms: Integers, largest: int, changes: RowChanges):
        self._terms, self._largest, self._changes = terms, largest, changes
        self.value, self.divisor = int(terms.sum()), max(len(terms), 1)

    def _ceiling(self, upward: bool) -> int:
        return self._largest

    def _best(self, upward: bool, n_added: int, n_removed: int) -> Fraction:
        terms = self._terms if upward else -self._terms
        smallest = _added_up(np.sort(terms[self._changes.removable])[:n_removed])
        total = _exact(int(terms.sum()) + n_added * self._largest)
        return _largest_of(total - smallest, len(terms) + n_added - np.arange(len(smallest)))


class MeanOfVotes(_Highest):
    """The mean of targets with weights that are not negative; 0 if nothing votes.

    Each added row has the largest weight and the target at the end of the range. A mean above l can be reached if and
    only if removing the rows with the largest ``weight (l - target)`` reaches it; so each mean that is found shows
    whether there is a higher one.
    """

    def __init__(
        self,
        votes: Integers,
        targets: Integers,
        voting: Integers,
        largest: int,
        ways: tuple[int, int],
        changes: RowChanges,
    ):
        self._votes, self._targets, self._largest, self._ways = votes, targets, largest, ways
        self._changes, self._removable = changes, changes.removable[voting]
        self.value, self.divisor = int((votes * targets).sum()), max(int(votes.sum()), 1)

    def _ceiling(self, upward: bool) -> int:
        return max(self._ways[0] if upward else self._ways[1], 0)

    def _best(self, upward: bool, n_added: int, n_removed: int) -> Fraction:
        targets = (self._targets if upward else -self._targets).astype(object)  # integers of any size
        votes, weight = self._votes.astype(object), n_added * self._largest
        top = sum(votes * targets) + weight * (self._ways[0] if upward else self._ways[1])
        bottom = sum(votes) + weight
        if not bottom:
            return Fraction(0)
        best, higher = Fraction(top, bottom) - 1, Fraction(top, bottom)
        while higher > best:
            best = higher
            gains = np.where(self._removable, votes * (best.numerator - targets * best.denominator), 0)
            chosen = np.argsort(-gains, kind="stable")[:n_removed]
            chosen = chosen[gains[chosen] > 0]
            left = bottom - sum(votes[chosen])
            higher = Fraction(top - sum((votes * targets)[chosen]), left) if left else best
        is_emptied = not weight and self._removable.all() and n_removed >= len(votes)
        return max(best, Fraction(0)) if is_emptied else best


class NearestRows(_Highest):
    """The mean, or the lower median, of the targets of the nearest rows, with the whole pile at the cut.

    More of the rows that vote are above a number than not if and only if the median is above it; at least as many are
    below it as not if and only if the median is below it. So a median is a sum of 1 for rows that contradict a claim,
    and -1 for others.
    """

    def __init__(
        self,
        targets: Integers,
        ends_pile: Flags,
        removable: Flags,
        is_hit: bool,
        k: int,
        ways: tuple[int, int],
        is_median: bool,
        changes: RowChanges,
    ):
        self._targets, self._removable, self._is_hit = targets, removable, is_hit
        self._k, self._ways, self._is_median, self._changes = k, ways, is_median, changes
        self._ends = np.flatnonzero(ends_pile) + 1
        voting = targets[: int(self._ends[np.argmax(self._ends >= min(k, len(targets)))])] if len(targets) else targets
        self.value, self.divisor = int(voting.sum()), max(len(voting), 1)
        if is_median:
            self.value = int(np.sort(voting)[(len(voting) - 1) // 2]) if len(voting) else 0
            self.divisor = 1

    def breaks(self, contradicts: Contradicts, upward: bool, n_changes: int | None) -> bool:
        """Tell whether the farthest mean contradicts a claim, or the median of some rows."""
        if not self._is_median or self._changes.has_no_limit(n_changes):
            return super().breaks(contradicts, upward, n_changes)
        if contradicts(self.value, 1):
            return True  # without any change
        if not contradicts(self._ceiling(upward) * (1 if upward else -1), 1):
            return False  # no target does
        worth = np.where(contradicts(self._targets, 1), 1, -1)
        ahead = max(int(sums.max()) for sums, _ in self._after(worth, 1, *self._changes.most(n_changes)))
        return ahead > 0 if upward else ahead >= 0

    def _ceiling(self, upward: bool) -> int:
        return max(self._ways[0] if upward else self._ways[1], 0)

    def _best(self, upward: bool, n_added: int, n_removed: int) -> Fraction:
        targets, end = (self._targets, self._ways[0]) if upward else (-self._targets, self._ways[1])
        return max(_largest_of(*one) for one in self._after(targets, end, n_added, n_removed))

    def _after(
        self, values: Integers, of_added: int, n_added: int, n_removed: int
    ) -> Iterator[tuple[Integers, Integers]]:
        """Yield the highest sums of values of the rows that vote, and their numbers, for each pile at the cut.

        With pile t at the cut, at least F of the rows before it were removed, or it would not be reached, and a limited
        number in all, or the cut would be behind it. Of these, the rows with the smallest values are removed.
        """
        n, k = len(values), self._k
        if not n or (n_added >= k and not self._is_hit):  # added rows at the test row vote alone
            yield np.array([_exact(n_added * of_added)]), np.array([n_added])
            return
        begin = 0
        for end in self._ends.tolist():
            forced = max(0, begin - k + 1)
            allowed = n_removed if end == n else min(n_removed, end + n_added - k)
            before = np.sort(values[:begin][self._removable[:begin]])
            if forced <= min(allowed, len(before)):
                inside = values[begin:end][self._removable[begin:end]]
                more = np.sort(np.concatenate([before[forced:], inside]))[: allowed - forced]
                total = _exact(int(values[:end].sum()) + n_added * of_added - int(before[:forced].sum()))
                yield total - _added_up(more), end + n_added - forced - np.arange(len(more) + 1)
            if forced > n_removed:
                return
            begin = end
