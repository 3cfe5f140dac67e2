"""Targets on a grid: rounding of ranges and moves, exact limits, medians; small cases by enumeration."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flipproof.core import targets
from flipproof.core.target_medians import median_reach
from flipproof.core.targets import (
    NEVER,
    TARGET_BITS,
    ListedVotes,
    Reachable,
    TargetGrid,
    Units,
    crossing,
    sum_reach,
    sums_fit,
    tolerated,
)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.floats(0, 1))
def test_both_ends_of_the_range_are_on_the_grid_and_rounding_is_monotone(low, width, share):
    high = low + width
    if high - low < 1e-9 * abs(low) or high == low:
        return
    grid = TargetGrid.of(low, high)
    y = np.sort([low, high, low + share * (high - low)])
    t = grid.integers(np.clip(y, low, high))
    assert t[0] == 0
    assert t[-1] == grid.steps < 2**TARGET_BITS
    assert np.all(np.diff(t) >= 0)


def test_integer_prices_are_exact():
    grid = TargetGrid.of(0.0, 1_000_000.0)
    prices = np.array([0.0, 1.0, 499_999.0, 1_000_000.0])
    np.testing.assert_array_equal(grid.integers(prices), prices)


def test_a_move_is_rounded_after_it_is_added():
    grid = TargetGrid.of(0.0, float(2**TARGET_BITS - 1))  # a step is 1
    y = np.array([10.4, 10.6, 0.2])
    lowest, highest = grid.ends_within(y, 0.45)
    np.testing.assert_array_equal(grid.integers(y), [10, 11, 0])
    np.testing.assert_array_equal(grid.integers(highest), [11, 11, 1])  # 10.85, 11.05, 0.65; round(0.45) is 0
    np.testing.assert_array_equal(grid.integers(lowest), [10, 10, 0])


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["sum", "median"])
def test_reach_is_that_of_every_change(kind, seed):
    rng = np.random.default_rng(seed)
    w = int(rng.integers(1, 6))
    votes = np.ones((1, w), dtype=int) if kind == "median" else rng.integers(-3, 4, size=(1, w))
    t = rng.integers(0, 6, size=w)
    lowest, highest = np.maximum(t - rng.integers(0, 6, size=w), 0), np.minimum(t + rng.integers(0, 6, size=w), 5)
    groups = rng.integers(0, 3, size=w) if seed % 2 else None
    reachable = Reachable(t, lowest, highest, groups, w)
    listed = ListedVotes(votes, np.arange(w)[None])
    reach = median_reach(listed, reachable) if kind == "median" else sum_reach(listed, reachable, 2)

    def value(targets):
        return np.sort(targets)[(w - 1) // 2] if kind == "median" else int(votes[0] @ (np.array(targets) - 2))

    owners = np.arange(w) if groups is None else groups
    every = {}
    for r in range(4):
        values = set()
        for chosen in combinations(np.unique(owners), min(r, len(np.unique(owners)))):
            choices = [range(lowest[j], highest[j] + 1) if owners[j] in chosen else [t[j]] for j in range(w)]
            values |= {value(targets) for targets in product(*choices)}
        every[r] = min(values), max(values)
        low, high = reach.ends([r])
        assert (low[0, 0], high[0, 0]) == every[r]
    assert reach.value[0] == value(t)
    for goal in range(every[3][0] - 1, every[3][1] + 2):
        up = next((r for r in range(4) if every[r][1] >= goal), None)
        down = next((r for r in range(4) if every[r][0] <= goal), None)
        for upward, expected in ((True, up), (False, down)):
            fewest = reach.fewest(np.array([goal]), upward)[0]
            assert fewest == expected if expected is not None else fewest > 3


@settings(max_examples=50)
@given(st.floats(0, 1e3), st.integers(1, 10**6), st.integers(-20, 40))
def test_moves_within_a_tolerance_are_exact(tolerance, divisor, exponent):
    units = Units(0.5, np.array([divisor]), np.array([exponent]))
    moves = int(units.moves_within(tolerance)[0])
    if moves < NEVER // 2:
        size = Fraction(1, divisor) / Fraction(2) ** exponent
        assert moves * size <= Fraction(tolerance) < (moves + 1) * size


@settings(max_examples=50)
@given(st.floats(-1e3, 1e3), st.integers(1, 1000), st.integers(0, 30))
def test_thresholds_are_compared_as_predictions_are(threshold, divisor, exponent):
    units = Units(-3.7, np.array([divisor]), np.array([exponent]))
    least = units.least_reaching(threshold)
    assert units.numbers(least)[0] >= threshold > units.numbers(least - 1)[0]


def test_what_nothing_can_do_needs_more_changes_than_there_are():
    listed = ListedVotes(np.zeros((1, 3), dtype=int), np.arange(3)[None])
    reachable = Reachable(np.arange(3), np.zeros(3, dtype=int), np.full(3, 9), None, 3)
    reach, units = sum_reach(listed, reachable, 0), Units(0.0, np.array([1]), np.array([0]))
    assert tolerated(reach, units, 0.0)[0] == NEVER
    assert crossing(reach, units, 1.0)[0] == NEVER


def test_sums_that_need_more_than_64_bits_are_noticed():
    grid = TargetGrid.of(0.0, 1.0)
    assert sums_fit(10**6, 16, grid, grid.steps // 2)
    assert not sums_fit(10**6, 24, grid, grid.steps // 2)


@pytest.mark.parametrize("seed", range(4))
def test_many_moves_are_sorted_as_far_as_needed(seed, monkeypatch):
    """The same as by sorting all moves: equal moves, large ones side by side, and radii of any depth."""
    monkeypatch.setattr(targets, "ALWAYS_SORTED", 64)
    monkeypatch.setattr(targets, "USUAL_DEPTH", 4)
    rng = np.random.default_rng(seed)
    w, m = 700, 6
    votes = rng.integers(-(2**15), 2**15, size=(m, w))
    votes[0], votes[1] = 7, np.sort(votes[1])  # all equal; the largest are neighbours, so that the sample misses some
    votes[2, 40:] = 0
    t, lowest, highest = rng.integers(0, 2**20, size=w), np.zeros(w, dtype=int), np.full(w, 2**20 - 1)
    groups = rng.integers(0, 300, size=w) if seed % 2 else None
    listed, reachable = ListedVotes(votes, np.arange(w)[None]), Reachable(t, lowest, highest, groups, w)
    monkeypatch.setattr(targets, "MOVES_AT_A_TIME", 1500)

    def nothing_sorted():
        """Return the reach anew: it keeps the largest moves that it was asked for, and then sorts no more."""
        return sum_reach(listed, reachable, 2**19)

    reach = nothing_sorted()
    for sign in (1, -1):
        moves = np.maximum(sign * votes * (highest - t), sign * votes * (lowest - t))
        if groups is not None:
            moves = np.stack([np.bincount(groups, line, minlength=300) for line in moves]).astype(int)
        sums = np.cumsum(np.c_[np.zeros(m, dtype=int), np.sort(moves, axis=1)[:, ::-1]], axis=1)
        for flips in ([0, 1, 3, 5], [60], [10**20, 2]):
            moved = sign * (nothing_sorted().ends(flips)[int(sign > 0)] - reach.value[:, None])
            np.testing.assert_array_equal(moved, sums[:, [min(r, sums.shape[1] - 1) for r in flips]])
        for place in (1, 4, 5, 90, 250, sums.shape[1] - 1):
            for more in (0, 1):
                needed = sums[:, place] + more
                expected = [
                    next((r for r, one in enumerate(line) if one >= n), NEVER)
                    for line, n in zip(sums, needed, strict=True)
                ]
                goal = reach.value + sign * needed
                np.testing.assert_array_equal(nothing_sorted().fewest(goal, upward=sign > 0), expected)
                np.testing.assert_array_equal(reach.fewest(goal, upward=sign > 0), expected)
