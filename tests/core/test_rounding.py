from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flipproof.core import tails
from flipproof.core.histograms import VoteHistogram
from flipproof.core.noise import LabelFlip
from flipproof.core.rounding import (
    FUNCTION_ERROR,
    above,
    below,
    bits_left,
    chernoff_slack,
    exponent_above,
    grid_exponent,
    scale,
    sum_error,
    to_grid,
    weighted_sums,
    whole_runs,
)


@given(st.floats(allow_nan=False))
def test_below_and_above_bracket_the_number(x):
    assert below(x) <= x <= above(x)
    if np.isfinite(x):
        assert below(x) < x < above(x) or abs(x) == np.finfo(float).max


@pytest.mark.parametrize("relative", [2 * FUNCTION_ERROR, 1e-12])
@pytest.mark.parametrize("x", [1.0, -1.0, np.pi, -1e-300, 1e300])
def test_below_and_above_cover_the_relative_error(x, relative):
    room = abs(Fraction(x)) * Fraction(relative)
    assert Fraction(float(below(x, relative))) <= Fraction(x) - room
    assert Fraction(float(above(x, relative))) >= Fraction(x) + room


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-(2.0**900), max_value=2.0**900))
@example(1.0)
def test_exponent_above_is_the_smallest(x):
    e = int(exponent_above(x))
    assert abs(x) < 2.0**e or x == 0
    assert x == 0 or abs(x) >= 2.0 ** (e - 1) or e == -960


@given(st.floats(1e-200, 1e200), st.integers(2, 24), st.floats(-1, 1))
@example(bound=1 - 2.0**-53, bits=4, part=1.0)  # rounds to 2**bits, where the next class begins
@example(bound=1 - 2.0**-53, bits=4, part=-1.0)
def test_numbers_up_to_the_bound_fit_the_grid(bound, bits, part):
    s = grid_exponent(bound, bits)
    on_grid = to_grid(np.array([part * bound]), s, bits)
    assert abs(on_grid[0]) < 2**bits
    assert on_grid[0] == np.rint(on_grid[0])
    # never more than one step away, and half the range is used
    assert abs(scale(on_grid, -s)[0] - part * bound) <= 2.0 ** -float(s)
    assert bound * 2.0 ** float(s) >= 2 ** (bits - 1)


def test_dot_products_within_bits_left_are_exact_in_any_order():
    rng = np.random.default_rng(0)
    terms, bits = 300, 20
    other = bits_left(terms, bits)
    a = rng.integers(-(2**bits) + 1, 2**bits, size=terms)
    b = rng.integers(-(2**other) + 1, 2**other, size=terms)
    exact = sum(int(x) * int(y) for x, y in zip(a, b, strict=True))
    for _ in range(5):
        order = rng.permutation(terms)
        assert int(a[order].astype(float) @ b[order].astype(float)) == exact
    worst = np.full(terms, 2.0**bits - 1) @ np.full(terms, 2.0**other - 1)
    assert int(worst) == terms * (2**bits - 1) * (2**other - 1)


@pytest.mark.few(2)
@pytest.mark.parametrize("n_terms", [1, 5, 64, 100, 64 * 100])
def test_weighted_sums_keep_their_error_bound(n_terms):
    rng = np.random.default_rng(1)
    weights, terms = rng.integers(0, 1000, size=(3, 2, n_terms)).astype(float), rng.normal(size=(3, n_terms))
    computed = weighted_sums(weights, terms)
    for r in range(3):
        for k in range(2):
            with mpmath.workdps(40):
                exact = mpmath.fsum(mpmath.mpf(w) * mpmath.mpf(x) for w, x in zip(weights[r, k], terms[r], strict=True))
                error = abs(mpmath.mpf(float(computed[r, k])) - exact)
            assert error <= sum_error(n_terms) * np.abs(weights[r, k] * terms[r]).sum()
    assert whole_runs(n_terms) % min(n_terms, 64) == 0
    assert 0 <= whole_runs(n_terms) - n_terms < 64


def test_sequential_runs_reach_the_error_bound():
    """Each run adds half a unit in the last place to 1, which is rounded away every time."""
    weights, terms = np.ones((1, 1, 64 * 1000)), np.zeros((1, 64 * 1000))
    terms[0, ::64] = 2.0**-53
    terms[0, 0] = 1.0
    lost = 1 + 999 * Fraction(1, 2**53) - Fraction(float(weighted_sums(weights, terms)[0, 0]))
    assert 900 * Fraction(1, 2**53) < lost <= Fraction(sum_error(64 * 1000))


@pytest.mark.parametrize("large_votes", [False, True])
def test_slack_covers_functions_wrong_by_four_units(monkeypatch, large_votes):
    """The bound holds even if exp and log have the largest error that we allow, in either direction."""
    rng = np.random.default_rng(2)
    values = np.arange(-64, 64)[None]
    if large_votes:  # logarithms far below 1 have errors of more than a few units of 1
        q, t, counts = 1e-12, np.array([13 / 32]), np.ones((1, 3, 128), dtype=np.int64)
        counts[0, 0, 64 + 32] = 5000
    else:
        q, t, counts = 0.2, np.array([0.01]), rng.integers(0, 50, size=(1, 3, 128))
        counts[0, 0, 64:] += 40
    histogram = VoteHistogram(values, counts, 128)
    noise, winner = LabelFlip(q, 3), np.array([0])
    with mpmath.workdps(40):
        own, other = 1 - mpmath.mpf(q), mpmath.mpf(q) / 2
        true = mpmath.mpf(0)
        for c, (up, down) in enumerate([(own, other), (other, own), (other, other)]):
            for value, count in zip(values[0].tolist(), counts[0, c].tolist(), strict=True):
                x = mpmath.mpf(t[0]) * value
                true += count * mpmath.log(up * mpmath.exp(-x) + 1 - up - down + down * mpmath.exp(x))
    for exp_error in (-4, 4):
        for log_error in (-4, 4):
            monkeypatch.setattr(tails.np, "exp", _bad(np.exp, exp_error))
            monkeypatch.setattr(tails.np, "log", _bad(np.log, log_error))
            bound = log_failure = tails.log_failures_upper(histogram, winner, np.zeros((1, 3)), t, noise)[0, 1]
            monkeypatch.undo()
            assert log_failure < -1
            assert bound >= true
    assert chernoff_slack(t, np.array([1e6]), 1000, np.zeros(1), 128)[0] > 0


def test_slack_covers_the_rounding_of_large_offsets():
    histogram, winner, t = VoteHistogram(np.array([[1]]), np.array([[[1], [0]]]), 1), np.array([0]), np.array([0.1])
    for offset in range(10**6, 10**6 + 20):
        bound = tails.log_failures_upper(histogram, winner, np.full((1, 2), float(offset)), t, LabelFlip(0.2, 2))
        with mpmath.workdps(40):
            x, q = mpmath.mpf(0.1), mpmath.mpf(0.2)
            assert bound[0, 1] >= mpmath.log((1 - q) * mpmath.exp(-x) + q * mpmath.exp(x)) - x * offset


def _bad(function, units):
    def wrong(x):
        y = function(x)
        return y + units * np.spacing(y)

    return wrong


@pytest.mark.parametrize(("x", "exponent"), [(3 * 2.0**-1000, 1990), (3 * 2.0**1000, -1990), (0.75, 1023), (1.0, 0)])
def test_scaling_is_exact_even_if_the_power_of_two_overflows(x, exponent):
    assert Fraction(float(scale(x, exponent))) == Fraction(x) * Fraction(2) ** exponent
    np.testing.assert_array_equal(scale(np.array([x, x]), np.array([exponent, 0])), [scale(x, exponent), x])
