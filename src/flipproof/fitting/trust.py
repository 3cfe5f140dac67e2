"""Priors by name, and learners that need trusted labels to be fitted (M15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flipproof.errors import InputError, Parameter, nearest
from flipproof.fitting.sources import Estimator
from flipproof.learners.baseline import reads_trusted_labels
from flipproof.learners.pipeline import learner_in

#: Number of trees of the prior "forest".
N_TREES = 200

#: Most iterations of the prior "logistic": enough for a few hundred scaled columns.
MOST_ITERATIONS = 1000


def _forest() -> Estimator:
    from sklearn.ensemble import RandomForestClassifier

    prior: Estimator = RandomForestClassifier(N_TREES, random_state=0)
    return prior


def _logistic() -> Estimator:
    from sklearn.linear_model import LogisticRegression

    prior: Estimator = LogisticRegression(max_iter=MOST_ITERATIONS)
    return prior


def _ridge() -> Estimator:
    from sklearn.linear_model import RidgeClassifier

    prior: Estimator = RidgeClassifier()
    return prior


#: Priors by name. They get the columns as the learner does: encoded and scaled.
PRIORS: dict[str, Callable[[], Estimator]] = {"forest": _forest, "logistic": _logistic, "ridge": _ridge}


def prior_parameters(
    prior: str | Estimator | None, weight: float | None, given: Mapping[str, object]
) -> dict[str, object]:
    """Return the parameters of a learner for its prior, given by name or as a classifier; none without a prior."""
    if prior is None:
        if weight is not None:
            raise InputError(Parameter("prior_weight"), " requires ", Parameter("prior"), ".")
        return {}
    for name in ("prior", "prior_weight") if weight is not None else ("prior",):
        if name in given:
            raise InputError("give ", Parameter(name), " only once: it is also set in ", Parameter("parameters"), ".")
    prior = named_prior(prior)
    return {"prior": prior} if weight is None else {"prior": prior, "prior_weight": weight}


def named_prior(prior: str | Estimator | None) -> Estimator | None:
    """Return a prior that is given by name as a classifier, and any other as it is."""
    if not isinstance(prior, str):
        return prior
    if prior not in PRIORS:
        known = ", ".join(PRIORS)
        raise InputError(Parameter("prior"), f": {prior!r} must be one of {known}.{nearest(prior, PRIORS)}")
    return PRIORS[prior]()


def require_trusted(model: object, given: bool) -> None:
    """Raise InputError if a learner needs trusted labels and there are none."""
    if given or not reads_trusted_labels(model):
        return
    needs: tuple[str | Parameter, ...] = (Parameter("prior"),)
    if getattr(learner_in(model), "grow", None) == "supervised":
        needs = ("the parameter grow='supervised'",)
    raise InputError(
        *needs,
        " requires trusted labels: give ",
        Parameter("trusted"),
        ", or ",
        Parameter("reference"),
        " with ",
        Parameter("reference_labels"),
        ".",
    )
