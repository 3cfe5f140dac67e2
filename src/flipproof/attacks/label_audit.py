"""The labels to check first: those that are part of the most attacks on the most fragile predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils import _safe_indexing

from flipproof.adversary import Adversary
from flipproof.attacks.result import NO_ATTACK, AttackResult
from flipproof.attacks.worst import (
    check_certificates,
    flips_needed,
    label_linear_part,
    owners_of,
    refuse_rows,
    useful_changes,
)
from flipproof.certificates import Certificates
from flipproof.core.rounding import Floats, Integers
from flipproof.parameters import check_parameter, integer

#: Number of most fragile predictions that are attacked, and whose attacks rank the labels to audit.
MOST_ATTACKED = 1000


@dataclass(frozen=True, repr=False, eq=False)
class LabelAudit:
    """Training rows whose labels the smallest attacks change, those that most of them change first.

    Attributes
    ----------
    rows : integers of shape (top,)
        Training rows.
    n_attacks : integers of shape (top,)
        Number of attacks that change this row's label, of those counted: the smallest attack on each attacked
        prediction. Rows are ranked by it.
    weight : floats of shape (top,)
        Contribution of this label to these attacks; 1.0 is the weight of one whole attack. It decides between rows of
        the same `n_attacks`.
    per_prediction : tuple of m integer arrays
        For each test row, the training rows that matter most to its prediction, at most `top`; empty where no attack
        exists or the prediction was not attacked.
    n_attacked : int
        Number of predictions that were attacked: the most fragile ones.

    See Also
    --------
    flipproof.attacks.labels_to_audit : Rank training labels.

    Examples
    --------
    >>> from flipproof.attacks import labels_to_audit
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> found = labels_to_audit(model, X[400:], top=3)
    >>> found.rows.tolist(), found.n_attacks.tolist()
    ([376, 192, 46], [118, 115, 113])
    """

    rows: Integers
    n_attacks: Integers
    weight: Floats
    per_prediction: tuple[Integers, ...]
    n_attacked: int

    def __post_init__(self) -> None:
        for value in (self.rows, self.n_attacks, self.weight, *self.per_prediction):
            value.setflags(write=False)

    def __repr__(self) -> str:
        if not len(self.rows):
            return f"<LabelAudit: no label could help to overturn any of {self.n_attacked} predictions>"
        return (
            f"<LabelAudit: {len(self.rows)} rows; row {self.rows[0]} is part of {self.n_attacks[0]} attacks on "
            f"{self.n_attacked} predictions>"
        )


def labels_to_audit(
    model: object,
    X_test: object,
    adversary: Adversary | None = None,
    top: int = 100,
    *,
    certificates: Certificates | None = None,
) -> LabelAudit:
    """Rank training rows by the number of attacks that they are part of.

    The 1,000 most fragile predictions are attacked, each with the fewest label changes. `flipproof attack`, reports and
    :func:`flipproof.audit` show the same list. Trusting these labels takes them from attackers, who then use others: it
    often buys no more than trusting random labels. :func:`plan_audit` says what checking them buys.

    Parameters
    ----------
    model : learner, or Pipeline that ends in one
        Label-linear and fitted.
    X_test : array or data frame of shape (m, k)
        Test rows that matter.
    adversary : Adversary, optional
        Which labels can be changed, and to what: trusted labels need no audit.
    top : int, default=100
        How many training rows to list, overall and for each prediction.
    certificates : Certificates, optional
        As for :func:`worst_flips`.

    Returns
    -------
    LabelAudit
        Rows that are part of no attack are not listed, so there may be fewer than `top`.

    See Also
    --------
    flipproof.attacks.plan_audit : Simulate what checking labels buys.
    flipproof.attacks.annotators_to_check : Rank annotators.
    flipproof.attacks.worst_flips : Smallest attack by labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.attacks import labels_to_audit
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier().fit(X[:400], y[:400])
    >>> len(labels_to_audit(model, X[400:], top=5).rows)
    5
    """
    check_parameter("labels_to_audit", "top", top, integer(1))
    refuse_rows("labels_to_audit", adversary, certificates)
    return attack_most_fragile(model, X_test, adversary, top, certificates=certificates)[1]


def attack_most_fragile(
    model: object,
    X_test: object,
    adversary: Adversary | None = None,
    top: int = 100,
    *,
    certificates: Certificates | None = None,
) -> tuple[AttackResult, LabelAudit]:
    """Attack the most fragile predictions, each with the fewest label changes, and rank the labels by these attacks.

    Parameters
    ----------
    model, X_test, adversary, top, certificates
        As for :func:`labels_to_audit`.

    Returns
    -------
    attacks : AttackResult
        As of :func:`worst_flips`; `attempted` is False for the predictions that are not among the most fragile.
    audit : LabelAudit
        The labels to check first.
    """
    learner, X_test = label_linear_part(model, X_test)
    if certificates is None:
        certificates = learner.certify(X_test, "exact", adversary)
    else:
        check_certificates(certificates, learner, X_test, adversary)
    m, n_train = len(certificates), len(learner.label_codes_)
    chosen = np.lexsort((certificates.margin, certificates.radius))[:MOST_ATTACKED]
    needed, attempted = np.full(m, NO_ATTACK), np.zeros(m, dtype=bool)
    needed[chosen], attempted[chosen] = flips_needed(certificates)[chosen], True
    n_attacks, weight = np.zeros(n_train, dtype=np.int64), np.zeros(n_train)
    nothing, no_labels = np.zeros(0, dtype=np.int64), learner.classes_[:0]
    rows, new_labels, per_prediction = [nothing] * m, [no_labels] * m, [nothing] * m
    attacked, known = _safe_indexing(X_test, chosen), certificates[chosen]
    for row, changes in zip(chosen, useful_changes(learner, attacked, known, needed[chosen]), strict=True):
        rows[row], new_labels[row] = changes.rows, learner.classes_[changes.labels]
        n_attacks[changes.rows] += 1
        # the changes overcome the margin together: each gain is a share of the total
        weight[changes.rows] += changes.gains / max(int(changes.gains.sum()), 1)
        per_prediction[row] = changes.rows[np.argsort(-changes.gains, kind="stable")[:top]]
    found = AttackResult(
        flips_needed=needed,
        rows=tuple(rows),
        new_labels=tuple(new_labels),
        success=needed != NO_ATTACK,
        prediction=certificates.prediction.copy(),
        unit=certificates.unit,
        attack="worst flips",
        attempted=attempted,
        annotators=owners_of(certificates, rows),
    )
    order = np.lexsort((np.arange(n_train), -weight, -n_attacks))[:top]
    order = order[n_attacks[order] > 0]
    return found, LabelAudit(order, n_attacks[order], weight[order], tuple(per_prediction), len(chosen))
