"""Timestamps and lengths of time, compared exactly, in the type in which they are given."""

from __future__ import annotations

import datetime
import math
import re
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Values
from flipproof.values import as_values

#: Nanoseconds of the units of a length of time.
NANOSECONDS = {
    "w": 7 * 86_400 * 10**9,
    "d": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "min": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}

#: Attoseconds of the units of NumPy, except years and months, whose length varies.
ATTOSECONDS = {
    "W": 7 * 86_400 * 10**18,
    "D": 86_400 * 10**18,
    "h": 3_600 * 10**18,
    "m": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}

LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(weeks?|days?|hours?|min|ms|us|ns|w|d|h|s)\s*")

WANTED_LENGTH = "a length of time such as '7d', '12h' or '30min', or a timedelta"


def as_stamps(given: object, name: str) -> NDArray[Any]:
    """Return timestamps as an array of integers, 64-bit floats or datetime64, of shape (n,).

    Parameters
    ----------
    given : array, list, series or column
        Numbers; or dates and times of NumPy, Python, pandas, polars or pyarrow. Times with a time zone become UTC.
    name : str
        Name of the timestamps in error messages.
    """
    if str(getattr(given, "dtype", "")).startswith("datetime64") and hasattr(given, "dt"):  # pandas, with a time zone
        given = given.dt.tz_convert("UTC").dt.tz_localize(None) if given.dt.tz is not None else given
    array = np.asarray(given)
    if array.dtype.kind == "O" and array.ndim == 1 and _are_dates(array):
        array = _of_dates(array.tolist(), name)
    if array.dtype.kind == "M":
        stamps = _datetimes(array, name)
    else:
        stamps = as_values(given, name, "give a timestamp for each row.")
        if stamps.dtype.kind not in "iuf":
            raise ValueError(
                f"{name} must be numbers, dates or times. Got {stamps.dtype} instead: convert them first, for example "
                "by pandas.to_datetime."
            )
        if stamps.dtype.kind == "f":
            stamps = stamps.astype(np.float64)
            if not np.isfinite(stamps).all():
                raise ValueError(f"{name} must be finite. Got NaN or infinity: give a timestamp for each row.")
    if stamps.ndim != 1:
        raise ValueError(f"{name} must be one timestamp per training row. Got shape {stamps.shape} instead.")
    return stamps


def _are_dates(array: Values) -> bool:
    return len(array) > 0 and any(isinstance(one, (datetime.date, np.datetime64)) for one in array)


def _of_dates(given: list[Any], name: str) -> NDArray[Any]:
    """Return dates and times of Python and pandas as datetime64; pandas has nanoseconds."""
    zoned = {getattr(one, "tzinfo", None) is not None for one in given}
    if not all(isinstance(one, (datetime.date, np.datetime64)) for one in given) or len(zoned) > 1:
        raise ValueError(
            f"{name} must be all dates, all times without a time zone, or all times with one. Got a mix, or missing "
            "ones: give a timestamp for each row."
        )

    def plain(one: Any) -> np.datetime64:
        if hasattr(one, "to_datetime64"):
            return np.datetime64(one.to_datetime64())
        if isinstance(one, datetime.datetime) and one.tzinfo is not None:
            one = one.astimezone(datetime.UTC).replace(tzinfo=None)
        return one if isinstance(one, np.datetime64) else np.datetime64(one)

    return np.array([plain(one) for one in given])


def _datetimes(array: NDArray[Any], name: str) -> NDArray[Any]:
    if np.isnat(array).any():
        raise ValueError(f"{name} must not be missing. Got NaT: give a timestamp for each row.")
    unit, step = np.datetime_data(array.dtype)
    if unit in ("Y", "M"):
        array = array.astype("datetime64[D]")
    elif step != 1:
        array = array.astype(f"datetime64[{unit}]")
    return array


def as_length(length: object, stamps: NDArray[Any], name: str) -> int | float:
    """Return the length of a window in the units of the timestamps: an integer, rounded down, or a float for floats.

    Soundness: differences of integers are integers, so rounding down does not change which of them are within it.

    Parameters
    ----------
    length : number, timedelta, or str
        A number for numbers; a timedelta or a text such as "7d", "12h" or "30min" for dates and times.
    stamps : array
        As `as_stamps` returns them.
    name : str
        Name of the length in error messages.
    """
    if stamps.dtype.kind == "M":
        value = _attoseconds(length, name) / ATTOSECONDS[np.datetime_data(stamps.dtype)[0]]
    else:
        value = _number(length, name)
    if value < 0:
        raise ValueError(f"{name} must not be negative. Got {length!r} instead.")
    if stamps.dtype.kind != "f":
        return math.floor(value)
    if Fraction(float(value)) != value:
        raise ValueError(f"{name} must be a 64-bit float, as the timestamps are. Got {length!r} instead.")
    return float(value)


def _number(length: Any, name: str) -> Fraction:
    if isinstance(length, str):
        try:
            length = float(length) if not length.strip().isdigit() else int(length)
        except ValueError:
            raise ValueError(f"{name} must be a number, as the timestamps are. Got {length!r} instead.") from None
    is_number = isinstance(length, Real) and not isinstance(length, (bool, np.bool_))
    if not is_number or not (isinstance(length, Integral) or math.isfinite(length)):
        raise ValueError(f"{name} must be a finite number, as the timestamps are. Got {length!r} instead.")
    return Fraction(int(length)) if isinstance(length, Integral) else Fraction(float(length))


def _attoseconds(length: object, name: str) -> Fraction:
    if hasattr(length, "to_timedelta64"):  # pandas: nanoseconds
        length = length.to_timedelta64()
    if isinstance(length, datetime.timedelta):
        whole = (length.days * 86_400 + length.seconds) * 10**6 + length.microseconds
        return Fraction(whole * 10**12)
    if isinstance(length, np.timedelta64):
        unit, step = np.datetime_data(length.dtype)
        if unit in ATTOSECONDS and not np.isnat(length):
            return Fraction(int(length.astype(np.int64)) * step * ATTOSECONDS[unit])
    found = LENGTH.fullmatch(length) if isinstance(length, str) else None
    if found is None:
        raise ValueError(f"{name} must be {WANTED_LENGTH}. Got {length!r} instead.")
    unit = found[2] if found[2] in NANOSECONDS else found[2][0]
    return Fraction(found[1]) * NANOSECONDS[unit] * 10**9


def whole_numbers(stamps: Values) -> NDArray[Any]:
    """Return timestamps as plain numbers, in the same order: dates and times as integers."""
    return stamps.view(np.int64) if stamps.dtype.kind == "M" else stamps


def length_in_words(length: object, stamps: Values) -> str:
    """Return the length of a window as text: a number, or for dates and times a whole number of the largest unit."""
    if stamps.dtype.kind != "M":
        value = _number(length, "length")
        return str(int(value)) if value.denominator == 1 else repr(float(value))
    value = _attoseconds(length, "length")
    units = {name: factor * 10**9 for name, factor in NANOSECONDS.items() if name != "w"} | {"ps": 10**6, "fs": 10**3}
    unit = next((name for name, factor in units.items() if value % factor == 0), "as")
    return f"{math.floor(value / units.get(unit, 1))}{unit}"


def from_the_first(stamps: NDArray[Any]) -> tuple[NDArray[Any], str | None]:
    """Return distinct timestamps in ascending order, integers as distances from the first one, and their unit."""
    times = np.unique(whole_numbers(stamps))
    if times.dtype.kind != "f":
        exact = [int(time) - int(times[0]) for time in times.tolist()]
        if exact and exact[-1] >= 2**62:
            raise ValueError("These timestamps are 2**62 units or more apart: certificate files cannot hold them.")
        times = np.array(exact, dtype=np.int64)
    unit = np.datetime_data(stamps.dtype)[0] if stamps.dtype.kind == "M" else None
    return times, None if unit is None else {"W": "w", "D": "d", "m": "min"}.get(unit, unit)
