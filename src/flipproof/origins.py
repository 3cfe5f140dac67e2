"""Origins of certificates: the test rows, their names and data frame library, and the model that predicted them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Integers, Values

if TYPE_CHECKING:
    import pyarrow as pa

#: Libraries of data frames, in the order in which results are made for rows that are no data frame.
FRAME_LIBRARIES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, repr=False, eq=False)
class Origin:
    """The test rows that certificates are about, and the model.

    A copy that leaves the process (pickle) has the names of the rows, but neither the model nor the rows.

    Attributes
    ----------
    numbers : integers of shape (m,)
        Numbers of the certified rows in `X`.
    library : str or None
        Library of the data frame `X`; None if it is no data frame.
    names : pandas.Index, sequence of m names, or None
        Names of the certified rows; None: their numbers are their names.
    model : estimator or None
        The fitted learner, or the Pipeline or search around it.
    X : array or data frame, or None
        Test rows, as given to `certify`.
    """

    numbers: Integers
    library: str | None = None
    names: Any = None
    model: Any = None
    X: Any = None

    @classmethod
    def of(cls, model: object, X: object, n_rows: int) -> Origin:
        """Return the origin of certificates of all rows of `X`."""
        return cls(np.arange(n_rows), frame_library(X), index_of(X), model, X)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "model": None, "X": None}

    def take(self, chosen: Integers) -> Origin:
        """Return the origin of the certificates at these positions."""
        names = self.names
        if names is not None:
            names = names[chosen] if hasattr(names, "get_indexer") else [names[position] for position in chosen]
        return replace(self, numbers=self.numbers[chosen], names=names)

    @property
    def name_list(self) -> list[Any]:
        """The names of the rows as a list of plain values."""
        names = self.numbers if self.names is None else self.names
        return list(names.tolist()) if hasattr(names, "tolist") else list(names)

    def name_at(self, position: int) -> Any:
        """Return the name of the row at a position."""
        name = (self.numbers if self.names is None else self.names)[position]
        return name.item() if isinstance(name, np.generic) else name

    def labels_in_order(self, y: Any, name: str) -> NDArray[Any]:
        """Return labels of the rows as an array; those of a pandas Series by its index, all others by position.

        Raises
        ------
        ValueError
            If the Series has no label for a row, or more than one.
        """
        index = index_of(y)
        known = self.names if hasattr(self.names, "get_indexer") else None
        if index is None or known is None or index.equals(known):
            return np.asarray(y)
        if not index.is_unique or not known.isin(index).all():
            missing = "some more than once" if not index.is_unique else f"but not {known[~known.isin(index)][0]!r}"
            raise ValueError(
                f"{name} must have the index of the test rows. Got a Series with other names in its index, {missing}: "
                f"give {name}.to_numpy() if its values are in the order of the test rows."
            )
        return np.asarray(y.loc[known])


def index_of(X: Any) -> Any:
    """Return the index of a data frame or Series of pandas; None for everything else."""
    is_pandas = hasattr(X, "iloc") and hasattr(X, "index") and not hasattr(X, "__dask_graph__")
    return X.index if is_pandas else None


def row_names(X: object) -> NDArray[Any] | None:
    """Return the index of a pandas frame as an array; None if it just numbers the rows, or if this is no such frame."""
    index = index_of(X)
    if index is None or index.nlevels > 1:
        return None if index is None else np.array([str(one) for one in index], dtype=str)
    names = np.asarray(index)
    if names.dtype.kind in "iu":
        return None if np.array_equal(names, np.arange(len(names))) else names
    return np.array([str(one) for one in names.tolist()], dtype=str) if names.dtype.kind == "O" else names.astype(str)


def joined_names(first: Values | None, n_first: int, second: Values | None, n_second: int) -> NDArray[Any] | None:
    """Return the names of rows after more rows have joined; None if all are just numbered."""
    if first is None and second is None:
        return None
    known = np.arange(n_first) if first is None else first
    more = np.arange(n_first, n_first + n_second) if second is None else second
    return np.concatenate([known, more]) if known.dtype.kind == more.dtype.kind else np.append(known.astype(str), more)


def frame_library(X: object) -> str | None:
    """Return the name of the library of a data frame; None if this is no data frame in memory."""
    if index_of(X) is not None:  # also subclasses
        return "pandas"
    library = type(X).__module__.partition(".")[0]
    return library if library in FRAME_LIBRARIES and hasattr(X, "columns") else None


def strange_columns(X: Any) -> str | None:
    """Describe the columns of a data frame that are no numbers, or that have missing ones; None if there are none."""
    if frame_library(X) is None or find_spec("narwhals") is None:
        return None
    import narwhals

    frame = narwhals.from_native(X, eager_only=True)
    words = [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind == narwhals.Boolean)]
    if words:
        return f"{_named(words)} of the data frame {'is' if len(words) == 1 else 'are'} not numeric"
    missing = [name for name in frame.columns if (frame[name].is_null() | (frame[name] != frame[name])).any()]
    return (
        f"{_named(missing)} of the data frame {'has' if len(missing) == 1 else 'have'} missing values"
        if missing
        else None
    )


def first_not_finite(X: Any) -> str | None:
    """Describe the first number of an array or a list of rows that is not finite; None if there is none."""
    try:
        numbers = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if numbers.ndim != 2 or np.isfinite(numbers).all():
        return None
    row, column = np.argwhere(~np.isfinite(numbers))[0].tolist()
    return f"{'NaN' if np.isnan(numbers[row, column]) else 'infinity'} in row {row}, column {column}"


def _named(columns: list[Any]) -> str:
    others = len(columns) - 1
    more = "" if others == 0 else f" and {others} other{'s' if others > 1 else ''}"
    return f"column {columns[0]!r}{more}"


def make_frame(columns: dict[str, Any], library: str | None) -> Any:
    """Return columns as a data frame of a library; by default of the first that is installed."""
    try:
        import narwhals
    except ImportError as error:
        raise ImportError("Data frames need narwhals: pip install 'flipproof[cli]'") from error
    library = library or next((one for one in FRAME_LIBRARIES if find_spec(one)), None)
    if library is None:
        raise ImportError("A data frame needs pandas, polars or pyarrow: install one of them.")
    return narwhals.from_dict(columns, backend=library).to_native()  # type: ignore[arg-type]


def frame_of_table(table: pa.Table, library: str | None) -> Any:
    """Return a table as a data frame of a library; by default of pandas, or as it is if that is missing."""
    if library == "polars":
        import polars  # type: ignore[import-not-found, unused-ignore]

        return polars.from_arrow(table)
    if library == "pyarrow" or find_spec("pandas") is None:
        return table
    return table.to_pandas()


def contents_of(X: Any, numbers: Integers, columns: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """Return the contents of some rows by column, as plain values.

    Parameters
    ----------
    X : array, data frame, or sequence of texts
        The rows. Columns of arrays are called by their numbers.
    numbers : integers
        Numbers of the rows.
    columns : sequence of str, optional
        Names of the columns. Default: all.
    """
    if frame_library(X) is not None:
        import narwhals

        frame = narwhals.from_native(X, eager_only=True)[list(map(int, numbers)), :]
        found = {str(name): frame[name].to_list() for name in frame.columns}
    elif isinstance(X, (list, tuple)) and not np.ndim(X[0] if len(X) else 0):
        found = {"row": [X[number] for number in numbers]}
    else:
        rows = X[numbers].toarray() if hasattr(X, "tocsr") else np.asarray(X)[numbers]
        rows = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
        found = {str(column): rows[:, column].tolist() for column in range(rows.shape[1])}
    if columns is None:
        return found
    wanted = [columns] if isinstance(columns, (str, int)) else list(columns)
    missing = [name for name in wanted if str(name) not in found]
    if missing:
        raise ValueError(f"columns must be columns of the rows: {', '.join(list(found)[:20])}. Got {missing[0]!r}.")
    return {str(name): found[str(name)] for name in wanted}
