"""A report as Markdown, for pull requests, wikis and tickets.

All data is escaped, so that readers see it literally and never as HTML or Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flipproof.readable import percent
from flipproof.report import facts
from flipproof.report.as_json import checksum
from flipproof.report.group_bounds import gap_table, group_table, group_words
from flipproof.report.text import TextTable

#: Largest numbers of rows in tables, and of changes per attack: Markdown has no filters or paging.
MOST_PREDICTIONS = 20
MOST_AUDITED = 20
MOST_CHANGES = 5

#: Characters with a meaning in Markdown or HTML: anywhere, and at the beginning of a line.
SPECIAL = re.compile(r"([\\`*_\[\]<>|~$&])")
SPECIAL_AT_FIRST = re.compile(r"^(\d+(?=[.)](?: |$))|(?=[-+#=]))")


def render_markdown(summary: Mapping[str, Any]) -> str:
    """Return a report as the text of a Markdown file.

    Parameters
    ----------
    summary : mapping
        The result of :func:`flipproof.report.summary.summarize`.

    Returns
    -------
    str
        The same tables as in the HTML report; long ones are cut.
    """
    problem, main = summary["problem"], summary["methods"][0]
    blocks = [f"# {escaped(summary['title'])}"]
    blocks += [_requirement(one) for one in facts.single_requirements(summary["requirement"])]
    blocks += [
        f"**{escaped(summary['headline']['text'])}**",
        *map(escaped, summary["headline"].get("sentences", [])),  # missing in older reports
        _bullets(f"{figure.value} {figure.says}" for figure in facts.key_figures(summary)),
        "## What was tested",
        _bullets(summary["threat"]),
        "Data and classifier:",
        _facts([facts.FactTable("", _sizes(summary)), *facts.data_facts(summary)]),
        f"## Certified {'accuracy' if problem['truth_known'] else 'predictions'}",
        markdown_table(facts.accuracy_table(summary)),
        "Shares of all test rows, rounded down.",
        *_against_rows(summary),
        *_trusted_only(summary),
        *_random_errors(summary),
        *_groups(summary),
        "## By class",
        f"Certified {'recall' if problem['truth_known'] else 'share'}, method {escaped(main['name'])}; columns are "
        f"{escaped(problem['flips_name'])}.",
        markdown_table(facts.class_table(summary)),
        "## Most fragile predictions",
        *_predictions(summary),
        *_annotators(summary),
        *_audit(summary),
        "## Methods",
        markdown_table(facts.method_table(summary)),
        _bullets(method["meaning"] for method in summary["methods"]),
        "## Assumptions",
        _assumptions(summary),
        "What voids the certificates:",
        _bullets(summary["voids"]),
        "## Versions and checksums",
        _facts(facts.provenance_facts(summary)),
        f"SHA-256 of the summary: {checksum(summary)}",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def escaped(text: object) -> str:
    """Return a text on one line, escaped so that Markdown and HTML show it literally."""
    line = SPECIAL.sub(r"\\\1", " ".join(str(text).split()))
    # some Markdown renderers do not support \<
    return SPECIAL_AT_FIRST.sub(r"\1\\", line.replace("\\<", "&lt;").replace("\\>", "&gt;"))


def _requirement(requirement: Mapping[str, Any]) -> str:
    said = "Requirement met" if requirement.get("met") else "Requirement not met"
    found = facts.requirement_words(requirement)
    return f"**{said}:** {escaped(requirement.get('text', ''))}{f', found {escaped(found)}' if found else ''}"


def _sizes(summary: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    problem = summary["problem"]
    sizes = [
        (facts.training_name(problem).capitalize(), f"{problem['n_train']:,}"),
        ("Test rows", f"{problem['n_test']:,}"),
        ("Classes", f"{problem['n_classes']}"),
    ]
    if problem["constant_accuracy"] is not None:
        constant = problem.get("constant_class", "the most common class")  # missing in older reports
        sizes.append((f"Accuracy of always predicting {constant}", percent(problem["constant_accuracy"])))
    return tuple(sizes)


def _against_rows(summary: Mapping[str, Any]) -> list[str]:
    about = summary.get("rows")  # missing in older reports
    if about is None:
        return []
    blocks = [f"## {escaped(about['title'])}"]
    if about["also"] is not None:
        headline = about["also"]["headline"]
        blocks += [f"**{escaped(headline['text'])}**", *map(escaped, headline.get("sentences", []))]
        blocks.append(markdown_table(facts.accuracy_table(about["also"])))
    attacks = [one["sentence"] for one in about.get("attacks", [])]  # missing in older reports
    return [*blocks, _bullets(about["sentences"]), *(["Smallest attacks found:", _bullets(attacks)] if attacks else [])]


def _trusted_only(summary: Mapping[str, Any]) -> list[str]:
    baseline = summary.get("trusted_only")  # missing in older reports
    return [] if baseline is None else ["## Trusted labels only", _bullets(baseline["sentences"])]


def _random_errors(summary: Mapping[str, Any]) -> list[str]:
    errors = summary.get("random_errors")  # missing in older reports
    return [] if errors is None else ["## Random errors", _bullets(errors["sentences"])]


def _groups(summary: Mapping[str, Any]) -> list[str]:
    found = summary.get("groups")  # only if test rows are divided into groups
    if found is None:
        return []
    about, about_gaps = group_words(found)
    gaps = gap_table(found)
    blocks = ["## By group", about, markdown_table(group_table(found))]
    return blocks if gaps is None else [*blocks, about_gaps, markdown_table(gaps)]


def _predictions(summary: Mapping[str, Any]) -> list[str]:
    problem, listed = summary["problem"], summary["predictions"]
    shown = summary["shown"] or {"test": [], "training": []}
    heads = [
        "test row",
        *(["contents"] if shown["test"] else []),
        "prediction",
        *(["truth"] if problem["truth_known"] else []),
        "radius",
        "rival class",
    ]
    if summary["attack"]:
        heads.append("smallest attack (training row: old → new label)")
    rows = []
    for row in listed["rows"][:MOST_PREDICTIONS]:
        cells = [row["id"], *_contents(row, shown["test"])]
        cells.append(f"{row['prediction']}{' (abstained)' if row['abstained'] else ''}")
        if problem["truth_known"]:
            cells.append(row["truth"])
        cells += [row["radius_text"], row["rival"]]
        if summary["attack"]:
            cells.append(_attack_words(row["attack"], problem["unit"]))
        rows.append(tuple(map(str, cells)))
    said = f"The {len(rows):,} most fragile of {listed['total']:,} predictions."
    blocks = [said, markdown_table(TextTable(tuple(heads), tuple(rows)))]
    if summary["attack"]:
        attack = summary["attack"]
        blocks.append(
            f"{attack['n_found']:,} attacks were found on {attack['n_attempted']:,} predictions; "
            f"{attack['n_contradictions']:,} of them contradict a certificate (this must be 0)."
        )
        blocks += _attacked_rows(listed["rows"][:MOST_PREDICTIONS], shown["training"])
    elif summary.get("without_attack"):  # missing in older reports
        blocks.append(escaped(summary["without_attack"]))
    return blocks


def _contents(entry: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    return [facts.content_words(entry["content"], columns)] if columns else []


def _attacked_rows(predictions: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return a table with the contents of the training rows that take part in attacks on these predictions."""
    attacks = [row["attack"]["changes"][:MOST_CHANGES] for row in predictions if row["attack"]]
    changed = {str(one["row"]): one for changes in attacks for one in changes if "content" in one}
    if not changed:
        return []
    rows = tuple((name, str(one["old"]), *_contents(one, columns)) for name, one in changed.items())
    return ["Training rows of these attacks:", markdown_table(TextTable(("training row", "label", "contents"), rows))]


def _attack_words(attack: Mapping[str, Any] | None, unit: str) -> str:
    if attack is None:
        return "none found"
    changes = [facts.change_words(change) for change in attack["changes"][:MOST_CHANGES]]
    more = ["…"] if attack["n_labels"] > len(changes) else []
    return facts.changes_words(attack, unit) + (f": {', '.join(changes + more)}" if changes else "")


def _annotators(summary: Mapping[str, Any]) -> list[str]:
    table = facts.annotator_table(summary)
    if table is None:
        return []
    few = TextTable(table.header, table.rows[:MOST_AUDITED])
    return ["## Annotators to check first", facts.annotators_said(summary), markdown_table(few)]


def _audit(summary: Mapping[str, Any]) -> list[str]:
    audit = summary["audit"]
    if audit is None:
        return []
    if not audit["rows"]:
        return ["## Labels to check first", "No change of labels can overturn any prediction."]
    columns = (summary["shown"] or {"training": []})["training"]
    rows = tuple(
        (
            str(row["row"]),
            "" if row["label"] is None else str(row["label"]),
            f"{row['n_attacks']:,} of {audit['n_attacked']:,}",
            f"{row['weight']:.2f}",
            *_contents(row, columns),
        )
        for row in audit["rows"][:MOST_AUDITED]
    )
    heads = ("training row", "label", "attacks", "weight", *(["contents"] if columns else []))
    about = (
        "A label on this list is influential, not necessarily wrong. Once these labels are trusted, attackers use "
        "others: the command flipproof plan measures what checking them buys."
    )
    return ["## Labels to check first", about, markdown_table(TextTable(heads, rows))]


def _assumptions(summary: Mapping[str, Any]) -> str:
    """Return a numbered list; the table of methods refers to the numbers."""
    found = facts.numbered_assumptions(summary)
    said = [f"{one.who} only: {one.sentence}" if one.who else one.sentence for one in found]
    return "\n".join(f"{number}. {escaped(sentence)}" for number, sentence in enumerate(said, 1))


def _facts(tables: Sequence[facts.FactTable]) -> str:
    lines = []
    for table in tables:
        start = f"{table.title}, " if table.title else ""
        lines += [f"{start}{name}: {text}" for name, text in table.rows]
    return _bullets(lines)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def markdown_table(table: TextTable) -> str:
    """Return a table in Markdown."""
    lines = [[escaped(cell) for cell in line] for line in (table.header, *table.rows)]
    lines.insert(1, ["---"] * len(table.header))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
