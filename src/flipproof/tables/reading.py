"""Tables from files: detect the format, decompress, and read CSV, TSV, Parquet, Arrow, NPZ and NPY."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, ipc, parquet

from flipproof.tables.columns import check_spellings, spelled_ids, spelled_labels

COMPRESSED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
    ".npy": "npy",
}
KINDS = tuple(dict.fromkeys(ENDINGS.values()))

#: First bytes of files, for those whose ending does not tell their kind.
BEGINNINGS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}


def read_content(path: Path) -> bytes:
    """Return a file's bytes, decompressed if its ending says that it is compressed.

    Raises
    ------
    OSError
        If there is no such file, or it is damaged; the message is one line.
    """
    if not path.exists():
        raise OSError(f"cannot read {str(path)!r}: there is no such file.")
    if path.is_dir():
        raise OSError(f"cannot read {str(path)!r}: it is a folder.")
    uncompress = COMPRESSED.get(path.suffix.lower())
    try:
        if uncompress is None:
            return path.read_bytes()
        with uncompress(path) as file:
            return bytes(file.read())
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise OSError(f"cannot read {str(path)!r}: it is damaged or not compressed as its ending says.") from error
    except OSError as error:
        raise OSError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error


def kind_of_file(path: Path, content: bytes) -> str:
    """Return the kind of a file by its ending, or else by its first bytes: text with tabs is TSV, other text CSV."""
    names = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    by_ending = ENDINGS.get(names.suffix.lower())
    if by_ending is not None:
        return by_ending
    for beginning, kind in BEGINNINGS.items():
        if content.startswith(beginning):
            return kind
    return "tsv" if b"\t" in first_line(content) else "csv"


def first_line(content: bytes) -> bytes:
    """Return the first line of a text."""
    end = content.find(b"\n")
    return content if end < 0 else content[:end]


#: Missing values in text files.
MISSING = ["", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None"]

#: Longest part of another library's error that is repeated, in characters.
LONGEST_REASON = 200

#: Largest block of the CSV reader, in bytes; it infers the types of columns from the first block.
LARGEST_BLOCK = 2**31 - 1

#: Suffixes of arrays in one NPZ file: X_train and X_test are the X of each part.
PARTS = ("train", "test", "reference")


@dataclass(frozen=True)
class TextLayout:
    """The layout of a text file.

    Attributes
    ----------
    names : tuple of str
        Names of the columns; the first line is then an ordinary row.
    header : bool
        Whether the first line names the columns. If not, they are named f0, f1, ...
    separator : str, optional
        Separator of columns. By default a tab in TSV, a comma in CSV, or a semicolon if there are no commas.
    quotes : bool
        Whether ``"`` may enclose a value that contains separators or line breaks.
    kind : str, optional
        The kind of the file, regardless of its ending.
    """

    names: tuple[str, ...] = ()
    header: bool = True
    separator: str | None = None
    quotes: bool = True
    kind: str | None = None


def read_table(
    path: str | os.PathLike[str],
    layout: TextLayout | None = None,
    *,
    part: str | None = None,
    as_words: Collection[str] = (),
    purposes: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read a table from a file, by its ending: .csv, .tsv, .parquet, .arrow, .feather, .npz, .npy; also .gz, .xz, .bz2.

    Parameters
    ----------
    path : path
        The file.
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
    """
    path, layout = Path(path), layout or TextLayout()
    content = read_content(path)
    kind = layout.kind or kind_of_file(path, content)
    if kind not in KINDS:
        raise ValueError(f"The 'kind' parameter of TextLayout must be one of {', '.join(KINDS)}. Got {kind!r} instead.")
    if not content:
        raise ValueError(f"cannot read {str(path)!r}: the file is empty.")
    readers: dict[str, Callable[[], pa.Table]] = {
        "csv": lambda: _read_text(content, layout, layout.separator or _separator(content), as_words, purposes or {}),
        "tsv": lambda: _read_text(content, layout, layout.separator or "\t", as_words, purposes or {}),
        "parquet": lambda: parquet.read_table(pa.BufferReader(content)),
        "arrow": lambda: _read_arrow(content),
        "npz": lambda: _read_npz(content, part),
        "npy": lambda: _read_npy(content),
    }
    try:
        table = readers[kind]()
    except (pa.ArrowException, ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot read {str(path)!r} as {kind.upper()}: {reason[:LONGEST_REASON]}") from error
    return _checked(table, path)


def _checked(table: pa.Table, path: Path) -> pa.Table:
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{str(path)!r} has more than one column called {twice[0]!r}.")
    if table.num_rows == 0:
        raise ValueError(f"{str(path)!r} has no rows.")
    return table


def _separator(content: bytes) -> str:
    """Return a comma, or a semicolon if the first line has semicolons but no commas."""
    line = first_line(content)
    return ";" if b";" in line and b"," not in line else ","


def _read_text(
    content: bytes, layout: TextLayout, separator: str, as_words: Collection[str], purposes: Mapping[str, str]
) -> pa.Table:
    if len(separator) != 1:
        raise ValueError(f"a separator must be one character. Got {separator!r} instead.")
    read = csv.ReadOptions(
        column_names=list(layout.names) or None,
        autogenerate_column_names=not layout.header and not layout.names,
        block_size=min(len(content), LARGEST_BLOCK),
    )
    parse = csv.ParseOptions(
        delimiter=separator, quote_char='"' if layout.quotes else False, newlines_in_values=layout.quotes
    )
    convert = csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True)
    if as_words or purposes:
        first = csv.ReadOptions(
            column_names=read.column_names, autogenerate_column_names=read.autogenerate_column_names
        )
        with csv.open_csv(pa.BufferReader(content), first, parse, convert) as opened:
            written = opened.schema.names
        convert.column_types = {name: pa.string() for name in written if name.strip() in {*as_words, *purposes}}
    table = csv.read_csv(pa.BufferReader(content), read, parse, convert)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_binary(column.type):
            raise ValueError(f"column {name.strip()!r} is not UTF-8: convert the file to UTF-8.")
        columns[name] = pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column
    named = [name for name in table.column_names if name.strip()]
    settled = [_settled(name.strip(), columns[name], purposes.get(name.strip())) for name in named]
    return pa.Table.from_arrays(settled, names=[name.strip() for name in named])


def _settled(name: str, column: pa.ChunkedArray, purpose: str | None) -> pa.ChunkedArray:
    """Convert a column according to its purpose."""
    if purpose == "label":
        return spelled_labels(name, column)
    if purpose == "names":
        check_spellings(name, column.drop_null().unique().to_pylist())
    return spelled_ids(column) if purpose == "ids" else column


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
