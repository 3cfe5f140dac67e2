"""The exact radius of the deployed rule: no noise, no bound, both ways (M6), against adversaries of any powers (M10).

Changing one label lowers the margin of winner c over rival d by a *gain* that depends on that label alone: 2|k| if it
now supports c with a positive vote, or d with a negative one; |k| if it names neither; 0 otherwise. Gains add up, so an
attacker who wants d to draw level takes the largest gains first, and the shortest prefix that reaches the margin is the
least number of flips. A tie counts as lost, whichever class would win it.

An adversary with fewer powers has smaller gains: what label j can take off the margin is the most over the labels e
that it may be changed to, ``max(0, max_e k_j (D(y_j) - D(e)))``, D(e) = [e = c] - [e = d]. That is 0, 1 or 2
times |k_j|, and depends on y_j and the sign of k_j alone. Whoever owns whole groups of labels takes the gains of a
group at once.

Soundness: integers throughout (below 2**46 for 10**6 votes of 24 bits), hence no rounding. The attack that attains the
number is the prefix itself, and no other set of that many labels has a larger sum of gains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flipproof.histograms import VoteHistogram
from flipproof.rounding import Integers
from flipproof.votes import GroupVotes

#: Flips needed where no labels at all can overturn the prediction.
UNREACHABLE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Powers:
    """What an adversary can do to the training labels, in class codes.

    Attributes
    ----------
    changeable : booleans of shape (n,)
        Whether a label can be changed at all.
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column); False on the diagonal.
    groups : integers of shape (n,) or None
        The group that a label belongs to, where an adversary takes whole groups.
    """

    changeable: NDArray[np.bool_]
    transitions: NDArray[np.bool_]
    groups: Integers | None

    @cached_property
    def scope(self) -> Scope:
        """What these powers come to, without naming a label."""
        if self.groups is None:
            return Scope(self.transitions, int(np.count_nonzero(self.changeable)))
        sizes = np.bincount(self.groups[self.changeable])
        return Scope(self.transitions, int(sizes.sum()), sizes[sizes > 0])


@dataclass(frozen=True)
class Scope:
    """What an adversary's powers come to: how many labels can be changed, and to what, but not which ones.

    Attributes
    ----------
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column); False on the diagonal.
    n_changeable : int
        How many labels can be changed.
    group_sizes : integers or None
        How many each group has of them, where an adversary takes whole groups; those that have some.
    """

    transitions: NDArray[np.bool_]
    n_changeable: int
    group_sizes: Integers | None = None

    @property
    def unit(self) -> str:
        """What a radius counts."""
        return "labels" if self.group_sizes is None else "annotators"

    @property
    def can_change_to_anything(self) -> bool:
        """Whether a label that can be changed can be changed to every other class."""
        return bool((self.transitions | np.eye(len(self.transitions), dtype=bool)).all())

    @property
    def n_touchable(self) -> int:
        """How many labels, or groups, can be changed."""
        return self.n_changeable if self.group_sizes is None else len(self.group_sizes)

    def groups_within(self, n_labels: Integers) -> Integers:
        """Return how many groups have no more than so many changeable labels, even if they are the largest ones.

        A certificate against any `n_labels` changed labels is one against that many groups.
        """
        if self.group_sizes is None:
            return n_labels
        largest_first = np.sort(self.group_sizes)[::-1]
        within: Integers = np.searchsorted(np.cumsum(largest_first), n_labels, side="right").astype(np.int64)
        return within


def gain_factors(transitions: NDArray[np.bool_], winner: Integers) -> Integers:
    """Return how many times its vote a label can take off a margin, shape (rows, rivals, labels, 2).

    Entry [row, d, a, 0] is for labels a with a positive vote, entry [row, d, a, 1] with a negative one; M10.
    """
    n_classes = len(transitions)
    c, d, a = winner[:, None, None], np.arange(n_classes)[:, None], np.arange(n_classes)
    to_winner, to_rival = transitions[a, c], transitions[a, d]
    to_others = transitions.sum(axis=1)[a] > to_winner.astype(np.int64) + to_rival
    now = (a == c).astype(np.int64) - (a == d)
    lowest = np.where(to_rival, -1, np.where(to_others, 0, np.where(to_winner, 1, now)))
    highest = np.where(to_winner, 1, np.where(to_others, 0, np.where(to_rival, -1, now)))
    return np.asarray(np.maximum(np.stack([now - lowest, highest - now], axis=-1), 0))


def flips_to_overturn(
    histogram: VoteHistogram, winner: Integers, margins: Integers, transitions: NDArray[np.bool_] | None = None
) -> Integers:
    """Return the least number of label changes that lets each class draw level with the winner.

    Parameters
    ----------
    histogram : VoteHistogram
        Votes of the labels that can be changed, on a block of test rows.
    winner : integers of shape (rows,)
        The predicted classes.
    margins : integers of shape (rows, classes)
        Lead of the winner over every class under the deployed rule, with offsets and all labels; not negative.
    transitions : booleans of shape (classes, classes), optional
        The possible changes, from the class of the row to that of the column; by default all of them.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where no number suffices, and in the winner's own column.
    """
    if transitions is not None:
        flips = _flips_by_sorting(histogram, winner, margins, gain_factors(transitions, winner))
    elif histogram.has_all_levels:
        flips = _flips_by_levels(histogram, winner, margins)
    else:
        flips = _flips_by_sorting(histogram, winner, margins, None)
    flips[np.arange(len(winner)), winner] = UNREACHABLE
    return flips


def groups_to_overturn(
    votes: GroupVotes, winner: Integers, margins: Integers, transitions: NDArray[np.bool_]
) -> Integers:
    """Return the least number of groups whose labels, changed at will, let each class draw level with the winner.

    As :func:`flips_to_overturn`. The gains of a group's labels add up, so the largest groups by gain come first.
    """
    factors = gain_factors(transitions, winner)
    flips = np.full_like(margins, UNREACHABLE)
    for rival in range(margins.shape[1]):
        positive, negative = factors[:, rival, votes.label, 0], factors[:, rival, votes.label, 1]
        by_cell = positive * votes.positive + negative * votes.negative
        if by_cell.shape[1] == 0:
            flips[:, rival] = np.where(margins[:, rival] <= 0, 0, UNREACHABLE)
            continue
        gains = np.sort(np.add.reduceat(by_cell, votes.first_cell, axis=1), axis=1)[:, ::-1]
        flips[:, rival] = _prefix_that_reaches(gains, margins[:, rival])
    flips[np.arange(len(winner)), winner] = UNREACHABLE
    return flips


@dataclass(frozen=True)
class LabelChanges:
    """Labels that an attacker changes for one test row, the most useful ones first.

    Attributes
    ----------
    rows, votes : integers
        The training rows, and their votes.
    labels : integers
        The class codes that they get.
    gains : integers
        What each change takes off the margin.
    units : integers
        The number of the label (or group) that each change belongs to, from 0 on in the order of the attack.
    """

    rows: Integers
    votes: Integers
    labels: Integers
    gains: Integers
    units: Integers


def most_useful_changes(
    votes: Integers, codes: Integers, winner: int, rival: int, powers: Powers, n_units: int
) -> LabelChanges:
    """Return the changes of `n_units` labels (or groups) that lower the winner's lead over one rival most.

    Labels without a gain are not changed. Among equal gains the lowest row comes first.
    """
    n_classes = len(powers.transitions)
    factors = gain_factors(powers.transitions, np.array([winner]))[0, rival]
    gains = np.where(powers.changeable, factors[codes, (votes < 0).astype(np.int64)] * np.abs(votes), 0)
    useful = np.flatnonzero(gains > 0)
    if powers.groups is None:
        rows = _largest_first(gains[useful], n_units)
        rows, units = useful[rows], np.arange(len(rows))
    else:
        owner = powers.groups[useful]
        by_group = np.bincount(owner, weights=gains[useful]).astype(np.int64)
        chosen = _largest_first(by_group, min(n_units, int(np.count_nonzero(by_group))))
        rank = np.full(len(by_group), n_units)
        rank[chosen] = np.arange(len(chosen))
        taken = useful[rank[owner] < n_units]
        rows = taken[np.lexsort((-gains[taken], rank[powers.groups[taken]]))]
        units = rank[powers.groups[rows]]
    # against the winner a positive vote goes to the rival, a negative one to the winner, or else to a third class
    wanted = np.where(votes[rows] > 0, rival, winner)
    others = np.setdiff1d(np.arange(n_classes), [winner, rival])
    third = others[np.argmax(powers.transitions[np.ix_(codes[rows], others)], axis=1)] if others.size else wanted
    labels = np.where(powers.transitions[codes[rows], wanted], wanted, third)
    return LabelChanges(rows, votes[rows], labels, gains[rows], units)


def _largest_first(gains: Integers, count: int) -> Integers:
    """Return the positions of the `count` largest gains, in falling order, the first of equal ones first."""
    if count < len(gains):
        last = np.partition(gains, len(gains) - count)[len(gains) - count] if count else 0
        larger, equal = np.flatnonzero(gains > last), np.flatnonzero(gains == last)
        kept = np.concatenate([larger, equal[: count - len(larger)]]) if count else larger[:0]
    else:
        kept = np.arange(len(gains))
    return np.asarray(kept[np.lexsort((kept, -gains[kept]))])


def _prefix_that_reaches(gains: Integers, margin: Integers) -> Integers:
    """Return how many of the gains, given in falling order, add up to at least the margin; 0 for a margin of 0."""
    reach = np.cumsum(gains, axis=1)
    needed = np.where(margin <= 0, 0, np.count_nonzero(reach < margin[:, None], axis=1) + 1)
    return np.where(reach[:, -1] >= margin, needed, UNREACHABLE)


def radius_from_flips(flips: Integers, n_touchable: int) -> Integers:
    """Return the radius: one less than the flips needed, at least 0, and all that can be touched if none suffice."""
    return np.where(flips == UNREACHABLE, n_touchable, np.maximum(flips - 1, 0))


def _flips_by_sorting(
    histogram: VoteHistogram, winner: Integers, margins: Integers, factors: Integers | None
) -> Integers:
    """Sort the gains downward and walk until they reach the margin, for one rival after the other."""
    rows, size = np.arange(len(winner)), np.abs(histogram.values)
    in_any_order = np.concatenate([2 * size, size], axis=-1)
    order = np.argsort(-in_any_order, axis=-1, kind="stable")
    shape = len(winner), in_any_order.shape[1]
    gains = np.broadcast_to(np.take_along_axis(in_any_order, order, axis=-1), shape)
    order = np.broadcast_to(order, shape)
    flips = np.empty_like(margins)
    for rival in range(margins.shape[1]):
        margin = margins[:, rival]
        twice_and_once = _labels_by_gain(histogram, winner, rival, None if factors is None else factors[:, rival])
        labels = np.take_along_axis(np.concatenate(twice_and_once, axis=-1), order, axis=-1)
        reach = np.cumsum(gains * labels, axis=-1)
        at = rows, np.argmax(reach >= margin[:, None], axis=-1)
        gain, count = gains[at], labels[at]
        missing = margin - (reach[at] - gain * count)
        needed = np.cumsum(labels, axis=-1)[at] - count + _ceiling(missing, gain)
        flips[:, rival] = np.where(reach[:, -1] >= margin, needed, UNREACHABLE)
    return flips


def _labels_by_gain(
    histogram: VoteHistogram, winner: Integers, rival: int, factors: Integers | None
) -> tuple[Integers, Integers]:
    """Return, per row and level, how many labels gain twice and how many gain once their vote against one rival."""
    counts, values = histogram.counts, histogram.values
    if factors is None:
        for_winner, for_rival = counts[np.arange(len(winner)), winner], counts[:, rival]
        double = np.where(values > 0, for_winner, 0) + np.where(values < 0, for_rival, 0)
        return double, histogram.all_counts - for_winner - for_rival

    def labels_with(factor: int) -> Integers:
        positive, negative = (np.einsum("ra,ral->rl", factors[:, :, side] == factor, counts) for side in (0, 1))
        return np.where(values > 0, positive, np.where(values < 0, negative, 0))

    return labels_with(2), labels_with(1)


def _flips_by_levels(histogram: VoteHistogram, winner: Integers, margins: Integers) -> Integers:
    """Find, for all rivals at once and by bisection, the gain at which the walk down the levels reaches the margin.

    What the labels with a gain of at least g take off a margin is a sum over levels from the top, and splits into the
    same few sums per class for every rival; :class:`_FromTheTop` makes them once.
    """
    tops = _FromTheTop(histogram, winner)
    # the largest gain whose labels, with all larger ones, reach the margin: at least `low`, below `high`
    low, high = np.zeros_like(margins), np.full_like(margins, 2 * tops.half + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        enough = tops.reach(middle) >= margins
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    flips = tops.labels(low + 1) + _ceiling(margins - tops.reach(low + 1), low)
    return np.where(margins <= 0, 0, np.where(low > 0, flips, UNREACHABLE))


class _FromTheTop:
    """Labels, and sums of their votes, from the largest votes down to a level: per class, and for either sign."""

    def __init__(self, histogram: VoteHistogram, winner: Integers):
        self.half = histogram.values.shape[1] // 2
        self._winner = winner
        positive = histogram.counts[:, :, self.half :]
        negative = histogram.counts[:, :, self.half :: -1]  # votes 0, -1, -2, ...
        self._counts = [self._summed(side, weigh=False) for side in (positive, negative)]
        self._votes = [self._summed(side, weigh=True) for side in (positive, negative)]

    def reach(self, gain: Integers) -> Integers:
        """Return what the labels with at least this gain take off the margin against each class."""
        return self._combined(self._votes, gain, double=2)

    def labels(self, gain: Integers) -> Integers:
        """Return how many labels have at least this gain against each class."""
        return self._combined(self._counts, gain, double=1)

    def _summed(self, side: Integers, weigh: bool) -> Integers:
        """Sum from the top: entry [row, class, v] is over votes of size v and more; the last class is all classes."""
        rows, n_classes, levels = side.shape
        sums = np.zeros((rows, n_classes + 1, self.half + 2), dtype=np.int64)
        terms = side * np.arange(levels) if weigh else side
        np.cumsum(terms[:, :, ::-1], axis=-1, out=sums[:, :n_classes, levels - 1 :: -1])
        sums[:, n_classes] = sums[:, :n_classes].sum(axis=1)
        return sums

    def _combined(self, sides: list[Integers], gain: Integers, double: int) -> Integers:
        """Add up labels that gain twice their vote (from gain / 2 on) and those that gain it once (from gain on)."""
        positive, negative = sides
        rows, rivals = np.arange(len(gain))[:, None], np.arange(gain.shape[1])[None, :]
        winner, everyone = self._winner[:, None], gain.shape[1]
        half_way = np.minimum((gain + 1) // 2, self.half + 1)
        all_the_way = np.minimum(gain, self.half + 1)
        twice = positive[rows, winner, half_way] + negative[rows, rivals, half_way]
        once = sum(
            side[rows, everyone, all_the_way] - side[rows, winner, all_the_way] - side[rows, rivals, all_the_way]
            for side in sides
        )
        return np.asarray(double * twice + once)


def _ceiling(numerator: Integers, denominator: Integers) -> Integers:
    return np.asarray(-(-numerator // np.maximum(denominator, 1)))
