"""Which labels to look at: training rows by how many predictions they could help to break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flipproof.attacks.target import label_linear_part
from flipproof.attacks.worst import flips_needed, useful_changes
from flipproof.certificates import Adversary
from flipproof.rounding import Floats, Integers


@dataclass(frozen=True, repr=False, eq=False)
class LabelAudit:
    """Training rows whose labels are worth a look, the most dangerous first.

    Attributes
    ----------
    rows : integers of shape (top,)
        Training rows.
    n_predictions : integers of shape (top,)
        In how many of the smallest attacks on a test row this row's label is changed.
    share : floats of shape (top,)
        What changing this label does to the margins of those predictions: 1.0 breaks one of them on its own.
    per_prediction : tuple of m integer arrays
        For each test row, the training rows that matter most to its prediction, at most `top`; empty where no attack
        exists.
    n_test : int
        Number of test rows.
    """

    rows: Integers
    n_predictions: Integers
    share: Floats
    per_prediction: tuple[Integers, ...]
    n_test: int

    def __post_init__(self) -> None:
        for value in (self.rows, self.n_predictions, self.share, *self.per_prediction):
            value.setflags(write=False)

    def __repr__(self) -> str:
        if not len(self.rows):
            return f"<LabelAudit: no label could help to break any of {self.n_test} predictions>"
        return (
            f"<LabelAudit: {len(self.rows)} rows; row {self.rows[0]} could help to break {self.n_predictions[0]} of "
            f"{self.n_test} predictions>"
        )


def labels_to_audit(model: Any, X: Any, adversary: Adversary | None = None, top: int = 100) -> LabelAudit:
    """Rank training rows by how many predictions they could help to break.

    Parameters
    ----------
    model : learner, or Pipeline that ends in one
        Label-linear and fitted.
    X : array or data frame of shape (m, k)
        Test rows that matter.
    adversary : Adversary, optional
        What can be done to the labels: trusted ones need no audit.
    top : int, default=100
        How many training rows to name, over all and for each prediction.

    Returns
    -------
    LabelAudit
        Rows that are part of no smallest attack are not named, even if there are fewer than `top`.
    """
    if isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1:
        raise ValueError(f"top must be an integer of at least 1. Got {top!r} instead.")
    learner, X = label_linear_part(model, X)
    certificates = learner.certify(X, "exact", adversary)
    n_train = len(learner._codes)
    n_predictions, share = np.zeros(n_train, dtype=np.int64), np.zeros(n_train)
    per_prediction = []
    for changes in useful_changes(learner, X, certificates, flips_needed(certificates)):
        n_predictions[changes.rows] += 1
        # the changes reach the margin together: their gains are shares of what they take off it
        share[changes.rows] += changes.gains / max(int(changes.gains.sum()), 1)
        per_prediction.append(changes.rows[np.argsort(-changes.gains, kind="stable")[:top]])
    order = np.lexsort((np.arange(n_train), -share, -n_predictions))[:top]
    order = order[n_predictions[order] > 0]
    return LabelAudit(order, n_predictions[order], share[order], tuple(per_prediction), len(certificates))
