"""Medians of nearest neighbours' targets, and how far changed targets move them (M16).

A (lower) median is a rank, not a sum: a change helps if it takes a target across a threshold, so attacks are
counted for each threshold. Intervals and radii are exact integers, as in :mod:`flipproof.core.targets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers
from flipproof.core.targets import NEVER, ListedVotes, Reachable, first_at_least, largest_first


@dataclass(frozen=True)
class MedianReach:
    """The reach of the lower median of the targets that vote, each with one vote.

    The lower median of w targets has the rank ``q = (w - 1) // 2``, from 0: it is at least v if and only if at most q
    targets are below v, and at most v if and only if at most w - 1 - q targets are above v.

    Soundness: to lift the median to v, an adversary needs enough targets below v that are changed to v or more. A
    target helps if ``t_j < v <= highest_j``, and a group helps by the number of its targets that do. So the fewest
    changes are the shortest list of groups, those that help most first, that leaves at most q targets below v; nothing
    else lowers that number. Lowering is the same with signs turned. What r changes reach ends where v passes a target
    or an end, so the largest reachable v is one of these. Exact, both ways (M16).

    Attributes
    ----------
    value : integers of shape (m,)
        The lower medians.
    targets, lowest, highest : integers of shape (m, w)
        Of the rows that vote.
    votes : booleans of shape (m, w)
        Whether a row votes; False for padding.
    groups : integers of shape (m, w)
        Equal numbers belong to one group.
    is_grouped : bool
        Whether a group may have several targets.
    """

    value: Integers
    targets: Integers
    lowest: Integers
    highest: Integers
    votes: NDArray[np.bool_]
    groups: Integers
    is_grouped: bool = True

    def ends(self, n_changes: Sequence[int]) -> tuple[Integers, Integers]:
        """Return the lowest and the highest median after any `n_changes` changes."""
        if not self.is_grouped:
            return self._farthest_alone(n_changes, upward=False), self._farthest_alone(n_changes, upward=True)
        lower, upper = (
            np.stack([self._farthest(number, upward) for number in n_changes], axis=1) for upward in (False, True)
        )
        return lower, upper

    def _farthest_alone(self, n_changes: Sequence[int], upward: bool) -> Integers:
        """Return the farthest target or end that the median reaches if each target is changed alone.

        Soundness: with q targets that may stay below, r changes lift the median to v if and only if at most q + r
        targets are below v, and at most q of their ends: an end below v keeps its target there, and no end is below
        its target. So v is at most the target of rank q + r, if there is one, and the end of rank q, from 0. The lesser
        of these is reached.
        """
        sign, width = (1 if upward else -1), self.targets.shape[1]
        ends = self.highest if upward else self.lowest
        targets, ends = (np.sort(np.where(self.votes, sign * one, NEVER), axis=1) for one in (self.targets, ends))
        n_votes = self.votes.sum(axis=1)
        may_stay = self._may_stay(n_votes, upward)[:, None]
        end = np.take_along_axis(ends, np.maximum(may_stay, 0), axis=1)
        places = may_stay + np.array([min(one, width) for one in n_changes])
        beyond = np.take_along_axis(targets, np.clip(places, 0, width - 1), axis=1)
        farthest = np.minimum(np.where(places < width, beyond, NEVER), end)
        return np.asarray(np.where(n_votes[:, None] > 0, sign * farthest, self.value[:, None]))

    @staticmethod
    def _may_stay(n_votes: Integers, upward: bool) -> Integers:
        """Return how many targets may stay on this side of a goal that the median reaches; -1 without any votes."""
        return (n_votes - 1) // 2 if upward else n_votes - 1 - (n_votes - 1) // 2

    def _farthest(self, n_changes: int, upward: bool) -> Integers:
        """Return the farthest target or end that the median reaches, by bisection: farther goals need more changes."""
        sign, value = (1 if upward else -1), self.value[:, None]
        goals = np.concatenate([self.targets, self.highest if upward else self.lowest], axis=1)
        is_goal = np.concatenate([self.votes, self.votes], axis=1) & (sign * goals > sign * value)
        goals = sign * np.sort(sign * np.where(is_goal, goals, value), axis=1)  # nearest first; the first is the value
        low, high = np.zeros(len(goals), dtype=np.int64), np.full(len(goals), goals.shape[1], dtype=np.int64)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            reached = self.fewest(np.take_along_axis(goals, middle[:, None], axis=1)[:, 0], upward) <= n_changes
            low, high = np.where(reached, middle, low), np.where(reached, high, middle)
        farthest = np.take_along_axis(goals, low[:, None], axis=1)[:, 0]
        return np.where(self.fewest(farthest, upward) <= n_changes, farthest, self.value)

    def fewest(self, goal: Integers, upward: bool) -> Integers:
        """Return the fewest changes that bring the median to `goal` or beyond."""
        sign = 1 if upward else -1
        targets, ends = sign * self.targets, sign * (self.highest if upward else self.lowest)
        v = sign * goal[:, None]
        n_votes = self.votes.sum(axis=1)
        may_stay_below = self._may_stay(n_votes, upward)
        is_below = (targets < v) & self.votes
        needed = np.where(n_votes > 0, is_below.sum(axis=1) - may_stay_below, n_votes + 1)  # none: nothing to change
        helps = is_below & (ends >= v)
        if not self.is_grouped:
            needed = np.maximum(needed, 0)
            return np.asarray(np.where(helps.sum(axis=1) >= needed, needed, NEVER), dtype=np.int64)
        return first_at_least(largest_first(_counts_by_group(helps, self.groups)), needed)


def median_reach(listed: ListedVotes, reachable: Reachable) -> MedianReach:
    """Return the reach of the lower median of the targets whose vote is 1; without any, it is the low end, 0."""
    if not listed.votes.shape[1]:  # no training row is left
        none = np.zeros((len(listed.votes), 1), dtype=np.int64)
        return MedianReach(none[:, 0], none, none, none, none.astype(bool), none, reachable.groups is not None)
    members, is_vote = np.broadcast_to(listed.members, listed.votes.shape), listed.votes != 0
    targets = reachable.targets[members]
    in_order = np.sort(np.where(is_vote, targets, NEVER), axis=1)
    n_votes = is_vote.sum(axis=1)
    value = np.take_along_axis(in_order, np.maximum(n_votes - 1, 0)[:, None] // 2, axis=1)[:, 0]
    value = np.where(n_votes > 0, value, 0)
    groups = members if reachable.groups is None else reachable.groups[members]
    ends = reachable.lowest[members], reachable.highest[members]
    return MedianReach(value, targets, *ends, is_vote, groups, reachable.groups is not None)


def _counts_by_group(helps: NDArray[np.bool_], groups: Integers) -> Integers:
    """Return how many members of each group help, in the place of one of its members; 0 in all other places."""
    order = np.argsort(groups, axis=1, kind="stable")
    sorted_groups, sorted_helps = np.take_along_axis(groups, order, axis=1), np.take_along_axis(helps, order, axis=1)
    so_far = np.cumsum(sorted_helps, axis=1, dtype=np.int64)
    is_last = np.ones(helps.shape, dtype=bool)
    is_last[:, :-1] = sorted_groups[:, 1:] != sorted_groups[:, :-1]
    ends = np.maximum.accumulate(np.where(is_last, so_far, 0), axis=1)
    before = np.zeros_like(ends)
    before[:, 1:] = ends[:, :-1]
    return np.where(is_last, so_far - before, 0)


def median_moves(
    reach: MedianReach, members: Integers, n_changes: int, upward: bool
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the training rows whose targets to change, as :func:`flipproof.core.targets.largest_moves` does."""
    lower, upper = reach.ends([n_changes])
    v = (upper if upward else lower)[0, 0]
    if v == reach.value[0]:
        return members[:0], np.zeros(0, dtype=bool)
    sign = 1 if upward else -1
    ends = sign * (reach.highest if upward else reach.lowest)
    helps = (sign * reach.targets < sign * v) & reach.votes & (ends >= sign * v)
    counts = _counts_by_group(helps, reach.groups)[0]
    order = np.argsort(reach.groups[0], kind="stable")
    best = reach.groups[0][order][np.argsort(-counts, kind="stable")[:n_changes]]
    chosen = helps[0] & np.isin(reach.groups[0], best)
    return members[chosen], np.full(int(chosen.sum()), upward)
