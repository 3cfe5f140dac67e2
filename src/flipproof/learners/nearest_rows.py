"""The k nearest of measured rows: by value, then by content, with whole piles at the cut.

Distances come from :mod:`flipproof.learners.neighbor_search`. Rows with equal distance and equal content form a *pile*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import tiles

#: Shorter rows are selected from as a whole: a sample takes longer, where NumPy selects by vector instructions.
LONG_ROW = 2**14

#: Distances are integers of at most 53 bits and a sign; with a tag of this many bits they fit into an int64.
TAG_BITS = 9

#: The sample has one in this many distances; it shows which distances are small.
SAMPLED = 16

#: Number of distances to select from at a time: 2 MiB, which fits in a cache.
NUMBERS_TO_SELECT_FROM = 2**18


@dataclass(frozen=True)
class RowsInOrder:
    """The nearest training rows of each test row, in order.

    Attributes
    ----------
    rows : integers of shape (m, depth)
        Their row numbers.
    ends_pile : booleans of shape (m, depth)
        Whether the next row, listed or not, is in another pile, or there is none.
    """

    rows: Integers
    ends_pile: NDArray[np.bool_]


def smallest(values: Floats, k: int) -> Integers:
    """Return the columns of the k smallest values of each row, in ascending order; of equal values, the first ones."""
    m, n = values.shape
    if k == n:
        return np.tile(np.arange(n), (m, 1))
    chosen = np.empty((m, k), dtype=np.int64)
    for start, stop in tiles(m, max(NUMBERS_TO_SELECT_FROM // n, 1)):
        chosen[start:stop] = _smallest_of_few(values[start:stop], k)
    return chosen


def _smallest_of_few(values: Floats, k: int) -> Integers:
    m, n = values.shape
    threshold = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    cells = np.flatnonzero(values <= threshold)
    if len(cells) > m * k:  # more than k are at or below the threshold: drop the last of those equal to it
        row = cells // n
        equal = np.flatnonzero(values.ravel()[cells] == threshold[row, 0])
        n_equal = np.bincount(row[equal], minlength=m)
        surplus = np.bincount(row, minlength=m) - k
        place = np.arange(len(equal)) - (np.cumsum(n_equal) - n_equal)[row[equal]]
        cells = np.delete(cells, equal[place >= (n_equal - surplus)[row[equal]]])
    return np.asarray(cells.reshape(m, k) % n)


def kth_smallest(values: Floats, k: int) -> Floats:
    """Return the k-th smallest value of each row.

    Every 16th value of a long row tells about where it is; only smaller values are then selected from.

    Soundness: the k-th smallest of all values up to a limit is that of the whole row if there are at least k of them.
    If there are fewer, it is selected from the whole row. So the sample costs or saves time, and nothing else.
    """
    sample = values[:, ::SAMPLED]
    rank = k // SAMPLED + 4 * math.isqrt(k // SAMPLED + 1) + 2
    if values.shape[1] < LONG_ROW or 4 * rank > sample.shape[1]:
        return np.asarray(np.partition(values, k - 1, axis=1)[:, k - 1])
    limits, found = np.partition(sample, rank, axis=1)[:, rank], np.empty(len(values), dtype=values.dtype)
    for number, (row, limit) in enumerate(zip(values, limits, strict=True)):
        few = row[row <= limit]
        few = few if len(few) >= k else row.copy()
        few.partition(k - 1)
        found[number] = few[k - 1]
    return found


def nearest_piles(values: Floats, contents: NDArray[np.uint64], k: int) -> tuple[Integers, Integers]:
    """Return the columns of the k smallest values of each row, and of the rest of the last one's pile.

    `contents` orders columns of equal value; columns for which it is equal too are one pile.

    Returns
    -------
    starts : integers of shape (rows + 1,)
        Where the columns of each row begin and end in the other array.
    columns : integers
        In ascending order for each row.
    """
    m, n = values.shape
    if k >= n:
        return n * np.arange(m + 1), np.tile(np.arange(n), m)
    parts = [
        _nearest_piles_of_few(values[start:stop], contents, k)
        for start, stop in tiles(m, max(NUMBERS_TO_SELECT_FROM // n, 1))
    ]
    starts = np.zeros(m + 1, dtype=np.int64)
    np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *(count for count, _ in parts)]), out=starts[1:])
    return starts, np.concatenate([np.zeros(0, dtype=np.int64), *(columns for _, columns in parts)])


def _nearest_piles_of_few(values: Floats, contents: NDArray[np.uint64], k: int) -> tuple[Integers, Integers]:
    m, n = values.shape
    threshold = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    cells = np.flatnonzero(values <= threshold)
    row = cells // n
    count = np.bincount(row, minlength=m)
    if len(cells) > m * k:  # of those equal to a threshold, keep the first by content, up to the end of a pile
        tied = np.flatnonzero((count > k)[row] & (values.ravel()[cells] == threshold[row, 0]))
        kept = _first_piles(row[tied], contents[cells[tied] % n], count - k)
        cells = np.delete(cells, tied[~kept])
        count = np.bincount(cells // n, minlength=m)
    return count, cells % n


def _first_piles(row: Integers, content: NDArray[np.uint64], surplus: Integers) -> NDArray[np.bool_]:
    """Tell which entries come first by content in their row, all but `surplus` of them, or are as the last of these.

    Rows are ascending; each that has an entry has a surplus, of fewer than all its entries.
    """
    in_order = content[np.lexsort((content, row))]
    end = np.searchsorted(row, np.arange(len(surplus)), side="right")
    last = np.zeros(len(surplus), dtype=np.uint64)
    concerned = np.unique(row)
    last[concerned] = in_order[end[concerned] - surplus[concerned] - 1]
    return np.asarray(content <= last[row])


def in_order(values: Floats, contents: NDArray[np.uint64], depth: int) -> RowsInOrder:
    """List the columns of the `depth` smallest values of each row, ascending by value, then by content."""
    m, n = values.shape
    listed = min(depth + 1, n)  # one more: does it belong to the last pile?
    columns = np.empty((m, listed), dtype=np.int64)
    for start, stop in tiles(m, max(NUMBERS_TO_SELECT_FROM // max(n, 1), 1)):
        columns[start:stop] = _sorted_columns(values[start:stop], contents, listed)
    chosen, content = np.take_along_axis(values, columns, axis=1), contents[columns]
    ends = np.ones((m, listed), dtype=bool)
    ends[:, :-1] = (chosen[:, 1:] != chosen[:, :-1]) | (content[:, 1:] != content[:, :-1])
    return RowsInOrder(columns[:, :depth], ends[:, :depth])


@dataclass(frozen=True)
class NearestSets:
    """Training rows near some test rows, in no order: those after the first `skip` nearest, up to a depth.

    Attributes
    ----------
    columns : integers of shape (rows, depth - skip)
        Their row numbers, ascending.
    values : floats of shape (rows, depth - skip)
        What they are ordered by; these are integers.
    counts : integers of shape (rows, blocks)
        How many of the first `skip` nearest rows, or of all if none are skipped, are in each block of training rows.
    found : booleans of shape (m,)
        Which test rows these are: those for which no other row is as near as the last of these, or of the skipped ones.
    """

    columns: Integers
    values: Floats
    counts: Integers
    found: NDArray[np.bool_]

    def tags_in_order(
        self, contents: NDArray[np.uint64], tags: Integers
    ) -> tuple[NDArray[Any], NDArray[np.bool_], Integers]:
        """Return a small number of each row, such as its class, in the order of the rows; where piles end; the values.

        Sorting integers that hold the value, then the tag, is several times faster than sorting row numbers by value.
        Where values are equal, content decides, and the row numbers are sorted after all.
        """
        n_bits = int(tags.max(initial=0)).bit_length()
        keys = self.values.astype(np.int64)
        if n_bits <= TAG_BITS:
            keys <<= n_bits
            keys |= tags[self.columns]
            keys.sort(axis=1)
            named = (keys & (2**n_bits - 1)).astype(np.int16)
            keys >>= n_bits
        else:
            named = np.empty(keys.shape, dtype=tags.dtype)
            keys.sort(axis=1)
        ends = np.ones(keys.shape, dtype=bool)
        np.not_equal(keys[:, 1:], keys[:, :-1], out=ends[:, :-1])
        slow = np.flatnonzero(~ends.all(axis=1)) if n_bits <= TAG_BITS else np.arange(len(keys))
        if len(slow):
            columns = _sorted_by_value(self.values[slow], self.columns[slow], contents)[0]
            named[slow], content = tags[columns], contents[columns]
            ends[slow, :-1] |= content[:, 1:] != content[:, :-1]
        return named, ends, keys


def nearest_sets(
    values: Callable[[int, int], Floats], shape: tuple[int, int], depth: int, bounds: Sequence[int], skip: int = 0
) -> NearestSets:
    """Return the columns of the `depth` smallest values of each row, where they are unique; fewer than all columns.

    Parameters
    ----------
    values : function
        Returns the values of rows start to stop. Few rows at a time stay in a cache.
    shape : tuple of int
        Number of rows and of columns.
    depth : int
        Number of columns, with those that are skipped.
    bounds : sequence of int
        Where the blocks of columns begin that are counted, and where the last one ends; they cover all columns.
    skip : int
        Omit this many columns with the smallest values; they are only counted.
    """
    m, n = shape
    width, found = depth - skip, np.zeros(m, dtype=bool)
    columns, chosen, counts = [np.zeros((0, width), dtype=np.int64)], [np.zeros((0, width))], [_no_counts(bounds)]
    for start, stop in tiles(m, max(NUMBERS_TO_SELECT_FROM // n, 1)):
        some = values(start, stop)
        if skip:
            nearest = np.partition(some, depth - 1, axis=1)[:, :depth]
            near = some <= nearest[:, -1:]
            front = some <= np.partition(nearest, skip - 1, axis=1)[:, skip - 1 : skip]
        else:
            near = front = some <= kth_smallest(some, depth)[:, None]
        counted = counted_in_blocks(front, bounds)
        clear = counted.sum(axis=1) == (skip or depth)
        listed = near ^ front if skip else near
        cells = np.flatnonzero(listed)
        if len(cells) != len(some) * width or not clear.all():
            clear &= np.count_nonzero(listed, axis=1) == width
            some, counted, cells = some[clear], counted[clear], np.flatnonzero(listed[clear])
        found[start:stop] = clear
        counts.append(counted)
        columns.append(cells.reshape(-1, width) - n * np.arange(len(some))[:, None])
        chosen.append(some.ravel()[cells].reshape(-1, width))
    return NearestSets(np.concatenate(columns), np.concatenate(chosen), np.concatenate(counts), found)


def nearest_counts(
    values: Callable[[int, int], Floats], shape: tuple[int, int], k: int, bounds: Sequence[int]
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return how many of the k smallest values of each row are in each block of columns, and where they are unique.

    Parameters are those of :func:`nearest_sets`.
    """
    counts = [_no_counts(bounds)]
    for start, stop in tiles(shape[0], max(NUMBERS_TO_SELECT_FROM // shape[1], 1)):
        some = values(start, stop)
        counts.append(counted_in_blocks(some <= kth_smallest(some, k)[:, None], bounds))
    by_block = np.concatenate(counts)
    return by_block, np.asarray(by_block.sum(axis=1) == k)


def _no_counts(bounds: Sequence[int]) -> Integers:
    return np.zeros((0, len(bounds) - 1), dtype=np.int64)


def counted_in_blocks(is_meant: NDArray[np.bool_], bounds: Sequence[int]) -> Integers:
    """Count the marked columns of each block, for each row.

    A count along an axis converts every mark to an integer first; counting a contiguous piece is ten times faster.
    """
    pieces = [(start, stop) for start, stop in pairwise(bounds)]
    count = [[np.count_nonzero(line[start:stop]) for start, stop in pieces] for line in is_meant]
    return np.array(count, dtype=np.int64).reshape(len(is_meant), len(pieces))


def _sorted_columns(values: Floats, contents: NDArray[np.uint64], listed: int) -> Integers:
    m, n = values.shape
    if listed == n:
        return _sorted_by_value(values, np.broadcast_to(np.arange(n), values.shape), contents)[0]
    count, columns = _nearest_piles_of_few(values, contents, listed)
    exact = count == listed
    found = np.empty((m, listed), dtype=np.int64)
    chosen = columns[np.repeat(exact, count)].reshape(-1, listed)
    found[exact] = _sorted_by_value(np.take_along_axis(values[exact], chosen, axis=1), chosen, contents)[0]
    is_longer = np.repeat(~exact, count)  # the last pile is longer than the list
    if is_longer.any():
        row, some = np.repeat(np.arange(m), count)[is_longer], columns[is_longer]
        some = some[np.lexsort((contents[some], values[row, some], row))]
        starts = np.cumsum(count[~exact]) - count[~exact]
        found[~exact] = some[starts[:, None] + np.arange(listed)]
    return found


def _sorted_by_value(chosen: Floats, columns: Integers, contents: NDArray[np.uint64]) -> tuple[Integers, Floats]:
    """Sort the columns of each row by their chosen values, then by content, and these values too."""
    order = np.argsort(chosen, axis=1)
    found, chosen = np.take_along_axis(columns, order, axis=1), np.take_along_axis(chosen, order, axis=1)
    as_before = np.zeros(chosen.shape, dtype=bool)
    as_before[:, 1:] = chosen[:, 1:] == chosen[:, :-1]
    tied = as_before.copy()
    tied[:, :-1] |= as_before[:, 1:]
    places = np.flatnonzero(tied)  # runs of equal values; each is sorted within its own places
    in_runs = found.ravel()[places]
    run = np.cumsum(~as_before.ravel()[places])
    found.ravel()[places] = in_runs[np.lexsort((contents[in_runs], run))]
    return found, chosen
