"""The rows that a model was fitted to, as they were seen at the first visit, and how some of them leave.

A row keeps its number, on which checksums of labels depend, while others join or leave: no number is given twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.contents import row_hashes
from flipproof.core.rounding import Integers
from flipproof.streaming.blocks import Block, Part
from flipproof.streaming.passes import LabelledSums, Seen, features_checksum, features_of
from flipproof.streaming.row_blocks import NumberedPart, RowBlocks


@dataclass(frozen=True)
class KnownRows:
    """Rows, and what was seen of each part.

    Attributes
    ----------
    rows : RowBlocks
        The rows, whose parts are numbered.
    seen : tuple of Seen
        The number of rows and the checksum of each part.
    n_numbers : int
        How many numbers were given to rows; rows that join get the next ones.
    """

    rows: RowBlocks
    seen: tuple[Seen, ...]
    n_numbers: int

    @classmethod
    def of(cls, rows: RowBlocks, seen: tuple[Seen, ...], first_row: int = 0) -> KnownRows:
        """Number rows that were seen."""
        counts = [part.n_rows for part in seen]
        return cls(rows.with_columns(counts, first_row=first_row), seen, first_row + sum(counts))

    @cached_property
    def rows_per_part(self) -> tuple[int, ...]:
        """Number of rows of each part."""
        return tuple(part.n_rows for part in self.seen)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.rows_per_part)

    def check(self, seen: Sequence[Seen], places: Sequence[int] | None = None) -> None:
        """Refuse rows that are not those of the first visit; `places` are the parts that were visited, if not all."""
        visited = range(len(self.seen)) if places is None else places
        for place, now in zip(visited, seen, strict=True):
            if now != self.seen[place]:
                name = self.rows.parts[place].name
                raise ValueError(
                    f"{name}: the rows have changed since the first visit. They must be the same on every visit."
                )

    def and_more(self, more: KnownRows) -> KnownRows:
        """Return these rows, followed by others, which were numbered after these."""
        return KnownRows(self.rows.followed_by(more.rows), self.seen + more.seen, more.n_numbers)

    def places_of(self, rows: Integers) -> dict[int, Integers]:
        """Return where rows are, given in ascending order: for each part that has any, their places in this part."""
        starts = np.cumsum([0, *self.rows_per_part])
        part_of = np.searchsorted(starts, rows, side="right") - 1
        parts, first = np.unique(part_of, return_index=True)
        within = np.split(rows - starts[part_of], first[1:])
        return dict(zip(parts.tolist(), within, strict=True))

    def departing(self, places: Mapping[int, Integers]) -> RowBlocks:
        """Return the parts that rows leave, to be visited by `Departure`."""
        parts = tuple(WithoutRows(self.rows.parts[part], gone) for part, gone in places.items())
        return replace(self.rows, parts=parts)

    def without(self, places: Mapping[int, Integers], seen: Sequence[Seen]) -> KnownRows:
        """Return the rows that remain; `seen` is what was seen of the parts that the others leave."""
        parts, of_each = list(self.rows.parts), list(self.seen)
        for (part, gone), now in zip(places.items(), seen, strict=True):
            parts[part], of_each[part] = _thinned(parts[part], gone, self.rows_per_part[part]), now
        return KnownRows(replace(self.rows, parts=tuple(parts)), tuple(of_each), self.n_numbers)


@dataclass(frozen=True, eq=False)
class WithoutRows:
    """A part without some of its rows, given by their places in it, in ascending order."""

    part: Part
    gone: Integers

    @property
    def name(self) -> str:
        """Where the rows come from."""
        return self.part.name

    def blocks(self) -> Iterator[Block]:
        """Yield the rows that remain, block after block; they are to be numbered."""
        start = 0
        for block in self.part.blocks():
            gone = self.within(start, len(block))
            start += len(block)
            yield block.only(np.delete(np.arange(len(block)), gone)) if len(gone) else block

    def within(self, start: int, count: int) -> Integers:
        """Return which of `count` rows, from a place on, are gone."""
        first, last = np.searchsorted(self.gone, [start, start + count])
        return np.asarray(self.gone[first:last] - start)


def _thinned(part: object, gone: Integers, n_rows: int) -> NumberedPart:
    """Return a numbered part of `n_rows` rows without some of them; rows that left before are left out in one step."""
    assert isinstance(part, NumberedPart)
    inner = part.part
    if not isinstance(inner, WithoutRows):
        return replace(part, part=WithoutRows(inner, gone))
    remaining = np.delete(np.arange(n_rows + len(inner.gone)), inner.gone)
    return replace(part, part=WithoutRows(inner.part, np.sort(np.concatenate([inner.gone, remaining[gone]]))))


@dataclass(frozen=True)
class Departed:
    """What was found in parts that some rows leave.

    Attributes
    ----------
    before, after : tuple of Seen
        What was seen of each part, with and without these rows.
    old, new : LabelledSums or None
        Sums over all rows of these parts, and over those that remain; None if there are none.
    is_shared, is_trusted : booleans of shape (rows,)
        Whether a row that leaves has the features of a row of the reference, and whether it is trusted.
    """

    before: tuple[Seen, ...]
    after: tuple[Seen, ...]
    old: LabelledSums | None
    new: LabelledSums | None
    is_shared: NDArray[np.bool_]
    is_trusted: NDArray[np.bool_]

    def __add__(self, other: Departed) -> Departed:
        return Departed(
            self.before + other.before,
            self.after + other.after,
            _sum_of(self.old, other.old),
            _sum_of(self.new, other.new),
            np.concatenate([self.is_shared, other.is_shared]),
            np.concatenate([self.is_trusted, other.is_trusted]),
        )


def _sum_of(one: LabelledSums | None, other: LabelledSums | None) -> LabelledSums | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True)
class Departure:
    """Visit parts that some rows leave, once: what remains is seen in the same moment as what was there.

    Attributes
    ----------
    summary : callable
        Returns the LabelledSums of a block of rows.
    mapping : callable or None
        Maps rows of features to other features before `summary` sees them.
    reference_hashes : integers
        Hashes of the rows of the reference.
    """

    summary: Any
    mapping: Any
    reference_hashes: NDArray[np.uint64]

    def __call__(self, part: Part) -> Departed:
        """Return what was found in a part of `KnownRows.departing`."""
        assert isinstance(part, WithoutRows)
        was = now = Seen(0, 0)
        old = new = None
        shared, trusted = [np.zeros(0, dtype=bool)], [np.zeros(0, dtype=bool)]
        for given in part.part.blocks():
            if not len(given):
                continue
            block = replace(given, X=features_of(given))
            gone = part.within(was.n_rows, len(block))
            first_row = block.first_row - was.n_rows + now.n_rows
            rest = replace(block.only(np.delete(np.arange(len(block)), gone)), first_row=first_row)
            was, now = _seen_too(was, block), _seen_too(now, rest)
            old, new = _sum_of(old, self._sums(block)), _sum_of(new, self._sums(rest))
            shared.append(np.isin(row_hashes(block.X[gone]), self.reference_hashes))
            trusted.append(np.zeros(len(gone), dtype=bool) if block.trusted is None else block.trusted[gone])
        return Departed((was,), (now,), old, new, np.concatenate(shared), np.concatenate(trusted))

    def _sums(self, block: Block) -> LabelledSums | None:
        total = None
        if len(block):
            for rows in (slice(None),) if self.mapping is None else self.mapping.pieces(len(block)):
                piece = block.rows(rows)
                mapped = piece if self.mapping is None else replace(piece, X=self.mapping(piece.X))
                total = _sum_of(total, self.summary(mapped))
        return total


def _seen_too(seen: Seen, block: Block) -> Seen:
    """Return what was seen of a part after another block."""
    checksum = features_checksum(block.X, seen.n_rows)
    return Seen(seen.n_rows + len(block), (seen.checksum + checksum) % 2**64)
