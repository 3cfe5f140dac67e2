"""Rows of arrays: in memory, mapped from a file, or in folders of NPY files."""

from __future__ import annotations

import mmap
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Values
from flipproof.streaming.blocks import Block, as_entries, check_entries, check_features, rows_at_a_time, rows_in_words

NPY = (".npy",)
PARQUET = (".parquet", ".pq")

#: A file, a folder or a pattern; or a list of files.
Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


def are_paths(given: object) -> bool:
    """Whether something is a path, or a list of paths only."""
    if isinstance(given, (list, tuple)):
        return bool(given) and all(isinstance(one, (str, os.PathLike)) for one in given)
    return isinstance(given, (str, os.PathLike))


def is_pattern(path: Path) -> bool:
    """Whether a path is a pattern and not the name of an existing file."""
    return has_magic(str(path)) and not path.exists()


def means_files(path: Path) -> bool:
    """Whether a path is a folder or a pattern."""
    return path.is_dir() or is_pattern(path)


def found_files(paths: Paths, endings: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files, sorted by name; of a folder, the files with one of these endings, without subfolders.

    Files of a folder whose names begin with a dot or ``_`` are ignored, as in Arrow and Spark.

    Raises
    ------
    OSError
        If there are no files, or one of them does not exist; the message is one line.
    """
    if not isinstance(paths, (str, os.PathLike)):
        return tuple(_file(one) for one in paths)
    path = Path(paths)
    if path.is_dir():
        files = [one for one in path.iterdir() if one.suffix.lower() in endings and one.name[0] not in "._"]
        files = [one for one in files if not one.is_dir()]
        if not files:
            raise OSError(f"the folder {str(path)!r} has no files that end in {' or '.join(endings)}.")
    elif is_pattern(path):
        files = [one for one in map(Path, glob(str(path), recursive=True)) if not one.is_dir()]
        if not files:
            raise OSError(f"no file matches {str(path)!r}.")
    else:
        files = [path]
    return tuple(_file(one) for one in sorted(files))


def _file(path: str | os.PathLike[str]) -> Path:
    if not Path(path).exists():
        if Path(path).is_symlink():
            raise OSError(f"cannot read {str(path)!r}: it is a link to {os.readlink(path)!r}, which does not exist.")
        raise OSError(f"cannot read {str(path)!r}: there is no such file or folder.")
    if not Path(path).is_file():
        raise OSError(f"cannot read {str(path)!r}: it is not a file.")
    return Path(path)


#: Largest number of rows of a file that one task visits: several tasks can share a large file.
ROWS_IN_PART = 2**20


@dataclass(frozen=True)
class StoredArray:
    """The location of an array in a file: cheap to pickle, and opened again where its numbers are needed.

    Attributes
    ----------
    path : str
        The file.
    offset : int
        Bytes before the first entry.
    dtype, shape, strides
        As for a NumPy array.
    """

    path: str
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice) -> StoredArray:
        start, stop, _ = which.indices(len(self))
        return replace(
            self, offset=self.offset + start * self.strides[0], shape=(max(stop - start, 0), *self.shape[1:])
        )

    def opened(self) -> NDArray[Any]:
        """Return the array, still in the file."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        last = sum((length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True))
        try:
            mapped = np.memmap(self.path, np.uint8, "r", self.offset, shape=(last + self.dtype.itemsize,))
        except OSError as error:
            raise OSError(f"cannot read {self.path!r}: {error.strerror or error}.") from error
        except ValueError as error:
            raise OSError(f"cannot read {self.path!r}: it is shorter than before.") from error
        return np.ndarray(self.shape, self.dtype, buffer=mapped, strides=self.strides)


Source: TypeAlias = "NDArray[Any] | StoredArray"


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Some rows of arrays.

    Attributes
    ----------
    X, labels, trusted, groups
        These rows.
    first_row : int
        Number of the first row.
    source : str
        Prefix of the names of blocks.
    """

    X: Source
    labels: Source
    trusted: Source | None
    groups: Source | None
    first_row: int = 0
    source: str = ""

    @property
    def name(self) -> str:
        """Which rows these are."""
        return self.source + rows_in_words(self.first_row, len(self.X))

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block."""
        size = rows_at_a_time(self.X.shape[1])
        for start in range(0, len(self.X), size):
            part = self.rows(start, start + size)
            yield part.whole(part.name)

    def whole(self, name: str) -> Block:
        """Return all rows as one block, which may exceed memory if it is mapped from a file."""
        trusted, groups = (None if one is None else _opened(one) for one in (self.trusted, self.groups))
        return Block(name, _opened(self.X), _opened(self.labels), trusted, groups)

    def rows(self, start: int, stop: int) -> ArrayPart:
        """Return some of these rows."""
        which = slice(start, stop)
        return ArrayPart(
            self.X[which],
            self.labels[which],
            None if self.trusted is None else self.trusted[which],
            None if self.groups is None else self.groups[which],
            self.first_row + start,
            self.source,
        )

    def cut(self, size: int) -> tuple[ArrayPart, ...]:
        """Return parts of at most `size` rows, or one part without rows if there are none."""
        return tuple(self.rows(start, start + size) for start in range(0, max(len(self.X), 1), size))


def array_parts(X: object, y: object, trusted: object = None, groups: object = None) -> tuple[ArrayPart, ...]:
    """Return the parts of arrays, each of the size of a block."""
    if not isinstance(X, np.ndarray):
        raise ValueError(f"X must be a numpy array with rows and columns. Got {type(X).__name__} instead.")
    check_features(X, "X")
    _check_given(y)
    whole = ArrayPart(
        stored(np.asarray(X)),
        _entries("y", y, len(X)),
        None if trusted is None else _entries("trusted", trusted, len(X)),
        None if groups is None else _entries("groups", groups, len(X)),
    )
    return whole.cut(rows_at_a_time(X.shape[1]))


def npy_parts(X: Paths, y: object, trusted: object = None, groups: object = None) -> tuple[ArrayPart, ...]:
    """Return the parts of NPY files; only the headers are read."""
    _check_given(y)
    files = [(str(path), _stored_npy(path)) for path in found_files(X, NPY)]
    for path, array in files:
        check_features(array, repr(path))
        if array.shape[1] != files[0][1].shape[1]:
            raise ValueError(f"{path!r} has {array.shape[1]} columns, but {files[0][0]!r} has {files[0][1].shape[1]}.")
    labels = _entries_by_file("y", y, files)
    nothing: list[Source | None] = [None] * len(files)
    masks = nothing if trusted is None else [*_entries_by_file("trusted", trusted, files)]
    names = nothing if groups is None else [*_entries_by_file("groups", groups, files)]
    parts: list[ArrayPart] = []
    for (path, array), label, mask, name in zip(files, labels, masks, names, strict=True):
        parts.extend(ArrayPart(array, label, mask, name, source=f"{path!r}, ").cut(ROWS_IN_PART))
    return tuple(parts)


def stored(array: Values) -> Source:
    """Return the location of an array that is mapped from a file; return any other array unchanged."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    if not isinstance(owner, np.memmap) or owner.filename is None or any(stride < 0 for stride in array.strides):
        return array
    if owner.mode == "c":  # copied on write: changes are not in the file
        return array
    # a slice of a mapped array has the offset of the whole array: count from the start of the mapping
    mapping: Any = owner._mmap  # type: ignore[attr-defined]
    beginning = owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY
    before = _address(array) - _address(np.frombuffer(mapping, np.uint8))
    return StoredArray(os.fspath(owner.filename), beginning + before, array.dtype, array.shape, array.strides)


def _address(array: Values) -> int:
    return int(array.__array_interface__["data"][0])


def _opened(array: Source) -> NDArray[Any]:
    return array.opened() if isinstance(array, StoredArray) else array


def _check_given(y: object) -> None:
    if y is None:
        raise ValueError("y must have a label for each row of X. Got None instead.")


def _entries(name: str, given: object, n_rows: int) -> Source:
    """Return labels, trust or annotators as an array with one entry per row."""
    if isinstance(given, (str, os.PathLike)):
        raise ValueError(f"{name} must be an array, like X. Got the path {str(given)!r} instead.")
    entries = stored(as_entries(name, given))
    check_entries(entries, name, n_rows)
    return entries


def _entries_by_file(name: str, given: Any, files: Sequence[tuple[str, Source]]) -> list[Source]:
    """Return labels, trust or annotators for each file of rows."""
    lengths = [len(array) for _, array in files]
    one_by_one = isinstance(given, (list, tuple))
    if not are_paths(given) or (one_by_one and not all(Path(path).suffix.lower() in NPY for path in given)):  # words
        whole = _entries(name, given, sum(lengths))
        ends = np.cumsum(lengths).tolist()
        return [whole[slice(end - length, end)] for end, length in zip(ends, lengths, strict=True)]
    found = found_files(given, NPY)
    if len(found) != len(files):
        raise ValueError(
            f"{name} must have one file for each of the {len(files)} files of X. Got {len(found)}"
            f"{'' if one_by_one else f' in {str(given)!r}'} instead."
        )
    if not one_by_one:  # a list is in the intended order
        _check_numbers(name, [Path(path) for path, _ in files], found)
    columns = [_stored_npy(path) for path in found]
    for path, column, (rows, array) in zip(found, columns, files, strict=True):
        check_entries(column, repr(str(path)), len(array), of=f" of {rows!r}")
        if name == "trusted" and column.dtype != bool:
            raise ValueError(f"{str(path)!r} must be a mask of booleans, one per row. Got {column.dtype} instead.")
    return columns


def _check_numbers(name: str, rows: Sequence[Path], entries: Sequence[Path]) -> None:
    """Refuse files whose names end in the same numbers but sort differently, like X-2, X-10 and y-02, y-10."""
    expected, found = [_last_number(path) for path in rows], [_last_number(path) for path in entries]
    if expected == found or None in expected or Counter(expected) != Counter(found):
        return
    first = next(place for place, number in enumerate(expected) if number != found[place])
    raise ValueError(
        f"{name}: sorted by name, {str(entries[first])!r} would belong to {str(rows[first])!r}: name the files alike, "
        "with leading zeros."
    )


def _last_number(path: Path) -> int | None:
    numbers = re.findall(r"\d+", path.stem)
    return int(numbers[-1]) if numbers else None


def _stored_npy(path: Path) -> Source:
    try:
        return stored(np.lib.format.open_memmap(path, mode="r"))
    except (ValueError, EOFError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise OSError(f"cannot read {str(path)!r} as NPY: {reason}.") from error
