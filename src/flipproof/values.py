"""Names of annotators and labels compared by value, in any array, column, file or partition; labels as class codes.

Two numbers are the same if they are equal: 1, 1.0, ``Decimal("1.00")`` and ``np.uint8(1)``, but not 2**53 and 2**53+1.
Strings are the same if all their characters are, without NULs at the end, which arrays of fixed width fill up with;
bytes likewise. Numbers, strings, bytes and booleans are never compared to each other: a mix of them is refused.

Soundness: an annotator who is taken for two makes radii too large, so nothing that may be one name is taken for two. Of
fractions, which differ by the type that holds them, only those of 64 bits are names, and strings that differ only in
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

from flipproof.core.rounding import Integers

#: What arrays of values hold, by the kind of their type. Objects are numbers that no type of 64 bits holds.
KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "O": "numbers", "U": "words", "S": "bytes"}

#: The last character of ASCII.
LAST_OF_ASCII = 127


def as_values(given: Any, name: str, remedy: str = "leave those rows out, or label them.") -> NDArray[Any]:
    """Return values as an array of booleans, numbers, strings or bytes, of the type that they have, if they have one.

    Parameters
    ----------
    given : array, list, series, column
        Values of any type, in anything that holds one after another.
    name, remedy : str
        What they are called, and what to do about missing ones, for errors.

    Returns
    -------
    array
        Objects only where no type of 64 bits holds all numbers: integers of Python. NaN among floats stays.

    Raises
    ------
    ValueError
        If some are missing or masked, if they are of several kinds, or of another one.
    """
    check_nothing_masked(given, name)
    if hasattr(given, "isna") and getattr(given, "ndim", 0) == 1:  # pandas
        if bool(np.any(given.isna())) and getattr(given.dtype, "kind", None) != "f":
            raise _missing(name, remedy)
        given = np.asarray(given)
    if isinstance(given, (list, tuple)):
        if any(isinstance(one, (list, tuple, np.ndarray)) for one in given[:1]):
            return np.asarray(given)  # of two dimensions: not for this function to refuse
        return _of_objects(given, name, remedy)
    array = np.asarray(given)
    if array.ndim != 1:
        return array
    if array.dtype.kind in ("O", "T") or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
        return _of_objects(array.tolist(), name, remedy)
    if array.dtype.kind not in KINDS:
        also = "Complex data not supported: " if array.dtype.kind == "c" else ""  # as scikit-learn says it
        raise ValueError(f"{also}{name} must be numbers, strings or booleans. Got {array.dtype}: convert them first.")
    return array


def as_names(given: Any, name: str, remedy: str = "give each row somebody's name.") -> NDArray[Any]:
    """Return the names of annotators, one for each row, as `as_values` does.

    Raises
    ------
    ValueError
        If it is not one name for each row, or if some are NaN or fractions that other types would hold otherwise.
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
            f"{name} must be whole numbers, floats of 64 bits or strings. Got fractions of another type, which are "
            "other numbers there: convert them to strings."
        )
    return names


def as_mask(given: Any, name: str, wanted: str) -> NDArray[np.bool_]:
    """Return a mask of booleans; `wanted` says what it must be, for errors."""
    mask = as_values(given, name, "say yes or no for each row.")
    if mask.dtype != bool or mask.ndim != 1:
        raise ValueError(f"{name} must be {wanted} Got {mask.dtype} of shape {mask.shape} instead.")
    return mask


def check_nothing_masked(given: Any, name: str) -> None:
    """Refuse a masked array in which something is masked: whatever is behind the mask would count."""
    n_masked = int(np.ma.getmaskarray(given).sum()) if isinstance(given, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(
            f"{name} must not be missing. Got {n_masked} masked entries: leave those rows out, or fill them in."
        )


def kind_of(values: NDArray[Any]) -> str:
    """Return what an array of values holds, in words."""
    return KINDS.get(values.dtype.kind, str(values.dtype))


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """Return the different values in rising order, and the position of each value among them."""
    if values.dtype.kind != "O":
        found, codes = np.unique(values, return_inverse=True)
        _check_forms(found)
        return found, codes.astype(np.int64)
    each = values.tolist()
    rising = sorted(set(each))
    place = {one: position for position, one in enumerate(rising)}
    return _array_of(rising), np.fromiter((place[one] for one in each), np.int64, len(each))


def union(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return the values that are in either array, in rising order; they must be of one kind."""
    return distinct(joined([first, second]))[0]


def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays of one kind one after another, and no value changed by the type of another."""
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) == 1:
        return np.asarray(np.concatenate(arrays))
    found = [distinct(array) for array in arrays]
    plain = [_plain(one) for values, _ in found for one in values.tolist()]
    starts = np.cumsum([0, *(len(values) for values, _ in found)])
    codes = [of_array + start for (_, of_array), start in zip(found, starts, strict=False)]
    return np.asarray(_array_of(plain)[np.concatenate(codes)])


def positions(known: NDArray[Any], values: NDArray[Any]) -> tuple[Integers, NDArray[np.bool_]]:
    """Return where values are in an array that rises, and whether they are there at all.

    Numbers and booleans are compared as Python does, True as 1.
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


def are_whole(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values could be classes: all but fractions, infinity and NaN."""
    if values.dtype.kind != "f":
        return np.ones(len(values), dtype=bool)
    return np.asarray(np.isfinite(values) & (values == np.rint(values)))


def _of_objects(each: Sequence[Any], name: str, remedy: str) -> NDArray[Any]:
    """Return objects of Python as an array, of the narrowest type that changes none of them."""
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
    if kind == "strings":  # a word of an enumeration is its value, not its name
        return np.array(each if types == {str} else [str.__str__(one) for one in each], dtype=str)
    if kind == "bytes":
        return np.array([bytes(one) for one in each], dtype=bytes)
    if kind == "booleans":
        return np.array(each, dtype=bool)
    if kind != "numbers":
        raise ValueError(f"{name} must be numbers, strings or booleans. Got {kind} instead: convert them first.")
    if types <= {float, np.float64}:
        return np.array(each, dtype=np.float64)
    # numbers of several types may be equal, and yet not found by their hashes
    keys: Iterable[Any] = each if len(types) == 1 else zip(map(type, each), each, strict=True)
    place: dict[Any, int] = {}
    codes = np.fromiter((place.setdefault(key, len(place)) for key in keys), np.int64, len(each))
    numbers = [_plain(key if len(types) == 1 else key[1]) for key in place]
    return _array_of(numbers)[codes]


def _array_of(numbers: Sequence[Any]) -> NDArray[Any]:
    """Return plain numbers, or strings, in the first of these types that holds all: int64, uint64, float64, objects."""
    if not all(isinstance(one, int) for one in numbers):
        is_exact = all(isinstance(one, float) or (isinstance(one, int) and abs(one) <= 2**53) for one in numbers)
        return np.array(numbers, dtype=np.float64 if is_exact else object)
    low, high = min(numbers, default=0), max(numbers, default=0)
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return np.array(numbers, dtype=kind)
    return np.array(numbers, dtype=object)


def _plain(number: Any) -> Any:
    """Return a number as an integer of Python if it is whole, else as a float of 64 bits if it is one, else as it is.

    Fractions in floats of fewer bits are left alone: as a float of 64 bits, 0.1 is another number.
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
    if one is type(None) or one is type(np.ma.masked) or one.__name__ in ("NAType", "NaTType"):  # those of pandas
        return "missing"
    if issubclass(one, (bool, np.bool_)):
        return "booleans"
    if issubclass(one, (int, float, np.integer, np.floating, Decimal, Fraction)):
        return "numbers"
    if issubclass(one, str):
        return "strings"
    return "bytes" if issubclass(one, bytes) else one.__name__


def _is_nan(one: Any) -> bool:
    return one.is_nan() if isinstance(one, Decimal) else bool(one != one)


def _missing(name: str, remedy: str) -> ValueError:
    return ValueError(f"{name} must not be missing. Got None or NaN among them: {remedy}")


def _check_forms(values: NDArray[Any]) -> None:
    """Refuse different strings that are one in Unicode, as an e with an accent and an e that an accent follows."""
    if values.dtype.kind != "U" or values.size == 0 or values.dtype.itemsize == 0:
        return
    points = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    forms: dict[str, str] = {}
    for one in values[(points > LAST_OF_ASCII).any(axis=1)].tolist():
        form = unicodedata.normalize("NFC", one)
        is_there = form.isascii() and bool(positions(values, np.array([form]))[1][0])  # as the sign of Kelvin, a K
        other = forms.setdefault(form, form if is_there else one)
        if other != one:
            raise ValueError(
                f"{other!r} and {one!r} are the same text in two Unicode forms, {other!a} and {one!a}: bring "
                "all names and labels into one form, as unicodedata.normalize('NFC', name) does."
            )


def label_values(y: Any, name: str = "The labels y") -> Any:
    """Return labels by value, as an array; what is not one label after another as it is, for others to refuse.

    Raises
    ------
    ValueError
        If labels are missing, of several kinds, or of another one.
    """
    if y is None:
        return y
    if hasattr(y, "iloc") and getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:  # a frame's types would be lost
        return label_values(y.iloc[:, 0], name)[:, None]
    labels = as_values(y, name)
    if labels.dtype.kind == "O" and labels.ndim == 1:
        raise ValueError(
            f"{name} must be strings, or whole numbers that 64 bits hold. Got {_first_beyond(labels)!r} among them: "
            "convert them to strings."
        )
    return labels


def encode_labels(y: NDArray[Any], classes: ArrayLike | None) -> tuple[NDArray[Any], Integers]:
    """Return the sorted classes and the labels as positions in them.

    With `classes` given, labels may leave some of them out, or even be all the same.
    """
    labels = label_values(y)
    if classes is None:
        found, codes = distinct(labels)
        if len(found) < 2:
            raise ValueError(
                f"The training labels hold only one class, {found.tolist()[0]!r}; at least two are needed. "
                "If other classes exist but do not occur here, name them all with classes=[...]."
            )
        return found, codes
    known = label_values(classes, "The 'classes'")
    if known.ndim != 1 or len(distinct(known)[0]) < 2:
        raise ValueError(f"The 'classes' parameter must be a list of at least two classes. Got {classes!r} instead.")
    if not are_whole(known).all():
        raise ValueError(f"The 'classes' must be whole numbers if they are numbers. Got {known.tolist()} instead.")
    known = distinct(known)[0]
    codes, is_known = positions(known, labels)
    if not is_known.all():
        strange = distinct(labels[~is_known])[0][:3].tolist()
        raise ValueError(f"The labels y hold {strange}, which 'classes' does not name: it names {known.tolist()}.")
    return known, codes.astype(np.int64)


def _first_beyond(labels: NDArray[Any]) -> Any:
    limits = np.iinfo(np.int64).min, np.iinfo(np.uint64).max
    return next((one for one in labels.tolist() if not limits[0] <= one <= limits[1] or one != int(one)), labels[0])


def column_of(values: Sequence[Any]) -> Any:
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
