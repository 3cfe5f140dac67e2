"""The exact radius of the deployed rule, without noise (M6), for adversaries with any powers (M10).

Changing one label lowers the margin of winner c over rival d by a *gain* that depends on that label alone: 2|k| if it
now supports c with a positive vote, or d with a negative one; |k| if it names neither; 0 otherwise. Gains add up, so an
attacker who wants d to win takes the largest gains first; the length of the shortest prefix with a large enough sum is
the least number of flips. The sum needed depends on ties. `predict` gives ties to the class with the lowest code, so a
rival that sorts before the winner needs only to draw level, and one that sorts after it must overtake: the gains must
reach the *lead*, margin + [c < d] in grid units. The lead is at least 1, so an attack needs at least one flip.

A restricted adversary has smaller gains: label j can lower the margin by at most the maximum over the labels e that it
may be changed to, ``max(0, max_e k_j (D(y_j) - D(e)))``, D(e) = [e = c] - [e = d]. That is 0, 1 or 2 times |k_j|, and
depends only on y_j and the sign of k_j. An adversary who controls a group of labels gains the sum over the group.

Soundness: integers throughout (below 2**46 for 10**6 votes of 24 bits), hence no rounding. c keeps the prediction if
and only if no rival's gains reach its lead. The prefix itself is an attack with this number of flips, and no other set
of as many labels has a larger sum of gains. So the radius is exact, as a lower and an upper bound, ties included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flipproof.core.histograms import VoteHistogram
from flipproof.core.powers import Powers
from flipproof.core.rounding import Integers, ceil_divide
from flipproof.core.votes import GroupVotes
from flipproof.core.windows import best_windows, least_windows

#: Flips needed where no change of labels can overturn the prediction.
UNREACHABLE = np.iinfo(np.int64).max

#: Largest share of possible changes for which their table is multiplied as a sparse matrix.
SPARSE_SHARE = 1 / 16

#: Numbers of a table of sums over windows that are computed at a time.
WINDOW_NUMBERS = 2**22

#: Integers up to this are exact in float32, whose products take half the time.
EXACT_IN_FLOAT32 = 2**24


def leads(scores: Integers, winner: Integers) -> Integers:
    """Return by how much an attack must lower the winner's margin for each class to win, shape (rows, classes).

    If the class sorts before the winner, a tie is enough and the lead is the margin; otherwise it is the margin plus 1.
    It is at least 1 for every rival, and 0 in the winner's column.
    """
    rows = np.arange(len(scores))
    sorts_after = np.arange(scores.shape[1]) > winner[:, None]
    return np.asarray(scores[rows, winner][:, None] - scores + sorts_after)


def gain_factors(transitions: NDArray[np.bool_], winner: Integers, rival: int) -> Integers:
    """Return the gain of a label against one rival as a multiple of its vote (M10), shape (rows, labels, 2).

    Entry [row, a, 0] is for a label a with a positive vote, entry [row, a, 1] for one with a negative vote.
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
        By how much the changes must lower the winner's margin, see :func:`leads`; at least 1 except for the winner.
    transitions : booleans of shape (classes, classes), optional
        The possible changes, from the class of the row to the class of the column; all by default.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where no number suffices, and in the winner's column.
    """
    if transitions is None and lead.shape[1] == 2 and histogram.has_all_levels:
        return _flips_of_two_classes(histogram, winner, lead)
    moves = _Moves(transitions, winner, lead.shape[1])
    if histogram.has_all_levels:
        flips = _flips_by_bisection(FromTheTop(histogram, moves), lead)
    elif transitions is None:
        flips = _flips_by_bisection(_OnOwnLevels(histogram, winner), lead)
    else:
        flips = _flips_by_sorting(histogram, moves, lead)
    flips[np.arange(len(winner)), winner] = UNREACHABLE
    return flips


def groups_to_overturn(votes: GroupVotes, winner: Integers, lead: Integers, transitions: NDArray[np.bool_]) -> Integers:
    """Return the least number of groups whose labels, changed arbitrarily, let each class win.

    Like :func:`flips_to_overturn`. The gains of a group's labels add up, so the groups with the largest sums are taken
    first.
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


def windows_to_overturn(
    votes: GroupVotes, ends: Integers, winner: Integers, lead: Integers, transitions: NDArray[np.bool_]
) -> Integers:
    """Return the least number of windows of time whose labels, changed arbitrarily, let each class win (M15).

    Like :func:`groups_to_overturn`. The groups of `votes` are timestamps, in ascending order, and `ends` are those of
    the windows that start there, see :mod:`flipproof.core.windows`.
    """
    needed = np.full_like(lead, UNREACHABLE)
    if len(votes.label) == 0:  # no label can be changed
        return needed
    at_a_time = max(1, WINDOW_NUMBERS // len(ends))
    for start in range(0, len(winner), at_a_time):
        rows = slice(start, start + at_a_time)
        for rival in range(lead.shape[1]):
            factors = gain_factors(transitions, winner[rows], rival)[:, votes.label]
            by_cell = factors[:, :, 0] * votes.positive[rows] + factors[:, :, 1] * votes.negative[rows]
            gains = np.add.reduceat(by_cell, votes.first_cell, axis=1)
            least = least_windows(gains, ends, np.maximum(lead[rows, rival], 1))
            needed[rows, rival] = np.where(least < 0, UNREACHABLE, least)
    needed[np.arange(len(winner)), winner] = UNREACHABLE
    return needed


@dataclass(frozen=True)
class LabelChanges:
    """The labels that an attacker changes for one test row, largest gains first.

    Attributes
    ----------
    rows, votes : integers
        The training rows and their votes.
    labels : integers
        Their new class codes.
    gains : integers
        By how much each change lowers the margin.
    units : integers
        The label (or group) that each change belongs to, numbered from 0 in the order of the attack.
    """

    rows: Integers
    votes: Integers
    labels: Integers
    gains: Integers
    units: Integers


def most_useful_changes(
    votes: Integers, codes: Integers, winner: int, rival: int, powers: Powers, n_units: int
) -> LabelChanges:
    """Return the changes of `n_units` labels (or groups) that lower the winner's lead over one rival the most.

    Labels without a gain are not changed. Among equal gains the lowest row comes first.
    """
    n_classes = len(powers.transitions)
    factors = gain_factors(powers.transitions, np.array([winner]), rival)[0]
    gains = np.where(powers.changeable, factors[codes, (votes < 0).astype(np.int64)] * np.abs(votes), 0)
    useful = np.flatnonzero(gains > 0)
    if powers.groups is None:
        rows = _largest_first(gains[useful], n_units)
        rows, units = useful[rows], np.arange(len(rows))
    elif powers.window_ends is not None:
        rows, units = _in_best_windows(gains, powers.groups, powers.window_ends, n_units)
    else:
        owner = powers.groups[useful]
        by_group = np.bincount(owner, weights=gains[useful]).astype(np.int64)
        chosen = _largest_first(by_group, min(n_units, int(np.count_nonzero(by_group))))
        rank = np.full(len(by_group), n_units)
        rank[chosen] = np.arange(len(chosen))
        taken = useful[rank[owner] < n_units]
        rows = taken[np.lexsort((-gains[taken], rank[powers.groups[taken]]))]
        units = rank[powers.groups[rows]]
    # an attack moves a positive vote to the rival and a negative one to the winner, or else to a third class
    wanted = np.where(votes[rows] > 0, rival, winner)
    others = np.setdiff1d(np.arange(n_classes), [winner, rival])
    third = others[np.argmax(powers.transitions[np.ix_(codes[rows], others)], axis=1)] if others.size else wanted
    labels = np.where(powers.transitions[codes[rows], wanted], wanted, third)
    return LabelChanges(rows, votes[rows], labels, gains[rows], units)


def _in_best_windows(gains: Integers, stamps: Integers, ends: Integers, n_windows: int) -> tuple[Integers, Integers]:
    """Return the labels with a gain in the windows with the largest sum of gains, and the window of each."""
    by_stamp = np.bincount(stamps, weights=gains, minlength=len(ends)).astype(np.int64)
    starts = best_windows(by_stamp, ends, n_windows)
    useful = np.flatnonzero(gains > 0)
    window = np.searchsorted(starts, stamps[useful], side="right") - 1
    inside = (window >= 0) & (stamps[useful] < ends[starts[window]]) if len(starts) else np.zeros(len(useful), bool)
    rows, window = useful[inside], window[inside]
    totals = np.bincount(window, weights=gains[rows], minlength=len(starts))
    rank = np.argsort(np.argsort(-totals, kind="stable"), kind="stable")
    order = np.lexsort((-gains[rows], rank[window]))
    return rows[order], rank[window][order]


def _largest_first(gains: Integers, count: int) -> Integers:
    """Return the positions of the `count` largest gains in descending order; ties keep their order."""
    if count < len(gains):
        last = np.partition(gains, len(gains) - count)[len(gains) - count] if count else 0
        larger, equal = np.flatnonzero(gains > last), np.flatnonzero(gains == last)
        kept = np.concatenate([larger, equal[: count - len(larger)]]) if count else larger[:0]
    else:
        kept = np.arange(len(gains))
    return np.asarray(kept[np.lexsort((kept, -gains[kept]))])


def radius_from_flips(flips: Integers, unlimited: int) -> Integers:
    """Return the radius: one less than the flips needed, or `unlimited` if no number of flips suffices."""
    return np.where(flips == UNREACHABLE, unlimited, flips - 1)


class _Moves:
    """Which labels can be moved, and how far, for all rivals at once: M10 rearranged so that rivals share sums.

    Against rival d, positive votes are moved into d and negative ones into the winner c. A label gains twice its vote
    if it is moved from c to d (negative: from d to c), and once if it is moved from a third class. If a label of c
    (negative: of d) cannot become d (negative: c) but can become a third class, it gains once: it is *drained*.
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

        Without restrictions only the sum over all classes is returned, shape (rows, 1, levels): the caller subtracts
        each class's own count.
        """
        if not self.is_restricted:
            return np.asarray(counts.sum(axis=1, keepdims=True))
        # exact: sums of integers, none above the number of labels
        kind = np.float32 if counts.sum(axis=(1, 2)).max(initial=0) <= EXACT_IN_FLOAT32 else np.float64
        table = self._into.astype(kind)
        return np.stack([table @ of_row for of_row in counts.astype(kind)]).astype(np.int64)

    def into_winner(self, counts: Integers) -> Integers:
        """Sum the counts over the classes that can be moved into the winner, shape (rows, levels)."""
        if not self.is_restricted:
            return np.asarray(counts.sum(axis=1) - counts[np.arange(len(counts)), self.winner])
        return np.asarray(np.einsum("ra,ral->rl", self.rival_to_winner, counts, dtype=np.int64, casting="unsafe"))


def _flips_by_sorting(histogram: VoteHistogram, moves: _Moves, lead: Integers) -> Integers:
    """For each rival in turn, add up the gains in descending order until they reach the lead."""
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
        fewest = np.cumsum(labels, axis=-1)[at] - count + ceil_divide(missing, gain)
        flips[:, rival] = np.where(reach[:, -1] >= needed, fewest, UNREACHABLE)
    return flips


def _flips_of_two_classes(histogram: VoteHistogram, winner: Integers, lead: Integers) -> Integers:
    """Return :func:`flips_to_overturn` for two classes: every label with a gain gains twice its vote.

    The labels with a gain are the winner's with positive votes and the rival's with negative ones, so one sum from the
    top serves both. It falls as votes grow: counting the sizes of vote at which it reaches the lead finds the smallest
    vote that an attacker needs.
    """
    half, rows, rival = histogram.values.shape[1] // 2, np.arange(len(winner)), 1 - winner
    labels = np.zeros((len(winner), half + 2), dtype=np.int64)  # by the size of the vote: 0 to half, and one more
    labels[:, :half] = histogram.counts[rows, winner, half:]
    labels[:, : half + 1] += histogram.counts[rows, rival, half::-1]
    votes = labels * np.arange(half + 2)
    for one in (labels, votes):  # from the top: entry v is over votes of size v and more
        np.cumsum(one[:, ::-1], axis=1, out=one[:, ::-1])
    needed = lead[rows, rival]
    smallest = np.count_nonzero(2 * votes[:, 1:] >= needed[:, None], axis=1)
    above = rows, smallest + 1
    fewest = labels[above] + ceil_divide(needed - 2 * votes[above], 2 * smallest)
    flips = np.full_like(lead, UNREACHABLE)
    flips[rows, rival] = np.where(smallest > 0, fewest, UNREACHABLE)
    return flips


def _flips_by_bisection(tops: FromTheTop | _OnOwnLevels, lead: Integers) -> Integers:
    """Find, for all rivals at once and by bisection, the gain at which the sum from the top reaches the lead.

    The total gain of the labels with a gain of at least g is a sum over levels from the top. It splits into a few sums
    per class that are the same for every rival; `tops` computes them once.
    """
    # the largest gain whose labels, with all larger ones, reach the lead: at least `low`, below `high`
    low, high = np.zeros_like(lead), np.full_like(lead, 2 * tops.largest + 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        enough = tops.reach(middle) >= lead
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    flips = tops.labels(low + 1) + ceil_divide(lead - tops.reach(low + 1), low)
    return np.where(low > 0, flips, UNREACHABLE)


class FromTheTop:
    """Numbers of labels and sums of their votes, from the largest votes down to a level, per class and sign."""

    def __init__(self, histogram: VoteHistogram, moves: _Moves):
        self.half = self.largest = histogram.values.shape[1] // 2
        self._moves = moves
        positive = histogram.counts[:, :, self.half :]
        negative = histogram.counts[:, :, self.half :: -1]  # votes 0, -1, -2, ...
        sides = positive, negative, moves.into_rivals(positive), moves.into_winner(negative)[:, None]
        self._counts = [self._summed(side, weigh=False) for side in sides]
        self._votes = [self._summed(side, weigh=True) for side in sides]

    @classmethod
    def of_sums(cls, counts: Integers, sums: Integers, winner: Integers) -> FromTheTop:
        """Return the same for levels that hold votes of several sizes, given how many there are and their sum.

        Any label may be changed to any class. Level 0 may hold votes of both signs: its sums are not defined.
        """
        tops = cls.__new__(cls)
        tops.half = tops.largest = half = counts.shape[2] // 2
        tops._moves = moves = _Moves(None, winner, counts.shape[1])
        for name, cells in (("_counts", counts), ("_votes", sums)):
            positive, negative = cells[:, :, half:], cells[:, :, half::-1]
            if name == "_votes":
                negative = -negative
            sides = positive, negative, moves.into_rivals(positive), moves.into_winner(negative)[:, None]
            setattr(tops, name, [tops._summed(side, weigh=False) for side in sides])
        return tops

    def reach(self, gain: Integers) -> Integers:
        """Return by how much the labels with at least this gain lower the margin over each class."""
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
        """Add up labels that gain twice their vote (votes >= gain / 2) and labels that gain it once (votes >= gain)."""
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
        # labels that can be moved all the way are counted in `twice`, so not here
        of_winner, of_rival = positive[rows, winner, all_the_way], negative[rows, rivals, all_the_way]
        once += np.where(moves.winner_to_rival, -of_winner, moves.winner_drained * of_winner)
        once += np.where(moves.rival_to_winner, -of_rival, moves.rival_drained * of_rival)
        return np.asarray(double * twice + once)


class _OnOwnLevels:
    """Numbers of labels and sums of their votes, as in :class:`FromTheTop`, if every row has its own levels.

    Only for an adversary who can change any label to any class. Sums up to a level are kept instead of sums by the size
    of votes, and a search in the row's levels finds how many of them are beyond a size.
    """

    def __init__(self, histogram: VoteHistogram, winner: Integers):
        values, counts = histogram.values, histogram.counts
        self._winner, self._n_levels = winner[:, None], values.shape[1]
        self.largest = int(np.abs(values).max(initial=0))
        self._apart = 4 * (self.largest + 1)  # shifting the lines apart gives one long ascending list
        line = np.arange(len(values))[:, None] * (len(values) > 1)
        self._line, self._rising = line, (values + self._apart * line).ravel()
        every = histogram.all_counts[:, None]
        self._counts = [self._upto(side) for side in (counts, every)]
        self._votes = [self._upto(side * values[:, None]) for side in (counts, every)]

    @staticmethod
    def _upto(terms: Integers) -> Integers:
        """Sum from the lowest level: entry [row, class, l] is over the levels before l."""
        sums = np.zeros((*terms.shape[:2], terms.shape[2] + 1), dtype=np.int64)
        np.cumsum(terms, axis=-1, out=sums[:, :, 1:])
        return sums

    def reach(self, gain: Integers) -> Integers:
        """Return by how much the labels with at least this gain lower the margin over each class."""
        return self._combined(self._votes, gain, double=2, sign=-1)

    def labels(self, gain: Integers) -> Integers:
        """Return how many labels have at least this gain against each class."""
        return self._combined(self._counts, gain, double=1, sign=1)

    def _beyond(self, size: Integers) -> tuple[Integers, Integers]:
        """Return the first level with a vote of at least `size`, and the first with a vote above ``-size``."""
        shift = self._apart * self._line
        above = np.searchsorted(self._rising, np.minimum(size, 2 * self.largest + 1) + shift)
        below = np.searchsorted(self._rising, shift - np.minimum(size, 2 * self.largest + 1), side="right")
        return above - self._n_levels * self._line, below - self._n_levels * self._line

    def _combined(self, sides: list[Integers], gain: Integers, double: int, sign: int) -> Integers:
        """Add up labels that gain twice their vote (votes >= gain / 2) and labels that gain it once (votes >= gain)."""
        by_class, of_all = sides
        rows, rivals = np.arange(len(gain))[:, None], np.arange(gain.shape[1])[None, :]

        def positive(sums: Integers, which: Integers | int, first: Integers) -> Integers:
            return np.asarray(sums[rows, which, -1] - sums[rows, which, first])

        def negative(sums: Integers, which: Integers | int, last: Integers) -> Integers:
            return np.asarray(sign * sums[rows, which, last])

        above, below = self._beyond((gain + 1) // 2)
        twice = positive(by_class, self._winner, above) + negative(by_class, rivals, below)
        if gain.shape[1] == 2:  # no label names a third class
            return np.asarray(double * twice)
        above, below = self._beyond(gain)
        once = positive(of_all, 0, above) + negative(of_all, 0, below)
        for which in (self._winner, rivals):
            once -= positive(by_class, which, above) + negative(by_class, which, below)
        return np.asarray(double * twice + once)
