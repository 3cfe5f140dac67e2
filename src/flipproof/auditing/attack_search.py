"""`flipproof.find_attacks`: the labels or rows that would change predictions, and the labels to check first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from flipproof.attacks import (
    RowAttackResult,
    annotators_to_check,
    labels_to_audit,
    worst_flips,
    worst_rows,
)
from flipproof.attacks.worst_rows import most_fragile
from flipproof.auditing.found_attacks import (
    AnnotatorsToCheck,
    ChangedRow,
    FoundAttacks,
    LabelAttack,
    LabelAttacks,
    LabelsToCheck,
    RowAttack,
    RowAttacks,
)
from flipproof.errors import InputError, Parameter, nearest
from flipproof.fitting import (
    FitArgumentsWithPrior,
    Fitted,
    ModelChoice,
    as_choices,
    as_step,
    check_arguments_of,
    fit,
    refuse_blocks,
    require_pyarrow,
)
from flipproof.fitting.choices import Step
from flipproof.fitting.row_origin import RowOrigin
from flipproof.fitting.sources import Estimator, Source
from flipproof.learners.names import LEARNERS
from flipproof.origins import frame_library
from flipproof.parameters import NONE, check_arguments, integer
from flipproof.values import distinct

if TYPE_CHECKING:
    from flipproof.certificates import Certificates
    from flipproof.tables.roles import Rows

#: Allowed numbers.
NUMBERS = {"top": integer(1), "max_changes": NONE | integer(0)}


def find_attacks(
    train: Source,
    test: Source | None = None,
    *,
    rows: object = None,
    top: int = 20,
    max_changes: int | None = None,
    learner: str | Estimator = "ridge",
    parameters: Mapping[str, object] | None = None,
    progress: Step | None = None,
    **options: Unpack[FitArgumentsWithPrior],
) -> FoundAttacks:
    """Find the training labels, or rows, that would change predictions.

    With `rows`: the smallest set of label changes that overturns each of these predictions, in the order of the attack.
    Without: the labels that are part of the most attacks on the 1,000 most fragile predictions; or the annotators, if
    radii count annotators (`annotator`, or `annotators` without ``count="annotations"``). With ``changes="rows"`` and a
    `reference`: the fewest rows to add, remove or replace, against the predictions of `rows` or the most fragile ones;
    every attack is confirmed by a refit.

    The command ``flipproof attack`` calls this function.

    Parameters
    ----------
    train : path, data frame, or pair (X, y)
        Training rows, as for :func:`flipproof.audit`; they must fit in memory.
    test : path, data frame, array, or pair (X, y), optional
        Test rows; labels are not needed.
    rows : sequence of names of test rows, or one, optional
        Predictions to attack, by ids or row numbers from 0. If `holdout` drew the test rows, row numbers are those in
        `train`.
    top : int, default=20
        Without `rows`: number of labels or annotators to list, or of predictions to attack by rows.
    max_changes : int, optional
        Largest number of changes to try against a prediction. Rankings of labels and annotators do not depend on it.
    learner : str or estimator, default="ridge"
        As for :func:`flipproof.audit`; it must be label-linear.
    parameters : mapping, optional
        Parameters of the learner, for example ``{"n_neighbors": 9}``.
    progress : callable, optional
        Called with the name of each step before it begins.
    **options
        Further arguments of :func:`flipproof.audit` about rows, columns and the adversary, under the same names, for
        example ``label="spam"``, ``holdout=0.2``, ``annotator="who"`` or ``changes="rows"``.

    Returns
    -------
    FoundAttacks
        It prints as sentences and a table; :meth:`~FoundAttacks.to_frame` returns the changed or ranked labels or rows.

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.

    See Also
    --------
    flipproof.FoundAttacks : Result of a search for attacks.
    flipproof.audit : Certificates, attacks, requirements and a report.
    flipproof.attacks.worst_flips : Smallest attack on a fitted model.
    flipproof.plan_checks : What checking labels buys.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> rows = load_breast_cancer(return_X_y=True)
    >>> found = flipproof.find_attacks(rows, holdout=0.2, rows=[12])
    >>> print(found.predictions[0])
    Test row 12 is predicted as 0. It takes 19 changed labels to overturn it.
    >>> ranked = flipproof.find_attacks(rows, holdout=0.2, top=3)
    >>> ranked.to_frame()["train_id"].tolist()
    [461, 376, 192]
    """
    require_pyarrow("find_attacks")
    check_arguments_of(find_attacks, options)
    check_arguments("find_attacks", NUMBERS, top=top, max_changes=max_changes)
    refuse_blocks(train, "attacks need")
    step = as_step(progress)
    data, choice = as_choices(train, test, learner=learner, parameters=parameters, **options)
    if choice.changes_rows:
        _check_attackable_by_rows(choice)
    fitted = fit(data, choice, step)
    chosen = None if rows is None else positions_of(rows, fitted.test.ids)
    frames = frame_library(train if test is None else test)
    if choice.changes_rows:
        step("Attacking by rows")
        return _row_attacks(fitted, chosen, top, max_changes, frames)
    if chosen is not None:
        step(f"Attacking {len(chosen)} predictions")
        return _label_attacks(fitted, chosen, max_changes, frames)
    if fitted.adversary is not None and fitted.adversary.groups is not None:
        step("Ranking annotators by attacks on the most fragile predictions")
        return AnnotatorsToCheck(annotators_to_check(fitted.model, fitted.X_test, fitted.adversary, top), frames)
    step("Ranking labels by attacks on the most fragile predictions")
    return _labels_to_check(fitted, top, frames)


def positions_of(names: object, ids: Sequence[object]) -> list[int]:
    """Return the positions of the named test rows, each once."""
    places = {str(one): place for place, one in reversed(list(enumerate(ids)))}
    listed = names if isinstance(names, Iterable) and not isinstance(names, str | bytes) else [names]
    found = []
    for name in map(str, listed):
        if name not in places:
            raise InputError(Parameter("rows"), f": there is no test row {name!r}.{nearest(name, places)}")
        found.append(places[name])
    if not found:
        raise InputError(Parameter("rows"), ": it must name at least one test row.")
    return list(dict.fromkeys(found))


def _check_attackable_by_rows(choice: ModelChoice) -> None:
    """Raise InputError for a learner that has certificates against changed rows, but no attack by rows."""
    import flipproof
    from flipproof.learners.pipeline import learner_in

    if not isinstance(choice.learner, str):
        kind = type(learner_in(choice.learner))
    elif choice.learner in LEARNERS:
        kind = getattr(flipproof, LEARNERS[choice.learner])
    else:  # the fit refuses it
        return
    if not hasattr(kind, "rows_vote_separately"):
        raise InputError(
            Parameter("learner", choice.name),
            ": there is no attack by rows on it. Its certificates against changed rows are lower bounds, and the "
            "smallest attack is not known. Use another learner, or omit ",
            Parameter("changes"),
            ".",
        )


def _labels_to_check(fitted: Fitted, top: int, frames: str | None) -> LabelsToCheck:
    """Rank the training labels by the attacks that they are part of."""
    found, train = labels_to_audit(fitted.model, fitted.X_test, fitted.adversary, top), _training_rows(fitted)
    return LabelsToCheck(
        found,
        train_ids=[train.ids[row] for row in found.rows],
        labels=[train.labels[row].item() for row in found.rows],  # type: ignore[index]
        n_train=len(train),
        _frames=frames,
    )


def _label_attacks(fitted: Fitted, rows: list[int], max_changes: int | None, frames: str | None) -> LabelAttacks:
    """Find the label changes that overturn each of these predictions."""
    found = worst_flips(fitted.model, fitted.X_test[rows], fitted.adversary, max_changes)
    if not found.attempted.all():
        raise KeyboardInterrupt  # a partial result would look complete
    train, n_annotators = _training_rows(fitted), None
    if found.annotators is not None:
        assert fitted.adversary is not None
        n_annotators = len(distinct(fitted.adversary.groups)[0])
    attacks = [
        LabelAttack(
            id=fitted.test.ids[row],
            prediction=found.prediction[place].item(),
            needed=int(found.flips_needed[place]) if found.success[place] else None,
            unit=found.unit,
            train_ids=tuple(train.ids[one] for one in found.rows[place].tolist()),
            old_labels=tuple(train.labels[found.rows[place]].tolist()),  # type: ignore[index]
            new_labels=tuple(found.new_labels[place].tolist()),
            annotators=None if found.annotators is None else tuple(found.annotators[place].tolist()),
            n_annotators=n_annotators,
            max_changes=max_changes,
        )
        for place, row in enumerate(rows)
    ]
    return LabelAttacks(tuple(attacks), found.unit, frames)


def _row_attacks(
    fitted: Fitted, rows: list[int] | None, top: int, max_changes: int | None, frames: str | None
) -> RowAttacks:
    """Find the rows to remove and to add against some predictions, by default the `top` most fragile ones."""
    certificates = fitted.model.certify(fitted.X_test, "exact", fitted.adversary)
    if rows is None:
        rows = most_fragile(certificates)[:top].tolist()
    known = certificates[rows]
    found = worst_rows(
        fitted.model,
        fitted.X_test[rows],
        fitted.adversary,
        max_changes,
        certificates=known,
        reference=fitted.X_reference,
        X_train=fitted.X_train,
    )
    if not found.attempted.all():
        raise KeyboardInterrupt  # a partial result would look complete
    return RowAttacks(
        attacks=tuple(_row_attack(found, known, place, fitted, row) for place, row in enumerate(rows)),
        unit=found.unit,
        changes=known.changes,
        n_confirmed=int(found.success.sum()),
        n_refits=found.n_refits,
        n_features=fitted.X_test.shape[1],
        max_changes=max_changes,
        _frames=frames,
    )


def _row_attack(found: RowAttackResult, known: Certificates, place: int, fitted: Fitted, row: int) -> RowAttack:
    """Return the facts about the attack on one prediction."""
    train = _training_rows(fitted)
    assert train.labels is not None
    assert known.unlimited is not None
    removed = found.removed[place].tolist()
    sources = [None] * len(removed) if found.sources is None else found.sources[place].tolist()
    changes = [
        ChangedRow("remove", train.labels[one].item(), train_id=train.ids[one], source=source)
        for one, source in zip(removed, sources, strict=True)
    ]
    labels = found.added_labels[place]
    if len(labels):  # all added rows are equal
        added = found.added[place][0]
        origin = RowOrigin(fitted, row).of(added)
        changes.append(ChangedRow("add", labels[0].item(), copies=len(labels), copy_of=origin, features=added))
    return RowAttack(
        id=fitted.test.ids[row],
        prediction=found.prediction[place].item(),
        needed=int(found.changes_needed[place]) if found.success[place] else None,
        radius=int(known.radius[place]),
        unlimited=bool(known.unlimited[place]),
        removed=len(found.removed[place]),
        added=len(labels),
        is_smallest=bool(found.is_smallest[place]),
        changes=tuple(changes),
    )


def _training_rows(fitted: Fitted) -> Rows:
    if fitted.train is None:
        raise ValueError("attacks need all training rows in memory.")
    return fitted.train
