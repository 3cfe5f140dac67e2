"""What an adversary can do to training labels, in class codes (M10)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers


@dataclass(frozen=True)
class Powers:
    """What an adversary can do to the training labels, in class codes.

    Attributes
    ----------
    changeable : booleans of shape (n,)
        Whether a label can be changed at all.
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column); False on the diagonal.
    groups : integers of shape (n,) or None
        The group that a label belongs to, where an adversary takes whole groups.
    """

    changeable: NDArray[np.bool_]
    transitions: NDArray[np.bool_]
    groups: Integers | None

    @cached_property
    def scope(self) -> Scope:
        """What these powers come to, without naming a label."""
        if self.groups is None:
            return Scope(self.transitions, int(np.count_nonzero(self.changeable)))
        sizes = np.bincount(self.groups[self.changeable])
        return Scope(self.transitions, int(sizes.sum()), sizes[sizes > 0])


@dataclass(frozen=True)
class Scope:
    """What an adversary's powers come to: how many labels can be changed, and to what, but not which ones.

    Attributes
    ----------
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column); False on the diagonal.
    n_changeable : int
        How many labels can be changed.
    group_sizes : integers or None
        How many each group has of them, where an adversary takes whole groups; those that have some.
    """

    transitions: NDArray[np.bool_]
    n_changeable: int
    group_sizes: Integers | None = None

    @property
    def unit(self) -> str:
        """What a radius counts."""
        return "labels" if self.group_sizes is None else "annotators"

    @property
    def can_change_to_anything(self) -> bool:
        """Whether a label that can be changed can be changed to every other class."""
        return bool((self.transitions | np.eye(len(self.transitions), dtype=bool)).all())

    @property
    def n_touchable(self) -> int:
        """How many labels, or groups, can be changed."""
        return self.n_changeable if self.group_sizes is None else len(self.group_sizes)

    def groups_within(self, n_labels: Integers) -> Integers:
        """Return how many groups have no more than so many changeable labels, even if they are the largest ones.

        A certificate against any `n_labels` changed labels is one against that many groups.
        """
        if self.group_sizes is None:
            return n_labels
        largest_first = np.sort(self.group_sizes)[::-1]
        within: Integers = np.searchsorted(np.cumsum(largest_first), n_labels, side="right").astype(np.int64)
        return within
