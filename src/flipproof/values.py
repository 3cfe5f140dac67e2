"""Compare annotators' names and labels by value, in any array, column, file or partition; encode labels as class codes.

Equal numbers are the same: 1, 1.0, ``Decimal("1.00")`` and ``np.uint8(1)``, but not 2**53 and 2**53+1. Strings are the
same if all their characters are, except trailing NULs, which pad arrays of fixed width; likewise bytes. Numbers,
strings, bytes and booleans are never compared with each other: a mix of them is refused.

Soundness: counting one annotator as two makes radii too large, so values that may be the same name are never counted as
two. The value of a fraction depends on its type, so only 64-bit floats may be names, and strings that differ only in
their Unicode form are refused.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.core.rounding import Integers, Values
from flipproof.parameters import parameter_error

#: What arrays of values hold, by the kind of their type. Objects are numbers that do not fit any 64-bit type.
KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "O": "numbers", "U": "words", "S": "bytes"}

#: The last ASCII character.
LAST_OF_ASCII = 127


def as_values(given: Any, name: str, remedy: str = "leave those rows out, or label them.") -> NDArray[Any]:
    """Return values as an array of booleans, numbers, strings or bytes; arrays of these types keep their type.

    Parameters
    ----------
    given : array, list, series, column
        Values of any type, in a sequence.
    name, remedy : str
        The name of the values and what to do about missing ones, for error messages.

    Returns
    -------
    array
        Objects (Python integers) only if no 64-bit type holds all numbers. NaN among floats is kept.

    Raises
    ------
    ValueError
        If some are missing or masked, if they are of several kinds, or of an unsupported kind.
    """
    check_nothing_masked(given, name)
    if hasattr(given, "isna") and getattr(given, "ndim", 0) == 1:  # pandas
        if bool(np.any(given.isna())) and getattr(given.dtype, "kind", None) != "f":
            raise _missing(name, remedy)
        given = np.asarray(given)
    if isinstance(given, (list, tuple)):
        if any(isinstance(one, (list, tuple, np.ndarray)) for one in given[:1]):
            return np.asarray(given)  # two dimensions: the caller refuses them
        return _of_objects(given, name, remedy)
    array = np.asarray(given)
    if array.ndim != 1:
        return array
    if array.dtype.kind in ("O", "T") or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
        return _of_objects(array.tolist(), name, remedy)
    if array.dtype.kind not in KINDS:
        also = "Complex data not supported: " if array.dtype.kind == "c" else ""  # scikit-learn's wording
        raise ValueError(f"{also}{name} must be numbers, strings or booleans. Got {array.dtype}: convert them first.")
    return array


def as_names(given: object, name: str, remedy: str = "name an annotator for each row.") -> NDArray[Any]:
    """Return the names of annotators, one for each row, as `as_values` does.

    Raises
    ------
    ValueError
        If there is not one name per row, or if some are NaN or fractions whose value depends on their type.
    """
    names = as_values(given, name, remedy)
    if names.ndim != 1:
        raise ValueError(f"{name} must be one name per training row. Got shape {names.shape} instead.")
    if names.dtype.kind == "f":
        if np.isnan(names).any():
            raise _missing(name, remedy)
        is_narrow = names.dtype != np.float64 and not (np.isfinite(names) & (names == np.rint(names))).all()
    else:
        is_narrow = names.dtype.kind == "O" and not all(isinstance(one, int) for one in names.tolist())
    if is_narrow:
        raise ValueError(
            f"{name} must be whole numbers, 64-bit floats or strings. Got fractions of another type, whose value "
            "depends on that type: convert them to strings."
        )
    return names


def groups_of_rows(given: object, n_rows: int) -> tuple[list[Any], Integers]:
    """Return the names of groups of test rows in ascending order, and the place of the group of each row among them.

    Raises
    ------
    ValueError
        If there is not one name per test row.
    """
    remedy = "give a name to every test row."
    shape = as_values(given, "groups", remedy).shape
    if shape != (n_rows,):
        raise ValueError(f"groups must have one entry per test row, shape ({n_rows},). Got shape {shape} instead.")
    names, codes = distinct(as_names(given, "groups", remedy))
    return names.tolist(), codes.astype(np.int64)


def as_mask(given: object, name: str, wanted: str) -> NDArray[np.bool_]:
    """Return a mask of booleans; `wanted` says what it must be, for error messages."""
    mask = as_values(given, name, "give True or False for each row.")
    if mask.dtype != bool or mask.ndim != 1:
        raise ValueError(f"{name} must be {wanted} Got {mask.dtype} of shape {mask.shape} instead.")
    return mask


def check_nothing_masked(given: object, name: str) -> None:
    """Refuse a masked array with masked entries: the values behind the mask would be used."""
    n_masked = int(np.ma.getmaskarray(given).sum()) if isinstance(given, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(
            f"{name} must not be missing. Got {n_masked} masked entries: omit those rows, or fill them in."
        )


def kind_of(values: Values) -> str:
    """Return what an array of values holds, for error messages."""
    return KINDS.get(values.dtype.kind, str(values.dtype))


def distinct(values: Values) -> tuple[NDArray[Any], Integers]:
    """Return the distinct values in ascending order, and the position of each value among them."""
    if values.dtype.kind != "O":
        found, codes = np.unique(values, return_inverse=True)
        _check_forms(found)
        return found, codes.astype(np.int64)
    each = values.tolist()
    rising = sorted(set(each))
    place = {one: position for position, one in enumerate(rising)}
    return _array_of(rising), np.fromiter((place[one] for one in each), np.int64, len(each))


def union(first: Values, second: Values) -> NDArray[Any]:
    """Return the values that are in either array, in ascending order; they must be of one kind."""
    return distinct(joined([first, second]))[0]


def joined(arrays: Sequence[Values]) -> NDArray[Any]:
    """Concatenate arrays of one kind without changing any value through type conversion."""
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) == 1:
        return np.asarray(np.concatenate(arrays))
    found = [distinct(array) for array in arrays]
    plain = [_plain(one) for values, _ in found for one in values.tolist()]
    starts = np.cumsum([0, *(len(values) for values, _ in found)])
    codes = [of_array + start for (_, of_array), start in zip(found, starts, strict=False)]
    return np.asarray(_array_of(plain)[np.concatenate(codes)])


def positions(known: Values, values: Values) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the positions of values in an ascending array, and whether they are in it.

    Numbers and booleans are compared as in Python, True as 1.
    """
    kinds = known.dtype.kind, values.dtype.kind
    if len(known) == 0 or (kinds[0] != kinds[1] and not set(kinds) <= set("biufO")):
        return np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=bool)
    if kinds[0] == kinds[1] != "O" or ("O" not in kinds and np.result_type(known, values).kind in "biu"):
        position = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return position, known[position] == values
    place = {_plain(one): position for position, one in enumerate(known.tolist())}
    different, codes = distinct(values)
    found = np.array([place.get(_plain(one), -1) for one in different.tolist()], dtype=np.int64)[codes]
    return np.maximum(found, 0), found >= 0


def are_whole(values: Values) -> NDArray[np.bool_]:
    """Tell which values could be classes: all except fractions, infinity and NaN."""
    if values.dtype.kind != "f":
        return np.ones(len(values), dtype=bool)
    return np.asarray(np.isfinite(values) & (values == np.rint(values)))


def _of_objects(each: Sequence[Any], name: str, remedy: str) -> NDArray[Any]:
    """Return Python objects as an array, of the narrowest type that changes none of them."""
    types = set(map(type, each))
    kinds = {_kind(one) for one in types}
    may_be_nan = any(issubclass(one, (float, np.floating, Decimal)) for one in types)
    if "missing" in kinds or (may_be_nan and any(_is_nan(one) for one in each)):
        raise _missing(name, remedy)
    if len(kinds) > 1:
        raise ValueError(
            f"{name} must all be of one kind. Got a mix of {' and '.join(sorted(kinds))} instead: "
            "convert them to numbers, strings or booleans first."
        )
    kind = next(iter(kinds), "numbers")
    if kind == "strings":  # a string enumeration counts by its value, not its name
        return np.array(each if types == {str} else [str.__str__(one) for one in each], dtype=str)
    if kind == "bytes":
        return np.array([bytes(one) for one in each], dtype=bytes)
    if kind == "booleans":
        return np.array(each, dtype=bool)
    if kind != "numbers":
        raise ValueError(f"{name} must be numbers, strings or booleans. Got {kind} instead: convert them first.")
    if types <= {float, np.float64}:
        return np.array(each, dtype=np.float64)
    # equal numbers of different types may have different hashes
    keys: Iterable[Any] = each if len(types) == 1 else zip(map(type, each), each, strict=True)
    place: dict[Any, int] = {}
    codes = np.fromiter((place.setdefault(key, len(place)) for key in keys), np.int64, len(each))
    numbers = [_plain(key if len(types) == 1 else key[1]) for key in place]
    return _array_of(numbers)[codes]


def _array_of(numbers: Sequence[Any]) -> NDArray[Any]:
    """Return numbers or strings in the first type that holds all of them: int64, uint64, float64, objects."""
    if not all(isinstance(one, int) for one in numbers):
        is_exact = all(isinstance(one, float) or (isinstance(one, int) and abs(one) <= 2**53) for one in numbers)
        return np.array(numbers, dtype=np.float64 if is_exact else object)
    low, high = min(numbers, default=0), max(numbers, default=0)
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return np.array(numbers, dtype=kind)
    return np.array(numbers, dtype=object)


def _plain(number: Any) -> Any:
    """Return a number as a Python integer if it is whole, else as a 64-bit float if that is exact, else unchanged.

    Fractions in narrower floats are returned unchanged: as a 64-bit float, 0.1 is a different number.
    """
    if isinstance(number, (int, np.integer, np.bool_)):
        return int(number)
    if number in (float("inf"), -float("inf")):
        return float(number)
    whole = int(number)
    if whole == number:
        return whole
    is_narrow = isinstance(number, np.floating) and not isinstance(number, float)
    return number if is_narrow or float(number) != number else float(number)


def _kind(one: type) -> str:
    if one is type(None) or one is type(np.ma.masked) or one.__name__ in ("NAType", "NaTType"):  # pandas types
        return "missing"
    if issubclass(one, (bool, np.bool_)):
        return "booleans"
    if issubclass(one, (int, float, np.integer, np.floating, Decimal, Fraction)):
        return "numbers"
    if issubclass(one, str):
        return "strings"
    return "bytes" if issubclass(one, bytes) else one.__name__


def _is_nan(one: object) -> bool:
    return one.is_nan() if isinstance(one, Decimal) else bool(one != one)


def _missing(name: str, remedy: str) -> ValueError:
    return ValueError(f"{name} must not be missing. Got None or NaN among them: {remedy}")


def _check_forms(values: Values) -> None:
    """Refuse distinct strings that are equivalent in Unicode, like a composed and a decomposed "é"."""
    if values.dtype.kind != "U" or values.size == 0 or values.dtype.itemsize == 0:
        return
    points = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    forms: dict[str, str] = {}
    for one in values[(points > LAST_OF_ASCII).any(axis=1)].tolist():
        form = unicodedata.normalize("NFC", one)
        is_there = form.isascii() and bool(positions(values, np.array([form]))[1][0])  # e.g. the Kelvin sign and K
        other = forms.setdefault(form, form if is_there else one)
        if other != one:
            raise ValueError(
                f"{other!r} and {one!r} are the same text in two Unicode forms, {other!a} and {one!a}: normalize "
                "all names and labels, for example with unicodedata.normalize('NFC', name)."
            )


def label_values(y: Any, name: str = "The labels y") -> Any:
    """Return labels by value, as an array; input that is not one-dimensional is left to the caller to refuse.

    Raises
    ------
    ValueError
        If labels are missing, of several kinds, or of an unsupported kind.
    """
    if y is None:
        return y
    if hasattr(y, "iloc") and getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:  # keeps the type of the frame's column
        return label_values(y.iloc[:, 0], name)[:, None]
    labels = as_values(y, name)
    if labels.dtype.kind == "O" and labels.ndim == 1:
        raise ValueError(
            f"{name} must be strings or whole numbers of at most 64 bits. Got {_first_beyond(labels)!r} among them: "
            "convert them to strings."
        )
    return labels


def encode_labels(y: Values, classes: ArrayLike | None) -> tuple[NDArray[Any], Integers]:
    """Return the sorted classes and the labels as positions in them.

    If `classes` is given, not all of them need to occur among the labels.
    """
    labels = label_values(y)
    if classes is None:
        found, codes = distinct(labels)
        if len(found) < 2:
            raise ValueError(
                f"The training labels contain only one class, {found.tolist()[0]!r}; at least two are needed. "
                "If other classes exist but do not occur here, name them all with classes=[...]."
            )
        return found, codes
    known = label_values(classes, "The 'classes'")
    if known.ndim != 1 or len(distinct(known)[0]) < 2:
        raise parameter_error("the learner", "classes", "a list of at least two classes", classes)
    if not are_whole(known).all():
        raise parameter_error("the learner", "classes", "strings or whole numbers", known.tolist())
    known = distinct(known)[0]
    codes, is_known = positions(known, labels)
    if not is_known.all():
        strange = distinct(labels[~is_known])[0][:3].tolist()
        raise ValueError(f"The labels y contain {strange}, which are not in classes={known.tolist()}.")
    return known, codes.astype(np.int64)


def _first_beyond(labels: Values) -> Any:
    limits = np.iinfo(np.int64).min, np.iinfo(np.uint64).max
    return next((one for one in labels.tolist() if not limits[0] <= one <= limits[1] or one != int(one)), labels[0])


def column_of(values: Sequence[object]) -> Any:
    """Return ids or labels as a column of pyarrow: integers beyond int64 as uint64, and as words beyond that."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except OverflowError:
        pass
    try:
        return pa.array(values, pa.uint64())
    except (OverflowError, pa.ArrowException):
        return pa.array([None if one is None else str(one) for one in values])
