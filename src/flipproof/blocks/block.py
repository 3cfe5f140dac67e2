"""Rows that come a block at a time, with their labels and whatever else is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

#: Numbers of a block of rows, at most: 64 MiB in float64.
NUMBERS_IN_BLOCK = 2**23

#: Rows of a block, at most.
ROWS_IN_BLOCK = 2**17


@dataclass(frozen=True)
class Block:
    """Training rows that are in memory at the same time.

    Attributes
    ----------
    name : str
        Where the rows come from, as an error should say it: ``"block 17"``, ``"'mails/part-3.parquet', rows 0 to 99"``.
    X : numbers of shape (rows, columns)
        Features.
    labels : array of shape (rows,)
        Labels.
    trusted : booleans of shape (rows,) or None
        Whose labels nobody can change.
    groups : array of shape (rows,) or None
        Who labelled each row.
    first_row : int
        Number of the first row among all, where that is known.
    """

    name: str
    X: NDArray[Any]
    labels: NDArray[Any]
    trusted: NDArray[np.bool_] | None = None
    groups: NDArray[Any] | None = None
    first_row: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, which: slice) -> Block:
        """Return some of the rows."""
        trusted = None if self.trusted is None else self.trusted[which]
        groups = None if self.groups is None else self.groups[which]
        first_row = self.first_row + which.indices(len(self))[0]
        return replace(
            self, X=self.X[which], labels=self.labels[which], trusted=trusted, groups=groups, first_row=first_row
        )


class Part(Protocol):
    """What one task visits: a file, a part of one, or a partition. Whatever travels to a worker can be pickled."""

    @property
    def name(self) -> str:
        """Where the rows come from, as an error should say it."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block: the same ones at every call. Blocks may be empty."""
        ...


def rows_at_a_time(n_columns: int) -> int:
    """Return how many rows a block should have: no more than its memory holds."""
    return max(1, min(ROWS_IN_BLOCK, NUMBERS_IN_BLOCK // max(n_columns, 1)))
