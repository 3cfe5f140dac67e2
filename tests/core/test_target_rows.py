"""Means and medians under added and removed rows, against every choice of rows, on small integer problems."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from flipproof.core.neighbor_cuts import NearestRows
from flipproof.core.target_rows import (
    MeanOfAll,
    NearestMean,
    NearestMedian,
    RowPower,
    WeightedMean,
    best_removals,
    fewest_changes,
)
from flipproof.core.targets import NEVER

CHANGES = ("rows", "insertions", "removals")


def attacks(n, removable, changes, r):
    """Yield the rows that are kept, and how many are added."""
    free = np.flatnonzero(removable)
    for e in range(0 if changes == "insertions" else r, -1, -1) if changes != "insertions" else [0]:
        for gone in combinations(free, min(e, len(free))):
            kept = np.setdiff1d(np.arange(n), gone)
            for a in range((0 if changes == "removals" else r) + 1):
                yield kept, a


def check(reach, every, power, step):
    """Compare the best numbers and the fewest changes with those found by trying everything."""
    for r, expected in enumerate(every):
        assert reach.best(r) == expected
        assert expected <= reach.ceiling
    for goal in {*every, *(one + step for one in every), every[0] - step}:
        if goal < every[0]:
            continue
        needed = next((r for r, one in enumerate(every) if one > goal), None)
        found = reach.fewest(lambda one, goal=goal: one > goal)
        assert found == needed if needed is not None else found >= len(every)
        if found == NEVER:
            assert reach.best(10**4) <= goal


def power_of(rng, n, changes):
    removable = rng.random(n) < 0.7
    return RowPower(changes, removable, int(removable.sum()) if changes == "removals" else 10**5)


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("seed", range(25))
def test_mean_of_all_rows(seed, changes):
    rng = np.random.default_rng([seed, len(changes)])
    n = int(rng.integers(0, 6))
    terms, largest = rng.integers(-5, 6, size=n), 5
    power = power_of(rng, n, changes)

    def mean(kept, a):
        count = len(kept) + a
        return Fraction(int(terms[kept].sum()) + a * largest, count) if count else Fraction(0)

    every = [max(mean(*one) for one in attacks(n, power.removable, changes, r)) for r in range(5)]
    check(MeanOfAll.of(terms, largest, power), every, power, Fraction(1, 60))


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("seed", range(25))
def test_weighted_mean(seed, changes):
    rng = np.random.default_rng([seed, len(changes)])
    n, top, largest = int(rng.integers(0, 6)), 4, int(rng.integers(1, 5))
    weights, targets = rng.integers(1, largest + 1, size=n), rng.integers(-4, top + 1, size=n)
    power = power_of(rng, n, changes)

    def mean(kept, a):
        weight = int(weights[kept].sum()) + a * largest
        return Fraction(int((weights * targets)[kept].sum()) + a * largest * top, weight) if weight else Fraction(0)

    every = [max(mean(*one) for one in attacks(n, power.removable, changes, r)) for r in range(5)]
    check(WeightedMean(weights, targets, power.removable, largest, top, power), every, power, Fraction(1, 500))


@pytest.mark.parametrize("seed", range(40))
def test_the_largest_gains_are_those_of_integers(seed):
    """Also where floats cannot tell gains apart, and where rows are equal."""
    rng = np.random.default_rng(seed)
    n, bits = int(rng.integers(2, 60)), int(rng.choice([2, 10, 24]))
    weights = rng.integers(1, 2**bits, size=n)
    targets = rng.integers(-(2 ** int(rng.choice([2, 19]))), 2 ** int(rng.choice([1, 19])), size=n)
    if seed % 3 == 0:  # gains differ by less than floats can tell: every weight times its distance from 0 is 2**40
        weights = 2 ** rng.integers(20, 25, size=n) // (1 + (np.arange(n) == 0))
        targets = -(2**40 // weights)
    denominator = int(rng.choice([1, 3, 2**53 - 111]))
    level = Fraction(int(rng.integers(-(2**15), 2**15)) * denominator + int(rng.integers(denominator)), denominator)
    if seed % 3 == 0:
        level = Fraction(int(rng.integers(1, 9)), denominator)
    exact = sorted((int(k) * (level - int(s)) for k, s in zip(weights, targets, strict=True)), reverse=True)
    for most in {0, 1, n // 2, n - 1, n}:
        chosen = best_removals(weights, targets, level, most) if most else np.zeros(0, dtype=np.int64)
        assert len(set(chosen.tolist())) == len(chosen) <= most
        gained = sum(int(weights[one]) * (level - int(targets[one])) for one in chosen)
        assert gained == sum(one for one in exact[:most] if one > 0)


def voters(places, k):
    """Return the targets that vote: the rows of the nearest places, whole places at a time, until there are k."""
    found = []
    for _, targets in sorted(places.items()):
        if len(found) >= k:
            break
        found += targets
    return found


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("average", ["mean", "median up", "median down"])
@pytest.mark.parametrize("seed", range(25))
def test_nearest_rows(seed, average, changes):
    """Added rows may be at the test row, at every training row and between them; place 0 is the test row."""
    rng = np.random.default_rng([seed, len(changes), len(average)])
    n, k, top = int(rng.integers(0, 6)), int(rng.integers(1, 4)), 4
    place = 2 * np.sort(rng.integers(0, 4, size=n))
    is_lowest = average == "median down"
    targets = rng.integers(-top, top + 1, size=n)
    power = power_of(rng, n, changes)

    def value(of):
        if average == "mean":
            return Fraction(sum(of), len(of)) if of else Fraction(0)
        if not of:
            return Fraction(top if is_lowest else -top)  # the low end, with the sign of the targets
        return Fraction(sorted(of)[len(of) // 2 if is_lowest else (len(of) - 1) // 2])

    def all_values(r):
        for kept, a in attacks(n, power.removable, changes, r):
            for split in multisets(range(9), a):
                rows = {}
                for j in kept:
                    rows.setdefault(int(place[j]), []).append(int(targets[j]))
                for where in split:
                    rows.setdefault(where, []).append(top)
                yield value(voters(rows, k))

    every = [max(all_values(r)) for r in range(4)]
    ends = np.append(np.diff(place) > 0, True)[:n].astype(bool)
    is_hit = bool(n and place[0] == 0)
    if average == "mean":
        reach = NearestMean(targets, ends, power.removable, is_hit, k, top, power)
    else:
        nearest = NearestRows(np.zeros((1, n), int), ends[None], power.removable[None], np.array([is_hit]), n)
        reach = NearestMedian(targets, nearest, int(every[0]), top, is_lowest, k, power)
    check(reach, every, power, Fraction(1, 60) if average == "mean" else 1)


def multisets(values, size):
    """Yield up to two different places for the added rows."""
    values = list(values)
    if not size:
        yield []
        return
    for i, one in enumerate(values):
        for other in values[i:]:
            for n_first in range(size if other != one else 1, 0, -1):
                yield [one] * n_first + [other] * (size - n_first)


def test_a_search_that_ends_early_is_on_the_safe_side():
    power = RowPower("rows", np.ones(2, dtype=bool), 3)
    reach = MeanOfAll.of(np.array([-5, -5]), 5, power)
    assert fewest_changes(reach, lambda one: one >= 5, RowPower("rows", power.removable, 1)) == 2
    assert fewest_changes(reach, lambda one: one > 5, power) == NEVER
