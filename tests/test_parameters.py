"""Parameters: constraints, their descriptions, and one common error message."""

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from flipproof.parameters import (
    BOOLEAN,
    N_JOBS,
    NONE,
    VERBOSE,
    check_arguments,
    check_parameters,
    constraints_of,
    function,
    instance,
    integer,
    number,
    one_of,
    parameter_error,
    share,
    with_methods,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused", "description"),
    [
        (integer(1), [1, 7, np.int8(3)], [0, True, np.True_, 1.0, NAN, "1", None], "an integer of at least 1"),
        (integer(2, 24, "bits"), [2, 24], [1, 25, 2.5], "an integer from 2 to 24, bits"),
        (integer(), [-5, 0], [0.0, False], "an integer"),
        (number(0), [1, 0.5, np.float32(2)], [0, -1, NAN, math.inf, True, "1", 1j], "a number above 0"),
        (number(0, closed="low"), [0, 10**400], [-1e-300, math.inf], "a number of at least 0"),
        (number(0, 1), [0.5, Fraction(1, 2)], [0, 1, Fraction(10**30 - 1, 10**30)], "a number between 0 and 1"),
        (number(0, 0.9, closed="high"), [0.9], [0, 0.91], "a number above 0 and up to 0.9"),
        (number(0, 1, closed="both"), [0, 1], [-1], "a number of at least 0 and up to 1"),
        (number(high=2), [-9], [2], "a number below 2"),
        (number(), [-1.5], [math.inf, -math.inf, NAN], "a finite number"),
        (number(closed="both"), [math.inf, 0.1], [NAN, np.float64("nan")], "a number"),
        (number(0, noun="number of seconds", closed="high"), [math.inf], [0], "a number of seconds above 0"),
        (share(), [0.5, np.float32(0.1)], [0.0, 1.0, 1, True, NAN], "a share between 0 and 1"),
        (share(includes_all=True), [1.0], [1, 0.0, 1.5], "a share above 0, up to 1.0"),
        (one_of("a", "b"), ["a"], ["c", ["a"], None, np.array("a")], "'a' or 'b'"),
        (one_of("a", "b", "c"), ["c"], ["d"], "one of 'a', 'b', 'c'"),
        (BOOLEAN, [True, np.False_], [0, 1, "yes", None], "True or False"),
        (NONE | integer(1) | share(), [None, 1, 0.5], [0, True], "None, an integer of at least 1 or a share between"),
        (one_of("a", "b", "c") | number(0), ["a", 1], ["d", 0], "'a', 'b', 'c' or a number above 0"),
        (instance(dict, "a dict"), [{}], [dict, []], "a dict"),
        (function(), [len], ["len"], "a function"),
        (with_methods("keys", "items", described="a mapping"), [{}], [dict, []], "a mapping"),
        (N_JOBS, [None, 2, -1], [0, 1.0, True], "None or an integer other than 0"),
        (VERBOSE, [0, 3, True], [-1, 0.5, None], "an integer of at least 0, True or False"),
    ],
)
def test_constraints_accept_valid_values_and_describe_themselves(constraint, allowed, refused, description):
    assert [value for value in allowed if not constraint.allows(value)] == []
    assert [value for value in refused if constraint.allows(value)] == []
    assert constraint.description.startswith(description)


class Base:
    parameter_constraints: ClassVar = {"a": integer(1), "b": NONE | integer(1)}

    def __init__(self, a=1, b=None, c="x"):
        self.a, self.b, self.c = a, b, c


class Narrower(Base):
    parameter_constraints: ClassVar = {"b": NONE.explained("leave it out."), "c": one_of("x")}


def test_constraints_are_inherited_and_overridden():
    assert list(constraints_of(Narrower)) == ["a", "b", "c"]
    check_parameters(Narrower())
    check_parameters(Base(b=2, c="anything"))
    with pytest.raises(ValueError, match=r"^The 'a' parameter of Narrower must be an integer"):
        check_parameters(Narrower(a=0))
    with pytest.raises(ValueError, match=r"^The 'b' parameter of Narrower .* Got 2 instead: leave it out\.$"):
        check_parameters(Narrower(b=2))
    check_parameters(Narrower(b=2), "a", "c")


def test_function_arguments_are_checked():
    check_arguments("f", {"x": integer(0), "y": BOOLEAN}, x=0)
    with pytest.raises(ValueError, match=r"^The 'x' parameter of f must be an integer .* Got None instead\.$"):
        check_arguments("f", {"x": integer(0)}, x=None)


def test_the_message_is_one_line():
    class Long:
        def __repr__(self):
            return "Long(a=1,\n     b=2)"

    error = parameter_error("f", "x", "short", Long(), "shorten it.")
    assert str(error) == "The 'x' parameter of f must be short. Got Long(a=1, b=2) instead: shorten it."


def test_a_long_value_is_cut():
    error = parameter_error("f", "x", "short", list(range(10_000)), "shorten it.")
    assert len(str(error)) < 400
    assert str(error).endswith(" ... instead: shorten it.")
