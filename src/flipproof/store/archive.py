"""The file of a model: tensors in the safetensors format, and one document of JSON in its header.

Nothing in a file is trusted. Lengths are compared with the size of the file before anything is read. The document is
limited in size and depth before it is parsed. Every tensor must be listed in the document with its type, shape and
SHA-256. The digest of the document therefore identifies the whole model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Values
from flipproof.runtime.files import digest_of, digest_of_pieces, whole_file

#: The format that this version writes and reads.
FORMAT = 1

#: Key of the document in the header.
KEY = "flipproof"

#: Limits of the document, far above what any model needs: bytes of the header, and brackets and commas in it.
MOST_BYTES = 2**25
MOST_ITEMS = 500_000

#: Most digits of an integer in the document: 64 bits have 20.
MOST_DIGITS = 20

#: Types of tensors in the safetensors format.
TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


class ModelFileError(ValueError):
    """A file that is no model, or a damaged one; or a model that cannot be stored. The message is one line.

    See Also
    --------
    flipproof.load : Read a model from a file.
    """


@dataclass(frozen=True)
class Archive:
    """The content of a model file.

    Attributes
    ----------
    document : mapping
        Everything but the tensors, in JSON types.
    tensors : mapping of str to arrays
        The tensors by name, contiguous.
    """

    document: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """Return the document with the format and the type, shape and digest of every tensor."""
        listed = {
            name: {"type": one.dtype.name, "shape": list(one.shape), "sha256": digest_of_pieces([_bytes(one)])}
            for name, one in self.tensors.items()
        }
        return {"format": FORMAT, **self.document, "tensors": listed}

    @property
    def digest(self) -> str:
        """SHA-256 of the whole model."""
        return digest_of(canonical(self.described()))

    def write(self, path: Path) -> str:
        """Write the file, whole or not at all, and return the digest."""
        numpy_files, error_of_files = _safetensors()
        described = self.described()
        digest = digest_of(canonical(described))
        text = canonical({**described, "digest": digest})
        _check_limits(text)
        with whole_file(path) as unfinished:
            try:
                numpy_files.save_file(dict(self.tensors), unfinished, metadata={KEY: text})
            except error_of_files as error:  # for example, the disk is full
                raise OSError(_one_line(error)) from error
        return digest


def read(path: Path) -> tuple[Archive, str]:
    """Return the content of a model file and its digest.

    Raises
    ------
    ModelFileError
        If the file is not a model of this format, or is damaged.
    OSError
        If it cannot be read.
    """
    _, error_of_files = _safetensors()
    from safetensors import safe_open

    _check_header(path)
    try:
        with safe_open(path, framework="np") as file:
            document = _document(file.metadata())
            described = document.pop("tensors")
            digest = document.pop("digest")
            if digest != digest_of(canonical({**document, "tensors": described})):
                raise ModelFileError("its digest does not match its content: it is damaged, or was changed")
            names = list(file.keys())
            if set(names) != set(described):
                raise ModelFileError("its tensors are not those that it lists")
            tensors = {name: _tensor(file, name, described[name]) for name in names}
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {str(path)!r}: {error}.") from None
    except (error_of_files, OverflowError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(
            f"cannot load {str(path)!r}: it is damaged, or not a flipproof model ({_one_line(error)})."
        ) from None
    del document["format"]
    return Archive(document, tensors), digest


def canonical(document: Mapping[str, object]) -> str:
    """Return a document as text, in the one form that digests are computed of."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _safetensors() -> tuple[Any, type[Exception]]:
    """Return the functions for files of arrays, and the error that they raise."""
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError("Model files need safetensors: pip install safetensors") from error
    return safetensors.numpy, safetensors.SafetensorError


def _bytes(tensor: Values) -> memoryview | bytes:
    return tensor.reshape(-1).view(np.uint8).data if tensor.size else b""


def _check_header(path: Path) -> None:
    """Refuse a header that is longer than the file, or than any model needs, before anything is parsed."""
    n_bytes = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(9)
    length = int.from_bytes(begin[:8], "little")
    if len(begin) < 9 or begin[8:] != b"{" or length > n_bytes - 8:
        raise ModelFileError(
            f"cannot load {str(path)!r}: it is not a flipproof model, or incomplete. flipproof.save writes models."
        )
    if length > MOST_BYTES:
        raise ModelFileError(f"cannot load {str(path)!r}: its header has {length:,} bytes, more than any model has.")


def _document(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    if not metadata or set(metadata) != {KEY}:
        raise ModelFileError("it holds tensors, but no flipproof model")
    text = metadata[KEY]
    _check_limits(text)
    try:
        document = json.loads(text, object_pairs_hook=_without_repeats, parse_int=_integer, parse_constant=_refused)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ModelFileError(f"its description is not valid JSON ({_one_line(error)})") from None
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise ModelFileError("its description does not name a format")
    if document["format"] != FORMAT:
        raise ModelFileError(
            f"it has format {document['format']}, and this version of flipproof reads format {FORMAT}: use the version "
            "that wrote it, or fit and save the model again"
        )
    wanted = {"format", "digest", "tensors", "model", "versions"}
    if set(document) != wanted or not isinstance(document["tensors"], dict):
        raise ModelFileError(f"its description must have the entries {', '.join(sorted(wanted))}")
    return document


def _check_limits(text: str) -> None:
    n_items = sum(map(text.count, "[{,"))
    if len(text) > MOST_BYTES or n_items > MOST_ITEMS:
        raise ModelFileError(f"its description has {len(text):,} characters and {n_items:,} items: too many")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ModelFileError("its description names an entry twice")
    return found


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise ModelFileError("its description contains an integer of more than 64 bits")
    return int(digits)


def _refused(constant: str) -> None:
    raise ModelFileError(f"its description contains {constant}, which is not JSON")


def _tensor(file: Any, name: str, described: object) -> NDArray[Any]:
    """Return a tensor, a copy of its part of the file; safetensors has checked that it lies within the file."""
    here = file.get_slice(name)
    kind, shape = TYPES.get(here.get_dtype()), [int(length) for length in here.get_shape()]
    if not isinstance(described, dict) or set(described) != {"type", "shape", "sha256"}:
        raise ModelFileError(f"its tensor {name!r} is not described")
    if described["type"] != kind or described["shape"] != shape:
        raise ModelFileError(f"its tensor {name!r} does not have the type and shape that it lists")
    tensor = np.array(file.get_tensor(name), dtype=kind, order="C", copy=True).reshape(shape)
    if digest_of_pieces([_bytes(tensor)]) != described["sha256"]:
        raise ModelFileError(f"its tensor {name!r} is damaged: its digest does not match")
    return tensor


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
