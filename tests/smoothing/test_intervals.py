"""Clopper-Pearson bounds: never too small, and almost never too large."""

from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from flipproof.smoothing.bounds import log_share_upper, log_tail_upper


def exact_tail(count, n, share):
    share = Fraction(share)
    return sum(comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(count + 1))


@pytest.mark.few(4)
@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-3, 1e-9])
@pytest.mark.parametrize("n", [1, 2, 10, 57])
def test_the_tail_at_the_bound_is_at_most_alpha_in_rational_arithmetic(n, alpha):
    for count, log_bound in enumerate(log_share_upper(np.arange(n), n, alpha)):
        bound = Fraction(float(np.exp(log_bound)))
        assert exact_tail(count, n, bound * (1 + Fraction(1, 10**14))) <= Fraction(alpha)
        assert exact_tail(count, n, bound * (1 - Fraction(1, 10**10))) > Fraction(alpha)  # almost as small as possible
    assert log_share_upper(n, n, alpha) == 0


@pytest.mark.parametrize(("n", "count"), [(1000, 0), (1000, 333), (100_000, 5), (100_000, 40_000), (100_000, 99_999)])
def test_large_samples_agree_with_scipys_binomial(n, count):
    alpha = 1e-3
    bound = float(np.exp(log_share_upper(count, n, alpha)))
    assert binom.cdf(count, n, bound) <= alpha * (1 + 1e-9)
    assert binom.cdf(count, n, bound - 1e-6 * min(bound, 1 - bound)) > alpha


def test_a_bound_that_lost_all_precision_is_one():
    assert log_share_upper(1, 2, 1e-40) == 0
    assert -1e-9 < log_share_upper(0, 2, 1e-20) < 0


@pytest.mark.parametrize(("count", "n", "share"), [(0, 5, 0.3), (3, 40, 0.2), (39, 40, 0.999), (20, 200, 0.01)])
def test_the_computed_tail_is_an_upper_bound_with_a_small_error(count, n, share):
    tail = exact_tail(count, n, share)
    with mpmath.workdps(40):
        true = mpmath.log(mpmath.mpf(tail.numerator)) - mpmath.log(mpmath.mpf(tail.denominator))
        assert true <= log_tail_upper(count, n, share) <= true + 1e-11


@pytest.mark.parametrize(("n", "alpha"), [(7, 0.2), (30, 0.05)])
def test_coverage_is_exact_for_every_probability(n, alpha):
    """The chance that the bound falls below the probability, summed over all counts, is never above alpha."""
    bounds = np.exp(log_share_upper(np.arange(n + 1), n, alpha))
    counts = np.arange(n + 1)
    chances = np.array([comb(n, count) for count in counts], dtype=float)
    worst = 0.0
    for p in np.concatenate([np.linspace(0.001, 0.999, 500), np.nextafter(bounds[:-1], 1)]):
        missed = (chances * p**counts * (1 - p) ** (n - counts))[bounds < p].sum()
        worst = max(worst, missed)
    assert worst <= alpha * (1 + 1e-9)
    assert worst > 0.95 * alpha  # the bound is attained


def test_bounds_accept_arrays_of_any_shape():
    counts = np.array([[0, 3], [3, 5]])
    bounds = log_share_upper(counts, 5, 0.1)
    assert bounds.shape == (2, 2)
    assert bounds[0, 1] == bounds[1, 0] == log_share_upper(3, 5, 0.1)
