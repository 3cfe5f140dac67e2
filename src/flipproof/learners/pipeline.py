"""Certify a learner, a scikit-learn Pipeline that ends in one, or a search that chose one."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

from sklearn.pipeline import Pipeline

from flipproof.adversary import Adversary
from flipproof.assumptions import STEP_REMEDIES, Assumption, parameter_values
from flipproof.certificates import Certificates
from flipproof.core.provider import refuse_regressors
from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.clones import assumptions_about, keeps_all, name_of
from flipproof.origins import Origin


def certify(
    model: Any,
    X: Any,
    method: str | None = None,
    adversary: Adversary | None = None,
    at_least: int | None = None,
) -> Certificates:
    """Predict and certify with a fitted learner of flipproof, or with a Pipeline or a search around one.

    Parameters
    ----------
    model : learner, Pipeline or search
        Fitted. The last step of a Pipeline must be a learner. A search, for example GridSearchCV, must have chosen a
        learner or a Pipeline that ends in one.
    X : array or data frame
        Test rows, as the model's `predict` takes them.
    method : {"exact", "tight", "kl"}, optional
        Default: the learner's `method`.
    adversary : Adversary, optional
        What an attacker can do to the labels. Default: change any label to any class.
    at_least : int, optional
        Compute radii only up to this limit, see :attr:`Certificates.radius_limit`. Not for SmoothedClassifier.

    Returns
    -------
    Certificates
        A Pipeline passes the labels to every step, and it is unknown whether a step used them: `assumptions` names the
        steps that must not have used them. A search chooses parameters by the labels: `assumptions` names those too.

    See Also
    --------
    flipproof.Certificates : One certificate per test row.
    flipproof.Adversary : What an attacker can change.
    flipproof.audit : From a table to certificates, attacks and a report.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), flipproof.CertifiedRidgeClassifier(classes=[0, 1]))
    >>> flipproof.certify(pipeline.fit(X[:400], y[:400]), X[400:])
    <Certificates: 169 predictions, method 'exact', median radius 30 of 400 labels>
    """
    learner = learner_in(model)
    refuse_regressors(learner, "flipproof.certify")
    if not isinstance(learner, CertifiedClassifier):
        got = type(model).__name__ if learner is model else f"a {type(model).__name__} of {type(learner).__name__}"
        raise ValueError(
            "model must be a flipproof learner, a scikit-learn Pipeline that ends in one, or a search for one of "
            f"those. Got {got} instead{remedy_for(learner)}."
        )
    if _is_search(model):
        values = {"search": type(model).__name__, "parameters": parameter_values(model.best_params_)}
        chosen = Assumption("chosen-by-search", values)
        return _around(certify(model.best_estimator_, X, method, adversary, at_least), model, X, chosen)
    if not isinstance(model, Pipeline):
        if at_least is None:
            return learner.certify(X, method=method, adversary=adversary)
        if "at_least" not in signature(learner.certify).parameters:
            raise ValueError(f"{type(learner).__name__} computes all radii in full: it has no at_least=...")
        return learner.certify(X, method=method, adversary=adversary, at_least=at_least)  # type: ignore[call-arg]
    steps = [(name, step) for name, step in model.steps[:-1] if step not in (None, "passthrough")]
    if steps and learner.covers_features:
        named = ", ".join(f"{name!r} ({name_of(step)})" for name, step in steps)
        raise ValueError(
            f"Certificates against changed features are impossible after the pipeline's steps {named}, which were "
            f"fitted to the features that may be changed. {STEP_REMEDIES[learner.step_remedy]}"
        )
    if steps and isinstance(adversary, Adversary) and adversary.changes_rows:
        named = ", ".join(f"{name!r} ({name_of(step)})" for name, step in steps)
        raise ValueError(
            f"Certificates against changed rows are impossible after the pipeline's steps {named}, which saw all "
            "training rows. Pass them to the learner as features=... to have them fitted to the reference."
        )
    transformed = model[:-1].transform(X) if len(model) > 1 else X
    certificates = certify(model[-1], transformed, method, adversary, at_least)
    found = [one for name, step in steps for one in assumptions_about(step, f"pipeline's step {name!r}")]
    fitted = tuple((name, name_of(step)) for name, step in steps if not keeps_all(step))
    if fitted:
        found.append(Assumption("pipeline-steps", {"steps": fitted, "remedy": learner.step_remedy}))
    return _around(certificates, model, X, *found)


def remedy_for(learner: object) -> str:
    """Return how to certify a classifier that is not a flipproof learner, as the end of a sentence; else nothing."""
    if isinstance(learner, type) or not (hasattr(learner, "fit") and hasattr(learner, "predict")):
        return ""
    name = type(learner).__name__
    return (
        f": to certify {name}, fit CertifiedPartitionClassifier({name}()), a vote of copies that are each fitted to a "
        f"part of the rows, or SmoothedClassifier({name}()), a vote of copies that are fitted to noisy labels"
    )


def learner_and_features(model: object, X: object) -> tuple[Any, Any]:
    """Return the learner that predicts, and test rows as it gets them: after the steps of a Pipeline."""
    while model is not (inner := _unwrapped(model)):
        X = model[:-1].transform(X) if isinstance(model, Pipeline) and len(model) > 1 else X
        model = inner
    return model, X


def learner_in(model: object) -> Any:
    """Return the learner that predicts: the last step of a Pipeline, the best estimator of a search."""
    while model is not (inner := _unwrapped(model)):
        model = inner
    return model


def _unwrapped(model: object) -> Any:
    """Return the last step of a Pipeline, the best estimator of a search, any other model as it is."""
    if isinstance(model, Pipeline):
        return model[-1]
    if not _is_search(model):
        return model
    if not hasattr(model, "best_estimator_"):
        raise ValueError(f"{type(model).__name__} has no best_estimator_ to certify: fit it first, with refit=True.")
    return model.best_estimator_


def _is_search(model: object) -> bool:
    """Tell whether this is a search: an object with a best estimator, or a search of scikit-learn, fitted or not."""
    if isinstance(model, CertifiedClassifier):
        return False
    if hasattr(model, "best_estimator_") and hasattr(model, "best_params_"):
        return True
    from sklearn.model_selection._search import BaseSearchCV  # slow to import, and rarely needed

    return isinstance(model, BaseSearchCV)


def _around(certificates: Certificates, model: object, X: object, *more: Assumption) -> Certificates:
    """Return certificates of the learner inside a model as those of the model."""
    assumptions = (*certificates.assumptions, *more)
    return replace(certificates, assumptions=assumptions, origin=Origin.of(model, X, len(certificates)))
