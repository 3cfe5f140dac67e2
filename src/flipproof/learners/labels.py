"""Labels of any kind as class codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.rounding import Integers
from flipproof.values import are_whole, as_values, distinct, positions


def label_values(y: Any, name: str = "The labels y") -> Any:
    """Return labels by value, as an array; what is not one label after another as it is, for others to refuse.

    Raises
    ------
    ValueError
        If labels are missing, of several kinds, or of another one.
    """
    if y is None:
        return y
    if hasattr(y, "iloc") and getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:  # a frame's types would be lost
        return label_values(y.iloc[:, 0], name)[:, None]
    labels = as_values(y, name)
    if labels.dtype.kind == "O" and labels.ndim == 1:
        raise ValueError(
            f"{name} must be strings, or whole numbers that 64 bits hold. Got {_first_beyond(labels)!r} among them: "
            "convert them to strings."
        )
    return labels


def encode_labels(y: NDArray[Any], classes: ArrayLike | None) -> tuple[NDArray[Any], Integers]:
    """Return the sorted classes and the labels as positions in them.

    With `classes` given, labels may leave some of them out, or even be all the same.
    """
    labels = label_values(y)
    if classes is None:
        found, codes = distinct(labels)
        if len(found) < 2:
            raise ValueError(
                f"The training labels hold only one class, {found.tolist()[0]!r}; at least two are needed. "
                "If other classes exist but do not occur here, name them all with classes=[...]."
            )
        return found, codes
    known = label_values(classes, "The 'classes'")
    if known.ndim != 1 or len(distinct(known)[0]) < 2:
        raise ValueError(f"The 'classes' parameter must be a list of at least two classes. Got {classes!r} instead.")
    if not are_whole(known).all():
        raise ValueError(f"The 'classes' must be whole numbers if they are numbers. Got {known.tolist()} instead.")
    known = distinct(known)[0]
    codes, is_known = positions(known, labels)
    if not is_known.all():
        strange = distinct(labels[~is_known])[0][:3].tolist()
        raise ValueError(f"The labels y hold {strange}, which 'classes' does not name: it names {known.tolist()}.")
    return known, codes.astype(np.int64)


def _first_beyond(labels: NDArray[Any]) -> Any:
    limits = np.iinfo(np.int64).min, np.iinfo(np.uint64).max
    return next((one for one in labels.tolist() if not limits[0] <= one <= limits[1] or one != int(one)), labels[0])
