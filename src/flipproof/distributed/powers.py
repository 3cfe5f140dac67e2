"""What an adversary can do to labels that are visited a block at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.blocks.block import Block
from flipproof.certificates import Adversary
from flipproof.distributed.summaries import Census
from flipproof.exact import Scope
from flipproof.learners.adversaries import limits_in_words, possible_changes
from flipproof.rounding import Integers
from flipproof.values import as_names, positions


@dataclass(frozen=True)
class BlockPowers:
    """Which labels of a block can be changed, and to whose cell each of them belongs.

    A cell is a group and a class that changeable labels of it name.

    Attributes
    ----------
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column).
    by_trust : bool
        Whether labels that are trusted cannot be changed.
    names : array or None
        The groups that have changeable labels, in rising order.
    cells : integers or None
        Numbers of the cells, in rising order: the position of the group in `names` times K, plus the class.
    """

    transitions: NDArray[np.bool_]
    by_trust: bool
    names: NDArray[Any] | None = None
    cells: Integers | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there can be labels that cannot be changed."""
        return self.by_trust or not bool(self.transitions.any(axis=1).all())

    def changeable(self, block: Block, codes: Integers) -> NDArray[np.bool_]:
        """Tell which labels of a block can be changed."""
        changeable = np.asarray(self.transitions.any(axis=1))[codes]
        return changeable & ~block.trusted if self.by_trust and block.trusted is not None else changeable

    def cells_of(self, block: Block, codes: Integers) -> tuple[Integers, Integers]:
        """Return the rows of a block whose labels can be changed, and the position of each one's cell in `cells`.

        Raises
        ------
        ValueError
            If somebody has labelled rows of a class who had no such labels when they were counted.
        """
        assert self.names is not None
        assert self.cells is not None
        assert block.groups is not None
        members = np.flatnonzero(self.changeable(block, codes))
        names = as_names(block.groups, f"The annotators of {block.name}")[members]
        group, is_known = positions(self.names, names)
        cells, is_counted = positions(self.cells, group * len(self.transitions) + codes[members])
        if not (is_known & is_counted).all():
            raise ValueError(f"{block.name} has changed since the model was fitted: fit it again.")
        return members, cells


@dataclass(frozen=True)
class BlockAdversary:
    """An adversary's powers over rows in blocks, what these come to, and that in words.

    Attributes
    ----------
    powers : BlockPowers
        Block by block.
    scope : Scope
        What they come to.
    census : Census
        All labels by class, trust and annotator.
    allowed : pairs of classes or None
        The changes that are possible at all.
    """

    powers: BlockPowers
    scope: Scope
    census: Census
    allowed: tuple[tuple[Any, Any], ...] | None

    def in_words(self, method: str) -> list[str]:
        """Say what the adversary cannot do, and what the radius counts."""
        trusted = self.census.trusted
        counts = None if trusted is None else (int(trusted.sum()), int(self.census.counts.sum()))
        return limits_in_words(counts, self.allowed, self.scope, method)


def block_adversary(adversary: Adversary | None, census: Census, classes: NDArray[Any]) -> BlockAdversary:
    """Return what an adversary can do to labels of which there is a census, with his trusted rows and annotators."""
    pairs = None if adversary is None else adversary.allowed
    transitions = ~np.eye(len(classes), dtype=bool) if pairs is None else possible_changes(pairs, classes)
    can_leave = transitions.any(axis=1)
    by_trust = census.trusted is not None
    if census.names is None or census.of_group is None:
        n_changeable = int((census.counts - (census.trusted if census.trusted is not None else 0))[can_leave].sum())
        return BlockAdversary(BlockPowers(transitions, by_trust), Scope(transitions, n_changeable), census, pairs)
    of_group = np.where(can_leave, census.of_group, 0)
    sizes = of_group.sum(axis=1)
    names, of_group = census.names[sizes > 0], of_group[sizes > 0]
    powers = BlockPowers(transitions, by_trust, names, np.flatnonzero(of_group))
    return BlockAdversary(powers, Scope(transitions, int(sizes.sum()), sizes[sizes > 0]), census, pairs)
