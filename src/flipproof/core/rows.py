"""The exact radius against added, removed and replaced training rows, where the geometry is frozen (M12).

A geometry is *frozen* if the vote v(z, x) of a training row x on a test row z, and the offsets, depend on z, x and a
fixed reference, never on other training rows. The score of a class is then a sum over the training rows, and a row can
be changed in three ways. With c the winner, d a rival and D_j = [y_j = c] - [y_j = d]:

- removing row j lowers the margin of c over d by v_j D_j; only removals with a *gain* g_j = max(0, v_j D_j) > 0 help;
- adding a row lowers it by at most V, where V >= abs(v(z, x)) for every possible x;
- replacing row j does both with one change: g_j + V.

So r changes lower the margin by at most the r largest g_j plus r V (``"rows"``), r V (``"insertions"``), or the r
largest g_j (``"removals"``), and an attack that attains each of these sums exists if V is attained. The rival wins as
soon as the sum reaches the *lead*, margin + [c < d], as in :mod:`flipproof.core.exact`.

The vote of nearest neighbours is not a sum of this kind: see :mod:`flipproof.core.neighbor_cuts`.

Soundness: integers throughout. The rule was derived as an equivalence, so radii are exact as lower and upper bounds,
ties included, provided that V is attained; otherwise they are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from flipproof.core.exact import UNREACHABLE
from flipproof.core.histograms import VoteHistogram
from flipproof.core.powers import Powers
from flipproof.core.rounding import Integers, ceil_divide
from flipproof.core.votes import GroupVotes

#: Counts rows that let a rival gain if they are removed, by the size of their vote, on some test rows.
_CountsOf: TypeAlias = Callable[[int, Integers], Integers]


def row_changes_to_overturn(
    histogram: VoteHistogram, winner: Integers, lead: Integers, largest_vote: Integers, changes: str
) -> Integers:
    """Return the least number of changed training rows that lets each class win (M12).

    Parameters
    ----------
    histogram : VoteHistogram
        Votes of the rows that can be removed, on a block of test rows.
    winner : integers of shape (rows,)
        The predicted classes.
    lead : integers of shape (rows, classes)
        By how much the changes must lower the winner's margin, see :func:`flipproof.core.exact.leads`.
    largest_vote : integers of shape (rows,)
        V: no row that could be added has a larger vote on the test row.
    changes : {"rows", "insertions", "removals"}
        The possible changes of training rows.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where no number suffices, and in the winner's column.
    """
    added = largest_vote if changes != "removals" else np.zeros_like(largest_vote)
    sizes, counts_of = _removal_gains(histogram, winner) if changes != "insertions" else _no_gains(len(winner))
    needed = np.full_like(lead, UNREACHABLE)
    for rival in range(lead.shape[1]):
        some = np.flatnonzero(winner != rival)
        of_some = sizes if len(sizes) == 1 else sizes[some]
        needed[some, rival] = _shortest_walk(of_some, counts_of(rival, some), added[some], lead[some, rival])
    return needed


def _removal_gains(histogram: VoteHistogram, winner: Integers) -> tuple[Integers, _CountsOf]:
    """Return absolute votes in descending order, and a function that counts the rows of each with a gain."""
    if histogram.has_all_levels and histogram.values.shape[1]:  # no gaps, so nothing must be sorted
        half = histogram.values.shape[1] // 2
        of_winner = np.zeros((len(winner), half), dtype=np.int64)  # votes half, ..., 1, of which the first is not used
        of_winner[:, 1:] = histogram.counts[np.arange(len(winner)), winner, :half:-1]
        return np.arange(half, 0, -1)[
            None, :
        ], lambda rival, some: of_winner[some] + histogram.counts[some, rival, :half]
    order = np.argsort(-np.abs(histogram.values), axis=-1, kind="stable")
    order = np.broadcast_to(order, (len(winner), order.shape[1]))
    values = np.take_along_axis(np.broadcast_to(histogram.values, order.shape), order, axis=-1)
    is_positive = values > 0
    of_winner = np.take_along_axis(histogram.counts[np.arange(len(winner)), winner], order, axis=-1)

    def counts_of(rival: int, some: Integers) -> Integers:
        of_rival = np.take_along_axis(histogram.counts[:, rival], order, axis=-1)
        return np.where(values == 0, 0, np.where(is_positive, of_winner, of_rival))[some]

    return np.abs(values), counts_of


def _no_gains(n_rows: int) -> tuple[Integers, _CountsOf]:
    nothing = np.zeros((n_rows, 1), dtype=np.int64)
    return nothing, lambda rival, some: nothing[some]


def _shortest_walk(sizes: Integers, counts: Integers, added: Integers, lead: Integers) -> Integers:
    """Return how many changes reach the lead: one per row, largest gains first, then only additions."""
    gains = sizes + added[:, None]
    reach, rows = np.cumsum(gains * counts, axis=-1), np.cumsum(counts, axis=-1)
    at = np.arange(len(lead)), np.argmax(reach >= lead[:, None], axis=-1)
    before, rows_before = reach[at] - gains[at] * counts[at], rows[at] - counts[at]
    on_the_way = rows_before + ceil_divide(lead - before, gains[at])
    beyond = np.where(added > 0, rows[:, -1] + ceil_divide(lead - reach[:, -1], added), UNREACHABLE)
    return np.where(reach[:, -1] >= lead, on_the_way, beyond)


def sources_to_overturn(
    votes: GroupVotes, cell_rows: Integers, winner: Integers, lead: Integers, largest_vote: Integers, changes: str
) -> Integers:
    """Return the least number of sources that let each class win by replacing (or removing) their rows (M12).

    A source may replace (``"rows"``) or remove (``"removals"``) all of its rows, and adds no further ones. So it
    lowers the margin by the sum of v_j D_j + V over its rows, or of max(0, v_j D_j).

    Parameters
    ----------
    votes : GroupVotes
        Votes of the rows that can be removed, by source and class.
    cell_rows : integers of shape (cells,)
        How many of these rows each cell of `votes` has.
    winner, lead, largest_vote, changes
        As in :func:`row_changes_to_overturn`; `changes` is ``"rows"`` or ``"removals"``.
    """
    needed = np.full_like(lead, UNREACHABLE)
    if len(votes.label) == 0:
        return needed
    replaces = changes == "rows"
    for rival in range(lead.shape[1]):
        of_winner, of_rival = votes.label == winner[:, None], votes.label == rival
        gains = np.where(of_winner, votes.positive, 0) + np.where(of_rival, votes.negative, 0)
        if replaces:  # rows that hurt the attack are replaced as well, each by a row with the largest vote
            gains = gains - np.where(of_winner, votes.negative, 0) - np.where(of_rival, votes.positive, 0)
            gains = gains + largest_vote[:, None] * cell_rows
        by_source = np.sort(np.add.reduceat(gains, votes.first_cell, axis=1), axis=1)[:, ::-1]
        enough = np.count_nonzero(np.cumsum(by_source, axis=1) < lead[:, rival, None], axis=1) + 1
        needed[:, rival] = np.where(enough <= by_source.shape[1], enough, UNREACHABLE)
    needed[np.arange(len(winner)), winner] = UNREACHABLE
    return needed


@dataclass(frozen=True)
class RowChanges:
    """The fewest changes of training rows that let a rival class win against one test row.

    A removal and an addition are one change together. No source adds rows beyond those that it replaces.

    Attributes
    ----------
    n_changes : int
        Number of changed rows, or of sources.
    removed : integers
        The training rows to remove, in the order of the attack.
    n_added : int
        Number of rows to add, each with the largest vote.
    """

    n_changes: int
    removed: Integers
    n_added: int


def fewest_row_changes(
    votes: Integers, codes: Integers, winner: int, rival: int, lead: int, largest_vote: int, powers: Powers
) -> RowChanges | None:
    """Return the fewest changes of rows that lower a margin by `lead`, or None if no changes do (M12).

    Parameters
    ----------
    votes, codes : integers of shape (n,)
        Votes and class codes of all training rows.
    winner, rival : int
        Codes of the two classes.
    lead : int
        By how much the changes must lower the winner's margin, see :func:`flipproof.core.exact.leads`.
    largest_vote : int
        Size of the vote of every added row.
    powers : Powers
        What the adversary can do to rows.
    """
    added = largest_vote if powers.changes != "removals" else 0
    losses = votes * ((codes == winner).astype(np.int64) - (codes == rival))  # of the margin, if the row is removed
    free = powers.changeable if powers.changes != "insertions" else np.zeros(len(votes), dtype=bool)
    if powers.groups is not None:
        return _fewest_sources(losses, powers.groups, free, lead, added, powers.changes == "rows")
    useful = np.flatnonzero(free & (losses > 0))
    useful = useful[np.argsort(-losses[useful], kind="stable")]
    reach = np.cumsum(losses[useful] + added)
    n_changes = int(np.searchsorted(reach, lead)) + 1
    if n_changes > len(useful):
        if added == 0:
            return None
        missing = lead - (int(reach[-1]) if len(useful) else 0)
        n_changes = len(useful) - (-missing // added)
    return RowChanges(n_changes, useful[:n_changes], n_changes if added else 0)


def _fewest_sources(
    losses: Integers, groups: Integers, free: NDArray[np.bool_], lead: int, added: int, replaces: bool
) -> RowChanges | None:
    """Return the fewest sources whose rows, all replaced or some of them removed, lower a margin by `lead`."""
    used = np.flatnonzero(free if replaces else free & (losses > 0))
    if not len(used):
        return None
    sources, source_of_row = np.unique(groups[used], return_inverse=True)
    gains = np.zeros(len(sources), dtype=np.int64)
    np.add.at(gains, source_of_row, losses[used] + added)
    order = np.argsort(-gains, kind="stable")
    n_changes = int(np.searchsorted(np.cumsum(gains[order]), lead)) + 1
    if n_changes > len(sources):
        return None
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    chosen = np.flatnonzero(place[source_of_row] < n_changes)
    removed = used[chosen[np.argsort(place[source_of_row[chosen]], kind="stable")]]
    return RowChanges(n_changes, removed, len(removed) if replaces and added else 0)
