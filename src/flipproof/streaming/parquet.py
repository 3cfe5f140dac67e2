"""Rows of Parquet files: the footers are checked first, then each task reads a row group; needs pyarrow."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow.parquet import ColumnChunkMetaData, FileMetaData, ParquetFile

from flipproof.streaming.arrays import PARQUET, Paths, found_files
from flipproof.streaming.blocks import Block, made_features, rows_at_a_time, rows_in_words
from flipproof.tables.columns import (
    as_labels,
    as_mask,
    as_names,
    index_columns,
    plain_numbers,
    plain_vectors,
    type_kind,
    type_kind_of_values,
)
from flipproof.tables.labels import column_of_targets

#: Longest part of a pyarrow error that is repeated, in characters.
LONGEST_REASON = 200


@dataclass(frozen=True)
class Footer:
    """The footer of a file.

    Attributes
    ----------
    path : str
        The file.
    schema : pyarrow.Schema
        Names and types of its columns.
    metadata : pyarrow.parquet.FileMetaData
        Its row groups.
    """

    path: str
    schema: pa.Schema
    metadata: FileMetaData

    @staticmethod
    def read(path: str) -> Footer:
        """Read the footer of a file, and refuse duplicate column names."""
        try:
            with ParquetFile(path) as file:
                footer = Footer(path, file.schema_arrow, file.metadata)
        except (pa.ArrowException, OSError) as error:
            raise read_failure(path, error) from error
        names = footer.schema.names
        twice = named_twice(names)
        if twice is not None:
            raise ValueError(f"{path!r} has more than one column called {twice!r}.")
        return footer

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a column; for a dictionary, the type of its values."""
        kind = self.schema.field(name).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def kind_of(self, name: str) -> str:
        """Return what a column holds, or its type if it cannot be a feature."""
        kind = self.type_of(name)
        try:
            return type_kind(name, kind)
        except ValueError:
            return "nothing" if pa.types.is_null(kind) else type_kind_of_values(kind) or str(kind)


def named_twice(names: Sequence[str]) -> str | None:
    """Return a name that occurs more than once, if there is one."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def read_failure(path: str, error: BaseException) -> OSError:
    """Return a one-line error for an error of pyarrow."""
    reason = " ".join(str(error).split()).rstrip(".")
    return OSError(f"cannot read {path!r} as Parquet: {reason[:LONGEST_REASON]}.")


def all_index_columns(footers: Sequence[Footer]) -> set[str]:
    """Return the columns that are the index of a pandas data frame in any of the files."""
    return {name for footer in footers for name in index_columns(footer.schema)}


def check_same_columns(
    footers: Sequence[Footer], names: Sequence[str], features: Sequence[str], besides: Collection[str] | None = None
) -> None:
    """Refuse files that lack a column of the first file, or in which it is of another kind.

    Parameters
    ----------
    footers : sequence of Footer
        All files.
    names : sequence of str
        Columns to be read.
    features : sequence of str
        The feature columns among them, for which booleans count as numbers.
    besides : collection of str, optional
        Other columns that a file may have; any by default.
    """
    first, wanted, numeric = footers[0], set(names), set(features)
    kinds: dict[str, tuple[str, str]] = {}
    for footer in footers:
        there = set(footer.schema.names)
        for name in names:
            if name not in there:
                raise ValueError(_missing(name, footer, first))
            kind = footer.kind_of(name)
            if kind == "nothing":  # no row of the file has a value, so it may be of any kind
                continue
            known, path = kinds.setdefault(name, (kind, footer.path))
            alike = {kind, known} == {"numbers", "booleans"} and name in numeric
            if kind != known and not alike:
                raise ValueError(f"column {name!r} holds {kind} in {footer.path!r}, but {known} in {path!r}.")
        more = [] if besides is None else sorted(there - wanted - set(besides))
        if more:
            raise ValueError(
                f"{footer.path!r} has a column {more[0]!r}, which {first.path!r} does not have: "
                "name the columns to be read with features=[...]."
            )
    for name in features:
        if name not in kinds:
            raise ValueError(f"column {name!r} of {first.path!r} has no values: leave it out.")


def check_numeric(footers: Sequence[Footer], features: Sequence[str]) -> None:
    """Refuse features that are neither numbers nor vectors of numbers."""
    for footer in footers:
        for name in features:
            kind = footer.type_of(name)
            if pa.types.is_null(kind):
                continue
            try:
                held = type_kind(name, kind)
            except ValueError as error:
                raise ValueError(f"{footer.path!r}: {error}") from None
            if held == "vectors" and not (
                pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
            ):
                held = f"vectors of {kind.value_type}"
            if held not in ("numbers", "booleans", "vectors"):
                raise ValueError(
                    f"column {name!r} of {footer.path!r} holds {held}, not numbers: leave it out, or convert it to "
                    "numbers, for example with encode=TableEncoder().fit(some_rows).transform."
                )


def all_narrow(footers: Sequence[Footer], features: Sequence[str]) -> bool:
    """Whether float32 holds all features exactly: floats of at most 32 bits, with or without booleans."""
    types = [footer.type_of(name) for footer in footers for name in features]
    inner = [kind.value_type if pa.types.is_nested(kind) else kind for kind in types]
    narrow = [kind for kind in inner if pa.types.is_float32(kind) or pa.types.is_float16(kind)]
    others = [kind for kind in inner if pa.types.is_boolean(kind) or pa.types.is_null(kind)]
    return bool(narrow) and len(narrow) + len(others) == len(inner)


def vector_lengths(footers: Sequence[Footer], features: Sequence[str]) -> dict[str, int]:
    """Return the lengths of the vectors of columns, as far as the footers contain them.

    Raises
    ------
    ValueError
        If a length is not the same in all files.
    """
    lengths: dict[str, tuple[int, str]] = {}
    for footer in footers:
        for name in features:
            for length in _lengths_in(footer, name):
                known, path = lengths.setdefault(name, (length, footer.path))
                if length != known:
                    where = f"{known} in {path!r}" if path != footer.path else f"{known} in another of its row groups"
                    raise ValueError(
                        f"column {name!r} holds vectors of {length} numbers in {footer.path!r}, but of {where}."
                    )
    return {name: length for name, (length, _) in lengths.items()}


def vector_columns(footers: Sequence[Footer], features: Sequence[str]) -> list[str]:
    """Return the columns that hold vectors in any of the files."""
    return [name for name in features if any(pa.types.is_nested(footer.type_of(name)) for footer in footers)]


def width_at_most(footers: Sequence[Footer], features: Sequence[str]) -> int:
    """Return about how many numbers the widest row has."""
    vectors = vector_columns(footers, features)
    longest = dict.fromkeys(vectors, 1)
    for footer in footers:
        for name in vectors:
            lengths = [-(-chunk.num_values // n_rows) for chunk, n_rows in _chunks(footer, name)]
            longest[name] = max([longest[name], *lengths])
    return len(features) - len(vectors) + sum(longest.values())


def _lengths_in(footer: Footer, name: str) -> list[int]:
    """Return the lengths of vectors in a file that are certain, because no number is missing."""
    kind = footer.type_of(name)
    if pa.types.is_fixed_size_list(kind):
        return [kind.list_size]
    if not pa.types.is_nested(kind):
        return []
    chunks = _chunks(footer, name)
    certain = [(chunk, n_rows) for chunk, n_rows in chunks if _is_complete(chunk) and chunk.num_values % n_rows == 0]
    return [chunk.num_values // n_rows for chunk, n_rows in certain]


def _chunks(footer: Footer, name: str) -> list[tuple[ColumnChunkMetaData, int]]:
    """Return the column chunks of a column of vectors in all non-empty row groups, with their numbers of rows."""
    leaves = [i for i in range(footer.metadata.num_columns) if _is_list(footer.metadata.schema.column(i).path, name)]
    groups = [footer.metadata.row_group(number) for number in range(footer.metadata.num_row_groups)]
    return [(group.column(i), group.num_rows) for group in groups if group.num_rows for i in leaves]


def _is_complete(chunk: ColumnChunkMetaData) -> bool:
    known = chunk.statistics
    return known is not None and known.has_null_count and known.null_count == 0


def _is_list(path: str, name: str) -> bool:
    """Whether the path of a stored column is that of a list, 'name.list.element'; a name may contain dots."""
    return path.startswith(f"{name}.") and path.count(".") == name.count(".") + 2


def _missing(name: str, footer: Footer, first: Footer) -> str:
    if footer is first:
        names = ", ".join(map(repr, first.schema.names[:10])) + (", ..." if len(first.schema.names) > 10 else "")
        return f"{first.path!r} has no column {name!r}; its columns are {names}."
    return f"{footer.path!r} has no column {name!r}, which {first.path!r} has."


#: Bytes of each column that are read at a time: limits memory for large row groups and for thousands of columns.
READ_AT_A_TIME = 2**16

#: Rows that are encoded at a time. The number of encoded columns is unknown; with a thousand it is a full block.
ROWS_TO_ENCODE = 2**13


@dataclass(frozen=True)
class Reading:
    """What is read from each row, and how.

    Attributes
    ----------
    features : tuple of str
        Columns of features.
    label, trusted, groups : str
        Other columns; None if there are none.
    width : int
        Approximate number of features of a row.
    encode : callable, optional
        Converts a table of the features to numbers.
    dtype : dtype
        Type of features that are not encoded.
    lengths : mapping of int
        Length of the vectors of a column, if known.
    is_numeric : bool
        Whether labels are numbers, the targets of a regressor.
    """

    features: tuple[str, ...]
    label: str
    trusted: str | None
    groups: str | None
    width: int
    encode: Callable[[pa.Table], Any] | None = None
    dtype: type[np.float32] | type[np.float64] = np.float64
    lengths: Mapping[str, int] = field(default_factory=dict)
    is_numeric: bool = False

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [*self.features, *(one for one in (self.label, self.trusted, self.groups) if one is not None)]

    @property
    def batch_size(self) -> int:
        """Rows that are read at a time."""
        size = rows_at_a_time(self.width)
        return size if self.encode is None else min(size, ROWS_TO_ENCODE)

    def block(self, table: pa.Table, path: str, first_row: int) -> Block:
        """Return rows of a file as a block."""
        source, name = repr(path), f"{path!r}, {rows_in_words(first_row, table.num_rows)}"
        return Block(
            name,
            self._numbers(table, name),
            (column_of_targets if self.is_numeric else as_labels)(self.label, table[self.label], source, first_row),
            None if self.trusted is None else as_mask(self.trusted, table[self.trusted], source, first_row),
            None if self.groups is None else as_names(self.groups, table[self.groups], source, first_row),
        )

    def _numbers(self, table: pa.Table, name: str) -> NDArray[Any]:
        try:
            if self.encode is None:
                return self._matrix(table)
            encoded = self.encode(table.select(list(self.features)))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        return made_features(encoded, table.num_rows, f"{name}: the result of 'encode'")

    def _matrix(self, table: pa.Table) -> NDArray[Any]:
        matrices = []
        for name in self.features:
            column = table[name]
            if pa.types.is_nested(column.type):
                matrices.append(plain_vectors(name, column, self.lengths.get(name), self.dtype))
            else:
                length = self.lengths.get(name, 1)  # a column of vectors in other files, empty in this one
                matrices.append(np.repeat(plain_numbers(column, self.dtype)[:, None], length, axis=1))
        return matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1)


@dataclass(frozen=True, eq=False)
class ParquetPart:
    """A row group of a file.

    Attributes
    ----------
    path : str
        The file, for error messages.
    location : str
        Its absolute path, for workers in any folder.
    row_group : int
        Number of the row group.
    first_row, n_rows : int
        Number of its first row in the file, and its number of rows.
    reading : Reading
        What is read from each row, and how.
    """

    path: str
    location: str
    row_group: int
    first_row: int
    n_rows: int
    reading: Reading

    @property
    def name(self) -> str:
        """Where the rows come from."""
        return f"{self.path!r}, {rows_in_words(self.first_row, self.n_rows)}"

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block."""
        row, reading = self.first_row, self.reading
        columns, size = reading.columns, reading.batch_size
        for table in row_group_tables(self.path, self.location, self.row_group, columns, size):
            yield reading.block(table, self.path, row)
            row += table.num_rows
        if row != self.first_row + self.n_rows:
            raise OSError(f"cannot read {self.path!r}: it has changed since its footer was read.")


def row_group_tables(
    path: str, location: str, row_group: int, columns: list[str], batch_size: int
) -> Iterator[pa.Table]:
    """Yield the rows of a row group in batches, read from `location`; error messages name the file `path`."""
    try:
        with ParquetFile(location, pre_buffer=False, buffer_size=READ_AT_A_TIME) as file:
            for batch in file.iter_batches(batch_size, [row_group], columns):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch]).select(columns)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise read_failure(path, error) from error


def parquet_parts(
    path: Paths,
    label: str,
    features: Sequence[str] | None = None,
    trusted: str | None = None,
    groups: str | None = None,
    encode: Callable[[pa.Table], Any] | None = None,
    numeric: bool = False,
) -> tuple[tuple[ParquetPart, ...], tuple[str, ...] | None]:
    """Return the row groups of Parquet files, and the names of features if all have one; only footers are read."""
    footers = [Footer.read(str(file)) for file in found_files(path, PARQUET)]
    if not footers:
        raise ValueError("there must be at least one Parquet file. Got none.")
    reading = replace(_reading(footers, label, features, trusted, groups, encode, numeric), is_numeric=numeric)
    parts: list[ParquetPart] = []
    for footer in footers:
        row, location = 0, os.path.abspath(footer.path)
        for number in range(footer.metadata.num_row_groups):
            n_rows = footer.metadata.row_group(number).num_rows
            parts.append(ParquetPart(footer.path, location, number, row, n_rows, reading))
            row += n_rows
    has_names = encode is None and not vector_columns(footers, reading.features)
    return tuple(parts), reading.features if has_names else None


def _reading(
    footers: Sequence[Footer],
    label: str,
    features: Sequence[str] | None,
    trusted: str | None,
    groups: str | None,
    encode: Callable[[pa.Table], Any] | None,
    numeric: bool,
) -> Reading:
    """Choose the columns, and check that all files have them."""
    if isinstance(features, str):
        raise ValueError(f"features must be a list of columns. Got {features!r} instead: write [{features!r}].")
    for what, given in (("label", label), ("trusted", trusted), ("groups", groups)):
        if not isinstance(given, str) and (given is not None or what == "label"):
            raise ValueError(f"{what} must be the name of a column. Got {type(given).__name__} instead.")
    others = [one for one in (label, trusted, groups) if one is not None]
    index = all_index_columns(footers)
    default = [name for name in footers[0].schema.names if name not in others and name not in index]
    chosen = default if features is None else list(features)
    names = [*chosen, *others]
    twice = named_twice(names)
    if twice is not None:
        raise ValueError(f"column {twice!r} is named more than once among features, label, trusted and groups.")
    check_same_columns(footers, names, chosen, besides=index if features is None else None)
    if not chosen:
        known = [*others, *sorted(index.difference(others).intersection(footers[0].schema.names))]
        raise ValueError(
            f"{footers[0].path!r} has no columns except {', '.join(map(repr, known))}: there are no features."
        )
    for footer in footers:
        _check_others(footer, label, trusted, groups, numeric)
    reading = Reading(tuple(chosen), label, trusted, groups, width_at_most(footers, chosen), encode)
    if encode is not None:
        return reading
    check_numeric(footers, chosen)
    dtype = np.float32 if all_narrow(footers, chosen) else np.float64
    return replace(reading, dtype=dtype, lengths=vector_lengths(footers, chosen))


def _check_others(footer: Footer, label: str, trusted: str | None, groups: str | None, numeric: bool) -> None:
    """Refuse columns whose types cannot be labels or targets, masks or names, by reading zero rows of them."""
    read_labels = column_of_targets if numeric else as_labels
    for name, read in ((label, read_labels), (trusted, as_mask), (groups, as_names)):
        if name is not None and not pa.types.is_null(footer.type_of(name)):
            read(name, pa.chunked_array([], footer.type_of(name)), repr(footer.path))
