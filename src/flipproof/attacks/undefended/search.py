"""Search for the smallest sufficient number of changes in a sequence, with one refit for each number tried."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: Maps a number of changes to the margin of the prediction after them: zero or less where it is overturned.
Margin = Callable[[int], float]


def fewest(margin: Margin, most: int, at_none: float) -> int | None:
    """Return a number of changes that suffices while one fewer does not, or None: doubling, then narrowing.

    The margin need not decrease monotonically, so a smaller number may also suffice and be missed.
    """
    low, at_low, high = 0, at_none, 1
    while low < most:
        high = min(high, most)
        at_high = margin(high)
        if at_high <= 0:
            return narrowed(margin, low, high, at_low, at_high)
        low, at_low, high = high, at_high, 2 * high
    return None


def narrowed(margin: Margin, low: int, high: int, at_low: float, at_high: float) -> int:
    """Return a number in (low, high] that suffices while one fewer does not; `low` does not suffice, `high` does."""
    halve = False
    while high - low > 1:
        middle = (low + high) // 2
        if not halve and np.isfinite(at_low) and np.isfinite(at_high):
            on_the_line = low + (high - low) * at_low / (at_low - at_high)
            middle = min(max(round(on_the_line), low + 1), high - 1)
        at_middle = margin(middle)
        if at_middle <= 0:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
        halve = not halve  # interpolation alone may converge slowly from one side
    return high


def fewest_from(margin: Margin, start: int, most: int) -> int | None:
    """Return a number of at least `start` that suffices: `start`, then 1, 2, 4, ... more, then narrowing."""
    low, high, more = start - 1, start, 1
    while high <= most:
        if margin(high) <= 0:
            return narrowed(margin, low, high, 1.0, -1.0)
        if high == most:
            return None
        low, high, more = high, min(high + more, most), 2 * more
    return None
