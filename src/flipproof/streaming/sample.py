"""A sample of the training rows in Parquet files, to fit the encoder of the columns, and a checksum of the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from flipproof.runtime.files import digest_of_pieces
from flipproof.runtime.progress import ProgressLine
from flipproof.streaming.blocks import rows_in_words
from flipproof.streaming.parquet import Footer, row_group_tables
from flipproof.tables.columns import (
    as_labels,
    as_numbers,
    as_vectors,
    is_words,
    plain_numbers,
    type_kind,
    without_dictionary,
)
from flipproof.tables.labels import column_of_targets
from flipproof.values import joined

#: Largest number of rows in a sample.
ROWS_IN_SAMPLE = 100_000

#: Number of rows read at a time.
ROWS_AT_A_TIME = 2**13

#: Bytes at the end of a Parquet file: the length of the footer, and the magic number.
END_OF_PARQUET = 8


@dataclass(frozen=True)
class Sample:
    """Every s-th training row.

    Attributes
    ----------
    features : pyarrow.Table
        Feature columns.
    labels : pyarrow.ChunkedArray
        Labels, used only to check the label column. The encoder never sees them.
    n_rows : int
        Number of training rows.
    """

    features: pa.Table
    labels: pa.ChunkedArray
    n_rows: int

    @property
    def is_everything(self) -> bool:
        """Whether the sample contains all training rows."""
        return bool(self.features.num_rows == self.n_rows)


def draw_sample(
    footers: Sequence[Footer], features: Sequence[str], label: str, verbose: int = 0, numeric: bool = False
) -> Sample:
    """Return every s-th row in the order of the files, with the smallest s that gives at most 100,000 rows.

    The sample does not depend on how the rows are split into files and row groups. Labels are numeric targets if
    `numeric`.
    """
    read = column_of_targets if numeric else as_labels
    n_rows = sum(footer.metadata.num_rows for footer in footers)
    step, names = max(1, -(-n_rows // ROWS_IN_SAMPLE)), [*features, label]
    n_groups = sum(footer.metadata.num_row_groups for footer in footers)
    line, done, row, found = ProgressLine(n_groups, verbose, "Drawing a sample"), 0, 0, []
    try:
        for footer in footers:
            first_row = row
            for group in range(footer.metadata.num_row_groups):
                count = footer.metadata.row_group(group).num_rows
                if -row % step < count:
                    for table in row_group_tables(footer.path, footer.path, group, names, ROWS_AT_A_TIME):
                        read(label, table[label], repr(footer.path), row - first_row)
                        _check_values(table, features, footer.path, row - first_row)
                        found.append(table if step == 1 else table.take(np.arange(-row % step, len(table), step)))
                        row += len(table)
                else:
                    row += count
                done += 1
                line.show(done, "row groups", is_last=done == n_groups)
    finally:
        line.close()
    columns = {name: _joined(name, [table[name] for table in found], footers) for name in features}
    # by value: as floats, different large integers could become equal
    labels = joined([read(label, table[label], "the files") for table in found])
    return Sample(pa.table(columns), pa.chunked_array([labels]), n_rows)


def fingerprint(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the names, sizes and footers of Parquet files, which may be too large to read whole.

    Footers contain the offset, the size and usually the range of each column in each row group.
    """
    return digest_of_pieces(map(_end_of, files))


def _end_of(path: Path) -> bytes:
    """Return the name, size and footer of a Parquet file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(-END_OF_PARQUET, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-END_OF_PARQUET - length, os.SEEK_END)
        return f"{path.name}\n{size}\n".encode() + file.read(length)


def _check_values(table: pa.Table, features: Sequence[str], path: str, first_row: int) -> None:
    """Raise ValueError, with the name of the file, if rows cannot be encoded."""
    try:
        for name in features:
            column = table[name]
            if pa.types.is_null(column.type):
                continue
            kind = type_kind(name, column.type)
            if kind == "vectors":
                as_vectors(name, column)
            elif kind == "numbers":
                as_numbers(name, column)
    except ValueError as error:
        raise ValueError(f"{path!r}, {rows_in_words(first_row, len(table))}: {error}") from error


def _joined(name: str, columns: Sequence[pa.ChunkedArray], footers: Sequence[Footer]) -> pa.ChunkedArray:
    """Join a column of all files; its type may differ between files, and is null where it is empty."""
    plain = [without_dictionary(one) for one in columns]
    types = {footer.type_of(name) for footer in footers} - {pa.null()}
    if len(types) == 1:
        (kind,) = types
    elif all(pa.types.is_nested(one) for one in types):
        kind = pa.list_(pa.float64())
    elif all(is_words(one) for one in types):
        kind = pa.large_string()
    else:
        kind = pa.float64()
        plain = [pa.chunked_array([pa.array(plain_numbers(one), from_pandas=True)]) for one in plain]
    return pa.chunked_array([chunk for one in plain for chunk in one.cast(kind).chunks], kind)
