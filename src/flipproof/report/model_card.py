"""A model card for the Hugging Face Hub: metadata (`model-index`) in YAML, and Markdown.

The metadata is written as YAML whose values are JSON: every text is in double quotes, so nothing in it has a meaning of
its own, and no library is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from flipproof.readable import percent
from flipproof.report.evidence import Evidence, Figure
from flipproof.report.facts import requirement_words, single_requirements
from flipproof.report.markdown import escaped


def render_model_card(evidence: Evidence) -> str:
    """Return the text of a README.md for the Hub: metadata between two lines ``---``, and what it means."""
    summary = evidence.summary
    blocks = [
        f"# {escaped(_name(evidence))}",
        f"**{escaped(summary['headline']['text'])}**",
        *map(escaped, summary["headline"].get("sentences", [])),
        *_requirements(evidence),
        "## Certified robustness",
        _table(
            (summary["problem"]["flips_name"], evidence.measure),
            [(f"{one.changes:,}", percent(float(one.share))) for one in evidence.figures],
        ),
        "Shares of all test rows, rounded down. A prediction is certified at a number of changes if it is the same "
        "under any changes up to that number.",
        *_against_rows(evidence),
        "## What was tested",
        _bullets(summary["threat"]),
        "## Assumptions",
        _bullets(one["sentence"] for one in summary["methods"][0]["assumptions"]),
        "What voids the certificates:",
        _bullets(summary["voids"]),
        "## Files",
        _table(("file", "role", "SHA-256"), _files(evidence)),
        f"Made with flipproof {escaped(evidence.versions['flipproof'])}.",
    ]
    return "\n".join(["---", *_metadata(evidence), "---"]) + "\n\n" + "\n\n".join(filter(None, blocks)) + "\n"


def _metadata(evidence: Evidence) -> list[str]:
    """Return the lines of the metadata."""
    facts, figures = evidence.summary["facts"], evidence.figures
    tested = next((one for one in evidence.data if one.role == "test"), None)
    metrics = [_metric(one, evidence) for one in (*figures, *evidence.against_rows)]
    lines = [
        'library_name: "flipproof"',
        'pipeline_tag: "tabular-classification"',
        'tags: ["flipproof", "certified-robustness", "data-poisoning"]',
        "model-index:",
        f"- name: {_text(_name(evidence))}",
        "  results:",
        "  - task:",
        '      type: "tabular-classification"',
        '      name: "Classification with certified training data"',
        "    dataset:",
        '      type: "custom"',
        f"      name: {_text(facts['test_file'])}",
        '      split: "test"',
    ]
    if tested is not None and tested.sha256:
        lines += ["      args:", f"        sha256: {_text(tested.sha256)}"]
    lines.append("    metrics:")
    for metric in metrics:
        (first, value), *rest = metric.items()
        lines.append(f"    - {first}: {_text(value)}")
        lines += [f"      {key}: {_text(value)}" for key, value in rest]
    return lines


def _metric(figure: Figure, evidence: Evidence) -> dict[str, Any]:
    known = evidence.summary["problem"]["truth_known"]
    if known and not figure.changes:
        return {"type": "accuracy", "name": "Accuracy if nothing is changed", "value": float(figure.share)}
    says = figure.says[0].upper() + figure.says[1:]
    kind = "certified_accuracy" if known else "certified_predictions"
    return {"type": kind, "name": says, "value": float(figure.share), "args": {"changes": figure.changes}}


def _text(value: object) -> str:
    """Return a value as JSON, which is YAML; other characters than ASCII are escaped."""
    return json.dumps(value, allow_nan=False)


def _name(evidence: Evidence) -> str:
    model = next((one for one in evidence.subjects if one.role == "model"), None)
    return model.name if model else f"{evidence.learner['name']} of {evidence.summary['facts']['training_file']}"


def _requirements(evidence: Evidence) -> list[str]:
    said = []
    for one in single_requirements(evidence.summary["requirement"]):
        met = "Requirement met" if one["met"] else "Requirement not met"
        said.append(f"{met}: {one['text']}, found {requirement_words(one)}")
    return [_bullets(said)] if said else []


def _against_rows(evidence: Evidence) -> list[str]:
    if not evidence.against_rows:
        return []
    also = evidence.summary["rows"]["also"]
    rows = [(f"{one.changes:,}", percent(float(one.share))) for one in evidence.against_rows]
    return [_table((also["problem"]["flips_name"], evidence.measure), rows)]


def _files(evidence: Evidence) -> list[tuple[str, str, str]]:
    listed = (*evidence.subjects, *evidence.data)
    return [(one.name, one.role, one.sha256 or one.note or "none") for one in listed]


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[escaped(cell) for cell in line] for line in (header, *rows)]
    lines.insert(1, ["---"] * len(header))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
