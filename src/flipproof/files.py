"""Files that are written whole or not at all, and their checksums."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file such that nobody ever sees half of it, not even after a crash."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
