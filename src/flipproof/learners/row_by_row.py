"""Features and weights from user-defined code: validated, and bit-identical for a test row in any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from flipproof.core.rounding import Floats, Integers, to_grid
from flipproof.core.votes import DenseVotes, SparseVotes, dense_votes, row_exponents, sparse_votes
from flipproof.determinism import on_one_thread

#: Test rows that a features step gets at a time: a multiple of the block size of any matrix kernel.
TILE_ROWS = 64


def row_tiles(X: Any) -> Iterator[tuple[Any, int]]:
    """Yield rows of arrays, lists and data frames, `TILE_ROWS` at a time, and how many of them are not padding.

    Data that cannot be split, or that have no rows, are yielded whole.
    """
    if issparse(X):
        X = X.tocsr()
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows == 0 or not (hasattr(X, "shape") or isinstance(X, (list, tuple))):
        yield X, n_rows
        return
    for start in range(0, n_rows, TILE_ROWS):
        numbers = np.minimum(np.arange(start, start + TILE_ROWS), n_rows - 1)
        yield _rows_at(X, numbers), min(TILE_ROWS, n_rows - start)


def _rows_at(X: Any, numbers: Integers) -> Any:
    if isinstance(X, (list, tuple)):
        return [X[number] for number in numbers]
    if hasattr(X, "iloc"):  # pandas
        return X.iloc[numbers]
    is_arrow = hasattr(X, "take") and not isinstance(X, np.ndarray)
    return X.take(numbers) if is_arrow else X[numbers]


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


def _checked(answer: Any, n_train: int, n_classes: int) -> tuple[Any, Floats | None]:
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
