"""Files that are written whole or not at all."""

from __future__ import annotations

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
