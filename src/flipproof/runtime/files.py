"""Atomic file writes, and digests that identify contents."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: nobody ever sees a partial file, not even after a crash."""
    write_all({path: content})


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Write several files: each is whole, and if one cannot be written, none is.

    Raises
    ------
    OSError
        If a file cannot be written, for example because the disk is full; the message names the file.
    """
    unfinished = {path: _unfinished(path) for path in contents}
    try:
        for path, content in contents.items():
            try:
                with unfinished[path].open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise OSError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
        for path in contents:
            os.replace(unfinished[path], path)
    finally:
        for part in unfinished.values():
            part.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path that other code writes a large file to; at the end it takes its place, or is removed on an error."""
    part = _unfinished(path)
    try:
        part.touch()
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise OSError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
    finally:
        part.unlink(missing_ok=True)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")


def portable_path(path: str | os.PathLike[str]) -> str:
    """Return a path for reports, which others read: relative to the working directory, or to the home folder.

    A shell replaces ``~`` by the name of a folder on this machine. Other paths are returned as given.
    """
    given = Path(path)
    if not given.is_absolute():
        return str(given)
    if given.is_relative_to(Path.cwd()):
        return str(given.relative_to(Path.cwd()))
    home = Path(os.path.expanduser("~"))
    if home.is_absolute() and home != Path(home.anchor) and given.is_relative_to(home):
        return f"~/{given.relative_to(home).as_posix()}"
    return str(given)


def digest_of(content: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, as 64 hexadecimal digits."""
    return digest_of_pieces([content])


def new_digest() -> hashlib._Hash:
    """Return a SHA-256 of nothing yet, for content that comes in pieces."""
    return hashlib.sha256()


def digest_of_pieces(pieces: Iterable[bytes | memoryview | str]) -> str:
    """Return the SHA-256 of the concatenated pieces."""
    digest = new_digest()
    for piece in pieces:
        digest.update(piece.encode() if isinstance(piece, str) else piece)
    return digest.hexdigest()


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
