"""Regressors against added, removed and replaced training rows, given a reference (M16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.core.neighbor_cuts import NearestRows
from flipproof.core.rounding import Integers
from flipproof.core.target_mean_rows import ExactSum, GroupEnds
from flipproof.core.target_rows import IsBroken, MeanOfAll, NearestMean, NearestMedian, RowPower, RowReach, WeightedMean
from flipproof.core.targets import NEVER, ListedVotes, Units
from flipproof.values import distinct


@dataclass(frozen=True)
class RowLimits:
    """What an adversary can do to training rows, and what numbers of changes mean.

    Soundness: a malicious source with s rows makes at most s changes, so what holds for any changes of as many rows as
    the r largest sources have holds for any r sources. These are bounds.

    Attributes
    ----------
    power : RowPower
        The changes of rows.
    sizes : integers or None
        How many rows of each source can be changed, the largest first; None if changes are counted in rows.
    """

    power: RowPower
    sizes: Integers | None

    @classmethod
    def of(cls, adversary: Adversary, trusted: NDArray[np.bool_], most: int) -> RowLimits:
        """Translate an adversary; `most` is the largest number of changes that sums allow."""
        removable = ~trusted
        n_removable = int(np.count_nonzero(removable))
        if adversary.groups is None:
            return cls(
                RowPower(adversary.changes, removable, n_removable if not adversary_adds(adversary) else most), None
            )
        sizes = np.bincount(distinct(adversary.groups)[1][removable])
        return cls(RowPower(adversary.changes, removable, n_removable), np.sort(sizes[sizes > 0])[::-1])

    @property
    def n_touchable(self) -> int:
        """How many rows, or sources, can be removed or replaced."""
        return int(np.count_nonzero(self.power.removable)) if self.sizes is None else len(self.sizes)

    @property
    def unit(self) -> str:
        """What is counted."""
        return "rows" if self.sizes is None else "sources"

    def rows_of(self, n_changes: int) -> int:
        """Return how many rows a number of changes, or of sources, are at most."""
        if self.sizes is not None:
            return int(self.sizes[: min(n_changes, len(self.sizes))].sum())
        return min(n_changes, self.power.most) if self.power.changes == "removals" else n_changes

    def radius(self, fewest: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the radii, and where no number of changes is enough."""
        if self.sizes is None:
            unlimited = fewest == NEVER
            return np.where(unlimited, self.n_touchable, fewest - 1), unlimited
        unlimited = fewest > self.power.most
        return np.searchsorted(np.cumsum(self.sizes), fewest - 1, side="right").astype(np.int64), unlimited


def adversary_adds(adversary: Adversary) -> bool:
    """Tell whether an adversary can add rows."""
    return adversary.changes != "removals"


@dataclass(frozen=True)
class Breaks:
    """When a number no longer is what a radius is about: moved by more than a tolerance, or across a threshold.

    Attributes
    ----------
    units : Units
        From fractions to numbers.
    tolerance, threshold : float or None
        What the radius is about.
    """

    units: Units
    tolerance: float | None
    threshold: float | None

    def fewest(self, row: int, value: Fraction, reach_of: Callable[[bool], RowReach]) -> int:
        """Return the fewest changes that break the number of one test row."""
        if self.tolerance is not None:
            way = self.units.way(row, self.tolerance)
            return min(self._fewest(reach_of(upward), value, way, upward) for upward in (True, False))
        assert self.threshold is not None
        threshold = self.threshold
        upward = self.units.number_of(row, value) < threshold

        def crosses(found: Fraction) -> bool:
            number = self.units.number_of(row, found if upward else -found)
            return number >= threshold if upward else number < threshold

        return reach_of(upward).fewest(crosses)

    @staticmethod
    def _fewest(reach: RowReach, value: Fraction, way: Fraction, upward: bool) -> int:
        start = value if upward else -value
        is_beyond: IsBroken = lambda found: found - start > way  # noqa: E731
        return reach.fewest(is_beyond)


def reach_of_sums(
    listed: ListedVotes, row: int, targets: Integers, largest: int, ways: tuple[int, int], power: RowPower, upward: bool
) -> RowReach:
    """Return the reach of a mean over all rows; `ways` are how far the ends of the range are above and below t0."""
    signed = targets if upward else -targets
    terms = listed.votes[row].astype(np.int64) * signed
    return MeanOfAll.of(terms, largest * max(abs(way) for way in ways), power)


def reach_of_weights(
    listed: ListedVotes, row: int, targets: Integers, largest: int, ways: tuple[int, int], power: RowPower, upward: bool
) -> RowReach:
    """Return the reach of a mean by weights."""
    votes = listed.votes[row].astype(np.int64)
    members = listed.members[row if len(listed.members) > 1 else 0]
    votes, members = votes[votes > 0], members[votes > 0]
    signed = (targets if upward else -targets)[members]
    return WeightedMean(votes, signed, power.removable[members], largest, ways[0] if upward else ways[1], power)


class EndsOfGroups:
    """Sums of the ends of the predictions of each group of test rows, by the number of changes; computed when needed.

    Parameters
    ----------
    reaches : function
        Starts a pass over blocks of test rows: the rows, and a function that returns the reach of one of them.
    groups : integers of shape (m,)
        The group of each test row.
    """

    def __init__(
        self, reaches: Callable[[], Iterator[tuple[slice, Callable[[int, bool], RowReach]]]], groups: Integers
    ) -> None:
        self._reaches, self._groups = reaches, groups
        self.sizes: list[int] = np.bincount(groups).tolist()
        self._known: dict[int | None, GroupEnds] = {}

    def after(self, n_changes: int | None) -> GroupEnds:
        """Return the ends after a number of changes, which must have been prepared."""
        return self._known[n_changes]

    def prepare(self, asked: set[int | None]) -> None:
        """Compute the ends after some numbers of changes in one pass over the test rows."""
        wanted = [one for one in asked if one not in self._known]
        if not wanted:
            return
        sums = {one: [[ExactSum() for _ in self.sizes] for _ in range(2)] for one in wanted}
        for rows, reach_of in self._reaches():
            for row, group in enumerate(self._groups[rows].tolist()):
                for upward in (True, False):
                    reach = reach_of(row, upward)
                    for one in wanted:
                        end = reach.ceiling if one is None else reach.best(one)
                        sums[one][0 if upward else 1][group].add(end)
        for one, directions in sums.items():
            self._known[one] = GroupEnds(*([group.total() for group in groups] for groups in directions))


@dataclass(frozen=True)
class OrderedRows:
    """All training rows in the order of their distance from each test row of a block.

    Attributes
    ----------
    rows : integers of shape (m, n)
        Their numbers.
    ends_pile : booleans of shape (m, n)
        Whether the next row has other features.
    is_hit : booleans of shape (m,)
        Whether the first one has the features of the test row.
    """

    rows: Integers
    ends_pile: NDArray[np.bool_]
    is_hit: NDArray[np.bool_]


#: Bytes of memory per training row while all of them are put in order for a test row: distances, row numbers, contents.
BYTES_IN_ORDER = 64


class OrderedTiles:
    """The training rows in the order of their distance from test rows, computed for a few test rows at a time.

    Parameters
    ----------
    order : function
        Puts the training rows in order for some test rows, a slice of all.
    size : int
        Number of test rows at a time.
    """

    def __init__(self, order: Callable[[slice], OrderedRows], size: int) -> None:
        self._order, self._size = order, size
        self._start = -1
        self._tile: OrderedRows | None = None

    def of(self, row: int) -> tuple[OrderedRows, int]:
        """Return the tile of a test row, and its place there."""
        start = row - row % self._size
        if self._tile is None or start != self._start:
            self._start, self._tile = start, None  # two tiles are never held at once
            self._tile = self._order(slice(start, start + self._size))
        return self._tile, row - start


def reach_of_nearest(
    ordered: OrderedRows,
    row: int,
    targets: Integers,
    ways: tuple[int, int],
    power: RowPower,
    upward: bool,
    k: int,
    median: int | None = None,
) -> RowReach:
    """Return the reach of the mean of the nearest rows, or of their median, if it is given."""
    rows, ends = ordered.rows[row], ordered.ends_pile[row]
    signed = (targets if upward else -targets)[rows]
    top, is_hit = ways[0] if upward else ways[1], bool(ordered.is_hit[row])
    if median is None:
        return NearestMean(signed, ends, power.removable[rows], is_hit, k, top, power)
    nearest = NearestRows(
        codes=np.zeros((1, len(rows)), dtype=np.int64),
        ends_pile=ends[None],
        removable=power.removable[rows][None],
        is_hit=np.array([is_hit]),
        n_train=len(rows),
    )
    return NearestMedian(signed, nearest, median if upward else -median, top, not upward, k, power)
