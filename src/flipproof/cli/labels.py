"""Columns that are no features: labels, trusted rows, annotators; and classes as they are typed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

YES = ("true", "yes", "y", "1", "1.0")
NO = ("false", "no", "n", "0", "0.0")

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
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if optional and column.null_count == len(column):
        return None
    if column.null_count:
        row = int(pc.index(pc.is_null(column), True).as_py())
        raise ValueError(
            f"{str(path)!r} has {column.null_count} missing labels in column {name!r}, the first in row {row}: "
            "leave those rows out, or label them."
        )
    labels = _plain_labels(column, name, path)
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


def trusted_mask(column: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """Return which rows are trusted, from booleans, 0 and 1, or words such as yes and no."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    words = [None if value is None else str(value).strip().lower() for value in column.to_pylist()]
    strange = [word for word in words if word not in YES and word not in NO]
    if strange:
        got = "a missing value" if strange[0] is None else repr(strange[0])
        raise ValueError(f"--trusted: column {name!r} must say yes or no, 1 or 0, in every row. Got {got} instead.")
    return np.array([word in YES for word in words])


def annotator_names(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Return who labelled each row."""
    if column.null_count:
        raise ValueError(f"--annotator: column {name!r} does not say who labelled {column.null_count} of the rows.")
    if pa.types.is_nested(column.type):
        raise ValueError(f"--annotator: column {name!r} must hold a name for each row. Got {column.type} instead.")
    return np.array([str(value) for value in column.to_pylist()])


def _plain_labels(column: pa.ChunkedArray, name: str, path: Path) -> NDArray[Any]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return np.array(column.to_pylist(), dtype=str)
    if pa.types.is_boolean(kind):
        return np.array(column.to_pylist(), dtype=bool)
    if pa.types.is_integer(kind):
        return np.asarray(column.to_numpy()).astype(np.int64)
    if pa.types.is_floating(kind):
        values = column.to_numpy().astype(np.float64)
        if np.array_equal(values, np.rint(values)):
            return np.asarray(values.astype(np.int64))
        raise ValueError(f"column {name!r} of {str(path)!r} holds fractions: labels must be classes.")
    raise ValueError(f"column {name!r} of {str(path)!r} holds {kind}: labels must be words or whole numbers.")


def _kind(labels: NDArray[Any]) -> str:
    return {"U": "words", "b": "booleans"}.get(labels.dtype.kind, "numbers")
