from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipproof.core import guarantees
from flipproof.core.engine import deployed_radius
from flipproof.core.guarantees import (
    divergence_budget,
    gaussian_radius,
    kl_radius,
    mean_rule_radius,
    tight_log_failure,
    tight_radius,
)
from flipproof.core.noise import LabelFlip

NOISES = [(1e-10, 2), (1e-4, 2), (0.1, 2), (0.475, 2), (0.1, 3), (0.6, 3), (0.012, 10), (0.85, 10)]


def rational_tight(r, q, K):
    """m_r in rational arithmetic: take D from r downward until the new labels give it mass 1/2."""
    q = Fraction(q)
    own, other, third = 1 - q, q / (K - 1), q * (K - 2) / (K - 1)
    masses = {0: Fraction(1)}
    for _ in range(r):
        stepped = {}
        for value, mass in masses.items():
            for step, chance in ((1, own), (0, third), (-1, other)):
                stepped[value + step] = stepped.get(value + step, 0) + mass * chance
        masses = stepped
    missing, cost = Fraction(1, 2), Fraction(0)
    for value in range(r, -r - 1, -1):
        taken = min(missing, masses.get(value, Fraction(0)))
        cost += taken * (other / own) ** value
        missing -= taken
    return cost


def log_of(fraction):
    with mpmath.workdps(40):
        return mpmath.log(mpmath.mpf(fraction.numerator)) - mpmath.log(mpmath.mpf(fraction.denominator))


@pytest.mark.few(5)
@pytest.mark.parametrize(("q", "K"), NOISES)
@pytest.mark.parametrize("r", [0, 1, 2, 3, 7, 20, 60])
def test_tight_values_agree_with_rational_arithmetic(q, K, r):
    exact = log_of(rational_tight(r, q, K))
    computed = float(tight_log_failure(r, LabelFlip(q, K)))
    assert computed <= exact
    assert computed == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize(("q", "r"), [(0.4, 2000), (0.475, 1500), (1e-4, 3000)])
def test_two_classes_are_a_binomial(q, r):
    """K = 2 in closed form, at a radius where windows and many steps matter."""
    with mpmath.workdps(60):
        own, other = 1 - mpmath.mpf(q), mpmath.mpf(q)
        missing, cost = mpmath.mpf(1) / 2, mpmath.mpf(0)
        mass = own**r  # i draws of the new label, from r downward
        for i in range(r, -1, -1):
            taken = min(missing, mass)
            cost += taken * (other / own) ** (2 * i - r)
            missing -= taken
            if missing <= 0:
                break
            mass *= mpmath.mpf(i) / (r - i + 1) * other / own
        exact = mpmath.log(cost)
    computed = float(tight_log_failure(r, LabelFlip(q, 2)))
    assert computed <= exact
    assert computed == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.few(1)
@pytest.mark.parametrize(("q", "K"), NOISES)
def test_tight_values_fall_with_the_radius(q, K):
    values = tight_log_failure(np.arange(10_001), LabelFlip(q, K))
    assert np.all(np.diff(values) <= 0)
    assert np.isfinite(values).all()


@pytest.mark.slow
def test_radii_above_ten_thousand():
    noise = LabelFlip(0.3, 2)
    value = float(tight_log_failure(20_000, noise))
    assert tight_radius(np.nextafter(value, -np.inf), noise, 10**6) >= 20_000


@pytest.mark.parametrize(("q", "K"), NOISES)
def test_tight_radius_inverts_tight_log_failure(q, K):
    noise = LabelFlip(q, K)
    for r in (1, 2, 10, 100):
        value = float(tight_log_failure(r, noise))
        assert tight_radius(value, noise, 1000) == r - 1  # certified only strictly below
        assert tight_radius(np.nextafter(value, -np.inf), noise, 1000) >= r


@pytest.mark.parametrize(("q", "K"), NOISES)
def test_kl_radius_is_the_papers_formula(q, K):
    noise = LabelFlip(q, K)
    for log_failure in (-1.0, -5.0, -50.0, -3000.0):
        with mpmath.workdps(1500):
            p = 1 - mpmath.exp(log_failure)
            plain = -mpmath.log(4 * p * (1 - p)) / (2 * mpmath.mpf(noise.kl_per_flip))
        assert kl_radius(log_failure, noise, 10**9) == int(mpmath.floor(plain))


def test_nothing_is_certified_if_failure_is_at_least_one_half():
    noise = LabelFlip(0.1, 2)
    for L in (np.log(0.5), -0.5, 0.0):
        assert kl_radius(L, noise, 100) == 0
        assert tight_radius(L, noise, 100) == 0
        assert gaussian_radius(L, 1.0) == 0
        assert divergence_budget(L) == 0


def test_certain_predictions_are_certified_for_all_labels():
    noise = LabelFlip(0.1, 2)
    assert kl_radius(-np.inf, noise, 100) == 100
    assert tight_radius(-np.inf, noise, 100) == 100
    assert mean_rule_radius(-np.inf, noise, 100) == 100
    assert gaussian_radius(-np.inf, 1.0) == np.inf


@given(
    st.lists(st.floats(-5000, 0), min_size=2, max_size=2).map(sorted),
    st.sampled_from(NOISES),
    st.sampled_from(["kl", "tight"]),
)
def test_radius_falls_as_the_failure_bound_rises(pair, noise, method):
    low, high = deployed_radius(np.array(pair), method, LabelFlip(*noise), 3000)
    assert low >= high


@pytest.mark.few(2)
@pytest.mark.parametrize(("q", "K"), NOISES)
def test_kl_is_within_the_cap_and_below_tight(q, K):
    noise = LabelFlip(q, K)
    L = -np.geomspace(0.1, 3000, 300)
    assert np.all(kl_radius(L, noise, 10**4) <= mean_rule_radius(L, noise, 10**4))
    assert np.all(kl_radius(L, noise, 10**4) <= tight_radius(L, noise, 10**4))


def test_the_cap_of_the_deployed_rule_binds():
    """K = 2, q = 1e-4: from r = 7014 the vote is certified where the mean rule is not (M7)."""
    noise = LabelFlip(1e-4, 2)
    r = np.arange(1, 8001)
    binds = r * noise.kl_per_flip >= -tight_log_failure(r, noise)
    assert r[np.argmax(binds)] == 7014
    just_certified = np.nextafter(tight_log_failure(np.array([7013, 7014, 7500]), noise), -np.inf)
    assert tight_radius(just_certified, noise, 10**6).tolist() == [7013, 7014, 7500]
    deployed = deployed_radius(just_certified, "tight", noise, 10**6)
    assert deployed[0] == 7013
    assert np.all(deployed[1:] < [7014, 7500])
    assert np.all(deployed * noise.kl_per_flip < -just_certified)


def test_gaussian_radius_is_the_inverse_normal():
    with mpmath.workdps(40):
        # P(N > 3) and P(N > 30): Phi^-1(1 - B) is 3 and 30
        for x in (0.5, 3, 30):
            log_failure = float(mpmath.log(mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2))
            radius = float(gaussian_radius(log_failure, 0.25))
            assert radius == pytest.approx(0.25 * x, rel=1e-9)
            assert radius < 0.25 * x * (1 + 1e-15)
    with pytest.raises(ValueError, match="'sigma' parameter"):
        gaussian_radius(-1.0, 0.0)


def test_budget_is_the_divergence_that_brings_the_failure_to_one_half():
    for B in (0.4999, 0.25, 1e-3, 1e-200):
        with mpmath.workdps(40):
            half, b = mpmath.mpf(1) / 2, mpmath.mpf(B)
            divergence = half * mpmath.log(half / b) + half * mpmath.log(half / (1 - b))
        budget = float(divergence_budget(np.log(B)))
        assert budget <= divergence
        assert budget == pytest.approx(float(divergence), rel=1e-6, abs=1e-14)


def test_bad_input():
    with pytest.raises(ValueError, match="NaN"):
        kl_radius(np.nan, LabelFlip(0.1, 2), 10)
    with pytest.raises(ValueError, match="parameter of tight_log_failure must be integers"):
        tight_log_failure(-1, LabelFlip(0.1, 2))
    with pytest.raises(ValueError, match="parameter of tight_log_failure must be integers"):
        tight_log_failure(1.5, LabelFlip(0.1, 2))


@pytest.mark.parametrize("guess", [-3, -1, 0, 2])
def test_the_median_is_found_from_any_guess(guess):
    """Sums of r changes have medians that move by at most one; rounding may move the search further."""
    masses = np.array([0.1, 0.2, 0.3, 0.25, 0.1, 0.05])
    found = guarantees._median_near(guess, masses, -2)
    assert found == 0  # P(D >= 0) = 0.7, P(D >= 1) = 0.4
