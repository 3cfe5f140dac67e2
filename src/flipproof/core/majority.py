"""Majority first: several annotations per item, of which the majority gives one label, and what it takes to change it.

The label of an item is the class with strictly more annotations than every other class. If the largest number is shared
by several classes, or there are no annotations, the item has no label: it stays in the geometry and does not vote.
So an item is in one of K + 1 states, a class or *tied*, and an attacker pays for a new state by changing annotations.

Soundness (M15): the state of an item depends on its own annotations only, so items are independent of each other given
how many annotations are changed. With n_a annotations of class a, f_a of them changeable, moving x annotations turns n
into n'; the least number of changes is ``sum_a max(0, n'_a - n_a)``, if n' keeps what cannot be changed. For class e to
win, all moved annotations may go to e: that helps e most. So m changes suffice if and only if the other classes can be
brought below n_e + m by taking m changeable annotations away from them. For a tie at level L of classes a and b, the
least number is the larger one of what must be taken away (above L) and what is missing (below L at a and b), if the
other classes can hold the rest. If only some changes are allowed, small items are enumerated; for larger ones, all
changes are taken to be possible, which costs the attacker less, never more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from flipproof.core.powers import Powers
from flipproof.core.rounding import Integers

#: Cost of a state that cannot be reached. Sums of costs stay far below the limits of int64.
NEVER = 2**40

#: Most distributions of one item's annotations over the classes that are enumerated if only some changes are allowed.
MOST_DISTRIBUTIONS = 5_000

#: Most kinds of items for which this is done.
MOST_KINDS = 2_000


@dataclass(frozen=True)
class ItemVotes:
    """Annotations of items: the item and the class of each, as integers."""

    item: Integers
    codes: Integers
    n_items: int
    n_classes: int

    def counts(self, chosen: NDArray[np.bool_] | None = None) -> Integers:
        """Return how many annotations, or chosen ones, of each class every item has, shape (items, classes)."""
        cell = self.item * self.n_classes + self.codes
        found = np.bincount(cell if chosen is None else cell[chosen], minlength=self.n_items * self.n_classes)
        return found.reshape(self.n_items, self.n_classes).astype(np.int64)

    @cached_property
    def states(self) -> Integers:
        """The state of each item: its class, or K if it is tied or has no annotations."""
        return states_of(self.counts())


def states_of(counts: Integers) -> Integers:
    """Return the state of each item, given its annotations of each class: the majority, or K if there is none."""
    most = counts.max(axis=1, keepdims=True)
    is_clear = np.count_nonzero(counts == most, axis=1) == 1
    return np.asarray(np.where(is_clear & (most[:, 0] > 0), counts.argmax(axis=1), counts.shape[1]))


@dataclass(frozen=True)
class MajorityPowers(Powers):
    """What an adversary can do to annotations whose majority votes. `changeable` and `groups` are per annotation.

    Attributes
    ----------
    votes : ItemVotes
        The annotations.
    """

    votes: ItemVotes = None  # type: ignore[assignment]  # fields of Powers have defaults

    @cached_property
    def kinds(self) -> ItemKinds:
        """The items, grouped by what it takes to change them."""
        free = self.votes.counts(self.changeable)
        fixed = self.votes.counts() - free
        both, kind = np.unique(np.concatenate([free, fixed], axis=1), axis=0, return_inverse=True)
        free, fixed = np.split(both, 2, axis=1)
        costs, is_exact = changes_needed(free, fixed, self.transitions)
        return ItemKinds(kind.reshape(-1), states_of(free + fixed), costs, is_exact)


def majority_powers(powers: Powers, votes: ItemVotes) -> MajorityPowers:
    """Return powers over annotations as powers over the majorities of items."""
    return MajorityPowers(**vars(replace(powers)), votes=votes)


@dataclass(frozen=True)
class ItemKinds:
    """Items with the same annotations are of one kind: the states of kinds, and the costs of other states.

    Attributes
    ----------
    kind : integers of shape (items,)
        The kind of each item.
    state : integers of shape (kinds,)
        Present state.
    costs : integers of shape (kinds, classes + 1)
        Least number of annotations to change for each state; NEVER if it cannot be reached.
    is_exact : bool
        False if costs may be smaller than the least numbers.
    """

    kind: Integers
    state: Integers
    costs: Integers
    is_exact: bool

    def options(self, source: int, target: int) -> Options:
        """Return what each kind can contribute to moving a positive vote from class `source` to class `target`.

        A margin of source over target falls by the vote if the item leaves source or joins target, and by twice the
        vote if it does both. For negative votes, source and target change places.
        """
        to_target = self.costs[:, target]
        elsewhere = np.delete(self.costs, [source, target], axis=1).min(axis=1, initial=NEVER)
        from_source, from_others = self.state == source, (self.state != source) & (self.state != target)
        twice = np.where(from_source, to_target, NEVER)
        once = np.where(from_source, elsewhere, np.where(from_others, to_target, NEVER))
        once = np.where(once >= twice, NEVER, once)
        return Options(once, twice, np.where(from_source, elsewhere, NEVER))


@dataclass(frozen=True)
class Options:
    """Annotations to change for gaining an item's vote once or twice; NEVER if that is impossible or pays less.

    `leave` is the cost of gaining the vote once without joining the target, even if another option is better.
    """

    once: Integers
    twice: Integers
    leave: Integers


def changes_needed(free: Integers, fixed: Integers, transitions: NDArray[np.bool_]) -> tuple[Integers, bool]:
    """Return the least number of changes for each state, shape (kinds, classes + 1), and whether all are exact.

    `free` and `fixed` count the annotations of each class that can be changed and that cannot, shape (kinds, classes).
    """
    n_classes = free.shape[1]
    if (transitions | np.eye(n_classes, dtype=bool)).all():
        return _by_formula(free, fixed), True
    n_most = int((free + fixed).sum(axis=1).max(initial=0))
    if len(free) <= MOST_KINDS and comb(n_most + n_classes - 1, n_classes - 1) <= MOST_DISTRIBUTIONS:
        return _by_enumeration(free, fixed, transitions), True
    return _by_formula(free, fixed), False


def _by_formula(free: Integers, fixed: Integers) -> Integers:
    """Every changeable annotation can become any class."""
    counts = free + fixed
    n_classes = counts.shape[1]
    costs = np.full((len(counts), n_classes + 1), NEVER, dtype=np.int64)
    for winner in range(n_classes):
        others = np.delete(np.arange(n_classes), winner)
        for m in range(int(counts.sum(axis=1).max(initial=0)), -1, -1):
            most = counts[:, winner, None] + m - 1
            taken = np.maximum(counts[:, others] - most, 0).sum(axis=1)
            enough = (taken <= m) & (free[:, others].sum(axis=1) >= m) & (fixed[:, others] <= most).all(axis=1)
            costs[enough & (most[:, 0] >= 0), winner] = m
    costs[:, n_classes] = _costs_of_ties(free, fixed)
    return costs


def _costs_of_ties(free: Integers, fixed: Integers) -> Integers:
    counts = free + fixed
    n, n_classes = counts.sum(axis=1), counts.shape[1]
    costs = np.where(states_of(counts) == n_classes, 0, NEVER)
    for level in range(1, int(n.max(initial=0)) // 2 + 1):
        taken = np.maximum(counts - level, 0).sum(axis=1)
        missing = np.maximum(level - counts, 0)
        fits = (fixed <= level).all(axis=1) & (n - 2 * level >= 0) & (n - 2 * level <= (n_classes - 2) * level)
        for one in range(n_classes):
            for two in range(one + 1, n_classes):
                rest_fixed = fixed.sum(axis=1) - fixed[:, one] - fixed[:, two]
                cost = np.maximum(taken, missing[:, one] + missing[:, two])
                costs = np.where(fits & (rest_fixed <= n - 2 * level), np.minimum(costs, cost), costs)
    return np.asarray(costs, dtype=np.int64)


def _by_enumeration(free: Integers, fixed: Integers, transitions: NDArray[np.bool_]) -> Integers:
    """Some changes are allowed: visit all distributions that can be reached, class by class."""
    n_classes = free.shape[1]
    costs = np.full((len(free), n_classes + 1), NEVER, dtype=np.int64)
    for kind in range(len(free)):
        reached = {tuple((free[kind] + fixed[kind]).tolist()): 0}
        for source in np.flatnonzero(free[kind]):
            targets = np.flatnonzero(transitions[source])
            for _ in range(int(free[kind, source])):  # each changeable annotation once
                for counts, cost in list(reached.items()):
                    for target in targets:
                        moved = list(counts)
                        moved[source] -= 1
                        moved[target] += 1
                        key = tuple(moved)
                        reached[key] = min(cost + 1, reached.get(key, NEVER))
        states = states_of(np.array(list(reached), dtype=np.int64))
        np.minimum.at(costs[kind], states, np.array(list(reached.values()), dtype=np.int64))
    return costs
