"""Votes of a block of training rows on test rows, counted on the spot: only counts travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.blocks.block import Block
from flipproof.distributed.powers import BlockPowers
from flipproof.distributed.summaries import LabelledSums, basis_and_sums, codes_of
from flipproof.learners.whitening import Whitening
from flipproof.rounding import Integers
from flipproof.tallies import VoteCount
from flipproof.votes import ProductVotes, class_scores, votes_by_cell


@dataclass(frozen=True)
class Voters:
    """Makes the votes of training rows, block by block.

    Attributes
    ----------
    whitening : Whitening
        Takes training rows to their coordinates.
    votes : ProductVotes
        What votes on the test rows are made of; of no training row yet.
    classes : array of shape (K,)
        The classes.
    """

    whitening: Whitening
    votes: ProductVotes
    classes: NDArray[Any]

    def cast(self, block: Block) -> tuple[ProductVotes, Integers, LabelledSums]:
        """Return the votes of a block's rows, their labels, and what fitting found in them.

        Raises
        ------
        ValueError
            If a row is farther out than all rows were when the model was fitted: its vote might not fit the grid.
        """
        codes = codes_of(block, self.classes)
        basis, sums = basis_and_sums(block, codes, self.whitening, self.classes)
        # the largest leverage has a margin for the rounding errors of any worker
        if not sums.leverage <= self.whitening.largest_leverage:  # NaN is not, either
            raise ValueError(f"{block.name} has changed since the model was fitted: fit it again.")
        return self.votes.of(basis), codes, sums


@dataclass(frozen=True)
class Voted:
    """What was counted of the votes of some rows, and `sums` to tell whether they are still those of the fit."""

    counted: Any
    sums: LabelledSums

    def __add__(self, other: Voted) -> Voted:
        return Voted(self.counted + other.counted, self.sums + other.sums)


@dataclass(frozen=True)
class Scores:
    """Sums up the votes of each class, shape (test rows, classes)."""

    voters: Voters

    def __call__(self, block: Block) -> Voted:
        """Return the scores that a block's rows contribute."""
        votes, codes, sums = self.voters.cast(block)
        return Voted(class_scores(votes, codes, len(self.voters.classes)), sums)


@dataclass(frozen=True)
class Tally:
    """Counts votes by class; labels that cannot be changed as if they named classes of their own."""

    voters: Voters
    count: VoteCount
    powers: BlockPowers

    def __call__(self, block: Block) -> Voted:
        """Return the tally of a block's rows."""
        votes, codes, sums = self.voters.cast(block)
        if self.powers.is_limited:
            codes = np.where(self.powers.changeable(block, codes), codes, codes + len(self.voters.classes))
        return Voted(self.count.tally(votes, codes), sums)


@dataclass(frozen=True)
class GroupSums:
    """Votes of some rows: scores of each class, and the sums of each cell, (2, test rows, cells)."""

    scores: Integers
    by_cell: Integers

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(self.scores + other.scores, self.by_cell + other.by_cell)


@dataclass(frozen=True)
class GroupTally:
    """Sums up votes by class, and those of changeable labels by cell."""

    voters: Voters
    powers: BlockPowers

    def __call__(self, block: Block) -> Voted:
        """Return the sums of a block's rows."""
        assert self.powers.cells is not None
        votes, codes, voted = self.voters.cast(block)
        members, cells = self.powers.cells_of(block, codes)
        sums = votes_by_cell(votes, members, cells, len(self.powers.cells))
        return Voted(GroupSums(class_scores(votes, codes, len(self.voters.classes)), sums), voted)
