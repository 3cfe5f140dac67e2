"""RowBlocks: training rows in blocks, from arrays, files, lists of blocks or functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from flipproof.streaming.arrays import (
    NPY,
    PARQUET,
    ArrayPart,
    Paths,
    are_paths,
    array_parts,
    found_files,
    npy_parts,
    stored,
)
from flipproof.streaming.blocks import (
    Block,
    Part,
    as_entries,
    check_entries,
    checked_block,
    column_names,
    in_pieces,
    made_features,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Blocks given by the user: each is (X, y) or (X, y, trusted, groups).
GivenBlocks: TypeAlias = "Sequence[tuple[Any, ...]] | Callable[[], Iterable[tuple[Any, ...]]]"


@dataclass(frozen=True)
class Example:
    """Properties of the first block that all other blocks must share.

    Attributes
    ----------
    n_columns : int
        Number of features.
    names : tuple or None
        Their names, if they come from a data frame.
    has_trusted, has_groups : bool
        Whether trusted rows and annotators are given.
    """

    n_columns: int
    names: tuple[Any, ...] | None
    has_trusted: bool
    has_groups: bool

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, if all are strings."""
        return self.names if self.names and all(isinstance(name, str) for name in self.names) else None

    @staticmethod
    def of(block: Block, given: Sequence[Any]) -> Example:
        """Return the properties of a block that was made from `given`."""
        names = column_names(given[0])
        return Example(block.X.shape[1], names, block.trusted is not None, block.groups is not None)

    def check(self, block: Block, given: Sequence[Any]) -> None:
        """Refuse a block that differs from the first."""
        if block.X.shape[1] != self.n_columns:
            raise ValueError(f"{block.name} has {block.X.shape[1]} columns, but block 0 has {self.n_columns}.")
        self._check_names(block.name, column_names(given[0]))
        for what, one, first in (
            ("trusted", block.trusted is not None, self.has_trusted),
            ("groups", block.groups is not None, self.has_groups),
        ):
            if one != first:
                has, other = ("has", "has not") if one else ("has no", "has")
                raise ValueError(f"{block.name} {has} {what!r}, but block 0 {other}: give it for all blocks, or none.")

    def _check_names(self, block: str, names: tuple[Any, ...] | None) -> None:
        if (names is None) != (self.names is None):
            has, other = ("has no", "has some") if names is None else ("has", "has none")
            raise ValueError(
                f"{block} {has} names of columns, but block 0 {other}: give data frames for all blocks, or for none."
            )
        for place, (name, first) in enumerate(zip(names or (), self.names or (), strict=True)):
            if name != first:
                raise ValueError(
                    f"{block} has {name!r} as column {place}, but block 0 has {first!r}: give all blocks the same "
                    "columns, in the same order."
                )


@dataclass(frozen=True, eq=False)
class BlockPart:
    """A block of a list; if it is mapped from a file, only its location is pickled."""

    name: str
    arrays: ArrayPart

    def blocks(self) -> Iterator[Block]:
        """Yield the block, split into pieces if it is large."""
        yield from in_pieces(self.arrays.whole(self.name))


@dataclass(frozen=True)
class FunctionPart:
    """All blocks that a function returns."""

    function: Callable[[], Iterable[tuple[Any, ...]]]
    example: Example

    @property
    def name(self) -> str:
        """The name of the function."""
        return f"blocks of {getattr(self.function, '__qualname__', type(self.function).__name__)}"

    def blocks(self) -> Iterator[Block]:
        """Call the function and yield its blocks, split into pieces if they are large."""
        number = -1
        for number, given in enumerate(self.function()):
            block = _checked(number, given)
            self.example.check(block, given)
            yield from in_pieces(block)
        if number < 0:
            raise ValueError(
                f"{self.name}: the function returned no blocks on a later call. Each call must return all of them."
            )


def given_parts(blocks: GivenBlocks) -> tuple[tuple[BlockPart, ...] | tuple[FunctionPart], Example]:
    """Return the parts of blocks given by the user, and their common properties."""
    if isinstance(blocks, (list, tuple)):
        if not blocks:
            raise ValueError("blocks must have at least one block (X, y). Got none.")
        checked = [_checked(number, given) for number, given in enumerate(blocks)]
        example = Example.of(checked[0], blocks[0])
        for block, given in zip(checked, blocks, strict=True):
            example.check(block, given)
        return tuple(_block_part(block) for block in checked), example
    if callable(blocks):
        example = _first_of(blocks)
        return (FunctionPart(blocks, example),), example
    what = "an iterator that is used up after one pass" if isinstance(blocks, Iterator) else type(blocks).__name__
    raise ValueError(
        "blocks must be a list of tuples (X, y), or a function without arguments that returns a new iterator of them "
        f"at every call, since there are several passes over the rows. Got {what} instead."
    )


def _block_part(block: Block) -> BlockPart:
    trusted, groups = (None if one is None else stored(one) for one in (block.trusted, block.groups))
    return BlockPart(block.name, ArrayPart(stored(block.X), stored(block.labels), trusted, groups))


def _first_of(function: Callable[[], Iterable[tuple[Any, ...]]]) -> Example:
    once = function()
    if not isinstance(once, Iterable):
        raise ValueError(
            f"a function of blocks must return an iterator of tuples (X, y). Got {type(once).__name__} instead."
        )
    blocks = iter(once)
    # a list, or any other object that can be iterated again, need not be created twice to check this
    if blocks is iter(once) and blocks is iter(function()):
        raise ValueError(
            "a function of blocks must return a new iterator at every call, since there are several passes over the "
            "rows. Got the same one twice."
        )
    for given in blocks:
        return Example.of(_checked(0, given), given)
    raise ValueError("a function of blocks must return at least one. Got none.")


def _checked(number: int, given: object) -> Block:
    name = f"block {number}"
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 4):
        got = f"{len(given)} entries" if isinstance(given, (tuple, list)) else type(given).__name__
        raise ValueError(f"{name} must be a tuple (X, y) or (X, y, trusted, groups). Got {got} instead.")
    return checked_block(name, *given)


@dataclass(frozen=True, eq=False, repr=False)
class RowBlocks:
    """Training rows in parts of several blocks each: more rows than fit in memory.

    It only describes the rows: they are read again at every visit to a part. Parts can be pickled, and visited in any
    order and by several workers.

    Attributes
    ----------
    parts : tuple of Part
        The parts that one task visits: a file, a part of a file, or a partition.
    has_trusted : bool
        Whether trusted rows are given.
    has_groups : bool
        Whether annotators are given.
    feature_names : tuple of str or None
        Names of the feature columns, if they come from data frames or files.

    See Also
    --------
    flipproof.StreamingRidgeClassifier : Ridge regression on more rows than memory.
    flipproof.StreamingKernelClassifier : Kernels on more rows than memory.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof.streaming import RowBlocks
    >>> rows = RowBlocks.from_blocks([(np.eye(2), [0, 1]), (np.ones((3, 2)), [1, 1, 0])])
    >>> rows
    <RowBlocks: 2 parts>
    >>> [(block.name, len(block)) for part in rows.parts for block in part.blocks()]
    [('block 0', 2), ('block 1', 3)]
    """

    parts: tuple[Part, ...]
    has_trusted: bool = False
    has_groups: bool = False
    feature_names: tuple[str, ...] | None = None

    #: Tells learners for rows in memory that these rows are not in memory.
    comes_in_blocks: ClassVar[bool] = True

    #: Whether only Dask can visit the parts.
    is_in_dask: ClassVar[bool] = False

    def __repr__(self) -> str:
        known = [what for what, has in (("trusted rows", self.has_trusted), ("groups", self.has_groups)) if has]
        counted = f"{len(self.parts)} part{'' if len(self.parts) == 1 else 's'}"
        return f"<RowBlocks: {', with '.join([counted, ' and '.join(known)] if known else [counted])}>"

    @classmethod
    def from_arrays(cls, X: object, y: object, trusted: object = None, groups: object = None) -> RowBlocks:
        """Return the rows of arrays, which may be mapped from files (`numpy.memmap`) and are never copied.

        Parameters
        ----------
        X : array of shape (n, k)
            Features.
        y : array of shape (n,)
            Labels.
        trusted : booleans of shape (n,), optional
            Whether the label of each row is trusted.
        groups : array of shape (n,), optional
            The annotator of each row.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import RowBlocks
        >>> RowBlocks.from_arrays(np.zeros((100, 3)), np.zeros(100))
        <RowBlocks: 1 part>
        """
        return cls(array_parts(X, y, trusted, groups), trusted is not None, groups is not None)

    @classmethod
    def from_npy(cls, X: Paths, y: object, trusted: object = None, groups: object = None) -> RowBlocks:
        """Return the rows of NPY files; only the headers are read here.

        Parameters
        ----------
        X : path or list of paths
            A folder, or a pattern like ``"rows/X-*.npy"``: files with rows and columns, sorted by name; or a list of
            files.
        y, trusted, groups : array of n entries, path, or list of paths
            As for `from_arrays`; or files, given as for X, one for each file of X with the same number of entries.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from flipproof.streaming import RowBlocks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(os.path.join(folder, "X.npy"), np.zeros((100, 3)))
        ...     np.save(os.path.join(folder, "y.npy"), np.zeros(100))
        ...     print(RowBlocks.from_npy(os.path.join(folder, "X.npy"), os.path.join(folder, "y.npy")))
        <RowBlocks: 1 part>
        """
        return cls(npy_parts(X, y, trusted, groups), trusted is not None, groups is not None)

    @classmethod
    def from_parquet(
        cls,
        path: Paths,
        label: str,
        features: Sequence[str] | None = None,
        trusted: str | None = None,
        groups: str | None = None,
        *,
        encode: Callable[[pa.Table], Any] | None = None,
        numeric: bool = False,
    ) -> RowBlocks:
        """Return the rows of Parquet files; only the footers are read here.

        Parameters
        ----------
        path : path or list of paths
            A folder, a pattern, a file, or several files. All must have the same columns.
        label : str
            Column of labels: words, whole numbers or booleans.
        features : list of str, optional
            Columns of numbers, booleans or vectors. By default all other columns of the first file, without the
            index of a pandas data frame. Missing values become NaN.
        trusted : str, optional
            Column of booleans, 0 and 1, or yes and no: whether the label of each row is trusted.
        groups : str, optional
            Column with the annotator of each row.
        encode : callable, optional
            Converts a pyarrow table of the features of some rows to numbers, for example the `transform` of a fitted
            `flipproof.tables.TableEncoder`. Features may then be of any kind.
        numeric : bool, default=False
            Whether `label` is a column of numbers, the targets of a regressor.

        Examples
        --------
        >>> import os, tempfile
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> from flipproof.streaming import RowBlocks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "rows.parquet")
        ...     pq.write_table(pa.table({"x": [0.0, 1.0, 2.0], "y": [0, 1, 1]}), path)
        ...     print(RowBlocks.from_parquet(path, label="y"))
        <RowBlocks: 1 part>
        """
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise ImportError("reading Parquet files needs pyarrow: pip install 'flipproof[cli]'") from error
        from flipproof.streaming.parquet import parquet_parts

        parts, names = parquet_parts(path, label, features, trusted, groups, encode, numeric)
        return cls(parts, trusted is not None, groups is not None, names)

    @classmethod
    def from_blocks(cls, blocks: GivenBlocks) -> RowBlocks:
        """Return rows that are given block by block.

        Parameters
        ----------
        blocks : list of tuples, or function
            Each block is ``(X, y)`` or ``(X, y, trusted, groups)``, where the last two may be None. If X are data
            frames, all must have the columns of the first. A function takes no arguments and returns a new iterator of
            these tuples at every call. It is called once per pass, and also here to check the first block (twice if it
            returns an iterator, to check that it is a new one). Blocks of a list can be visited by several workers,
            those of a function only by one.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import RowBlocks
        >>> RowBlocks.from_blocks([(np.eye(2), [0, 1]), (np.ones((3, 2)), [1, 1, 0])])
        <RowBlocks: 2 parts>
        """
        parts, example = given_parts(blocks)
        return cls(parts, example.has_trusted, example.has_groups, example.feature_names)

    def map(self, function: Callable[[Any], Any]) -> RowBlocks:
        """Return the same rows with other features.

        Parameters
        ----------
        function : callable
            Takes the features of a block and returns the same number of rows, for example the `transform` of a fitted
            scaler. It must be picklable if several workers visit the rows.

        Returns
        -------
        RowBlocks
            New blocks; these do not change.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import RowBlocks
        >>> rows = RowBlocks.from_blocks([(np.eye(2), [0, 1])]).map(lambda X: 2 * X)
        >>> [block.X.tolist() for part in rows.parts for block in part.blocks()]
        [[[2.0, 0.0], [0.0, 2.0]]]
        """
        return replace(self, parts=tuple(MappedPart(part, function) for part in self.parts), feature_names=None)

    def with_columns(
        self,
        rows_per_part: Sequence[int],
        trusted: object = None,
        groups: object = None,
        *,
        keep_trusted: bool = False,
        first_row: int = 0,
    ) -> RowBlocks:
        """Return the same rows, numbered, with other trusted rows or annotators.

        Parameters
        ----------
        rows_per_part : sequence of int
            Number of rows of each part, known after a pass.
        trusted, groups : array of n entries, optional
            As for `from_arrays`. Unchanged by default.
        keep_trusted : bool, default=False
            Whether rows that are trusted already stay so.
        first_row : int, default=0
            Number of the first row.

        Returns
        -------
        RowBlocks
            New blocks; these do not change.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import RowBlocks
        >>> rows = RowBlocks.from_arrays(np.zeros((3, 2)), [0, 1, 1]).with_columns([3], trusted=[True, False, False])
        >>> [block.trusted.tolist() for part in rows.parts for block in part.blocks()]
        [[True, False, False]]
        """
        n_rows, ends = sum(rows_per_part), np.cumsum(rows_per_part)[:-1]
        columns: list[list[Any]] = []
        for name, given in (("trusted", trusted), ("groups", groups)):
            if given is None:
                columns.append([None] * len(self.parts))
                continue
            entries = as_entries(name, given)
            check_entries(entries, name, n_rows)
            columns.append(np.split(entries, ends))
        parts = tuple(
            NumberedPart(part, first_row + start, trust, who, keep_trusted)
            for part, start, trust, who in zip(self.parts, [0, *ends.tolist()], *columns, strict=True)
        )
        return replace(
            self,
            parts=parts,
            has_trusted=self.has_trusted or trusted is not None,
            has_groups=self.has_groups or groups is not None,
        )

    def followed_by(self, more: RowBlocks) -> RowBlocks:
        """Return these rows, and others after them.

        Parameters
        ----------
        more : RowBlocks
            The others: with the same columns, and with annotators if these rows have them. If only some of the rows
            say which are trusted, no other is trusted.

        Returns
        -------
        RowBlocks
            New blocks; these do not change.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.streaming import RowBlocks
        >>> first, more = (RowBlocks.from_blocks([(np.eye(2), [0, 1])]) for _ in range(2))
        >>> first.followed_by(more)
        <RowBlocks: 2 parts>
        """
        if more.is_in_dask and not self.is_in_dask:  # only Dask can visit all of them
            return replace(more, parts=(*self.parts, *more.parts), **self._together(more))
        return replace(self, parts=(*self.parts, *more.parts), **self._together(more))

    def _together(self, more: RowBlocks) -> dict[str, Any]:
        """Return what is known of these rows and others together, apart from their parts."""
        return {
            "has_trusted": self.has_trusted or more.has_trusted,
            "has_groups": self.has_groups and more.has_groups,
            "feature_names": self.feature_names,
        }


@dataclass(frozen=True, eq=False)
class NumberedPart:
    """A part whose rows are numbered, with trusted rows and annotators that may replace its own.

    Its own trusted rows are trusted, too, if `keeps_trusted`.
    """

    part: Part
    first_row: int
    trusted: Any
    groups: Any
    keeps_trusted: bool = False

    @property
    def name(self) -> str:
        """Where the rows come from."""
        return self.part.name

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block."""
        start = 0
        for block in self.part.blocks():
            rows = slice(start, start + len(block))
            start += len(block)
            trusted = block.trusted if self.trusted is None else self.trusted[rows]
            groups = block.groups if self.groups is None else self.groups[rows]
            if any(one is not None and len(one) != len(block) for one in (trusted, groups)):
                raise ValueError(f"{block.name} has changed since its rows were counted: it has more rows now.")
            if self.keeps_trusted and trusted is not None and block.trusted is not None:
                trusted = trusted | block.trusted
            yield replace(block, first_row=self.first_row + rows.start, trusted=trusted, groups=groups)


@dataclass(frozen=True, eq=False)
class MappedPart:
    """A part whose features are computed by a function."""

    part: Part
    function: Callable[[Any], Any]

    @property
    def name(self) -> str:
        """Where the rows come from."""
        return self.part.name

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block, without empty blocks, which few transformers accept."""
        for block in self.part.blocks():
            if len(block) == 0:
                continue
            made = self.function(block.X)
            yield replace(block, X=made_features(made, len(block), f"{block.name}: the result of the function"))


def as_row_blocks(X: Any, y: Any = None, trusted: Any = None, groups: Any = None, numeric: bool = False) -> RowBlocks:
    """Return training rows of any source as row blocks.

    Parameters
    ----------
    X : RowBlocks, path, array, list of tuples or function
        Rows; a path of NPY or Parquet files, recognised by their endings.
    y, trusted, groups
        Arrays or paths, names of columns for Parquet, or None if X contains them.
    numeric : bool
        Whether `y` are numeric targets.
    """
    if isinstance(X, RowBlocks):
        _check_within(y, trusted, groups, "RowBlocks")
        return X
    if are_paths(X):
        return _from_files(X, y, trusted, groups, numeric)
    if isinstance(X, np.ndarray):
        return RowBlocks.from_arrays(X, y, trusted, groups)
    if callable(X) or isinstance(X, Iterator) or (isinstance(X, (list, tuple)) and y is None):
        _check_within(y, trusted, groups, "blocks")
        return RowBlocks.from_blocks(X)
    raise ValueError(
        "rows in blocks must be RowBlocks, an array, a path of NPY or Parquet files, a list of tuples (X, y), or a "
        f"function that returns an iterator of these. Got {type(X).__name__} instead."
    )


def _from_files(X: Paths, y: Any, trusted: Any, groups: Any, numeric: bool) -> RowBlocks:
    files = found_files(X, NPY + PARQUET)
    endings = {file.suffix.lower() for file in files}
    if endings <= set(NPY):
        return RowBlocks.from_npy(X, y, trusted, groups)
    if endings <= set(PARQUET):
        if not isinstance(y, str):
            what = "targets" if numeric else "labels"
            raise ValueError(f"y must be the name of the column of {what} in {_shown(X)}. Got {_kind(y)} instead.")
        return RowBlocks.from_parquet(X, y, trusted=trusted, groups=groups, numeric=numeric)
    raise ValueError(f"files of rows must all end in .npy, or all in .parquet or .pq. Got {_shown(X)} instead.")


def _check_within(y: object, trusted: object, groups: object, what: str) -> None:
    for name, given in (("y", y), ("trusted", trusted), ("groups", groups)):
        if given is not None:
            raise ValueError(f"{name} must be None if X is {what}, which contain it. Got {_kind(given)} instead.")


def _kind(given: object) -> str:
    return "None" if given is None else type(given).__name__


def _shown(paths: Paths) -> str:
    return repr(os.fspath(paths)) if isinstance(paths, (str, os.PathLike)) else ", ".join(map(repr, map(str, paths)))
