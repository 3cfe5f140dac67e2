"""Inequalities that every attack on many predictions satisfies, and the bound that follows: the proof behind M11.

**The attack.** A *change* t gives a label j a new class e. It lowers the margin of test row i over rival d by
``g = k_ij (D(y_j) - D(e))``, D(e) = [e = c] - [e = d]: an integer, possibly negative. The adversary has r *units*: a
unit is a label with its changes, or an annotator with all of their labels. Let x_t in {0, 1}, with at most one change
per label and r units; let b_id = 1 for at most one rival of each test row, and only if that rival overtakes the winner
(the sum of g x reaches the *lead*, margin + [c < d], as in :mod:`flipproof.core.exact`), whether or not a third class
then wins. The largest number of predictions that one attack can change is the largest sum of b.

**Inequalities.** All attacks satisfy inequalities ``sum a_t x_t + raised >= reach * b`` in integers:

- *Gains*: a = max(g, 0), raised = 0, reach = lead.
- *Gains and losses*: a = g. Changes that raise the margin count against the attack. But an attack on other rows may
  raise the margin of this one, at most by the r units that raise it most: this is `raised`. Reach = lead + raised.
- *Gains beyond theta*, for any theta >= 0 and any set F of units: a = max(g - theta, 0), but 0 in F; raised = 0. An
  attack on the row takes at most r units, so the sum of g - theta over them is at least lead - r theta. Dropping the
  negative terms does not make it smaller, and F adds at most its best changes: reach = lead - r theta - sum over F of
  max(g - theta, 0). If a unit has many labels, g is the largest total gain of all of them, and x tells whether the
  unit is used.

No a need be larger than `reach`: an attack with a change that has a >= reach satisfies the inequality regardless of its
other changes, because these lower the left side by at most `raised`.

**The bound.** For *any* multipliers lambda >= 0 of the inequalities, no attack changes more predictions than

    sum lambda raised  +  sum over test rows of max(0, max_d (1 - sum lambda reach))  +  the r largest values of units,

where the value of a unit is the sum over its labels of max(0, max_e sum lambda a). The reason: sum b is at most sum b +
sum lambda (sum a x + raised - reach b), and each of the three terms is the maximum of its part. This is weak duality:
the dual solution of the linear program is the best choice of lambda, and any other choice is valid too.

Soundness: integers throughout, hence no rounding: gains are below 2**46 as in :mod:`flipproof.core.exact`, and lambda
is rounded to a grid on which no sum leaves 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flipproof.core.exact import leads
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import one_hot

#: Bits of the largest sum in :func:`proved_bound`, one fewer than a signed 64-bit integer has.
SUM_BITS = 62


@dataclass(frozen=True)
class Changes:
    """Possible changes of single labels: the label, its new class and its unit, each of shape (changes,).

    The changes of a label are contiguous, and so are the labels of a unit. Units are numbered from 0 in this order.
    """

    label: Integers
    new: Integers
    unit: Integers

    @classmethod
    def within(cls, powers: Powers, codes: Integers) -> Changes:
        """List all changes that an adversary can make."""
        label, new = np.nonzero(powers.transitions[codes] & powers.changeable[:, None])
        unit = label if powers.groups is None else powers.groups[label]
        order = np.argsort(unit, kind="stable")
        return cls(label[order], new[order], unit[order]).only(np.ones(len(order), dtype=bool))

    def only(self, kept: NDArray[np.bool_]) -> Changes:
        """Return only the changes in `kept`, with renumbered units."""
        unit = np.unique(self.unit[kept], return_inverse=True)[1]
        return Changes(self.label[kept], self.new[kept], unit)

    @cached_property
    def first_of_label(self) -> Integers:
        """Where the changes of each label begin."""
        return np.flatnonzero(np.diff(self.label, prepend=-1))

    @cached_property
    def unit_of_label(self) -> Integers:
        """The unit of each label."""
        return self.unit[self.first_of_label]

    @cached_property
    def n_units(self) -> int:
        """Number of units that have a change."""
        return int(self.unit[-1]) + 1 if len(self.unit) else 0

    @cached_property
    def most_labels(self) -> int:
        """The number of labels of the largest unit."""
        return int(np.bincount(self.unit_of_label).max(initial=0))

    def of_units(self, values: Integers) -> Integers:
        """Return the largest sum of each unit along the last axis: per label its best change, or no change."""
        if values.shape[-1] == 0:
            return values
        best = np.maximum(np.maximum.reduceat(values, self.first_of_label, axis=-1), 0)
        if self.most_labels == 1:
            return best
        return np.asarray(np.add.reduceat(best, np.flatnonzero(np.diff(self.unit_of_label, prepend=-1)), axis=-1))


@dataclass(frozen=True)
class VoteTable:
    """All votes on some test rows, and the powers of the adversary over the labels that cast them.

    Attributes
    ----------
    votes : floats of shape (m, n)
        Integers.
    offsets : integers of shape (m, K)
        Offsets of the deployed rule, in the units of the votes.
    codes : integers of shape (n,)
        The classes of the training labels.
    powers : Powers
        What the adversary can do.
    """

    votes: Floats
    offsets: Integers
    codes: Integers
    powers: Powers

    @cached_property
    def scores(self) -> Integers:
        """The scores of the deployed rule; exact, like all sums of votes."""
        votes = self.votes @ one_hot(self.codes, self.offsets.shape[1])
        return np.asarray(votes.astype(np.int64) + self.offsets)

    @cached_property
    def winner(self) -> Integers:
        """The predicted classes."""
        return np.asarray(np.argmax(self.scores, axis=1))

    @cached_property
    def leads(self) -> Integers:
        """By how much an attack must lower the winner's margin over each class, shape (m, K)."""
        return leads(self.scores, self.winner)

    def gains(self, changes: Changes, point: Integers, rival: Integers) -> Integers:
        """Return by how much each change lowers the winner's lead, one line for each point and its rival."""
        n_classes = self.offsets.shape[1]
        side = (one_hot(self.winner[point], n_classes) - one_hot(rival, n_classes)).astype(np.int64)
        taken_off = side[:, self.codes[changes.label]] - side[:, changes.new]
        return np.asarray(self.votes[:, changes.label].astype(np.int64)[point] * taken_off)

    def within_reach(self, changes: Changes, budget: int) -> NDArray[np.bool_]:
        """Tell which rivals can win, shape (m, K)."""
        reached = np.zeros(self.offsets.shape, dtype=bool)
        for rival in range(self.offsets.shape[1]):
            points = np.flatnonzero(self.winner != rival)
            gains = self.gains(changes, points, np.full(len(points), rival))
            reached[points, rival] = largest(changes.of_units(gains), budget) >= self.leads[points, rival]
        return reached

    def rows(self, which: Integers) -> VoteTable:
        """Return the votes on some of the test rows."""
        return VoteTable(self.votes[which], self.offsets[which], self.codes, self.powers)


@dataclass(frozen=True)
class CollectiveAttack:
    """One attack on many predictions: by how much each change lowers each margin that can be overcome.

    Attributes
    ----------
    gains : integers of shape (pairs, changes)
        A pair is a test row and a rival that r units can make win.
    leads : integers of shape (pairs,)
        By how much an attack must lower the margin; at least 1.
    point : integers of shape (pairs,)
        The test row of each pair.
    changes : Changes
        The changes with a gain for at least one pair.
    budget : int
        r, at least 1.
    grouped : bool
        Whether units are groups of labels.
    """

    gains: Integers
    leads: Integers
    point: Integers
    changes: Changes
    budget: int
    grouped: bool

    @classmethod
    def on(cls, table: VoteTable, budget: int) -> CollectiveAttack:
        """List the relevant pairs and changes, and by how much each change lowers each pair's margin.

        Soundness: a change without a gain for any pair can be omitted from every attack.
        """
        changes = Changes.within(table.powers, table.codes)
        point, rival = np.nonzero(table.within_reach(changes, budget))
        gains = table.gains(changes, point, rival)
        useful = np.any(gains > 0, axis=0)
        return cls(
            gains=gains[:, useful],
            leads=table.leads[point, rival],
            point=point,
            changes=changes.only(useful),
            budget=budget,
            grouped=table.powers.groups is not None,
        )

    @property
    def n_points(self) -> int:
        """Number of predictions that an attack could change."""
        return len(np.unique(self.point))

    def is_possible(self, chosen: NDArray[np.bool_]) -> bool:
        """Tell whether these changes are one possible attack: one change per label, and at most r units."""
        label, unit = self.changes.label[chosen], self.changes.unit[chosen]
        return len(np.unique(label)) == len(label) and len(np.unique(unit)) <= self.budget

    def changed_by(self, chosen: NDArray[np.bool_]) -> int:
        """Count the predictions that these changes change."""
        overturned = self.gains[:, chosen].sum(axis=1) >= self.leads
        return len(np.unique(self.point[overturned]))


@dataclass(frozen=True)
class Inequalities:
    """Inequalities that every attack satisfies: ``coefficients @ x + raised >= reach * b[pair]``, one per line.

    The columns of `coefficients` are the changes and then, if units are groups of labels, the units. Reach is at
    least 1; no coefficient is above it, and none below -raised.
    """

    pair: Integers
    coefficients: Integers
    raised: Integers
    reach: Integers

    def only(self, kept: NDArray[np.bool_]) -> Inequalities:
        """Return only the inequalities in `kept`."""
        return Inequalities(self.pair[kept], self.coefficients[kept], self.raised[kept], self.reach[kept])

    def and_also(self, *others: Inequalities) -> Inequalities:
        """Return these and the others."""
        every = (self, *others)
        return Inequalities(*(np.concatenate([getattr(one, name) for one in every]) for name in vars(self)))


def gains_only(problem: CollectiveAttack) -> Inequalities:
    """Return the inequalities of gains, for all pairs."""
    gains = np.clip(problem.gains, 0, problem.leads[:, None])
    pair, raised = np.arange(len(gains)), np.zeros_like(problem.leads)
    return Inequalities(pair, _with_units(problem, gains), raised, problem.leads)


def gains_and_losses(problem: CollectiveAttack) -> Inequalities:
    """Return the inequalities of gains and losses, for all pairs."""
    raised = largest(problem.changes.of_units(-problem.gains), problem.budget)
    reach = problem.leads + raised
    both = np.minimum(problem.gains, reach[:, None])
    return Inequalities(np.arange(len(both)), _with_units(problem, both), raised, reach)


def gains_beyond(problem: CollectiveAttack, theta: Integers, free: NDArray[np.bool_]) -> Inequalities:
    """Return the inequalities of gains beyond theta, for all pairs where they are not trivial.

    `theta` has shape (pairs,) and is not negative; `free`, the sets F, has shape (pairs, units).
    """
    changes, gains = problem.changes, problem.gains
    if problem.grouped:
        beyond = np.maximum(changes.of_units(gains) - theta[:, None], 0)
        of_units = beyond
    else:
        beyond = np.maximum(gains - theta[:, None], 0)
        of_units = changes.of_units(beyond)
    reach = problem.leads - problem.budget * theta - np.sum(of_units, axis=1, where=free)
    beyond = np.where(free if problem.grouped else free[:, changes.unit], 0, np.minimum(beyond, reach[:, None]))
    if problem.grouped:
        beyond = np.hstack([np.zeros_like(gains), beyond])
    return Inequalities(np.arange(len(gains)), beyond, np.zeros_like(reach), reach).only(reach > 0)


def _with_units(problem: CollectiveAttack, coefficients: Integers) -> Integers:
    """Append the columns of the units, if units are groups."""
    n_units = problem.changes.n_units if problem.grouped else 0
    return np.hstack([coefficients, np.zeros((len(coefficients), n_units), dtype=np.int64)])


def proved_bound(problem: CollectiveAttack, inequalities: Inequalities, multipliers: Floats) -> int:
    """Return an upper bound on the number of predictions that one attack can change, valid for any multipliers.

    `multipliers` are those of the inequalities divided by their reach; they are clipped to [0, 1], and NaN becomes 0.

    Soundness: weak duality. A multiplier is L 2**-bits with an integer L <= 2**bits / reach, so that no coefficient,
    `raised` or `reach` times L is above 2**bits, and no sum over inequalities and the labels of a unit exceeds SUM_BITS
    bits. The sums over units and test rows use Python integers.
    """
    changes, reach = problem.changes, inequalities.reach
    terms = (len(reach) + 1) * (changes.most_labels + 1)
    bits = SUM_BITS - terms.bit_length() - 1
    usable = np.clip(np.nan_to_num(multipliers, nan=0.0), 0.0, 1.0)
    times = np.floor(np.ldexp(usable, bits) / reach).astype(np.int64)
    values = times @ inequalities.coefficients
    n_changes = len(changes.label)
    units = changes.of_units(values[:n_changes])
    if problem.grouped:
        units = units + values[n_changes:]
    # what remains of each pair's b, and its maximum per test row
    covered = np.zeros(len(problem.leads), dtype=np.int64)
    np.add.at(covered, inequalities.pair, times * reach)
    left = np.zeros(int(problem.point.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(left, problem.point, 2**bits - covered)
    most_valuable = np.sort(units)[::-1][: problem.budget]
    total = sum((times * inequalities.raised).tolist()) + sum(left.tolist()) + sum(most_valuable.tolist())
    return int(total >> bits)


def largest(values: Integers, count: int) -> Integers:
    """Sum the `count` largest values along the last axis (at least 1), or all if there are fewer."""
    if count >= values.shape[-1]:
        return np.asarray(values.sum(axis=-1))
    return np.asarray(np.partition(values, -count, axis=-1)[..., -count:].sum(axis=-1))
