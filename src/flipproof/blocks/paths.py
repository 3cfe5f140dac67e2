"""Files that a path, a folder or a pattern stands for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import TypeAlias

NPY = (".npy",)
PARQUET = (".parquet", ".pq")

#: A file, a folder or a pattern; or files one by one.
Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


def are_paths(given: object) -> bool:
    """Whether something is a path, or a list of nothing but paths."""
    if isinstance(given, (list, tuple)):
        return bool(given) and all(isinstance(one, (str, os.PathLike)) for one in given)
    return isinstance(given, (str, os.PathLike))


def is_pattern(path: Path) -> bool:
    """Whether a path stands for others, and is not itself the name of one."""
    return has_magic(str(path)) and not path.exists()


def found_files(paths: Paths, endings: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files, sorted by name; of a folder those with such an ending, and none of its folders.

    Files of a folder whose names begin with a dot or ``_`` are left out, as Arrow and Spark do.

    Raises
    ------
    OSError
        In one line, if there are none, or one of them is not there.
    """
    if not isinstance(paths, (str, os.PathLike)):
        return tuple(_file(one) for one in paths)
    path = Path(paths)
    if path.is_dir():
        files = [one for one in path.iterdir() if one.suffix.lower() in endings and one.name[0] not in "._"]
        files = [one for one in files if not one.is_dir()]
        if not files:
            raise OSError(f"there is no file in {str(path)!r} that ends in {' or '.join(endings)}.")
    elif is_pattern(path):
        files = [one for one in map(Path, glob(str(path), recursive=True)) if not one.is_dir()]
        if not files:
            raise OSError(f"there is no file like {str(path)!r}.")
    else:
        files = [path]
    return tuple(_file(one) for one in sorted(files))


def _file(path: str | os.PathLike[str]) -> Path:
    if not Path(path).exists():
        if Path(path).is_symlink():
            raise OSError(f"cannot read {str(path)!r}: it is a link to {os.readlink(path)!r}, which is not there.")
        raise OSError(f"cannot read {str(path)!r}: there is no such file or folder.")
    if not Path(path).is_file():
        raise OSError(f"cannot read {str(path)!r}: it is not a file.")
    return Path(path)
