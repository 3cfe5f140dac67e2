"""Windows of time: all labels of any r windows of a given length may be changed (M15).

A window is closed: it covers the labels whose timestamps t satisfy ``start <= t <= start + length``. Moving a window to
the right until it starts at the first timestamp that it covers loses no label, so windows that start at a timestamp
suffice. Let the distinct timestamps be in ascending order, g_i >= 0 the sum of the gains (M10) of the labels with
timestamp i, and e_i the first timestamp beyond the window that starts at i. Windows may overlap, and a label in two
windows gains once. If a chosen window starts inside another, it can start at the end of that one instead without losing
a label that is not covered already. So windows need not overlap, and the largest gain of r windows among the timestamps
from i on is

    f_r(i) = max over j >= i of  (g_j + ... + g_(e_j - 1)) + f_(r - 1)(e_j),      f_0 = 0.

Soundness: integers throughout. The least r with f_r(0) >= lead is exact, as a lower and an upper bound: the maximum is
attained by r windows, and no r windows gain more. Comparisons of timestamps are exact as well: integers are subtracted
without overflow; for floats, ``t <= start + length`` is decided by the rounded sum and its exact rounding error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers


def window_ends(stamps: NDArray[Any], length: int | float) -> Integers:
    """Return, for the window that starts at each timestamp, the position of the first timestamp beyond it.

    Parameters
    ----------
    stamps : integers or floats of shape (t,)
        Distinct timestamps in ascending order.
    length : int or float
        Length of a window, at least 0: an integer for integers, a float for floats.
    """
    if not len(stamps):
        return np.zeros(0, dtype=np.int64)
    if stamps.dtype.kind != "f":
        since = stamps.astype(np.uint64) - stamps[:1].astype(np.uint64)  # modulo 2**64, so exact for any sign
        reach = np.uint64(min(int(length), int(since[-1])))
        last = np.where(since > since[-1] - reach, since[-1], since + np.minimum(reach, since[-1] - since))
        return np.asarray(np.searchsorted(since, last, side="right"), dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        total = stamps + length
        part = total - stamps
        lost = (stamps - (total - part)) + (length - part)  # the exact sum is total + lost
    below = np.searchsorted(stamps, total, side="left")
    upto = np.searchsorted(stamps, total, side="right")
    return np.where(lost < 0, below, upto).astype(np.int64)


def ends_among(ends: Integers, kept: Integers) -> Integers:
    """Return the ends of windows if only the timestamps at the positions `kept`, in ascending order, matter."""
    return np.searchsorted(kept, ends[kept]).astype(np.int64)


def least_cover(ends: Integers) -> int:
    """Return the least number of windows that cover all timestamps: each starts at the first that is not covered."""
    count, at = 0, 0
    while at < len(ends):
        count, at = count + 1, int(ends[at])
    return count


def least_windows(gains: Integers, ends: Integers, lead: Integers) -> Integers:
    """Return the least number of windows whose gains reach the lead of each row; -1 if all windows do not.

    `gains` has shape (rows, timestamps); `lead` is at least 1.
    """
    needed = np.where(gains.sum(axis=1) >= lead, 0, -1)  # all timestamps can be covered
    rows = np.flatnonzero(needed == 0)
    alone, best = _window_gains(gains[rows], ends), np.zeros((len(rows), gains.shape[1] + 1), dtype=np.int64)
    count = 0
    while len(rows):
        count += 1
        best = _with_one_more(alone, best, ends)
        is_open = best[:, 0] < lead[rows]
        needed[rows[~is_open]] = count
        rows, alone, best = rows[is_open], alone[is_open], best[is_open]
    return needed


def _window_gains(gains: Integers, ends: Integers) -> Integers:
    """Return the gain of the window that starts at each timestamp."""
    upto = np.zeros((len(gains), gains.shape[1] + 1), dtype=np.int64)
    np.cumsum(gains, axis=1, out=upto[:, 1:])
    return np.asarray(upto[:, ends] - upto[:, :-1])


def _with_one_more(alone: Integers, best: Integers, ends: Integers) -> Integers:
    """Return f_r, given f_(r - 1), both of shape (rows, timestamps + 1)."""
    more = np.zeros_like(best)
    starting_here = alone + best[:, ends]
    more[:, :-1] = np.maximum.accumulate(starting_here[:, ::-1], axis=1)[:, ::-1]
    return more


def best_windows(gains: Integers, ends: Integers, count: int) -> Integers:
    """Return the first timestamps of `count` windows, or fewer, with the largest gain; of shape (windows,).

    `gains` are those of one test row, of shape (timestamps,).
    """
    alone = _window_gains(gains[None, :], ends)
    tables = [np.zeros((1, len(gains) + 1), dtype=np.int64)]
    for _ in range(count):
        tables.append(_with_one_more(alone, tables[-1], ends))
    starts, at = [], 0
    for left in range(count, 0, -1):
        value = tables[left][0, at]
        if value == 0:
            break
        here = alone[0] + tables[left - 1][0, ends]
        at = at + int(np.argmax(here[at:] == value))
        starts.append(at)
        at = int(ends[at])
    return np.array(starts, dtype=np.int64)
