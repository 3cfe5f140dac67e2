"""What Parquet files say of themselves: their columns, what these hold, and how long vectors are; needs pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow.parquet import ColumnChunkMetaData, FileMetaData, ParquetFile

from flipproof.tables.columns import index_columns, type_kind, type_kind_of_values

#: Characters of an error of somebody else's that are repeated.
LONGEST_REASON = 200


@dataclass(frozen=True)
class Footer:
    """What a file says of itself.

    Attributes
    ----------
    path : str
        The file.
    schema : pyarrow.Schema
        Names and types of its columns.
    metadata : pyarrow.parquet.FileMetaData
        Its row groups.
    """

    path: str
    schema: pa.Schema
    metadata: FileMetaData

    @staticmethod
    def read(path: str) -> Footer:
        """Read the footer of a file, and refuse names that two columns have."""
        try:
            with ParquetFile(path) as file:
                footer = Footer(path, file.schema_arrow, file.metadata)
        except (pa.ArrowException, OSError) as error:
            raise read_failure(path, error) from error
        names = footer.schema.names
        twice = named_twice(names)
        if twice is not None:
            raise ValueError(f"{path!r} has more than one column called {twice!r}.")
        return footer

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a column, of its values if it is a dictionary."""
        kind = self.schema.field(name).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def kind_of(self, name: str) -> str:
        """Return what a column holds, or its type if that is nothing that features can be."""
        kind = self.type_of(name)
        try:
            return type_kind(name, kind)
        except ValueError:
            return "nothing" if pa.types.is_null(kind) else type_kind_of_values(kind) or str(kind)


def named_twice(names: Sequence[str]) -> str | None:
    """Return a name that is among others more than once, if there is one."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def read_failure(path: str, error: BaseException) -> OSError:
    """Return the error to raise for one of pyarrow's, in one line."""
    reason = " ".join(str(error).split()).rstrip(".")
    return OSError(f"cannot read {path!r} as Parquet: {reason[:LONGEST_REASON]}.")


def all_index_columns(footers: Sequence[Footer]) -> set[str]:
    """Return the columns that are the index of pandas' data frame in any of the files."""
    return {name for footer in footers for name in index_columns(footer.schema)}


def check_same_columns(
    footers: Sequence[Footer], names: Sequence[str], features: Sequence[str], besides: Collection[str] | None = None
) -> None:
    """Refuse files that lack a column that the first one has, or in which it holds something else.

    Parameters
    ----------
    footers : sequence of Footer
        All files.
    names : sequence of str
        Columns to be read.
    features : sequence of str
        Those of them that are features, for which booleans are numbers.
    besides : collection of str, optional
        Columns that a file may have besides. By default it may have any.
    """
    first, wanted, numeric = footers[0], set(names), set(features)
    kinds: dict[str, tuple[str, str]] = {}
    for footer in footers:
        there = set(footer.schema.names)
        for name in names:
            if name not in there:
                raise ValueError(_missing(name, footer, first))
            kind = footer.kind_of(name)
            if kind == "nothing":  # none of the file's rows has a value, which may have been of any kind
                continue
            known, path = kinds.setdefault(name, (kind, footer.path))
            alike = {kind, known} == {"numbers", "booleans"} and name in numeric
            if kind != known and not alike:
                raise ValueError(f"column {name!r} holds {kind} in {footer.path!r}, but {known} in {path!r}.")
        more = [] if besides is None else sorted(there - wanted - set(besides))
        if more:
            raise ValueError(
                f"{footer.path!r} has a column {more[0]!r}, which {first.path!r} has not: "
                "name the columns to be read with features=[...]."
            )
    for name in features:
        if name not in kinds:
            raise ValueError(f"column {name!r} of {first.path!r} has no values at all: leave it out.")


def check_numeric(footers: Sequence[Footer], features: Sequence[str]) -> None:
    """Refuse features that are neither numbers nor vectors of them."""
    for footer in footers:
        for name in features:
            kind = footer.type_of(name)
            if pa.types.is_null(kind):
                continue
            try:
                held = type_kind(name, kind)
            except ValueError as error:
                raise ValueError(f"{footer.path!r}: {error}") from None
            if held == "vectors" and not (
                pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
            ):
                held = f"vectors of {kind.value_type}"
            if held not in ("numbers", "booleans", "vectors"):
                raise ValueError(
                    f"column {name!r} of {footer.path!r} holds {held}, not numbers: leave it out, or turn it into "
                    "numbers first, as encode=TableEncoder().fit(some_rows).transform does."
                )


def all_narrow(footers: Sequence[Footer], features: Sequence[str]) -> bool:
    """Whether float32 holds all features as they are: floats of 32 bits or less, and booleans beside them."""
    types = [footer.type_of(name) for footer in footers for name in features]
    inner = [kind.value_type if pa.types.is_nested(kind) else kind for kind in types]
    narrow = [kind for kind in inner if pa.types.is_float32(kind) or pa.types.is_float16(kind)]
    others = [kind for kind in inner if pa.types.is_boolean(kind) or pa.types.is_null(kind)]
    return bool(narrow) and len(narrow) + len(others) == len(inner)


def vector_lengths(footers: Sequence[Footer], features: Sequence[str]) -> dict[str, int]:
    """Return how long the vectors of columns are, where a footer says so.

    Raises
    ------
    ValueError
        If it is not the same in all files.
    """
    lengths: dict[str, tuple[int, str]] = {}
    for footer in footers:
        for name in features:
            for length in _lengths_in(footer, name):
                known, path = lengths.setdefault(name, (length, footer.path))
                if length != known:
                    where = f"{known} in {path!r}" if path != footer.path else f"{known} in another of its row groups"
                    raise ValueError(
                        f"column {name!r} holds vectors of {length} numbers in {footer.path!r}, but of {where}."
                    )
    return {name: length for name, (length, _) in lengths.items()}


def vector_columns(footers: Sequence[Footer], features: Sequence[str]) -> list[str]:
    """Return the columns that hold vectors in any of the files."""
    return [name for name in features if any(pa.types.is_nested(footer.type_of(name)) for footer in footers)]


def width_at_most(footers: Sequence[Footer], features: Sequence[str]) -> int:
    """Return about how many numbers a row has, where vectors are longest."""
    vectors = vector_columns(footers, features)
    longest = dict.fromkeys(vectors, 1)
    for footer in footers:
        for name in vectors:
            lengths = [-(-chunk.num_values // n_rows) for chunk, n_rows in _chunks(footer, name)]
            longest[name] = max([longest[name], *lengths])
    return len(features) - len(vectors) + sum(longest.values())


def _lengths_in(footer: Footer, name: str) -> list[int]:
    """Return the lengths of vectors in a file that are certain: where none of the numbers is missing."""
    kind = footer.type_of(name)
    if pa.types.is_fixed_size_list(kind):
        return [kind.list_size]
    if not pa.types.is_nested(kind):
        return []
    chunks = _chunks(footer, name)
    certain = [(chunk, n_rows) for chunk, n_rows in chunks if _is_complete(chunk) and chunk.num_values % n_rows == 0]
    return [chunk.num_values // n_rows for chunk, n_rows in certain]


def _chunks(footer: Footer, name: str) -> list[tuple[ColumnChunkMetaData, int]]:
    """Return the stored numbers of a column of vectors in each row group that is not empty, and its number of rows."""
    leaves = [i for i in range(footer.metadata.num_columns) if _is_list(footer.metadata.schema.column(i).path, name)]
    groups = [footer.metadata.row_group(number) for number in range(footer.metadata.num_row_groups)]
    return [(group.column(i), group.num_rows) for group in groups if group.num_rows for i in leaves]


def _is_complete(chunk: ColumnChunkMetaData) -> bool:
    known = chunk.statistics
    return known is not None and known.has_null_count and known.null_count == 0


def _is_list(path: str, name: str) -> bool:
    """Whether the path of stored numbers is that of a list, 'name.list.element'; a name may hold dots itself."""
    return path.startswith(f"{name}.") and path.count(".") == name.count(".") + 2


def _missing(name: str, footer: Footer, first: Footer) -> str:
    if footer is first:
        names = ", ".join(map(repr, first.schema.names[:10])) + (", ..." if len(first.schema.names) > 10 else "")
        return f"{first.path!r} has no column {name!r}, but {names}."
    return f"{footer.path!r} has no column {name!r}, which {first.path!r} has."
