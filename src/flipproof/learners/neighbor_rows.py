"""How many changed training rows overturn the vote of the nearest ones: by lists of rows that are as short as possible.

Certificates against changed rows depend on the order of the training rows near the cut after the k nearest (M13). For
most test rows a short list is enough, and the rows before it are only counted:

- ``"insertions"``: the k rows that vote;
- ``"rows"``: the next rows, as many as half of the votes that the winner is ahead
  (:func:`flipproof.core.neighbor_cuts.least_replacements`);
- ``"removals"``: the rows of other classes up to the first pile that lets a rival win
  (:func:`flipproof.core.neighbor_cuts.other_rows_needed`).

Where this does not decide the number of changes, more and more rows are listed until they do. The result is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from flipproof.core.engine import winners
from flipproof.core.neighbor_cuts import (
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
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import tiles
from flipproof.learners.nearest_rows import (
    NUMBERS_TO_SELECT_FROM,
    NearestSets,
    RowsInOrder,
    counted_in_blocks,
    in_order,
    kth_smallest,
    nearest_counts,
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


def by_class(codes: Integers, removable: NDArray[np.bool_]) -> Integers:
    """Return the order in which rows are sorted by class, and within a class by whether they can be removed."""
    tags = 2 * codes + removable
    is_small = int(tags.max(initial=0)) <= np.iinfo(np.int16).max  # these are sorted in linear time
    return np.asarray(np.argsort(tags.astype(np.int16) if is_small else tags, kind="stable"))


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
        Whether they are sorted by class, and within a class by `removable`; this is necessary for short lists.
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
        has_short = self.is_by_class and offsets is None and depth < n
        if has_short and (self.changes != "removals" or self._all_removable):
            at_a_time = m if self.changes == "removals" else ENTRIES_AT_A_TIME // depth
            for start, stop in tiles(m, max(at_a_time, 1)):
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

    @cached_property
    def _tags(self) -> Integers:
        """Twice the class of each row, plus 1 if it can be removed; in ascending order."""
        return np.asarray(2 * self.codes + self.removable)

    @cached_property
    def _blocks(self) -> list[int]:
        """Where the rows of each tag begin, and where the last one's end."""
        return [int(start) for start in np.searchsorted(self._tags, np.arange(2 * self.n_classes + 1))]

    @property
    def _bounds(self) -> list[int]:
        """Where the rows of each class begin, and where the last one's end."""
        return self._blocks[::2]

    def _listed(self, sets: NearestSets, is_hit: NDArray[np.bool_], front: FrontRows | None = None) -> NearestRows:
        """Return the rows of short lists in order."""
        tags, ends, _ = sets.tags_in_order(self.contents, self._tags)
        return NearestRows(tags >> 1, ends, (tags & 1).astype(bool), is_hit, len(self.codes), front)

    def _by_short_lists(self, relative: Floats, own_squares: Floats, depth: int) -> Found:
        """Return scores, changes that let each class win, and for which test rows these are proved."""
        scores = np.zeros((len(relative), self.n_classes), dtype=np.int64)
        needed = np.zeros_like(scores)

        def distances(start: int, stop: int) -> Floats:
            return relative[start:stop]

        if self.changes == "removals":
            counts, is_proved = nearest_counts(distances, relative.shape, self.k, self._bounds)
            rows = np.flatnonzero(is_proved)
            scores[rows] = counts[rows]
            needed[rows], is_proved[rows] = self._by_other_rows(relative, rows, winners(counts[rows]))
            return scores, needed, is_proved
        skip = self.k if self.changes == "rows" else 0
        sets = nearest_sets(distances, relative.shape, depth, self._blocks, skip)
        rows, is_proved = np.flatnonzero(sets.found), sets.found.copy()
        removable = sets.counts[:, 1::2]
        counts = scores[rows] = sets.counts[:, ::2] + removable
        if self.changes == "insertions":  # rows after the cut stay there
            is_hit = sets.values.min(axis=1, initial=np.inf) + own_squares[rows] == 0
            needed[rows] = insertions_to_overturn(self._listed(sets, is_hit), counts, winners(counts))
        else:
            front = FrontRows(self.k, counts, removable)
            needed[rows], is_proved[rows] = self._by_next_rows(sets, front)
        return scores, needed, is_proved

    def _by_next_rows(self, sets: NearestSets, front: FrontRows) -> tuple[Integers, NDArray[np.bool_]]:
        """Return how many replaced rows let each class win, from the rows after the cut, and where that is proved."""
        winner = winners(front.counts)
        least, is_bound = least_replacements(front, winner)
        nearest = self._listed(sets, np.zeros(len(winner), dtype=bool), front)  # a hit would be in front
        if self._all_removable:
            nearest = nearest.shortened(int(least.max(initial=0)) + SPARE_ROWS)
            needed = replacements_to_overturn(nearest, self.k, winner, self.n_classes)
        else:
            needed = self._changes(nearest, front.counts)
        return needed, is_bound & (needed.min(axis=1) <= nearest.decided_changes(self.k))

    def _by_other_rows(self, relative: Floats, rows: Integers, winner: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return how many removed rows let each class win, for some test rows, and where that is proved."""
        needed, is_proved = np.zeros((len(rows), self.n_classes), dtype=np.int64), np.zeros(len(rows), dtype=bool)
        sizes = np.diff(self._bounds)
        # the weights of all rows, if a class is the winner and another the rival
        weights = len(self.codes) - sizes[:, None] + sizes
        needs = self.k + np.triu(np.ones_like(weights), 1)  # 1 more for a rival that sorts after the winner
        is_hopeless = np.asarray(((weights < needs) | np.eye(len(sizes), dtype=bool)).all(axis=1))[winner]
        needed[is_hopeless], is_proved[is_hopeless] = removals_of_all(sizes, winner[is_hopeless]), True
        some = np.flatnonzero(~is_hopeless)
        if self.n_classes == 2:
            for code in (0, 1):
                of_class = some[winner[some] == code]
                needed[of_class], is_proved[of_class] = self._against_one(code, relative, rows[of_class])
            some = some[~is_proved[some]]
        needed[some], is_proved[some] = self._against(winner[some], relative, rows[some])
        return needed, is_proved

    def _against_one(self, winner: int, relative: Floats, rows: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return how many removed rows let the other of two classes win; proved where no two rows at the cut tie.

        Every row of the rival has a weight of 2 (:func:`flipproof.core.neighbor_cuts.other_rows_needed`), so its place
        in the list is known, and nothing is sorted.
        """
        place, m = (self.k + (winner == 0) + 1) // 2, len(rows)
        n_others = len(self.codes) - self._bounds[winner + 1] + self._bounds[winner]
        if n_others < place:
            return np.zeros((m, 2), dtype=np.int64), np.zeros(m, dtype=bool)
        limit, is_single = np.empty(m), np.empty(m, dtype=bool)
        for start, stop in tiles(m, max(NUMBERS_TO_SELECT_FROM // n_others, 1)):
            others = (
                relative[rows[start:stop], : self._bounds[1]]
                if winner
                else relative[rows[start:stop], self._bounds[1] :]
            )
            limit[start:stop] = kth_smallest(others, place)
            is_single[start:stop] = counted_in_blocks(others == limit[start:stop, None], [0, n_others])[:, 0] == 1
        nearer, not_farther = self._winners_nearer(relative, rows, winner, limit)
        counts = np.full((m, 2), place)
        counts[:, winner] = nearer
        cut = FirstCut(nearer + place - 1, nearer + place, nearer, counts)
        needed, is_proved = removals_to_overturn(cut, self.k, np.full(m, winner))
        return needed, is_proved & is_single & (nearer == not_farther)

    def _against(self, winner: Integers, relative: Floats, rows: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return how many removed rows let each class win, from the order of the nearest rows of other classes."""
        k, m, n = self.k, len(rows), len(self.codes)
        # every other row has a weight of 1, with two classes of 2; they must add up to k + 1
        depth, skip = (k + 2) // 2 if self.n_classes == 2 else k + 1, (k - 1) // 2
        needed, is_proved = np.zeros((m, self.n_classes), dtype=np.int64), np.zeros(m, dtype=bool)
        if m == 0 or n <= depth:
            return needed, is_proved

        def distances(start: int, stop: int) -> Floats:
            others = relative[rows[start:stop]]
            for code in np.unique(winner[start:stop]):
                others[winner[start:stop] == code, self._bounds[code] : self._bounds[code + 1]] = np.inf
            return others

        sets = nearest_sets(distances, (m, n), depth, self._bounds, skip)
        clear, winner = np.flatnonzero(sets.found), winner[sets.found]
        # none of the listed rows is the winner's, or the sets would not be unique
        tags, ends_pile, values = sets.tags_in_order(self.contents, self._tags)
        named, number = tags >> 1, np.arange(depth - skip)
        skipped = sets.counts if skip else np.zeros_like(sets.counts)  # if none is skipped, all are counted
        place = other_rows_needed(named, skipped, winner, k) - 1
        last = np.argmax(ends_pile & (number >= place[:, None]), axis=1)
        first = np.where(ends_pile & (number < place[:, None]), number + 1, 0).max(axis=1, initial=0)
        limit = values[np.arange(len(clear)), place].astype(np.float64)
        nearer, not_farther = np.zeros_like(place), np.zeros_like(place)
        for code in np.unique(winner):
            some = winner == code
            nearer[some], not_farther[some] = self._winners_nearer(relative, rows[clear[some]], int(code), limit[some])
        cells = named + self.n_classes * np.arange(len(clear))[:, None]
        counts = np.bincount(cells[number <= last[:, None]], minlength=len(clear) * self.n_classes)
        counts = skipped + counts.reshape(len(clear), self.n_classes)
        counts[np.arange(len(clear)), winner] = nearer
        cut = FirstCut(nearer + skip + first, nearer + skip + last + 1, nearer, counts)
        needed[clear], proved = removals_to_overturn(cut, k, winner)
        is_proved[clear] = proved & (nearer == not_farther)  # else content decides which rows come first
        return needed, is_proved

    def _winners_nearer(
        self, relative: Floats, rows: Integers, winner: int, distance: Floats
    ) -> tuple[Integers, Integers]:
        """Count the rows of the winner that are nearer than a distance, and those that are not farther."""
        first, last = self._bounds[winner : winner + 2]
        counts = np.zeros((2, len(rows)), dtype=np.int64)
        for start, stop in tiles(len(rows), max(NUMBERS_TO_SELECT_FROM // max(last - first, 1), 1)):
            some, limit = relative[rows[start:stop], first:last], distance[start:stop, None]
            for number, is_meant in enumerate((some < limit, some <= limit)):
                counts[number, start:stop] = counted_in_blocks(is_meant, [0, last - first])[:, 0]
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
