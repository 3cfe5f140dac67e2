"""Certify a learner, or a scikit-learn Pipeline that ends in one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.pipeline import Pipeline

from flipproof.certificates import Adversary, Certificates
from flipproof.learners.common import CertifiedClassifier


def certify(model: Any, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
    """Predict and certify with a fitted learner of flipproof, or a Pipeline whose last step is one.

    Parameters
    ----------
    model : learner or Pipeline
        Fitted.
    X : array or data frame
        Test rows, as the model's `predict` takes them.
    method : {"exact", "tight", "kl"}, optional
        Default: the learner's own.
    adversary : Adversary, optional
        What can be done to the labels. Default: any label may be changed to anything.

    Returns
    -------
    Certificates
        A Pipeline hands the labels to every step, and nothing tells whether a step used them: `assumptions` names the
        steps that must not have.
    """
    if isinstance(model, CertifiedClassifier):
        return model.certify(X, method=method, adversary=adversary)
    if not isinstance(model, Pipeline) or not isinstance(model[-1], CertifiedClassifier):
        got = (
            f"a Pipeline that ends in {type(model[-1]).__name__}"
            if isinstance(model, Pipeline)
            else type(model).__name__
        )
        raise ValueError(
            f"model must be a flipproof learner or a scikit-learn Pipeline that ends in one. Got {got} instead."
        )
    steps = [(name, step) for name, step in model.steps[:-1] if step not in (None, "passthrough")]
    transformed = model[:-1].transform(X) if len(model) > 1 else X
    certificates = model[-1].certify(transformed, method=method, adversary=adversary)
    if not steps:
        return certificates
    named = ", ".join(f"{name!r} ({type(step).__name__})" for name, step in steps)
    foreign = (
        f"The pipeline's steps {named} did not use the labels when they were fitted; flipproof cannot see whether they "
        "did. Give them as the learner's features=... to have them fitted without labels."
    )
    return replace(certificates, assumptions=(*certificates.assumptions, foreign))
