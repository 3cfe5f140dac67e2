"""Read the container: a safetensors file with a JSON document in its metadata. No other file is opened."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

#: A longer header is refused before it is read.
LARGEST_HEADER = 100 * 2**20

#: The types of tensors, by their names in the header.
TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.uint8),
    "I8": np.dtype("<i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}

#: Bytes that are read at a time to compute a digest.
AT_A_TIME = 2**24


class UnreadableFileError(ValueError):
    """The file is not a certificate file of format 1, or is damaged. `reason` is a short code.

    See Also
    --------
    flipproof_verify.verify : Check a certificate file.
    """

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class ProofFile:
    """A certificate file: its document and its tensors, which are mapped into memory and read when they are used."""

    document: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]
    _used: set[str] = field(default_factory=set)

    def tensor(self, name: str, kinds: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Return a tensor; refuse one of another kind (letters b, i, f) or shape (None: any length)."""
        if name not in self.tensors:
            raise UnreadableFileError("missing-tensor", f"The tensor {name!r} is missing.")
        found = self.tensors[name]
        self._used.add(name)
        if found.dtype.kind.replace("u", "b") not in kinds:
            raise UnreadableFileError("tensor-type", f"The tensor {name!r} has a wrong type: {found.dtype}.")
        fits = len(found.shape) == len(shape) and all(w in (None, s) for w, s in zip(shape, found.shape, strict=True))
        if not fits:
            raise UnreadableFileError("tensor-shape", f"The tensor {name!r} has shape {found.shape}, not {shape}.")
        return found

    def flags(self, name: str, shape: tuple[int | None, ...]) -> NDArray[np.bool_]:
        """Return a tensor of booleans."""
        stored = self.tensor(name, "b", shape)
        if stored.size and int(stored.max()) > 1:
            raise UnreadableFileError("tensor-values", f"The tensor {name!r} must contain 0 and 1 only.")
        return np.asarray(stored, dtype=bool)

    def integers(
        self, name: str, shape: tuple[int | None, ...], low: int, high: int, reason: str = "tensor-values"
    ) -> NDArray[np.int64]:
        """Return a tensor of integers from low to high, of 64 bits; refuse others for a reason."""
        stored = self.tensor(name, "i", shape)
        if stored.size and (int(stored.min()) < low or int(stored.max()) > high):
            raise UnreadableFileError(reason, f"The tensor {name!r} must contain integers from {low} to {high}.")
        return np.asarray(stored, dtype=np.int64)

    def codes(self, name: str, shape: tuple[int | None, ...], n: int) -> NDArray[np.int64]:
        """Return a tensor of integers from 0 to n - 1."""
        return self.integers(name, shape, 0, n - 1)

    def refuse_unused(self) -> None:
        """Refuse tensors that no check reads: they would be claims that nobody checks."""
        in_blocks = {name.rpartition(".")[0] for name in self._used if re.search(r"\.[0-9]+$", name)}
        known = {f"{stem}.{number}" for stem in in_blocks for number in range(len(self.document["blocks"]))}
        unused = sorted(set(self.tensors) - self._used - known)
        if unused:
            raise UnreadableFileError("unused-tensor", f"This rule has no tensor {unused[0]!r}.")


def read(path: str | os.PathLike[str]) -> ProofFile:
    """Read a file and check its digests."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise UnreadableFileError(
                "truncated", "The file is incomplete or damaged: it is shorter than 8 bytes. Get the file again."
            )
        length = int.from_bytes(start, "little")
        if length > min(LARGEST_HEADER, size - 8):
            if length > LARGEST_HEADER:
                raise UnreadableFileError(
                    "header-length", "The header is longer than 100 MB: the file is damaged, or no proof file."
                )
            raise UnreadableFileError(
                "truncated", "The file is incomplete or damaged: its header ends beyond the file. Get the file again."
            )
        header = _parsed(file.read(length), "header")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("flipproof"), str):
        raise UnreadableFileError("not-certificates", "The file has no document: it is not a certificate file.")
    if set(metadata) != {"flipproof", "flipproof_sha256"}:
        raise UnreadableFileError("metadata", "The metadata must have the document and its digest, and nothing else.")
    try:
        text = metadata["flipproof"].encode()
    except UnicodeEncodeError as error:
        raise UnreadableFileError("json", "The document is not valid Unicode.") from error
    if metadata.get("flipproof_sha256") != hashlib.sha256(text).hexdigest():
        raise UnreadableFileError("document-digest", "The document does not match its digest.")
    document = _parsed(text, "document")
    if document.get("format") != "flipproof-certificates" or (
        type(document.get("version")),
        document.get("version"),
    ) != (int, 1):
        raise UnreadableFileError("version", "The file is not of format 1 of flipproof-certificates.")
    places = _places(header, size - 8 - length)
    digests = document.get("digests")
    expected = digests.get("tensors") if isinstance(digests, dict) else None
    if not isinstance(digests, dict) or not isinstance(expected, dict) or set(expected) != set(places):
        raise UnreadableFileError("tensor-digest", "The digests do not name the tensors of the file.")
    _check_digests(digests)
    tensors = {}
    for name, (kind, shape, begin, end) in places.items():
        if _digest(path, 8 + length + begin, end - begin) != expected[name]:
            raise UnreadableFileError("tensor-digest", f"The tensor {name!r} does not match its digest.")
        empty = np.empty(shape, dtype=kind)
        mapped = np.memmap(path, kind, "r", 8 + length + begin, shape) if end > begin else empty
        tensors[name] = np.asarray(mapped)
    return ProofFile(document, tensors)


def _parsed(text: bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object; refuse duplicate keys, NaN and deep nesting."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key occurs twice")
        return found

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a number")

    try:
        found = json.loads(
            text.decode("utf-8"), object_pairs_hook=once, parse_constant=refuse, parse_int=_integer, parse_float=_float
        )
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError("json", f"The {what} is not valid JSON: {error}.") from error
    if not isinstance(found, dict):
        raise UnreadableFileError("json", f"The {what} is not a JSON object.")
    return found


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("an integer has more than 20 digits")
    return int(digits)


def _float(digits: str) -> float:
    if not math.isfinite(float(digits)):
        raise ValueError("a number is beyond the range of float64")
    return float(digits)


def _check_digests(digests: dict[str, Any]) -> None:
    """Refuse digests of model, data files and outputs that are not SHA-256 digests."""
    if not set(digests) <= {"tensors", "model", "files", "outputs"}:
        raise UnreadableFileError("file-digest", "The document has digests of an unknown kind.")
    found = [digests.get("model")] if digests.get("model") is not None else []
    for kind in ("files", "outputs"):
        named = digests.get(kind, {})
        if not isinstance(named, dict):
            raise UnreadableFileError("file-digest", f"The digests of {kind} must be listed by name.")
        found += named.values()
    if not all(isinstance(one, str) and re.fullmatch(r"[0-9a-f]{64}", one) for one in found):
        raise UnreadableFileError("file-digest", "A digest of the model, a data file or an output is not SHA-256.")


def _places(header: dict[str, Any], n_bytes: int) -> dict[str, tuple[np.dtype[Any], tuple[int, ...], int, int]]:
    """Return type, shape and place of each tensor; refuse gaps, overlaps and sizes that do not match."""
    found: dict[str, tuple[np.dtype[Any], tuple[int, ...], int, int]] = {}
    for name, entry in header.items():
        if not re.fullmatch(r"[a-z_.0-9]{1,80}", name) or not isinstance(entry, dict):
            raise UnreadableFileError("tensor-name", "The name of a tensor may contain only a-z, 0-9, _ and '.'.")
        kind, shape, ends = TYPES.get(str(entry.get("dtype"))), entry.get("shape"), entry.get("data_offsets")
        if set(entry) != {"dtype", "shape", "data_offsets"}:
            raise UnreadableFileError("tensor-entry", f"The tensor {name!r} must have a type, a shape and a place.")
        if kind is None or not _are_sizes(shape) or not _are_sizes(ends) or len(ends) != 2 or len(shape) > 2:
            raise UnreadableFileError("tensor-type", f"The tensor {name!r} has an unknown type, shape or place.")
        if ends[1] - ends[0] != math.prod(shape) * kind.itemsize:
            raise UnreadableFileError("tensor-size", f"The tensor {name!r} does not have the size of its shape.")
        found[name] = kind, tuple(shape), ends[0], ends[1]
    end = 0
    for _, _, begin, stop in sorted(found.values(), key=lambda place: place[2:]):
        if begin != end:
            raise UnreadableFileError("tensor-place", "Tensors overlap, or leave gaps.")
        end = stop
    if end != n_bytes:
        raise UnreadableFileError(
            "truncated",
            f"The file is incomplete or damaged: its tensors have {end} bytes, but the file has {n_bytes}. Get the "
            "file again.",
        )
    for name, (_, shape, _, _) in found.items():
        if max(shape, default=0) > n_bytes:  # of tensors without entries
            raise UnreadableFileError("tensor-size", f"The tensor {name!r} is larger than the file.")
    return found


def _are_sizes(given: Any) -> TypeGuard[list[int]]:
    return isinstance(given, list) and all(type(one) is int and one >= 0 for one in given)


def _digest(path: str | os.PathLike[str], start: int, length: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        file.seek(start)
        while length > 0:
            part = file.read(min(AT_A_TIME, length))
            if not part:
                break
            digest.update(part)
            length -= len(part)
    return digest.hexdigest()
