"""Constraints on parameters: one table per class or function, and one error message for all of them.

A constraint decides which values are allowed, and describes them. ``|`` joins constraints: ``NONE | integer(1)``,
``one_of("label-free") | number(0, closed="low")``. Booleans are never numbers, and NaN is never allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from flipproof.errors import InputError, Parameter
from flipproof.readable import alternatives

#: A description that lists more values than this, and nothing else, begins with "one of".
WORDS_WITHOUT_ONE_OF = 2

#: Characters of a value that a message shows.
LONGEST_VALUE = 300


@dataclass(frozen=True)
class Constraint:
    """Decides whether a value is allowed, and describes the allowed values.

    Attributes
    ----------
    allows : function
        Returns whether a value is allowed.
    alternatives : tuple of str
        Descriptions of the allowed values.
    is_a_list : bool
        Whether every alternative is itself a value.
    remedy : str
        The consequence of a value that is not allowed, or what to do about it: full sentences.
    """

    allows: Callable[[Any], bool]
    alternatives: tuple[str, ...]
    is_a_list: bool = False
    remedy: str = ""

    @property
    def description(self) -> str:
        """Complete the sentence "The parameter must be ..."."""
        if self.is_a_list and len(self.alternatives) > WORDS_WITHOUT_ONE_OF:
            return f"one of {', '.join(self.alternatives)}"
        return alternatives(self.alternatives)

    def __or__(self, other: Constraint) -> Constraint:
        alternatives = (*self.alternatives, *other.alternatives)
        return Constraint(lambda value: self.allows(value) or other.allows(value), alternatives)

    def explained(self, remedy: str) -> Constraint:
        """Return the same constraint, with a remedy."""
        return replace(self, remedy=remedy)


#: Constraints by parameter name.
Constraints = Mapping[str, Constraint]

#: Only None.
NONE = Constraint(lambda value: value is None, ("None",))

#: True or False, of Python or of NumPy.
BOOLEAN = Constraint(lambda value: isinstance(value, (bool, np.bool_)), ("True", "False"))


def integer(low: int | None = None, high: int | None = None, meaning: str = "") -> Constraint:
    """Allow numbers of an integer type from `low` to `high`; `meaning` says what they mean."""
    limits = ""
    if low is not None:
        limits = f" of at least {low}" if high is None else f" from {low} to {high}"
    described = f"an integer{limits}" + (f", {meaning}" if meaning else "")

    def allows(value: Any) -> bool:
        return is_integer(value) and (low is None or value >= low) and (high is None or value <= high)

    return Constraint(allows, (described,))


def number(low: float = -math.inf, high: float = math.inf, closed: str = "neither", noun: str = "number") -> Constraint:
    """Allow integers and floats between two limits.

    Parameters
    ----------
    low, high : float
        The limits. Infinity is allowed only as a limit.
    closed : {"neither", "low", "high", "both"}
        Which of the limits are themselves allowed.
    noun : str
        Noun for the number in the message.
    """
    with_low, with_high = closed in ("low", "both"), closed in ("high", "both")
    above = f"of at least {low:g}" if with_low else f"above {low:g}"
    below = f"up to {high:g}" if with_high else f"below {high:g}"
    if math.isinf(low) and math.isinf(high):
        described = f"a {noun}" if closed == "both" else f"a finite {noun}"
    elif math.isinf(low) or math.isinf(high):
        described = f"a {noun} {below if math.isinf(low) else above}"
    else:
        described = f"a {noun} between {low:g} and {high:g}" if closed == "neither" else f"a {noun} {above} and {below}"

    def allows(value: object) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        x = _as_used(value)
        return bool((low <= x if with_low else low < x) and (x <= high if with_high else x < high))

    return Constraint(allows, (described,))


def share(includes_all: bool = False) -> Constraint:
    """Allow floats between 0 and 1, and 1.0 if `includes_all`; the integer 1 is a count, not a share."""

    def allows(value: object) -> bool:
        if not isinstance(value, Real) or isinstance(value, Integral):
            return False
        x = _as_used(value)
        return bool(0 < x < 1 or (includes_all and x == 1))

    return Constraint(allows, ("a share above 0, up to 1.0" if includes_all else "a share between 0 and 1",))


def one_of(*words: str) -> Constraint:
    """Allow the given strings."""
    return Constraint(lambda value: isinstance(value, str) and value in words, tuple(map(repr, words)), is_a_list=True)


def instance(types: Any, described: str) -> Constraint:
    """Allow objects of one or several types, but not a type itself."""
    return Constraint(lambda value: isinstance(value, types) and not isinstance(value, type), (described,))


def function(described: str = "a function") -> Constraint:
    """Allow callables."""
    return Constraint(callable, (described,))


def with_methods(*methods: str, described: str) -> Constraint:
    """Allow objects that have these methods, but not their class."""

    def allows(value: object) -> bool:
        return not isinstance(value, type) and all(hasattr(value, name) for name in methods)

    return Constraint(allows, (described,))


def is_integer(value: object) -> bool:
    """Tell whether a value is of an integer type; True and False are not integers here."""
    return isinstance(value, Integral) and not isinstance(value, bool)


#: Numbers of workers as in joblib: negative ones count down from the number of cores.
N_JOBS = NONE | Constraint(lambda value: is_integer(value) and value != 0, ("an integer other than 0",))

#: How much progress to report.
VERBOSE = integer(0) | BOOLEAN


def parameter_error(
    owner: str, name: str, wanted: str, value: object = None, remedy: str = "", *, found: str | None = None
) -> InputError:
    """Return the error for a parameter with a value that is not allowed.

    Parameters
    ----------
    owner, name : str
        The class or function, and its parameter.
    wanted : str
        What the parameter must be.
    value : object
        The value that was given.
    remedy : str
        The consequence, or what to do about it: full sentences.
    found : str, optional
        What was given, in words. Default: the value.
    """
    shown, end = repr(value) if found is None else found, f": {remedy}" if remedy else "."
    if "\n" in shown:  # the repr of an estimator with many parameters
        shown = " ".join(shown.split())
    if found is None and len(shown) > LONGEST_VALUE:  # or with arrays among them
        shown = f"{shown[:LONGEST_VALUE]} ..."
    return InputError(Parameter(name, owner=owner), f" must be {wanted}. Got {shown} instead{end}")


def check_parameter(owner: str, name: str, value: object, constraint: Constraint) -> None:
    """Refuse a value that the constraint does not allow.

    Raises
    ------
    InputError
        See :func:`parameter_error`.
    """
    if not constraint.allows(value):
        raise parameter_error(owner, name, constraint.description, value, constraint.remedy)


def check_arguments(owner: str, constraints: Constraints, **values: object) -> None:
    """Refuse arguments of a function that its constraints do not allow."""
    for name, value in values.items():
        check_parameter(owner, name, value, constraints[name])


def check_parameters(owner: object, *names: str) -> None:
    """Refuse parameters of an object, all or those named, that the constraints of its class do not allow."""
    constraints = constraints_of(type(owner))
    for name in names or constraints:
        check_parameter(type(owner).__name__, name, getattr(owner, name), constraints[name])


def constraints_of(cls: type) -> dict[str, Constraint]:
    """Return the constraints on the parameters of a class: its `parameter_constraints`, and those of its bases.

    A class replaces the constraints of its bases on parameters that it names again.
    """
    merged: dict[str, Constraint] = {}
    for base in reversed(cls.__mro__):
        merged.update(vars(base).get("parameter_constraints", {}))
    return merged


def _as_used(value: Any) -> Any:
    """Return a number as computations use it: a number below 1 in a wider type may be 1 in 64 bits."""
    return value if isinstance(value, Integral) else float(value)
