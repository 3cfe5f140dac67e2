"""From bounds on the vote to a radius: never too large, through rounding or the wrong guarantee."""

from fractions import Fraction

import numpy as np
import pytest

from flipproof.core.guarantees import kl_radius, tight_radius
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip
from flipproof.smoothing.bounds import certified_radius, error_rate, feature_radius


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.7])
def test_the_feature_radius_is_within_the_budget_in_rational_arithmetic(sigma):
    budgets = np.random.default_rng(0).uniform(0, 5, size=50)
    for radius, budget in zip(feature_radius(budgets, sigma).tolist(), budgets.tolist(), strict=True):
        used = Fraction(radius) ** 2 / (2 * Fraction(sigma) ** 2)
        assert Fraction(budget) * (1 - Fraction(1, 10**12)) <= used <= Fraction(budget)
    assert feature_radius(np.array([0.0, -1.0]), sigma).tolist() == [0, 0]


@pytest.mark.parametrize("measure", [LabelFlip(0.2, 2), JointNoise(LabelFlip(0.2, 2), FeatureNoise(0.5))])
def test_each_guarantee_has_its_own_radius(measure):
    failure = np.log([1e-2, 1e-6, 1e-12])
    tight, kl = (certified_radius(failure, failure, measure, name, 1000) for name in ("tight", "kl"))
    np.testing.assert_array_equal(tight, tight_radius(failure, LabelFlip(0.2, 2), 1000))
    np.testing.assert_array_equal(kl, kl_radius(failure, LabelFlip(0.2, 2), 1000))
    assert np.all(kl < tight)


@pytest.mark.parametrize("n_statements", [1, 3, 1000])
def test_simultaneous_statements_share_one_minus_the_confidence(n_statements):
    each = Fraction(error_rate(0.999, n_statements, "test"))
    assert Fraction(999, 1000) * (1 - Fraction(0.999)) < n_statements * each < 1 - Fraction(0.999)
