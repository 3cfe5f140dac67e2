"""Atomic file writes, and digests that identify contents."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: nobody ever sees a partial file, not even after a crash."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to; the file takes its place at `path` at the end, complete, or is removed on an error."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def digest_of(content: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, as 64 hexadecimal digits."""
    return digest_of_pieces([content])


def digest_of_pieces(pieces: Iterable[bytes | memoryview | str]) -> str:
    """Return the SHA-256 of the concatenated pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece.encode() if isinstance(piece, str) else piece)
    return digest.hexdigest()


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
