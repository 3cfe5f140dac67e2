"""Output files and folders: checked before the computation, written whole after it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_ENDINGS = (".parquet", ".csv", ".tsv", ".json", ".arrow", ".feather")


def prepare_folder(folder: Path) -> Path:
    """Create the folder if needed, and check that files can be written to it.

    Raises
    ------
    OSError
        If the folder is a file, or cannot be created or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        file = next(path for path in (folder, *folder.parents) if path.exists())
        raise OSError(f"cannot write to {str(folder)!r}: {str(file)!r} is not a folder.") from None
    except OSError as error:
        raise OSError(f"cannot write to {str(folder)!r}: {error.strerror}.") from error
    return folder


def check_file(
    path: Path | None,
    endings: Iterable[str],
    inputs: Iterable[Path | None] = (),
    outputs: Iterable[Path | None] = (),
) -> None:
    """Check that a file can be written and that its ending names a known format.

    Raises
    ------
    ValueError, OSError
        If the ending is not one of `endings`, the folder does not exist or is not writable, or the file is an input or
        one of the other outputs.
    """
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"cannot write {str(path)!r}: its name must end in {', '.join(endings)}.")
    if path.is_dir():
        raise OSError(f"cannot write {str(path)!r}: it is a folder.")
    if not path.parent.is_dir():
        raise OSError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}.")
    if any(one is not None and one.resolve() == path.resolve() for one in inputs):
        raise ValueError(f"cannot write {str(path)!r}: it is also an input file.")
    if any(one is not None and one.resolve() == path.resolve() for one in outputs):
        raise ValueError(f"cannot write {str(path)!r}: two options name this file.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(f"cannot write {str(path)!r}: {error.strerror}.") from error


def table_content(table: pa.Table, ending: str, about: Mapping[str, Any]) -> bytes:
    """Return a table as the content of a file; `about` becomes metadata in formats that support it."""
    import pyarrow as pa
    from pyarrow import csv, feather, parquet

    if ending == ".json":
        return (json.dumps({**about, "rows": table.to_pylist()}, indent=1, default=str) + "\n").encode()
    described = table.replace_schema_metadata({"flipproof": json.dumps(dict(about), default=str)})
    stream = pa.BufferOutputStream()
    if ending == ".parquet":
        parquet.write_table(described, stream)
    elif ending in (".arrow", ".feather"):
        feather.write_feather(described, stream, compression="uncompressed")
    else:
        csv.write_csv(table, stream, csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ","))
    return bytes(stream.getvalue())
