"""Tables from files: find out what a file is, and read CSV, TSV, JSON lines, Parquet, Arrow, NPZ and NPY."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc, parquet

from flipproof.errors import InputError
from flipproof.parameters import check_parameter, one_of
from flipproof.tables.file_content import KINDS, TEXT_KINDS, is_compressed, kind_of_file, read_content
from flipproof.tables.text_files import TextLayout, line_of_row, lines_of_rows, read_text

#: Longest part of another library's error that is repeated, in characters.
LONGEST_REASON = 200

#: Suffixes of arrays in one NPZ file: X_train and X_test are the X of each part.
PARTS = ("train", "test", "reference")


@dataclass(frozen=True)
class FileRows:
    """Where the rows of a file are.

    Attributes
    ----------
    path : Path
        The file.
    kind : str
        What it is.
    layout : TextLayout
        Its layout, if it is a text file.
    """

    path: Path
    kind: str
    layout: TextLayout

    @property
    def decimal(self) -> str | None:
        """The sign before decimals in a text file; None for other files."""
        return self.layout.decimal if self.kind in TEXT_KINDS else None

    def named(self, row: int) -> str:
        """Return the line of a row in a text file, the first line being 1; else its number, from 0 on."""
        line = line_of_row(read_content(self.path), self.kind, self.layout, row) if self.kind in TEXT_KINDS else None
        return f"row {row}" if line is None else f"line {line}"

    def lines(self, rows: Collection[int]) -> dict[int, int]:
        """Return the lines of rows in a text file, the first line being 1; without those that are not known."""
        return lines_of_rows(read_content(self.path), self.kind, self.layout, rows) if self.kind in TEXT_KINDS else {}

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed, so that its lines are those of the decompressed text."""
        return is_compressed(self.path)


@dataclass(frozen=True)
class FileTable:
    """A table that was read from a file, and where its rows are."""

    table: pa.Table
    rows: FileRows


def read_table(
    path: str | os.PathLike[str],
    layout: TextLayout | None = None,
    *,
    part: str | None = None,
    as_words: Collection[str] = (),
    purposes: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read a table from a file: CSV, TSV, JSON lines, Parquet, Arrow, Feather, NPZ or NPY; also .gz, .xz, .bz2, .zst.

    The format is recognised by content if it is binary, or else by the file's ending.

    Parameters
    ----------
    path : path
        The file; ``-`` is standard input.
    layout : TextLayout, optional
        The layout of a text file.
    part : {"train", "test", "reference"}, optional
        Which arrays of an NPZ file: for "train", ``X_train`` is the column X, and ``X_test`` is ignored.
    as_words : collection of str
        Columns of a text file that hold words, even if all of them look like numbers.
    purposes : mapping of str, optional
        Purposes of columns of a text file: "label", "names" or "ids". Labels become numbers or booleans only if all of
        them are, names stay words, and neither may contain one number in two spellings. Ids become integers only if
        they are written as integers.

    Returns
    -------
    pyarrow.Table
        An array of two or more dimensions in an NPZ file is one column of vectors; in an NPY file it is columns named
        f0, f1, ... In text files, blanks around names and words are removed, and columns without a name are ignored.

    Raises
    ------
    OSError, ValueError
        If there is no such file or it is not a valid table; the message is one line.

    See Also
    --------
    flipproof.tables.TextLayout : Layout of a text file.
    flipproof.tables.TableEncoder : Encode columns without labels.
    flipproof.audit : From a table to certificates, attacks and a report.

    Examples
    --------
    >>> import os, tempfile
    >>> from flipproof.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "emails.csv")
    ...     with open(path, "w") as file:
    ...         print("length,spam", file=file)
    ...         print("12,yes", file=file)
    ...     table = read_table(path)
    >>> table.column_names, table.num_rows
    (['length', 'spam'], 1)
    """
    return read_file(path, layout, part=part, as_words=as_words, purposes=purposes).table


def read_file(
    path: str | os.PathLike[str],
    layout: TextLayout | None = None,
    *,
    part: str | None = None,
    as_words: Collection[str] = (),
    purposes: Mapping[str, str] | None = None,
) -> FileTable:
    """Read a table as :func:`read_table` does, and return also where its rows are."""
    path, layout = Path(path), layout or TextLayout()
    content = read_content(path)
    if not content:
        raise ValueError(f"cannot read {str(path)!r}: the file is empty.")
    kind = layout.kind or kind_of_file(path, content)
    check_parameter("TextLayout", "kind", kind, one_of(*KINDS))
    readers: dict[str, Callable[[], pa.Table]] = {
        "parquet": lambda: _valid(parquet.ParquetFile(pa.BufferReader(content)).read()),
        "arrow": lambda: _valid(_read_arrow(content)),
        "npz": lambda: _read_npz(content, part),
        "npy": lambda: _read_npy(content),
    }
    rows = FileRows(path, kind, layout)
    try:
        table = readers[kind]() if kind in readers else read_text(content, kind, layout, as_words, purposes or {})
    except InputError as error:
        located = error.with_rows(rows.named)
        raise InputError(f"cannot read {str(path)!r}: ", *located.args) from error
    except MemoryError:
        raise
    except Exception as error:  # on damaged files, readers raise errors of many kinds
        if kind not in readers and not isinstance(error, (pa.ArrowException, ValueError)):
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot read {str(path)!r} as {kind.upper()}: {reason[:LONGEST_REASON]}") from error
    return FileTable(_checked(table, path), rows)


def _checked(table: pa.Table, path: Path) -> pa.Table:
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise ValueError(f"{str(path)!r} has more than one column called {twice[0]!r}.")
    if table.num_rows == 0:
        raise ValueError(f"{str(path)!r} has no rows.")
    return table


def _valid(table: pa.Table) -> pa.Table:
    """Raise ArrowInvalid if a damaged file points outside of its values: to use them would crash the process."""
    table.validate(full=True)
    return table


def _read_arrow(content: bytes) -> pa.Table:
    """Read either of Arrow's two formats: files, and streams, which caches of data sets use."""
    try:
        return ipc.open_file(pa.BufferReader(content)).read_all()
    except pa.ArrowInvalid:
        return ipc.open_stream(pa.BufferReader(content)).read_all()


def _read_npz(content: bytes, part: str | None) -> pa.Table:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        chosen = {name: key for key in stored.files for name in [_name_in_part(key, part)] if name is not None}
        arrays = {name: stored[key] for name, key in chosen.items()}
    arrays = {name: array for name, array in arrays.items() if array.ndim}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        described = ", ".join(f"{name} has {length}" for name, length in lengths.items()) or "there are none"
        raise ValueError(f"all arrays must have the same number of rows, but {described}.")
    return pa.table({name: _array_column(name, array) for name, array in arrays.items()})


def _name_in_part(key: str, part: str | None) -> str | None:
    """Return the name of an array in a part; None if it belongs to another part."""
    stem, _, ending = key.rpartition("_")
    if part is None or not stem or ending not in PARTS:
        return key
    return stem if ending == part else None


def _read_npy(content: bytes) -> pa.Table:
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names:
        return pa.table({name: _array_column(name, array[name]) for name in array.dtype.names})
    if array.ndim != 2:
        raise ValueError(f"it must have rows and columns. Got an array of shape {array.shape} instead.")
    return pa.table({f"f{j}": _array_column(f"f{j}", array[:, j]) for j in range(array.shape[1])})


def _array_column(name: str, array: NDArray[Any]) -> pa.Array:
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "biufUM":
        raise ValueError(f"array {name!r} holds {array.dtype}, not numbers or words.")
    if array.ndim == 1:
        return pa.array(array.tolist() if array.dtype.kind == "U" else np.ascontiguousarray(array))
    flat = array.reshape(len(array), -1)
    if flat.dtype.kind not in "biuf":
        raise ValueError(f"array {name!r} of shape {array.shape} must contain numbers. Got {array.dtype} instead.")
    if flat.dtype == bool:
        flat = flat.astype(np.uint8)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1])
