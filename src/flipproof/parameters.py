"""What parameters may be: one table of constraints per class or function, and one message for all of them.

A constraint knows which values it allows, and how to say so. Constraints are joined by ``|``: ``NONE | integer(1)``,
``one_of("label-free") | number(0, closed="low")``. Booleans are never numbers, and NaN is never allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

#: With more words than this, and nothing else, a description begins with "one of".
WORDS_WITHOUT_ONE_OF = 2


@dataclass(frozen=True)
class Constraint:
    """Decides whether a value is allowed, and describes those that are.

    Attributes
    ----------
    allows : function
        Tells whether a parameter may have a value.
    alternatives : tuple of str
        What the parameter may be, in words.
    is_a_list : bool
        Whether the alternatives are values themselves, all of them.
    remedy : str
        What follows from a value that is not allowed, or what to do about it: sentences with their full stop.
    """

    allows: Callable[[Any], bool]
    alternatives: tuple[str, ...]
    is_a_list: bool = False
    remedy: str = ""

    @property
    def description(self) -> str:
        """Complete the sentence "The parameter must be ..."."""
        *others, last = self.alternatives
        if self.is_a_list and len(self.alternatives) > WORDS_WITHOUT_ONE_OF:
            return f"one of {', '.join(self.alternatives)}"
        return f"{', '.join(others)} or {last}" if others else last

    def __or__(self, other: Constraint) -> Constraint:
        alternatives = (*self.alternatives, *other.alternatives)
        return Constraint(lambda value: self.allows(value) or other.allows(value), alternatives)

    def explained(self, remedy: str) -> Constraint:
        """Return the same constraint, with a remedy."""
        return replace(self, remedy=remedy)


#: The constraints on parameters, by their names.
Constraints = Mapping[str, Constraint]

#: Only None.
NONE = Constraint(lambda value: value is None, ("None",))

#: True or False, of Python or of NumPy.
BOOLEAN = Constraint(lambda value: isinstance(value, (bool, np.bool_)), ("True", "False"))


def integer(low: int | None = None, high: int | None = None, meaning: str = "") -> Constraint:
    """Allow whole numbers of an integer type, from `low` to `high`; `meaning` says what they are."""
    limits = ""
    if low is not None:
        limits = f" of at least {low}" if high is None else f" from {low} to {high}"
    described = f"an integer{limits}" + (f", {meaning}" if meaning else "")

    def allows(value: Any) -> bool:
        return is_integer(value) and (low is None or value >= low) and (high is None or value <= high)

    return Constraint(allows, (described,))


def number(low: float = -math.inf, high: float = math.inf, closed: str = "neither", noun: str = "number") -> Constraint:
    """Allow numbers between limits, whole or not.

    Parameters
    ----------
    low, high : float
        The limits. Infinity is allowed only as a limit.
    closed : {"neither", "low", "high", "both"}
        Which limits are allowed themselves.
    noun : str
        What the number is called.
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

    def allows(value: Any) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        x = _as_used(value)
        return bool((low <= x if with_low else low < x) and (x <= high if with_high else x < high))

    return Constraint(allows, (described,))


def share(includes_all: bool = False) -> Constraint:
    """Allow fractions between 0 and 1 of a floating-point type, and 1.0 if that is one; the integer 1 is a count."""

    def allows(value: Any) -> bool:
        if not isinstance(value, Real) or isinstance(value, Integral):
            return False
        x = _as_used(value)
        return bool(0 < x < 1 or (includes_all and x == 1))

    return Constraint(allows, ("a share up to 1.0" if includes_all else "a share between 0 and 1",))


def one_of(*words: str) -> Constraint:
    """Allow some words."""
    return Constraint(lambda value: isinstance(value, str) and value in words, tuple(map(repr, words)), is_a_list=True)


def instance(types: Any, described: str) -> Constraint:
    """Allow objects of a type, or of one of several, but not a type itself."""
    return Constraint(lambda value: isinstance(value, types) and not isinstance(value, type), (described,))


def function(described: str = "a function") -> Constraint:
    """Allow what can be called."""
    return Constraint(callable, (described,))


def with_methods(*methods: str, described: str) -> Constraint:
    """Allow objects that have these methods, but not their class."""

    def allows(value: Any) -> bool:
        return not isinstance(value, type) and all(hasattr(value, name) for name in methods)

    return Constraint(allows, (described,))


def is_integer(value: Any) -> bool:
    """Tell whether a value is a whole number of an integer type; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


#: Numbers of workers, as joblib counts them: negative ones count back from the number of cores.
N_JOBS = NONE | Constraint(lambda value: is_integer(value) and value != 0, ("an integer other than 0",))

#: How much to say about progress.
VERBOSE = integer(0) | BOOLEAN


def parameter_error(owner: str, name: str, wanted: str, value: Any, remedy: str = "") -> ValueError:
    """Return the error that every parameter is refused with.

    Parameters
    ----------
    owner, name : str
        Class or function, and its parameter.
    wanted : str
        What the parameter must be.
    value : object
        What it is.
    remedy : str
        What follows from that, or what to do about it: sentences with their full stop.
    """
    shown, end = repr(value), f": {remedy}" if remedy else "."
    if "\n" in shown:  # that of an estimator with many parameters
        shown = " ".join(shown.split())
    return ValueError(f"The {name!r} parameter of {owner} must be {wanted}. Got {shown} instead{end}")


def check_parameter(owner: str, name: str, value: Any, constraint: Constraint) -> None:
    """Refuse a value that the constraint does not allow.

    Raises
    ------
    ValueError
        See :func:`parameter_error`.
    """
    if not constraint.allows(value):
        raise parameter_error(owner, name, constraint.description, value, constraint.remedy)


def check_arguments(owner: str, constraints: Constraints, **values: Any) -> None:
    """Refuse arguments of a function that its constraints do not allow."""
    for name, value in values.items():
        check_parameter(owner, name, value, constraints[name])


def check_parameters(owner: Any, *names: str) -> None:
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
    """Return a number as computations use it: what is below 1 in a wider type may be 1 in 64 bits."""
    return value if isinstance(value, Integral) else float(value)
