"""Features and weights from user-defined code: validated, and bit-identical for a test row in any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from flipproof.core.rounding import Floats, Integers, to_grid
from flipproof.core.votes import DenseVotes, SparseVotes, dense_votes, row_exponents, sparse_votes
from flipproof.runtime.determinism import on_one_thread

#: Test rows that a features step gets at a time: a multiple of the block size of any matrix kernel.
TILE_ROWS = 64


def row_tiles(X: Any, size: int) -> Iterator[tuple[Any, int]]:
    """Yield rows of arrays, lists and data frames, `size` at a time, and how many of them are not padding.

    Data that cannot be split, or that have no rows, are yielded whole.
    """
    if issparse(X):
        X = X.tocsr()
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows == 0 or not (hasattr(X, "shape") or isinstance(X, (list, tuple))):
        yield X, n_rows
        return
    for start in range(0, n_rows, size):
        numbers = np.minimum(np.arange(start, start + size), n_rows - 1)
        yield rows_at(X, numbers), min(size, n_rows - start)


def rows_at(X: Any, numbers: Integers) -> Any:
    """Return the rows with these numbers."""
    if issparse(X):
        X = X.tocsr()
    if isinstance(X, (list, tuple)):
        return [X[number] for number in numbers]
    if hasattr(X, "iloc"):  # pandas
        return X.iloc[numbers]
    is_arrow = hasattr(X, "take") and not isinstance(X, np.ndarray)
    return X.take(numbers) if is_arrow else X[numbers]


def number_types(X: Any) -> Any:
    """Return the type of the numbers in rows; for data frames by column. Anything but numbers is left out."""
    if _is_frame(X):
        kinds = zip(X.columns, X.dtypes, strict=True)
        return {name: kind for name, kind in kinds if _holds_numbers(kind)}
    if isinstance(X, (list, tuple)):
        return None if _as_numbers(X) is None else np.dtype(np.float64)
    kind = getattr(X, "dtype", None)
    return kind if _holds_numbers(kind) else None


def as_floats(types: object) -> Any:
    """Return types of numbers with 64-bit floats instead of integers of NumPy; None if there are no such integers.

    Soundness: the types depend on the reference alone, and the float of a number on that number alone.
    """

    def as_float(kind: object) -> Any:
        return np.dtype(np.float64) if isinstance(kind, np.dtype) and kind.kind in "iu" else kind

    floats = {name: as_float(kind) for name, kind in types.items()} if isinstance(types, dict) else as_float(types)
    return None if floats == types else floats


def with_number_types(X: Any, types: Any) -> Any:
    """Convert the numbers in rows to the types of the reference, so that no row decides on the type of others.

    Lists of numbers become arrays: a step that gets a list would find a type for it. Numbers that the integers of the
    reference cannot represent are refused.
    """
    if isinstance(X, (list, tuple)):
        numbers = _as_numbers(X)
        X = X if numbers is None else numbers
    own = number_types(X)
    if not isinstance(own, dict) and isinstance(types, dict) and len(set(types.values())) == 1:
        types = next(iter(types.values()))  # an array, where the reference is a frame of a single type
    if isinstance(own, dict):
        wanted = {name: types.get(name) if isinstance(types, dict) else types for name in own}
        other = {name: kind for name, kind in wanted.items() if kind is not None and kind != own[name]}
        if not other:
            return X
        converted = X.cast(other, strict=False) if hasattr(X, "cast") else X.astype(other)
        for name, kind in other.items():
            _refuse_unless_equal(converted[name].to_numpy(), X[name].to_numpy(), kind)
        return converted
    if own is None or types is None or isinstance(types, dict) or own == types:
        return X
    with np.errstate(invalid="ignore"):
        converted = X.astype(types)
    _refuse_unless_equal(converted.data if issparse(X) else converted, X.data if issparse(X) else X, types)
    return converted


def _refuse_unless_equal(converted: Any, given: Any, kind: Any) -> None:
    is_integer = kind.kind in "iu" if isinstance(kind, np.dtype) else kind.is_integer()
    if is_integer and not np.array_equal(converted, given):
        raise ValueError(
            f"The reference contains numbers of type {kind}, but some rows contain numbers that this type cannot "
            "represent: convert the reference to floats, for example by reference.astype(float)."
        )


def _is_frame(X: object) -> bool:
    """Tell whether this is a data frame of pandas or polars."""
    return hasattr(X, "dtypes") and hasattr(X, "columns")


def _holds_numbers(kind: object) -> bool:
    if isinstance(kind, np.dtype):
        return kind.kind in "fiu"
    is_numeric = getattr(kind, "is_numeric", None)
    return callable(is_numeric) and bool(is_numeric())


def _as_numbers(X: object) -> Floats | None:
    """Return a list of rows of numbers as a matrix; None for lists of anything else."""
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return None
    return array.astype(np.float64) if array.ndim == 2 and array.dtype.kind in "fiu" else None


def votes_row_by_row(
    weigh: Callable[[Floats], Any], Z: Floats, n_train: int, n_classes: int, precision: int
) -> DenseVotes | SparseVotes:
    """Return the votes by the function `weigh`, called with one test row at a time.

    The last bits of matrix products depend on the other rows of the batch and on threads. Alone and on one thread, a
    test row always gets the same weights, so that certificates hold for what is predicted.
    """
    rows = [Z[row : row + 1].copy() for row in range(len(Z))]  # copies: it may write into them
    answers = on_one_thread(lambda: [_checked(weigh(row), n_train, n_classes) for row in rows])
    alpha = [weights for weights, _ in answers]
    offsets = [row_offsets for _, row_offsets in answers if row_offsets is not None]
    all_offsets = np.vstack(offsets) if offsets else None
    if any(issparse(weights) for weights in alpha):
        stacked = csr_array(vstack(alpha, format="csr"))
        stacked.sum_duplicates()
        return sparse_votes(stacked, precision, n_train, all_offsets)
    return dense_votes(np.vstack(alpha), precision, all_offsets)


def votes_pair_by_pair(
    weigh: Callable[[Floats, Floats], Any], Z: Floats, rows: Floats, reference: Floats, precision: int
) -> DenseVotes:
    """Return the votes of rows by the function `weigh` of a training row and a test row, called for every pair.

    The grid of a test row is set by the largest weight of the reference; larger votes are clipped to the end of the
    grid. So a vote depends on its own rows and the reference only (M12).
    """

    def weights_of(some: Floats) -> Floats:
        pairs = [[_checked_weight(weigh(x.copy(), z.copy())) for x in some] for z in Z]
        return np.array(pairs, dtype=np.float64).reshape(len(Z), len(some))

    on_reference, weights = on_one_thread(lambda: (weights_of(reference), weights_of(rows)))
    exponent = row_exponents(np.abs(on_reference).max(axis=1, initial=0.0), precision)
    return DenseVotes(to_grid(weights, exponent[:, None], precision), exponent)


def _checked_weight(weight: Any) -> float:
    value = float(weight)
    if not np.isfinite(value):
        raise ValueError("weight_of_row must return a finite number. Got NaN or infinity.")
    return value


def _checked(answer: object, n_train: int, n_classes: int) -> tuple[Any, Floats | None]:
    alpha, offsets = answer if isinstance(answer, tuple) else (answer, None)
    alpha = csr_array(alpha, dtype=np.float64) if issparse(alpha) else np.asarray(alpha, dtype=np.float64)
    if alpha.shape != (1, n_train):
        raise ValueError(
            f"label_free_weights must return one weight per training row, shape (1, {n_train}) for one test row. "
            f"Got shape {alpha.shape} instead."
        )
    if not np.all(np.isfinite(alpha.data if issparse(alpha) else alpha)):
        raise ValueError("label_free_weights must return finite weights. Got NaN or infinity.")
    if offsets is None:
        return alpha, None
    offsets = np.asarray(offsets, dtype=np.float64)
    if offsets.shape != (1, n_classes) or not np.all(np.isfinite(offsets)):
        raise ValueError(
            f"label_free_weights must return finite offsets, one per class, shape (1, {n_classes}) for one test row. "
            f"Got {offsets!r} instead."
        )
    return alpha, offsets
