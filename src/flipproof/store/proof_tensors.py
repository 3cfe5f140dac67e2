"""The tensors of a certificate file while it is written: each grows block by block on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from flipproof.core.rounding import Values
from flipproof.runtime.files import digest_of, new_digest, whole_file

#: Names of the types of tensors.
TYPE_NAMES = {"|b1": "BOOL", "|i1": "I8", "<i2": "I16", "<i4": "I32", "<i8": "I64", "<f8": "F64"}

#: Bytes that are copied at a time.
COPIED_AT_A_TIME = 2**22


class Tensors:
    """Tensors of a file that is not finished; their lines are appended to a temporary file as they come.

    Parameters
    ----------
    file : binary file
        The temporary file.
    """

    def __init__(self, file: BinaryIO):
        self._file, self._end = file, 0
        self._growing: dict[str, _Growing] = {}

    def add(self, name: str, array: Values, kind: type[np.generic]) -> None:
        """Add lines to a tensor as numbers of one type; the values must fit. The first lines begin the tensor."""
        tensor = self._growing.setdefault(name, _Growing(np.dtype(kind).newbyteorder("<")))
        stored = np.ascontiguousarray(np.asarray(array).astype(tensor.kind))
        content = stored.tobytes()
        self._file.write(content)
        tensor.add(stored.shape, content, self._end)
        self._end += len(content)

    def finish(self, path: Path, document: dict[str, Any]) -> None:
        """Write the whole file: the header with the document, then the tensors."""
        header, end = {}, 0
        for name, one in self._growing.items():
            header[name] = {"dtype": one.type_name, "shape": list(one.shape), "data_offsets": [end, end + one.n_bytes]}
            end += one.n_bytes
        listed = {name: one.digest.hexdigest() for name, one in self._growing.items()}
        digests = {"tensors": listed, **document.pop("digests")}
        text = json.dumps({**document, "digests": digests}, ensure_ascii=False, allow_nan=False)
        metadata = {"flipproof": text, "flipproof_sha256": digest_of(text)}
        start = json.dumps({"__metadata__": metadata, **header}, ensure_ascii=False).encode()
        start += b" " * (-len(start) % 8)
        with whole_file(path) as unfinished, unfinished.open("wb") as file:
            file.write(len(start).to_bytes(8, "little") + start)
            for one in self._growing.values():
                for begin, length in one.places:
                    self._copy(begin, length, file)

    def _copy(self, begin: int, length: int, file: BinaryIO) -> None:
        self._file.seek(begin)
        for start in range(0, length, COPIED_AT_A_TIME):
            file.write(self._file.read(min(COPIED_AT_A_TIME, length - start)))


@dataclass
class _Growing:
    """A tensor and the places of its lines in the temporary file; all lines have the same shape."""

    kind: np.dtype[Any]
    shape: tuple[int, ...] = ()
    n_bytes: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)
    digest: Any = field(default_factory=new_digest)

    @property
    def type_name(self) -> str:
        """The name of the type in the header."""
        return TYPE_NAMES[self.kind.str.replace("=", "<")]

    def add(self, shape: tuple[int, ...], content: bytes, begin: int) -> None:
        """Note lines of this shape and content, which begin at this place."""
        self.shape = (shape[0] + (self.shape[0] if self.shape else 0), *shape[1:])
        self.n_bytes += len(content)
        self.places.append((begin, len(content)))
        self.digest.update(content)
