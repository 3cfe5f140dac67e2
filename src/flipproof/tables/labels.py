"""Labels read from a column, and classes given as text."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flipproof.core.rounding import Values
from flipproof.errors import InputError, Parameter, RowNumber, Way
from flipproof.tables.columns import as_labels, as_numbers, type_kind_of_values
from flipproof.tables.spellings import whole_number
from flipproof.values import distinct, positions

#: From this number of rows on, a column in which more than half of the values differ is taken for a mistake.
ENOUGH_ROWS = 20

#: Booleans as text.
TRUTH = {"true": True, "false": False}


def label_array(
    column: pa.ChunkedArray, name: str, source: str, *, like: Values | None = None, optional: bool = False
) -> NDArray[Any] | None:
    """Return labels as an array of integers, booleans or strings.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        The labels.
    name, source : str
        Names of the column and of its table, for errors.
    like : array, optional
        Labels of the same classes, whose type the result gets.
    optional : bool
        Whether all labels may be missing; the result is then None.
    """
    if optional and column.null_count == len(column):
        return None
    labels = as_labels(name, column, source)
    return labels if like is None else labels_like(labels, like, name, source)


def target_array(
    column: pa.ChunkedArray, name: str, source: str, *, optional: bool = False, first_row: int = 0
) -> NDArray[np.float64] | None:
    """Return numeric targets as floats.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        The targets.
    name, source : str
        Names of the column and of its table, for errors.
    optional : bool
        Whether all targets may be missing; the result is then None.
    first_row : int
        Number of the first row, for errors.
    """
    if optional and column.null_count == len(column):
        return None
    if type_kind_of_values(column.type) != "numbers":
        raise ValueError(f"column {name!r} of {source} holds {column.type}: targets must be numbers.")
    targets = as_numbers(name, column)
    missing = np.flatnonzero(np.isnan(targets))
    if len(missing):
        raise InputError(
            f"{source} has missing targets in column {name!r}, the first in ",
            RowNumber(first_row + int(missing[0])),
            ": leave those rows out, or complete them.",
        )
    return targets


def column_of_targets(name: str, column: pa.ChunkedArray, source: str, first_row: int = 0) -> NDArray[np.float64]:
    """Return numeric targets, none of them missing; with the arguments of `as_labels`."""
    targets = target_array(column, name, source, first_row=first_row)
    assert targets is not None
    return targets


def labels_like(labels: Values, like: Values, name: str, source: str) -> NDArray[Any]:
    """Return labels as words if those of the training rows are words; refuse words if those are numbers."""
    if (labels.dtype.kind == "U") != (like.dtype.kind == "U"):
        if like.dtype.kind == "U":
            found, codes = distinct(labels)
            return np.array([str(one) for one in found.tolist()], dtype=str)[codes]
        raise ValueError(
            f"column {name!r} holds {_kind(like)} in the training rows, but {_kind(labels)} in {source}: "
            f"{labels[0].item()!r}."
        )
    return labels


def check_classes(labels: Values, name: str, classes: Sequence[object]) -> None:
    """Raise if all labels are of one class and no classes are given, or if the column does not look like labels."""
    found = distinct(labels)[0]
    if len(found) < 2 and not classes:
        raise InputError(
            f"all labels in column {name!r} are {found[0].item()!r}. If other classes exist, list all classes with ",
            Parameter("classes"),
            ".",
        )
    if len(labels) >= ENOUGH_ROWS and len(found) > len(labels) / 2:
        numbers = found.dtype.kind in "iuf"
        audit = Way("flipproof.audit_numbers", f"`flipproof certify --target {shlex.quote(name)}`")
        raise InputError(
            f"column {name!r} has {len(found)} different labels in {len(labels)} rows: is it the label column?",
            *((" For a numeric target, use ", audit, ".") if numbers else ()),
        )


def check_test_labels(labels: Values | None, classes: Values, name: str) -> None:
    """Raise if no test label is a known class; warn if some are not."""
    if labels is None:
        return
    unknown = ~positions(classes, labels)[1]
    if not unknown.any():
        return
    example = labels[unknown][0].item()
    if unknown.all():
        raise ValueError(
            f"column {name!r} of the test rows must contain classes of the training rows: "
            f"{', '.join(map(str, classes[:10].tolist()))}. Got {example!r} instead."
        )
    n = int(unknown.sum())
    said = (
        f"1 test row has a class that does not occur in the training rows, {example!r}. Its prediction counts as wrong."
        if n == 1
        else f"{n:,} test rows have classes that do not occur in the training rows, for example {example!r}. "
        "Their predictions count as wrong."
    )
    warnings.warn(said, stacklevel=2)


def typed_class(text: str, classes: Values, parameter: Parameter) -> Any:
    """Return a class given as text, in the type of the labels."""
    found = _class_of(text, classes)
    if found is None:
        known = ", ".join(map(str, classes.tolist()[:10]))
        raise InputError(parameter, f": the class must be one of {known}. Got {text!r} instead.")
    return found


def typed_classes(given: Sequence[object], labels: Values) -> list[Any]:
    """Return all classes; those given as text are converted to the type of the labels."""
    if labels.dtype.kind == "U":
        return list(given)
    typed = [_typed(one, labels) if isinstance(one, str) else one for one in given]
    if None in typed:
        raise InputError(
            Parameter("classes"),
            f": the classes must be {_kind(labels)}, as the labels are. Got {', '.join(map(str, given))} instead.",
        )
    return typed


def are_words(classes: Sequence[object]) -> bool:
    """Whether some class is a word, so that labels are words, even if all labels look like numbers or booleans."""
    return any(isinstance(one, str) and whole_number(one) is None and one.lower() not in TRUTH for one in classes)


def _typed(text: str, labels: Values) -> Any:
    return TRUTH.get(text.lower()) if labels.dtype.kind == "b" else whole_number(text)


def allowed_changes(given: Sequence[Any], classes: Values) -> list[tuple[Any, Any]]:
    r"""Return label changes, given as pairs (old, new) or as text OLD:NEW.

    Class names may contain colons. If a change can be read in two ways, InputError is raised; ``\:`` is a colon that
    belongs to a name.
    """
    return [_typed_change(one, classes) if isinstance(one, str) else one for one in given]


def _typed_change(text: str, classes: Values) -> tuple[Any, Any]:
    allowed = Parameter("allowed")
    splits = [(text[:i], text[i + 1 :]) for i, sign in enumerate(text) if sign == ":"]
    if not splits:
        raise InputError(allowed, f": {text!r} must be OLD:NEW, two classes.")
    marked = [(old.replace(r"\:", ":"), new.replace(r"\:", ":")) for old, new in splits if not old.endswith("\\")]
    readings = [
        pair for pair in dict.fromkeys(splits + marked) if all(_class_of(one, classes) is not None for one in pair)
    ]
    if len(readings) > 1:
        ways = " or ".join(f"{_marked(old)}:{_marked(new)}" for old, new in readings)
        raise InputError(allowed, f": {text!r} is ambiguous. Escape the colons that belong to names: {ways}.")
    old, new = (typed_class(one, classes, allowed) for one in (readings or splits)[0])
    if old == new:
        raise InputError(allowed, f": {text!r} must be OLD:NEW, two different classes.")
    return old, new


def _marked(name: str) -> str:
    return name.replace(":", r"\:")


def _class_of(text: str, classes: Values) -> Any:
    """Return the class with this name, or with this value if classes are numbers; None if there is no match."""
    for one in classes.tolist():
        if str(one) == text:
            return one
    number = whole_number(text) if classes.dtype.kind in "iuf" else None
    return None if number is None else next((one for one in classes.tolist() if one == number), None)


def _kind(labels: Values) -> str:
    return {"U": "words", "b": "booleans"}.get(labels.dtype.kind, "numbers")
