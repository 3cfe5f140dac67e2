"""Groups of test rows in a report: at most how many predictions of each one set of changed labels changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.certificates import Certificates
from flipproof.core.rounding import Values
from flipproof.learners.collective_certificates import CollectiveCertificate
from flipproof.readable import percent, percent_above
from flipproof.report.text import TextTable

#: What a group that holds all test rows is called.
ALL = "all test rows"


def summarize_groups(
    bounds: Sequence[CollectiveCertificate],
    groups: Values,
    main: Certificates,
    truth: Values | None,
) -> dict[str, Any]:
    """Return the bounds of all groups, in JSON types only.

    Parameters
    ----------
    bounds : sequence of CollectiveCertificate
        One for each number of flips, in ascending order.
    groups : array of shape (m,)
        The group of each test row.
    main : Certificates
        Of the same test rows.
    truth : array of shape (m,), optional
        Their true classes.
    """
    correct = None if truth is None else truth == main.prediction
    whole = _line(ALL, np.ones(len(main), dtype=bool), bounds, correct)
    names = list(bounds[0].by_group or ())
    of_groups = [[(one.by_group or {})[name] for one in bounds] for name in names]
    lines = [_line(name, groups == name, some, correct) for name, some in zip(names, of_groups, strict=True)]
    return {"flips": [one.flips for one in bounds], "unit": bounds[0].unit, "lines": [*lines, whole]}


def _line(
    name: object,
    is_member: NDArray[np.bool_],
    bounds: Sequence[CollectiveCertificate],
    correct: NDArray[np.bool_] | None,
) -> dict[str, Any]:
    return {
        "id": name if isinstance(name, (bool, int, float)) else str(name),
        "n": int(is_member.sum()),
        "n_correct": None if correct is None else int(correct[is_member].sum()),
        "most_changed": [one.most_changed for one in bounds],
        "pointwise_changed": [one.pointwise_changed for one in bounds],
    }


def group_table(found: Mapping[str, Any]) -> TextTable:
    """Return at most how many predictions of each group change."""
    knows_truth = found["lines"][0]["n_correct"] is not None
    heads = ("group", "test rows", *(["accuracy"] if knows_truth else []), *_heads("changed", found))
    rows = []
    for line in found["lines"]:
        accuracy = [percent(line["n_correct"] / line["n"])] if knows_truth else []
        rows.append((str(line["id"]), f"{line['n']:,}", *accuracy, *(f"{one:,}" for one in line["most_changed"])))
    return TextTable(heads, tuple(rows))


def gap_table(found: Mapping[str, Any]) -> TextTable | None:
    """Return how far the gaps between the shares of any class in two groups move; None for a single group.

    Soundness: a changed prediction moves the share of a class in a group of n rows by at most 1 / n, and the gap
    between two groups by at most the sum of both moves. Rounded up.
    """
    lines = found["lines"][:-1]
    if len(lines) < 2:
        return None
    rows = []
    for one, other in combinations(lines, 2):
        moves = (
            Fraction(first, one["n"]) + Fraction(second, other["n"])
            for first, second in zip(one["most_changed"], other["most_changed"], strict=True)
        )
        rows.append((f"{one['id']} - {other['id']}", *(percent_above(move) for move in moves)))
    return TextTable(("gap", *_heads("moves", found)), tuple(rows))


def _heads(what: str, found: Mapping[str, Any]) -> list[str]:
    return [f"{what} at {one:,}" for one in found["flips"]]


def group_words(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the tables of groups and of gaps tell."""
    changed = "changed labels" if found["unit"] == "labels" else f"malicious {found['unit']}"
    return (
        f"At most this many predictions of a group change after any {changed}: one attack on the group as a whole, "
        "not one on each prediction.",
        "The gap between the shares of any class among the predictions of two groups moves by at most this much, in "
        "percentage points.",
    )
