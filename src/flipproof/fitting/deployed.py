"""Models that were fitted before: what is kept of a fit to a table, and new test rows for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flipproof.errors import InputError, Parameter
from flipproof.fitting.choices import DataChoice, Fitted, ModelChoice, learner_inside
from flipproof.fitting.memory import array_test_rows, read_test_rows
from flipproof.fitting.sources import Source, is_path, source_name
from flipproof.learners.table_model import TableModel

if TYPE_CHECKING:
    from flipproof.tables import TextLayout


def table_model(
    data: DataChoice, choice: ModelChoice, fitted: Fitted, digests: Mapping[str, str] | None = None
) -> TableModel | None:
    """Return what test rows will need of a fit; None for fits to arrays, whose learner is all that there is.

    Digests of files that are known already are not computed again.
    """
    if data.roles is None or fitted.encoder is None or fitted.train is None:
        return None
    from flipproof.tables.file_content import digest_of_source

    files = {"training": data.train, "reference": data.reference}
    named = {what: source_name(given) for what, given in files.items() if given is not None}
    known = digests or {}
    of_files = {
        named[what]: known.get(named[what]) or digest_of_source(given)
        for what, given in files.items()
        if is_path(given)
    }
    return TableModel(
        fitted.model,
        fitted.encoder,
        data.roles,
        tuple(fitted.train.features.column_names),
        fitted.word_columns,
        fitted.adversary,
        list(fitted.train.ids),
        {"learner": choice.name, **named, "n_reference": fitted.n_reference, "digests": of_files},
    )


def with_test_rows(
    model: object,
    test: Source | None,
    layout: TextLayout | None = None,
    show: str | Sequence[str] = (),
    by: str | None = None,
) -> Fitted:
    """Return a fit of before together with new test rows.

    Parameters
    ----------
    model : TableModel, learner or Pipeline
        The fitted model. A TableModel takes files and data frames; others take what they were fitted to, as arrays.
    test : path, data frame, array, or pair (X, y)
        Test rows; labels are optional.
    layout : TextLayout, optional
        Layout of a text file.
    show : sequence of str
        Columns of the test table whose contents a report shows.
    by : str, optional
        Column of the test table that divides its rows into groups.
    """
    from flipproof.tables.labels import check_test_labels

    if test is None:
        raise InputError("a ", Parameter("model"), " requires ", Parameter("test"), ", the rows to predict.")
    if not isinstance(model, TableModel):
        if by is not None:
            raise InputError(Parameter("by"), ": it requires a file or a data frame with columns. Give an array.")
        learner = learner_inside(model)
        rows = array_test_rows(test)
        check_test_labels(rows.labels, learner.classes_, "y")
        return Fitted(model, rows, rows.features, None, None, train=_without_features(learner, None))
    learner, shown = model.learner, (show,) if isinstance(show, str) else tuple(show)
    roles = replace(model.roles, show=shown, by=by)
    data = DataChoice(None, test, roles, layout=layout)
    rows = read_test_rows(data, roles, model.columns, model.word_columns, model.classes_, needs_ids=False)
    with rows.located():
        encoded = model.encoder.transform(rows.features)
    check_test_labels(rows.labels, learner.classes_, roles.label)
    return Fitted(
        model.model,
        rows,
        encoded,
        model.adversary,
        model.encoder,
        train=_without_features(learner, model.ids),
        n_reference=model.source.get("n_reference"),
    )


def refuse_beside_model(given: Mapping[str, object], defaults: Mapping[str, object]) -> None:
    """Raise InputError for an argument that was decided when the model was fitted."""
    for name, value in given.items():
        if value is not defaults[name] and value != defaults[name]:
            raise InputError(
                Parameter(name), " cannot be combined with ", Parameter("model"), ": it was decided when it was fitted."
            )


def _without_features(learner: Any, ids: Any) -> Any:
    """Return the training rows as far as a model knows them: labels and names."""
    from flipproof.tables.roles import Rows

    codes = getattr(learner, "given_codes_", getattr(learner, "label_codes_", None))
    if codes is None:
        return None
    return Rows(None, learner.classes_[codes], list(range(len(codes)) if ids is None else ids))
