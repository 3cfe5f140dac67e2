"""How many changed training rows overturn the vote of the nearest ones: by lists of rows that are as short as possible.

Certificates against changed rows depend on the order of the training rows near the cut after the k nearest (M13). For
most test rows a short list is enough, and the rows before it are only counted:

- ``"insertions"``: the k rows that vote;
- ``"rows"``: the next rows, as many as half of the votes that the winner is ahead
  (:func:`flipproof.core.rows.least_replacements`);
- ``"removals"``: the rows of other classes up to the first pile that lets a rival win
  (:func:`flipproof.core.rows.other_rows_needed`).

Where this does not decide the number of changes, more and more rows are listed until they do. The result is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from flipproof.core.engine import winners
from flipproof.core.rounding import Floats, Integers
from flipproof.core.rows import (
    FirstCut,
    FrontRows,
    NearestRows,
    insertions_to_overturn,
    least_replacements,
    neighbor_changes_to_overturn,
    other_rows_needed,
    removals_of_all,
    removals_to_overturn,
    replacements_to_overturn,
)
from flipproof.core.votes import tiles
from flipproof.learners.neighbor_search import (
    NUMBERS_TO_SELECT_FROM,
    NearestSets,
    RowsInOrder,
    in_order,
    nearest_sets,
)

#: Rows listed beyond those that usually decide how many changes of rows overturn a prediction.
SPARE_ROWS = 8

#: Distances that rows are listed from at a time if short lists do not decide: 8 MiB.
NUMBERS_AT_A_TIME = 2**20

#: Entries of short lists at a time: 512 KiB for each array of integers.
ENTRIES_AT_A_TIME = 2**16

#: Scores, changes that let each class win, and for which test rows these are proved.
Found: TypeAlias = "tuple[Integers, Integers, NDArray[np.bool_]]"


@dataclass(frozen=True)
class Electorate:
    """The training rows that may vote, and what can be done to them.

    Attributes
    ----------
    contents : integers of shape (n,)
        Hashes of their features; equal ones form a pile.
    codes : integers of shape (n,)
        Class codes of their labels.
    removable : booleans of shape (n,)
        Which of them can be removed or replaced.
    k : int
        Number of rows that vote.
    n_classes : int
        Number of classes.
    changes : {"rows", "insertions", "removals"}
        The possible changes of training rows.
    is_by_class : bool
        Whether they are sorted by class; with two classes, removals are then found faster.
    """

    contents: NDArray[np.uint64]
    codes: Integers
    removable: NDArray[np.bool_]
    k: int
    n_classes: int
    changes: str
    is_by_class: bool = False

    def changes_needed(
        self, relative: Floats, own_squares: Floats, offsets: Integers | None = None
    ) -> tuple[Integers, Integers]:
        """Return the scores, and how many changes let each class win; exact where it is the least of its row.

        Parameters
        ----------
        relative : floats of shape (m, n)
            Squared distances, less the squared length of each test row.
        own_squares : floats of shape (m,)
            These squared lengths.
        offsets : integers of shape (m, classes), optional
            Constants that are added to the votes, those of a prior (M15); short lists do not know them.
        """
        m, n = relative.shape
        scores = np.zeros((m, self.n_classes), dtype=np.int64)
        needed, is_proved = np.zeros_like(scores), np.zeros(m, dtype=bool)
        depth = self.k + self.k // 2 + SPARE_ROWS if self.changes == "rows" else self.k
        if offsets is None and depth < n and (self.changes != "removals" or self._all_removable):
            for start, stop in tiles(m, max(ENTRIES_AT_A_TIME // depth, 1)):
                some = slice(start, stop)
                short = self._by_short_lists(relative[some], own_squares[some], depth)
                scores[some], needed[some], is_proved[some] = short
        undecided = np.flatnonzero(~is_proved)
        if len(undecided):
            scores[undecided], needed[undecided] = self._by_long_lists(relative, own_squares, undecided, offsets)
        return scores, needed

    @cached_property
    def _all_removable(self) -> bool:
        return bool(self.removable.all())

    def nearest_rows(
        self, listed: RowsInOrder, is_hit: NDArray[np.bool_], front: FrontRows | None = None
    ) -> NearestRows:
        """Return listed rows with their labels, and what can be done to them."""
        return NearestRows(
            codes=self.codes[listed.rows],
            ends_pile=listed.ends_pile,
            removable=self.removable[listed.rows],
            is_hit=is_hit,
            n_train=len(self.codes),
            front=front,
        )

    def _by_short_lists(self, relative: Floats, own_squares: Floats, depth: int) -> Found:
        """Return scores, changes that let each class win, and for which test rows these are proved."""
        sets = nearest_sets(lambda start, stop: relative[start:stop], relative.shape, depth)
        rows = np.flatnonzero(sets.found)
        scores = np.zeros((len(relative), self.n_classes), dtype=np.int64)
        needed, is_proved = np.zeros_like(scores), sets.found.copy()
        if self.changes == "insertions":  # rows after the cut stay there
            scores[rows] = self._counted(sets.columns)
            listed, values = sets.in_order(self.contents)
            nearest = self.nearest_rows(listed, values[:, 0] + own_squares[rows] == 0)
            needed[rows] = insertions_to_overturn(nearest, self.k, winners(scores[rows]), self.n_classes)
        elif self.changes == "removals":
            scores[rows] = self._counted(sets.columns)
            needed[rows], is_proved[rows] = self._by_other_rows(relative, rows, winners(scores[rows]))
        else:
            scores[rows], needed[rows], is_proved[rows] = self._by_next_rows(sets)
        return scores, needed, is_proved

    def _counted(self, columns: Integers, only_removable: bool = False) -> Integers:
        """Count training rows by class for each test row."""
        cells = self.codes[columns] + self.n_classes * np.arange(len(columns))[:, None]
        if only_removable:
            cells = cells[self.removable[columns]]
        shape = len(columns), self.n_classes
        return np.bincount(cells.ravel(), minlength=shape[0] * shape[1]).reshape(shape)

    def _by_next_rows(self, sets: NearestSets) -> Found:
        """Return how many replaced rows let each class win, from the rows after the cut."""
        k, depth = self.k, sets.columns.shape[1]
        is_front = sets.values <= np.partition(sets.values, k - 1, axis=1)[:, k - 1 : k]
        plain = np.flatnonzero(np.count_nonzero(is_front, axis=1) == k)  # no pile reaches beyond the cut
        scores = np.zeros((len(is_front), self.n_classes), dtype=np.int64)
        needed, is_proved = np.zeros_like(scores), np.zeros(len(is_front), dtype=bool)
        columns, values = sets.columns, sets.values
        if len(plain) < len(columns):
            is_front, columns, values = is_front[plain], columns[plain], values[plain]
        after = np.flatnonzero(~is_front).reshape(len(plain), depth - k)
        later = columns.ravel()[after]
        counts = self._counted(columns) - self._counted(later)
        removable = counts
        if not self._all_removable:
            removable = self._counted(columns, only_removable=True) - self._counted(later, only_removable=True)
        front = FrontRows(k, counts, removable)
        winner = winners(counts)
        is_bound = least_replacements(front, winner)[1]
        listed = NearestSets(later, values.ravel()[after], is_bound).in_order(self.contents)[0]
        nearest = self.nearest_rows(listed, np.zeros(len(plain), dtype=bool), front)  # a hit would be in front
        scores[plain] = counts
        if self._all_removable:
            needed[plain] = replacements_to_overturn(nearest, k, winner, self.n_classes)
        else:
            needed[plain] = self._changes(nearest, counts)
        is_proved[plain] = is_bound & (needed[plain].min(axis=1) <= nearest.decided_changes(k))
        return scores, needed, is_proved

    def _by_other_rows(self, relative: Floats, rows: Integers, winner: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return how many removed rows let each class win, for some test rows, and where that is proved."""
        needed, is_proved = np.zeros((len(rows), self.n_classes), dtype=np.int64), np.zeros(len(rows), dtype=bool)
        sizes = np.bincount(self.codes, minlength=self.n_classes)
        # the weights of all rows, if a class is the winner and another the rival
        weights = len(self.codes) - sizes[:, None] + sizes
        needs = self.k + np.triu(np.ones_like(weights), 1)  # 1 more for a rival that sorts after the winner
        is_hopeless = np.asarray(((weights < needs) | np.eye(len(sizes), dtype=bool)).all(axis=1))[winner]
        needed[is_hopeless], is_proved[is_hopeless] = removals_of_all(sizes, winner[is_hopeless]), True
        halves = [slice(None)]
        if self.is_by_class and self.n_classes == 2:
            halves = [slice(0, int(sizes[0])), slice(int(sizes[0]), None)]
        for place, of_winner in enumerate(halves):
            is_meant = ~is_hopeless & ((winner == place) | (len(halves) == 1))
            some = np.flatnonzero(is_meant)
            others = of_winner if len(halves) == 1 else halves[1 - place]
            needed[some], is_proved[some] = self._against(winner[some], relative, rows[some], of_winner, others)
        return needed, is_proved

    def _against(
        self, winner: Integers, relative: Floats, rows: Integers, of_winner: slice, others: slice
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """Return how many removed rows let each class win, given columns with all rows of the winner, and of others."""
        codes, contents, k = self.codes[others], self.contents[others], self.k
        m, n, is_mixed = len(rows), len(codes), of_winner == others
        # every other row has a weight of 1, with two classes of 2; they must add up to k + 1
        depth = (k + 2) // 2 if self.n_classes == 2 else k + 1
        needed, is_proved = np.zeros((m, self.n_classes), dtype=np.int64), np.zeros(m, dtype=bool)
        if m == 0 or n <= depth:
            return needed, is_proved

        def distances(start: int, stop: int) -> Floats:
            some = relative[rows[start:stop], others]
            return np.where(codes == winner[start:stop, None], np.inf, some) if is_mixed else some

        sets = nearest_sets(distances, (m, n), depth)
        clear = np.flatnonzero(sets.found)
        listed, values = sets.in_order(contents)
        named, winner, number = codes[listed.rows], winner[clear], np.arange(depth)
        # all are reached: none of the listed rows is the winner's, or the sets would not be unique
        place = other_rows_needed(named, winner, k, self.n_classes).min(axis=1) - 1
        last = np.argmax(listed.ends_pile & (number >= place[:, None]), axis=1)
        first = np.where(listed.ends_pile & (number < place[:, None]), number + 1, 0).max(axis=1)
        nearer, not_farther = self._winners_nearer(
            relative, rows[clear], of_winner, winner, values[np.arange(len(clear)), place]
        )
        counts = np.zeros((len(clear), self.n_classes), dtype=np.int64)
        for rival in range(self.n_classes):
            counts[:, rival] = np.count_nonzero((named == rival) & (number <= last[:, None]), axis=1)
        counts[np.arange(len(clear)), winner] = nearer
        cut = FirstCut(nearer + first, nearer + last + 1, nearer, counts)
        needed[clear], proved = removals_to_overturn(cut, k, winner)
        is_proved[clear] = proved & (nearer == not_farther)  # else content decides which rows come first
        return needed, is_proved

    def _winners_nearer(
        self, relative: Floats, rows: Integers, columns: slice, winner: Integers, distance: Floats
    ) -> tuple[Integers, Integers]:
        """Count the rows of the winner that are nearer than a distance, and those that are not farther."""
        codes, is_mixed = self.codes[columns], self.n_classes > 2 or not self.is_by_class
        counts = np.zeros((2, len(rows)), dtype=np.int64)
        for start, stop in tiles(len(rows), max(NUMBERS_TO_SELECT_FROM // len(codes), 1)):
            some, limit = relative[rows[start:stop], columns], distance[start:stop, None]
            for count, is_near in zip(counts, (some < limit, some <= limit), strict=True):
                if is_mixed:
                    is_near &= codes == winner[start:stop, None]
                count[start:stop] = np.count_nonzero(is_near, axis=1)
        return counts[0], counts[1]

    def _by_long_lists(
        self, relative: Floats, own_squares: Floats, undecided: Integers, offsets: Integers | None = None
    ) -> tuple[Integers, Integers]:
        """Return scores and changes for some test rows; list more rows until they decide that."""
        k, n = self.k, relative.shape[1]
        scores = np.zeros((len(relative), self.n_classes), dtype=np.int64)
        needed, concerned = np.zeros_like(scores), undecided
        # replacing half of the voters by rows that name a rival lets it win, unless too many are trusted
        depth = min(n, k + k // 2 + SPARE_ROWS)
        while len(undecided):
            is_decided = np.zeros(len(undecided), dtype=bool)
            for start, stop in tiles(len(undecided), max(NUMBERS_AT_A_TIME // max(n, 1), 1)):
                some = undecided[start:stop]
                listed = in_order(relative[some], self.contents, depth)
                first = np.take_along_axis(relative[some], listed.rows[:, :1], axis=1) + own_squares[some, None]
                nearest = self.nearest_rows(listed, (first == 0).any(axis=1))
                nearest = replace(nearest, offsets=None if offsets is None else offsets[some])
                scores[some] = nearest.scores(k, self.n_classes)
                needed[some] = self._changes(nearest, scores[some])
                enough = nearest.decided_changes(k)
                if self.changes == "insertions":  # rows after the cut stay there
                    enough = np.where(enough >= 0, needed[some].max(axis=1), -1)
                is_decided[start:stop] = (needed[some].min(axis=1) <= enough) | (depth == n)
            undecided, depth = undecided[~is_decided], min(n, 2 * depth)
        return scores[concerned], needed[concerned]

    def _changes(self, nearest: NearestRows, scores: Integers) -> Integers:
        return neighbor_changes_to_overturn(nearest, self.k, winners(scores), self.n_classes, self.changes)
