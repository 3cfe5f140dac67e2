"""How many changed training rows overturn a vote of partitions (M13).

The partition of a row is decided by a hash of its features, and the base learner of a partition is a function of the
rows in it. So an added row can change the vote of a single partition, which the attacker chooses, even an empty
one. A removed row changes the vote of the partition that it was in. How a base learner responds to a changed row is not
known: a changed partition may vote for any class. With c the winner and d a rival, a partition that turns to d lowers
the margin of c over d by its *gain*: 2 if it votes for c, 1 if it votes for a third class or, being empty, for nobody,
and 0 if it votes for d. The rival wins when the sum of gains reaches the *lead*, margin + [c < d], as in
:mod:`flipproof.core.exact`.

*Which partitions can turn.* Call a partition *removable* if a row in it can be removed. With r changes, each an
addition, a removal or a replacement (which is both), a set S of partitions can turn if and only if

- ``"rows"``: S has at most 2 r members, and at most r that are not removable;
- ``"insertions"``: S has at most r members;
- ``"removals"``: S has at most r members, all of them removable.

For ``"rows"``, every member of S needs an added or a removed row, and r changes add at most r rows and remove at most
r; a member that is not removable needs an added row. (A row that was added earlier can be removed as well, but its
partition has turned already.) Conversely, if S has a members that are not removable, a <= r, then r - a more can turn
by additions, and the at most r others by removals: each is removable, and the removals are in different partitions.

*Largest sum of gains.* The three rules have one form: at most M members in all, of which at most N are not removable.
These sets are the independent sets of a laminar matroid, so taking partitions by descending gain, each unless it breaks
a rule, gives the largest sum. Proof: let T be a set with the largest sum, p the first partition that is taken but not
in T. All that were taken before p are in T, and they leave room for p. If T with p breaks a rule, T has a partition
that was not taken before p, and whose removal mends both rules: if the rule about N is broken, one that is not
removable, since those taken before p are fewer than N; otherwise any. Its gain is at most that of p, since partitions
with a larger gain come before p, and those not taken break a rule with those taken, all of which are in T. So T can be
changed to contain p without a loss, and by induction to contain all that are taken; more would break a rule.

*Sources.* A malicious source can turn every partition in which it has a row that is not trusted and, by replacing,
as many others as it has such rows. The sum of what each source could gain alone bounds what they gain together, since
gains are not negative and a partition turns once.

Soundness: integers throughout. The radii are lower bounds: base learners need not turn, and for sources a partition
counts for each source that could turn it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flipproof.core.exact import UNREACHABLE
from flipproof.core.rounding import Integers


@dataclass(frozen=True)
class PartitionVotes:
    """Votes of partitions on a block of test rows, counted by class.

    Attributes
    ----------
    removable : integers of shape (rows, classes)
        Votes of the partitions with a row that can be removed.
    others : integers of shape (rows, classes)
        Votes of all other partitions.
    n_partitions : int
        Number of partitions. Those that vote for nobody are empty, and not removable.
    offsets : integers of shape (rows, classes), or 0
        Constants that are added to the votes, those of a prior (M15).
    """

    removable: Integers
    others: Integers
    n_partitions: int
    offsets: Integers | int = 0

    @property
    def scores(self) -> Integers:
        """The votes for each class, with offsets."""
        return np.asarray(self.removable + self.others + self.offsets)


def partition_changes_to_overturn(votes: PartitionVotes, winner: Integers, lead: Integers, changes: str) -> Integers:
    """Return a lower bound on the number of changed training rows that lets each class win (M13).

    Parameters
    ----------
    votes : PartitionVotes
        The votes on a block of test rows.
    winner : integers of shape (rows,)
        The predicted classes.
    lead : integers of shape (rows, classes)
        By how much the changes must lower the winner's margin, see :func:`flipproof.core.exact.leads`.
    changes : {"rows", "insertions", "removals"}
        The possible changes of training rows.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where no number suffices, and in the winner's column.
    """
    gains = _Gains(votes, winner, changes)
    most = votes.n_partitions  # as many changes can turn every partition that can turn at all
    low, high = np.zeros_like(lead), np.full_like(lead, most + 1)  # `low` changes are too few
    while np.any(high - low > 1):
        middle = (low + high) // 2
        enough = gains.largest_sum(middle) >= lead
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    needed = np.where(high <= most, high, UNREACHABLE)
    needed[np.arange(len(winner)), winner] = UNREACHABLE
    return needed


class _Gains:
    """How many partitions have a gain of 2, and of 1, against each rival, removable or not."""

    def __init__(self, votes: PartitionVotes, winner: Integers, changes: str):
        rows = np.arange(len(winner))
        n_removable = votes.removable.sum(axis=1, keepdims=True)
        n_others = votes.n_partitions - n_removable
        self._adds, self._removes = changes != "removals", changes != "insertions"
        self._twice_removable = votes.removable[rows, winner][:, None]
        self._twice_others = votes.others[rows, winner][:, None]
        # in the winner's own column, which is not used, the difference may be negative
        self._once_removable = np.maximum(n_removable - self._twice_removable - votes.removable, 0)
        self._once_others = np.maximum(n_others - self._twice_others - votes.others, 0)

    def largest_sum(self, changes: Integers) -> Integers:
        """Return the largest sum of gains for a number of changes, by descending gain, removable partitions first."""
        room = changes * (self._adds + self._removes)
        room_for_others = changes * self._adds
        twice_removable = np.minimum(self._twice_removable, room)
        room = room - twice_removable
        twice_others = np.minimum(self._twice_others, np.minimum(room, room_for_others))
        room, room_for_others = room - twice_others, room_for_others - twice_others
        once_removable = np.minimum(self._once_removable, room)
        room = room - once_removable
        once_others = np.minimum(self._once_others, np.minimum(room, room_for_others))
        return np.asarray(2 * (twice_removable + twice_others) + once_removable + once_others)


@dataclass(frozen=True)
class SourceVotes:
    """Votes of the partitions that each source can turn with rows that it has there, on a block of test rows.

    Attributes
    ----------
    owned : integers of shape (rows, sources, classes)
        Votes of the partitions in which a source has rows that are not trusted, counted by class.
    n_owned : integers of shape (sources,)
        Number of these partitions.
    n_rows : integers of shape (sources,)
        Number of rows of each source that are not trusted.
    votes : integers of shape (rows, classes)
        Votes of all partitions.
    n_partitions : int
        Number of partitions.
    offsets : integers of shape (rows, classes), or 0
        Constants that are added to the votes, those of a prior (M15).
    """

    owned: Integers
    n_owned: Integers
    n_rows: Integers
    votes: Integers
    n_partitions: int
    offsets: Integers | int = 0

    @property
    def scores(self) -> Integers:
        """The votes for each class, with offsets."""
        return np.asarray(self.votes + self.offsets)


def partition_sources_to_overturn(votes: SourceVotes, winner: Integers, lead: Integers, changes: str) -> Integers:
    """Return a lower bound on the number of sources that let each class win by replacing or removing their rows.

    Parameters
    ----------
    votes : SourceVotes
        The votes on a block of test rows.
    winner, lead
        As in :func:`partition_changes_to_overturn`.
    changes : {"rows", "removals"}
        Whether sources may replace their rows, or only remove them.

    Returns
    -------
    integers of shape (rows, classes)
        UNREACHABLE where all sources together do not suffice, and in the winner's column.
    """
    rows, n_sources = np.arange(len(winner)), len(votes.n_rows)
    needed = np.full_like(lead, UNREACHABLE)
    twice = votes.owned[rows, :, winner]
    twice_elsewhere = votes.votes[rows, winner][:, None] - twice
    for rival in range(lead.shape[1]):
        gains = 2 * twice + (votes.n_owned - twice - votes.owned[:, :, rival])
        if changes == "rows":  # as many arbitrary partitions as the source has rows, those of the winner first
            of_rival = votes.votes[:, rival, None] - votes.owned[:, :, rival]
            once_elsewhere = votes.n_partitions - votes.n_owned - twice_elsewhere - of_rival
            from_winner = np.minimum(twice_elsewhere, votes.n_rows)
            gains = gains + 2 * from_winner + np.minimum(once_elsewhere, votes.n_rows - from_winner)
        reach = np.cumsum(np.sort(gains, axis=1)[:, ::-1], axis=1)
        enough = np.count_nonzero(reach < lead[:, rival, None], axis=1) + 1
        needed[:, rival] = np.where(enough <= n_sources, enough, UNREACHABLE)
    needed[rows, winner] = UNREACHABLE
    return needed
