"""Values of any kind as plain JSON: what a report stores can be read by anything, and is never code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

#: Longest text that a report keeps of a name, a cell or a column: a cell can hold a whole mail.
LONGEST_NAME = 80  # characters
LONGEST_FACT = 2000  # characters


def plain_label(label: Any) -> Any:
    """Return a class or the name of a row as a JSON scalar; long texts are cut."""
    value = label.item() if isinstance(label, np.generic) else label
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _number(value)
    return cut(str(value), LONGEST_NAME)


def plain_value(value: Any) -> Any:
    """Return anything as JSON types: arrays as lists, what is neither a number nor a collection as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {cut(str(key), LONGEST_NAME): plain_value(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return plain_value(value.tolist())
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [plain_value(one) for one in value]
    return cut(str(value), LONGEST_FACT)


def cut(text: str, longest: int) -> str:
    """Shorten a text that is too long, and show that it was; what is no text (lone surrogates) is replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _number(value: float) -> float | str:
    """JSON knows neither infinity nor NaN."""
    return value if math.isfinite(value) else str(value)
