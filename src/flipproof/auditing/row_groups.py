"""Groups of test rows, for fairness audits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.errors import InputError, Parameter
from flipproof.values import as_values

if TYPE_CHECKING:
    from flipproof.tables.roles import Rows

#: More groups than these are taken for a mistake: a column of numbers or names.
MOST_GROUPS = 50


def groups_of_test_rows(by: object, test: Rows) -> NDArray[Any] | None:
    """Return the group of each test row, as names; None without `by`.

    Parameters
    ----------
    by : str, array of shape (m,), or None
        Column of the test rows, or the groups.
    test : Rows
        The test rows.

    Raises
    ------
    ValueError
        If there is no such column, or if it does not divide the rows into a few groups.
    """
    if by is None:
        return None
    if isinstance(by, str):
        if by not in test.others:
            raise InputError(Parameter("by"), f": the test rows have no column {by!r}.")
        given = test.others[by].to_pylist()
        groups = np.array(["(missing)" if one is None else str(one) for one in given], dtype=str)
    else:
        groups = as_values(by, "by")
        if groups.shape != (len(test),):
            raise InputError(
                Parameter("by"),
                f": it must have one entry per test row, {len(test)}. Got shape {groups.shape} instead.",
            )
    n_groups = len(np.unique(groups))
    if n_groups > MOST_GROUPS:
        raise InputError(Parameter("by"), f": it must divide the test rows into a few groups. Got {n_groups} groups.")
    return groups
