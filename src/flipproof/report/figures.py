"""The figures of a report in words, from its summary: what HTML and Markdown both show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flipproof.report.text import TextTable, percent
from flipproof.report.words import share_of, significant


@dataclass(frozen=True)
class KeyFigure:
    """One number, and what it says."""

    value: str
    says: str


def key_figures(summary: Mapping[str, Any]) -> list[KeyFigure]:
    """Return the few numbers that a reader should take home."""
    problem, main, total = summary["problem"], summary["methods"][0], summary["problem"]["n_test"]
    if total == 0:
        return []
    found = []
    flips = summary["headline"]["flips"]
    if problem["truth_known"]:
        found.append(KeyFigure(percent(main["n_correct"] / total), "correct, if nobody changed anything"))
        at_headline = summary["headline"].get("n_correct_standing")
        if at_headline is not None and flips:
            says = f"correct, and proved to stay so under any {flips_words(flips, problem)}"
            found.append(KeyFigure(percent(at_headline / total), says))
    half = f"{problem['flips_name']}: what half of the predictions withstand (median radius)"
    found.append(KeyFigure(main["median_radius"], half))
    one = {"labels": "one changed label", "annotators": "one malicious annotator"}.get(problem["unit"], "any change")
    found.append(KeyFigure(f"{main['n_fragile']:,}", f"predictions that are not certain to withstand {one}"))
    return found


def flips_words(flips: Any, problem: Mapping[str, Any]) -> str:
    """Write so many flips with their unit."""
    if not problem["counted"]:
        return f"{problem['flips_name']} of {significant(flips)}"
    name = problem["flips_name"]
    return f"{flips:,} {name[:-1] if flips == 1 else name}"


def flips_heads(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return numbers of flips, with their share of all labels or annotators in a second line."""
    problem = summary["problem"]
    if not problem["counted"]:
        return tuple(f"{flips:g}" for flips in summary["table_flips"])
    return tuple(
        f"{flips:,}\n({share_of(flips, problem['n_units'])})" if flips else "0" for flips in summary["table_flips"]
    )


def accuracy_table(summary: Mapping[str, Any]) -> TextTable:
    """Return which share of all test rows stands: a row per number of flips, a column per method."""
    problem, methods = summary["problem"], summary["methods"]
    if problem["truth_known"]:
        columns = {f"{one['name']}\n(correct and certified)": one["table_correct_standing"] for one in methods}
        columns[f"{methods[0]['name']}\n(certified, correct or not)"] = methods[0]["table_standing"]
    else:
        columns = {f"{one['name']}\n(certified)": one["table_standing"] for one in methods}
    shares = [_shares(counts, problem) for counts in columns.values()]
    heads = (head.replace("\n", " ") for head in flips_heads(summary))
    rows = tuple((head, *row) for head, *row in zip(heads, *shares, strict=True))
    return TextTable((problem["flips_name"], *columns), rows)


def class_table(summary: Mapping[str, Any]) -> TextTable:
    """Return the same for each class, by the main method: certified recall if the true classes are known."""
    by_class = summary["by_class"]
    rows = tuple(
        (
            str(row["class"]),
            f"{row['n']:,}",
            *(percent(count / row["n"]) if row["n"] else "none" for count in row["table_standing"]),
        )
        for row in by_class["rows"]
    )
    first = "true class" if by_class["kind"] == "recall" else "predicted class"
    return TextTable((first, "test rows", *flips_heads(summary)), rows)


def method_table(summary: Mapping[str, Any]) -> TextTable:
    """Return the methods side by side."""
    problem, total = summary["problem"], summary["problem"]["n_test"]
    heads = ["method", "median radius", "not certified", "beyond any attack"]
    if problem["truth_known"]:
        heads.append("clean accuracy")
    rows = []
    for method in summary["methods"]:
        row = [method["name"], method["median_radius"], f"{method['n_fragile']:,}", f"{method['n_unlimited']:,}"]
        if problem["truth_known"]:
            row.append(percent(method["n_correct"] / total) if total else "none")
        rows.append(tuple(row))
    return TextTable(tuple(heads), tuple(rows))


def changes_words(attack: Mapping[str, Any], unit: str) -> str:
    """Say how much an attack changes."""
    if attack["needed"] is None:
        return "not searched for"
    labels = f"{attack['n_labels']:,} label{'' if attack['n_labels'] == 1 else 's'}"
    if unit == "annotators":
        return f"{attack['needed']:,} annotator{'' if attack['needed'] == 1 else 's'}, {labels}"
    return labels


def change_words(change: Mapping[str, Any]) -> str:
    """Say which label would be changed, and how."""
    old = "" if change["old"] is None else f"{change['old']} "
    return f"{change['row']}: {old}→ {change['new']}"


def requirement_words(requirement: Mapping[str, Any]) -> str:
    """Say what was found where something was required."""
    found = requirement.get("found")
    if found is None:
        return ""
    return percent(found) if isinstance(found, float) else str(found)


def _shares(counts: list[int], problem: Mapping[str, Any]) -> list[str]:
    total = problem["n_test"]
    return [percent(count / total) if total else "none" for count in counts]
