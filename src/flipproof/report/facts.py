"""Tables and key figures of a report, from its summary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flipproof.certificate_words import ROW_UNITS
from flipproof.readable import percent, share_of
from flipproof.report.as_json import LONGEST_CONTENT
from flipproof.report.summary import MOST_CONTENTS
from flipproof.report.text import TextTable
from flipproof.report.words import flips_words, least_words

#: Methods whose proofs need no noise.
#: Number of annotators that are named beside an attack.
MOST_PEOPLE = 4

NOISELESS = ("exact", "gap")


#: Key figures beside the headline; the last of them is also in the table of methods.
MOST_KEY_FIGURES = 4


@dataclass(frozen=True)
class KeyFigure:
    """A number and its caption."""

    value: str
    says: str


def key_figures(summary: Mapping[str, Any]) -> list[KeyFigure]:
    """Return the most important numbers of a report."""
    problem, main, total = summary["problem"], summary["methods"][0], summary["problem"]["n_test"]
    if total == 0:
        return []
    found = []
    flips = summary["headline"]["flips"]
    if problem["truth_known"]:
        of_what = "row" if problem["unit"] in ROW_UNITS else _labels_name(problem)[:-1] if problem["counted"] else None
        unchanged = f"correct if no {of_what} is changed" if of_what else "correct if nothing is changed"
        found.append(KeyFigure(percent(main["n_correct"] / total), unchanged))
        at_headline = summary["headline"].get("n_correct_certified")
        if at_headline is not None and flips:
            says = f"correct and certified at {flips_words(flips, problem)}"
            found.append(KeyFigure(percent(at_headline / total), says))
        worst = summary["headline"].get("worst_class")  # missing in older reports
        if worst is not None:
            at = f" at {flips_words(flips, problem)}" if flips else ""
            says = f"of the worst class, {worst['class']}, correct and certified{at}"
            found.append(KeyFigure(percent(worst["n_certified"] / worst["n"]), says))
    half = f"median radius ({problem['flips_name']}): half of the predictions are certified at this radius or more"
    found.append(KeyFigure(main["median_radius"], half))
    changes = problem.get("changes", "labels")  # missing in older reports
    one = least_words(problem["flips_name"], problem["unit"], changes)
    found.append(KeyFigure(f"{main['n_fragile']:,}", f"predictions not certified against {one}"))
    return found[:MOST_KEY_FIGURES]


def training_name(problem: Mapping[str, object]) -> str:
    """Return what the training data are counted in."""
    if problem["unit"] in ROW_UNITS:
        return "training rows"
    return "training labels" if _labels_name(problem) == "labels" else _labels_name(problem)


def _labels_name(problem: Mapping[str, Any]) -> str:
    """Return what the training labels are called: "annotations" if items have several labels each."""
    return str(problem.get("labels_name", "labels"))  # missing in older reports


def flips_heads(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return column heads: numbers of flips, with their share of all labels or annotators on a second line."""
    problem = summary["problem"]
    if not problem["counted"]:
        return tuple(f"{flips:g}" for flips in summary["table_flips"])
    return tuple(
        f"{flips:,}\n({share_of(flips, problem['n_units'])})" if flips else "0" for flips in summary["table_flips"]
    )


def accuracy_table(summary: Mapping[str, Any]) -> TextTable:
    """Return the certified share of all test rows: a row per number of flips, a column per method."""
    problem, methods = summary["problem"], summary["methods"]
    if problem["truth_known"]:
        columns = {f"{one['name']}\n(correct and certified)": one["table_correct_certified"] for one in methods}
        columns[f"{methods[0]['name']}\n(certified, correct or not)"] = methods[0]["table_certified"]
    else:
        columns = {f"{one['name']}\n(certified)": one["table_certified"] for one in methods}
    shares = [_shares(counts, problem) for counts in columns.values()]
    heads = (head.replace("\n", " ") for head in flips_heads(summary))
    rows = tuple((head, *row) for head, *row in zip(heads, *shares, strict=True))
    return TextTable((problem["flips_name"], *columns), rows)


def class_table(summary: Mapping[str, Any]) -> TextTable:
    """Return the certified share per class for the first method: recall if the true classes are known."""
    by_class = summary["by_class"]
    rows = tuple(
        (
            str(row["class"]),
            f"{row['n']:,}",
            *(percent(count / row["n"]) if row["n"] else "none" for count in row["table_certified"]),
        )
        for row in by_class["rows"]
    )
    first = "true class" if by_class["kind"] == "recall" else "predicted class"
    return TextTable((first, "test rows", *flips_heads(summary)), rows)


def method_table(summary: Mapping[str, Any]) -> TextTable:
    """Return a comparison of the methods."""
    problem, total = summary["problem"], summary["problem"]["n_test"]
    heads = ["method", "noise", "median radius", "not certified", "radius unlimited"]
    if problem["truth_known"]:
        heads.append("clean accuracy")
    heads.append("assumptions")
    rows, numbers = [], [one.methods for one in numbered_assumptions(summary)]
    for place, method in enumerate(summary["methods"]):
        row = [method["name"], noise_words(method), method["median_radius"]]
        row += [f"{method['n_fragile']:,}", f"{method['n_unlimited']:,}"]
        if problem["truth_known"]:
            row.append(percent(method["n_correct"] / total) if total else "none")
        row.append(", ".join(str(number) for number, methods in enumerate(numbers, 1) if place in methods))
        rows.append(tuple(row))
    return TextTable(tuple(heads), tuple(rows))


@dataclass(frozen=True)
class NumberedAssumption:
    """An assumption of some methods: its sentence, the positions of these methods, and `who` unless it is all."""

    sentence: str
    methods: tuple[int, ...]
    who: str


def numbered_assumptions(summary: Mapping[str, Any]) -> list[NumberedAssumption]:
    """Return the assumptions of all methods, those that all share first; the table of methods refers to their order."""
    methods, shared = summary["methods"], summary["assumptions"]
    others = [one for method in methods for one in method["assumptions"] if one not in shared]
    distinct = [one for place, one in enumerate(others) if one not in others[:place]]
    found = []
    for one in (*shared, *distinct):
        places = tuple(place for place, method in enumerate(methods) if one in method["assumptions"])
        who = ", ".join(methods[place]["name"] for place in places) if one in distinct else ""
        found.append(NumberedAssumption(one["sentence"], places, who))
    return found


def content_words(content: Sequence[str], columns: Sequence[str]) -> str:
    """Return the contents of a row as text; a single column needs no name."""
    if len(columns) == 1:
        return content[0]
    return "; ".join(f"{name}: {value}" for name, value in zip(columns, content, strict=True))


def content_note(summary: Mapping[str, Any]) -> str:
    """Return which contents of rows a report shows; an empty text if none."""
    if not summary["shown"]:
        return ""
    columns = list(dict.fromkeys([*summary["shown"]["test"], *summary["shown"]["training"]]))
    named = f"column {columns[0]}" if len(columns) == 1 else f"columns {', '.join(columns)}"
    return (
        f"Below row names: contents of the {named}, cut to {LONGEST_CONTENT} characters. For each attack, those of the "
        f"first {MOST_CONTENTS} training rows."
    )


def own_assumptions(summary: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the methods with assumptions that not all methods share, each with those assumptions as sentences."""
    methods = summary["methods"]
    own = [[one for one in method["assumptions"] if one not in summary["assumptions"]] for method in methods]
    return [
        (method["name"], [one["sentence"] for one in found])
        for method, found in zip(methods, own, strict=True)
        if found
    ]


def noise_words(method: Mapping[str, object]) -> str:
    """Return the noise that a method's proof needs, as text."""
    noise = method["noise"]
    if noise is None or method["method"] in NOISELESS:
        return "none"
    if isinstance(noise, Mapping):
        return f"{noise['smallest']:g} to {noise['largest']:g}"
    return f"{noise:g}"


def changes_words(attack: Mapping[str, Any], unit: str) -> str:
    """Return the number of labels that an attack changes, as text."""
    if attack["needed"] is None:
        return "not attacked"
    labels = f"{attack['n_labels']:,} label{'' if attack['n_labels'] == 1 else 's'}"
    if unit in ("annotators", "windows"):
        counted = f"{attack['needed']:,} {unit[:-1]}{'' if attack['needed'] == 1 else 's'}"
        who = attack.get("who")  # missing in older reports
        return f"{counted}{f' ({people_words(who)})' if who else ''}, {labels}"
    return labels


def people_words(who: Sequence[Mapping[str, object]]) -> str:
    """Return the names of annotators as text, each with the number of labels, the first few of them."""
    named = [f"{one['name']}: {one['n_labels']:,}" for one in who[:MOST_PEOPLE]]
    return ", ".join(named) + (", ..." if len(who) > MOST_PEOPLE else "")


def annotator_table(summary: Mapping[str, Any]) -> TextTable | None:
    """Return the annotators to check first; None if there are none."""
    found = (summary.get("audit") or {}).get("annotators")  # missing in older reports
    if not found or not found["rows"]:
        return None
    keys = ("n_labels", "n_attacks", "n_alone")
    rows = [(str(one["name"]), *(f"{one[key]:,}" for key in keys)) for one in found["rows"]]
    return TextTable(("annotator", "labels", "attacks they take part in", "overturned alone"), tuple(rows))


def annotators_said(summary: Mapping[str, Any]) -> str:
    """Say what the list of annotators is."""
    found = summary["audit"]["annotators"]
    return (
        f"Of {found['n_annotators']:,} annotators, those who take part in the most attacks, counting the attack by the "
        f"fewest annotators on each of the {found['n_attacked']:,} most fragile predictions. An annotator on this list "
        "is influential, not necessarily wrong."
    )


def change_words(change: Mapping[str, object]) -> str:
    """Return a label change as text: training row, old and new label."""
    old = "" if change["old"] is None else f"{change['old']} "
    return f"{change['row']}: {old}→ {change['new']}"


def single_requirements(requirement: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the parts of a combined requirement, or the single requirement itself."""
    return [] if requirement is None else list(requirement.get("parts") or [requirement])


def requirement_words(requirement: Mapping[str, object]) -> str:
    """Return the value that was found for a requirement, as text."""
    found = requirement.get("found")
    if found is None:
        return ""
    of_class = "" if requirement.get("class") is None else f" (class {requirement['class']})"
    return f"{percent(found) if isinstance(found, float) else found}{of_class}"


def _shares(counts: list[int], problem: Mapping[str, Any]) -> list[str]:
    total = problem["n_test"]
    return [percent(count / total) if total else "none" for count in counts]


#: Facts whose names contain one of these words describe how the report was made; all others describe its subject.
PROVENANCE = ("sha256", "checksum", "version", "command", "second", "time", "date", "seed", "memory", "software")

LONGEST_LIST = 12  # entries


@dataclass(frozen=True)
class FactTable:
    """Facts as pairs of name and text, under a title if they belong together."""

    title: str
    rows: tuple[tuple[str, str], ...]

    @property
    def heading(self) -> str:
        """The title, followed by the fact called "name" if there is one."""
        return next((f"{self.title}: {text}" for key, text in self.rows if key == "name"), self.title)


def data_facts(summary: Mapping[str, Any]) -> list[FactTable]:
    """Return the facts about data and learner that are not shown elsewhere in the report."""
    shown = {"training_rows": summary["problem"]["n_train"], "test_rows": summary["problem"]["n_test"]}
    known = {name: value for name, value in summary["facts"].items() if not _is_provenance(name)}
    return _tables({name: value for name, value in known.items() if name not in shown or shown[name] != value})


def provenance_facts(summary: Mapping[str, Any]) -> list[FactTable]:
    """Return the facts about commands, times, checksums and software."""
    known = {name: value for name, value in summary["facts"].items() if _is_provenance(name)}
    return _tables({"Created": summary["created"], **known, "Software": summary["software"]})


def _is_provenance(name: str) -> bool:
    return any(word in name.casefold() for word in PROVENANCE)


def _tables(facts: Mapping[str, object]) -> list[FactTable]:
    alone = tuple((_spoken(name), _text(value)) for name, value in facts.items() if not isinstance(value, Mapping))
    tables = [FactTable("", alone)] if alone else []
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            rows = tuple((key, _text(one)) for key, one in value.items())
            tables.append(FactTable(_spoken(name), rows))
    return tables


def _spoken(name: str) -> str:
    """Return an identifier as a caption: "test_rows" becomes "Test rows"."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        return name
    words = name.replace("_", " ")
    return "SHA-256" if words == "sha256" else words[0].upper() + words[1:]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not given"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        shown = ", ".join(_text(one) for one in value[:LONGEST_LIST])
        return shown if len(value) <= LONGEST_LIST else f"{shown}, and {len(value) - LONGEST_LIST} more"
    return str(value)
