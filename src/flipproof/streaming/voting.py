"""Votes of a block of training rows on test rows, counted where the rows are: only counts are transferred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary, assumed_limits, refuse_insertions_by_groups, rights_of
from flipproof.assumptions import Assumption
from flipproof.core.histograms import VoteCount
from flipproof.core.linalg import Whitening
from flipproof.core.powers import Powers, Rights, Scope
from flipproof.core.rounding import Integers, Values
from flipproof.core.votes import ProductVotes, class_scores, votes_by_cell
from flipproof.streaming.blocks import Block
from flipproof.streaming.passes import Census, LabelledSums, basis_and_sums, codes_of
from flipproof.values import as_names, positions


@dataclass(frozen=True)
class BlockRights:
    """An adversary's rights over labels in blocks.

    Attributes
    ----------
    rights : Rights
        How a label can be changed, by its class.
    by_trust : bool
        Whether some labels are trusted, and so cannot be changed.
    cells : GroupCells or None
        The cells of all groups, if the adversary controls whole groups.
    """

    rights: Rights
    by_trust: bool
    cells: GroupCells | None = None

    @property
    def is_limited(self) -> bool:
        """Whether some labels may be unchangeable."""
        return self.by_trust or not bool(self.rights.can_leave.all())

    def over(self, block: Block, codes: Integers) -> Powers:
        """Return the powers over the labels of a block; `cells` know the groups."""
        return self.rights.over(codes, block.trusted if self.by_trust else None)


@dataclass(frozen=True)
class GroupCells:
    """The groups with changeable labels, and the classes of these labels: a cell is a group and a class.

    Attributes
    ----------
    names : array
        The groups, in ascending order.
    numbers : integers
        The cells, in ascending order: the position of the group in `names` times K, plus the class.
    n_rows : integers
        How many of the changeable labels each cell has.
    """

    names: NDArray[Any]
    numbers: Integers
    n_rows: Integers

    def members(self, block: Block, codes: Integers, powers: Powers) -> tuple[Integers, Integers]:
        """Return the rows of a block whose labels can be changed, and the position of their cells in `numbers`.

        Raises
        ------
        ValueError
            If a group has labels of a class that it did not have when the labels were counted.
        """
        assert block.groups is not None
        members = np.flatnonzero(powers.changeable)
        names = as_names(block.groups, f"The annotators of {block.name}")[members]
        group, is_known = positions(self.names, names)
        cells, is_counted = positions(self.numbers, group * len(powers.transitions) + codes[members])
        if not (is_known & is_counted).all():
            raise ValueError(f"{block.name} has changed since the model was fitted: fit it again.")
        return members, cells


@dataclass(frozen=True)
class BlockAdversary:
    """An adversary's rights over rows in blocks, their scope, and the resulting assumptions.

    Attributes
    ----------
    rights : BlockRights
        The rights over the labels of each block.
    scope : Scope
        The rights over all labels, summarised by counts.
    census : Census
        All labels by class, trust and annotator.
    allowed : pairs of classes or None
        The only possible changes; None: any.
    n_trusted : int or None
        Number of rows that the adversary is assumed to leave alone; None if nothing is assumed beyond the fit.
    """

    rights: BlockRights
    scope: Scope
    census: Census
    allowed: tuple[tuple[Any, Any], ...] | None
    n_trusted: int | None

    def assumptions(self, method: str) -> list[Assumption]:
        """Return the limits that the adversary is assumed to have, and what the radius counts."""
        counts = None if self.n_trusted is None else (self.n_trusted, int(self.census.counts.sum()))
        return assumed_limits(counts, self.allowed, self.scope, method)


def block_adversary(
    adversary: Adversary | None, census: Census, classes: Values, n_trusted: int | None
) -> BlockAdversary:
    """Return how an adversary can change the labels of a census, which includes its trusted rows and annotators.

    `n_trusted` is the number of trusted rows that the certificates state as an assumption about the adversary, if any.
    """
    pairs = None if adversary is None else adversary.allowed
    rights, by_trust = rights_of(adversary, classes), census.trusted is not None
    if census.names is None or census.of_group is None:
        scope = rights.scope(census.counts - (0 if census.trusted is None else census.trusted))
        return BlockAdversary(BlockRights(rights, by_trust), scope, census, pairs, n_trusted)
    refuse_insertions_by_groups(rights.changes)
    of_group = np.where(rights.can_leave, census.of_group, 0)
    has_some = of_group.any(axis=1)
    numbers = np.flatnonzero(of_group[has_some])
    cells = GroupCells(census.names[has_some], numbers, of_group[has_some].ravel()[numbers])
    scope = rights.scope(census.of_group)
    return BlockAdversary(BlockRights(rights, by_trust, cells), scope, census, pairs, n_trusted)


@dataclass(frozen=True)
class Voters:
    """Computes the votes of training rows, block by block.

    Attributes
    ----------
    whitening : Whitening
        Maps training rows to their coordinates.
    votes : ProductVotes
        The factors of the votes on the test rows, before any training rows are added; with the limit of a vote on
        each test row, if there is one.
    classes : array of shape (K,)
        The classes.
    """

    whitening: Whitening
    votes: ProductVotes
    classes: NDArray[Any]

    def cast(self, block: Block) -> tuple[ProductVotes, Integers, LabelledSums]:
        """Return the votes of a block's rows, their labels, and their sums, to compare with those of the fit.

        Raises
        ------
        ValueError
            If a row has a larger leverage than any row of the fit, and votes have no limit: its vote might not fit the
            grid.
        """
        codes = codes_of(block, self.classes)
        basis, sums = basis_and_sums(block, codes, self.whitening, self.classes)
        # the largest leverage has a margin for the rounding errors of any worker
        fits = self.votes.limit is not None or sums.leverage <= self.whitening.largest_leverage
        if not fits:  # also for NaN
            raise ValueError(f"{block.name} has changed since the model was fitted: fit it again.")
        return self.votes.of(basis), codes, sums


@dataclass(frozen=True)
class VotingRows:
    """The training rows of a block, as their votes and their labels depend on them.

    Attributes
    ----------
    basis : array of shape (rows, columns)
        The coordinates of the rows: integers.
    codes : integers of shape (rows,)
        The labels, as positions in the classes.
    changeable : booleans of shape (rows,)
        Whether the adversary can change a label, or remove a row.
    groups : integers of shape (rows,) or None
        The annotator or source of each changeable row, by number; 0 for all others.
    sums : LabelledSums
        Sums over the rows, to compare with those of the fit.
    """

    basis: NDArray[np.float32]
    codes: Integers
    changeable: NDArray[np.bool_]
    groups: Integers | None
    sums: LabelledSums


@dataclass(frozen=True)
class ListRows:
    """Returns the rows of a block with what an adversary can do to them."""

    whitening: Whitening
    classes: NDArray[Any]
    rights: BlockRights

    def __call__(self, block: Block) -> VotingRows:
        """Return the rows of a block."""
        codes = codes_of(block, self.classes)
        basis, sums = basis_and_sums(block, codes, self.whitening, self.classes)
        powers, cells = self.rights.over(block, codes), self.rights.cells
        groups = None
        if cells is not None:
            members, cell = cells.members(block, codes, powers)
            groups = np.zeros(len(codes), dtype=np.int64)
            groups[members] = cells.numbers[cell] // len(self.classes)
        return VotingRows(basis, codes, powers.changeable, groups, sums)


@dataclass(frozen=True)
class Voted:
    """Counts of the votes of some rows, and `sums` to check that the rows are still those of the fit."""

    counted: Any
    sums: LabelledSums

    def __add__(self, other: Voted) -> Voted:
        return Voted(self.counted + other.counted, self.sums + other.sums)


@dataclass(frozen=True)
class VoteSums:
    """Sums of the votes of some rows on each test row.

    Attributes
    ----------
    scores : integers of shape (test rows, classes)
        The votes for each class.
    totals : integers of shape (test rows,) or None
        The absolute votes, if they were asked for: a prior is weighed by them.
    """

    scores: Integers
    totals: Integers | None

    @classmethod
    def of(cls, votes: ProductVotes, codes: Integers, n_classes: int, with_totals: bool) -> VoteSums:
        """Sum the votes of rows with these labels."""
        if not with_totals:
            return cls(class_scores(votes, codes, n_classes), None)
        above, below = votes_by_cell(votes, np.arange(len(codes)), codes, n_classes)
        return cls(above - below, (above + below).sum(axis=1))

    def __add__(self, other: VoteSums) -> VoteSums:
        totals = None if self.totals is None or other.totals is None else self.totals + other.totals
        return VoteSums(self.scores + other.scores, totals)


@dataclass(frozen=True)
class Scores:
    """Sums the votes for each class, and the absolute votes if they are needed."""

    voters: Voters
    with_totals: bool = False

    def __call__(self, block: Block) -> Voted:
        """Return the sums of a block's rows."""
        votes, codes, sums = self.voters.cast(block)
        return Voted(VoteSums.of(votes, codes, len(self.voters.classes), self.with_totals), sums)


@dataclass(frozen=True)
class Tally:
    """Counts votes by class; labels that cannot be changed are counted as separate classes."""

    voters: Voters
    count: VoteCount
    rights: BlockRights

    def __call__(self, block: Block) -> Voted:
        """Return the tally of a block's rows."""
        votes, codes, sums = self.voters.cast(block)
        if self.rights.is_limited:
            changeable = self.rights.over(block, codes).changeable
            codes = np.where(changeable, codes, codes + len(self.voters.classes))
        return Voted(self.count.tally(votes, codes), sums)


@dataclass(frozen=True)
class TallyOfSizes:
    """Counts votes of any class together."""

    voters: Voters
    count: VoteCount

    def __call__(self, block: Block) -> Voted:
        """Return the tally of a block's rows."""
        votes, codes, sums = self.voters.cast(block)
        return Voted(self.count.tally(votes, np.zeros_like(codes)), sums)


@dataclass(frozen=True)
class GroupSums:
    """Votes of some rows: their sums, and those of each cell, (2, test rows, cells)."""

    votes: VoteSums
    by_cell: Integers

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(self.votes + other.votes, self.by_cell + other.by_cell)


@dataclass(frozen=True)
class GroupTally:
    """Sums votes by class, and the votes of changeable labels also by cell."""

    voters: Voters
    rights: BlockRights
    with_totals: bool = False

    def __call__(self, block: Block) -> Voted:
        """Return the sums of a block's rows."""
        cells = self.rights.cells
        assert cells is not None
        votes, codes, voted = self.voters.cast(block)
        members, cell = cells.members(block, codes, self.rights.over(block, codes))
        sums = votes_by_cell(votes, members, cell, len(cells.numbers))
        of_all = VoteSums.of(votes, codes, len(self.voters.classes), self.with_totals)
        return Voted(GroupSums(of_all, sums), voted)
