"""Fetch a public file: checked before it gets its name, so that a file which is there is whole."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from hashlib import sha256
from io import BytesIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

#: Seconds without an answer after which a server is given up.
TIMEOUT = 30.0


def fetch(url: str, member: str | None = None) -> bytes:
    """Return what is at a URL, or one file of the zip archive that is there; OSError where that fails."""
    request = Request(url, headers={"User-Agent": "flipproof"})
    try:
        with urlopen(request, timeout=TIMEOUT) as answer:
            content: bytes = answer.read()
    except HTTPError as error:
        error.close()
        raise
    if member is None:
        return content
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            return archive.read(member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise OSError(f"no {member} in the archive: {error}") from error


def checksum(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return sha256(content).hexdigest()


def wrong_checksum(where: str, expected: Iterable[str], actual: str) -> OSError:
    """Return the error that says that a file is not what it should be."""
    wanted = " or ".join(expected)
    return OSError(f"{where} is damaged or another file: its content has the SHA-256 {actual}, expected {wanted}.")
