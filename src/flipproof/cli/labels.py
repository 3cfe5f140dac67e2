"""Labels as a file holds them, and classes as they are typed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flipproof.tables.columns import as_labels

#: Rows from which on a column with a label of its own for every other row is taken for a mistake.
ENOUGH_ROWS = 20


def label_array(
    column: pa.ChunkedArray, name: str, path: Path, *, like: NDArray[Any] | None = None, optional: bool = False
) -> NDArray[Any] | None:
    """Return labels as an array of integers, booleans or strings.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        The labels.
    name, path
        What the column is called, and where it is from, for errors.
    like : array, optional
        Labels of the same classes, whose type these are to have.
    optional : bool
        Whether there may be none at all; the result is then None.
    """
    if optional and column.null_count == len(column):
        return None
    labels = as_labels(name, column, repr(str(path)))
    if like is not None and (labels.dtype.kind == "U") != (like.dtype.kind == "U"):
        if like.dtype.kind == "U":
            return labels.astype(str)
        raise ValueError(
            f"column {name!r} holds {_kind(like)} in the training rows, but {_kind(labels)} in {str(path)!r}: "
            f"{labels[0].item()!r}."
        )
    return labels


def check_classes(labels: NDArray[Any], name: str, classes: Sequence[Any]) -> None:
    """Refuse labels of one class, unless the classes were named, and what looks like no label."""
    found = np.unique(labels)
    if len(found) < 2 and not classes:
        raise ValueError(
            f"all labels in column {name!r} are {found[0].item()!r}: there is nothing to tell apart. "
            "If other classes exist, name them all with --classes."
        )
    if len(labels) >= ENOUGH_ROWS and len(found) > len(labels) / 2:
        raise ValueError(f"column {name!r} has {len(found)} different labels in {len(labels)} rows: is it the label?")


def check_test_labels(labels: NDArray[Any] | None, classes: NDArray[Any], name: str) -> None:
    """Refuse true labels none of which is a class that can be predicted, and warn of single ones."""
    if labels is None:
        return
    unknown = ~np.isin(labels, classes)
    if not unknown.any():
        return
    example = labels[unknown][0].item()
    if unknown.all():
        raise ValueError(
            f"column {name!r} of the test rows holds none of the classes {', '.join(map(str, classes[:10].tolist()))}, "
            f"but {example!r}."
        )
    warnings.warn(
        f"{unknown.sum()} test rows are of classes that the training rows do not have, such as {example!r}. "
        "Their predictions count as wrong.",
        stacklevel=2,
    )


def typed_class(text: str, classes: NDArray[Any], option: str) -> Any:
    """Return the class that somebody typed, in the type of the labels."""
    for one in classes.tolist():
        if str(one) == text:
            return one
    raise ValueError(f"{option}: there is no class {text!r}, but {', '.join(map(str, classes.tolist()[:10]))}.")


def typed_classes(texts: Sequence[str], labels: NDArray[Any]) -> list[Any]:
    """Return all classes that somebody typed, in the type of the labels."""
    if labels.dtype.kind == "U":
        return list(texts)
    try:
        if labels.dtype.kind == "b":
            return [{"true": True, "false": False}[text.lower()] for text in texts]
        return [int(text) for text in texts]
    except (KeyError, ValueError):
        raise ValueError(f"--classes: the labels are {_kind(labels)}, but got {', '.join(texts)}.") from None


def allowed_changes(texts: Sequence[str], classes: NDArray[Any]) -> list[tuple[Any, Any]]:
    """Return the changes of labels that somebody typed as OLD:NEW; class names may hold colons."""
    pairs = []
    for text in texts:
        splits = [(text[:i], text[i + 1 :]) for i, sign in enumerate(text) if sign == ":"]
        if not splits:
            raise ValueError(f"--allow: {text!r} must be OLD:NEW, two classes.")
        names = {str(one) for one in classes.tolist()}
        old, new = next((pair for pair in splits if set(pair) <= names), splits[0])
        if old == new:
            raise ValueError(f"--allow: {text!r} must be OLD:NEW, two different classes.")
        pairs.append((typed_class(old, classes, "--allow"), typed_class(new, classes, "--allow")))
    return pairs


def _kind(labels: NDArray[Any]) -> str:
    return {"U": "words", "b": "booleans"}.get(labels.dtype.kind, "numbers")
