"""The reference: rows that nobody may have changed, from which everything except the votes is learned (M12).

Its columns decide which columns are features, what they hold, and how they are encoded. The training rows decide none
of it: a row that is added to them, removed or replaced cannot change how any other row is encoded.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.assumptions import Assumption
from flipproof.core.rounding import Values
from flipproof.errors import InputError, Parameter, nearest
from flipproof.fitting.choices import DataChoice, ModelChoice, table_encoder
from flipproof.fitting.sources import is_path
from flipproof.values import as_values

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.tables import TableEncoder
    from flipproof.tables.reading import FileRows
    from flipproof.tables.roles import Roles

REFERENCE = Parameter("reference")

#: Fewest rows from which a geometry can be learned.
FEWEST_ROWS = 2


@dataclass(frozen=True)
class Reference:
    """The rows of a reference.

    Attributes
    ----------
    rows : pyarrow.Table or array of shape (r, k)
        All columns as given, or features.
    source : str
        Their name in errors.
    file : FileRows, optional
        Their file.
    labels : array of shape (r,), optional
        Trusted labels of these rows, as given; read only if they were asked for.
    """

    rows: Any
    source: str
    file: FileRows | None = None
    labels: NDArray[Any] | None = None

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def word_columns(self) -> list[str]:
        """Columns that hold words; they hold words in all other files, too."""
        from flipproof.tables.columns import is_words

        return [field.name for field in self.rows.schema if is_words(field.type)]


def read_reference(data: DataChoice) -> Reference | None:
    """Read the reference, if there is one."""
    given = data.reference
    if given is None:
        return None
    if data.roles is None:
        reference = _read_pair(given) if data.reference_labels else _read_array(given)
    else:
        reference = _read_table(data, data.roles)
    if len(reference) < FEWEST_ROWS:
        raise InputError(
            REFERENCE, f": {reference.source} has {len(reference)} row, but at least {FEWEST_ROWS} are required."
        )
    return reference


def _read_table(data: DataChoice, roles: Roles) -> Reference:
    from flipproof.tables.encoding import as_arrow
    from flipproof.tables.reading import read_file

    if is_path(data.reference):
        path = Path(data.reference)
        purposes = _label_purpose(roles) if data.reference_labels else {}
        found = read_file(path, data.layout, part="reference", as_words=roles.words, purposes=purposes)
        return _with_labels(Reference(found.table, repr(str(path)), found.rows), data, roles)
    if not hasattr(data.reference, "columns"):
        raise InputError(
            REFERENCE,
            f": it must be a path or a data frame, as the training rows are. Got {type(data.reference).__name__} "
            "instead.",
        )
    return _with_labels(Reference(as_arrow(data.reference), "the reference"), data, roles)


def _label_purpose(roles: Roles) -> dict[str, str]:
    return {name: purpose for name, purpose in roles.purposes.items() if name == roles.label}


def _with_labels(reference: Reference, data: DataChoice, roles: Roles) -> Reference:
    """Read the labels of a reference, if they are to be trusted; all of its rows need one."""
    if not data.reference_labels:
        return reference
    from flipproof.tables.labels import label_array
    from flipproof.tables.roles import RowPlaces, require_column

    require_column(roles.label, reference.rows.column_names, "reference_labels", reference.source)
    with RowPlaces(reference.source, reference.file).located(with_source=True):
        labels = label_array(reference.rows[roles.label], roles.label, reference.source)
    return replace(reference, labels=labels)


def typed_reference_labels(reference: Reference | None, name: str, like: Values) -> NDArray[Any] | None:
    """Return the trusted labels of a reference in the type of the training labels; None if there are none."""
    if reference is None or reference.labels is None:
        return None
    from flipproof.tables.labels import labels_like

    return labels_like(reference.labels, like, name, reference.source)


def _read_pair(given: object) -> Reference:
    """Read a reference with labels, given as a pair of arrays."""
    if not (isinstance(given, tuple) and len(given) == 2):
        raise InputError(
            Parameter("reference_labels"),
            " requires a pair (X, y) as ",
            REFERENCE,
            f", because the training rows are not a table. Got {type(given).__name__} instead.",
        )
    reference, labels = _read_array(given[0]), as_values(given[1], "reference_labels")
    if labels.shape != (len(reference),):
        raise InputError(
            REFERENCE,
            f": a pair (X, y) must have one label per row. Got {len(reference)} rows and {len(labels)} labels instead.",
        )
    return replace(reference, labels=labels)


def _read_array(given: object) -> Reference:
    if is_path(given) or hasattr(given, "columns") or isinstance(given, tuple):
        raise InputError(
            REFERENCE,
            f": it must be an array, because the training rows are not a table. Got {type(given).__name__} instead.",
        )
    rows = given if hasattr(given, "shape") else np.asarray(given)
    if len(rows.shape) < 2:
        raise InputError(REFERENCE, f": it must have rows and columns. Got an array of shape {rows.shape} instead.")
    return Reference(rows, "the reference")


def check_array_reference(reference: Reference, learner: Any, X_train: Any = None) -> None:
    """Raise InputError if an array differs in width from training rows in memory, or has numbers that no learner takes.

    The width of training rows in blocks is known only after a visit to them: `fit` compares it.
    """
    rows = reference.rows
    if X_train is not None and rows.shape[1:] != X_train.shape[1:]:
        raise InputError(
            REFERENCE,
            f": rows of the reference have shape {rows.shape[1:]}, but training rows have shape {X_train.shape[1:]}.",
        )
    is_numeric = isinstance(rows, np.ndarray) and rows.dtype.kind == "f"
    if learner.features is None and is_numeric and not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(REFERENCE, f": row {row} has missing or infinite numbers.")


def feature_columns(
    roles: Roles, reference: Reference, columns: Sequence[str], source: str, index: Collection[str] = ()
) -> list[str]:
    """Return the feature columns: those of the reference, which must be those of the training rows.

    Parameters
    ----------
    roles : Roles
        Roles of the columns. Label, ids, trust and annotators may be missing in the reference, and are ignored there.
    reference : Reference
        The reference.
    columns, source, index
        Columns of the training rows, the name of their table, and those of its columns that are a pandas index.
    """
    from flipproof.tables.columns import index_columns
    from flipproof.tables.roles import dropped_columns, feature_names

    there = reference.rows.column_names
    dropped = dropped_columns(roles, [*there, *(name for name in columns if name not in there)], source)

    def chosen(in_table: Sequence[str], called: str, of_index: Collection[str], **others: Any) -> list[str]:
        own = replace(roles, drop=tuple(name for name in in_table if name in dropped), **others)
        return feature_names(own, in_table, called, of_index)

    training = chosen(columns, source, index)
    absent = {
        role: ""
        for role in ("label", "id", "trusted", "annotator", "window")
        if getattr(roles, role) and getattr(roles, role) not in there
    }
    names = chosen(there, reference.source, index_columns(reference.rows.schema), **absent)
    _check_same(names, training, source, reference.source)
    _check_same(training, names, reference.source, source)
    return names


def _check_same(wanted: list[str], found: list[str], source: str, other: str) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        similar = nearest(missing[0], set(found) - set(wanted))
        raise InputError(
            f"{source} has no feature column {missing[0]!r}, but {other} has.{similar} Leave it out with ",
            Parameter("drop"),
            ", or select the columns with ",
            Parameter("features"),
            ".",
        )


def fitted_encoder(data: DataChoice, roles: Roles, reference: Reference, names: Sequence[str]) -> TableEncoder:
    """Return an encoder of the columns that has learned from the reference alone."""
    from flipproof.tables.roles import RowPlaces, refuse_words_among_numbers

    rows = reference.rows.select(list(names))
    try:
        refuse_words_among_numbers(rows, roles, reference.source, reference.file)
        with RowPlaces(reference.source, reference.file).located():
            return table_encoder(data, roles).fit(rows)
    except InputError as error:
        raise InputError("in the reference, ", *error.args) from error
    except ValueError as error:
        raise ValueError(f"in the reference, {error}") from error


def encoded_training_rows(encoder: TableEncoder, rows: pa.Table) -> Any:
    """Return training rows as the reference encodes them; refuse columns that hold something else than there."""
    encoder.check_columns(rows, "the training rows", "the reference", strictly=True)
    try:
        return encoder.transform(rows)
    except InputError as error:
        raise InputError("in the training rows, ", *error.args) from error
    except ValueError as error:
        raise ValueError(f"in the training rows, {error}") from error


def encoded_by_reference(reference: Reference) -> Assumption:
    """Return the assumption about columns that were encoded by the reference."""
    return Assumption("columns-encoded-by-reference", {"n_reference": len(reference)})


def check_takes_reference(choice: ModelChoice, model: Any) -> None:
    """Raise InputError if a learner cannot be fitted with a reference."""
    if hasattr(model, "steps"):
        raise InputError(
            REFERENCE,
            ": a Pipeline fits its steps to the training rows. Give the learner itself, with the steps as its ",
            Parameter("features", of_learner=True),
            ".",
        )
    if "reference" not in inspect.signature(model.fit).parameters:
        raise InputError(Parameter("learner", choice.name), " cannot be fitted with ", REFERENCE, ".")
