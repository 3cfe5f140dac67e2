"""Roles of the columns of a table (label, features, row ids, trust, annotators), and rows split by role."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flipproof.errors import InputError, Parameter, nearest
from flipproof.tables.columns import plain_numbers, type_kind_of_values
from flipproof.tables.labels import label_array

WILDCARDS = "*?["

#: Column of row numbers, added before rows are drawn from a table.
ROW_NUMBER = "\0row"


@dataclass(frozen=True)
class Roles:
    """Roles of the columns of a table.

    Attributes
    ----------
    label : str
        Label column.
    features : tuple of str
        Columns to learn from, or patterns such as ``emb_*``. If empty, all columns without another role.
    drop : tuple of str
        Columns to leave out, or patterns.
    text : tuple of str
        Columns to treat as text, not as categories.
    id : str, optional
        Column with row names.
    trusted : str, optional
        Column that is true for labels that cannot be changed.
    annotator : str, optional
        Column with the annotator of each row.
    window : str, optional
        Column with the timestamp of each label.
    """

    label: str
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    id: str | None = None
    trusted: str | None = None
    annotator: str | None = None
    window: str | None = None

    @property
    def purposes(self) -> dict[str, str]:
        """Purposes of the columns of training rows that are not features, as an argument of `read_table`."""
        return self._purposes({self.id: "ids", self.annotator: "names", self.label: "label"})

    @property
    def test_purposes(self) -> dict[str, str]:
        """The same for test rows."""
        return self._purposes({self.id: "ids", self.label: "label"})

    def _purposes(self, named: Mapping[str | None, str]) -> dict[str, str]:
        return {name: purpose for name, purpose in named.items() if name and name not in self.text}


@dataclass(frozen=True)
class Rows:
    """Rows of a table: features, labels, ids and other columns.

    Attributes
    ----------
    features : pyarrow.Table or array of shape (n, k)
        Features.
    labels : array of shape (n,), optional
        Labels.
    ids : list
        Row names.
    others : mapping of str to columns
        Columns about the labels (trust, annotators), which are not features.
    """

    features: Any
    labels: NDArray[Any] | None
    ids: list[Any]
    others: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


def feature_names(roles: Roles, columns: Sequence[str], source: str, index: Collection[str] = ()) -> list[str]:
    """Return the feature columns; raise for columns that do not exist or have two roles.

    Columns of a pandas `index` are left out unless they are named. `source` names the table in errors.
    """
    taken: dict[str, Parameter] = {}
    for role in ("label", "id", "trusted", "annotator", "window"):
        name = getattr(roles, role)
        if not name:
            continue
        require_column(name, columns, role, source)
        if name in taken:
            raise InputError(f"column {name!r} cannot be both ", taken[name], " and ", Parameter(role), ".")
        taken[name] = Parameter(role)
    named = (*roles.features, *roles.text)
    wanted = named if roles.features else columns
    found = dict.fromkeys(name for pattern in wanted for name in _matching(pattern, columns, "features", source))
    chosen = [name for name in found if name not in index or name in named]
    for name in named:
        if name in taken:
            kind = "label" if taken[name].name == "label" else taken[name]
            raise InputError("the ", kind, f" column {name!r} cannot be a feature.")
    for name in roles.text:
        require_column(name, columns, "text", source)
    dropped = dropped_columns(roles, columns, source)
    names = [name for name in chosen if name not in taken and name not in dropped]
    if not names:
        raise ValueError(f"{source} has no feature columns left.")
    return names


def dropped_columns(roles: Roles, columns: Sequence[str], source: str) -> set[str]:
    """Return the columns to leave out; raise for columns that do not exist."""
    return {name for pattern in roles.drop for name in _matching(pattern, columns, "drop", source)}


def require_column(name: str, columns: Sequence[str], parameter: str, source: str) -> None:
    """Raise InputError if a column does not exist, and suggest a similar name."""
    if name not in columns:
        raise InputError(Parameter(parameter), f": {source} has no column {name!r}.{nearest(name, columns)}")


def _matching(pattern: str, columns: Sequence[str], parameter: str, source: str) -> list[str]:
    if pattern in columns:
        return [pattern]
    found = fnmatch.filter(columns, pattern) if any(sign in pattern for sign in WILDCARDS) else []
    if not found:
        require_column(pattern, columns, parameter, source)
    return found


def refuse_copies_of_the_label(features: pa.Table, labels: pa.ChunkedArray, label: str) -> None:
    """Raise ValueError if a feature is a copy of the label: it would not change when the label is changed."""
    for name in features.column_names:
        if _is_copy(features[name], labels):
            raise ValueError(f"column {name!r} is a copy of the label column {label!r}: drop it.")


def _is_copy(feature: pa.ChunkedArray, labels: pa.ChunkedArray) -> bool:
    """Whether a column equals the labels, in the same type or another."""
    if feature.type == labels.type:
        return bool(feature.equals(labels))
    numeric = ("numbers", "booleans")
    if not all(type_kind_of_values(one.type) in numeric for one in (feature, labels)):
        return False
    return bool(np.array_equal(plain_numbers(feature), plain_numbers(labels)))


def held_out(n_rows: int, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of training and test rows, drawn at random without using labels."""
    n_test = round(share * n_rows)
    if not 0 < n_test < n_rows:
        raise InputError(Parameter("holdout"), f": {share:g} of {n_rows} rows leaves no training rows or no test rows.")
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def numbered(table: pa.Table) -> pa.Table:
    """Add row numbers to a table, so that drawn rows keep their numbers."""
    return table.append_column(ROW_NUMBER, [np.arange(table.num_rows)])


def training_rows(table: pa.Table, roles: Roles, names: Sequence[str], source: str) -> Rows:
    """Split training rows by role; `names` are the feature columns."""
    others = {name: table[name] for name in (roles.trusted, roles.annotator, roles.window) if name}
    labels = label_array(table[roles.label], roles.label, source)
    return Rows(table.select(list(names)), labels, _ids(table, roles), others)


def rows_to_predict(table: pa.Table, roles: Roles, names: Sequence[str], source: str, train_labels: Any = None) -> Rows:
    """Split test rows by role; labels are optional and are converted to the type of the training labels."""
    columns = table.column_names
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(
            f"{source} has no column {missing[0]!r}, which the training rows have."
            f"{nearest(missing[0], set(columns) - set(names))}"
        )
    labels = None
    if roles.label in columns:
        labels = label_array(table[roles.label], roles.label, source, like=train_labels, optional=True)
    if roles.id:
        require_column(roles.id, columns, "id", source)
    return Rows(table.select(list(names)), labels, _ids(table, roles))


def _ids(table: pa.Table, roles: Roles) -> list[Any]:
    column = roles.id or ROW_NUMBER
    return list(table[column].to_pylist()) if column in table.column_names else list(range(table.num_rows))
