"""Where a row that an attack adds comes from: rows that exist are easier to understand than vectors of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from flipproof.fitting.choices import Fitted


class RowOrigin:
    """Names the existing row that a row to add, against one test row, is a copy of.

    Parameters
    ----------
    fitted : Fitted
        A model with a reference, and rows in memory.
    row : int
        Number of the test row.
    """

    def __init__(self, fitted: Fitted, row: int) -> None:
        assert fitted.train is not None
        self._test_row, self._name = fitted.X_test[row], fitted.test.ids[row]
        self._others = (("reference row", fitted.X_reference, None), ("training row", fitted.X_train, fitted.train.ids))

    def of(self, row: Any) -> str | None:
        """Return the kind and name of an equal row; None if there is none."""
        if np.array_equal(row, self._test_row):
            return f"test row {self._name}"
        for kind, rows, names in self._others:
            if rows is None:  # a model from a file does not hold them
                continue
            same = np.flatnonzero((np.asarray(rows) == row).all(axis=1))
            if len(same):
                return f"{kind} {same[0] if names is None else names[int(same[0])]}"
        return None
