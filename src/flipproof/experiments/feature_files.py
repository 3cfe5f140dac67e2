"""Files of features: two arrays of 16-bit numbers, how they came about, and what made them."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.experiments.manifest import MADE_WITH, misfit
from flipproof.files import write_whole

#: What reading an archive that is damaged may end in.
UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, AttributeError, TypeError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, MemoryError),
)

#: Training and test rows.
Rows = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class FeatureFile:
    """What is in a file of features.

    Attributes
    ----------
    rows : pair of 16-bit arrays
        Training and test rows.
    recipe : str
        All that determines them but for libraries and processors.
    made_with : mapping
        Libraries and kernels, and the checksums of the data.
    """

    rows: Rows
    recipe: str
    made_with: Mapping[str, Any]


def write_features(path: Path, features: FeatureFile) -> None:
    """Write a file of features."""
    texts = {"recipe": features.recipe, "made_with": json.dumps(features.made_with, sort_keys=True)}
    train, test = features.rows
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}
    np.savez_compressed(buffer, train=train, test=test, **arrays)
    write_whole(path, buffer.getvalue())


def read_features(path: Path) -> FeatureFile:
    """Return what is in a file of features."""
    content = io.BytesIO(path.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as arrays:
            recipe, made_with = (arrays[name].tobytes().decode() for name in ("recipe", "made_with"))
            file = FeatureFile((arrays["train"], arrays["test"]), recipe, json.loads(made_with))
        _check(file)
    except UNREADABLE as error:
        raise OSError(f"{path} is damaged. Delete it, and the features are computed again. ({error})") from error
    return file


def _check(file: FeatureFile) -> None:
    for rows in file.rows:
        if rows.dtype != np.float16 or rows.ndim != 2 or not np.isfinite(rows).all():
            raise ValueError("it must hold two tables of 16-bit numbers")
    if file.rows[0].shape[1] != file.rows[1].shape[1]:
        raise ValueError("training and test rows have different numbers of columns")
    if wrong := misfit(file.made_with, MADE_WITH, "what made it"):
        raise ValueError(wrong)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
