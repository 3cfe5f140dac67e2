"""The least number of annotations, or of annotators, that overturns a prediction if majorities vote (M15).

**Annotations.** An item contributes one of its options (:class:`flipproof.core.majority.Options`): its vote for `once`
changes, or twice its vote for `twice`. The least total cost of gains that reach the lead is a multiple-choice knapsack.
It is solved exactly:

1. If ``twice >= 2 once``, the options are the same as two independent *lots* of one vote each, for `once` and for
   ``twice - once`` changes: whoever takes the second lot alone may as well take the first, which costs no more.
   If ``once < twice < 2 once``, it is one lot of two votes, of which at most one item of all with this pair takes half:
   two items that take half could be replaced by the one with the larger vote, for less. It is the first item behind
   those that are taken whole.
2. Let P be the longest prefix of all lots in the order of gain per change whose gains stay below the lead, and W its
   cost. Fractions of lots do no better, so the optimum is above W, and at most W + C, C the largest cost of a lot.
3. Let Z be the lots of an optimal solution. If it lacks C lots of P, and has C lots that are not in P, then some of
   the former cost exactly as much as some of the latter (two lists of C numbers from 1 to C have parts with equal
   sums), and gain at least as much: exchange them. So there is an optimum that lacks fewer than C + q lots of P, or has
   fewer than C others, q being the number of pairs that can be taken by half. In both cases the costs of the
   differences are at most ``C (C + q)``. Lots of the same cost are taken in the order of their gains, so a dynamic
   program over the costs of differences within this limit finds it.

The time is that of sorting the items, plus ``C^4`` steps or so: usual costs are 1 to 3. Beyond `LARGEST_COST` only the
bound of step 2 is used; it is too small by less than C.

**Annotators.** An annotator may change all of their annotations. Costs are shared between items, so a knapsack would
be unsound. An outcome of an item that gains g needs at least k changed annotations, so it gains at most g / k for each
annotation that is changed. Annotations of the target class itself do not help it to win, and count only for outcomes
that leave the source. Adding up, annotator a contributes at most h_a, the sum of the largest g / k of their
annotations. If the r largest h_a stay below the lead, no r annotators overturn the prediction. Neither do they if all
of their annotations are fewer than the annotations that are needed. This bound is then compared with real sets of
annotators: all sets of this number whose h_a reach the lead are tried, as far as `MOST_TRIED` goes. If one of them
overturns the prediction, the bound is exact; if none does, one more annotator is needed.

Soundness: integers throughout. Shares g / k are multiplied by a common multiple, or rounded up. No solver is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from flipproof.core.exact import UNREACHABLE
from flipproof.core.majority import NEVER, ItemKinds, MajorityPowers, Options, changes_needed, states_of
from flipproof.core.rounding import Integers, ceil_divide

#: Largest number of changes of one lot for which the knapsack is solved exactly.
LARGEST_COST = 12

#: Multiple of all costs up to 10, by which shares of gains become integers.
COMMON_MULTIPLE = 2520

#: Numbers of a table of votes that are computed at a time.
NUMBERS_AT_A_TIME = 2**21

#: Annotations of the sets of annotators that are tried for a test row.
MOST_TRIED = 50_000

#: Steps of the search for sets of annotators, for a test row.
MOST_STEPS = 20_000

#: Gain of what is impossible.
IMPOSSIBLE = -(2**60)


@dataclass(frozen=True)
class Lots:
    """What can be gained for a number of changes, by kind of item.

    Attributes
    ----------
    tier : integers of shape (kinds, 2)
        Position of both lots of an item in the lists below; -1 if there is none.
    votes : integers of shape (kinds, 2)
        Gain of a lot as a multiple of the item's vote.
    """

    tier: Integers
    votes: Integers


def _lots(options: Options, tiers: dict[tuple[int, int], int]) -> Lots:
    """Return the lots of options. `tiers` numbers the pairs (cost, cost of one half or 0), and is extended."""
    tier, votes = (np.full((len(options.once), 2), fill, dtype=np.int64) for fill in (-1, 0))
    pairs, kind = np.unique(np.stack([options.once, options.twice], axis=1), axis=0, return_inverse=True)
    for number, (once, twice) in enumerate(pairs.tolist()):
        of_kind = kind.reshape(-1) == number
        if twice == NEVER:
            found = [] if once == NEVER else [((once, 0), 1)]
        elif once == NEVER:
            found = [((twice, 0), 2)]
        elif twice >= 2 * once:
            found = [((once, 0), 1), ((twice - once, 0), 1)]
        else:
            found = [((twice, once), 2)]
        for place, (key, multiple) in enumerate(found):
            tier[of_kind, place] = tiers.setdefault(key, len(tiers))
            votes[of_kind, place] = multiple
    return Lots(tier, votes)


def annotations_to_overturn(
    votes: Integers, winner: Integers, lead: Integers, kinds: ItemKinds
) -> tuple[Integers, bool]:
    """Return the least number of annotations whose change lets each class win, and whether all numbers are exact.

    `votes` are those of the items on a block of test rows, shape (rows, items); the result has shape (rows, classes).
    """
    needed, is_exact = np.full_like(lead, UNREACHABLE), kinds.is_exact
    for chosen, best, rival in _pairs(votes, winner, lead.shape[1]):
        tiers: dict[tuple[int, int], int] = {}
        positive = _lots(kinds.options(best, rival), tiers)
        negative = _lots(kinds.options(rival, best), tiers)
        can_change = np.asarray((np.maximum(positive.tier, negative.tier) >= 0).any(axis=1))[kinds.kind]
        if not can_change.any():
            continue
        here, size = kinds.kind[can_change], votes[np.ix_(chosen, can_change)]
        is_negative = size < 0
        has_two = (positive.tier[here, 1] >= 0) | (negative.tier[here, 1] >= 0)
        tiers_and_gains = []
        for lot, items in ((0, np.ones(len(here), dtype=bool)), (1, has_two)):
            kind, votes_of = here[items], np.abs(size[:, items])
            down = is_negative[:, items]
            tiers_and_gains.append(
                (
                    np.where(down, negative.tier[kind, lot], positive.tier[kind, lot]),
                    np.where(down, negative.votes[kind, lot], positive.votes[kind, lot]) * votes_of,
                )
            )
        tier, gains = (np.concatenate(each, axis=1) for each in zip(*tiers_and_gains, strict=True))
        found, solved = _least_cost(gains, tier, list(tiers), lead[chosen, rival])
        needed[chosen, rival] = found
        is_exact &= solved
    return needed, is_exact


def _pairs(votes: Integers, winner: Integers, n_classes: int) -> Iterator[tuple[Integers, int, int]]:
    """Yield test rows with the same winner, a few at a time, their winner and each rival."""
    at_a_time = max(1, NUMBERS_AT_A_TIME // max(1, votes.shape[1]))
    for best in np.unique(winner):
        rows = np.flatnonzero(winner == best)
        for start in range(0, len(rows), at_a_time):
            for rival in range(n_classes):
                if rival != best:
                    yield rows[start : start + at_a_time], int(best), rival


def _least_cost(gains: Integers, tier: Integers, tiers: list[tuple[int, int]], lead: Integers) -> tuple[Integers, bool]:
    """Return the least cost of lots whose gains reach the lead, and whether it is exact (else a lower bound)."""
    costs = np.array([cost for cost, _ in tiers] + [1], dtype=np.int64)  # the last one is that of missing lots
    multiple = lcm(*costs.tolist()) if costs.max() <= LARGEST_COST else COMMON_MULTIPLE
    per_change = gains * ceil_divide(np.full(len(costs), multiple), costs)[tier]
    order = np.argsort(-per_change, axis=1)
    sorted_gains, sorted_tier = np.take_along_axis(gains, order, axis=1), np.take_along_axis(tier, order, axis=1)
    rows = np.arange(len(gains))
    reach = np.cumsum(sorted_gains, axis=1)
    can_reach = reach[:, -1] >= lead
    if costs.max() > LARGEST_COST:
        sorted_costs = np.where(sorted_gains > 0, costs[sorted_tier], 0)
        shares = np.take_along_axis(per_change, order, axis=1)
        upper = np.cumsum(shares * sorted_costs, axis=1)
        at = np.minimum(np.count_nonzero(upper < multiple * lead[:, None], axis=1), gains.shape[1] - 1)
        before = np.cumsum(sorted_costs, axis=1)[rows, at] - sorted_costs[rows, at]
        missing = multiple * lead - (upper[rows, at] - shares[rows, at] * sorted_costs[rows, at])
        bound = before + ceil_divide(missing, np.maximum(shares[rows, at], 1))
        return np.where(can_reach, bound, UNREACHABLE), not can_reach.any()
    n_prefix = np.count_nonzero(reach < lead[:, None], axis=1)
    in_prefix = np.arange(gains.shape[1]) < n_prefix[:, None]
    base_gain = np.where(in_prefix, sorted_gains, 0).sum(axis=1)
    base_cost = np.where(in_prefix & (sorted_gains > 0), costs[sorted_tier], 0).sum(axis=1)
    n_halves = sum(half > 0 for _, half in tiers)
    limit = int(costs.max()) * (int(costs.max()) + n_halves)
    best = np.full((len(gains), 2 * limit + 1), IMPOSSIBLE, dtype=np.int64)  # gain for each difference in cost
    best[:, limit] = base_gain
    for number, (cost, half) in enumerate(tiers):
        of_tier = np.where(sorted_tier == number, sorted_gains, 0)
        taken = np.count_nonzero((of_tier > 0) & in_prefix, axis=1)
        best = _exchange(best, -np.sort(-of_tier, axis=1), taken, cost, half)
    reached = np.maximum.accumulate(best, axis=1) >= lead[:, None]
    return np.where(can_reach, base_cost + np.argmax(reached, axis=1) - limit, UNREACHABLE), True


def _exchange(best: Integers, gains: Integers, taken: Integers, cost: int, half: int) -> Integers:
    """Take more or fewer lots of one cost than the prefix does; return the largest gain for each difference in cost."""
    n_costs = best.shape[1]
    most = (n_costs // 2) // cost
    place = taken[:, None] + np.arange(-most, most + 1)
    inside = (place >= 0) & (place < gains.shape[1])
    lots = np.where(inside, np.take_along_axis(gains, np.clip(place, 0, gains.shape[1] - 1), axis=1), 0)
    added = np.concatenate([np.zeros((len(best), 1), dtype=np.int64), np.cumsum(lots, axis=1)], axis=1)
    result = np.full_like(best, IMPOSSIBLE)
    for step in range(2 * most + 1):
        # gain of this many more lots than the prefix takes; a place before the first lot is impossible
        change = np.where(place[:, step] >= 0, added[:, step] - added[:, most], IMPOSSIBLE)
        _improve(result, best, (step - most) * cost, change)
        if half:
            _improve(result, best, (step - most) * cost + half, change + lots[:, step] // 2)
    return result


def _improve(result: Integers, best: Integers, shift: int, change: Integers) -> None:
    """Update `result` by `best` plus a change that costs `shift`."""
    n_costs = best.shape[1]
    if abs(shift) >= n_costs:
        return
    into = slice(max(0, shift), n_costs + min(0, shift))
    source = slice(max(0, -shift), n_costs + min(0, -shift))
    np.maximum(result[:, into], np.maximum(best[:, source] + change[:, None], IMPOSSIBLE), out=result[:, into])


def annotators_to_overturn(
    votes: Integers, winner: Integers, lead: Integers, powers: MajorityPowers
) -> tuple[Integers, bool]:
    """Return a number of annotators below which each class cannot win, and whether the least one is exact.

    Like :func:`annotations_to_overturn`. `powers` have groups.
    """
    annotations, _ = annotations_to_overturn(votes, winner, lead, powers.kinds)
    search = _Annotators(powers)
    needed = np.full_like(lead, UNREACHABLE)
    for chosen, best, rival in _pairs(votes[:, powers.votes.item], winner, lead.shape[1]):
        shares = search.shares(votes[chosen], best, rival)
        reach = np.cumsum(-np.sort(-shares, axis=1), axis=1)
        by_shares = np.count_nonzero(reach < COMMON_MULTIPLE * lead[chosen, rival, None], axis=1) + 1
        by_number = np.searchsorted(search.most_annotations, annotations[chosen, rival]) + 1
        is_possible = annotations[chosen, rival] != UNREACHABLE
        needed[chosen, rival] = np.where(is_possible, np.maximum(by_shares, by_number), UNREACHABLE)
    is_exact = True
    for row in range(len(winner)):
        is_exact &= search.sharpen(votes[row], int(winner[row]), lead[row], needed[row])
    return needed, is_exact


class _Annotators:
    """Sets of annotators, and what they can gain."""

    def __init__(self, powers: MajorityPowers):
        assert powers.groups is not None
        self.powers, self.kinds = powers, powers.kinds
        annotation = np.flatnonzero(powers.changeable)
        names, group = np.unique(powers.groups[annotation], return_inverse=True)
        order = np.argsort(group, kind="stable")
        self.group = group.reshape(-1)[order]
        self.item, self.label = powers.votes.item[annotation][order], powers.votes.codes[annotation][order]
        self.first = np.searchsorted(self.group, np.arange(len(names)))
        self.sizes = np.bincount(self.group, minlength=len(names))
        self.most_annotations = np.cumsum(-np.sort(-self.sizes))
        self.outcomes = _Outcomes(powers)

    def shares(self, votes: Integers, best: int, rival: int) -> Integers:
        """Return h_a of each annotator times `COMMON_MULTIPLE`, rounded up, shape (rows, annotators)."""
        if not len(self.item):
            return np.zeros((len(votes), 0), dtype=np.int64)
        size = votes[:, self.item]
        kind = self.kinds.kind[self.item]
        up = _per_change(self.kinds.options(best, rival), kind, self.label == rival)
        down = _per_change(self.kinds.options(rival, best), kind, self.label == best)
        return np.add.reduceat(np.where(size < 0, down, up) * np.abs(size), self.first, axis=1)

    def sharpen(self, votes: Integers, winner: int, lead: Integers, needed: Integers) -> bool:
        """Raise the least entry of `needed` while no set of annotators attains it; tell whether one does.

        `needed` is changed. If nothing overturns the prediction, the result is True.
        """
        budget = _Budget(MOST_TRIED, MOST_STEPS)
        while True:
            rival = int(np.argmin(needed))
            if needed[rival] == UNREACHABLE:
                return True
            if needed[rival] > len(self.first):  # not even all annotators together
                needed[rival] = UNREACHABLE
                continue
            shares = self.shares(votes[None, :], winner, rival)[0]
            order = np.argsort(-shares, kind="stable")
            wanted = COMMON_MULTIPLE * int(lead[rival])
            for chosen in _sets(shares[order], int(needed[rival]), wanted, budget):
                members = order[list(chosen)]
                budget.annotations -= int(self.sizes[members].sum())
                gain, is_exact = self.gain(members, votes, winner, rival)
                if gain >= lead[rival]:
                    return self.kinds.is_exact and is_exact
            if budget.is_spent:
                return False
            needed[rival] += 1  # all sets of this size were tried

    def gain(self, chosen: Integers, votes: Integers, winner: int, rival: int) -> tuple[int, bool]:
        """Return the largest gain of a set of annotators against one rival, and whether it is exact, else a bound."""
        theirs = np.concatenate([np.arange(self.first[one], self.first[one] + self.sizes[one]) for one in chosen])
        items, place = np.unique(self.item[theirs], return_inverse=True)
        n_classes = self.powers.votes.n_classes
        cell = place.reshape(-1) * n_classes + self.label[theirs]
        free = np.bincount(cell, minlength=len(items) * n_classes).reshape(-1, n_classes).astype(np.int64)
        kinds = self.outcomes.kinds(items, free)
        up, down = (_most_votes(kinds.options(*pair))[kinds.kind] for pair in ((winner, rival), (rival, winner)))
        size = votes[items]
        return int((np.where(size < 0, down, up) * np.abs(size)).sum()), kinds.is_exact


class _Outcomes:
    """What sets of annotators can make of items: computed once for each way to own annotations of a kind of item.

    A way is numbered by the kind of item, whose counts of annotations are the same, and by how many annotations of each
    class the set has; these are digits of an integer. Where this does not fit into an int64, nothing is kept.
    """

    def __init__(self, powers: MajorityPowers):
        self.transitions = powers.transitions
        self.counts = powers.votes.counts()
        kinds, kind = np.unique(self.counts, axis=0, return_inverse=True)
        self.kind, self.base = kind.reshape(-1), int(self.counts.max(initial=0)) + 1
        self.is_kept = len(kinds) * self.base ** self.counts.shape[1] < 2**63
        self.ways = np.zeros(0, dtype=np.int64)
        self.known = ItemKinds(self.ways, self.ways, np.zeros((0, self.counts.shape[1] + 1), dtype=np.int64), True)

    def kinds(self, items: Integers, free: Integers) -> ItemKinds:
        """Return items of which some annotations can be changed, `free` of each class, as items of known kinds."""
        if not self.is_kept:
            both, kind = np.unique(np.concatenate([free, self.counts[items]], axis=1), axis=0, return_inverse=True)
            return self._kinds_of(kind.reshape(-1), *np.split(both, 2, axis=1))
        way = self.kind[items]
        for of_class in free.T:
            way = way * self.base + of_class
        unknown = np.flatnonzero(~np.isin(way, self.ways))
        if len(unknown):
            more, first = np.unique(way[unknown], return_index=True)
            at = unknown[first]
            found = self._kinds_of(np.zeros(0, dtype=np.int64), free[at], self.counts[items[at]])
            order = np.argsort(np.concatenate([self.ways, more]), kind="stable")
            self.ways = np.concatenate([self.ways, more])[order]
            self.known = ItemKinds(
                found.kind,
                np.concatenate([self.known.state, found.state])[order],
                np.concatenate([self.known.costs, found.costs])[order],
                self.known.is_exact and found.is_exact,
            )
        return replace(self.known, kind=np.searchsorted(self.ways, way))

    def _kinds_of(self, kind: Integers, free: Integers, counts: Integers) -> ItemKinds:
        costs, is_exact = changes_needed(free, counts - free, self.transitions)
        return ItemKinds(kind, states_of(counts), costs, is_exact)


def _most_votes(options: Options) -> Integers:
    return np.where(options.twice < NEVER, 2, np.where(options.once < NEVER, 1, 0))


def _per_change(options: Options, kind: Integers, is_target: NDArray[np.bool_]) -> Integers:
    """Return the largest gain per changed annotation, as a multiple of the vote and of `COMMON_MULTIPLE`.

    An annotation of the target class cannot help that class to win: changing it back leaves the target ahead, and takes
    one change less.
    """
    multiple = np.full(len(options.once), COMMON_MULTIPLE)
    once = np.where(options.once < NEVER, ceil_divide(multiple, options.once), 0)
    twice = np.where(options.twice < NEVER, ceil_divide(2 * multiple, options.twice), 0)
    by_leaving = np.where(options.leave < NEVER, ceil_divide(multiple, options.leave), 0)
    return np.where(is_target, by_leaving[kind], np.maximum(once, twice)[kind])


@dataclass
class _Budget:
    """How many annotations the sets that are still tried may have, and in how many steps they are found."""

    annotations: int
    steps: int

    @property
    def is_spent(self) -> bool:
        return self.annotations < 0 or self.steps < 0


def _sets(shares: Integers, size: int, wanted: int, budget: _Budget) -> Iterator[tuple[int, ...]]:
    """Yield all sets of `size` positions whose shares, given in descending order, add up to `wanted`; none twice."""
    sums = np.concatenate([[0], np.cumsum(shares)]).tolist()
    stack: list[tuple[tuple[int, ...], int, int]] = [((), 0, 0)]  # chosen, the next position, sum of shares
    while stack:
        budget.steps -= 1
        if budget.is_spent:
            return
        chosen, start, total = stack.pop()
        left = size - len(chosen)
        if left == 0:
            yield chosen
            continue
        if start + left > len(shares) or total + sums[start + left] - sums[start] < wanted:
            continue  # the largest ones that are left do not suffice
        stack.append((chosen, start + 1, total))
        stack.append(((*chosen, start), start + 1, total + int(shares[start])))
