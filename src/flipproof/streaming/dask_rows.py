"""Rows in Dask arrays and data frames: one part for each partition, which stays on its worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import dask.array as da
import numpy as np
from dask.utils import is_dataframe_like

from flipproof.streaming.arrays import ArrayPart
from flipproof.streaming.blocks import Block, as_entries, check_features, numbers_of_frame
from flipproof.streaming.row_blocks import RowBlocks
from flipproof.values import check_nothing_masked

COLUMNS = ("y", "trusted", "groups")


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of Dask collections: a task that visits it gets the computed values of its fields.

    Attributes
    ----------
    name : str
        Its name, for error messages.
    X : array or data frame of some rows
        Features, and the columns that `columns` names.
    columns : dict
        Labels, trust and annotators: entries of these rows, or the name of a column of `X`.
    feature_names : tuple of str or None
        The feature columns of a data frame.
    """

    name: str
    X: Any
    columns: dict[str, Any]
    feature_names: tuple[str, ...] | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block."""
        X = self._features()
        check_features(X, self.name)
        given = {name: self.X[one] if isinstance(one, str) else one for name, one in self.columns.items()}
        for name, one in given.items():
            if len(one) != len(X):
                raise ValueError(f"{self.name} has {len(X)} rows, but {name} has {len(one)} entries there.")
        if len(X) == 0:  # empty partitions may have any type
            return
        entries = {name: as_entries(name, one, self.name) for name, one in given.items()}
        columns = entries["y"], entries.get("trusted"), entries.get("groups")
        yield from ArrayPart(X, *columns, source=f"{self.name}, ").blocks()

    def _features(self) -> Any:
        if self.feature_names is None:
            check_nothing_masked(self.X, f"{self.name}: X")
            return np.asarray(self.X)
        missing = [name for name in (*self.feature_names, *self._taken()) if name not in self.X.columns]
        strange = [name for name in self.X.columns if name not in (*self.feature_names, *self._taken())]
        if missing or strange:
            what = f"no column {missing[0]!r}" if missing else f"a column {strange[0]!r}"
            raise ValueError(f"{self.name} has {what}, unlike its data frame.")
        features = self.X[list(self.feature_names)]
        return numbers_of_frame(features, self.name)

    def _taken(self) -> list[str]:
        return [one for one in self.columns.values() if isinstance(one, str)]


@dataclass(frozen=True, eq=False, repr=False)
class DaskRows(RowBlocks):
    """Rows in the partitions of Dask collections; `collections` keeps their persisted data alive.

    `keeper` is the client whose workers hold the parts, if they do.
    """

    collections: tuple[Any, ...] = ()
    keeper: Any = None

    is_in_dask: ClassVar[bool] = True

    def _together(self, more: RowBlocks) -> dict[str, Any]:
        known = super()._together(more)
        return {**known, "collections": (self.collections, more.collections)} if isinstance(more, DaskRows) else known


def dask_rows(X: Any, y: object, trusted: object = None, groups: object = None) -> RowBlocks:
    """Return the rows of a Dask array or data frame, one part for each of its partitions.

    `y`, `trusted` and `groups` are Dask arrays or series with the same partitions, arrays in memory if the number of
    rows of each partition is known, or columns of the data frame.
    """
    if y is None:
        raise ValueError("y must have a label for each row of X, or be the name of a column. Got None instead.")
    given = {name: one for name, one in zip(COLUMNS, (y, trusted, groups), strict=True) if one is not None}
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns. Got a Dask array of shape {X.shape} instead.")
        X, feature_names = X.rechunk({1: -1}), None
        pieces = list(X.to_delayed().ravel())
        lengths = None if np.isnan(X.chunks[0]).any() else X.chunks[0]
    elif is_dataframe_like(X):
        named = [one for one in given.values() if isinstance(one, str)]
        names = list(X.columns)
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        if twice:
            raise ValueError(f"The data frame X has two columns {twice[0]!r}: rename one of them.")
        unknown = [one for one in named if one not in names]
        if unknown:
            raise ValueError(f"The data frame X has no column {unknown[0]!r}: it has {', '.join(map(str, names))}.")
        feature_names = tuple(name for name in names if name not in named)
        pieces, lengths = list(X.to_delayed()), None
    else:
        raise ValueError(f"X must be a Dask array or data frame. Got {type(X).__name__} instead.")
    columns = {name: _pieces(name, one, len(pieces), lengths, feature_names) for name, one in given.items()}
    parts = tuple(
        Partition(f"block {number}", piece, {name: of_part[number] for name, of_part in columns.items()}, feature_names)
        for number, piece in enumerate(pieces)
    )
    words = feature_names if feature_names and all(isinstance(name, str) for name in feature_names) else None
    return DaskRows(parts, trusted is not None, groups is not None, words, (X, y, trusted, groups))


def _pieces(
    name: str, given: Any, n_parts: int, lengths: tuple[int, ...] | None, feature_names: tuple[str, ...] | None
) -> list[Any]:
    """Return the labels, trust or annotators of each partition."""
    if isinstance(given, str):
        if feature_names is None:
            raise ValueError(f"{name} must be an array if X is an array. Got the name {given!r} instead.")
        return [given] * n_parts
    if isinstance(given, da.Array):
        if given.ndim != 1:
            raise ValueError(f"{name} must have one entry per row of X. Got a Dask array of shape {given.shape}.")
        if lengths is not None and given.chunks[0] != lengths and sum(given.chunks[0]) == sum(lengths):
            given = given.rechunk((lengths,))
        pieces = list(given.to_delayed().ravel())
    elif hasattr(given, "to_delayed"):
        if given.ndim != 1:
            raise ValueError(f"{name} must be a series, or the name of a column. Got a data frame instead.")
        pieces = list(given.to_delayed())
    elif lengths is None:
        raise ValueError(f"{name} must be a Dask collection if the lengths of the partitions of X are unknown.")
    else:
        entries = as_entries(name, given)
        if entries.shape != (sum(lengths),):
            raise ValueError(f"{name} must have one entry per row of X, {sum(lengths)}. Got shape {entries.shape}.")
        pieces = np.split(entries, np.cumsum(lengths)[:-1])
    if len(pieces) != n_parts:
        raise ValueError(f"{name} must have the partitions of X, {n_parts}. Got {len(pieces)} instead.")
    return pieces
