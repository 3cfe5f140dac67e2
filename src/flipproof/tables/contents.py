"""What is in a file: its bytes, uncompressed, and of which kind it is."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

#: How files begin whose ending says nothing.
BEGINNINGS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}


def read_content(path: Path) -> bytes:
    """Return a file's bytes, uncompressed if its ending says that it is compressed.

    Raises
    ------
    OSError
        In one line, if there is no such file, or it is damaged.
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
    """Return the kind of a file by its ending, or else by how it begins: text with tabs is TSV, other text CSV."""
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
