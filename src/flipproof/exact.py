"""The exact radius of the deployed rule: no noise, no bound, both ways (M6).

Changing one label lowers the margin of winner c over rival d by a *gain* that depends on that label alone: 2|k| if it
now supports c with a positive vote, or d with a negative one; |k| if it names neither; 0 otherwise. Gains add up, so an
attacker who wants d to draw level takes the largest gains first, and the shortest prefix that reaches the margin is the
least number of flips. A tie counts as lost, whichever class would win it.

Soundness: integers throughout (below 2**46 for 10**6 votes of 24 bits), hence no rounding. The attack that attains the
number is the prefix itself, and no other set of that many labels has a larger sum of gains.
"""

from __future__ import annotations

import numpy as np

from flipproof.rounding import Integers
from flipproof.votes import VoteHistogram

#: Flips needed where no labels at all can overturn the prediction.
UNREACHABLE = np.iinfo(np.int64).max


def flips_to_overturn(histogram: VoteHistogram, winner: Integers, margins: Integers) -> Integers:
    """Return the least number of label changes that lets each class draw level with the winner.

    Parameters
    ----------
    histogram : VoteHistogram
        Votes on a block of test rows.
    winner : integers of shape (rows,)
        The predicted classes.
    margins : integers of shape (rows, classes)
        Lead of the winner over every class under the deployed rule, offsets included; not negative.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where no number suffices, and in the winner's own column.
    """
    count = _flips_by_levels if histogram.has_all_levels else _flips_by_sorting
    flips = count(histogram, winner, margins)
    flips[np.arange(len(winner)), winner] = UNREACHABLE
    return flips


def radius_from_flips(flips: Integers, n_touchable: int) -> Integers:
    """Return the radius: one less than the flips needed, at least 0, and all that can be touched if none suffice."""
    return np.where(flips == UNREACHABLE, n_touchable, np.maximum(flips - 1, 0))


def _flips_by_sorting(histogram: VoteHistogram, winner: Integers, margins: Integers) -> Integers:
    """Sort the gains downward and walk until they reach the margin, for one rival after the other."""
    rows, size = np.arange(len(winner)), np.abs(histogram.values)
    gains = np.broadcast_to(np.concatenate([2 * size, size], axis=-1), (len(winner), 2 * size.shape[1]))
    order = np.argsort(-gains, axis=-1, kind="stable")
    gains = np.take_along_axis(gains, order, axis=-1)
    for_winner = histogram.counts[rows, winner]
    flips = np.empty_like(margins)
    for rival in range(margins.shape[1]):
        for_rival, margin = histogram.counts[:, rival], margins[:, rival]
        double = np.where(histogram.values > 0, for_winner, 0) + np.where(histogram.values < 0, for_rival, 0)
        single = histogram.all_counts - for_winner - for_rival
        labels = np.take_along_axis(np.concatenate([double, single], axis=-1), order, axis=-1)
        reach = np.cumsum(gains * labels, axis=-1)
        at = rows, np.argmax(reach >= margin[:, None], axis=-1)
        gain, count = gains[at], labels[at]
        missing = margin - (reach[at] - gain * count)
        needed = np.cumsum(labels, axis=-1)[at] - count + _ceiling(missing, gain)
        flips[:, rival] = np.where(reach[:, -1] >= margin, needed, UNREACHABLE)
    return flips


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
