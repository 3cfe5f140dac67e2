"""Whether two objects hold the same values, to the last bit, in all their attributes."""

import dataclasses

import numpy as np
from scipy.sparse import issparse

#: Attributes that belong to a process, or that the constructor sets.
OF_A_PROCESS = ("_stop_words_id", "_loss_function_", "_sample_weight")


def difference(one, other, where="model"):
    """Return where two objects differ, or None."""
    if type(one) is not type(other):
        return f"{where}: {type(one).__name__} and {type(other).__name__}"
    if isinstance(one, np.ndarray):
        if one.dtype.kind == "O":
            return _first(difference(a, b, where) for a, b in zip(one.ravel(), other.ravel(), strict=True))
        same = (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        order = np.copy(one, order="K").flags.c_contiguous == np.copy(other, order="K").flags.c_contiguous
        fixed = one.flags.writeable == other.flags.writeable
        return None if same and order and fixed else f"{where}: {one!r} and {other!r} (order {order}, flags {fixed})"
    if issparse(one):
        return _first(
            difference(getattr(one, name), getattr(other, name), where) for name in ("data", "indices", "indptr")
        )
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return f"{where}: {len(one)} and {len(other)} items"
        return _first(difference(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True)))
    if isinstance(one, dict):
        if list(one) != list(other):
            return f"{where}: {list(one)} and {list(other)}"
        return _first(difference(one[name], other[name], f"{where}[{name!r}]") for name in one)
    if type(one).__name__ == "Tree":
        states = one.__getstate__(), other.__getstate__()
        return _first(None if np.array_equal(states[0][name], states[1][name]) else where for name in states[0])
    if dataclasses.is_dataclass(one):
        named = [one_field.name for one_field in dataclasses.fields(one)]
        return _first(_values(getattr(one, name), getattr(other, name), f"{where}.{name}") for name in named)
    if hasattr(one, "__dict__") and not isinstance(one, type) and not callable(one):
        own, others = ({k: v for k, v in vars(each).items() if k not in OF_A_PROCESS} for each in (one, other))
        if set(own) != set(others):
            return f"{where}: attributes {set(own) ^ set(others)}"
        return _first(difference(own[name], others[name], f"{where}.{name}") for name in own)
    same = one == other or (one != one and other != other)
    return None if same else f"{where}: {one!r} and {other!r}"


def _values(one, other, where):
    return (
        difference(dict(one), dict(other), where)
        if type(one).__name__ == "mappingproxy"
        else difference(one, other, where)
    )


def _first(found):
    return next((one for one in found if one is not None), None)
