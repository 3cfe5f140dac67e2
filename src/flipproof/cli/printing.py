"""A summary on the terminal: the headline, then the figures, then the assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flipproof.cli.requirement import found_words
from flipproof.cli.talk import data_console, print_paragraph, print_table
from flipproof.readable import percent, share_of
from flipproof.report.facts import own_assumptions, single_requirements
from flipproof.report.group_bounds import gap_table, group_table, group_words
from flipproof.report.text import TextTable

if TYPE_CHECKING:
    from rich.console import Console

#: Largest number of columns with figures on a terminal of 80 columns.
MOST_FIGURES = 6

#: Number of most fragile predictions to list.
MOST_FRAGILE = 5

#: With more classes, recall per class is not shown.
MOST_CLASSES = 5


def print_summary(summary: Mapping[str, Any], encoding: Sequence[str], files: Sequence[Path]) -> None:
    """Print the summary of an audit."""
    console, facts, problem = data_console(), summary["facts"], summary["problem"]
    _print_trusted_only(summary, console, is_first=True)
    _print_headline(summary["headline"], console)
    reference = (
        [f"{facts['reference_rows']:,} reference rows: {facts['reference_file']}"] if "reference_rows" in facts else []
    )
    training = f"{facts['training_rows']:,} training rows: {facts['training_file']}"
    if "items" in facts:
        sources = [facts["training_file"], *([facts["labels_file"]] if "labels_file" in facts else [])]
        way = ", majority first" if facts["aggregate"] == "majority" else ""
        training = f"{facts['training_rows']:,} labels of {facts['items']:,} items{way}: {' and '.join(sources)}"
    lines = [
        training,
        *reference,
        f"{facts['test_rows']:,} test rows: {facts['test_file']}{_left_out(facts)}",
        *encoding,
        f"{facts['learner']['name']} for {problem['n_classes']} classes, fitted to column {facts['label_column']}",
    ]
    for line in lines:
        print_paragraph(console, line, indent="  - ")
    console.print()
    print_table(console, certified_table(summary))
    console.print()
    _print_trusted_only(summary, console, is_first=False)
    _print_against_rows(summary, console)
    _print_groups(summary, console)
    if summary["random_errors"] is not None:
        errors = summary["random_errors"]
        print_paragraph(console, errors["sentences"][0], indent="")
        if errors["by_rate"]:
            print_paragraph(console, errors["sentences"][2], indent="")
        console.print()
    _print_fragile(summary, console)
    requirements = single_requirements(summary["requirement"])
    for requirement in requirements:
        met = "Met" if requirement["met"] else "NOT MET"
        print_paragraph(console, f"{met}: {found_words(requirement)}", indent="")
    if requirements:
        console.print()
    console.print("Assumptions:")
    for assumption in summary["assumptions"]:
        print_paragraph(console, assumption["sentence"], indent="  - ")
    for name, sentences in own_assumptions(summary):
        print_paragraph(console, f"Additional assumptions of {name}:", indent="")
        for sentence in sentences:
            print_paragraph(console, sentence, indent="  - ")
    for path in files:
        console.print(f"Written: {path}", soft_wrap=True)


def _left_out(facts: Mapping[str, Any]) -> str:
    """Say how many items were held out, but not tested."""
    n_unclear = facts.get("held_out_items_without_majority", 0)
    if not n_unclear:
        return ""
    n_drawn = facts["test_rows"] + n_unclear
    has, is_out = ("has", "is") if n_unclear == 1 else ("have", "are")
    return f"; {n_unclear:,} of the {n_drawn:,} items held out {has} no clear majority and {is_out} left out"


def _print_trusted_only(summary: Mapping[str, Any], console: Console, is_first: bool) -> None:
    """Print how accurate the trusted labels alone are: first of all if they are better at a requirement."""
    baseline = summary["trusted_only"]
    if baseline is None or bool(baseline["required"]) != is_first:
        return
    for sentence in baseline["sentences"]:
        print_paragraph(console, sentence, indent="")
    console.print()


def certified_table(summary: Mapping[str, Any]) -> TextTable:
    """Return the certified shares at a few numbers of flips."""
    problem, main, total = summary["problem"], summary["methods"][0], summary["problem"]["n_test"]
    places = _spread(len(summary["table_flips"]), MOST_FIGURES)
    flips = [summary["table_flips"][place] for place in places]
    header = [f"{problem['flips_name']}\n{'% ' if problem['unit'] == 'rows' else ''}of {problem['n_units']:,}"]
    header += [f"{one:,}\n{share_of(one, problem['n_units'])}" for one in flips]

    def shares(counts: Sequence[int], of: int = total) -> list[str]:
        return [percent(counts[place] / of) for place in places]

    rows = []
    for method in summary["methods"]:
        named = f" ({method['method']})" if len(summary["methods"]) > 1 else ""
        if method["table_correct_certified"] is not None:
            rows.append((f"certified accuracy{named}", *shares(method["table_correct_certified"])))
        rows.append((f"certified predictions{named}", *shares(method["table_certified"])))
        if method is main and problem["truth_known"] and "by_class" in summary:
            for row in _few_classes(summary):
                rows.append((f"  recall of {_short(row['class'])}", *shares(row["table_certified"], row["n"])))
    return TextTable(tuple(header), tuple(rows))


def _print_headline(headline: Mapping[str, Any], console: Console) -> None:
    """Print the headline, and what it does not tell: the worst class and the constant classifier."""
    print_paragraph(console, headline["text"], indent="", style="bold")
    if headline["sentences"]:
        print_paragraph(console, " ".join(headline["sentences"]), indent="")
    console.print()


def _print_against_rows(summary: Mapping[str, Any], console: Console) -> None:
    """Print certificates against changed rows, if they are shown beside those against labels."""
    about = summary["rows"]
    if about is not None and about["also"] is not None:
        _print_headline(about["also"]["headline"], console)
        print_table(console, certified_table(about["also"]))
        console.print()


def _print_groups(summary: Mapping[str, Any], console: Console) -> None:
    """Print at most how many predictions of each group change."""
    found = summary.get("groups")
    if found is None:
        return
    for text, table in zip(group_words(found), (group_table(found), gap_table(found)), strict=True):
        if table is not None:
            print_paragraph(console, text, indent="")
            print_table(console, table)
            console.print()


def _print_fragile(summary: Mapping[str, Any], console: Console) -> None:
    rows = summary["predictions"]["rows"][:MOST_FRAGILE]
    named = [
        f"{row['id']} (radius {row['radius_text']}{'' if row.get('correct', True) else ', wrong'})" for row in rows
    ]
    print_paragraph(console, f"Most fragile test rows: {', '.join(named)}", indent="")
    console.print()


def _few_classes(summary: Mapping[str, Any]) -> list[Any]:
    """Return the classes of the test rows, or none if there are too many."""
    rows = [row for row in summary["by_class"]["rows"] if row["n"]]
    return rows if len(rows) <= MOST_CLASSES else []


def _spread(n: int, most: int) -> list[int]:
    """Return at most `most` positions out of n, evenly spread, including the first and the last."""
    if n <= most:
        return list(range(n))
    return sorted({round(k * (n - 1) / (most - 1)) for k in range(most)})


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= 12 else f"{text[:11]}…"
