"""Trusted labels in a fit, and the baseline: what a model predicts that was fitted to trusted rows and labels alone.

No change of other labels or rows changes the predictions of the baseline, so their accuracy holds at any number of
changes (M15).

Trusted labels always protect votes, through the adversary. They enter the fit only where something reads them: a prior
that is not fitted yet, trees that are grown with labels, or a features step that cannot be fitted without labels.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing as rows_of

from flipproof.learners.pipeline import learner_and_features, learner_in
from flipproof.learners.prior import is_fitted
from flipproof.values import label_values


@dataclass(frozen=True, eq=False)
class TrustedOnlyPredictions:
    """Predictions that depend on trusted labels only.

    Attributes
    ----------
    kind : {"learner", "prior"}
        What made them: a learner of the same kind, fitted to the trusted labels alone, or the prior of the model.
    class_name : str
        The class of that learner, or of the prior.
    predictions : array of shape (m,)
        The predicted classes of the test rows.
    """

    kind: Literal["learner", "prior"]
    class_name: str
    predictions: NDArray[Any]

    def __str__(self) -> str:
        if self.kind == "prior":
            return f"the prior ({self.class_name}) alone"
        return f"{self.class_name} fitted to the trusted labels alone"


def fitted_to_trusted(model: object, X: object, y: object, trusted: NDArray[np.bool_]) -> Any:
    """Return a clone of a fitted learner, without its prior, that is fitted to the trusted rows and labels alone.

    Raises
    ------
    ValueError
        If it cannot be fitted to so few rows.
    """
    learner, numbers = learner_in(model), np.flatnonzero(trusted)
    own = clone(learner).set_params(classes=learner.classes_)
    if "prior" in own.get_params(deep=False):
        own.set_params(prior=None)
    everything = {}
    if "trusted" in inspect.signature(own.fit).parameters:
        everything["trusted"] = np.ones(len(numbers), dtype=bool)
    return own.fit(rows_of(X, numbers), np.asarray(label_values(y))[numbers], **everything)


def trusted_only_predictions(
    model: object, X: object, y: object, trusted: NDArray[np.bool_], X_test: object
) -> tuple[TrustedOnlyPredictions, ...]:
    """Return the predictions that depend on trusted labels only: of the same kind of learner, and of the prior.

    Parameters
    ----------
    model : learner
        Fitted to the training rows.
    X, y : array of shape (n, k), and (n,)
        The training rows and labels.
    trusted : booleans of shape (n,)
        Which labels are trusted.
    X_test : array of shape (m, k)
        Test rows.

    Returns
    -------
    tuple of TrustedOnlyPredictions
        A learner that cannot be fitted to so few rows is left out.
    """
    learner, rows = learner_and_features(model, X_test)
    found = []
    if np.any(trusted):
        try:
            alone = fitted_to_trusted(learner, X if model is learner else learner_and_features(model, X)[1], y, trusted)
            found.append(TrustedOnlyPredictions("learner", type(learner).__name__, alone.predict(rows)))
        except ValueError:  # for instance fewer rows than neighbours or partitions
            pass
    prior = getattr(learner, "weighted_prior_", None)
    if prior is not None:
        predicted = prior.classes[prior.shares(rows).argmax(axis=1)]
        found.append(TrustedOnlyPredictions("prior", type(learner.prior_).__name__, predicted))
    return tuple(found)


def reads_trusted_labels(model: object) -> bool:
    """Tell whether a fit of this learner will read trusted labels: for its prior, or to grow trees."""
    learner = learner_in(model)
    prior = getattr(learner, "prior", None)
    return (prior is not None and not is_fitted(prior)) or getattr(learner, "grow", None) == "supervised"


def fit_with_trusted(model: Any, X: Any, y: Any, trusted: NDArray[np.bool_] | None, **reference: Any) -> None:
    """Fit a learner, or a Pipeline that ends in one; it gets the trusted labels if it needs them, else as votes only.

    A features step that cannot be fitted without labels is known only when it fails.
    """
    with_mask = reference if trusted is None else {**reference, _name_in_fit(model, "trusted"): trusted}
    if trusted is None or reads_trusted_labels(model):
        model.fit(X, y, **with_mask)
        return
    try:
        model.fit(X, y, **reference)
    except ValueError:
        if getattr(learner_in(model), "features", None) is None:
            raise
        model.fit(X, y, **with_mask)


def _name_in_fit(model: object, argument: str) -> str:
    """Return the name of an argument of the learner in `fit` of a model."""
    if not isinstance(model, Pipeline):
        return argument
    step = model.steps[-1][0]
    return f"{step}__{argument}"
