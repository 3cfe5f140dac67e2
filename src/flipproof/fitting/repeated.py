"""Warnings about rows that occur more than once: ids, and test rows that are training rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.contents import row_hashes, rows_found
from flipproof.core.rounding import Values
from flipproof.fitting.sources import is_path, source_name

#: Standard deviations above the expected number from which equal rows are no longer a coincidence.
SURPRISING = 3.0


def warn_about_ids(ids: Sequence[object], column: str, source: str) -> None:
    """Warn if rows share an id."""
    (most, count) = Counter(ids).most_common(1)[0] if len(ids) else (None, 1)
    if count > 1:
        warnings.warn(
            f"column {column!r} of {source} is not unique: {count:,} rows have the id {most!r}. Results name rows by "
            "their ids.",
            stacklevel=2,
        )


def warn_about_training_rows(
    X_train: Any, X_test: Any, labels: Sequence[Values | None], paths: Sequence[object] = ()
) -> None:
    """Warn if more test rows are training rows than can be expected.

    If test rows are drawn like training rows, a test row has a copy among the training rows about as often as a
    training row has one. Tables of a few categories have many copies; a table of measurements has none.

    Parameters
    ----------
    X_train, X_test : array of shape (n, k)
        Features. Only dense arrays of numbers are compared.
    labels : pair of arrays, or None
        Training and test labels. If both are known, rows with different labels are different.
    paths : pair
        Where training and test rows come from.
    """
    if not all(isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf" for X in (X_train, X_test)):
        return
    if X_train.shape[1] != X_test.shape[1] or not len(X_test):
        return
    train, test = row_hashes(X_train), row_hashes(X_test)
    if not len(rows_found(test, train)):
        return
    train, test = _with_labels(train, test, labels)
    n_copies = len(rows_found(test, train))
    _, counts = np.unique(train, return_counts=True)
    share, n_test = counts[counts > 1].sum() / len(X_train), len(X_test)
    if n_copies <= n_test * share + SURPRISING * np.sqrt(n_test * share * (1 - share)):
        return
    if len(paths) == 2 and _are_same(*paths) and n_copies == n_test:
        warnings.warn(
            f"{source_name(paths[0])!r} is both the training and the test file. Accuracy on rows that the model was "
            "fitted to says nothing about new rows.",
            stacklevel=2,
        )
        return
    counted = "1 is also a training row" if n_copies == 1 else f"{n_copies:,} are also training rows"
    warnings.warn(
        f"of {n_test:,} test rows, {counted}, which makes accuracy look better than it is.",
        stacklevel=2,
    )


def _with_labels(
    train: NDArray[np.uint64], test: NDArray[np.uint64], labels: Sequence[Values | None]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the hashes of rows together with their labels, if both are known."""
    y_train, y_test = labels
    if y_train is None or y_test is None or y_train.dtype.kind != y_test.dtype.kind:
        return train, test
    import pyarrow as pa

    codes = pa.chunked_array([pa.array(y_train), pa.array(y_test)]).combine_chunks().dictionary_encode().indices
    keys = row_hashes(codes.to_numpy()[:, np.newaxis])
    return train + keys[: len(train)], test + keys[len(train) :]


def _are_same(one: object, other: object) -> bool:
    return is_path(one) and is_path(other) and Path(one).resolve() == Path(other).resolve()
