"""A test part for data sets that were published without one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def split_rows(
    X: NDArray[Any], y: NDArray[Any], test_size: float, random_state: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return X_train, y_train, X_test, y_test; rows keep their order.

    The rows are drawn without a look at the labels: a stratified draw would depend on those that certificates protect.
    """
    if not 0 <= test_size < 1:
        raise ValueError(f"The 'test_size' parameter must be a share of the rows in [0, 1). Got {test_size!r} instead.")
    order = np.random.default_rng(random_state).permutation(len(y))
    n_test = round(test_size * len(y))
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    return X[train], y[train], X[test], y[test]
