"""Collective certificates: how many of many predictions one set of changed labels can change (M11)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary, refuse_row_changes, refuse_windows
from flipproof.assumptions import Assumption, check_assumptions
from flipproof.certificates import Certificates
from flipproof.core.collective import branch_and_bound, most_by_linear_programs
from flipproof.core.inequalities import Changes, CollectiveAttack, VoteTable
from flipproof.core.powers import Powers
from flipproof.core.provider import VoteProvider, check_rows_in_memory, provides_votes
from flipproof.core.rounding import Integers
from flipproof.core.votes import all_votes
from flipproof.parameters import check_arguments, integer, number, one_of, parameter_error
from flipproof.values import groups_of_rows

CONSTRAINTS = {
    "flips": integer(0),
    "method": one_of("bound", "exact"),
    "time_limit": number(0, closed="high", noun="number of seconds"),
}


#: Attackable predictions times possible label changes; larger problems are split into parts.
MOST_GAINS = 2**22


NO_ATTACK = np.zeros((2, 0), dtype=np.int64)


NOTHING_MORE: tuple[Assumption, ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class CollectiveCertificate:
    """At most `most_changed` of these predictions change if any `flips` training labels are changed.

    Attributes
    ----------
    flips : int
        Number of labels that one attack on all of these predictions changes, to any classes; or number of annotators
        who change their labels.
    n_predictions : int
        Number of predictions.
    most_changed : int
        No attack changes more of these predictions.
    pointwise_changed : int
        The bound that follows from the radii alone: how many predictions separate attacks could change.
    method : {"bound", "exact"}
        ``"bound"``: `most_changed` is an upper bound. ``"exact"``: the attack in `rows` changes exactly that many,
        unless `assumptions` says that the solver ran out of time.
    unit : {"labels", "annotators"}
        What `flips` counts.
    assumptions : tuple of Assumption
        What the certificate assumes; ``str`` gives a sentence for each.
    adversary : Adversary or None
        The adversary that the certificate holds against. None: any label may be changed to any class.
    rows : integers, or None
        Method ``"exact"``: the training rows that the best attack changes.
    new_labels : array, or None
        Their labels after the attack.
    by_group : mapping of names to CollectiveCertificate, or None
        The same for each group of test rows, against an attack on this group alone: an attack on all of them changes no
        more predictions of a group. None if no groups were given.
    """

    flips: int
    n_predictions: int
    most_changed: int
    pointwise_changed: int
    method: str
    unit: str
    assumptions: tuple[Assumption, ...]
    adversary: Adversary | None = None
    rows: Integers | None = None
    new_labels: NDArray[Any] | None = None
    by_group: Mapping[Any, CollectiveCertificate] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", check_assumptions(self.assumptions, type(self).__name__))
        for name in ("rows", "new_labels"):
            value = getattr(self, name)
            if value is not None:
                value.setflags(write=False)

    def __repr__(self) -> str:
        who = "changed label" if self.unit == "labels" else "malicious annotator"
        does = f"{who} changes" if self.flips == 1 else f"{who}s change"
        return (
            f"<CollectiveCertificate: any {self.flips} {does} at most {self.most_changed} of {self.n_predictions} "
            "predictions>"
        )


def collective_certify(
    model: Any,
    X: Any,
    flips: int,
    *,
    groups: object = None,
    adversary: Adversary | None = None,
    method: str = "bound",
    time_limit: float = 60.0,
) -> CollectiveCertificate:
    """Bound how many of these predictions one set of changed training labels can change.

    Parameters
    ----------
    model : label-linear learner
        Fitted.
    X : array or data frame of shape (m, k)
        Test rows.
    flips : int
        Number of training labels that may be changed; with ``Adversary(groups=...)``, number of malicious annotators.
    groups : array of shape (m,), optional
        The group of each test row, for a fairness audit: the predictions of each group are bounded, too.
    adversary : Adversary, optional
        What an attacker can do to the labels. Default: change any label to any class.
    method : {"bound", "exact"}, default="bound"
        ``"bound"``: an upper bound by linear programs, proved in integer arithmetic. ``"exact"``: the largest number
        and an attack that attains it, by branch and bound; for a few dozen predictions that can be changed.
    time_limit : float, default=60.0
        Seconds after which no further linear program is solved; the best bound so far is returned. All groups share
        them.

    Returns
    -------
    CollectiveCertificate
        At most how many predictions change, and what this rests on.

    See Also
    --------
    flipproof.certify : Certify with a learner, a Pipeline or a search.
    flipproof.attacks.worst_flips : Smallest attack by labels.

    Notes
    -----
    The work grows with the predictions whose radius is below `flips`, their rival classes, and the possible changes,
    n (K - 1). On one core, two classes, n = 2,000 and m = 200 take up to 5 seconds, n = 13,000 up to 15; ten classes,
    n = 1,000 and m = 100 take 5 seconds at 10 flips, and the whole time limit at 20. If rivals times changes exceed
    four million, the predictions are split into parts, each with a separate attack.

    The share of a class among the predictions of a group with m rows moves by at most ``most_changed / m``, and the gap
    between the shares of two groups by at most the sum of both.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof import CertifiedRidgeClassifier, collective_certify
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(100, 5)), np.arange(100) % 2
    >>> X[:, 0] += 2 * y
    >>> model = CertifiedRidgeClassifier().fit(X, y)
    >>> cert = collective_certify(model, rng.normal(size=(50, 5)) + [1, 0, 0, 0, 0], flips=5)
    >>> cert
    <CollectiveCertificate: any 5 changed labels change at most 20 of 50 predictions>
    >>> both = collective_certify(model, [[1, 0, 0, 0, 0], [5, 0, 0, 0, 0]], flips=5, groups=["near", "far"])
    >>> {name: one.most_changed for name, one in both.by_group.items()}
    {'far': 0, 'near': 1}
    """
    _check_parameters(model, flips, method, time_limit)
    refuse_windows(adversary, "collective_certify")
    refuse_row_changes(adversary, "collective_certify", "use certify, which counts changed rows for each prediction.")
    end = time.monotonic() + time_limit
    certificates = model.certify(X, method="exact", adversary=adversary)
    names, codes = ([], None) if groups is None else groups_of_rows(groups, len(certificates))
    parts: list[Integers] = [np.arange(len(certificates)), *(np.flatnonzero(codes == one) for one in range(len(names)))]
    found = []
    for place, rows in enumerate(parts):
        now = time.monotonic()
        deadline = now + (end - now) / (len(parts) - place)
        found.append(_bounded(model, X, rows, int(flips), certificates, adversary, method, deadline))
    whole, of_groups = found[0], found[1:]
    if not names:
        return whole
    # an attack changes as many predictions of each group at most
    most = min(whole.most_changed, sum(one.most_changed for one in of_groups))
    by_group = MappingProxyType(dict(zip(names, of_groups, strict=True)))
    return replace(whole, most_changed=most, by_group=by_group)


def _bounded(
    model: VoteProvider,
    X: object,
    rows: Integers,
    flips: int,
    certificates: Certificates,
    adversary: Adversary | None,
    method: str,
    deadline: float,
) -> CollectiveCertificate:
    """Bound how many of the predictions on some test rows one attack can change."""
    budget = min(flips, certificates.n_touchable)  # an attacker cannot change more than everything
    in_danger = rows[certificates.radius[rows] < budget]
    problems = _problems(model, X, in_danger, adversary, budget)
    attack, more = NO_ATTACK, NOTHING_MORE
    if method == "bound":
        most_changed = sum(most_by_linear_programs(problem, deadline) for problem in problems)
    else:
        most_changed, attack, more = _exactly(problems, deadline)
    return CollectiveCertificate(
        flips=flips,
        n_predictions=len(rows),
        most_changed=most_changed,
        pointwise_changed=len(in_danger),
        method=method,
        unit=certificates.unit,
        assumptions=(*certificates.assumptions, Assumption("one-attack"), *more),
        adversary=adversary,
        rows=attack[0] if method == "exact" else None,
        new_labels=certificates.classes[attack[1]] if method == "exact" else None,
    )


def _problems(
    model: VoteProvider, X: object, in_danger: Integers, adversary: Adversary | None, budget: int
) -> Iterator[CollectiveAttack]:
    """Split the attack on all attackable predictions into parts, as large as memory and the solver allow."""
    Z, powers = model.test_rows(X)[in_danger], model.powers(adversary)
    n_changes = len(model.label_codes_) * (len(model.classes_) - 1)
    block = max(1, MOST_GAINS // max(1, n_changes))
    for start in range(0, len(Z), block):
        table = vote_table(model, Z[start : start + block], powers)
        rivals = np.count_nonzero(table.within_reach(Changes.within(table.powers, table.codes), budget), axis=1)
        part = np.cumsum(rivals) * n_changes // MOST_GAINS
        for one in np.unique(part):
            yield CollectiveAttack.on(table.rows(np.flatnonzero(part == one)), budget)


def vote_table(model: VoteProvider, Z: object, powers: Powers) -> VoteTable:
    """Return all votes on a few test rows."""
    source = model.votes_on(Z)
    votes = all_votes(source)
    offsets = model.offsets_on(source, votes.sum(axis=1).astype(np.int64))
    return VoteTable(votes, offsets, model.label_codes_, powers)


def _check_parameters(model: object, flips: object, method: object, time_limit: object) -> None:
    check_rows_in_memory(model, "collective_certify")
    if not provides_votes(model):
        remedy = "give its last step, and rows transformed by the steps before." if hasattr(model, "steps") else ""
        raise parameter_error("collective_certify", "model", "a label-linear learner of flipproof", model, remedy)
    check_arguments("collective_certify", CONSTRAINTS, flips=flips, method=method, time_limit=time_limit)


def _exactly(problems: Iterator[CollectiveAttack], deadline: float) -> tuple[int, Integers, tuple[Assumption, ...]]:
    """Return the most predictions that an attack can change, that attack (rows, new class codes), and assumptions."""
    problem = next(problems, None)
    if problem is None:
        return 0, NO_ATTACK, NOTHING_MORE
    if next(problems, None) is not None:
        raise ValueError(
            "The method 'exact' of collective_certify is for small cases. Got more than "
            f"{problem.n_points} predictions that can be changed, too many for these training labels: use 'bound'."
        )
    proved = most_by_linear_programs(problem, deadline)
    claimed, chosen, ran_out_of_time = branch_and_bound(problem, deadline)
    attained = problem.changed_by(chosen)
    most = max(attained, min(claimed, proved))
    found = []
    if most < proved:
        found.append(Assumption("solver-claim", {"most_changed": most}))
    if attained < most:
        values = {"n_changed": attained, "ran_out_of_time": ran_out_of_time}
        found.append(Assumption("solver-stopped", values))
    return most, np.stack([problem.changes.label, problem.changes.new])[:, chosen], tuple(found)
