"""Which training labels or rows an adversary can change, and to what, in class codes (M10, M12).

`Rights` are general rules: how a label can be changed, given its class and whether it is trusted. `Powers` apply these
rules to the labels of given rows, a block or all of them. A `Scope` summarises powers over all labels by counts. The
same rules hold for rows in memory and for rows in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers
from flipproof.core.windows import ends_among, least_cover

#: What an adversary may change: the labels of the training rows; rows, each change an addition, a removal or a
#: replacement; or only one of these.
CHANGES = ("labels", "rows", "insertions", "removals")


@dataclass(frozen=True)
class Rights:
    """How an adversary can change a label, given its class and whether it is trusted.

    Attributes
    ----------
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column); False on the diagonal. All others are
        True if rows may be changed.
    changes : {"labels", "rows", "insertions", "removals"}
        What may be changed.
    """

    transitions: NDArray[np.bool_]
    changes: str = "labels"

    @cached_property
    def can_leave(self) -> NDArray[np.bool_]:
        """Whether labels (or rows) of each class can be changed, shape (K,)."""
        if self.changes != "labels":
            return np.ones(len(self.transitions), dtype=bool)
        return np.asarray(self.transitions.any(axis=1))

    def over(self, codes: Integers, fixed: NDArray[np.bool_] | None = None, groups: Integers | None = None) -> Powers:
        """Return the powers over the labels of some rows; `fixed` labels are trusted or missing."""
        changeable = self.can_leave[codes]
        return Powers(changeable if fixed is None else changeable & ~fixed, self.transitions, groups, self.changes)

    def scope(self, counts: Integers) -> Scope:
        """Return the scope over the labels that are not trusted, counted by class, or by group and class."""
        changeable = np.where(self.can_leave, counts, 0)
        if counts.ndim == 1:
            return Scope(self.transitions, int(changeable.sum()), changes=self.changes)
        sizes = changeable.sum(axis=1)
        return Scope(self.transitions, int(sizes.sum()), sizes[sizes > 0], self.changes)


@dataclass(frozen=True)
class Powers:
    """How an adversary can change the training labels of some rows, or the rows themselves, in class codes.

    Attributes
    ----------
    changeable : booleans of shape (n,)
        Whether a label can be changed, or a row removed and replaced.
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column); False on the diagonal.
    groups : integers of shape (n,) or None
        The group of each label or row, if the adversary controls whole groups.
    changes : {"labels", "rows", "insertions", "removals"}
        What may be changed.
    window_ends : integers or None
        If the adversary controls windows of time, the groups are timestamps, numbered in ascending order: for each,
        the first one beyond the window that starts there (M15).
    """

    changeable: NDArray[np.bool_]
    transitions: NDArray[np.bool_]
    groups: Integers | None
    changes: str = "labels"
    window_ends: Integers | None = None

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What a learner computes once for these powers, and needs for each block of test rows."""
        return {}

    @cached_property
    def changeable_window_ends(self) -> Integers:
        """The same if only timestamps with a changeable label are numbered."""
        assert self.window_ends is not None
        assert self.groups is not None
        return ends_among(self.window_ends, np.unique(self.groups[self.changeable]))

    @cached_property
    def scope(self) -> Scope:
        """The summary of these powers by counts."""
        if self.groups is None:
            return Scope(self.transitions, int(np.count_nonzero(self.changeable)), changes=self.changes)
        sizes = np.bincount(self.groups[self.changeable])
        n_windows = None if self.window_ends is None else least_cover(self.changeable_window_ends)
        return Scope(self.transitions, int(sizes.sum()), sizes[sizes > 0], self.changes, n_windows)


@dataclass(frozen=True)
class Scope:
    """Summary of an adversary's powers: how many labels or rows can be changed, and to what, but not which ones.

    Attributes
    ----------
    transitions : booleans of shape (K, K)
        Whether a label can be changed from one class (row) to another (column); False on the diagonal.
    n_changeable : int
        Number of labels that can be changed, or of rows that are not trusted.
    group_sizes : integers or None
        Number of changeable labels or rows of each group that has any, if the adversary controls whole groups.
    changes : {"labels", "rows", "insertions", "removals"}
        What may be changed.
    n_windows : int or None
        Number of windows of time that cover all changeable labels, if the adversary controls windows; the groups are
        then timestamps.
    """

    transitions: NDArray[np.bool_]
    n_changeable: int
    group_sizes: Integers | None = None
    changes: str = "labels"
    n_windows: int | None = None

    @property
    def unit(self) -> str:
        """What a radius counts."""
        if self.n_windows is not None:
            return "windows"
        if self.changes == "labels":
            return "labels" if self.group_sizes is None else "annotators"
        return "rows" if self.group_sizes is None else "sources"

    @property
    def can_add_rows(self) -> bool:
        """Whether rows can be added: there is no limit to their number, so a radius may exceed every count of rows."""
        return self.changes in ("rows", "insertions") and self.group_sizes is None

    @property
    def can_change_to_anything(self) -> bool:
        """Whether every changeable label can be changed to every other class."""
        return bool((self.transitions | np.eye(len(self.transitions), dtype=bool)).all())

    @property
    def n_touchable(self) -> int:
        """Number of labels, groups, or rows that can be changed or removed; for windows, how many cover all labels."""
        if self.n_windows is not None:
            return self.n_windows
        if self.changes == "insertions":
            return 0
        return self.n_changeable if self.group_sizes is None else len(self.group_sizes)

    @property
    def unlimited_radius(self) -> int:
        """The radius of a prediction that nothing can overturn; where rows can be added, any number would be true."""
        return self.n_changeable if self.can_add_rows else self.n_touchable

    def groups_within(self, n_labels: Integers) -> Integers:
        """Return how many groups have at most `n_labels` changeable labels in total, even if they are the largest.

        A certificate against any `n_labels` changed labels is also a certificate against that many groups.
        """
        if self.group_sizes is None:
            return n_labels
        largest_first = np.sort(self.group_sizes)[::-1]
        within: Integers = np.searchsorted(np.cumsum(largest_first), n_labels, side="right").astype(np.int64)
        return within

    def rows_of_groups(self, n_groups: Integers) -> Integers:
        """Return how many changeable labels or rows any `n_groups` groups have at most; without groups, one each."""
        if self.group_sizes is None:
            return n_groups
        largest_first = np.concatenate([[0], np.cumsum(np.sort(self.group_sizes)[::-1])])
        return np.asarray(largest_first[np.minimum(n_groups, len(self.group_sizes))], dtype=np.int64)
