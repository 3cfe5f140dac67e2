"""A block of training rows with its labels, trusted rows and annotators, and the checks of its input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from flipproof.core.rounding import Integers
from flipproof.values import as_mask, as_names, as_values, check_nothing_masked

#: Largest size of a block of rows, in numbers: 64 MiB in float64.
NUMBERS_IN_BLOCK = 2**23

#: Largest number of rows of a block.
ROWS_IN_BLOCK = 2**17


@dataclass(frozen=True)
class Block:
    """Training rows that are in memory at the same time.

    Attributes
    ----------
    name : str
        Where the rows come from, for error messages: ``"block 17"``, ``"'emails/part-3.parquet', rows 0 to 99"``.
    X : numbers of shape (rows, columns)
        Features.
    labels : array of shape (rows,)
        Labels.
    trusted : booleans of shape (rows,) or None
        Whether the label of each row is trusted.
    groups : array of shape (rows,) or None
        The annotator of each row.
    first_row : int
        Number of the first row among all rows, if known.

    See Also
    --------
    flipproof.streaming.RowBlocks : Rows in parts.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof.streaming import Block
    >>> Block("block 1", np.zeros((2, 3)), np.array([0, 1])).X.shape
    (2, 3)
    """

    name: str
    X: NDArray[Any]
    labels: NDArray[Any]
    trusted: NDArray[np.bool_] | None = None
    groups: NDArray[Any] | None = None
    first_row: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    def only(self, which: Integers) -> Block:
        """Return the rows at some places; they are to be numbered.

        Parameters
        ----------
        which : integers
            Positions of rows.

        Returns
        -------
        Block
            These rows.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import Block
        >>> block = Block("block 1", np.zeros((3, 2)), np.array([0, 1, 1]))
        >>> len(block.only(np.array([2, 0])))
        2
        """
        trusted = None if self.trusted is None else self.trusted[which]
        groups = None if self.groups is None else self.groups[which]
        return replace(self, X=self.X[which], labels=self.labels[which], trusted=trusted, groups=groups)

    def rows(self, which: slice) -> Block:
        """Return a run of the rows.

        Parameters
        ----------
        which : slice
            Positions of rows.

        Returns
        -------
        Block
            These rows.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import Block
        >>> block = Block("block 1", np.zeros((3, 2)), np.array([0, 1, 1]))
        >>> len(block.rows(slice(1, 3)))
        2
        """
        trusted = None if self.trusted is None else self.trusted[which]
        groups = None if self.groups is None else self.groups[which]
        first_row = self.first_row + which.indices(len(self))[0]
        return replace(
            self, X=self.X[which], labels=self.labels[which], trusted=trusted, groups=groups, first_row=first_row
        )


class Part(Protocol):
    """The rows that one task visits: a file, a part of a file, or a partition. It must be picklable for workers."""

    @property
    def name(self) -> str:
        """Where the rows come from, for error messages."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block: the same rows at every call. Blocks may be empty."""
        ...


def rows_at_a_time(n_columns: int) -> int:
    """Return how many rows a block of this width may have."""
    return max(1, min(ROWS_IN_BLOCK, NUMBERS_IN_BLOCK // max(n_columns, 1)))


def check_features(X: Any, name: str) -> None:
    """Refuse anything but a matrix of numbers without masked entries; the values themselves are not read."""
    check_nothing_masked(X, name)
    if len(X.shape) != 2:
        raise ValueError(f"{name} must have rows and columns. Got an array of shape {X.shape} instead.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} must contain numbers. Got {X.dtype} instead: encode words first.")


def as_features(X: Any, name: str) -> NDArray[Any]:
    """Return an array or a data frame as an array of numbers."""
    if issparse(X):
        raise ValueError(f"{name} must be dense. Got {type(X).__name__} instead: convert it with .toarray().")
    if hasattr(getattr(X, "dtypes", None), "items"):
        numbers = numbers_of_frame(X, name)
    else:
        check_nothing_masked(X, name)
        try:
            numbers = np.asarray(X)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{name} must have rows and columns: {error}") from error
    check_features(numbers, name)
    return numbers


def made_features(X: object, n_rows: int, name: str) -> NDArray[Any]:
    """Return the result of a function of rows as an array; refuse it if it is not a matrix of `n_rows` rows."""
    made = as_features(X, name)
    if len(made) != n_rows:
        raise ValueError(f"{name} must have {n_rows} rows, as many as its input. Got {len(made)} instead.")
    return made


def numbers_of_frame(frame: Any, name: str) -> NDArray[Any]:
    """Return the columns of a pandas-like data frame as an array of numbers, NaN where they are missing.

    Parameters
    ----------
    frame : data frame
        Columns of numbers or booleans, of NumPy or pandas types.
    name : str
        Its name, for error messages.

    Raises
    ------
    ValueError
        If a column has another type; the message names the first one.
    """
    for column, kind in frame.dtypes.items():
        if kind.kind not in "biuf":
            raise ValueError(f"{name} holds {kind} in column {column!r}: features must be numbers.")
    kinds = set(frame.dtypes)
    if all(isinstance(kind, np.dtype) for kind in kinds) and (len(kinds) == 1 or np.dtype(bool) not in kinds):
        return np.asarray(frame.to_numpy())
    # pandas would convert these to objects
    is_narrow = all(kind.kind == "f" and getattr(kind, "itemsize", None) == 4 for kind in kinds)
    return np.asarray(frame.to_numpy(dtype=np.float32 if is_narrow else np.float64, na_value=np.nan))


def column_names(X: object) -> tuple[Any, ...] | None:
    """Return the column names of a data frame or table; None if they are only numbers, or if it is neither."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or tuple(names) == tuple(range(len(names))):
        return None
    return tuple(names)


def check_entries(entries: Any, name: str, n_rows: int, of: str = "") -> None:
    """Refuse entries unless there is one for each row; `of` says where the rows come from."""
    if len(entries.shape) != 1 or entries.shape[0] != n_rows:
        got = entries.shape[0] if len(entries.shape) == 1 else f"an array of shape {entries.shape}"
        raise ValueError(f"{name} must have one entry for each of the {n_rows} rows{of}. Got {got} instead.")


def as_entries(purpose: str, given: object, block: str = "") -> NDArray[Any]:
    """Return labels ("y"), "trusted" or "groups" by value, as an array; `block` is their block, for error messages.

    An array that may be mapped from a file stays mapped, and its values are not read.
    """
    name = f"{block}: {purpose}" if block else purpose
    plain = "b" if purpose == "trusted" else "biufUS"
    if isinstance(given, np.ndarray) and given.dtype.kind in plain and given.dtype != np.longdouble:
        check_nothing_masked(given, name)
        return np.asarray(given)
    if purpose == "trusted":
        return as_mask(given, name, "a mask of booleans, one per row.")
    if purpose == "groups":
        return as_names(given, f"The annotators of {block}" if block else name)
    return as_values(given, f"The labels of {block}" if block else name)


def checked_block(name: str, X: object, labels: object, trusted: object = None, groups: object = None) -> Block:
    """Check a block given by the user, and return it.

    Raises
    ------
    ValueError
        If it is invalid; the message names the block.
    """
    X, labels = as_features(X, f"{name}: X"), as_entries("y", labels, name)
    check_entries(labels, f"{name}: y", len(X))
    if trusted is not None:
        trusted = as_entries("trusted", trusted, name)
        check_entries(trusted, f"{name}: trusted", len(X))
    if groups is not None:
        groups = as_entries("groups", groups, name)
        check_entries(groups, f"{name}: groups", len(X))
    return Block(name, X, labels, trusted, groups)


def in_pieces(block: Block) -> Iterator[Block]:
    """Split a block into pieces that fit in memory; their names say which rows they are."""
    size = rows_at_a_time(block.X.shape[1])
    if len(block) <= size:
        yield block
        return
    for start in range(0, len(block), size):
        piece = block.rows(slice(start, start + size))
        yield replace(piece, name=f"{block.name}, {rows_in_words(start, len(piece))}")


def rows_in_words(first: int, count: int) -> str:
    """Return a text that says which rows these are."""
    if count == 0:
        return "no rows"
    return f"row {first}" if count == 1 else f"rows {first} to {first + count - 1}"
