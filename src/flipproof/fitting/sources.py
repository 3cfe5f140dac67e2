"""Where rows come from: paths, data frames, arrays, pairs of rows and labels, and rows in blocks; and estimators."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from flipproof.streaming import RowBlocks


class Frame(Protocol):
    """A data frame of pandas, polars or pyarrow."""

    @property
    def columns(self) -> object:
        """The columns, or their names."""
        ...


class Estimator(Protocol):
    """A learner of flipproof, or an estimator of scikit-learn, which can be cloned."""

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return its parameters by name."""
        ...


#: A file or folder.
FilePath: TypeAlias = str | os.PathLike[str]

#: Rows as they may be given, alone or with labels.
Source: TypeAlias = "FilePath | Frame | ArrayLike | tuple[object, object] | RowBlocks"


def is_path(given: object) -> TypeGuard[FilePath]:
    """Whether rows are given as a path."""
    return isinstance(given, (str, os.PathLike))


def comes_in_blocks(train: Source, on_cluster: bool = False) -> bool:
    """Whether training rows are read in blocks."""
    if is_path(train):
        from flipproof.streaming.arrays import means_files

        return on_cluster or means_files(Path(train))
    if isinstance(train, tuple) or hasattr(train, "columns"):
        return False
    from flipproof.streaming import RowBlocks

    return isinstance(train, RowBlocks)


def source_name(given: object) -> str:
    """Return the name of a source of rows in errors and reports: its path or type."""
    if is_path(given) and os.fspath(given) == "-":
        return "standard input"
    if is_path(given):
        return str(Path(given))
    if isinstance(given, tuple):
        return "arrays"
    kind = type(given)
    return f"{kind.__module__.partition('.')[0]} {kind.__name__}"
