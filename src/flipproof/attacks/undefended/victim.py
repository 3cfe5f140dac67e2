"""The undefended classifier under attack: its labels, its predictions, and the predictions of its refits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from flipproof.adversary import Adversary, powers_of, refuse_row_changes, refuse_windows
from flipproof.attacks.result import NO_ATTACK, AttackResult
from flipproof.core.powers import Powers
from flipproof.core.rounding import Integers
from flipproof.learners.clones import loose_random_states, own_clone, parts_of
from flipproof.runtime.determinism import with_seeds
from flipproof.values import label_values

#: Solvers of LogisticRegression that use its random state.
RANDOM_SOLVERS = ("liblinear", "sag", "saga")

#: Share of test rows where a refit to the same labels may predict another class because of rounding.
REFIT_MAY_DIFFER = 0.01


@dataclass(frozen=True)
class Flips:
    """Label changes in the order of the attack: training rows and the codes of their new labels."""

    rows: Integers
    labels: Integers

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, count: int) -> Flips:
        """Return the first `count` changes."""
        return Flips(self.rows[:count], self.labels[:count])

    def then(self, later: Flips) -> Flips:
        """Return these changes followed by others."""
        return Flips(np.concatenate([self.rows, later.rows]), np.concatenate([self.labels, later.labels]))

    def backwards(self) -> Flips:
        """Return the changes in reverse order."""
        return Flips(self.rows[::-1], self.labels[::-1])

    def applied_to(self, codes: Integers) -> Integers:
        """Return labels after the changes."""
        changed = codes.copy()
        changed[self.rows] = self.labels
        return changed


NO_FLIPS = Flips(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class Outcome:
    """The outcome of the attack on one test row; `flips` is None if no attack was found."""

    flips: Flips | None
    attempted: bool


@dataclass(frozen=True)
class Victim:
    """A fitted classifier, its training data, and the test rows under attack.

    Attributes
    ----------
    model : classifier
        Fitted.
    X, X_test : array, sparse matrix, data frame or list
        Training and test rows, as the model accepts them.
    codes : integers of shape (n,)
        Training labels.
    classes : array of shape (K,)
        The classes, in the order of their codes.
    powers : Powers
        Which labels the adversary can change, and to what.
    prediction : integers of shape (m,)
        Codes of the model's predictions.
    """

    model: Any
    X: Any
    X_test: Any
    codes: Integers
    classes: NDArray[Any]
    powers: Powers
    prediction: Integers

    @property
    def is_untouchable(self) -> bool:
        """Whether no label can be changed."""
        return not self.powers.changeable.any()

    def predictions_after(self, flips: Flips, row: int | None = None) -> Integers | None:
        """Refit on the changed labels; return the predictions of all test rows, or of one; None if the fit fails.

        A classifier cannot be fitted to some labels, for example to labels of a single class.
        """
        labels = self.classes[flips.applied_to(self.codes)]
        rows = self.X_test if row is None else _safe_indexing(self.X_test, [row])

        def refit() -> Any:
            model = own_clone(self.model)
            model.fit(self.X, labels)
            return model

        try:
            refitted = with_seeds(refit)
        except ValueError:
            if len(flips) == 0:  # the attack did not cause it
                raise
            return None
        predicted = with_seeds(lambda: refitted.predict(rows))
        return np.asarray(np.searchsorted(self.classes, predicted), dtype=np.int64)

    def overturned_by_a_refit(self) -> NDArray[np.bool_]:
        """Return which predictions change when the model is refitted to the same labels: none, except by rounding.

        Raises
        ------
        ValueError
            If many predictions change and the model draws no random numbers: it was not fitted to these rows and
            labels.
        """
        again = self.predictions_after(NO_FLIPS)
        assert again is not None
        differs: NDArray[np.bool_] = again != self.prediction
        is_too_often = np.count_nonzero(differs) > REFIT_MAY_DIFFER * len(differs)
        if is_too_often and not _draws_random_numbers(self.model):
            raise ValueError(
                f"model must have been fitted on X and y, without sample weights: a refit predicts another class for "
                f"{np.count_nonzero(differs)} of the {len(differs)} test rows."
            )
        return differs

    def result(self, outcomes: list[Outcome], attack: str, n_refits: int) -> AttackResult:
        """Return the result of the attack on all test rows."""
        found = [outcome.flips or NO_FLIPS for outcome in outcomes]
        success = np.array([outcome.flips is not None for outcome in outcomes], dtype=bool)
        return AttackResult(
            flips_needed=np.where(success, [len(flips) for flips in found], NO_ATTACK).astype(np.int64),
            rows=tuple(flips.rows.copy() for flips in found),
            new_labels=tuple(self.classes[flips.labels] for flips in found),
            success=success,
            prediction=self.classes[self.prediction],
            unit="labels",
            attack=attack,
            n_refits=n_refits,
            attempted=np.array([outcome.attempted for outcome in outcomes], dtype=bool),
        )


def victim_of(model: Any, X: Any, y: object, X_test: Any, adversary: Adversary | None) -> Victim:
    """Check that the model is a classifier fitted to these rows and labels."""
    if isinstance(model, type) or not (is_classifier(model) and hasattr(model, "predict")):
        raise ValueError(f"model must be a fitted scikit-learn classifier. Got {name_of(model)} instead.")
    check_is_fitted(model)
    refuse_windows(adversary, "An attack on an undefended classifier")
    refuse_row_changes(adversary, "An attack on an undefended classifier", "use Adversary(changes='labels').")
    labels = _labels_of(model, y)
    if _num_samples(X) != len(labels):
        raise ValueError(
            f"X and y must each have one entry per training row. Got {_num_samples(X)} and {len(labels)} instead."
        )
    expected, given = getattr(model, "n_features_in_", None), getattr(X, "shape", ())[1:]
    if expected is not None and given and given != (expected,):
        raise ValueError(f"model must have been fitted on X. It expects {expected} features, but X has {given[0]}.")
    codes = np.searchsorted(model.classes_, labels).astype(np.int64)
    powers = powers_of(adversary, codes, model.classes_, np.ones(len(codes), dtype=bool))
    if powers.groups is not None:
        raise ValueError(
            "Attacks on undefended classifiers change single labels, not all labels of an annotator: pass an Adversary "
            "without groups."
        )
    prediction = np.searchsorted(model.classes_, model.predict(X_test)).astype(np.int64)
    return Victim(model, X, X_test, codes, model.classes_, powers, prediction)


def name_of(model: object) -> str:
    """Return the type of a model for an error message; the model may be a class by mistake."""
    return f"the class {model.__name__}, not an instance," if isinstance(model, type) else type(model).__name__


def features_of(model: object, X: object) -> Any:
    """Return the rows as the last step of a Pipeline receives them; unchanged if the model is not a Pipeline."""
    return model[:-1].transform(X) if isinstance(model, Pipeline) and len(model) > 1 else X


@contextmanager
def quiet_refits() -> Iterator[None]:
    """Silence convergence warnings of refits: the fit to the original labels has already given them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _draws_random_numbers(model: object) -> bool:
    """Whether a refit may give a different model: some random state is not a number."""
    for part in parts_of(model):
        owner = part.value
        is_idle = isinstance(owner, LogisticRegression) and owner.solver not in RANDOM_SOLVERS
        if loose_random_states(part) and not is_idle:
            return True
    return False


def _labels_of(model: Any, y: object) -> NDArray[Any]:
    labels = np.asarray(label_values(y))
    if labels.ndim != 1:
        raise ValueError(f"y must be one label per training row. Got an array of shape {labels.shape} instead.")
    known, given = np.asarray(model.classes_).tolist(), np.unique(labels).tolist()
    if known != given:
        raise ValueError(f"model must have been fitted on y. Its classes are {known}, but y contains {given}.")
    return labels
