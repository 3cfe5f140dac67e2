"""The exact attack on a label-linear learner: the fewest labels that overturn a prediction, and which they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from flipproof.attacks.result import NO_ATTACK, AttackResult
from flipproof.attacks.slices import in_slices
from flipproof.attacks.target import label_linear_part
from flipproof.certificates import Adversary, Certificates
from flipproof.exact import LabelChanges, most_useful_changes
from flipproof.histograms import NUMBERS_AT_A_TIME
from flipproof.learners.base import LabelLinearClassifier
from flipproof.rounding import Integers
from flipproof.votes import all_votes

NO_CHANGES = LabelChanges(*(np.zeros(0, dtype=np.int64) for _ in range(5)))


def worst_flips(model: Any, X: Any, adversary: Adversary | None = None, max_flips: int | None = None) -> AttackResult:
    """Find the smallest set of label changes that overturns each prediction, in the order an attacker would use.

    The rival that is the easiest to lift takes the labels with the largest gains first (M6, M10). No smaller set
    exists: ``flips_needed`` is the exact radius plus one, and a refit on the changed labels predicts another class.

    Parameters
    ----------
    model : learner, or Pipeline that ends in one
        Label-linear and fitted.
    X : array or data frame of shape (m, k)
        Test rows.
    adversary : Adversary, optional
        What can be done to the labels. With annotators, `flips_needed` counts those, and all of their useful labels
        are changed.
    max_flips : int, optional
        Give up on test rows that need more.

    Returns
    -------
    AttackResult
        Ctrl-C ends the attack after the 128 test rows that are under way, a second one at once: what was found by then
        is returned, and `attempted` is False for the rest.
    """
    check_max_flips(max_flips)
    learner, X = label_linear_part(model, X)
    return in_slices(lambda rows: _worst_flips(learner, rows, adversary, max_flips), learner.predict, X)


def _worst_flips(
    learner: LabelLinearClassifier, X: Any, adversary: Adversary | None, max_flips: int | None
) -> AttackResult:
    certificates = learner.certify(X, "exact", adversary)
    needed = flips_needed(certificates)
    if max_flips is not None:
        needed = np.where(needed > max_flips, NO_ATTACK, needed)
    changes = list(useful_changes(learner, X, certificates, needed))
    return AttackResult(
        flips_needed=needed,
        rows=tuple(one.rows for one in changes),
        new_labels=tuple(learner.classes_[one.labels] for one in changes),
        success=needed != NO_ATTACK,
        prediction=certificates.prediction.copy(),
        unit=certificates.unit,
        attack="worst flips",
    )


def flips_needed(certificates: Certificates) -> Integers:
    """Return the flips that overturn each prediction: one more than the exact radius, -1 if no changes at all do."""
    impossible = certificates.radius >= certificates.n_touchable
    return np.where(impossible, NO_ATTACK, certificates.radius + 1)


def useful_changes(
    learner: LabelLinearClassifier, X: Any, certificates: Certificates, n_units: Integers
) -> Iterator[LabelChanges]:
    """Yield, for each test row, the changes of so many labels (or groups) that help the certificate's rival most."""
    Z, powers, codes = learner._test_features(X), learner._powers(certificates.adversary), learner._codes
    winner, rival = (
        np.searchsorted(certificates.classes, who) for who in (certificates.prediction, certificates.rival)
    )
    at_a_time = max(1, NUMBERS_AT_A_TIME // len(codes))
    for start in range(0, len(Z), at_a_time):
        block = range(start, min(start + at_a_time, len(Z)))
        wanted = [row for row in block if n_units[row] > 0]
        votes = iter(all_votes(learner._votes(Z[wanted])).astype(np.int64) if wanted else ())
        for row in block:
            if n_units[row] > 0:
                yield most_useful_changes(next(votes), codes, winner[row], rival[row], powers, int(n_units[row]))
            else:
                yield NO_CHANGES


def check_max_flips(max_flips: int | None) -> None:
    """Refuse a limit that is none."""
    if max_flips is None:
        return
    if isinstance(max_flips, bool) or not isinstance(max_flips, (int, np.integer)) or max_flips < 0:
        raise ValueError(f"max_flips must be None or an integer of at least 0. Got {max_flips!r} instead.")
