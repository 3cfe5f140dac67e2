"""Reports about certified intervals of numeric predictions: the summary, in JSON types, as Markdown and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.intervals import CertifiedIntervals
from flipproof.readable import percent, rounded, rounded_down, rounded_up
from flipproof.report import facts
from flipproof.report.as_json import FORMAT, VERSION, checksum, plain_value
from flipproof.report.html import report_environment
from flipproof.report.markdown import escaped, markdown_table
from flipproof.report.summary import software
from flipproof.report.text import TextTable

#: What marks a summary of numeric predictions.
KIND = "numbers"

TEMPLATE = "numbers.html.j2"

#: Number of most fragile test rows in a report, and of intervals in its picture.
MOST_ROWS, MOST_DRAWN = 50, 60

#: Largest number of coefficients in a report.
MOST_COEFFICIENTS = 200

#: Changes that void every certificate of this kind.
VOIDS = (
    "Changed training features, added or removed rows, and changed test rows.",
    "Targets beyond the target range, or moved farther than assumed.",
    "Parameters that were chosen by looking at the training targets.",
)


def summarize_numbers(
    found: CertifiedIntervals,
    *,
    y_true: NDArray[np.float64] | None,
    means: CertifiedIntervals | None,
    gaps: CertifiedIntervals | None,
    coefficients: CertifiedIntervals | None,
    requirement: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
    title: str | None,
) -> dict[str, Any]:
    """Return the content of a report, in JSON types only."""
    asked = list(np.atleast_1d(found.flips).tolist())
    # more than all that can be changed are shown as all
    places = {min(one, found.n_touchable): place for place, one in enumerate(asked)}
    flips = list(places)
    low, high = (one.reshape(len(found), -1)[:, list(places.values())] for one in (found.low, found.high))
    shift = np.maximum(high - found.prediction[:, None], found.prediction[:, None] - low)
    table = [
        {
            "flips": number,
            "median_width": float(np.median(high[:, place] - low[:, place])),
            "median_shift": float(np.median(shift[:, place])),
            "largest_shift": float(shift[:, place].max()),
            "certified": None if found.radius is None else int(np.count_nonzero(found.certified_at(number))),
        }
        for place, number in enumerate(flips)
    ]
    order = np.argsort(-shift[:, -1] if found.radius is None else found.radius, kind="stable")[:MOST_ROWS]
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": KIND,
        "title": title or "Report on numeric predictions",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "problem": {
            "n_train": found.n_train,
            "n_test": len(found),
            "n_units": found.n_touchable,
            "unit": found.unit,
            "target_range": list(found.target_range),
            "tolerance": found.tolerance,
            "threshold": found.threshold,
            "truth_known": y_true is not None,
            **_errors(found.prediction, y_true),
        },
        "flips": flips,
        "headline": _headline(found, table),
        "table": table,
        "predictions": [_line(found, low, high, row, y_true) for row in order.tolist()],
        "means": None if means is None else _lines(means, list(places.values())),
        "gaps": None if gaps is None else _lines(gaps, list(places.values())),
        "coefficients": None if coefficients is None else _coefficients(coefficients, list(places.values())),
        "requirement": list(requirement),
        "assumptions": [{"code": one.code, "sentence": str(one)} for one in found.assumptions],
        "voids": list(VOIDS),
        "facts": plain_value(dict(facts)),
        "software": software(),
    }


def _errors(prediction: NDArray[np.float64], y_true: NDArray[np.float64] | None) -> dict[str, Any]:
    if y_true is None:
        return {"mean_absolute_error": None, "r2": None}
    left = float(((y_true - prediction) ** 2).sum())
    total = float(((y_true - y_true.mean()) ** 2).sum())
    return {
        "mean_absolute_error": float(np.abs(y_true - prediction).mean()),
        "r2": 1 - left / total if total > 0 else None,
    }


def _what(found: CertifiedIntervals) -> str:
    return "training targets" if found.unit == "targets" else "annotators"


def _headline(found: CertifiedIntervals, table: Sequence[Mapping[str, Any]]) -> str:
    one = table[min(1, len(table) - 1)]
    changed = f"any {one['flips']:,} of {found.n_touchable:,} {_what(found)}"
    verb = "are changed" if found.unit == "targets" else "are malicious"
    if found.tolerance is not None:
        share = percent((one["certified"] or 0) / max(len(found), 1))
        return f"Even if {changed} {verb}, {share} of predictions move by at most {found.tolerance:,.15g}."
    if found.threshold is not None:
        share = percent((one["certified"] or 0) / max(len(found), 1))
        side = f"stay on their side of {found.threshold:,.15g}"
        return f"Even if {changed} {verb}, {share} of predictions {side}."
    return f"If {changed} {verb}, half of the predictions move by at most {rounded_up(one['median_shift'])}."


def _line(found: CertifiedIntervals, low: Any, high: Any, row: int, y_true: Any) -> dict[str, Any]:
    truth = {} if y_true is None else {"true": float(y_true[row])}
    radius = {} if found.radius is None else {"radius": int(found.radius[row])}
    return {
        "id": plain_value(found.ids[row]),
        "prediction": float(found.prediction[row]),
        **truth,
        "low": low[row].tolist(),
        "high": high[row].tolist(),
        **radius,
    }


def _lines(found: CertifiedIntervals, places: list[int]) -> list[dict[str, Any]]:
    low, high = (one.reshape(len(found), -1)[:, places] for one in (found.low, found.high))
    return [_line(found, low, high, row, None) for row in range(len(found))]


def _coefficients(found: CertifiedIntervals, places: list[int]) -> list[dict[str, Any]]:
    """Return coefficients, and the fewest changes after which each no longer has its sign; None if none do."""
    lines = _lines(found, places)
    assert found.radius is not None
    assert found.unlimited is not None
    turned = np.where(found.prediction == 0, 0, found.radius + 1).tolist()
    keeps = found.unlimited.tolist()
    return [
        {**line, "sign_turned_by": None if kept else number}
        for line, number, kept in zip(lines, turned, keeps, strict=True)
    ]


def coefficient_table(lines: Sequence[Mapping[str, Any]], flips: Sequence[int]) -> TextTable:
    """Return coefficients with their intervals, and the number of changes that turns their sign."""
    table = line_table(lines[:MOST_COEFFICIENTS], flips, "column")
    heads = ("column", "coefficient", *table.header[2:-1], "sign turned by")
    turned = ("none" if one["sign_turned_by"] is None else f"{one['sign_turned_by']:,}" for one in lines)
    return TextTable(heads, tuple((*row[:-1], last) for row, last in zip(table.rows, turned, strict=False)))


def interval_table(summary: Mapping[str, Any]) -> TextTable:
    """Return how far predictions move at each number of changes."""
    problem = summary["problem"]
    heads = ["malicious annotators" if problem["unit"] == "annotators" else "changed targets"]
    heads += ["median width", "median move", "largest move"]
    certified = summary["table"][0]["certified"] is not None
    if problem["tolerance"] is not None:
        heads.append(f"move at most {problem['tolerance']:,.15g}")
    elif certified:
        heads.append(f"same side of {problem['threshold']:,.15g}")
    rows = []
    for one in summary["table"]:
        moves = ("median_width", "median_shift", "largest_shift")
        cells = [f"{one['flips']:,}", *(rounded_up(one[name]) for name in moves)]
        rows.append((*cells, *([percent(one["certified"] / problem["n_test"])] if certified else [])))
    return TextTable(tuple(heads), tuple(rows))


def line_table(lines: Sequence[Mapping[str, Any]], flips: Sequence[int], name: str) -> TextTable:
    """Return predictions, means or gaps with their intervals."""
    first = lines[0]
    place = min(1, len(flips) - 1)
    heads = [name, "value", *(["true"] if "true" in first else []), f"low at {flips[place]:,}"]
    heads += [f"high at {flips[place]:,}", *(["radius"] if "radius" in first else [])]
    rows = []
    for one in lines:
        truth = [rounded(one["true"])] if "true" in one else []
        radius = [f"{one['radius']:,}"] if "radius" in one else []
        ends = [rounded_down(one["low"][place]), rounded_up(one["high"][place])]
        rows.append((str(one["id"]), rounded(one["prediction"]), *truth, *ends, *radius))
    return TextTable(tuple(heads), tuple(rows))


def sections(summary: Mapping[str, Any]) -> list[tuple[str, str, TextTable]]:
    """Return the tables of a report with their titles and a line about each; empty ones are left out."""
    found = [("How far predictions can move", "Both ends of each interval are attained.", interval_table(summary))]
    flips = summary["flips"]
    if summary["means"]:
        text = "The mean prediction of the test rows of each group, exact."
        found.append(("Means of groups", text, line_table(summary["means"], flips, "group")))
    if summary["gaps"]:
        text = "The mean prediction of the first group minus that of the second, exact."
        found.append(("Gaps between groups", text, line_table(summary["gaps"], flips, "gap")))
    if summary.get("coefficients"):
        text = (
            "Units of the target per unit of the column. For words and marks of missing values: rows with it compared "
        )
        text += "with rows without it. Also the smallest number of changes that can reverse the sign of a coefficient."
        n_lines = len(summary["coefficients"])
        text += f" These are the first {MOST_COEFFICIENTS} of {n_lines:,}." if n_lines > MOST_COEFFICIENTS else ""
        found.append(("Coefficients", text, coefficient_table(summary["coefficients"], flips)))
    if summary["predictions"]:
        order = "smallest radius" if "radius" in summary["predictions"][0] else "largest move"
        text = f"At most {MOST_ROWS} test rows, the {order} first."
        found.append(("Most fragile predictions", text, line_table(summary["predictions"], flips, "test row")))
    return found


def numbers_markdown(summary: Mapping[str, Any]) -> str:
    """Return a report as the text of a Markdown file."""
    problem = summary["problem"]
    blocks = [f"# {escaped(summary['title'])}"]
    blocks += [
        f"**{'Met' if one['met'] else 'NOT MET'}:** {escaped(one['text'])}, found {percent(one['found'])}"
        for one in summary["requirement"]
    ]
    low, high = map(rounded, problem["target_range"])
    sizes = f"{problem['n_train']:,} training rows, {problem['n_test']:,} test rows, targets from {low} to {high}."
    blocks += [f"**{escaped(summary['headline'])}**", sizes, escaped(accuracy_words(summary))]
    for title, text, table in sections(summary):
        blocks += [f"## {title}", text, markdown_table(table)]
    blocks += ["## Assumptions", "\n".join(f"- {escaped(one['sentence'])}" for one in summary["assumptions"])]
    blocks += ["What voids the certificates:", "\n".join(f"- {one}" for one in summary["voids"])]
    blocks += ["## Versions and checksums"]
    rows = [row for table in facts.provenance_facts(summary) for row in table.rows]
    blocks += ["\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in rows)]
    blocks += [f"SHA-256 of the summary: {checksum(summary)}"]
    return "\n\n".join(block for block in blocks if block) + "\n"


def accuracy_words(summary: Mapping[str, Any]) -> str:
    """Return a sentence about the errors of the predictions, if the truth is known."""
    problem = summary["problem"]
    if not problem["truth_known"]:
        return ""
    r2 = "" if problem["r2"] is None else f", R² {problem['r2']:.3f}"
    return f"Without changes: mean absolute error {rounded(problem['mean_absolute_error'])}{r2}."


def numbers_html(summary: Mapping[str, Any]) -> str:
    """Return a report as the text of one HTML file, which loads nothing else."""
    from markupsafe import Markup

    environment = report_environment()
    style = files("flipproof.report").joinpath("templates", "report.css").read_text("utf-8")
    return environment.get_template(TEMPLATE).render(
        summary=summary,
        problem=summary["problem"],
        sections=sections(summary),
        accuracy=accuracy_words(summary),
        bars=_bars(summary),
        range_words=[rounded(one) for one in summary["problem"]["target_range"]],
        data_facts=facts.data_facts(summary),
        provenance=facts.provenance_facts(summary),
        checksum=checksum(summary),
        style=Markup(style),  # a file of this package, not data: no escaping
        percent=percent,
    )


def _bars(summary: Mapping[str, Any]) -> list[dict[str, float | str]]:
    """Return the intervals of the most fragile predictions as places from 0 to 100 on the target range."""
    low, high = summary["problem"]["target_range"]
    place = min(1, len(summary["flips"]) - 1)

    def at(value: float) -> float:
        return float(np.clip(100 * (value - low) / (high - low), 0, 100))

    return [
        {
            "says": f"{one['id']}: {rounded(one['prediction'])}, from {rounded_down(one['low'][place])} to "
            f"{rounded_up(one['high'][place])}",
            "from": at(one["low"][place]),
            "to": at(one["high"][place]),
            "at": at(one["prediction"]),
        }
        for one in summary["predictions"][:MOST_DRAWN]
    ]
