"""The exact radius of the deployed rule: no noise, no bound, both ways (M6), against adversaries of any powers (M10).

Changing one label lowers the margin of winner c over rival d by a *gain* that depends on that label alone: 2|k| if it
now supports c with a positive vote, or d with a negative one; |k| if it names neither; 0 otherwise. Gains add up, so an
attacker who wants d to win takes the largest gains first, and the shortest prefix whose sum is large enough is the
least number of flips. How large that is depends on who wins a tie. `predict` gives ties to the class with the lowest
code, so a rival that sorts before the winner needs only to draw level, and one that sorts after it must overtake: the
gains must reach the *lead*, margin + [c < d] in grid units. The lead is at least 1, so no prediction changes by itself.

An adversary with fewer powers has smaller gains: what label j can take off the margin is the most over the labels e
that it may be changed to, ``max(0, max_e k_j (D(y_j) - D(e)))``, D(e) = [e = c] - [e = d]. That is 0, 1 or 2
times |k_j|, and depends on y_j and the sign of k_j alone. Whoever owns whole groups of labels takes the gains of a
group at once.

Soundness: integers throughout (below 2**46 for 10**6 votes of 24 bits), hence no rounding. c keeps the prediction if
and only if no rival's gains reach its lead; the attack that attains the number is the prefix itself, and no other set
of that many labels has a larger sum of gains. So the radius is exact, both ways and ties included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flipproof.core.histograms import VoteHistogram
from flipproof.core.powers import Powers
from flipproof.core.rounding import Integers
from flipproof.core.votes import GroupVotes

#: Flips needed where no labels at all can overturn the prediction.
UNREACHABLE = np.iinfo(np.int64).max

#: Share of all pairs of classes up to which a table of possible changes is multiplied as a sparse matrix.
SPARSE_SHARE = 1 / 16

#: Whole numbers up to this are exact in float32, whose products take half the time.
EXACT_IN_FLOAT32 = 2**24


def leads(scores: Integers, winner: Integers) -> Integers:
    """Return what an attack must take off the winner's margin over each class for that class to win, (rows, classes).

    That is the margin where the class sorts before the winner, which a tie is enough for, and one more where it sorts
    after it: at least 1 for every rival. In the winner's own column it is 0.
    """
    rows = np.arange(len(scores))
    sorts_after = np.arange(scores.shape[1]) > winner[:, None]
    return np.asarray(scores[rows, winner][:, None] - scores + sorts_after)


def gain_factors(transitions: NDArray[np.bool_], winner: Integers, rival: int) -> Integers:
    """Return how many times its vote a label can take off the winner's margin over one rival (M10), (rows, labels, 2).

    Entry [row, a, 0] is for labels a with a positive vote, entry [row, a, 1] with a negative one.
    """
    a = np.arange(len(transitions))
    to_winner, to_rival = transitions[:, winner].T, transitions[:, rival]
    to_others = transitions.sum(axis=1) > to_winner.astype(np.int64) + to_rival
    now = (a == winner[:, None]).astype(np.int64) - (a == rival)
    lowest = np.where(to_rival, -1, np.where(to_others, 0, np.where(to_winner, 1, now)))
    highest = np.where(to_winner, 1, np.where(to_others, 0, np.where(to_rival, -1, now)))
    return np.asarray(np.maximum(np.stack([now - lowest, highest - now], axis=-1), 0))


def flips_to_overturn(
    histogram: VoteHistogram, winner: Integers, lead: Integers, transitions: NDArray[np.bool_] | None = None
) -> Integers:
    """Return the least number of label changes that lets each class win.

    Parameters
    ----------
    histogram : VoteHistogram
        Votes of the labels that can be changed, on a block of test rows.
    winner : integers of shape (rows,)
        The predicted classes.
    lead : integers of shape (rows, classes)
        What the changes must take off the winner's margin, see :func:`leads`; at least 1 but for the winner.
    transitions : booleans of shape (classes, classes), optional
        The possible changes, from the class of the row to that of the column; by default all of them.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where no number suffices, and in the winner's own column.
    """
    walk = _flips_by_levels if histogram.has_all_levels else _flips_by_sorting
    flips = walk(histogram, _Moves(transitions, winner, lead.shape[1]), lead)
    flips[np.arange(len(winner)), winner] = UNREACHABLE
    return flips


def groups_to_overturn(votes: GroupVotes, winner: Integers, lead: Integers, transitions: NDArray[np.bool_]) -> Integers:
    """Return the least number of groups whose labels, changed at will, let each class win.

    As :func:`flips_to_overturn`. The gains of a group's labels add up, so the largest groups by gain come first.
    """
    flips = np.full_like(lead, UNREACHABLE)
    if len(votes.label) == 0:  # no label can be changed
        return flips
    for rival in range(lead.shape[1]):
        factors = gain_factors(transitions, winner, rival)[:, votes.label]
        by_cell = factors[:, :, 0] * votes.positive + factors[:, :, 1] * votes.negative
        gains = np.sort(np.add.reduceat(by_cell, votes.first_cell, axis=1), axis=1)[:, ::-1]
        reach = np.cumsum(gains, axis=1)
        needed = np.count_nonzero(reach < lead[:, rival, None], axis=1) + 1
        flips[:, rival] = np.where(needed <= gains.shape[1], needed, UNREACHABLE)
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
    factors = gain_factors(powers.transitions, np.array([winner]), rival)[0]
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


def radius_from_flips(flips: Integers, n_touchable: int) -> Integers:
    """Return the radius: one less than the flips needed, and all that can be touched if none suffice."""
    return np.where(flips == UNREACHABLE, n_touchable, flips - 1)


class _Moves:
    """Which labels can be moved, and how far, for all rivals at once: M10 rearranged so that rivals share sums.

    Against rival d, positive votes are moved into d and negative ones into the winner c. A label gains twice its vote
    if it is moved from c to d (negative: from d to c), and once if it is moved from a bystander. Where a label of c
    cannot become d but some third class, it gains once: it is *drained* (negative: a label of d).
    """

    def __init__(self, transitions: NDArray[np.bool_] | None, winner: Integers, n_classes: int):
        self.winner, self.is_restricted = winner, transitions is not None
        if transitions is None:
            self.winner_to_rival = self.rival_to_winner = np.arange(n_classes) != winner[:, None]
            self.winner_drained = self.rival_drained = np.zeros((len(winner), n_classes), dtype=bool)
            return
        is_sparse = np.count_nonzero(transitions) <= SPARSE_SHARE * transitions.size
        self._into = csr_array(transitions.T, dtype=np.float32) if is_sparse else transitions.T.astype(np.float32)
        self.winner_to_rival, self.rival_to_winner = transitions[winner], transitions[:, winner].T
        n_targets = transitions.sum(axis=1)
        self.winner_drained = ~self.winner_to_rival & (n_targets[winner] > 0)[:, None]
        self.rival_drained = ~self.rival_to_winner & (n_targets > 0)

    def into_rivals(self, counts: Integers) -> Integers:
        """Sum counts of shape (rows, classes, levels) over the classes that can be moved into each class.

        Where all can, only the sum over all classes is returned, shape (rows, 1, levels): each class's own is to be
        taken off.
        """
        if not self.is_restricted:
            return np.asarray(counts.sum(axis=1, keepdims=True))
        # exact: sums of whole numbers, none above the number of labels
        kind = np.float32 if counts.sum(axis=(1, 2)).max(initial=0) <= EXACT_IN_FLOAT32 else np.float64
        table = self._into.astype(kind)
        return np.stack([table @ of_row for of_row in counts.astype(kind)]).astype(np.int64)

    def into_winner(self, counts: Integers) -> Integers:
        """Sum the counts over the classes that can be moved into the winner, shape (rows, levels)."""
        if not self.is_restricted:
            return np.asarray(counts.sum(axis=1) - counts[np.arange(len(counts)), self.winner])
        return np.asarray(np.einsum("ra,ral->rl", self.rival_to_winner, counts, dtype=np.int64, casting="unsafe"))


def _flips_by_sorting(histogram: VoteHistogram, moves: _Moves, lead: Integers) -> Integers:
    """Sort the gains downward and walk until they reach the lead, for one rival after the other."""
    winner, counts, size = moves.winner, histogram.counts, np.abs(histogram.values)
    rows, is_positive = np.arange(len(winner)), histogram.values > 0
    in_any_order = np.concatenate([2 * size, size], axis=-1)
    order = np.argsort(-in_any_order, axis=-1, kind="stable")
    shape = len(winner), in_any_order.shape[1]
    gains = np.broadcast_to(np.take_along_axis(in_any_order, order, axis=-1), shape)
    order = np.broadcast_to(order, shape)
    of_winner, into_rivals, into_winner = counts[rows, winner], moves.into_rivals(counts), moves.into_winner(counts)
    flips = np.empty_like(lead)
    for rival in range(lead.shape[1]):
        of_rival, needed = counts[:, rival], lead[:, rival]
        into_rival = into_rivals[:, rival] if moves.is_restricted else into_rivals[:, 0] - of_rival
        up, down = moves.winner_to_rival[:, rival, None], moves.rival_to_winner[:, rival, None]
        drained_up, drained_down = moves.winner_drained[:, rival, None], moves.rival_drained[:, rival, None]
        twice = np.where(is_positive, up * of_winner, down * of_rival)
        once = np.where(is_positive, into_rival + drained_up * of_winner, into_winner + drained_down * of_rival) - twice
        labels = np.take_along_axis(np.concatenate([twice, once], axis=-1), order, axis=-1)
        reach = np.cumsum(gains * labels, axis=-1)
        at = rows, np.argmax(reach >= needed[:, None], axis=-1)
        gain, count = gains[at], labels[at]
        missing = needed - (reach[at] - gain * count)
        fewest = np.cumsum(labels, axis=-1)[at] - count + _ceiling(missing, gain)
        flips[:, rival] = np.where(reach[:, -1] >= needed, fewest, UNREACHABLE)
    return flips


def _flips_by_levels(histogram: VoteHistogram, moves: _Moves, lead: Integers) -> Integers:
    """Find, for all rivals at once and by bisection, the gain at which the walk down the levels reaches the lead.

    What the labels with a gain of at least g take off a margin is a sum over levels from the top, and splits into the
    same few sums per class for every rival; :class:`_FromTheTop` makes them once.
    """
    tops = _FromTheTop(histogram, moves)
    # the largest gain whose labels, with all larger ones, reach the lead: at least `low`, below `high`
    low, high = np.zeros_like(lead), np.full_like(lead, 2 * tops.half + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        enough = tops.reach(middle) >= lead
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    flips = tops.labels(low + 1) + _ceiling(lead - tops.reach(low + 1), low)
    return np.where(low > 0, flips, UNREACHABLE)


class _FromTheTop:
    """Labels, and sums of their votes, from the largest votes down to a level: per class, and for either sign."""

    def __init__(self, histogram: VoteHistogram, moves: _Moves):
        self.half = histogram.values.shape[1] // 2
        self._moves = moves
        positive = histogram.counts[:, :, self.half :]
        negative = histogram.counts[:, :, self.half :: -1]  # votes 0, -1, -2, ...
        sides = positive, negative, moves.into_rivals(positive), moves.into_winner(negative)[:, None]
        self._counts = [self._summed(side, weigh=False) for side in sides]
        self._votes = [self._summed(side, weigh=True) for side in sides]

    def reach(self, gain: Integers) -> Integers:
        """Return what the labels with at least this gain take off the margin against each class."""
        return self._combined(self._votes, gain, double=2)

    def labels(self, gain: Integers) -> Integers:
        """Return how many labels have at least this gain against each class."""
        return self._combined(self._counts, gain, double=1)

    def _summed(self, side: Integers, weigh: bool) -> Integers:
        """Sum from the top: entry [row, class, v] is over votes of size v and more."""
        rows, n_classes, levels = side.shape
        sums = np.zeros((rows, n_classes, self.half + 2), dtype=np.int64)
        terms = side * np.arange(levels) if weigh else side
        np.cumsum(terms[:, :, ::-1], axis=-1, out=sums[:, :, levels - 1 :: -1])
        return sums

    def _combined(self, sides: list[Integers], gain: Integers, double: int) -> Integers:
        """Add up labels that gain twice their vote (from gain / 2 on) and those that gain it once (from gain on)."""
        positive, negative, into_rivals, into_winner = sides
        moves, rows, rivals = self._moves, np.arange(len(gain))[:, None], np.arange(gain.shape[1])[None, :]
        winner = moves.winner[:, None]
        half_way = np.minimum((gain + 1) // 2, self.half + 1)
        all_the_way = np.minimum(gain, self.half + 1)
        twice = moves.winner_to_rival * positive[rows, winner, half_way]
        twice += moves.rival_to_winner * negative[rows, rivals, half_way]
        once = into_winner[rows, 0, all_the_way]
        if moves.is_restricted:
            once += into_rivals[rows, rivals, all_the_way]
        else:
            once += into_rivals[rows, 0, all_the_way] - positive[rows, rivals, all_the_way]
        # moved all the way where that is possible, hence not counted once more
        of_winner, of_rival = positive[rows, winner, all_the_way], negative[rows, rivals, all_the_way]
        once += np.where(moves.winner_to_rival, -of_winner, moves.winner_drained * of_winner)
        once += np.where(moves.rival_to_winner, -of_rival, moves.rival_drained * of_rival)
        return np.asarray(double * twice + once)


def _ceiling(numerator: Integers, denominator: Integers) -> Integers:
    return np.asarray(-(-numerator // np.maximum(denominator, 1)))
