"""`flipproof.plan_checks`: what checking N training labels would buy, and the cheapest way to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from flipproof.attacks.audit_plan import BUDGET, FLIPS, plan_audit
from flipproof.attacks.plan_result import AuditPlan
from flipproof.errors import InputError, Parameter
from flipproof.fitting import (
    FitArguments,
    as_choices,
    as_step,
    check_arguments_of,
    prepare,
    refuse_blocks,
    require_pyarrow,
)
from flipproof.fitting.choices import Step
from flipproof.fitting.sources import Estimator, Source
from flipproof.fitting.trust import named_prior
from flipproof.origins import frame_library
from flipproof.requirements import Requirement

#: Arguments about the adversary that a plan does not simulate.
NOT_PLANNED = ("annotator", "window", "length", "allowed")


def plan_checks(
    train: Source,
    test: Source | None = None,
    *,
    budget: Sequence[int] = BUDGET,
    flips: Sequence[int] | None = None,
    reach: str | Requirement | None = None,
    prior: str | Estimator | None = None,
    prior_weight: float | None = None,
    error_rate: float = 0.0,
    learner: str | Estimator = "ridge",
    parameters: Mapping[str, object] | None = None,
    progress: Step | None = None,
    **options: Unpack[FitArguments],
) -> AuditPlan:
    """Simulate what checking N training labels buys, before you check any.

    For each budget, labels are chosen because attacks use them most, at random, or by diverse features. Checked labels
    are used as trusted votes, as a prior, to grow trees, or alone. Labels of the column `trusted` are trusted already;
    budgets count others.

    The command ``flipproof plan`` calls this function. For models that are fitted already, call
    :func:`flipproof.attacks.plan_audit`.

    Parameters
    ----------
    train : path, data frame, or pair (X, y)
        Training rows, as for :func:`flipproof.audit`; they must fit in memory.
    test : path, data frame, array, or pair (X, y), optional
        Test rows. Without labels, shares count all certified predictions, correct or not.
    budget : sequence of int, default=(50, 100, 200)
        Numbers of labels to check.
    flips : sequence of int, optional
        Numbers of changed labels. Default: 0, 10, 20, 50 and 100.
    reach : str or Requirement, optional
        Certified accuracy to reach, for example ``"accuracy >= 0.9 @ 20"``; the plan then names the way with the fewest
        checks.
    prior : {"forest", "logistic", "ridge"} or classifier, optional
        Classifier that is fitted to checked labels. Default: a random forest.
    prior_weight : float, optional
        Its weight. Default: 1, as much as all votes together.
    error_rate : float, default=0.0
        Share of the checked labels that the check gets wrong: they get another class, at random.
    learner : str or estimator, default="ridge"
        As for :func:`flipproof.audit`; it must be label-linear.
    parameters : mapping, optional
        Parameters of the learner, for example ``{"n_neighbors": 9}``.
    progress : callable, optional
        Called with the name of each step before it begins.
    **options
        Further arguments of :func:`flipproof.audit` about rows and columns, under the same names, for example
        ``label="spam"``, ``holdout=0.2`` or ``trusted="checked"``.

    Returns
    -------
    AuditPlan
        Shares by way to check labels; ``reached``, ``best`` and ``answer`` are about `reach`.

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.

    See Also
    --------
    flipproof.attacks.AuditPlan : Result of a plan.
    flipproof.attacks.plan_audit : The same for a fitted model.
    flipproof.find_attacks : The labels to check first.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> rows = load_breast_cancer(return_X_y=True)
    >>> plan = flipproof.plan_checks(
    ...     rows, holdout=0.2, budget=[30], flips=[0, 50], reach="accuracy >= 0.85 @ 50", prior="logistic"
    ... )
    >>> plan.reached, plan.best.n_checked
    (True, 30)
    """
    require_pyarrow("plan_checks")
    check_arguments_of(plan_checks, options)
    refuse_blocks(train, "a plan needs")
    refuse_unplanned(options)
    step, target = as_step(progress), _target(reach)
    columns = FLIPS if flips is None else tuple(flips)
    if target is not None:
        columns = tuple(sorted({*columns, target.flips}))
    data, choice = as_choices(train, test, learner=learner, parameters=parameters, **options)
    prepared = prepare(data, [choice], step)
    fitted = prepared.fit(choice, step)
    if target is not None and fitted.test.labels is None:
        raise InputError(Parameter("reach"), " requires test rows with labels: without them, there is no accuracy.")
    trained = prepared.with_trust(fitted)
    step(f"Simulating checks of {', '.join(f'{one:,}' for one in sorted(set(budget)))} labels")
    found = plan_audit(
        trained,
        fitted.X_test,
        fitted.test.labels,
        budget,
        X=prepared.encoded.train,
        y=prepared.labels,
        flips=columns,
        prior=named_prior(prior),
        prior_weight=1.0 if prior_weight is None else prior_weight,
        error_rate=error_rate,
        random_state=data.seed,
        verbose=choice.verbose,
    )
    return replace(found, target=target, _frames=frame_library(train if test is None else test))


def refuse_unplanned(given: Mapping[str, Any]) -> None:
    """Raise InputError for arguments about adversaries that a plan does not simulate."""
    changes, adversary = given.get("changes", "labels"), given.get("adversary")
    if changes != "labels" or given.get("reference") is not None:
        wrong = Parameter("reference") if changes == "labels" else Parameter("changes", changes)
        raise InputError(wrong, " cannot be combined with plan, which is about changed labels.")
    unplanned = [name for name in NOT_PLANNED if given.get(name)]
    if adversary is not None and (
        adversary.changes_rows or any(getattr(adversary, name) is not None for name in ("groups", "allowed", "window"))
    ):
        unplanned.append("adversary")
    for name in unplanned:
        raise InputError(Parameter(name), " cannot be combined with plan: it counts single labels, changed to any.")


def _target(reach: str | Requirement | None) -> Requirement | None:
    """Return the certified accuracy to reach."""
    wanted = f": {reach!r} must be a requirement on accuracy, for example 'accuracy >= 0.9 @ 20'."
    if isinstance(reach, str):
        try:
            reach = Requirement.parse(reach)
        except InputError:
            raise InputError(Parameter("reach"), wanted) from None
    if reach is not None and reach.measure != "accuracy":
        raise InputError(Parameter("reach"), wanted)
    return reach
