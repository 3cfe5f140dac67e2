"""Labels of any kind as class codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.rounding import Integers


def check_label_kinds(labels: Any, name: str) -> None:
    """Refuse missing labels and labels of mixed type, which conversion to an array would silently turn into strings."""
    if isinstance(labels, (list, tuple)):
        each: Any = labels
    elif getattr(getattr(labels, "dtype", None), "kind", None) == "O":
        each = np.asarray(labels).ravel()
    else:
        return
    kinds = {_kind(one) for one in set(map(type, each))}
    # NaN is a float that is not itself; only a mix with strings, an error in any case, is worth a look at every label
    if "None" in kinds or ({"strings", "numbers"} <= kinds and any(one != one for one in each)):
        raise ValueError(
            f"{name} must not be missing. Got None or NaN among them: leave those rows out, or label them."
        )
    if len(kinds) > 1:
        raise ValueError(
            f"{name} must all be of one kind. Got a mix of {' and '.join(sorted(kinds))} instead: "
            "convert them to numbers, strings or booleans first."
        )


def encode_labels(y: NDArray[Any], classes: ArrayLike | None) -> tuple[NDArray[Any], Integers]:
    """Return the sorted classes and the labels as positions in them.

    With `classes` given, labels may leave some of them out, or even be all the same.
    """
    if classes is None:
        found, codes = np.unique(y, return_inverse=True)
        if len(found) < 2:
            raise ValueError(
                f"The training labels hold only one class, {found.tolist()[0]!r}; at least two are needed. "
                "If other classes exist but do not occur here, name them all with classes=[...]."
            )
        return found, codes.astype(np.int64)
    check_label_kinds(classes, "The 'classes'")
    known = plain_labels(classes)
    if known.ndim != 1 or len(np.unique(known)) < 2:
        raise ValueError(f"The 'classes' parameter must be a list of at least two classes. Got {classes!r} instead.")
    if known.dtype.kind == "f" and not np.all(known == np.rint(known)):
        raise ValueError(f"The 'classes' must be whole numbers if they are numbers. Got {known.tolist()} instead.")
    known, labels = np.unique(known), plain_labels(y)
    comparable = (known.dtype.kind == "U") == (labels.dtype.kind == "U")
    position = np.minimum(np.searchsorted(known, labels), len(known) - 1) if comparable else np.zeros(len(labels), int)
    unknown = np.broadcast_to(known[position] != labels, labels.shape)
    if unknown.any():
        strange = np.unique(labels[unknown])[:3].tolist()
        raise ValueError(f"The labels y hold {strange}, which 'classes' does not name: it names {known.tolist()}.")
    return known, position.astype(np.int64)


def plain_labels(values: Any) -> NDArray[Any]:
    """Return an array of numbers, booleans or fixed-width strings, from whatever holds them."""
    array = np.asarray(values)
    return np.asarray(array.tolist()) if array.dtype.kind in {"O", "T"} else array


def _kind(one: type) -> str:
    if issubclass(one, (bool, np.bool_)):
        return "booleans"
    if issubclass(one, (int, float, np.number)):
        return "numbers"
    if issubclass(one, str):
        return "strings"
    return "None" if one is type(None) else one.__name__
