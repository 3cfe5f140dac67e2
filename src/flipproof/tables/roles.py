"""Roles of the columns of a table (label, features, row ids, trust, annotators), and rows split by role."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flipproof.errors import InputError, Parameter, nearest
from flipproof.tables.columns import index_columns, index_range, is_words, plain_numbers, type_kind_of_values
from flipproof.tables.labels import label_array, target_array
from flipproof.tables.reading import FileRows
from flipproof.tables.spellings import NUMBER, refuse_strange_words, shortened

WILDCARDS = "*?["

#: Largest number of columns that an error lists.
MOST_COLUMNS_SHOWN = 8

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
    categories : tuple of str
        Columns to treat as categories, even if they hold numbers.
    id : str, optional
        Column with row names.
    trusted : str, optional
        Column that is true for labels that cannot be changed.
    annotator : str, optional
        Column with the annotator of each row.
    window : str, optional
        Column with the timestamp of each label.
    show : tuple of str
        Columns whose contents a report shows, or patterns; features or not.
    by : str, optional
        Column that divides the test rows into groups; a feature or not.
    """

    label: str
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    id: str | None = None
    trusted: str | None = None
    annotator: str | None = None
    window: str | None = None
    show: tuple[str, ...] = ()
    by: str | None = None

    #: Whether the label column holds numeric targets.
    is_number: ClassVar[bool] = False

    @property
    def purposes(self) -> dict[str, str]:
        """Purposes of the columns of training rows that are not features, as an argument of `read_table`."""
        return self._purposes({self.id: "ids", self.annotator: "names", self.label: "label"})

    @property
    def test_purposes(self) -> dict[str, str]:
        """The same for test rows."""
        return self._purposes({self.id: "ids", self.label: "label"})

    def _purposes(self, named: Mapping[str | None, str]) -> dict[str, str]:
        found = {name: purpose for name, purpose in named.items() if name and name not in self.words}
        if self.is_number:  # read like any other column of numbers
            found.pop(self.label, None)
        return found

    @property
    def words(self) -> tuple[str, ...]:
        """Columns that are read as words, even if all of their values are numbers."""
        return *self.text, *self.categories


@dataclass(frozen=True)
class TargetRoles(Roles):
    """Roles of the columns of a table whose label column holds numeric targets."""

    is_number: ClassVar[bool] = True


@dataclass(frozen=True)
class RowPlaces:
    """Where the rows of a table are, for errors.

    Attributes
    ----------
    source : str
        Name of the file or table.
    file : FileRows, optional
        The file; None for data frames.
    numbers : array of shape (n,), optional
        Numbers of the rows in the file, if they were drawn from it.
    ids : list, optional
        Row names, if they have any.
    """

    source: str
    file: FileRows | None = None
    numbers: NDArray[np.int64] | None = None
    ids: list[Any] | None = None

    def named(self, row: int) -> str:
        """Return the line of a row in a text file, or its number, and its id."""
        number = row if self.numbers is None else int(self.numbers[row])
        place = f"row {number}" if self.file is None else self.file.named(number)
        return place if self.ids is None else f"{place} ({self.ids[row]!r})"

    def lines(self, rows: Sequence[int]) -> dict[int, int]:
        """Return the lines of rows in a text file, the first line being 1; without those that are not known."""
        if self.file is None:
            return {}
        numbers = {row: row if self.numbers is None else int(self.numbers[row]) for row in rows}
        found = self.file.lines(set(numbers.values()))
        return {row: found[number] for row, number in numbers.items() if number in found}

    @contextmanager
    def located(self, with_source: bool = False) -> Iterator[None]:
        """Name rows in errors by their places."""
        try:
            yield
        except InputError as error:
            ending = f" of {self.source}" if with_source else ""
            raise error.with_rows(lambda row: self.named(row) + ending) from error


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
        Columns about the labels (trust, annotators), or about groups of test rows.
    places : RowPlaces, optional
        Where the rows are in their file, for errors.
    shown : pyarrow.Table, optional
        Columns whose contents a report shows; None if there are none.
    """

    features: Any
    labels: NDArray[Any] | None
    ids: list[Any]
    others: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)
    places: RowPlaces | None = None
    shown: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Name rows in errors by their places in the file."""
        if self.places is None:
            yield
            return
        with self.places.located(with_source=True):
            yield


def feature_names(roles: Roles, columns: Sequence[str], source: str, index: Collection[str] = ()) -> list[str]:
    """Return the feature columns; raise for columns that do not exist or have two roles.

    Columns of a pandas `index` are left out unless they are named. `source` names the table in errors.
    """
    taken: dict[str, Parameter] = {}
    for role in ("label", "id", "trusted", "annotator", "window"):
        name = getattr(roles, role)
        if not name:
            continue
        shown = "target" if role == "label" and roles.is_number else role
        require_column(name, columns, shown, source)
        if name in taken:
            raise InputError(f"column {name!r} cannot be both ", taken[name], " and ", Parameter(shown), ".")
        taken[name] = Parameter(shown)
    named = (*roles.features, *roles.words)
    matched = (
        [matching_columns(pattern, columns, "features", source) for pattern in named] if roles.features else [columns]
    )
    found = dict.fromkeys(name for names in matched for name in names)
    chosen = [name for name in found if name not in index or name in named]
    for name in named:
        if name in taken:
            kind = taken[name].name if taken[name].name in ("label", "target") else taken[name]
            raise InputError("the ", kind, f" column {name!r} cannot be a feature.")
    for name in roles.text:
        require_column(name, columns, "text", source)
        if name in roles.categories:
            raise InputError(
                f"column {name!r} cannot be both ", Parameter("text"), " and ", Parameter("categories"), "."
            )
    for name in roles.categories:
        require_column(name, columns, "categories", source)
    dropped = dropped_columns(roles, columns, source)
    names = [name for name in chosen if name not in taken and name not in dropped]
    if not names:
        raise ValueError(f"{source} has no feature columns left.")
    return names


def dropped_columns(roles: Roles, columns: Sequence[str], source: str) -> set[str]:
    """Return the columns to leave out; raise for columns that do not exist."""
    return {name for pattern in roles.drop for name in matching_columns(pattern, columns, "drop", source)}


def require_column(name: str, columns: Sequence[str], parameter: str, source: str) -> None:
    """Raise InputError if a column does not exist, and suggest a similar name."""
    if name not in columns:
        raise InputError(Parameter(parameter), f": {source} has no column {name!r}.", *_instead(name, columns))


def _instead(name: str, columns: Sequence[str]) -> list[str | Parameter]:
    """Return the end of an error: a similar name, all columns if they are few, and what may be wrong with them."""
    shown = [shortened(one) for one in columns if not one.startswith(ROW_NUMBER)]
    said: list[str | Parameter] = [nearest(name, columns)]
    if len(shown) == 1:
        return [*said, f" Its only column is {shown[0]}: is ", Parameter("separator", of_layout=True), " right?"]
    if len(shown) <= MOST_COLUMNS_SHOWN:
        said.append(f" It has {', '.join(shown)}.")
    elif not said[0]:  # labels are often in the last column
        first, last = shown[: MOST_COLUMNS_SHOWN // 2], shown[-MOST_COLUMNS_SHOWN // 2 :]
        said.append(f" It has {len(shown)} columns: {', '.join([*first, '...', *last])}.")
    if shown and all(NUMBER.fullmatch(one.strip("'")) for one in shown):
        said += [" If the first line is a row, give ", Parameter("header", "False", of_layout=True), "."]
    return said


def matching_columns(pattern: str, columns: Sequence[str], parameter: str, source: str) -> list[str]:
    """Return the columns that a name or a pattern means; raise if there are none."""
    found = _found(pattern, columns)
    if not found:
        require_column(pattern, columns, parameter, source)
    return found


def _found(pattern: str, columns: Sequence[str]) -> list[str]:
    """Return the columns that a name or a pattern means."""
    if pattern in columns:
        return [pattern]
    return fnmatch.filter(columns, pattern) if any(sign in pattern for sign in WILDCARDS) else []


def shown_columns(roles: Roles, columns: Sequence[str], source: str) -> list[str]:
    """Return the columns whose contents a report shows; raise for columns that do not exist."""
    known = [name for name in columns if name != ROW_NUMBER]
    return [name for pattern in roles.show for name in matching_columns(pattern, known, "show", source)]


def _shown(table: pa.Table, names: Sequence[str]) -> pa.Table | None:
    return table.select([name for name in dict.fromkeys(names) if name != ROW_NUMBER]) if names else None


def refuse_copies_of_the_label(features: pa.Table, labels: pa.ChunkedArray, label: str) -> None:
    """Raise ValueError if a feature is a copy of the label: it would not change when the label is changed."""
    for name in features.column_names:
        if _is_copy(features[name], labels):
            raise ValueError(f"column {name!r} is a copy of the label column {label!r}: drop it.")


def refuse_words_among_numbers(features: pa.Table, roles: Roles, source: str, file: FileRows | None = None) -> None:
    """Raise InputError if most values of a column of words are numbers: a few words must not decide what it holds."""
    for name in features.column_names:
        if name not in roles.words and is_words(features[name].type):
            with RowPlaces(source, file).located(with_source=True):
                refuse_strange_words(name, features[name], None if file is None else file.decimal)


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


def training_rows(
    table: pa.Table, roles: Roles, names: Sequence[str], source: str, file: FileRows | None = None
) -> Rows:
    """Split training rows by role; `names` are the feature columns."""
    others = {name: table[name] for name in (roles.trusted, roles.annotator, roles.window) if name}
    places = _places(table, roles, source, file)
    with places.located():
        labels = _labels(table, roles, source)
    shown = _shown(table, shown_columns(roles, table.column_names, source))
    return Rows(table.select(list(names)), labels, _ids(table, roles), others, places, shown)


def _labels(table: pa.Table, roles: Roles, source: str, like: Any = None, optional: bool = False) -> Any:
    """Return the labels, or the numeric targets."""
    column = table[roles.label]
    if roles.is_number:
        return target_array(column, roles.label, source, optional=optional)
    return label_array(column, roles.label, source, like=like, optional=optional)


def rows_to_predict(
    table: pa.Table,
    roles: Roles,
    names: Sequence[str],
    source: str,
    train_labels: object = None,
    file: FileRows | None = None,
) -> Rows:
    """Split test rows by role; labels are optional and are converted to the type of the training labels."""
    columns = table.column_names
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(
            f"{source} has no column {missing[0]!r}, which the training rows have."
            f"{nearest(missing[0], set(columns) - set(names))}"
        )
    if roles.id:
        require_column(roles.id, columns, "id", source)
    if roles.by:
        require_column(roles.by, columns, "by", source)
    labels, places = None, _places(table, roles, source, file)
    if roles.label in columns:
        with places.located():
            labels = _labels(table, roles, source, like=train_labels, optional=True)
    shown = [name for pattern in roles.show for name in _found(pattern, columns)]
    others = {roles.by: table[roles.by]} if roles.by else {}
    return Rows(table.select(list(names)), labels, _ids(table, roles), others, places, _shown(table, shown))


def _places(table: pa.Table, roles: Roles, source: str, file: FileRows | None) -> RowPlaces:
    numbers = table[ROW_NUMBER].to_numpy() if ROW_NUMBER in table.column_names else None
    return RowPlaces(source, file, numbers, _ids(table, roles) if roles.id else None)


def _ids(table: pa.Table, roles: Roles) -> list[Any]:
    """Return the names of rows: a column, the index of a pandas frame, or their numbers."""
    if roles.id in table.column_names:
        return list(table[roles.id].to_pylist())
    index = index_columns(table.schema)
    if index and not {roles.label, roles.trusted, roles.annotator} & set(index):
        levels = [table[name].to_pylist() for name in index]
        return levels[0] if len(levels) == 1 else [", ".join(map(str, names)) for names in zip(*levels, strict=True)]
    numbers = table[ROW_NUMBER].to_numpy() if ROW_NUMBER in table.column_names else np.arange(table.num_rows)
    start, step = index_range(table.schema)
    return list((start + step * numbers).tolist())
