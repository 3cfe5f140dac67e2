"""Read arrays from files of NumPy."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.datasets.files import PublicFile, Shelf


def arrays(shelf: Shelf, file: PublicFile, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return named arrays of an npz file; nothing in it is ever run."""
    content, where = shelf.read(file), shelf.folder / file.name
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as data:
            return {name: data[name] for name in names}
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise OSError(f"{where} is damaged or another file: it must hold {', '.join(names)} ({error}).") from error
