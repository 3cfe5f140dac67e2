"""Bounds on how many predictions a single set of changed labels can change (M11).

Counting the radii below r is too pessimistic: it assumes a separate attack of r changes on each prediction. An
adversary has one set of changes for all predictions, and the changes that help against one of them help little against
others, or even hinder.

This module finds good multipliers for the inequalities of :mod:`flipproof.core.inequalities`, which contains the
proof. It solves a linear program with the first kind of inequalities, then again with those of the other kinds that
its solution violates.

Soundness: the proof trusts nothing that is computed here. A solver that errs or gives up can only make the bound larger
than necessary. Test rows whose radius is at least r cannot be changed and are left out. If the rest is too large for
one linear program, it is split into parts: their bounds add up, and none exceeds the number of its rows. So the result
is never above what counting radii gives.

The method ``"exact"`` finds an attack, whose effect is counted in integers. That no attack is better is proved where
the bound equals this count; otherwise it is a claim of the solver (HiGHS), which `assumptions` states.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, hstack, vstack

from flipproof.core.inequalities import (
    CollectiveAttack,
    Inequalities,
    gains_and_losses,
    gains_beyond,
    gains_only,
    proved_bound,
)
from flipproof.core.rounding import Floats, Integers

#: How often the linear program is solved, each time with sharper inequalities. More rounds gain little.
ROUNDS = 5


#: The status of a mixed-integer program that was solved to optimality.
SOLVED = 0

#: Values up to this count as zero in a solver's solution.
TOLERANCE = 1e-7

#: How far a solver may be below an integer.
INTEGER_TOLERANCE = 1e-3


@dataclass(frozen=True)
class FractionalAttack:
    """A solution of the linear program: how much of each change, unit and pair, and the multipliers."""

    columns: Floats
    b: Floats
    multipliers: Floats


def most_by_linear_programs(problem: CollectiveAttack, deadline: float) -> int:
    """Return the best proved bound over rounds with increasingly sharp inequalities."""
    most = problem.n_points
    if most == 1:
        return most
    always, with_losses = gains_only(problem), gains_and_losses(problem)
    inequalities = always
    for _ in range(ROUNDS):
        found = solve(problem, inequalities, deadline)
        if found is None:
            break
        most = min(most, proved_bound(problem, inequalities, found.multipliers))
        is_tight = _slack(inequalities, found) < TOLERANCE
        is_tight[: len(always.pair)] = True
        candidates = [with_losses, *(promising(problem, found, with_free_units) for with_free_units in (False, True))]
        violated = [each.only(_slack(each, found) < -TOLERANCE) for each in candidates]
        if not any(len(each.pair) for each in violated):
            break
        inequalities = inequalities.only(is_tight).and_also(*violated)
    return most


def solve(problem: CollectiveAttack, inequalities: Inequalities, deadline: float) -> FractionalAttack | None:
    """Solve the linear program; return None if the solver fails or there is no time left."""
    seconds = deadline - time.monotonic()
    n_pairs = len(problem.leads)
    if n_pairs == 0 or seconds <= 0:
        return None
    matrix, upper = _program(problem, inequalities, relaxed_by=0.0)
    options = {"time_limit": seconds}
    result = linprog(_aim(matrix, n_pairs), matrix, upper, bounds=(0, 1), method="highs", options=options)
    if result.status != 0:
        return None
    multipliers = -result.ineqlin.marginals[: len(inequalities.pair)]
    return FractionalAttack(result.x[:-n_pairs], result.x[-n_pairs:], multipliers)


def promising(problem: CollectiveAttack, found: FractionalAttack, with_free_units: bool) -> Inequalities:
    """Return inequalities of gains beyond theta that a solution probably violates.

    For a pair with b = 1, r changes are in use; for a fraction b, r b of them matter: those with the largest gains.
    The smallest of these is a good theta. Units that are in use by more than b are good members of F.
    """
    changes, n_changes = problem.changes, len(problem.changes.label)
    in_use = found.columns[n_changes:] if problem.grouped else found.columns
    gains = changes.of_units(problem.gains) if problem.grouped else problem.gains
    used = np.flatnonzero(in_use > TOLERANCE)
    order = np.argsort(-gains[:, used], axis=1, kind="stable")
    amounts, b = in_use[used][order], found.b[:, None]
    filled = np.cumsum(np.minimum(amounts, b) if with_free_units else amounts, axis=1)
    position = np.count_nonzero(filled < problem.budget * b - TOLERANCE, axis=1)
    # beyond the last: all changes in use matter
    falling = np.pad(np.take_along_axis(gains[:, used], order, axis=1), ((0, 0), (0, 1)))
    theta = np.maximum(falling[np.arange(len(falling)), position], 0)
    of_units = in_use if problem.grouped else np.bincount(changes.unit, in_use, changes.n_units)
    free = (of_units > b) if with_free_units else np.zeros((len(b), changes.n_units), dtype=bool)
    return gains_beyond(problem, theta, free)


def _slack(inequalities: Inequalities, found: FractionalAttack) -> Floats:
    """Return by how much a solution satisfies the inequalities, in units of their reach."""
    left_side = inequalities.coefficients @ found.columns + inequalities.raised
    return np.asarray(left_side / inequalities.reach - found.b[inequalities.pair])


def _program(problem: CollectiveAttack, inequalities: Inequalities, relaxed_by: float) -> tuple[csr_array, Floats]:
    """Return the matrix and the right side of the program, ``matrix @ (x, b) <= upper``; the inequalities come first.

    They are divided by their reach, after `relaxed_by` is subtracted from it. A value below 1 makes no difference to
    integers, but prevents the tolerance of a solver from excluding an attack.
    """
    changes, n_pairs, n_changes = problem.changes, len(problem.leads), len(problem.changes.label)
    n_first, n_labels, n_units = len(inequalities.pair), len(changes.first_of_label), changes.n_units
    points, point_of_pair = np.unique(problem.point, return_inverse=True)
    pairs = np.arange(n_pairs) + n_changes + (n_units if problem.grouped else 0)
    units = np.arange(n_units) + n_changes
    label_of_change = np.repeat(np.arange(n_labels), np.diff(changes.first_of_label, append=n_changes))
    n_columns = n_pairs + int(pairs[0])
    # each unit in use counts towards the budget; a label has at most one new class, and none if its unit is not in use
    paid = units if problem.grouped else np.arange(n_changes)
    one_class = _entries(label_of_change, np.arange(n_changes), 1.0, n_labels, n_columns)
    if problem.grouped:
        one_class -= _entries(np.arange(n_labels), units[changes.unit_of_label], 1.0, n_labels, n_columns)
    of_b = _entries(np.arange(n_first), inequalities.pair, 1 - relaxed_by / inequalities.reach, n_first, n_pairs)
    matrix = [
        hstack([csr_array(-inequalities.coefficients / inequalities.reach[:, None]), of_b]),
        one_class,
        _entries(point_of_pair, pairs, 1.0, len(points), n_columns),
        _entries(0 * paid, paid, 1.0, 1, n_columns),
    ]
    upper: list[Floats] = [
        inequalities.raised / inequalities.reach,
        np.full(n_labels, 0.0 if problem.grouped else 1.0),
        np.ones(len(points)),
        np.array([float(problem.budget)]),
    ]
    return csr_array(vstack(matrix)), np.concatenate(upper)


def _entries(rows: Integers, columns: Integers, values: Floats | float, n_rows: int, n_columns: int) -> csr_array:
    """Return a sparse matrix with these entries."""
    return csr_array((np.broadcast_to(values, len(rows)), (rows, columns)), shape=(n_rows, n_columns))


def branch_and_bound(problem: CollectiveAttack, deadline: float) -> tuple[int, NDArray[np.bool_], bool]:
    """Return how many predictions the solver claims can be changed, its best attack, and whether it stopped early."""
    n_pairs, nothing = len(problem.leads), np.zeros(len(problem.changes.label), dtype=bool)
    # with integers, the inequalities with losses are complete; sharper ones mostly slow HiGHS down
    matrix, upper = _program(problem, gains_and_losses(problem), relaxed_by=0.5)
    result = milp(
        _aim(matrix, n_pairs),
        integrality=np.ones(matrix.shape[1]),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, ub=upper),
        options={"time_limit": max(deadline - time.monotonic(), 1.0), "mip_rel_gap": 0.0},
    )
    claimed = problem.n_points
    if result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound):
        claimed = int(np.floor(INTEGER_TOLERANCE - result.mip_dual_bound))
    chosen = nothing if result.x is None else result.x[: len(nothing)] > 0.5
    return claimed, chosen if problem.is_possible(chosen) else nothing, result.status != SOLVED


def _aim(matrix: csr_array, n_pairs: int) -> Floats:
    """Return the objective that the solver minimises: minus the sum of b."""
    return np.where(np.arange(matrix.shape[1]) < matrix.shape[1] - n_pairs, 0.0, -1.0)
