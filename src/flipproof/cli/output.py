"""Files that a command writes: checked before the work, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
        raise OSError(f"cannot write to {str(folder)!r}: it is not a folder.") from None
    except OSError as error:
        raise OSError(f"cannot write to {str(folder)!r}: {error.strerror}.") from error
    return folder


def write_whole(path: Path, content: bytes) -> None:
    """Write a file such that nobody ever sees half of it, not even after a crash."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
