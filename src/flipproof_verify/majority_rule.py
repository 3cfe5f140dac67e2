"""Exact certificates if every item votes once, for the majority of its annotations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.claimed import Claims, read_exponents, read_offsets
from flipproof_verify.container import ProofFile, UnreadableFileError
from flipproof_verify.verdicts import Findings
from flipproof_verify.votes_rule import Integers, Training, class_sums, vote_blocks

#: Items are fewer: a document must not claim more than memory holds.
MOST_ITEMS = 2**24

#: Items times classes are fewer, for the same reason.
MOST_COUNTS = 2**27

#: More changes than any item has annotations.
NEVER = 2**40

#: Distributions of an item's annotations that can be changed, which are enumerated if only some changes are possible.
MOST_DISTRIBUTIONS = 5_000

#: Sets of annotators that are tried for one claim.
MOST_SETS = 200_000

#: Shares of gains are multiplied by this, and rounded up.
UNIT = 2520

Counts = tuple[int, ...]


def check_majority(file: ProofFile, claims: Claims, found: Findings) -> Iterator[int]:
    """Check certificates of majorities; yield the number of rows done."""
    document, training, n_classes = file.document, Training.of(file), claims.n_classes
    n_items, n = document.get("n_items"), document["n_rows"]
    if type(n_items) is not int or not 0 <= n_items < MOST_ITEMS or n_items * n_classes >= MOST_COUNTS:
        raise UnreadableFileError("items", "There must be fewer than 2**24 items, and 2**27 counts of their classes.")
    items = _Items(file.codes("train.item", (n,), max(n_items, 1)), training, n_items, n_classes)
    stated = {"n_labels": n, "n_labelled": len(np.unique(items.item)), "n_tied": items.n_tied}
    if [one.get("values") for one in document["assumptions"] if one["code"] == "majority-first"] != [stated]:
        raise UnreadableFileError("assumptions", "The assumptions do not state the annotations of the proof.")
    offsets = read_offsets(file, n_classes)
    exponents = read_exponents(file)
    for rows, votes in vote_blocks(file, found.rows):
        scores = class_sums(votes, items.state, n_classes) + offsets[rows]
        leads = claims.check_scores(rows, scores, found, exponents[rows])
        for row, of_row, lead in zip(rows, votes.astype(np.int64), leads, strict=True):
            attack = _OnMajorities(items, of_row, int(claims.prediction[row]), lead)
            claims.check_radius(int(row), attack, found)
        yield len(rows)


class _Items:
    """The items, their states (a class, or K if there is no majority), and what it takes to change them."""

    def __init__(self, item: Integers, training: Training, n_items: int, n_classes: int):
        self.item, self.training, self.n_classes = item, training, n_classes
        self.counts = self._counted(np.ones(len(item), dtype=bool), n_items)
        free = self._counted(training.changeable, n_items)
        both, kind = np.unique(np.concatenate([free, self.counts - free], axis=1), axis=0, return_inverse=True)
        found = [self.changes_needed(tuple(one[:n_classes]), tuple(one[n_classes:])) for one in both.tolist()]
        self.costs = np.array(found, dtype=np.int64).reshape(-1, n_classes + 1)[kind.reshape(-1)]
        self.state = np.array([state_of(tuple(one)) for one in self.counts.tolist()], dtype=np.int64)
        self.n_tied = int(((self.state == n_classes) & (self.counts.sum(axis=1) > 0)).sum())
        self.is_exact = all(self.is_enumerated(sum(one[:n_classes])) for one in both.tolist())

    def _counted(self, chosen: NDArray[np.bool_], n_items: int) -> Integers:
        cells = self.item[chosen] * self.n_classes + self.training.label[chosen]
        return np.bincount(cells, minlength=n_items * self.n_classes).reshape(n_items, self.n_classes)

    def is_enumerated(self, n_free: int) -> bool:
        """Tell whether the costs are exact, not lower bounds, if `n_free` annotations of an item can be changed."""
        everything = bool((self.training.transitions | np.eye(self.n_classes, dtype=bool)).all())
        return everything or comb(n_free + self.n_classes - 1, self.n_classes - 1) <= MOST_DISTRIBUTIONS

    def changes_needed(self, free: Counts, fixed: Counts) -> Counts:
        """Return the least number of changed annotations for each state, given those that can be changed or not."""
        possible = self.training.transitions
        if (possible | np.eye(self.n_classes, dtype=bool)).all() or not self.is_enumerated(sum(free)):
            return _by_counting(free, fixed)  # with fewer possible changes, no number is smaller
        return _by_enumeration(free, fixed, tuple(map(tuple, possible.tolist())))

    def gains(self, votes: Integers, winner: int, rival: int) -> Integers:
        """Return by how much the margin falls if an item gets each state; 0 if it would rise."""
        worth = np.zeros(self.n_classes + 1, dtype=np.int64)
        worth[winner], worth[rival] = 1, -1
        return (votes[:, None] * (worth[self.state][:, None] - worth)).clip(0)


def state_of(counts: Counts) -> int:
    """Return the class with more annotations than any other; K if there is none."""
    most = max(counts)
    return counts.index(most) if most and counts.count(most) == 1 else len(counts)


@lru_cache(maxsize=100_000)
def _by_counting(free: Counts, fixed: Counts) -> Counts:
    """Every annotation that is not fixed can become any class."""
    counts = [a + b for a, b in zip(free, fixed, strict=True)]
    n, n_classes = sum(counts), len(counts)
    costs = [NEVER] * n_classes + [0 if state_of(tuple(counts)) == n_classes else NEVER]
    for winner in range(n_classes):
        others = [one for one in range(n_classes) if one != winner]
        for m in range(sum(free[one] for one in others) + 1):  # all of them become the winner
            most = counts[winner] + m - 1  # that another class may have
            taken = sum(max(0, counts[one] - most) for one in others)
            if most >= 0 and taken <= m and all(fixed[one] <= most for one in others):
                costs[winner] = m
                break
    for level in range(1, n // 2 + 1):  # two classes share the largest number, the others have the rest
        taken, rest = sum(max(0, one - level) for one in counts), n - 2 * level
        if max(fixed) > level or rest > (n_classes - 2) * level:
            continue
        for one in range(n_classes):
            for two in range(one + 1, n_classes):
                if sum(fixed) - fixed[one] - fixed[two] <= rest:
                    missing = max(0, level - counts[one]) + max(0, level - counts[two])
                    costs[n_classes] = min(costs[n_classes], max(taken, missing))
    return tuple(costs)


@lru_cache(maxsize=100_000)
def _by_enumeration(free: Counts, fixed: Counts, possible: tuple[tuple[bool, ...], ...]) -> Counts:
    """Try all that can become of the annotations, one at a time."""
    reached = {tuple(a + b for a, b in zip(free, fixed, strict=True)): 0}
    for old, n_free in enumerate(free):
        for _ in range(n_free):
            for counts, cost in list(reached.items()):
                for new in range(len(free)):
                    if possible[old][new]:
                        changed = list(counts)
                        changed[old], changed[new] = changed[old] - 1, changed[new] + 1
                        key = tuple(changed)
                        reached[key] = min(cost + 1, reached.get(key, NEVER))
    costs = [NEVER] * (len(free) + 1)
    for counts, cost in reached.items():
        costs[state_of(counts)] = min(costs[state_of(counts)], cost)
    return tuple(costs)


class _OnMajorities:
    """Changes of annotations, or of all annotations of annotators, one test row."""

    undecided = "search"

    def __init__(self, items: _Items, votes: Integers, winner: int, lead: Integers):
        self._items, self._votes, self._winner, self._lead = items, votes, winner, lead
        self._training = items.training

    def wins(self, rival: int, n_changes: int | None) -> bool | None:
        """Tell whether the rival wins after this many changes (None: any number)."""
        gains, lead = self._items.gains(self._votes, self._winner, rival), int(self._lead[rival])
        gains[self._items.costs >= NEVER] = 0
        if int(gains.max(axis=1, initial=0).sum()) < lead:
            return False  # not even if every item gets its worst state
        everything = int(self._training.changeable.sum())
        n_annotations = everything if n_changes is None else self._training.most_in_groups(n_changes)
        if n_annotations >= everything:
            return True if self._items.is_exact else None
        shares = self._shares(gains)
        if self._sum_of_largest(shares, n_annotations) < UNIT * lead or self._reach(gains, n_annotations) < lead:
            return False
        if self._training.group is not None and n_changes is not None:
            return self._by_annotators(shares, gains, lead, n_changes)
        return True if self._items.is_exact else None

    def _shares(self, gains: Integers) -> Integers:
        """Return what each changeable annotation contributes at most: a gain, divided by the changes that it needs.

        A changed annotation of the class that an item gets does not help: changed back, the class still wins.
        """
        per_change = -(-UNIT * gains // np.maximum(self._items.costs, 1))
        item, label = (array[self._training.changeable] for array in (self._items.item, self._training.label))
        of_annotation = per_change[item]
        of_annotation[np.arange(len(label)), label] = 0
        return np.asarray(of_annotation.max(axis=1, initial=0))

    @staticmethod
    def _sum_of_largest(values: Integers, count: int) -> int:
        return int(np.sort(values)[::-1][:count].sum())

    def _reach(self, gains: Integers, n_changes: int) -> int:
        """Return the largest sum of gains of items, each with one state, whose costs are at most `n_changes`."""
        best = np.zeros(n_changes + 1, dtype=np.int64)  # for each number of changes
        for options, costs in zip(gains, self._items.costs, strict=True):
            before = best.copy()
            for gain, cost in {(g, c) for g, c in zip(options.tolist(), costs.tolist(), strict=True) if g and c}:
                if cost <= n_changes:
                    best[cost:] = np.maximum(best[cost:], before[: n_changes + 1 - cost] + gain)
        return int(best[-1])

    def _by_annotators(self, shares: Integers, gains: Integers, lead: int, n_annotators: int) -> bool | None:
        """Try all sets of annotators whose shares suffice."""
        group = self._training.group
        assert group is not None
        names, place = np.unique(group[self._training.changeable], return_inverse=True)
        total = np.bincount(place.reshape(-1), shares, minlength=len(names)).astype(np.int64)
        order = np.argsort(-total, kind="stable")
        sums = np.concatenate([[0], np.cumsum(total[order])]).tolist()
        stack: list[tuple[tuple[int, ...], int, int]] = [((), 0, 0)]  # chosen, the next in order, sum of shares
        n_tried, some_undecided = 0, False
        while stack:
            chosen, at, so_far = stack.pop()
            n_left = n_annotators - len(chosen)
            if n_left == 0:
                gain, is_exact = self._gain_of(names[order[list(chosen)]], gains)
                if gain >= lead and is_exact:
                    return True
                some_undecided |= gain >= lead
            elif at + n_left <= len(names) and so_far + sums[at + n_left] - sums[at] >= UNIT * lead:
                stack.append((chosen, at + 1, so_far))
                stack.append(((*chosen, at), at + 1, so_far + int(total[order[at]])))
            n_tried += 1
            if n_tried > MOST_SETS:
                return None
        return None if some_undecided else False

    def _gain_of(self, annotators: Integers, gains: Integers) -> tuple[int, bool]:
        """Return the largest sum of gains if these annotators change their annotations; False if only a bound."""
        items, training = self._items, self._training
        assert training.group is not None
        theirs = np.isin(training.group, annotators) & training.changeable
        touched, place = np.unique(items.item[theirs], return_inverse=True)
        cells = place.reshape(-1) * items.n_classes + training.label[theirs]
        free = np.bincount(cells, minlength=len(touched) * items.n_classes).reshape(-1, items.n_classes)
        total, is_exact = 0, True
        for item, own in zip(touched, free, strict=True):
            costs = items.changes_needed(tuple(own.tolist()), tuple((items.counts[item] - own).tolist()))
            total += max((g for g, cost in zip(gains[item].tolist(), costs, strict=True) if cost < NEVER), default=0)
            is_exact &= items.is_enumerated(int(own.sum()))
        return total, is_exact
