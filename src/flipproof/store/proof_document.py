"""What a certificate file says of its adversary, compared with its tensors when it is loaded.

`flipproof verify` checks more, and the proof. Here, nothing may be loaded that would be shown with a false meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flipproof.assumptions import MOST_CHANGES, Assumption

#: The adversary is limited, or can do more than change single labels, if one of these is assumed.
OF_ADVERSARIES = {
    "rows-changed",
    "trusted-labels",
    "trusted-rows",
    "changes-allowed",
    "annotators",
    "windows",
    "sources",
}

#: Assumptions that say how many labels or rows are trusted.
TRUSTED = ("trusted-labels", "trusted-rows", "trusted-at-fit")

#: Keys of a document, in the order of the specification; some belong to one rule or unit.
KEYS = {
    *("format", "version", "producer", "rule", "method", "changes", "unit", "n_test", "n_rows", "n_train"),
    *("n_touchable", "classes", "assumptions", "has_adversary", "digests", "blocks"),
    *("tick", "votes", "n_items", "k", "n_partitions", "sampling"),
}


class Stored(Protocol):
    """Tensors by name."""

    def __contains__(self, name: str) -> bool: ...

    def __getitem__(self, name: str) -> NDArray[Any]: ...


def check_document(document: Mapping[str, Any], stored: Stored) -> None:
    """Refuse a document that says something else of the adversary than the tensors."""
    if not set(document) <= KEYS or set(document["producer"]) != {"name", "version"}:
        raise ValueError("its document has an unknown key")
    classes = document["classes"]
    if len({type(one) for one in classes}) != 1 or not len(set(classes)) == len(classes) > 1:
        raise ValueError("its classes are not two or more of one type, each listed once")
    listed = [Assumption.from_dict(one) for one in document["assumptions"]]  # refuses unknown codes, and other values
    values = {one.code: one.values for one in listed}
    if any(set(one) != {"code", "values"} for one in document["assumptions"]):
        raise ValueError("an assumption has more than a code and its values")
    for one in listed:
        if not all(_is_plain(name, value) for name, value in one.values.items()):
            raise ValueError(f"a value of the assumption {one.code!r} has another type")
    about_adversaries = [one.code for one in listed if one.code in OF_ADVERSARIES.union(TRUSTED)]
    if len(set(about_adversaries)) != len(about_adversaries):
        raise ValueError("an assumption about the adversary is listed twice")
    if document["has_adversary"] is not bool(values.keys() & OF_ADVERSARIES):
        raise ValueError("its 'has_adversary' contradicts its assumptions")
    for code, name, value in _expected(document):
        if code in values and value is not None and values[code][name] != value:
            raise ValueError(f"the assumption {code!r} says {name} = {values[code][name]!r}, but it is {value!r}")
    for unit in ("annotators", "windows", "sources"):
        if (unit in values) != (document["unit"] == unit):
            raise ValueError(f"the assumption {unit!r} and the unit of the radius contradict each other")
    if any(one.startswith("target") or one.endswith("targets") for one in values):
        raise ValueError("its assumptions are about targets")
    if ("rows-changed" in values) != (document["changes"] != "labels"):
        raise ValueError("the assumption 'rows-changed' contradicts the changes")
    _check_limits(document, stored, values)


def _is_plain(name: str, value: object) -> bool:
    """Tell whether counts are integers, and lengths of windows texts."""
    return type(value) is int if name.startswith("n_") else isinstance(value, str) or name != "length"


def _expected(document: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the values of assumptions that follow from the document: code, name and value."""
    n, touchable, unit, changes = (document[key] for key in ("n_rows", "n_touchable", "unit", "changes"))
    return [
        ("rows-changed", "changes", changes),
        ("rows-changed", "by_sources", unit == "sources"),
        ("sources", "changes", changes),
        ("sources", "n_sources", touchable),
        ("annotators", "n_annotators", touchable),
        ("windows", "n_windows", touchable),
        ("trusted-labels", "n_labels", n),
        ("trusted-rows", "n_rows", n),
        ("trusted-rows", "can_add", changes in ("rows", "insertions") and unit == "rows"),
        ("trusted-at-fit", "n_labels", document["n_train"]),
        ("changes-partly-used", "method", document["method"]),
        ("unlabelled-rows", "n_unlabelled", n - document["n_train"] or None),
        ("classes-read", "n_classes", len(document["classes"])),
    ]


def _check_limits(document: Mapping[str, Any], stored: Stored, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse possible changes and fixed labels that the assumptions do not state."""
    transitions, fixed = stored["transitions"], ~stored["train.changeable"]
    n_possible, n_classes = int(transitions.sum()), len(document["classes"])
    places = {(isinstance(one, bool), one): code for code, one in enumerate(document["classes"])}
    if "changes-allowed" in values:
        stated = values["changes-allowed"]
        pairs = {tuple(places.get((isinstance(one, bool), one), -1) for one in pair) for pair in stated["changes"]}
        are_possible = all(min(pair) >= 0 and transitions[pair] for pair in pairs)
        n_listed = min(n_possible, MOST_CHANGES)
        if stated["n_changes"] != n_possible or not are_possible or len(pairs) != n_listed:
            raise ValueError("the changes that are said to be possible are others")
    elif n_possible < n_classes * (n_classes - 1):
        raise ValueError("some changes are not possible, but no assumption says which are")
    stated_fixed = [values[code]["n_trusted"] for code in TRUSTED if code in values]
    n_fixed = int((fixed & np.asarray(transitions.any(axis=1))[stored["train.label"]]).sum())
    n_unlabelled = document["n_rows"] - document["n_train"]
    if max(stated_fixed, default=0) > int(fixed.sum()) or n_fixed > sum(stated_fixed) + n_unlabelled:
        raise ValueError("the numbers of trusted labels or rows are not those that are fixed")
