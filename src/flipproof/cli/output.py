"""Files and folders that a command writes to: checked before the work, written whole after it."""

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
    """Create the folder if needed, and make sure now that files can be written there later.

    Raises
    ------
    OSError
        If it is a file, or cannot be created or written to.
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


def check_file(path: Path | None, endings: Iterable[str], inputs: Iterable[Path | None] = ()) -> None:
    """Make sure now that a file can be written later, and that its ending says how.

    Raises
    ------
    ValueError, OSError
        If its ending is not one of `endings`, its folder does not exist or cannot be written to, or it is an input.
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
        raise ValueError(f"cannot write {str(path)!r}: it is read as well.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(f"cannot write {str(path)!r}: {error.strerror}.") from error


def table_content(table: pa.Table, ending: str, about: Mapping[str, Any]) -> bytes:
    """Return a table as the content of a file; `about` goes into those kinds of files that have a place for it."""
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
