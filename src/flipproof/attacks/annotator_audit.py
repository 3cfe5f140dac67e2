"""The annotators to check first: those who take part in the most attacks on the most fragile predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.attacks.label_audit import attack_most_fragile
from flipproof.attacks.result import AttackResult
from flipproof.attacks.worst import refuse_rows
from flipproof.certificates import Certificates
from flipproof.core.rounding import Integers, Values
from flipproof.parameters import check_parameter, integer
from flipproof.values import distinct


@dataclass(frozen=True, repr=False, eq=False)
class AnnotatorAudit:
    """Annotators who are worth a check, the most dangerous first.

    Attributes
    ----------
    names : array of shape (top,)
        The annotators.
    n_attacks : integers of shape (top,)
        Number of attacks that they take part in, of those counted: the fewest annotators who overturn each attacked
        prediction. Annotators are ranked by it.
    n_alone : integers of shape (top,)
        Number of attacked predictions that they can overturn alone, as the worst annotator for this prediction.
    n_labels : integers of shape (top,)
        Number of labels that they gave.
    n_attacked : int
        Number of predictions that were attacked: the most fragile ones.
    n_annotators : int
        Number of all annotators.

    See Also
    --------
    flipproof.attacks.annotators_to_check : Rank annotators.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof import Adversary
    >>> from flipproof.attacks import annotators_to_check
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> found = annotators_to_check(model, X[400:], Adversary(groups=np.arange(400) % 40), top=3)
    >>> found.names.tolist()
    [27, 28, 31]
    """

    names: NDArray[Any]
    n_attacks: Integers
    n_alone: Integers
    n_labels: Integers
    n_attacked: int
    n_annotators: int

    def __post_init__(self) -> None:
        for value in (self.names, self.n_attacks, self.n_alone, self.n_labels):
            value.setflags(write=False)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        if not len(self):
            return f"<AnnotatorAudit: no annotators could overturn any of {self.n_attacked} predictions>"
        return (
            f"<AnnotatorAudit: {len(self)} of {self.n_annotators} annotators; {self.names[0]} takes part in "
            f"{self.n_attacks[0]} attacks on {self.n_attacked} predictions>"
        )


def annotators_to_check(
    model: object,
    X_test: object,
    adversary: Adversary | None = None,
    top: int = 100,
    *,
    certificates: Certificates | None = None,
) -> AnnotatorAudit:
    """Rank annotators by the number of attacks that they take part in.

    The 1,000 most fragile predictions are attacked, each by the fewest annotators.

    Parameters
    ----------
    model : learner, or Pipeline that ends in one
        Label-linear and fitted.
    X_test : array or data frame of shape (m, k)
        Test rows that matter.
    adversary : Adversary
        With ``groups=...``: the annotator of each label.
    top : int, default=100
        How many annotators to list.
    certificates : Certificates, optional
        As for :func:`worst_flips`; by default the adversary is that of the certificates.

    Returns
    -------
    AnnotatorAudit
        Annotators who take part in no attack are not listed, so there may be fewer than `top`.

    See Also
    --------
    flipproof.attacks.labels_to_audit : Rank training labels.
    flipproof.attacks.AnnotatorAudit : Ranked annotators.
    flipproof.Annotations : Several labels per item.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from flipproof import Adversary, CertifiedRidgeClassifier
    >>> from flipproof.attacks import annotators_to_check
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier().fit(X[:400], y[:400])
    >>> annotators_to_check(model, X[400:], Adversary(groups=np.arange(400) % 40), top=3)
    <AnnotatorAudit: 3 of 40 annotators; 27 takes part in 139 attacks on 169 predictions>
    """
    check_parameter("annotators_to_check", "top", top, integer(1))
    refuse_rows("annotators_to_check", adversary, certificates)
    given = certificates.adversary if adversary is None and certificates is not None else adversary
    if given is None or given.groups is None:
        raise ValueError("annotators_to_check needs the annotator of each label: give Adversary(groups=...).")
    attacks, _ = attack_most_fragile(model, X_test, adversary, certificates=certificates)
    return rank_annotators(attacks, given.groups, top)


def rank_annotators(attacks: AttackResult, groups: Values, top: int = 100) -> AnnotatorAudit:
    """Rank annotators by attacks in which annotators are counted; `groups` are those of all labels."""
    names, of_label = distinct(groups)
    n_attacks, n_alone = np.zeros(len(names), dtype=np.int64), np.zeros(len(names), dtype=np.int64)
    for row in np.flatnonzero(attacks.success):
        people = np.unique(of_label[attacks.rows[row]])
        n_attacks[people] += 1
        n_alone[people] += len(people) == 1
    order = np.lexsort((np.arange(len(names)), -n_alone, -n_attacks))[:top]
    order = order[n_attacks[order] > 0]
    n_labels = np.bincount(of_label, minlength=len(names))[order]
    n_attacked = int(np.count_nonzero(attacks.attempted))
    return AnnotatorAudit(names[order], n_attacks[order], n_alone[order], n_labels, n_attacked, len(names))
