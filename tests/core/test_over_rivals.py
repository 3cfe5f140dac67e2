"""Guarantees for the plurality: against rational arithmetic, and every attack on every small function."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from enumeration import all_labellings
from hypothesis import given, settings
from hypothesis import strategies as st

from flipproof.core.guarantees import (
    budget_over_rivals,
    divergence_budget,
    gaussian_radius,
    gaussian_radius_over_rivals,
    kl_radius,
    kl_radius_over_rivals,
    tight_radius,
    tight_radius_over_rivals,
    wins_over_rivals,
)
from flipproof.core.noise import LabelFlip

NOISES = [(0.1, 2), (0.45, 2), (0.1, 3), (0.6, 3), (0.3, 5), (0.85, 10)]


def noisy_changes(r, q, K):
    """The distribution of D under the new labels, in rational arithmetic."""
    q = Fraction(q)
    new = {0: Fraction(1)}
    for _ in range(r):
        stepped = {}
        for value, mass in new.items():
            for step, chance in ((1, 1 - q), (0, q * (K - 2) / (K - 1)), (-1, q / (K - 1))):
                stepped[value + step] = stepped.get(value + step, 0) + mass * chance
        new = stepped
    return new


def most_after(b, r, new):
    """H_r(b) in rational arithmetic: take D from r downward until the old labels, a mirror image, give it mass b."""
    left, gained = Fraction(b), Fraction(0)
    for value in range(r, -r - 1, -1):
        if left > 0 and new[value]:
            taken = min(left, new[-value])
            gained += taken / new[-value] * new[value]
            left -= taken
    return gained


@pytest.mark.parametrize(("q", "K"), NOISES)
def test_tight_radius_agrees_with_rational_arithmetic(q, K):
    noise, most = LabelFlip(q, K), 12
    changes = [noisy_changes(r, q, K) for r in range(most + 1)]
    for failure, rival in [(0.6, 0.1), (0.55, 0.3), (0.5, 0.01), (0.2, 0.05), (0.02, 0.001), (0.9, 0.02)]:
        L, R = np.log(failure), np.log(rival)
        radius = int(tight_radius_over_rivals(L, R, noise, most))
        # the actual input: exp(log(x)) is not x
        b, d = Fraction(float(np.exp(L))), Fraction(float(np.exp(R)))
        true = 0
        while true < most and sum(most_after(x, true + 1, changes[true + 1]) for x in (b, d)) < 1:
            true += 1
        assert radius == true
        assert radius >= tight_radius(L, noise, most)
    one_sided = int(tight_radius(np.log(0.3), noise, most))
    assert tight_radius_over_rivals(np.log([0.3, 0.3]), np.log([0.3, 0.9]), noise, most).tolist() == [one_sided] * 2


def test_a_plurality_below_one_half_can_be_certified():
    noise = LabelFlip(0.6, 3)
    assert tight_radius(np.log(0.55), noise, 100) == 0
    assert tight_radius_over_rivals(np.log(0.55), np.log(0.1), noise, 100) > 2


def vote_table(functions, q, K, n):
    """Labellings, and the vote G of each function at every labelling, shape (functions, labellings, K)."""
    labellings = all_labellings(n, K)
    distance = (labellings[:, None, :] != labellings[None, :, :]).sum(axis=2)
    chance = (1 - q) ** (n - distance) * (q / (K - 1)) ** distance
    votes = np.stack([(functions == c) @ chance for c in range(K)], axis=2)
    return labellings, distance, votes


def worst_functions(rng, labellings, K, number):
    """Functions whose votes move from class 0 to class 1 where that hurts most, by Neyman and Pearson."""
    found = []
    for _ in range(number):
        base, target = labellings[rng.integers(len(labellings), size=2)]
        score = (
            (labellings == target).sum(axis=1) - (labellings == base).sum(axis=1) + 1e-6 * rng.random(len(labellings))
        )
        share = rng.uniform(0.05, 0.5)
        function = np.zeros(len(labellings), dtype=int)
        function[score > np.quantile(score, 1 - share)] = 1
        if K > 2:
            function[(score < np.quantile(score, rng.uniform(0, 0.5))) & (function == 0)] = rng.integers(2, K)
        found.append(function)
    return np.array(found)


@pytest.mark.few(1)
@pytest.mark.parametrize(("q", "K", "n"), [(0.1, 2, 8), (0.3, 2, 8), (0.2, 3, 5), (0.5, 3, 5), (0.6, 4, 4)])
def test_no_attack_within_the_radius_changes_the_plurality(q, K, n):
    """Try every attack on every labelling, for random and for worst-case functions; the radius is attained."""
    rng = np.random.default_rng(n)
    noise, labellings = LabelFlip(q, K), all_labellings(n, K)
    random = rng.integers(K, size=(30, len(labellings))) * (rng.random((30, len(labellings))) < 0.6)
    functions = np.concatenate([random, worst_functions(rng, labellings, K, 60)])
    labellings, distance, votes = vote_table(functions, q, K, n)
    attained = gained = 0
    for vote in votes:
        decision = vote.argmax(axis=1)
        ordered = np.sort(vote, axis=1)
        with np.errstate(divide="ignore"):
            L, R = np.log(1 - ordered[:, -1] + 1e-15) + 1e-12, np.log(ordered[:, -2]) + 1e-12
        L, R = np.minimum(L, 0), np.minimum(R, 0)
        decided = wins_over_rivals(L, R)
        assert not np.any(decided & (ordered[:, -1] <= ordered[:, -2]))
        changed = decision[None, :] != decision[:, None]
        nearest = np.where(changed, distance, n + 1).min(axis=1)
        for radius in (tight_radius_over_rivals(L, R, noise, n), kl_radius_over_rivals(L, R, noise, n)):
            assert np.all(radius[decided] < nearest[decided])
        radius = tight_radius_over_rivals(L, R, noise, n)
        attained += np.count_nonzero(decided & (radius > 0) & (radius + 1 == nearest))
        gained += np.count_nonzero(radius[decided] > tight_radius(L, noise, n)[decided])
    assert attained > 0
    assert (gained > 0) == (K > 2)


def test_the_budget_is_the_smallest_divergence_at_which_a_rival_ties():
    """Example 3 for three atoms: a grid over all measures finds none that is cheaper, and one at exactly that cost."""
    grid = np.linspace(0.0005, 0.9995, 700)
    level, rest = grid[grid < 0.5], 1 - 2 * grid[grid < 0.5]
    for p, d in [(0.5, 0.3), (0.4, 0.35), (0.9, 0.05), (0.34, 0.33), (0.7, 0.3)]:
        o = max(1 - p - d, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = (
                level * np.log(level / p) + level * np.log(level / d) + np.where(rest > 0, rest * np.log(rest / o), 0)
            )
        budget = float(budget_over_rivals(np.log1p(-p), np.log(d)))
        assert budget <= cost.min()
        if o > 1e-3:
            assert budget == pytest.approx(cost.min(), rel=1e-2, abs=1e-4)


@pytest.mark.parametrize(
    ("L", "R"), [(-3000.0, -3500.0), (-3000.0, -3000.5), (-40.0, -90.0), (-0.1, -5.0), (-1.0, -1.2)]
)
def test_the_budget_agrees_with_high_precision_arithmetic(L, R):
    with mpmath.workdps(4000):
        p, d = 1 - mpmath.exp(L), mpmath.exp(R)
        true = -mpmath.log(1 - (mpmath.sqrt(p) - mpmath.sqrt(d)) ** 2)
    found = float(budget_over_rivals(L, R))
    assert found <= true
    assert found == pytest.approx(float(true), rel=1e-10)


def test_the_budget_is_one_sided_if_one_rival_has_all_other_votes():
    L = -np.geomspace(0.7, 3000, 100)
    np.testing.assert_allclose(budget_over_rivals(L, L), divergence_budget(L), rtol=1e-9)
    noise = LabelFlip(0.2, 4)
    np.testing.assert_array_equal(kl_radius_over_rivals(L, 0 * L, noise, 1000), kl_radius(L, noise, 1000))
    np.testing.assert_allclose(gaussian_radius_over_rivals(L, 0 * L, 0.5), gaussian_radius(L, 0.5), rtol=1e-9)


def test_the_gaussian_radius_is_half_the_distance_between_the_quantiles():
    with mpmath.workdps(30):
        tail = lambda x: float(mpmath.log(mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2))  # noqa: E731
        found = float(gaussian_radius_over_rivals(tail(-0.25), tail(1.5), 2.0))
    assert found == pytest.approx(-0.25 + 1.5, rel=1e-9)
    assert found < -0.25 + 1.5


def test_undecided_votes_have_no_radius():
    for L, R in [(np.log(0.7), np.log(0.3)), (np.log(0.7), np.log(0.5)), (0.0, -1.0), (np.log(0.5), np.log(0.5))]:
        assert not wins_over_rivals(L, R)
        assert tight_radius_over_rivals(L, R, LabelFlip(0.2, 3), 9) == 0
        assert budget_over_rivals(L, R) == 0
        assert gaussian_radius_over_rivals(L, R, 1.0) == 0


def test_certain_votes_have_the_largest_radius():
    noise = LabelFlip(0.2, 3)
    assert tight_radius_over_rivals(-np.inf, -np.inf, noise, 9) == 9
    assert budget_over_rivals(-np.inf, -1.0) == np.inf
    assert gaussian_radius_over_rivals(-np.inf, 0.0, 1.0) == np.inf
    assert budget_over_rivals(-1.0, -np.inf) == pytest.approx(1.0)  # no other votes: all mass must be new


@pytest.mark.slow
@settings(max_examples=30)
@given(st.floats(-20, -0.05), st.floats(-20, -0.05), st.floats(0, 3), st.sampled_from(NOISES))
def test_radii_decrease_as_either_bound_increases(L, R, more, noise):
    flip = LabelFlip(*noise)
    for radius in (tight_radius_over_rivals, kl_radius_over_rivals):
        here = radius(L, R, flip, 200)
        assert radius(L - more, R, flip, 200) >= here
        assert radius(L, R - more, flip, 200) >= here
