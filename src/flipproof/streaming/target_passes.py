"""One pass over training rows with numeric targets: what a visit to a block finds, and how findings add up."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flipproof.core.linalg import Whitening
from flipproof.core.rounding import Floats
from flipproof.core.target_sums import PartOfSums, SizesOfMoves, TallyOfMoves
from flipproof.core.targets import ListedVotes, Reachable, Touchable, listed_votes, rows_at_a_time
from flipproof.core.votes import ProductVotes, tiles
from flipproof.learners.numeric_targets import TargetScale, checked_targets, refuse_outside
from flipproof.streaming.blocks import Block, Part
from flipproof.streaming.passes import scattered
from flipproof.streaming.row_blocks import RowBlocks
from flipproof.values import as_names, distinct, joined, kind_of, positions

#: Memory for the votes of a block of training rows on some test rows.
VOTES_BYTES = 32 * 2**20

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class WithoutTargets:
    """A part whose rows have a placeholder instead of a target, so that no geometry can read one."""

    part: Part

    @property
    def name(self) -> str:
        """Where the rows come from."""
        return self.part.name

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block."""
        for block in self.part.blocks():
            yield replace(block, labels=np.zeros(len(block), dtype=np.int64), trusted=None, groups=None)


def without_targets(rows: RowBlocks) -> RowBlocks:
    """Return the rows with placeholders, all of them alike, instead of targets."""
    parts = tuple(WithoutTargets(part) for part in rows.parts)
    return replace(rows, parts=parts, has_trusted=False, has_groups=False)


def targets_of(block: Block, owner: str) -> Floats:
    """Return the targets of a block; refuse what is no number."""
    try:
        return checked_targets(owner, block.labels)
    except ValueError as error:
        raise ValueError(f"{block.name}: {error}") from error


@dataclass(frozen=True)
class TargetsSeen:
    """What is known of all targets.

    Attributes
    ----------
    low, high : float
        The lowest and the highest target.
    n_rows, n_free : int
        Number of targets, and of those that are not trusted.
    names : array or None
        The annotators of targets that are not trusted, in ascending order.
    marks : int
        A checksum over the target, the trust and the annotator of each row, by its number.
    """

    low: float
    high: float
    n_rows: int
    n_free: int
    names: NDArray[Any] | None
    marks: int

    def __add__(self, other: TargetsSeen) -> TargetsSeen:
        names = None
        if self.names is not None and other.names is not None:
            both = [one for one in (self.names, other.names) if len(one)]
            kinds = [kind_of(one) for one in both]
            if len(set(kinds)) > 1:
                raise ValueError(
                    f"Annotators must be all numbers or all words. Got {kinds[0]} in some blocks, {kinds[1]} in others."
                )
            names = distinct(joined(both))[0] if both else self.names
        return TargetsSeen(
            min(self.low, other.low),
            max(self.high, other.high),
            self.n_rows + other.n_rows,
            self.n_free + other.n_free,
            names,
            (self.marks + other.marks) % 2**64,
        )

    @property
    def touchable(self) -> Touchable:
        """What can be changed: targets, or annotators."""
        return Touchable(self.n_free, "targets") if self.names is None else Touchable(len(self.names), "annotators")


@dataclass(frozen=True)
class SeeTargets:
    """Look at the targets of a block, and refuse invalid ones; those outside the range, if it is given."""

    owner: str
    given_range: tuple[float, float] | None

    def __call__(self, block: Block) -> TargetsSeen:
        """Return what is known of the targets of a block."""
        targets = targets_of(block, self.owner)
        if self.given_range is not None:
            try:
                refuse_outside(targets, *self.given_range)
            except ValueError as error:
                raise ValueError(f"{block.name}: {error}") from error
        is_free = np.ones(len(block), dtype=bool) if block.trusted is None else ~block.trusted
        names = None
        if block.groups is not None:
            names = distinct(as_names(block.groups, f"The annotators of {block.name}")[is_free])[0]
        ends = float(targets.min()), float(targets.max())
        return TargetsSeen(*ends, len(block), int(np.count_nonzero(is_free)), names, marks_of(block, targets))


def marks_of(block: Block, targets: Floats) -> int:
    """Return a checksum over the target, the trust and the annotator of each row of a block, by its number."""
    said = (targets + 0.0).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # -0.0 is 0.0
    said ^= said >> np.uint64(32)
    if block.trusted is not None:
        said += block.trusted.astype(np.uint64)
    if block.groups is not None:
        names, group = distinct(as_names(block.groups, f"The annotators of {block.name}"))
        hashes = np.array([zlib.crc32(repr(name).encode()) for name in names.tolist()], dtype=np.uint64)
        said += hashes[group] << np.uint64(1)
    return int((said * scattered(block.first_row, len(block))).sum(dtype=np.uint64))


@dataclass(frozen=True)
class TargetRights:
    """What an adversary can do to targets in blocks.

    Attributes
    ----------
    owner : str
        Class of the regressor, for messages.
    scale : TargetScale
        The range of the targets, and its grid.
    max_change : float or None
        How far each target can be moved.
    names : array or None
        The annotators that can be malicious, in ascending order; None if each target is changed alone.
    """

    owner: str
    scale: TargetScale
    max_change: float | None
    names: NDArray[Any] | None

    @property
    def n_groups(self) -> int | None:
        """Number of groups; None if each target is changed alone."""
        return None if self.names is None else max(len(self.names), 1)

    def over(self, block: Block, targets: Floats) -> Reachable:
        """Return what can be done to the targets of a block."""
        fixed = np.zeros(len(block), dtype=bool) if block.trusted is None else block.trusted
        lowest, highest = self.scale.integers_of_ends(targets, fixed, self.max_change)
        groups = None
        if self.names is not None:
            assert block.groups is not None
            found, is_known = positions(self.names, as_names(block.groups, f"The annotators of {block.name}"))
            groups = np.where(is_known, found, 0).astype(np.int64)  # others have no target that can be changed
        n_touchable = 0  # known for all blocks only
        return Reachable(self.scale.grid.integers(targets), lowest, highest, groups, n_touchable)


@dataclass(frozen=True)
class Marked:
    """A finding about some rows, and their marks, to check that they are still those of the fit."""

    found: Any
    marks: int

    def __add__(self, other: Marked) -> Marked:
        return Marked(self.found + other.found, (self.marks + other.marks) % 2**64)


@dataclass(frozen=True)
class VotesOfBlock:
    """The votes of training rows in a block on some test rows, and what an adversary can do to their targets.

    Attributes
    ----------
    whitening : Whitening
        Maps training rows to their coordinates.
    products : ProductVotes
        The factors of the votes, before any training rows are added.
    rights : TargetRights
        What an adversary can do.
    """

    whitening: Whitening
    products: ProductVotes
    rights: TargetRights

    def each(self, block: Block, find: Callable[[slice, ListedVotes, Reachable], Found]) -> tuple[list[Found], int]:
        """Return what a function finds in the votes on runs of test rows, and the marks of the block.

        Raises
        ------
        ValueError
            If a row has a larger leverage than any row of the fit, and votes have no limit: its vote might not fit the
            grid.
        """
        basis = self.whitening.basis(block.X)
        fits = self.products.limit is not None or self.whitening.leverage(basis) <= self.whitening.largest_leverage
        if not fits:  # also for NaN
            raise ValueError(f"{block.name} has changed since the model was fitted: fit it again.")
        targets = targets_of(block, self.rights.owner)
        votes, reachable = self.products.of(basis), self.rights.over(block, targets)
        n_test, size = len(votes.exponent), rows_at_a_time(len(block), VOTES_BYTES)
        runs = (slice(*ends) for ends in tiles(n_test, size))
        found = [find(rows, listed_votes(votes.on_rows(rows)), reachable) for rows in runs]
        return found, marks_of(block, targets)


@dataclass(frozen=True)
class SumTargets:
    """Sum votes times targets, and find their largest moves: `most` of them, or none where it is None."""

    votes: VotesOfBlock
    most: int | None

    def __call__(self, block: Block) -> Marked:
        """Return what the rows of a block contribute."""
        rights, most = self.votes.rights, self.most
        origin = rights.scale.origin

        def found(_rows: slice, listed: ListedVotes, reachable: Reachable) -> PartOfSums:
            if most is None:
                return PartOfSums.without_moves(listed, reachable.targets, origin)
            return PartOfSums.of(listed, reachable, origin, most, rights.n_groups)

        parts, marks = self.votes.each(block, found)
        return Marked(PartOfSums.joined(parts), marks)


@dataclass(frozen=True)
class CountMoves:
    """Count the moves of a block by size."""

    votes: VotesOfBlock
    sizes: SizesOfMoves

    def __call__(self, block: Block) -> Marked:
        """Return the tally of a block."""
        parts, marks = self.votes.each(
            block, lambda rows, listed, reachable: self.sizes.on_rows(rows).tally(listed, reachable)
        )
        numbers, sums = (np.concatenate([getattr(one, name) for one in parts]) for name in ("numbers", "sums"))
        return Marked(TallyOfMoves(numbers, sums), marks)
