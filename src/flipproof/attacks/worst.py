"""The exact attack on a label-linear learner: the smallest set of labels that overturns a prediction.

Test rows are attacked a slice at a time, so that an interrupt loses only the current slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from flipproof.adversary import Adversary, refuse_row_changes
from flipproof.attacks.result import NO_ATTACK, AttackResult, RowAttackResult
from flipproof.certificates import Certificates
from flipproof.core.exact import LabelChanges, most_useful_changes
from flipproof.core.histograms import NUMBERS_AT_A_TIME
from flipproof.core.provider import VoteProvider, check_rows_in_memory, provides_votes
from flipproof.core.rounding import Integers, Values
from flipproof.core.votes import all_votes
from flipproof.learners.pipeline import learner_in
from flipproof.parameters import NONE, check_parameter, integer
from flipproof.runtime.progress import StopSign, set_by_interrupt


class AttackedLearner(VoteProvider, Protocol):
    """A learner that certifies its predictions and provides the votes behind them."""

    def predict(self, X: object) -> NDArray[Any]:
        """Return the predicted classes."""
        ...

    def certify(self, X: object, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction."""
        ...


def label_linear_part(model: Any, X: Any) -> tuple[AttackedLearner, Any]:
    """Return the label-linear learner inside a model, and the test rows as input for that learner."""
    learner = learner_in(model)
    check_rows_in_memory(learner, "This attack")
    if not provides_votes(learner):
        raise ValueError(
            "This attack needs a label-linear learner of flipproof, or a Pipeline or search around one. "
            f"Got {type(model).__name__} instead: undefended classifiers are attacked by undefended_attack (logistic "
            "regression) and AnyClassifierAttack."
        )
    while model is not learner:
        if isinstance(model, Pipeline):
            X = model[:-1].transform(X) if len(model) > 1 else X
            model = model[-1]
        else:
            model = model.best_estimator_
    return learner, X


#: Number of test rows between two checks for an interrupt.
ROWS_AT_A_TIME = 128

Result = TypeVar("Result", bound=AttackResult | RowAttackResult)


def in_slices(attack: Callable[[Any, slice], Result], predict: Callable[[Any], Values], X: Any) -> Result:
    """Attack all test rows; after Ctrl-C return what was found by then, with `attempted` False for the rest.

    `attack` receives a slice of the test rows, and the slice itself. The current slice is finished first. A second
    Ctrl-C does not wait for it; if no slice was finished by then, it is raised.
    """
    m = (getattr(X, "shape", None) or np.shape(X) or (0,))[0]
    found: list[Result] = []
    stopped = StopSign()
    try:
        with set_by_interrupt(stopped):
            if m <= ROWS_AT_A_TIME:
                return attack(X, slice(0, m))
            for start in range(0, m, ROWS_AT_A_TIME):
                rows = slice(start, min(start + ROWS_AT_A_TIME, m))
                found.append(attack(_safe_indexing(X, rows), rows))
                if stopped.is_set():
                    break
    except KeyboardInterrupt:
        if not found:
            raise
    n_found = sum(len(part) for part in found)
    if n_found < m:
        with set_by_interrupt(StopSign()):  # an extra Ctrl-C must not lose what was found
            prediction = predict(_safe_indexing(X, slice(n_found, m)))
        found.append(_not_attempted(found[0], prediction))
    return _joined(found)


def _not_attempted(other: Result, prediction: Values) -> Result:
    """Return the result of an attack that was not attempted, of the same type as another result."""
    m, values = len(prediction), {}
    for field in fields(other):
        value = getattr(other, field.name)
        if isinstance(value, tuple):
            value = tuple(_safe_indexing(value[0], slice(0, 0)) for _ in range(m))
        elif isinstance(value, np.ndarray):
            value = np.zeros(m, dtype=bool) if value.dtype == bool else np.full(m, NO_ATTACK)
        values[field.name] = value
    return type(other)(**{**values, "prediction": prediction})


def _joined(parts: list[Result]) -> Result:
    """Join results of the same attack on different test rows."""
    values: dict[str, Any] = {}
    for field in fields(parts[0]):
        of_parts = [getattr(part, field.name) for part in parts]
        if isinstance(of_parts[0], np.ndarray):
            values[field.name] = np.concatenate(of_parts)
        elif isinstance(of_parts[0], tuple):
            values[field.name] = sum(of_parts, ())
        else:
            values[field.name] = of_parts[0]
    return type(parts[0])(**values)


NO_CHANGES = LabelChanges(*(np.zeros(0, dtype=np.int64) for _ in range(5)))


def worst_flips(
    model: object,
    X_test: object,
    adversary: Adversary | None = None,
    max_flips: int | None = None,
    *,
    certificates: Certificates | None = None,
) -> AttackResult:
    """Find the smallest set of label changes that overturns each prediction, in the order an attacker would use.

    The rival class that needs the fewest flips takes the labels with the largest gains first (M6, M10). No smaller set
    exists: ``flips_needed`` is the exact radius plus one, and a refit on the changed labels predicts another class.

    Parameters
    ----------
    model : learner, or Pipeline that ends in one
        Label-linear and fitted.
    X_test : array or data frame of shape (m, k)
        Test rows.
    adversary : Adversary, optional
        Which labels can be changed, and to what. With annotators, `flips_needed` counts annotators, and all of their
        useful labels are changed.
    max_flips : int, optional
        Give up on test rows that need more.
    certificates : Certificates, optional
        Certificates of the same model, test rows and adversary by the method "exact", if available, so that the rows
        are not certified again. By default the adversary is that of the certificates.

    Returns
    -------
    AttackResult
        Ctrl-C ends the attack after the current 128 test rows, a second Ctrl-C at once. The attacks found so far are
        returned, and `attempted` is False for the other rows.

    See Also
    --------
    flipproof.attacks.labels_to_audit : Rank training labels.
    flipproof.attacks.worst_rows : Smallest attack by rows.
    flipproof.explain : Explain one certificate.

    Examples
    --------
    >>> from flipproof.attacks import worst_flips
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> attack = worst_flips(model, X[400:])
    >>> bool((attack.flips_needed == model.certify(X[400:]).radius + 1).all())
    True
    """
    check_parameter("worst_flips", "max_flips", max_flips, MAX_FLIPS)
    refuse_rows("worst_flips", adversary, certificates)
    learner, X_test = label_linear_part(model, X_test)
    if certificates is not None:
        check_certificates(certificates, learner, X_test, adversary)

    def attack(X: object, rows: slice) -> AttackResult:
        known = learner.certify(X, "exact", adversary) if certificates is None else certificates[rows]
        return _worst_flips(learner, X, known, max_flips)

    return in_slices(attack, learner.predict, X_test)


def refuse_rows(attack: str, adversary: Adversary | None, certificates: Certificates | None = None) -> None:
    """Refuse an adversary who changes rows, given to an attack or as that of its certificates."""
    if adversary is None and certificates is not None:
        adversary = certificates.adversary
    refuse_row_changes(adversary, attack, "use worst_rows, or Adversary(changes='labels').")


def check_certificates(
    certificates: Certificates, learner: AttackedLearner, X: object, adversary: Adversary | None
) -> None:
    """Refuse certificates that are not those of a learner's test rows against an adversary.

    Soundness: predictions tell most mistakes, but not all. An attack by certificates of another fit may need more
    changes than it says; no certificate depends on an attack.
    """
    if certificates.method != "exact":
        raise ValueError(
            f"The 'certificates' of an attack must be of the method 'exact'. Got {certificates.method!r} instead."
        )
    if adversary is not None and adversary is not certificates.adversary:
        raise ValueError(
            "The 'certificates' of an attack must be against its adversary. Got those against "
            f"{certificates.adversary!r} instead."
        )
    if not np.array_equal(certificates.classes, learner.classes_) or not np.array_equal(
        certificates.prediction, learner.predict(X)
    ):
        raise ValueError(
            "The 'certificates' of an attack must be of the same model and test rows. Got those of other predictions "
            "instead."
        )


def _worst_flips(
    learner: AttackedLearner, X: object, certificates: Certificates, max_flips: int | None
) -> AttackResult:
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
        annotators=owners_of(certificates, [one.rows for one in changes]),
    )


def owners_of(certificates: Certificates, rows: Sequence[Integers]) -> tuple[Values, ...] | None:
    """Return the annotators or sources of the changed rows of each attack; None if they are not counted."""
    if certificates.unit not in ("annotators", "sources") or certificates.adversary is None:
        return None
    groups = certificates.adversary.groups
    return tuple(groups[one] for one in rows)


def flips_needed(certificates: Certificates) -> Integers:
    """Return the flips that overturn each prediction: one more than the exact radius, -1 if no attack does."""
    if certificates.radius_limit is not None:
        raise ValueError(
            f"These radii were computed only up to {certificates.radius_limit}, but the smallest attack follows from "
            "exact radii: certify without at_least=..."
        )
    impossible = certificates.radius >= certificates.n_touchable
    return np.where(impossible, NO_ATTACK, certificates.radius + 1)


def useful_changes(
    learner: AttackedLearner, X: object, certificates: Certificates, n_units: Integers
) -> Iterator[LabelChanges]:
    """Yield, for each test row, the changes of `n_units` labels (or groups) that help the rival class most."""
    Z, powers, codes = learner.test_rows(X), learner.powers(certificates.adversary), learner.label_codes_
    winner, rival = (
        np.searchsorted(certificates.classes, who) for who in (certificates.prediction, certificates.rival)
    )
    at_a_time = max(1, NUMBERS_AT_A_TIME // len(codes))
    for start in range(0, len(Z), at_a_time):
        block = range(start, min(start + at_a_time, len(Z)))
        wanted = [row for row in block if n_units[row] > 0]
        votes = iter(all_votes(learner.votes_on(Z[wanted])).astype(np.int64) if wanted else ())
        for row in block:
            if n_units[row] > 0:
                yield most_useful_changes(next(votes), codes, winner[row], rival[row], powers, int(n_units[row]))
            else:
                yield NO_CHANGES


#: Constraint on `max_flips`.
MAX_FLIPS = NONE | integer(0)
