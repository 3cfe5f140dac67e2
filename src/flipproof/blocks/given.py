"""Rows that somebody gives block by block: as a list of them, or as a function that makes them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from flipproof.blocks.arrays import ArrayPart, stored
from flipproof.blocks.block import Block
from flipproof.blocks.checking import checked_block, column_names, in_pieces

#: Blocks as they are given: (X, y) or (X, y, trusted, groups) each.
GivenBlocks: TypeAlias = "Sequence[tuple[Any, ...]] | Callable[[], Iterable[tuple[Any, ...]]]"


@dataclass(frozen=True)
class Example:
    """What all blocks have in common with the first.

    Attributes
    ----------
    n_columns : int
        Number of features.
    names : tuple or None
        What they are called, if they are those of a data frame.
    has_trusted, has_groups : bool
        What is known of the rows.
    """

    n_columns: int
    names: tuple[Any, ...] | None
    has_trusted: bool
    has_groups: bool

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """What the features are called, if all of that is words."""
        return self.names if self.names and all(isinstance(name, str) for name in self.names) else None

    @staticmethod
    def of(block: Block, given: Sequence[Any]) -> Example:
        """Return a block's own; `given` is what it was made of."""
        names = column_names(given[0])
        return Example(block.X.shape[1], names, block.trusted is not None, block.groups is not None)

    def check(self, block: Block, given: Sequence[Any]) -> None:
        """Refuse a block that is unlike the first."""
        if block.X.shape[1] != self.n_columns:
            raise ValueError(f"{block.name} has {block.X.shape[1]} columns, but block 0 has {self.n_columns}.")
        self._check_names(block.name, column_names(given[0]))
        for what, one, first in (
            ("trusted", block.trusted is not None, self.has_trusted),
            ("groups", block.groups is not None, self.has_groups),
        ):
            if one != first:
                has, other = ("has", "has not") if one else ("has no", "has")
                raise ValueError(f"{block.name} {has} {what!r}, but block 0 {other}: give it for all blocks, or none.")

    def _check_names(self, block: str, names: tuple[Any, ...] | None) -> None:
        if (names is None) != (self.names is None):
            has, other = ("has no", "has some") if names is None else ("has", "has none")
            raise ValueError(
                f"{block} {has} names of columns, but block 0 {other}: give data frames for all blocks, or for none."
            )
        for place, (name, first) in enumerate(zip(names or (), self.names or (), strict=True)):
            if name != first:
                raise ValueError(
                    f"{block} has {name!r} as column {place}, but block 0 has {first!r}: give all blocks the same "
                    "columns, in the same order."
                )


@dataclass(frozen=True, eq=False)
class BlockPart:
    """A block of a list; if it is mapped from a file, it is pickled by where that is."""

    name: str
    arrays: ArrayPart

    def blocks(self) -> Iterator[Block]:
        """Yield the block, in pieces if it is large."""
        yield from in_pieces(self.arrays.whole(self.name))


@dataclass(frozen=True)
class FunctionPart:
    """All blocks that a function makes."""

    function: Callable[[], Iterable[tuple[Any, ...]]]
    example: Example

    @property
    def name(self) -> str:
        """What the function is called."""
        return f"blocks of {getattr(self.function, '__qualname__', type(self.function).__name__)}"

    def blocks(self) -> Iterator[Block]:
        """Call the function, and yield its blocks, in pieces where they are large."""
        number = -1
        for number, given in enumerate(self.function()):
            block = _checked(number, given)
            self.example.check(block, given)
            yield from in_pieces(block)
        if number < 0:
            raise ValueError(
                f"{self.name}: there were some, and now there are none. Each call must return all of them."
            )


def given_parts(blocks: GivenBlocks) -> tuple[tuple[BlockPart, ...] | tuple[FunctionPart], Example]:
    """Return the parts of blocks as they are given, and what all of them have."""
    if isinstance(blocks, (list, tuple)):
        if not blocks:
            raise ValueError("blocks must hold at least one block (X, y). Got none.")
        checked = [_checked(number, given) for number, given in enumerate(blocks)]
        example = Example.of(checked[0], blocks[0])
        for block, given in zip(checked, blocks, strict=True):
            example.check(block, given)
        return tuple(_block_part(block) for block in checked), example
    if callable(blocks):
        example = _first_of(blocks)
        return (FunctionPart(blocks, example),), example
    what = "an iterator that is used up after one visit" if isinstance(blocks, Iterator) else type(blocks).__name__
    raise ValueError(
        "blocks must be a list of tuples (X, y), or a function without arguments that returns a new iterator of them "
        f"at every call, since rows are visited several times. Got {what} instead."
    )


def _block_part(block: Block) -> BlockPart:
    trusted, groups = (None if one is None else stored(one) for one in (block.trusted, block.groups))
    return BlockPart(block.name, ArrayPart(stored(block.X), stored(block.labels), trusted, groups))


def _first_of(function: Callable[[], Iterable[tuple[Any, ...]]]) -> Example:
    once = function()
    if not isinstance(once, Iterable):
        raise ValueError(
            f"a function that makes blocks must return an iterator of tuples (X, y). Got {type(once).__name__} instead."
        )
    blocks = iter(once)
    # a list, or whatever else can be visited again, need not be made again to see that
    if blocks is iter(once) and blocks is iter(function()):
        raise ValueError(
            "a function that makes blocks must return a new iterator at every call, since rows are visited several "
            "times. Got the same one twice."
        )
    for given in blocks:
        return Example.of(_checked(0, given), given)
    raise ValueError("a function that makes blocks must make at least one. Got none.")


def _checked(number: int, given: Any) -> Block:
    name = f"block {number}"
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 4):
        got = f"{len(given)} entries" if isinstance(given, (tuple, list)) else type(given).__name__
        raise ValueError(f"{name} must be a tuple (X, y) or (X, y, trusted, groups). Got {got} instead.")
    return checked_block(name, *given)
