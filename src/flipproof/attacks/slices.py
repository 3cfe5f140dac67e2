"""Attack test rows a slice at a time, so that an interrupt loses only the slice that is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from flipproof.attacks.interrupts import StopSign, set_by_interrupt
from flipproof.attacks.result import NO_ATTACK, AttackResult

#: Test rows between two looks at whether somebody has interrupted.
ROWS_AT_A_TIME = 128

Result = TypeVar("Result", bound=AttackResult)


def in_slices(attack: Callable[[Any], Result], predict: Callable[[Any], NDArray[Any]], X: Any) -> Result:
    """Attack all test rows; after Ctrl-C return what was found by then, with `attempted` False for the rest.

    The slice that is under way is finished first. A second Ctrl-C does not wait for it; if nothing at all was found by
    then, it is raised.
    """
    m = (getattr(X, "shape", None) or np.shape(X) or (0,))[0]
    found: list[Result] = []
    stopped = StopSign()
    try:
        with set_by_interrupt(stopped):
            if m <= ROWS_AT_A_TIME:
                return attack(X)
            for start in range(0, m, ROWS_AT_A_TIME):
                found.append(attack(_safe_indexing(X, slice(start, min(start + ROWS_AT_A_TIME, m)))))
                if stopped.is_set():
                    break
    except KeyboardInterrupt:
        if not found:
            raise
    n_found = sum(len(part) for part in found)
    if n_found < m:
        with set_by_interrupt(StopSign()):  # one Ctrl-C more than needed must not cost what was found
            prediction = predict(_safe_indexing(X, slice(n_found, m)))
        found.append(_not_attempted(found[0], prediction))
    return _joined(found)


def _not_attempted(other: Result, prediction: NDArray[Any]) -> Result:
    """Return the result of an attack that never took place, of the same kind as another."""
    m, nothing = len(prediction), np.full(len(prediction), NO_ATTACK)
    values: dict[str, Any] = {
        "rows": tuple(np.zeros(0, dtype=np.int64) for _ in range(m)),
        "new_labels": tuple(prediction[:0] for _ in range(m)),
        "success": np.zeros(m, dtype=bool),
        "attempted": np.zeros(m, dtype=bool),
        "prediction": prediction,
    }
    for field in fields(other):
        value = getattr(other, field.name)
        values.setdefault(field.name, nothing.copy() if isinstance(value, np.ndarray) else value)
    return type(other)(**values)


def _joined(parts: list[Result]) -> Result:
    """Put results of the same attack on different test rows together."""
    values: dict[str, Any] = {}
    for field in fields(parts[0]):
        of_parts = [getattr(part, field.name) for part in parts]
        if isinstance(of_parts[0], np.ndarray):
            values[field.name] = np.concatenate(of_parts)
        elif isinstance(of_parts[0], tuple):
            values[field.name] = sum(of_parts, ())
        else:
            values[field.name] = of_parts[0]
    return type(parts[0])(**values)
