"""Fit to training rows in memory: read files, data frames or arrays, and encode columns without labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.base import clone

from flipproof.adversary import Adversary, check_adversary
from flipproof.annotations import Annotations
from flipproof.assumptions import Assumption
from flipproof.core.rounding import Values
from flipproof.errors import InputError, Parameter
from flipproof.fitting.choices import (
    ARRAY_LABEL,
    DataChoice,
    Fitted,
    ModelChoice,
    Step,
    assumptions_about_texts,
    class_set,
    learner_inside,
    make_learner,
    refuse_encoded_features,
    restricted,
    table_encoder,
)
from flipproof.fitting.crowd import Crowd, stamps_of, with_crowd
from flipproof.fitting.reference import (
    Reference,
    check_array_reference,
    check_takes_reference,
    encoded_by_reference,
    encoded_training_rows,
    feature_columns,
    fitted_encoder,
    read_reference,
    typed_reference_labels,
)
from flipproof.fitting.repeated import warn_about_ids, warn_about_training_rows
from flipproof.fitting.sources import Source, is_path, source_name
from flipproof.fitting.trust import require_trusted
from flipproof.learners.baseline import TrustedOnlyPredictions, fit_with_trusted, trusted_only_predictions
from flipproof.learners.row_by_row import rows_at
from flipproof.timestamps import as_length
from flipproof.values import as_values, column_of, joined

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.learners.selection import TrustedSelection
    from flipproof.tables import TableEncoder
    from flipproof.tables.reading import FileRows
    from flipproof.tables.roles import Roles, Rows


def fit(data: DataChoice, choice: ModelChoice, step: Step, needs_test: bool = True) -> Fitted:
    """Read the rows, encode their columns without labels, and fit the learner.

    Unless `needs_test`, there are no test rows.

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.
    """
    return prepare(data, [choice], step, needs_test).fit(choice, step)


def prepare(data: DataChoice, choices: Sequence[ModelChoice], step: Step, needs_test: bool = True) -> Prepared:
    """Read the rows and encode their columns without labels, once for one or several learners.

    The choices differ in learner and parameters only.
    """
    step(f"Reading {Path(data.train).name if is_path(data.train) else source_name(data.train)}")
    reference = read_reference(data)
    rows = read_rows(data, choices[0], reference, needs_test)
    prepared = Prepared(data, rows, Encoded(None, None), reference)
    from flipproof.tables.labels import check_classes

    check_classes(prepared.labels, prepared.label, choices[0].classes)
    for choice in choices:  # before the columns are encoded, which may take long
        prepared.learner(choice)
    if data.roles is not None:
        step("Encoding the columns")
    encoded = encode_rows(data, rows, reference)
    warn_about_repeats(data, rows, encoded)
    return replace(prepared, encoded=encoded)


@dataclass(frozen=True)
class Prepared:
    """Rows that were read and encoded, to which learners can be fitted.

    Attributes
    ----------
    data : DataChoice
        Where they come from.
    rows, encoded
        The rows as given, and as numbers.
    reference : Reference, optional
        The reference as given.
    """

    data: DataChoice
    rows: ReadRows
    encoded: Encoded
    reference: Reference | None = None

    @property
    def label(self) -> str:
        """Name of the labels in errors."""
        return ARRAY_LABEL if self.data.roles is None else self.data.roles.label

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of the training rows; with several labels per item, all of them."""
        if self.rows.crowd is not None:
            return self.rows.crowd.annotations.label
        if self.rows.train.labels is None:
            raise ValueError(f"column {self.label!r} has no labels.")
        return self.rows.train.labels

    def learner(self, choice: ModelChoice) -> Any:
        """Return the chosen learner, unfitted."""
        model = make_learner(choice, class_set(choice, self.labels))
        if self.reference is not None:
            check_takes_reference(choice, model)
        has_mask = self.data.roles is not None and bool(self.data.roles.trusted)
        has_mask |= choice.adversary is not None and choice.adversary.trusted is not None
        require_trusted(model, has_mask or self.reference_labels is not None)
        return model

    @property
    def reference_labels(self) -> NDArray[Any] | None:
        """Trusted labels of the reference, in the type of the training labels; None unless they were asked for."""
        return typed_reference_labels(self.reference, self.label, self.labels)

    def fit(self, choice: ModelChoice, step: Step) -> Fitted:
        """Fit the chosen learner to the training rows."""
        model, encoded = self.learner(choice), self.encoded
        step(f"Fitting {choice.name} to {len(self.rows.train)} rows")
        began = time.perf_counter()
        crowd = self.rows.crowd
        labels = self.labels if crowd is None else crowd.annotations
        # trusted annotations are trusted in the certificate; nothing is learned from them alone
        trusted = None if crowd is not None else _trusted_mask(self.data, choice, self.rows)
        learned_from = {}
        if self.reference is not None:
            if encoded.encoder is None:
                check_array_reference(self.reference, model, encoded.train)
            learned_from = {"reference": encoded.reference}
            if self.reference_labels is not None:
                learned_from["reference_labels"] = self.reference_labels
        fit_with_trusted(model, encoded.train, labels, trusted, **learned_from)
        return self.fitted(model, choice, time.perf_counter() - began)

    def with_trust(self, fitted: Fitted) -> Any:
        """Return the fitted learner with the labels that its adversary trusts trusted in the fit, too."""
        trusted = None if fitted.adversary is None else fitted.adversary.trusted
        learner = learner_inside(fitted.model)
        if trusted is None or learner.is_trusted_.any():
            return learner
        return clone(learner).fit(self.encoded.train, self.labels, trusted=trusted)

    def fitted(self, model: object, choice: ModelChoice, seconds: float) -> Fitted:
        """Return a model that was fitted to these training rows, with the test rows and the adversary."""
        from flipproof.tables.labels import check_test_labels

        encoded, learner = self.encoded, learner_inside(model)
        check_test_labels(self.rows.test.labels, learner.classes_, self.label)
        if encoded.assumption is not None:
            refuse_encoded_features(learner)
            for one in (encoded.assumption, *assumptions_about_texts(encoded.encoder)):
                learner.also_assume(one)
        if self.rows.crowd is not None and self.rows.crowd.judges_itself:
            learner.also_assume(Assumption("truth-from-annotations", {"n_test": len(self.rows.test)}))
        adversary, crowd = adversary_of(self.data, choice, self.rows, learner.classes_), self.rows.crowd
        checked = self._trusted_rows(None if crowd is not None else adversary)
        return Fitted(
            model,
            self.rows.test,
            encoded.test,
            adversary,
            encoded.encoder,
            train=self.rows.train if crowd is None else crowd.as_rows(self.rows.train),
            n_reference=None if self.reference is None else len(self.reference),
            X_reference=encoded.reference,
            X_train=None if self.reference is None else encoded.train,
            trusted_only=() if checked is None else _trusted_only(model, checked, encoded.test, self.rows.test),
            n_trusted=0 if checked is None else len(checked[1]),
            seconds=seconds,
            word_columns=self.rows.word_columns,
            n_unclear=0 if crowd is None else crowd.n_unclear,
        )

    def _trusted_rows(self, adversary: Adversary | None) -> tuple[Any, NDArray[Any]] | None:
        """Return all rows whose labels are trusted, as input of the learner, and these labels; None without any."""
        mask = None if adversary is None else adversary.trusted
        parts = []
        if mask is not None and np.any(mask):
            parts.append((rows_at(self.encoded.train, np.flatnonzero(mask)), self.labels[mask]))
        if self.reference_labels is not None:
            parts.append((self.encoded.reference, self.reference_labels))
        if len(parts) < 2:
            return parts[0] if parts else None
        rows = [one for one, _ in parts]
        together = vstack(rows) if any(map(issparse, rows)) else np.concatenate([np.asarray(one) for one in rows])
        return together, joined([labels for _, labels in parts])


def select(data: DataChoice, choices: Sequence[ModelChoice], flips: int, step: Step) -> tuple[TrustedSelection, Fitted]:
    """Choose learner and parameters on trusted rows only, and fit the choice to all training rows.

    Parameters
    ----------
    data : DataChoice
        The rows, with a column of trusted labels.
    choices : sequence of ModelChoice
        Learners; a parameter with a list of values is tried with each of them.
    flips : int
        Number of changed labels at which candidates are scored.
    step
        Called with the name of each step.
    """
    from flipproof.learners.selection import select_on_trusted

    if data.roles is None or not data.roles.trusted:
        raise InputError(Parameter("select"), " requires ", Parameter("trusted"), ": a column of trusted labels.")
    if data.crowd is not None:
        raise InputError(Parameter("select"), " cannot be combined with ", Parameter("labels"), ".")
    if data.reference is not None:
        raise InputError(Parameter("select"), " cannot be combined with ", Parameter("reference"), ".")
    if any("prior" in one.parameters or one.parameters.get("grow") == "supervised" for one in choices):
        raise InputError(
            Parameter("select"),
            " cannot be combined with ",
            Parameter("prior"),
            " or supervised trees: candidates are compared on the trusted labels that these would read.",
        )
    grids = {one.name: _lists_among(one.parameters, True) for one in choices}
    single = [replace(one, parameters=_lists_among(one.parameters, False)) for one in choices]
    prepared = prepare(data, single, step)
    adversary = adversary_of(data, single[0], prepared.rows, np.unique(prepared.labels))
    assert adversary is not None
    learners = {one.name: prepared.learner(replace(one, verbose=0)) for one in single}
    step(f"Choosing one of {', '.join(learners)} on {np.count_nonzero(adversary.trusted)} trusted rows")
    began = time.perf_counter()
    selection = select_on_trusted(
        learners, grids, prepared.encoded.train, prepared.labels, adversary.trusted, flips=flips
    )
    chosen = next(one for one in single if one.name == selection.best_learner)
    return selection, prepared.fitted(selection.model, chosen, time.perf_counter() - began)


def _lists_among(parameters: Mapping[str, object], wanted: bool) -> dict[str, Any]:
    """Return the parameters that have a list of values, or those that have one value."""
    return {name: value for name, value in parameters.items() if isinstance(value, list) == wanted}


def _trusted_only(
    model: object, checked: tuple[Any, Values], X_test: object, test: Rows
) -> tuple[TrustedOnlyPredictions, ...]:
    """Predict the test rows from trusted rows and labels alone, if the truth is known."""
    if test.labels is None:
        return ()
    rows, labels = checked
    return trusted_only_predictions(model, rows, labels, np.ones(len(labels), dtype=bool), X_test)


@dataclass(frozen=True)
class Encoded:
    """Features of all rows as input of the learner; `assumption` is about their encoding, if they were encoded."""

    train: Any
    test: Any
    reference: Any = None
    encoder: TableEncoder | None = None
    assumption: Assumption | None = None


def encode_rows(data: DataChoice, rows: ReadRows, reference: Reference | None) -> Encoded:
    """Encode the columns by the reference, or else by the training rows; arrays are used unchanged."""
    train, test, roles = rows.train.features, rows.test.features, data.roles
    if roles is None:
        return Encoded(train, test, None if reference is None else reference.rows)
    if reference is None:
        encoder = table_encoder(data, roles)
        with rows.train.located():
            X_train, n_rows = encoder.fit_transform(train), len(rows.train)
        assumption = Assumption("columns-encoded", {"n_encoded": n_rows, "n_rows": n_rows})
        with rows.test.located():
            return Encoded(X_train, encoder.transform(test) if len(rows.test) else None, None, encoder, assumption)
    encoder = fitted_encoder(data, roles, reference, train.column_names)
    with rows.train.located():
        X_train, X_reference = encoded_training_rows(encoder, train), encoder.transform(reference.rows)
    with rows.test.located():
        X_test = encoder.transform(test) if len(rows.test) else None
    return Encoded(X_train, X_test, X_reference, encoder, encoded_by_reference(reference))


def warn_about_repeats(data: DataChoice, rows: ReadRows, encoded: Encoded) -> None:
    """Warn about ids that occur twice, and about test rows that are training rows."""
    if data.roles is not None and data.roles.id:
        for part, source in ((rows.train, "the training rows"), (rows.test, "the test rows")):
            warn_about_ids(part.ids, data.roles.id, source)
    if data.test is not None:
        labels = (rows.train.labels, rows.test.labels)
        warn_about_training_rows(encoded.train, encoded.test, labels, (data.train, data.test))


@dataclass(frozen=True)
class ReadRows:
    """Training and test rows; `kept` are the numbers of the training labels among all given ones, after a holdout.

    If items have several labels, `crowd` holds them, and `n_given` and `kept` are about them.
    """

    train: Rows
    test: Rows
    n_given: int
    kept: NDArray[np.int64] | None = None
    word_columns: tuple[str, ...] = ()
    crowd: Crowd | None = None


def read_rows(data: DataChoice, choice: ModelChoice, reference: Reference | None, needs_test: bool) -> ReadRows:
    """Read training and test rows, from arrays or tables."""
    if needs_test and (data.test is None) == (data.holdout is None):
        raise InputError("give either ", Parameter("test"), " or ", Parameter("holdout"), ".")
    return _read_arrays(data) if data.roles is None else _read_tables(data, data.roles, choice, reference)


def _read_arrays(data: DataChoice) -> ReadRows:
    if not (isinstance(data.train, tuple) and len(data.train) == 2):
        raise InputError(
            Parameter("train"),
            f": it must be a path, a data frame, a pair (X, y) or RowBlocks. Got {type(data.train).__name__} instead.",
        )
    if isinstance(data.train[1], Annotations):
        return _read_annotated_arrays(data, *data.train)
    X, labels = data.train[0], as_values(data.train[1], "y")
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if labels.shape != (n,):
        raise InputError(
            Parameter("train"),
            f": a pair (X, y) must have one label per row. Got {n} rows and {len(labels)} labels instead.",
        )
    if data.holdout is None:
        return ReadRows(_array_rows(X, labels), array_test_rows(data.test), n)
    from flipproof.tables.roles import held_out

    X, (kept, others) = np.asarray(X), held_out(n, data.holdout, data.seed)
    train, test = (_array_rows(X[part], labels[part], part.tolist()) for part in (kept, others))
    return ReadRows(train, test, n, kept)


def _read_annotated_arrays(data: DataChoice, X: object, annotations: Annotations) -> ReadRows:
    X, crowd = np.asarray(X), Crowd(annotations)
    if len(X) != annotations.n_items:
        raise InputError(
            Parameter("train"), f": annotations of {annotations.n_items} items need as many rows. Got {len(X)} instead."
        )
    labels = annotations.majority()[0]
    if data.holdout is None:
        rows = _array_rows(X, labels), array_test_rows(data.test)
        return ReadRows(*rows, len(annotations), crowd=crowd)
    drawn = crowd.held_out(data.holdout, data.seed)
    train, test = (_array_rows(X[part], labels[part], part.tolist()) for part in (drawn.train, drawn.test))
    return ReadRows(train, test, len(annotations), crowd.numbers_of(drawn.train), crowd=crowd.without_held_out(drawn))


def array_test_rows(test: Source | None) -> Rows:
    """Return test rows given as an array or as a pair (X, y)."""
    if is_path(test) or hasattr(test, "columns"):
        raise InputError(
            Parameter("test"), ": it must be an array or a pair (X, y), because the training rows are not a table."
        )
    X, y = test if isinstance(test, tuple) and len(test) == 2 else (test, None)
    return _array_rows(X, None if y is None else as_values(y, "y"))


def _array_rows(X: object, labels: Values | None, ids: list[Any] | None = None) -> Rows:
    from flipproof.tables.roles import Rows

    features = X if hasattr(X, "shape") else np.asarray(X)
    return Rows(features, labels, list(range(features.shape[0])) if ids is None else ids)


def _read_tables(data: DataChoice, roles: Roles, choice: ModelChoice, reference: Reference | None) -> ReadRows:
    from flipproof.tables.columns import index_columns
    from flipproof.tables.roles import (
        feature_names,
        held_out,
        numbered,
        refuse_copies_of_the_label,
        refuse_words_among_numbers,
        rows_to_predict,
        training_rows,
    )

    table, source, file = _training_table(data, roles, choice, reference)
    crowd = None
    if data.crowd is not None:
        table, crowd = with_crowd(table, data, data.crowd, roles, source)
    index = index_columns(table.schema)
    if reference is None:
        names = feature_names(roles, table.column_names, source, index)
    else:
        names = feature_columns(roles, reference, table.column_names, source, index)
    refuse_copies_of_the_label(table.select(names), table[roles.label], roles.label)
    if reference is None:
        refuse_words_among_numbers(table.select(names), roles, source, file)
    if data.holdout is None:
        train, words = training_rows(table, roles, names, source, file), word_columns(table.schema, roles)
        if data.test is None:
            no_rows = rows_to_predict(table.slice(0, 0), replace(roles, id=None), names, source)
            return ReadRows(train, no_rows, _n_labels(table, crowd), word_columns=words, crowd=crowd)
        test = read_test_rows(data, roles, names, words, train.labels)
        return ReadRows(train, test, _n_labels(table, crowd), word_columns=words, crowd=crowd)
    rows = numbered(table)
    if crowd is not None:
        drawn = crowd.held_out(data.holdout, data.seed)
        train = training_rows(rows.take(drawn.train), roles, names, source, file)
        if crowd.truth is not None:
            rows = rows.set_column(rows.column_names.index(roles.label), roles.label, crowd.truth)
        test = rows_to_predict(rows.take(drawn.test), roles, names, source, train.labels, file)
        words, numbers = word_columns(table.schema, roles), crowd.numbers_of(drawn.train)
        return ReadRows(train, test, len(crowd.annotations), numbers, words, crowd.without_held_out(drawn))
    kept, others = held_out(table.num_rows, data.holdout, data.seed)
    train = training_rows(rows.take(kept), roles, names, source, file)
    test = rows_to_predict(rows.take(others), roles, names, source, file=file)
    return ReadRows(train, test, table.num_rows, kept, word_columns(table.schema, roles))


def _n_labels(table: pa.Table, crowd: Crowd | None) -> int:
    return table.num_rows if crowd is None else len(crowd.annotations)


def word_columns(schema: pa.Schema, roles: Roles) -> tuple[str, ...]:
    """Return the columns that hold words in the training rows, or categories: test files are read accordingly."""
    from flipproof.tables.columns import is_words

    return tuple(field.name for field in schema if is_words(field.type) or field.name in roles.categories)


def _training_table(
    data: DataChoice, roles: Roles, choice: ModelChoice, reference: Reference | None
) -> tuple[pa.Table, str, FileRows | None]:
    if not is_path(data.train):
        return _frame_table(data.train, roles, "train"), "the training table", None
    from flipproof.tables.labels import are_words
    from flipproof.tables.reading import read_file

    path, purposes, as_words = Path(data.train), roles.purposes, list(roles.words)
    if reference is not None:  # what a column holds is decided by the reference
        as_words += [name for name in reference.word_columns if name not in purposes and name != roles.trusted]
    if are_words(choice.classes):  # even if all labels look like numbers
        purposes.pop(roles.label, None)
        as_words.append(roles.label)
    found = read_file(path, data.layout, part="train", as_words=as_words, purposes=purposes)
    return found.table, repr(str(path)), found.rows


def read_test_rows(
    data: DataChoice, roles: Roles, names: Sequence[str], words: Sequence[str], like: object, needs_ids: bool = True
) -> Rows:
    """Read test rows with the features `names`; `words` are read as words, and labels in the type of `like`.

    Test rows need not have the column of ids if `needs_ids` is False, or if that column joins annotations to items.
    """
    from flipproof.tables.reading import read_file
    from flipproof.tables.roles import rows_to_predict

    if not is_path(data.test):
        table, source, file = _frame_table(data.test, roles, "test"), "the test table", None
    else:
        path = Path(data.test)
        purposes = {name: purpose for name, purpose in roles.test_purposes.items() if name not in words}
        found = read_file(path, data.layout, part="test", as_words=list(words), purposes=purposes)
        table, source, file = found.table, repr(str(path)), found.rows
    joins_items = data.crowd is not None and data.crowd.item is not None
    if (joins_items or not needs_ids) and roles.id not in table.column_names:
        roles = replace(roles, id=None)
    return rows_to_predict(table, roles, names, source, like, file)


def _frame_table(given: object, roles: Roles, parameter: str) -> pa.Table:
    """Convert a data frame, or a pair of a data frame and labels, to a table."""
    from flipproof.tables.encoding import as_arrow

    frame, y = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if not hasattr(frame, "columns"):
        raise InputError(
            Parameter(parameter), f": it must be a path or a data frame. Got {type(frame).__name__} instead."
        )
    table = as_arrow(frame)
    if table.num_rows == 0:
        raise InputError(Parameter(parameter), ": it has no rows.")
    if y is None:
        return table
    labels = as_values(y, "y")
    if labels.shape != (table.num_rows,):
        raise InputError(
            Parameter(parameter),
            f": a pair (X, y) must have one label per row. Got {table.num_rows} rows and {len(labels)} labels instead.",
        )
    if roles.label in table.column_names:
        raise InputError(
            Parameter("label"),
            f": {roles.label!r} is already a column. Give the labels only once, or choose another name.",
        )
    return table.append_column(roles.label, column_of(labels.tolist()))


def _trusted_mask(data: DataChoice, choice: ModelChoice, rows: ReadRows) -> NDArray[np.bool_] | None:
    """Return which training labels are trusted, by a column or by the given adversary; None if nobody says."""
    found = adversary_of(data, replace(choice, allowed=()), rows, np.zeros(0))
    return None if found is None or found.trusted is None else np.asarray(found.trusted)


def adversary_of(data: DataChoice, choice: ModelChoice, rows: ReadRows, classes: Values) -> Adversary | None:
    """Combine the given adversary, the columns and the allowed changes, for the training rows after a holdout."""
    given = choice.adversary
    check_adversary(given, rows.n_given)
    if given is not None and rows.kept is not None:
        given = replace(
            given,
            trusted=None if given.trusted is None else given.trusted[rows.kept],
            groups=None if given.groups is None else given.groups[rows.kept],
            window=None if given.window is None else given.window[rows.kept],
        )
    said: dict[str, Any] = {}
    if rows.crowd is not None:
        said |= rows.crowd.limits
        if "window" in said:
            said["length"] = _checked_length(choice.length, said["window"])
    elif data.roles is not None:
        from flipproof.tables.columns import as_mask, as_names

        source = repr(source_name(data.train)) if is_path(data.train) else "the training table"
        if data.roles.trusted:
            with rows.train.located():
                said["trusted"] = as_mask(data.roles.trusted, rows.train.others[data.roles.trusted], source)
        if data.roles.annotator:
            with rows.train.located():
                said["groups"] = as_names(data.roles.annotator, rows.train.others[data.roles.annotator], source)
        if data.roles.window:
            said["window"] = stamps_of(data.roles.window, rows.train.others[data.roles.window])
            said["length"] = _checked_length(choice.length, said["window"])
    return restricted(given, said, choice, classes)


def _checked_length(length: object, stamps: NDArray[Any]) -> object:
    """Return the length of a window, if it goes with the timestamps."""
    try:
        as_length(length, stamps, "it")
    except ValueError as error:
        raise InputError(Parameter("length"), f": {error}") from None
    return length
