"""Which column of a table is what: label, features, row ids, trust, annotators; and rows taken apart accordingly."""

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

#: Column of row numbers, added to rows that are drawn from a table.
ROW_NUMBER = "\0row"


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are for.

    Attributes
    ----------
    label : str
        Column of labels.
    features : tuple of str
        Columns to learn from, or patterns such as ``emb_*``. If empty, all that have no other role.
    drop : tuple of str
        Columns to leave out, or patterns.
    text : tuple of str
        Columns to read as text, not as categories.
    id : str, optional
        Column that names the rows.
    trusted : str, optional
        Column that says whose labels nobody can change.
    annotator : str, optional
        Column that says who labelled each row.
    """

    label: str
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    id: str | None = None
    trusted: str | None = None
    annotator: str | None = None

    @property
    def purposes(self) -> dict[str, str]:
        """What columns of a file of training rows are for that are no features, as `read_table` takes it."""
        return self._purposes({self.id: "ids", self.annotator: "names", self.label: "label"})

    @property
    def test_purposes(self) -> dict[str, str]:
        """The same for a file of test rows."""
        return self._purposes({self.id: "ids", self.label: "label"})

    def _purposes(self, named: Mapping[str | None, str]) -> dict[str, str]:
        return {name: purpose for name, purpose in named.items() if name and name not in self.text}


@dataclass(frozen=True)
class Rows:
    """Rows of a table, with what is known of them besides their features.

    Attributes
    ----------
    features : pyarrow.Table or array of shape (n, k)
        What to learn from.
    labels : array of shape (n,), optional
        Their labels.
    ids : list
        What the rows are called.
    others : mapping of str to columns
        Columns that say something about the labels, and are no features.
    """

    features: Any
    labels: NDArray[Any] | None
    ids: list[Any]
    others: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


def feature_names(roles: Roles, columns: Sequence[str], source: str, index: Collection[str] = ()) -> list[str]:
    """Return the columns to learn from, and refuse names that are not there or have two roles.

    Columns of an `index`, which pandas does not regard as columns, are left out unless somebody names them. `source`
    is where the columns are from, for errors.
    """
    taken: dict[str, Parameter] = {}
    for role in ("label", "id", "trusted", "annotator"):
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
            raise InputError("the ", kind, f" column {name!r} is among the features: it cannot be learnt from.")
    for name in roles.text:
        require_column(name, columns, "text", source)
    dropped = dropped_columns(roles, columns, source)
    names = [name for name in chosen if name not in taken and name not in dropped]
    if not names:
        raise ValueError(f"no column of {source} is left to learn from.")
    return names


def dropped_columns(roles: Roles, columns: Sequence[str], source: str) -> set[str]:
    """Return the columns to leave out, and refuse names that are not there."""
    return {name for pattern in roles.drop for name in _matching(pattern, columns, "drop", source)}


def require_column(name: str, columns: Sequence[str], parameter: str, source: str) -> None:
    """Refuse a column that is not there, and name the one that may have been meant."""
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
    """Refuse a feature that is the label once more: it would not change with the label."""
    for name in features.column_names:
        if _is_copy(features[name], labels):
            raise ValueError(f"column {name!r} is a copy of the label column {label!r}: leave it out.")


def _is_copy(feature: pa.ChunkedArray, labels: pa.ChunkedArray) -> bool:
    """Whether a column holds the labels, in their type or in another one."""
    if feature.type == labels.type:
        return bool(feature.equals(labels))
    numeric = ("numbers", "booleans")
    if not all(type_kind_of_values(one.type) in numeric for one in (feature, labels)):
        return False
    return bool(np.array_equal(plain_numbers(feature), plain_numbers(labels)))


def held_out(n_rows: int, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to learn from and those to predict, drawn at random and without a look at the labels."""
    n_test = round(share * n_rows)
    if not 0 < n_test < n_rows:
        raise InputError(
            Parameter("holdout"), f": {share:g} of {n_rows} rows leaves none to learn from, or none to predict."
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def numbered(table: pa.Table) -> pa.Table:
    """Return a table whose rows keep their numbers when some of them are taken."""
    return table.append_column(ROW_NUMBER, [np.arange(table.num_rows)])


def training_rows(table: pa.Table, roles: Roles, names: Sequence[str], source: str) -> Rows:
    """Take training rows apart; `names` are the columns to learn from."""
    others = {name: table[name] for name in (roles.trusted, roles.annotator) if name}
    labels = label_array(table[roles.label], roles.label, source)
    return Rows(table.select(list(names)), labels, _ids(table, roles), others)


def rows_to_predict(table: pa.Table, roles: Roles, names: Sequence[str], source: str, train_labels: Any = None) -> Rows:
    """Take test rows apart; their labels are optional, and become of the type of the training labels."""
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
