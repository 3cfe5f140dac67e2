"""Priors: classifiers that were fitted on trusted data alone, and vote beside the training labels (M15).

Let p_c(z) be the answer of the prior for a test row z. The deployed rule is then

    argmax_c  sum_j alpha_j(z) [y_j = c] + B_c(z),    B_c(z) = weight * total(z) * p_c(z),

where total(z) is the sum of the absolute votes on z of the rows that the geometry was learned from: the training rows,
or the reference. With a weight of 1 the prior counts as much as all of them together.

Soundness: p depends on trusted rows and labels only, and total on features only, so no changed label can change B: the
offsets are constants of the deployed rule, and all theorems about offsets hold. The exact radius needs nothing else
(M6, M10). For "kl" and "tight" B is a deployed offset: it enters the noisy margin multiplied by the signal (M5), and
the rule does not contain the noise. If rows can be changed, total depends on the reference alone, and so does B (M12).
As rows are added the votes grow and B does not: the prior fades.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from flipproof.core.rounding import Floats, Integers, Values
from flipproof.learners.clones import fresh, own_clone
from flipproof.learners.row_by_row import rows_at
from flipproof.parameters import NONE, Constraints, number, parameter_error, with_methods
from flipproof.runtime.determinism import on_one_core, start_anew, with_seeds
from flipproof.values import as_values, positions

#: Largest weight of a prior; at this weight, votes decide only where the prior has no preference.
LARGEST_WEIGHT = 1e6

#: Largest probability; rounding may exceed 1.
LARGEST_SHARE = 1 + 1e-6

#: Description of a valid prior.
CLASSIFIER = "a classifier, fitted or not"

#: The constraints on the parameters of a prior.
PRIOR_CONSTRAINTS: Constraints = {
    "prior": NONE | with_methods("fit", "predict", described=CLASSIFIER),
    "prior_weight": number(0, LARGEST_WEIGHT, closed="both"),
}


@dataclass(frozen=True)
class RowsWithPrior:
    """Test rows as `test_features` returns them, and what the prior says about each of them.

    Attributes
    ----------
    features : array
        All that the votes on each row depend on.
    shares : floats of shape (m, K)
        What the prior says: a number that is not negative for each class.
    """

    features: Any
    shares: Floats

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, rows: Any) -> RowsWithPrior:
        return RowsWithPrior(self.features[rows], self.shares[rows])


def features_in(Z: object) -> Any:
    """Return the features of test rows, with or without a prior."""
    return Z.features if isinstance(Z, RowsWithPrior) else Z


@dataclass(frozen=True)
class Prior:
    """A fitted prior, for a learner with the classes `classes`.

    Attributes
    ----------
    model : classifier
        Fitted; a copy, so that nobody can change it.
    weight : float
        The weight of its answers, relative to all votes.
    classes : array of shape (K,)
        The classes of the learner.
    owner : str
        The learner that asks, for error messages.
    """

    model: Any
    weight: float
    classes: NDArray[Any]
    owner: str

    def shares(self, X: Any) -> Floats:
        """Return the answer for each row, shape (m, K), as if the row were alone; 0 for classes it does not know."""
        X = X.tocsr() if hasattr(X, "tocsr") else X
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows == 0:
            return np.zeros((0, len(self.classes)))

        def ask() -> Floats:
            if _answers_row_by_row(self.model):
                return self._answers(X, n_rows)
            return np.concatenate([self._answer_alone(rows_at(X, np.array([row]))) for row in range(n_rows)])

        return on_one_core(lambda: with_seeds(ask))

    def offsets(self, totals: Integers, shares: Floats) -> Floats:
        """Return the offsets of the deployed rule in grid units, given the total of all votes on each test row."""
        return self.weight * totals.astype(np.float64)[:, None] * shares

    def _answer_alone(self, row: object) -> Floats:
        start_anew()  # random numbers for a row must not depend on the rows before
        return self._answers(row, 1)

    def _answers(self, X: object, n_rows: int) -> Floats:
        if not hasattr(self.model, "predict_proba"):
            codes = self._codes(np.asarray(self.model.predict(fresh(X))).reshape(-1))
            self._require(codes.shape == (n_rows,), f"{codes.shape[0]} predictions for {n_rows} rows")
            return np.asarray(codes[:, None] == np.arange(len(self.classes)), dtype=np.float64)
        columns = self._codes(np.asarray(self.model.classes_))
        answer = self.model.predict_proba(fresh(X))
        self._require(not isinstance(answer, list), "probabilities of several targets")
        answer = np.asarray(answer, dtype=np.float64)
        self._require(
            answer.shape == (n_rows, len(columns)),
            f"probabilities of shape {answer.shape} for {n_rows} rows and {len(columns)} classes",
        )
        is_valid = bool(((answer >= 0) & (answer <= LARGEST_SHARE)).all())  # not so for NaN
        self._require(is_valid, "numbers that are not probabilities: NaN, negative, or above 1")
        shares = np.zeros((n_rows, len(self.classes)))
        shares[:, columns] = answer
        return shares

    def _codes(self, named: Values) -> Integers:
        """Return the positions of classes that the prior names; refuse classes that the learner does not have."""
        codes, is_known = positions(self.classes, as_values(named, "The classes of the prior"))
        if not is_known.all():
            strange = named[~is_known][:1].tolist()[0]
            self._require(False, f"the class {strange!r}, which is not in {self.classes.tolist()}")
        return np.asarray(codes)

    def _require(self, holds: bool, found: str) -> None:
        if not holds:
            wanted = f"a classifier that returns finite probabilities for the classes of {self.owner}"
            raise parameter_error(self.owner, "prior", wanted, self.model, f"it returned {found}.")


def is_fitted(model: object) -> bool:
    """Tell whether a classifier can predict already."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    except TypeError:  # not from scikit-learn
        return any(name.endswith("_") and not name.startswith("_") for name in vars(model))
    return True


def reads_no_labels(prior: object) -> bool:
    """Tell whether a prior says of itself that its fit ignores labels: it needs none, as `WeakSupervision` does."""
    return getattr(prior, "ignores_labels", False) is True


def fit_prior(owner: str, prior: object, X: object, labels: Values | None) -> Any:
    """Fit a clone of the prior to trusted rows and labels, if it reads any, with the same random numbers each time."""
    from sklearn.dummy import DummyClassifier  # slow to import, and rarely needed

    def fit() -> Any:
        if labels is None:
            return own_clone(prior).fit(fresh(X))
        if len(np.unique(labels)) == 1:  # many classifiers refuse a single class, and there is nothing to learn
            return DummyClassifier(strategy="prior").fit(np.zeros((len(labels), 1)), labels)
        model = own_clone(prior)
        model.fit(fresh(X), labels.copy())
        return model

    try:
        return on_one_core(lambda: with_seeds(fit))
    except (TypeError, ValueError) as error:
        trusted = "the rows, without labels" if labels is None else "the trusted rows and their labels"
        wanted = f"a classifier that can be fitted to {trusted}"
        raise parameter_error(owner, "prior", wanted, prior, f"{error}") from error


def as_given(prior: object) -> Any:
    """Return a copy of a fitted prior: later changes to the original must not change any prediction."""
    return deepcopy(prior)


def _answers_row_by_row(model: Any) -> bool:
    """Tell whether a batch of rows gets the same answers, bit by bit, as each row alone.

    Soundness: the probabilities of these classifiers are sums and quotients for each row separately, in a fixed order.
    Exact types only, since a subclass may answer in a different way.
    """
    from sklearn.dummy import DummyClassifier  # slow to import, and rarely needed
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    from flipproof.learners.base_learners import ELEMENTWISE_STEPS

    if type(model) is FrozenEstimator:
        return _answers_row_by_row(model.estimator)
    if type(model) is Pipeline:
        return all(type(step) in ELEMENTWISE_STEPS for step in model[:-1]) and _answers_row_by_row(model[-1])
    if type(model) is DummyClassifier:
        return str(model.strategy) == "prior"
    return type(model) in (DecisionTreeClassifier, ExtraTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)
