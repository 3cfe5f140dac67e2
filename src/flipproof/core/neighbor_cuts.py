"""The exact radius of nearest neighbours against added, removed and replaced training rows (M13).

The vote of nearest neighbours is not a sum over training rows, since an added or removed row moves the cut after the k
nearest. Rows with equal features form a *pile*; piles are ordered by distance and content, and the whole pile that
contains the k-th row votes. Let t be the pile at the cut after the attack, and N(<t) and N(<=t) the numbers of
rows before it and up to it. The a added rows name the rival and join pile t: there they vote without displacing other
rows. Then t is the pile at the cut if and only if at least N(<t) - k + 1 rows before t are removed, and at most
N(<=t) + a - k in all, unless t is the last pile. Of the rows that must be removed, rows of the winner are removed
first, then of third classes, then of the rival; of the further removals that are possible, only rows of the winner. If
no training row has the features of the test row, k rows added there outvote all others.

Soundness: integers throughout. The rule was derived as an equivalence, so radii are exact as lower and upper bounds,
ties included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flipproof.core.exact import UNREACHABLE
from flipproof.core.rounding import Integers, Values


@dataclass(frozen=True)
class FrontRows:
    """The k rows that vote on each test row, counted; no pile contains both the last of them and the next row.

    Attributes
    ----------
    n_rows : int
        k.
    counts, removable : integers of shape (rows, classes)
        How many of them each class has, and how many of these can be removed or replaced.
    """

    n_rows: int
    counts: Integers
    removable: Integers


@dataclass(frozen=True)
class NearestRows:
    """The training rows nearest to each of some test rows, in order: by distance, then by the content of a row.

    Attributes
    ----------
    codes : integers of shape (rows, depth)
        Class codes of the labels.
    ends_pile : booleans of shape (rows, depth)
        Whether the next training row, if there is one, has other features.
    removable : booleans of shape (rows, depth)
        Whether the training row can be removed or replaced.
    is_hit : booleans of shape (rows,)
        Whether the first training row has the features of the test row.
    n_train : int
        Number of all training rows: `depth`, or more if farther rows are omitted.
    front : FrontRows, optional
        Rows that are nearer than all listed ones, and only counted.
    offsets : integers of shape (rows, classes), optional
        Constants that are added to the votes, those of a prior (M15).
    """

    codes: Integers
    ends_pile: NDArray[np.bool_]
    removable: NDArray[np.bool_]
    is_hit: NDArray[np.bool_]
    n_train: int
    front: FrontRows | None = None
    offsets: Integers | None = None

    @property
    def depth(self) -> int:
        """Number of training rows that are listed for each test row."""
        return int(self.codes.shape[1])

    @property
    def n_front(self) -> int:
        """Number of rows before the listed ones."""
        return 0 if self.front is None else self.front.n_rows

    def decided_changes(self, k: int) -> Integers:
        """Return the largest number of changes for which the listed rows alone decide which class wins.

        One for each test row; negative if not even the present votes are certain.

        A pile that begins after `depth` rows reaches the cut only if more than ``depth - k`` of them are removed. The
        last listed pile may be longer than the list, so it does not count.
        """
        if self.n_front + self.depth == self.n_train:
            return np.full(len(self.codes), UNREACHABLE - 1)
        whole = np.where(self.ends_pile, np.arange(1, self.depth + 1), 0).max(axis=1, initial=0)
        return np.asarray(self.n_front + whole - k)

    def shortened(self, depth: int) -> NearestRows:
        """Return the same with at most `depth` listed rows."""
        some = np.s_[:, :depth]
        return replace(self, codes=self.codes[some], ends_pile=self.ends_pile[some], removable=self.removable[some])

    def scores(self, k: int, n_classes: int) -> Integers:
        """Return how many rows of each class vote: those up to the end of the pile with the k-th row; plus offsets."""
        voting = self._in_front(k)
        of_class = self.codes[:, :, None] == np.arange(n_classes)
        votes = np.asarray((of_class & voting[:, :, None]).sum(axis=1), dtype=np.int64)
        return votes if self.offsets is None else votes + self.offsets

    def _in_front(self, k: int) -> NDArray[np.bool_]:
        before: Integers = np.cumsum(self.ends_pile, axis=1) - self.ends_pile  # piles that end before each row
        if self.depth == 0:
            return self.ends_pile
        at_cut = before[:, [min(k, self.depth) - 1]]
        return np.asarray(before <= at_cut)


def neighbor_changes_to_overturn(
    nearest: NearestRows, k: int, winner: Integers, n_classes: int, changes: str
) -> Integers:
    """Return the least number of changed training rows that lets each class win a vote of the k nearest (M13).

    Parameters
    ----------
    nearest : NearestRows
        The nearest training rows of a block of test rows.
    k : int
        Number of rows that vote; with the last of them, its whole pile votes.
    winner : integers of shape (rows,)
        The predicted classes.
    n_classes : int
        Number of classes.
    changes : {"rows", "insertions", "removals"}
        The possible changes of training rows.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where no number suffices, and in the winner's column. Numbers above ``nearest.decided_changes(k)``
        are not proved: list more rows.
    """
    needed = np.full((len(winner), n_classes), UNREACHABLE)
    cuts = _Cuts(nearest, k, winner, changes)
    for rival in range(n_classes):
        needed[:, rival] = cuts.changes_needed(rival)
    needed[np.arange(len(winner)), winner] = UNREACHABLE
    return needed


def least_replacements(front: FrontRows, winner: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Return how many replaced rows let a rival win if no row after the k voters ever votes, and where that is a bound.

    With ``"rows"``, F = 0 and c = 0 for the pile at the present cut, so that r changes suffice if and only if
    ``2 r >= B`` and ``r + W >= B`` (see `_Cuts`). A cut before it, after p < k rows, has c = k - p, and its B is
    smaller by at most c: it needs no fewer changes if ``2 r >= B`` alone decides. So only later cuts can need fewer.

    Returns
    -------
    changes : integers of shape (rows,)
        The least number over all rivals.
    is_bound : booleans of shape (rows,)
        Whether no earlier cut needs fewer changes, for any rival.
    """
    rows = np.arange(len(winner))
    behind = _behind(front.counts, winner)
    is_bound = (behind // 2 <= front.removable[rows, winner][:, None]).all(axis=1)
    needed = np.maximum((behind + 1) // 2, 1)
    needed[rows, winner] = UNREACHABLE
    return np.asarray(needed.min(axis=1)), np.asarray(is_bound)


def replacements_to_overturn(nearest: NearestRows, k: int, winner: Integers, n_classes: int) -> Integers:
    """Return the least number of replaced rows that lets each class win (M13), from the rows after the k voters.

    The same numbers as by :func:`neighbor_changes_to_overturn` where they are the least of their row, if all rows can
    be removed: the winner then has enough rows, and a pile t needs the larger of F and half of B + F, rounded up.
    """
    assert nearest.front is not None
    begins = np.broadcast_to(np.arange(nearest.depth, dtype=np.int32), nearest.codes.shape)
    if not nearest.ends_pile.all():
        starts = np.where(nearest.ends_pile, begins + 1, 0)[:, :-1]
        begins = np.zeros_like(begins)
        np.maximum.accumulate(starts, axis=1, out=begins[:, 1:])
    is_winner = (nearest.codes == winner[:, None]).astype(np.int8)
    needed = np.maximum((_behind(nearest.front.counts, winner) + 1) // 2, 1)
    behind = _behind(nearest.front.counts, winner).astype(np.int32)
    for rival in range(n_classes):
        walk = np.cumsum(is_winner - (nearest.codes == rival), axis=1, dtype=np.int32)
        walk += behind[:, rival, None] + 1
        walk >>= 1
        least = np.maximum(walk, begins + 1, where=nearest.ends_pile, out=np.full_like(walk, k + 1))
        needed[:, rival] = np.minimum(needed[:, rival], least.min(axis=1, initial=k + 1))
    needed[np.arange(len(winner)), winner] = UNREACHABLE
    return np.asarray(needed)


def _behind(counts: Integers, winner: Integers) -> Integers:
    """Return how much the winner's margin over each class must fall for that class to win, given the votes."""
    classes = np.arange(counts.shape[1])
    return np.asarray(counts[np.arange(len(winner)), winner][:, None] - counts + (winner[:, None] < classes))


def insertions_to_overturn(nearest: NearestRows, counts: Integers, winner: Integers) -> Integers:
    """Return the least number of added rows that lets each class win (M13), from the k rows that vote.

    The same numbers as by :func:`neighbor_changes_to_overturn` where they are the least of their row, if no pile
    contains both the k-th and the next row: for a pile that ends after p rows, ``k - p`` rows are missing, and B is the
    margin there, plus [c < d]. The pile at the present cut needs B rows, so a cut with more missing rows than the least
    of these does not matter.

    Parameters
    ----------
    nearest : NearestRows
        The k rows that vote.
    counts : integers of shape (rows, classes)
        How many of them each class has.
    winner : integers of shape (rows,)
        The predicted classes.
    """
    k, rows = nearest.depth, np.arange(len(winner))
    behind = _behind(counts, winner)
    behind[rows, winner] = UNREACHABLE
    width = min(int(behind.min(axis=1).max(initial=0)), k)
    # cuts before the last 1, 2, ... rows: the row before the cut must end a pile
    codes, is_cut = nearest.codes[:, k - width :][:, ::-1], np.zeros((len(rows), width), dtype=bool)
    ends = nearest.ends_pile[:, max(k - width - 1, 0) : k - 1][:, ::-1]
    is_cut[:, : ends.shape[1]] = ends
    if width == k:  # a pile at the test row outvotes all others, if no row has its features
        is_cut[:, k - 1 :] = ~nearest.is_hit[:, None]
    is_winner = (codes == winner[:, None]).astype(np.int8)
    missing, needed = np.arange(1, width + 1, dtype=np.int32), behind
    for rival in range(counts.shape[1]):
        walk = np.cumsum((codes == rival) - is_winner, axis=1, dtype=np.int32)
        walk += np.minimum(behind[:, rival, None], k + 1).astype(np.int32)
        least = np.maximum(walk, missing, where=is_cut, out=np.full_like(walk, k + 1)).min(axis=1, initial=k + 1)
        needed[:, rival] = np.minimum(needed[:, rival], least)
    needed[rows, winner] = UNREACHABLE
    return np.maximum(needed, 1)


#: Rows whose weights are added up at once in :func:`other_rows_needed`.
CHUNK = 64


def other_rows_needed(codes: Values, skipped: Integers, winner: Integers, k: int) -> Integers:
    """Return how many rows of other classes than the winner's must come to the vote for a class to win by removals.

    If no row is trusted and piles are ignored, e removals let rival d win if and only if, among the first ``k + e``
    rows, the winner's number less that of d is at most ``e - [c < d]`` (the removed rows are the winner's). With
    weight 0 for rows of the winner, 2 for those of d and 1 for others, this is: the weights of these rows add up to
    at least ``k + [c < d]``. The sum never falls from rank to rank, and rows of the winner do not change it. As no row
    weighs more than 2, the first ``(k - 1) // 2`` of them are never enough, and their order does not matter.

    Parameters
    ----------
    codes : integers of shape (rows, depth)
        Classes of the nearest rows of other classes than the winner's, in order; enough of them for some class to win.
    skipped : integers of shape (rows, classes)
        How many such rows of each class come before these; at most ``(k - 1) // 2`` in all.
    winner : integers of shape (rows,)
        The predicted classes.
    k : int
        Number of rows that vote.

    Returns
    -------
    integers of shape (rows,)
        How many of the rows in `codes`; at least 1.
    """
    n_rows, depth = codes.shape
    rivals, n_chunks = np.arange(skipped.shape[1]), depth // CHUNK
    needs = k + (winner[:, None] < rivals)
    needs[np.arange(n_rows), winner] = UNREACHABLE
    # the sums at the end of each chunk; the first one is 0
    counts = np.zeros((n_rows, n_chunks + 1, len(rivals)), dtype=np.int64)
    for rival in rivals:
        is_rival = (codes == rival)[:, : n_chunks * CHUNK].reshape(n_rows, n_chunks, CHUNK)
        counts[:, 1:, rival] = np.cumsum(np.count_nonzero(is_rival, axis=2), axis=1)
    counts += (skipped + skipped.sum(axis=1, keepdims=True))[:, None]
    weights = counts + CHUNK * np.arange(n_chunks + 1)[:, None]
    before = np.count_nonzero((weights < needs[:, None]).all(axis=2), axis=1) - 1
    places = np.minimum(CHUNK * before[:, None] + np.arange(CHUNK), depth - 1)
    some, base = np.take_along_axis(codes, places, axis=1), weights[np.arange(n_rows), before]
    is_enough = np.zeros((n_rows, CHUNK), dtype=bool)
    for rival in rivals:
        walk = np.cumsum(some == rival, axis=1) + np.arange(1, CHUNK + 1) + base[:, rival, None]
        is_enough |= walk >= needs[:, rival, None]
    return np.asarray(CHUNK * before + np.argmax(is_enough, axis=1) + 1)


@dataclass(frozen=True)
class FirstCut:
    """The first pile that lets some rival win by removals if it is at the cut, for each of some test rows.

    Attributes
    ----------
    before, upto : integers of shape (rows,)
        Number of rows before this pile, and up to its end.
    winners_before : integers of shape (rows,)
        How many rows of the predicted class are before it.
    counts : integers of shape (rows, classes)
        Number of rows of each class up to its end.
    """

    before: Integers
    upto: Integers
    winners_before: Integers
    counts: Integers


def removals_to_overturn(cut: FirstCut, k: int, winner: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the least number of removed rows that lets each class win, where no row is trusted (M13).

    For a pile t at the cut and e removed rows of the winner, the rival wins if and only if e is at least F and B, and
    at most ``N(<=t) - k``, with F = N(<t) - k + 1 and B the rival's backlog in the first N(<=t) rows. The last of these
    numbers is enough for some rival if the weights of :func:`other_rows_needed` reach ``k + [c < d]`` at the end of t.
    That does not hold before the first such pile, and every later pile has a larger F than this one has removals.

    Returns
    -------
    needed : integers of shape (rows, classes)
        Exact where it is the least of its row; UNREACHABLE where a later pile must be at the cut.
    is_proved : booleans of shape (rows,)
        Whether there are enough rows of the winner to remove; otherwise, other rows must be removed too.
    """
    rows = np.arange(len(winner))
    forced, behind = cut.before - k + 1, _behind(cut.counts, winner)
    needed = np.maximum(np.maximum(behind, forced[:, None]), 1)
    needed = np.where(behind <= (cut.upto - k)[:, None], needed, UNREACHABLE)
    needed[rows, winner] = UNREACHABLE
    least = needed.min(axis=1)
    is_proved = (cut.winners_before >= forced) & (cut.counts[rows, winner] >= least) & (least < UNREACHABLE)
    return needed, is_proved


def removals_of_all(class_counts: Integers, winner: Integers) -> Integers:
    """Return the least number of removals that lets each class win where no cut but the last does, no row trusted.

    Then all rows vote in the end. Since the weights of all rows, n less the winner's margin, stay below
    ``k + [c < d]``, as many removals as the margin demands leave fewer than k rows.
    """
    counts = np.broadcast_to(class_counts, (len(winner), len(class_counts)))
    behind = _behind(counts, winner)
    needed = np.where(behind <= counts[np.arange(len(winner)), winner][:, None], np.maximum(behind, 1), UNREACHABLE)
    needed[np.arange(len(winner)), winner] = UNREACHABLE
    return np.asarray(needed)


@dataclass(frozen=True)
class NeighborChanges:
    """The fewest changes of training rows that let a rival win the vote of the nearest rows of one test row (M13).

    Attributes
    ----------
    n_changes : int
        Number of changed rows; a removal and an addition are one change together.
    removed : integers
        Positions of the rows to remove in the order of the nearest rows.
    n_added : int
        Number of rows to add, all labelled with the rival class.
    joins : int or None
        Position of a row whose features the added rows have; None for those of the test row.
    """

    n_changes: int
    removed: Integers
    n_added: int
    joins: int | None


def fewest_neighbor_changes(
    nearest: NearestRows, k: int, winner: int, rival: int, changes: str, only_test_row: bool = False
) -> NeighborChanges | None:
    """Return the fewest changes that let a rival win against one test row, or None if no changes do.

    Parameters
    ----------
    nearest : NearestRows
        All training rows, in order, for one test row.
    k, changes
        As in :func:`neighbor_changes_to_overturn`.
    winner, rival : int
        The predicted class and the one that shall win.
    only_test_row : bool
        Whether added rows must have the features of the test row.
    """
    cuts = _Cuts(nearest, k, np.array([winner]), changes)
    least = cuts.changes_by_pile(rival)[0]
    if only_test_row and changes != "removals":
        at_test_row = cuts.begins[0] == 0 if nearest.is_hit[0] else np.arange(len(least)) == 0
        least = np.where(at_test_row, least, UNREACHABLE)
    pile = int(np.argmin(least))
    if least[pile] == UNREACHABLE:
        return None
    n_changes, begins = int(least[pile]), int(cuts.begins[0, pile])
    n_added = 0 if changes == "removals" else n_changes
    forced = max(begins - k + 1, 0)
    free, codes = np.flatnonzero(nearest.removable[0, :pile]), nearest.codes[0]
    # rows of the winner are removed first, then of third classes, then of the rival
    rank = np.where(codes[free] == winner, 0, np.where(codes[free] == rival, 2, 1))
    before = free[free < begins][np.argsort(rank[free < begins], kind="stable")]
    removed = before[:forced]
    if changes != "insertions":
        possible = n_changes if pile == nearest.n_train else min(n_changes, pile + n_added - k)
        more = np.setdiff1d(free[codes[free] == winner], removed)[: possible - forced]
        removed = np.concatenate([removed, more])
    is_at_test_row = pile == 0 or (begins == 0 and bool(nearest.is_hit[0]))
    return NeighborChanges(n_changes, removed, n_added, None if is_at_test_row else pile - 1)


class _Cuts:
    """All piles that may be at the cut after an attack; the first is an empty pile at the test row.

    For the pile t at the cut and r changes, let F be the least number of rows that must be removed before t, and c how
    many rows are missing up to the end of t, max(0, k - N(<=t)); c = 0 for the last pile. After F removals, chosen in
    the best way, the rival wins once the margin falls by B more, and W further rows of the winner can be removed. Then
    the rival wins

    - with ``"rows"`` if and only if r >= F + c and r + min(r - c - F, W) >= B;
    - with ``"insertions"`` if and only if F = 0, r >= c and r >= B;
    - with ``"removals"`` if and only if r >= F, t is the last pile or N(<=t) - k >= F, and B is at most r - F, W, and,
      unless t is the last pile, N(<=t) - k - F.

    All are monotone in r, so the least r is the largest of a few numbers. Offsets are constants: they shift B, and
    nothing else.
    """

    def __init__(self, nearest: NearestRows, k: int, winner: Integers, changes: str):
        self._offsets = nearest.offsets
        self._winner, self._changes, self._codes, self._free = winner, changes, nearest.codes, nearest.removable
        self._front, self._is_winner = nearest.front, nearest.codes == winner[:, None]
        m, n_front = len(winner), nearest.n_front
        listed = np.broadcast_to(np.arange(nearest.depth + 1), (m, nearest.depth + 1))
        upto = n_front + listed
        # where each row's pile begins: after the last row before it that ends a pile
        ends = np.concatenate([np.full((m, 1), n_front > 0), nearest.ends_pile], axis=1)
        last_end = np.maximum.accumulate(np.where(ends, listed, 0), axis=1)
        self._starts = np.concatenate([np.zeros((m, 1), dtype=np.int64), last_end[:, :-1]], axis=1)
        # the last pile of the rows in front begins before the k-th row, and nothing else matters about its place
        self.begins = np.where(listed == 0, 0, n_front + self._starts)
        self._forced = np.maximum(self.begins - k + 1, 0)
        winners = _summed(self._is_winner & self._free) + self._in_front(winner, removable=True)
        winners_before = np.take_along_axis(winners, self._starts, axis=1)
        free = _summed(self._free)
        if self._front is not None:
            free += self._front.removable.sum(axis=1, keepdims=True)
        free_before = np.take_along_axis(free, self._starts, axis=1)
        winners_forced = np.minimum(self._forced, winners_before)
        self._winners_left = winners - winners_forced
        self._winners_forced = winners_forced
        self._bystanders_and_rivals_forced = self._forced - winners_forced
        self._others_before = free_before - winners_before
        is_last = upto == nearest.n_train
        self._missing = np.where(is_last, 0, np.maximum(k - upto, 0))
        self._to_spare = np.where(is_last, UNREACHABLE, upto - k - self._forced)
        # the pile at the test row is empty, and can be filled, unless training rows have its features
        is_cut = ends
        is_cut[:, 0] |= ~nearest.is_hit
        self._is_possible = is_cut & (self._forced <= free_before)
        if changes == "insertions":
            self._is_possible &= self._forced == 0
        if changes == "removals":
            self._is_possible &= self._to_spare >= 0

    def _in_front(self, of_class: Integers | int, removable: bool) -> Integers:
        """Count the rows of a class in front of the listed ones, shape (rows, 1)."""
        if self._front is None:
            return np.zeros((len(self._winner), 1), dtype=np.int64)
        counts = self._front.removable if removable else self._front.counts
        return np.asarray(counts[np.arange(len(counts)), of_class])[:, None]

    def changes_needed(self, rival: int) -> Integers:
        """Return the least number of changes that lets the rival win; UNREACHABLE if there is none."""
        return np.asarray(self.changes_by_pile(rival).min(axis=1))

    def changes_by_pile(self, rival: int) -> Integers:
        """Return the least number of changes for each pile that may be at the cut."""
        is_rival = self._codes == rival
        rivals = _summed(is_rival & self._free) + self._in_front(rival, removable=True)
        bystanders_before = self._others_before - np.take_along_axis(rivals, self._starts, axis=1)
        rivals_forced = np.maximum(self._bystanders_and_rivals_forced - bystanders_before, 0)
        margin = _summed(self._is_winner.astype(np.int64) - is_rival)
        margin += self._in_front(self._winner, removable=False) - self._in_front(rival, removable=False)
        behind = margin - self._winners_forced + rivals_forced + (self._winner < rival)[:, None]
        if self._offsets is not None:
            of_winner = np.take_along_axis(self._offsets, self._winner[:, None], axis=1)
            behind = behind + of_winner - self._offsets[:, [rival]]
        is_possible = self._is_possible
        if self._changes == "rows":
            at_least = self._forced + self._missing
            least = np.maximum(np.maximum(at_least, (behind + at_least + 1) // 2), behind - self._winners_left)
        elif self._changes == "insertions":
            least = np.maximum(self._missing, behind)
        else:
            least = self._forced + np.maximum(behind, 0)
            is_possible = is_possible & (behind <= np.minimum(self._to_spare, self._winners_left))
        return np.where(is_possible, np.maximum(least, 1), UNREACHABLE)


def _summed(counted: NDArray[np.generic]) -> Integers:
    """Return sums over the first 0, 1, 2, ... rows."""
    sums = np.zeros((len(counted), counted.shape[1] + 1), dtype=np.int64)
    np.cumsum(counted, axis=1, out=sums[:, 1:])
    return sums
