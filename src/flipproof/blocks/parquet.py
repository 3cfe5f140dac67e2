"""Rows of Parquet files, a row group for each task; needs pyarrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow.parquet import ParquetFile

from flipproof.blocks.block import Block, rows_at_a_time
from flipproof.blocks.checking import made_features, rows_in_words
from flipproof.blocks.footers import (
    Footer,
    all_index_columns,
    all_narrow,
    check_numeric,
    check_same_columns,
    named_twice,
    read_failure,
    vector_columns,
    vector_lengths,
    width_at_most,
)
from flipproof.blocks.paths import PARQUET, Paths, found_files
from flipproof.tables.columns import as_labels, as_mask, as_names, plain_numbers, plain_vectors

#: Bytes of each column that are read at a time: not all of a large row group, and not much of a thousand columns.
READ_AT_A_TIME = 2**16

#: Rows that are encoded at a time: nobody knows how many columns come out. With a thousand it is a full block.
ROWS_TO_ENCODE = 2**13


@dataclass(frozen=True)
class Reading:
    """What is read from each row, and how.

    Attributes
    ----------
    features : tuple of str
        Columns of features.
    label, trusted, groups : str
        Other columns; None where nothing is known.
    width : int
        About how many numbers the features of a row are.
    encode : callable, optional
        Turns a table of the features into numbers.
    dtype : dtype
        Of features that are not encoded.
    lengths : mapping of int
        How long the vectors of a column are, where that is known.
    """

    features: tuple[str, ...]
    label: str
    trusted: str | None
    groups: str | None
    width: int
    encode: Callable[[pa.Table], Any] | None = None
    dtype: type[np.float32] | type[np.float64] = np.float64
    lengths: Mapping[str, int] = field(default_factory=dict)

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
            as_labels(self.label, table[self.label], source, first_row),
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
        return made_features(encoded, table.num_rows, f"{name}: what 'encode' returns")

    def _matrix(self, table: pa.Table) -> NDArray[Any]:
        matrices = []
        for name in self.features:
            column = table[name]
            if pa.types.is_nested(column.type):
                matrices.append(plain_vectors(name, column, self.lengths.get(name), self.dtype))
            else:
                length = self.lengths.get(name, 1)  # vectors elsewhere, none of which is there in this file
                matrices.append(np.repeat(plain_numbers(column, self.dtype)[:, None], length, axis=1))
        return matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1)


@dataclass(frozen=True, eq=False)
class ParquetPart:
    """A row group of a file.

    Attributes
    ----------
    path : str
        The file, as errors should call it.
    location : str
        Where it is, for workers in any folder.
    row_group : int
        Number of the row group.
    first_row, n_rows : int
        Number of its first row in the file, and how many rows it has.
    reading : Reading
        What is read from each row.
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
    """Yield the rows of a row group, few at a time; errors call the file `path`, and it is read from `location`."""
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
) -> tuple[tuple[ParquetPart, ...], tuple[str, ...] | None]:
    """Return the row groups of Parquet files, of which only the footers are read, and names if each feature has one."""
    footers = [Footer.read(str(file)) for file in found_files(path, PARQUET)]
    if not footers:
        raise ValueError("there must be at least one Parquet file. Got none.")
    reading = _reading(footers, label, features, trusted, groups, encode)
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
            f"{footers[0].path!r} has no columns but {', '.join(map(repr, known))}: there are no features."
        )
    for footer in footers:
        _check_others(footer, label, trusted, groups)
    reading = Reading(tuple(chosen), label, trusted, groups, width_at_most(footers, chosen), encode)
    if encode is not None:
        return reading
    check_numeric(footers, chosen)
    dtype = np.float32 if all_narrow(footers, chosen) else np.float64
    return replace(reading, dtype=dtype, lengths=vector_lengths(footers, chosen))


def _check_others(footer: Footer, label: str, trusted: str | None, groups: str | None) -> None:
    """Refuse columns of types that are no labels, no masks or no names, as reading no rows of them would."""
    for name, read in ((label, as_labels), (trusted, as_mask), (groups, as_names)):
        if name is not None and not pa.types.is_null(footer.type_of(name)):
            read(name, pa.chunked_array([], footer.type_of(name)), repr(footer.path))
