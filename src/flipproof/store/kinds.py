"""Kinds of values: what each attribute of a stored object may be, and how the sizes of its arrays belong together.

A model file may come from anybody. So each attribute that is read is compared with a kind: ``floats("columns")`` is an
array of finite floats whose length is the size "columns", which is the same for all attributes of the object. ``|``
joins kinds: ``floats("columns") | NOTHING``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.sparse import csr_array

#: Sizes of an object by name, as far as they are known.
Sizes = dict[str, int]

#: Letters of the dtypes of arrays.
FLOATS, INTEGERS, BOOLEANS, NUMBERS = "f", "iu", "b", "fiub"


@dataclass(frozen=True)
class Kind:
    """What an attribute may be.

    Attributes
    ----------
    fits : function
        Tells whether a value is of this kind, given the sizes that are known, and adds those that it finds.
    described : str
        Completes "must be ...".
    is_needed : bool
        Whether the attribute must be there.
    """

    fits: Callable[[Any, Sizes], bool]
    described: str
    is_needed: bool = True

    def __or__(self, other: Kind) -> Kind:
        def fits(value: object, sizes: Sizes) -> bool:
            for kind in (self, other):
                found = dict(sizes)
                if kind.fits(value, found):
                    sizes.update(found)
                    return True
            return False

        return Kind(fits, f"{self.described} or {other.described}", self.is_needed and other.is_needed)


def maybe(kind: Kind) -> Kind:
    """Return the kind of an attribute that may be missing."""
    return replace(kind, is_needed=False)


def _simple(is_one: Callable[[Any], bool], described: str) -> Kind:
    return Kind(lambda value, sizes: is_one(value), described)


def is_whole(value: object) -> bool:
    """Tell whether a value is an integer, and not a boolean."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def is_finite_number(value: Any) -> bool:
    """Tell whether a value is a finite number, and not a boolean."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
    return is_number and bool(np.isfinite(float(value)))


NOTHING = _simple(lambda value: value is None, "None")
FLAG = _simple(lambda value: isinstance(value, (bool, np.bool_)), "True or False")
TEXT = _simple(lambda value: isinstance(value, str), "a text")
NUMBER = _simple(is_finite_number, "a finite number")
ANYTHING = _simple(lambda value: True, "anything")
DTYPE = _simple(
    lambda value: isinstance(value, np.dtype) or hasattr(value, "is_numeric") or hasattr(value, "kind"), "a type"
)


def whole(low: int | None = None, high: int | None = None) -> Kind:
    """Return the kind of integers in a range."""

    def fits(value: Any) -> bool:
        return is_whole(value) and (low is None or value >= low) and (high is None or value <= high)

    return _simple(fits, f"an integer from {low} to {high}")


def positive(high: float = np.inf) -> Kind:
    """Return the kind of finite numbers above 0."""
    return _simple(lambda value: is_finite_number(value) and 0 < value <= high, f"above 0 and at most {high:g}")


def one_of(*texts: str) -> Kind:
    """Return the kind of one of some texts."""
    return _simple(lambda value: isinstance(value, str) and value in texts, f"one of {', '.join(texts)}")


def size(name: str, low: int = 0) -> Kind:
    """Return the kind of an integer that is itself a size."""

    def fits(value: Any, sizes: Sizes) -> bool:
        return is_whole(value) and value >= low and sizes.setdefault(name, int(value)) == value

    return Kind(fits, f"the number of {name}")


def array(letters: str, *dimensions: str | int, finite: bool = True, low: int | None = None) -> Kind:
    """Return the kind of arrays of numbers or booleans.

    Parameters
    ----------
    letters : str
        Letters of the dtypes.
    *dimensions : str or int
        Names of the sizes, or the sizes.
    finite : bool
        Whether all numbers must be finite.
    low : int, optional
        The smallest number.
    """

    def fits(value: object, sizes: Sizes) -> bool:
        return (
            isinstance(value, np.ndarray)
            and value.dtype.kind in letters
            and _has_shape(value.shape, dimensions, sizes)
            and (not finite or value.dtype.kind != "f" or bool(np.isfinite(value).all()))
            and (low is None or value.size == 0 or bool(value.min() >= low))
        )

    names = {FLOATS: "floats", INTEGERS: "integers", BOOLEANS: "booleans"}
    shape = ", ".join(map(str, dimensions))
    return Kind(fits, f"{'finite ' if finite else ''}{names.get(letters, 'numbers')} of shape ({shape})")


def _has_shape(shape: tuple[int, ...], dimensions: tuple[str | int, ...], sizes: Sizes) -> bool:
    if len(shape) != len(dimensions):
        return False
    wanted = zip(shape, dimensions, strict=True)
    return all((sizes.setdefault(name, length) if isinstance(name, str) else name) == length for length, name in wanted)


def floats(*dimensions: str | int, finite: bool = True) -> Kind:
    """Return the kind of arrays of floats."""
    return array(FLOATS, *dimensions, finite=finite)


def integers(*dimensions: str | int, low: int | None = None) -> Kind:
    """Return the kind of arrays of integers."""
    return array(INTEGERS, *dimensions, low=low)


def booleans(*dimensions: str | int) -> Kind:
    """Return the kind of arrays of booleans."""
    return array(BOOLEANS, *dimensions)


def words(*dimensions: str | int) -> Kind:
    """Return the kind of arrays of texts."""

    def fits(value: object, sizes: Sizes) -> bool:
        if not isinstance(value, np.ndarray) or not _has_shape(value.shape, dimensions, sizes):
            return False
        return value.dtype.kind == "U" or (value.dtype.kind == "O" and all(isinstance(one, str) for one in value.flat))

    return Kind(fits, f"texts of shape ({', '.join(map(str, dimensions))})")


def values(*dimensions: str | int) -> Kind:
    """Return the kind of arrays of any values: numbers, booleans, texts, or plain objects."""

    def fits(value: object, sizes: Sizes) -> bool:
        return isinstance(value, np.ndarray) and _has_shape(value.shape, dimensions, sizes)

    return Kind(fits, f"an array of shape ({', '.join(map(str, dimensions))})")


def zeros_and_ones(lines: str, columns: str) -> Kind:
    """Return the kind of sparse arrays whose entries are -1, 0 or 1."""

    def fits(value: Any, sizes: Sizes) -> bool:
        is_sparse = isinstance(value, csr_array) and value.dtype == np.float64
        return is_sparse and _has_shape(value.shape, (lines, columns), sizes) and bool((np.abs(value.data) <= 1).all())

    return Kind(fits, f"a sparse array of zeros and ones of shape ({lines}, {columns})")


def sparse_floats(lines: str, columns: str) -> Kind:
    """Return the kind of sparse arrays of finite floats."""

    def fits(value: Any, sizes: Sizes) -> bool:
        is_sparse = isinstance(value, csr_array) and value.dtype == np.float64
        return is_sparse and _has_shape(value.shape, (lines, columns), sizes) and bool(np.isfinite(value.data).all())

    return Kind(fits, f"a sparse array of finite floats of shape ({lines}, {columns})")


def sequence(kind: Kind, length: str | None = None, of: type = list) -> Kind:
    """Return the kind of lists, or tuples, whose items are all of one kind."""

    def fits(value: object, sizes: Sizes) -> bool:
        if (
            not isinstance(value, (list, tuple))
            or type(value) is not of
            or (length and not _has_shape((len(value),), (length,), sizes))
        ):
            return False
        return all(kind.fits(one, dict(sizes)) for one in value)

    return Kind(fits, f"a {of.__name__}, each {kind.described}")


def mapping(key: Kind, value: Kind, length: str | None = None) -> Kind:
    """Return the kind of dicts whose keys, and whose values, are all of one kind."""

    def fits(given: object, sizes: Sizes) -> bool:
        if not isinstance(given, (dict, MappingProxyType)):
            return False
        if length and not _has_shape((len(given),), (length,), sizes):
            return False
        return all(key.fits(one, dict(sizes)) and value.fits(other, dict(sizes)) for one, other in given.items())

    return Kind(fits, f"a dict, each {value.described}")


def vocabulary(length: str) -> Kind:
    """Return the kind of dicts from texts to their places.

    Each place occurs once: scipy does not check the columns of the sparse arrays that are made from them.
    """

    def fits(value: object, sizes: Sizes) -> bool:
        if type(value) is not dict or not _has_shape((len(value),), (length,), sizes):
            return False
        places = list(value.values())
        return all(map(is_whole, places)) and sorted(places) == list(range(len(places)))

    return Kind(fits, "texts and their places")


def part(*methods: str) -> Kind:
    """Return the kind of stored objects that have these methods."""
    described = f"a stored object with {' and '.join(methods)}" if methods else "a stored object"
    return _simple(lambda value: all(callable(getattr(value, name, None)) for name in methods), described)


def instance(name: str) -> Kind:
    """Return the kind of stored objects of the class with this name."""
    return _simple(lambda value: type(value).__name__ == name, f"a {name}")


TRANSFORMER = part("fit", "transform")
CLASSIFIER = part("fit", "predict")

#: Number and names of the columns that an object was fitted to.
COLUMNS = {"n_features_in_": maybe(size("columns")), "feature_names_in_": maybe(words("columns"))}
