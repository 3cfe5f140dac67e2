"""Displayed numbers never exceed what was proved."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipproof.readable import (
    four_decimals,
    percent,
    probability_above,
    probability_at_most,
    rounded,
    rounded_down,
    rounded_up,
    share_of,
    significant,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "0.5"),
        (0.3, "0.299"),  # the float is below 3/10
        (0.30000000000000004, "0.3"),
        (0.99999, "0.999"),
        (1.0, "1"),
        (999.9999999999999, "999"),
        (1000.0, "1,000"),
        (123456.0, "123,000"),
        (1e-7, "0.0000000999"),
        (0.0, "0"),
        (5e-324, "0." + 323 * "0" + "494"),
        (math.inf, "inf"),
    ],
)
def test_numbers_are_shown_with_significant_digits(value, shown):
    assert significant(value) == shown


@given(st.floats(min_value=1e-300, max_value=1e300), st.integers(1, 6))
def test_radii_are_rounded_down_to_the_given_digits(value, digits):
    shown = Fraction(significant(value, digits).replace(",", ""))
    assert shown <= Fraction(value) < shown * (1 + Fraction(11, 10 ** (digits)))


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_shares_of_rows_are_rounded_down_and_only_once(rows):
    part, whole = rows
    assert Fraction(percent(part / whole)[:-1]) == Fraction(1000 * part // whole, 10)
    assert Fraction(four_decimals(part / whole)) == Fraction(10_000 * part // whole, 10_000)
    assert Fraction(share_of(part, whole)[:-1]) <= Fraction(100 * part, whole)


def test_other_shares_are_rounded_down():
    assert percent(0.29) == "29.0%"
    assert percent(math.nextafter(0.29, 0)) == "28.9%"
    assert (percent(1.0), share_of(3, 3)) == ("100.0%", "100%")
    assert share_of(20, 4180) == "0.47%"
    assert share_of(1, 0) == share_of(0, 5) == "0%"


@pytest.mark.parametrize(
    ("probability", "shown"),
    [(0, "0%"), (1e-300, "0.000001%"), (2**-15, "0.0031%"), (0.0301, "3.1%"), (0.5, "50%"), (0.991, "100%")],
)
def test_probabilities_are_rounded_up(probability, shown):
    assert probability_above(probability) == shown


@pytest.mark.parametrize(
    ("probability", "shown"),
    [
        (0, "less than 0.000001%"),
        (1e-300, "less than 0.000001%"),
        (np.nextafter(1e-8, 0), "less than 0.000001%"),
        (2.0**-25, "at most 0.000003%"),
        (0.0301, "at most 3.1%"),
        (1.0, "at most 100%"),
    ],
)
def test_no_bound_on_a_probability_is_shown_as_zero(probability, shown):
    assert probability_at_most(probability) == shown


def test_ends_of_intervals_are_rounded_outwards():
    assert rounded(1234567.8) == "1,234,568"
    assert rounded_down(12.34567) == "12.345"
    assert rounded_up(12.34501) == "12.346"
    assert rounded_down(-12.34501) == "-12.346"
    assert rounded_up(0.0) == "0"
    assert rounded_up(2e-9) == "0.0000000020001"
