"""What pretrained encoders share: one row at a time on one thread, and vectors kept in memory and on disk.

The last bits of a network's output depend on the batch: on how many rows there are, on their padding, and on threads.
So an encoder gets one row at a time, on one thread. Its vector is then a function of the row alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flipproof.assumptions import Assumption
from flipproof.parameters import NONE, Constraint, instance
from flipproof.runtime.determinism import PROCESS_LOCK
from flipproof.runtime.files import digest_of_pieces, write_whole
from flipproof.runtime.processor import kernels

if TYPE_CHECKING:
    from types import ModuleType


Vector = NDArray[np.float32]

#: First bytes of a file with one vector; the number is that of the format.
MAGIC = b"flipproof vector 1\n"

#: Length of a SHA-256 as bytes.
DIGEST_BYTES = 32

#: Vectors that an encoder keeps in memory, so that a fit, which transforms some rows several times, encodes them once.
MOST_IN_MEMORY = 4096

#: Rows that a fit encodes twice, to refuse a network that draws random numbers.
ROWS_TWICE = 2

#: Digits of a digest that people see.
SHOWN_DIGITS = 16

#: A folder for vectors.
CACHE: Constraint = NONE | instance((str, os.PathLike), "the path of a folder")


class VectorCache:
    """Vectors by the digest of what was encoded: the last ones in memory, all of them in a folder if one is given.

    A file holds one vector and the SHA-256 of its name and numbers. One that is damaged, or that belongs to another
    row, is computed again and replaced. Files are written whole, so several processes may share a folder.

    Parameters
    ----------
    folder : path or None
        Where to keep vectors; None: in memory only.
    encoder : str
        What, besides the row, decides on the bits of a vector. Vectors of other encoders are not found.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, encoder: str) -> None:
        self.encoder = encoder
        self.folder = None if folder is None else Path(folder) / digest_of_pieces([encoder])
        self._recent: dict[str, Vector] = {}
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                why = error.strerror or error
                raise OSError(f"cannot make the folder of the cache, {str(self.folder)!r}: {why}.") from error

    def get(self, content: Sequence[bytes | str], compute: Callable[[], Vector]) -> Vector:
        """Return the vector of a row with this content; compute it only if it is not known."""
        key = digest_of_pieces([self.encoder, "\n", *content])
        found = self._recent.get(key)
        if found is None:
            found = self._read(key)
        if found is None:
            found = compute()
            self._write(key, found)
        self._recent.pop(key, None)
        self._recent[key] = found
        if len(self._recent) > MOST_IN_MEMORY:
            del self._recent[next(iter(self._recent))]
        return found

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / f"{key}.vector"

    def _read(self, key: str) -> Vector | None:
        """Return the vector in a file; None if there is no such file, or if it is damaged."""
        path = self._path(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        start = len(MAGIC) + DIGEST_BYTES
        checksum, numbers = content[len(MAGIC) : start], content[start:]
        if not content.startswith(MAGIC) or checksum != _checksum(key, numbers) or len(numbers) % 4:
            return None
        return np.frombuffer(numbers, dtype="<f4").astype(np.float32)

    def _write(self, key: str, vector: Vector) -> None:
        path = self._path(key)
        if path is not None:
            numbers = vector.astype("<f4").tobytes()
            path.parent.mkdir(exist_ok=True)
            write_whole(path, MAGIC + _checksum(key, numbers) + numbers)


def _checksum(key: str, numbers: bytes) -> bytes:
    return bytes.fromhex(digest_of_pieces([key, numbers]))


@contextmanager
def one_torch_thread(torch: ModuleType) -> Iterator[None]:
    """Keep PyTorch on one thread, without gradients, inside the context; one context at a time."""
    with PROCESS_LOCK:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                yield
        finally:
            torch.set_num_threads(before)


def checked_vector(vector: object, who: str, what: str) -> NDArray[np.float64]:
    """Return the output of a network for one row as 64-bit floats; refuse NaN and infinity."""
    found = np.asarray(vector, dtype=np.float64)
    if found.ndim != 1 or not np.all(np.isfinite(found)):
        shown = f"an array of shape {found.shape}" if found.ndim != 1 else "NaN or infinity"
        raise ValueError(f"{who} needs {what} that returns one finite vector per row. Got {shown} instead.")
    return found


def of_length_one(vector: NDArray[np.float64], normalize: bool) -> Vector:
    """Return a vector as 32-bit floats, divided by its length if `normalize`; a vector of zeros stays as it is."""
    length = float(np.sqrt(np.sum(np.square(vector)))) if normalize else 0.0
    return (vector / length if length > 0 else vector).astype(np.float32)


def refuse_unless_repeatable(first: Vector, again: Vector, who: str, what: str) -> None:
    """Refuse an encoder that gave one row two different vectors."""
    if not np.array_equal(first, again):
        raise ValueError(
            f"{who} encoded the same row twice, and the results differ: {what} must be deterministic, without random "
            "numbers such as dropout."
        )


def encoder_assumption(step: str, encoder: str, digest: str, cache: str | os.PathLike[str] | None) -> Assumption:
    """Return what is assumed of a pretrained encoder."""
    values = {"step": step, "encoder": encoder, "digest": digest[:SHOWN_DIGITS], "has_cache": cache is not None}
    return Assumption("pretrained-encoder", values)


def kernels_and_versions(*packages: str) -> dict[str, str]:
    """Return the versions and the kernels that decide on the last bits of vectors."""
    capability = import_module("torch").backends.cpu.get_cpu_capability()
    chosen = json.dumps(kernels()["variables"], sort_keys=True)
    return {**{name: version(name) for name in packages}, "processor": capability, "kernels": chosen}
