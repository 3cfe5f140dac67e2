"""The learner that an attack is aimed at."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.pipeline import learner_in


def label_linear_part(model: Any, X: Any) -> tuple[LabelLinearClassifier, Any]:
    """Return the label-linear learner inside a model, and the test rows as that learner takes them."""
    learner = learner_in(model)
    if not isinstance(learner, LabelLinearClassifier):
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
