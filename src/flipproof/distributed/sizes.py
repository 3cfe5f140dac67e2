"""How large findings and kept rows are: by that, Dask decides what to move, and when memory is full."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from dask.sizeof import sizeof


def size(value: Any) -> int:
    """Return the bytes of something, with those of all its fields."""
    if is_dataclass(value):
        return sum(size(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, partial):
        return size(value.func) + size(value.args) + size(tuple(value.keywords.values()))
    if isinstance(value, tuple):
        return sum(map(size, value))
    return int(sizeof(value))
