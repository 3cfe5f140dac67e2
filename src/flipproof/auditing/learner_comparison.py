"""`flipproof.compare_learners`: several learners fitted to the same rows, and the choice of one on trusted labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

from numpy.typing import NDArray

from flipproof.auditing.comparison import Comparison, comparison_of
from flipproof.certificates import Certificates
from flipproof.errors import InputError, Parameter, nearest
from flipproof.fitting import (
    DataChoice,
    FitArgumentsWithPrior,
    Fitted,
    ModelChoice,
    as_choices,
    as_step,
    check_arguments_of,
    prepare,
    refuse_blocks,
    require_pyarrow,
)
from flipproof.fitting import select as select_learner
from flipproof.fitting.choices import Step
from flipproof.fitting.sources import Estimator, Source
from flipproof.learners.baseline import TrustedOnlyPredictions
from flipproof.learners.names import LABEL_LINEAR, LEARNERS
from flipproof.learners.pipeline import certify
from flipproof.origins import frame_library
from flipproof.parameters import NONE, check_parameter, integer

#: What votes if items have several labels, in the names of lines.
VOTES = {"votes": "annotations vote", "majority": "majority first"}

#: Arguments that require label-linear learners: several labels per item, and windows of time.
NEED_LABEL_LINEAR = ("labels", "annotators", "window")

#: Steps of a choice on trusted labels: reading, encoding, choosing, fitting and certifying.
SELECTION_STEPS = 5


def compare_learners(
    train: Source,
    test: Source | None = None,
    *,
    learners: Sequence[str] | Mapping[str, str | Estimator] | None = None,
    parameters: Mapping[str, Mapping[str, object]] | None = None,
    flips: Sequence[int] | None = None,
    select: int | None = None,
    progress: Step | None = None,
    **options: Unpack[FitArgumentsWithPrior],
) -> Comparison:
    """Fit several learners to the same rows, and compare their certified accuracy.

    Rows are read and encoded once. With several labels per item, both ways to use them are compared, unless `aggregate`
    names one: each annotation votes, or the majority of each item.

    The command ``flipproof compare`` calls this function. To compare models that are fitted already, call
    :func:`flipproof.compare`.

    Parameters
    ----------
    train : path, data frame, or pair (X, y)
        Training rows, as for :func:`flipproof.audit`; they must fit in memory.
    test : path, data frame, or pair (X, y), optional
        Test rows with labels.
    learners : sequence of str, or mapping of str to learner, optional
        "ridge", "neighbors", "kernel", "cluster", "forest" and "partition"; or a dict of names and flipproof learners,
        or Pipelines that end in one, which are cloned. Default: all that take the other arguments.
    parameters : mapping of str to mapping, optional
        Parameters of each learner, for example ``{"neighbors": {"n_neighbors": 0.05}}``. With `select`, a list of
        values is tried one by one.
    flips : sequence of int, optional
        Numbers of changed labels in the table. Default: a few up to the largest radius.
    select : int, optional
        Choose learner and parameters by certified accuracy at this number of flips, within the rows of `trusted` only,
        so that certificates remain valid. The comparison then shows only the chosen learner.
    progress : callable, optional
        Called with the name of each step before it begins.
    **options
        Further arguments of :func:`flipproof.audit` about rows, columns and the adversary, under the same names, for
        example ``label="spam"``, ``holdout=0.2``, ``trusted="checked"`` or ``prior="forest"``.

    Returns
    -------
    Comparison
        It prints as a table. With `select`, its `selection` has all candidates and their scores.

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.

    See Also
    --------
    flipproof.compare : Several fitted models on the same test rows.
    flipproof.select_on_trusted : Choose learner and parameters on trusted labels.
    flipproof.audit : Certificates, attacks, requirements and a report of one learner.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> rows = load_breast_cancer(return_X_y=True)
    >>> result = flipproof.compare_learners(rows, holdout=0.2, learners=["ridge", "cluster"], flips=[0, 10])
    >>> result.to_frame()[["model", "certified_accuracy_10"]].round(3).values.tolist()
    [['ridge', 0.868], ['cluster', 0.781]]
    """
    require_pyarrow("compare_learners")
    check_arguments_of(compare_learners, options)
    check_parameter("compare_learners", "select", select, NONE | integer(0))
    refuse_blocks(train, "compare needs")
    step, named = as_step(progress), _learners(learners, options)
    _check_parameters(named, parameters or {}, select)
    frames = frame_library(train if test is None else test)
    ways, lines = ways_to_vote(options, select), _Lines(step)

    def choices_of(way: str | None) -> tuple[DataChoice, list[ModelChoice]]:
        given = cast(FitArgumentsWithPrior, {**options, "aggregate": way})
        pairs = [
            as_choices(train, test, learner=learner, parameters=(parameters or {}).get(name), title=name, **given)
            for name, learner in named.items()
        ]
        return pairs[0][0], [choice for _, choice in pairs]

    if select is not None:
        rows, choices = choices_of(ways[0])
        selection, fitted = select_learner(rows, choices, select, step)
        lines.add(fitted, str(selection.best_learner))
        return comparison_of(lines.entries, lines.truth, flips, frames, lines.alone, selection)
    for way in ways:
        rows, choices = choices_of(way)
        prepared = prepare(rows, choices, step)
        for choice in choices:
            name = choice.name if len(ways) == 1 else f"{choice.name}, {VOTES[str(way)]}"
            lines.add(prepared.fit(choice, step), name)
    return comparison_of(lines.entries, lines.truth, flips, frames, lines.alone)


class _Lines:
    """The lines of a comparison: certificates of each model, and what trusted labels alone predict."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.entries: list[tuple[str, Certificates, float, float | None]] = []
        self.alone: dict[str, Sequence[TrustedOnlyPredictions]] = {}
        self.truth: NDArray[Any] | None = None

    def add(self, fitted: Fitted, name: str) -> None:
        """Certify the test rows by a model."""
        if fitted.test.labels is None:
            raise InputError("compare needs test rows with labels: without them, there is no accuracy to compare.")
        self.truth = fitted.test.labels
        self.step(f"Certifying {len(fitted.test)} predictions of {name}")
        began = time.perf_counter()
        found = certify(fitted.model, fitted.X_test, None, fitted.adversary)
        self.entries.append((name, found, time.perf_counter() - began, fitted.seconds))
        self.alone[name] = fitted.trusted_only


def usual_learners(given: Mapping[str, object]) -> tuple[tuple[str, ...], str | None]:
    """Return the learners that take these arguments, and the argument because of which some are left out.

    Only label-linear learners take several labels per item, and windows.
    """
    needs = next((name for name in NEED_LABEL_LINEAR if _is_given(given.get(name))), None)
    return tuple(LEARNERS) if needs is None else LABEL_LINEAR, needs


def _is_given(value: object) -> bool:
    return value is not None and not (isinstance(value, str | Sequence) and not len(value))


def ways_to_vote(given: Mapping[str, object], select: int | None) -> tuple[str | None, ...]:
    """Return what shall vote if items have several labels: both ways, unless one is given or only one is possible."""
    has_several = _is_given(given.get("labels")) or _is_given(given.get("annotators"))
    aggregate = cast(str | None, given.get("aggregate"))
    if has_several and aggregate is None and select is None and not given.get("window"):
        return tuple(VOTES)
    return (aggregate,)


def n_steps(n_learners: int, given: Mapping[str, object], select: int | None) -> int:
    """Return how many steps a comparison announces."""
    return SELECTION_STEPS if select is not None else len(ways_to_vote(given, select)) * (2 + 2 * n_learners)


def _learners(
    given: Sequence[str] | Mapping[str, str | Estimator] | None, options: Mapping[str, object]
) -> dict[str, str | Estimator]:
    """Return the learners by name."""
    if given is None:
        return {name: name for name in usual_learners(options)[0]}
    if isinstance(given, Mapping):
        found = {str(name): learner for name, learner in given.items()}
    else:
        listed = [given] if isinstance(given, str) else list(given)
        if not all(isinstance(one, str) for one in listed):
            raise InputError(Parameter("learners"), ": give names, or a dict of names and learners.")
        found = {name: name for name in listed}
    if not found:
        raise InputError(Parameter("learners"), ": it must have at least one learner.")
    return found


def _check_parameters(
    learners: Mapping[str, object], parameters: Mapping[str, Mapping[str, object]], select: int | None
) -> None:
    """Raise InputError for parameters of no learner, and for lists of values without a choice."""
    for name, own in parameters.items():
        if name not in learners:
            raise InputError(
                Parameter("parameters"),
                f": {name!r} must be one of the learners, {', '.join(learners)}.{nearest(name, learners)}",
            )
        for parameter, value in own.items():
            if select is None and isinstance(value, list):
                raise InputError(
                    Parameter("parameters"),
                    f": {name}:{parameter} has several values, which requires ",
                    Parameter("select", "FLIPS"),
                    ".",
                )
