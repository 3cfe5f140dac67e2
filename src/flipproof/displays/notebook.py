"""The view of certificates in notebooks: curve, histogram, the most fragile rows, and what to call next.

It is one piece of HTML without scripts and style sheets, so that all notebooks show it. Text and axes have the colour
of the notebook's own text, on light and dark backgrounds.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

import numpy as np

from flipproof import metrics
from flipproof.certificate_words import COUNTED_UNITS, flips_name
from flipproof.certificates import Certificates
from flipproof.displays.charts import SIDE, Chart, curve_chart, histogram_chart
from flipproof.readable import significant

#: Number of rows in the table of fragile predictions.
FRAGILE_ROWS = 5

#: Size of a chart and of the margins for its axes, in pixels.
WIDTH, HEIGHT = 380, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 40

#: Colours that differ in hue and lightness, and are visible on white and on black.
LINE_COLOURS = {"m0": "#3b8bd1", "certified": "#999999", "clean": "#999999"}
LINE_STYLES = {"clean": "6 4", "constant": "2 3"}
BAR_COLOURS = {"all": "#3b8bd1", "right": "#3b8bd1", "wrong": "#e07020"}


def notebook_view(certificates: Certificates, y_true: object = None) -> str:
    """Return certificates as HTML for a notebook.

    Parameters
    ----------
    certificates : Certificates
        What `certify` returned.
    y_true : array or Series of shape (m,), optional
        The true classes of the test rows, to tell right predictions from wrong ones.

    Returns
    -------
    str
        HTML. Notebooks call this function for certificates and reports.

    See Also
    --------
    flipproof.Certificates : One certificate per test row.

    Examples
    --------
    >>> import flipproof
    >>> model = flipproof.CertifiedNeighborsClassifier(2).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> page = flipproof.notebook_view(model.certify([[0.1], [2.9]]), y_true=[0, 1])
    >>> page.count("<svg") > 2
    True
    """
    truth = None if y_true is None else certificates.true_classes(y_true)
    parts = [f"<p>{html.escape(repr(certificates))}</p>"]
    if len(certificates):
        parts += [_charts(certificates, truth), _fragile_table(certificates, truth)]
    rests = "".join(f"<li>{html.escape(str(one))}</li>" for one in certificates.assumptions)
    parts.append(f"<details><summary>Assumptions ({len(certificates.assumptions)})</summary><ul>{rests}</ul></details>")
    if len(certificates):
        parts.append(_next_calls(certificates))
    return f'<div style="max-width: 64em">{"".join(parts)}</div>'


def _charts(certificates: Certificates, truth: object) -> str:
    facts = _facts(certificates, truth)
    name = flips_name(certificates)
    curve, bars = curve_chart(facts), histogram_chart(facts)
    known = truth is not None
    kinds = {"right": "correct", "wrong": "wrong"} if known else {}
    drawn = (
        _figure("Correct and certified" if known else "Certified predictions", _lines(curve), curve, name)
        + _legend([(_line_sample(line.kind), line.name) for line in curve.lines] if known else []),
        _figure("Predictions by radius", _bars(bars), bars, f"radius ({name})")
        + _legend([(_bar_sample(kind), says) for kind, says in kinds.items()]),
    )
    boxes = "".join(f"<div>{one}</div>" for one in drawn)
    return f'<div style="display: flex; flex-wrap: wrap; gap: 1em">{boxes}</div>'


def _facts(certificates: Certificates, truth: Any) -> dict[str, Any]:
    """Return what the charts show, with the entries of a report's summary."""
    correct = None if truth is None else np.asarray(truth == certificates.prediction)
    flips = metrics.curve_flips([certificates])
    return {
        "problem": {
            "n_test": len(certificates),
            "truth_known": truth is not None,
            "constant_accuracy": None if truth is None else metrics.constant_accuracy(truth),
            "counted": certificates.unit in COUNTED_UNITS,
            "n_units": int(certificates.n_units),
        },
        "flips": flips,
        "methods": [
            {
                "name": certificates.method,
                "certified": metrics.n_certified(certificates, flips),
                "correct_certified": None if correct is None else metrics.n_certified(certificates, flips, correct),
                "n_correct": None if correct is None else int(np.count_nonzero(correct)),
            }
        ],
        "radii": metrics.histogram(certificates, correct),
    }


def _figure(title: str, content: str, chart: Chart, x_name: str) -> str:
    """Return a chart with its axes: the content is stretched, the text is not."""
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    text = 'fill="currentColor" font-size="11" font-family="sans-serif"'
    marks = []
    for tick in chart.y_ticks:
        y = TOP + height * (1 - tick.at / 100)
        marks.append(f'<path d="M{LEFT},{y:.1f}h{width}" stroke="currentColor" stroke-opacity="0.15"/>')
        marks.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" {text}>{html.escape(tick.says)}</text>')
    for tick in chart.x_ticks:
        x, y = LEFT + width * tick.at / 100, TOP + height + 15
        marks.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle" {text}>{html.escape(tick.says)}</text>')
    middle, below = LEFT + width / 2, HEIGHT - 6
    marks.append(f'<text x="{middle}" y="{below}" text-anchor="middle" {text}>{html.escape(x_name)}</text>')
    inner = (
        f'<svg x="{LEFT}" y="{TOP}" width="{width}" height="{height}" viewBox="0 0 {SIDE} {SIDE}" '
        f'preserveAspectRatio="none">{content}</svg>'
    )
    image = f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{html.escape(title)}">'
    caption = f'<figcaption style="font-weight: bold">{html.escape(title)}</figcaption>'
    return f'<figure style="margin: 0">{caption}{image}{"".join(marks)}{inner}</svg></figure>'


def _lines(chart: Chart) -> str:
    return "".join(
        f'<path d="{line.path}" fill="none" stroke="{LINE_COLOURS.get(line.kind, "currentColor")}" '
        f'stroke-width="{2 if line.kind == "m0" else 1.5}" stroke-dasharray="{LINE_STYLES.get(line.kind, "")}" '
        f'vector-effect="non-scaling-stroke"><title>{html.escape(line.name)}</title></path>'
        for line in reversed(chart.lines)
    )


def _legend(entries: list[tuple[str, str]]) -> str:
    return "".join(f"<div>{sample} <small>{html.escape(says)}</small></div>" for sample, says in entries)


def _line_sample(kind: str) -> str:
    stroke = f'stroke="{LINE_COLOURS.get(kind, "currentColor")}" stroke-dasharray="{LINE_STYLES.get(kind, "")}"'
    return f'<svg width="30" height="10"><path d="M0,5H30" fill="none" stroke-width="2" {stroke}/></svg>'


def _bar_sample(kind: str) -> str:
    return f'<svg width="30" height="10"><rect width="12" height="10" fill="{BAR_COLOURS[kind]}"/></svg>'


def _bars(chart: Chart) -> str:
    return "".join(
        f"<g>{''.join(_rectangle(bar.x, bar.width, *part) for part in bar.parts)}"
        f"<title>{html.escape(bar.says)}</title></g>"
        for bar in chart.bars
    )


def _rectangle(x: float, width: float, kind: str, y: float, height: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{BAR_COLOURS[kind]}"/>'


def _fragile_table(certificates: Certificates, truth: Any) -> str:
    order = certificates.fragile_order()[:FRAGILE_ROWS]
    fragile = certificates[order]
    heads = ["test row", "prediction", f"radius ({certificates.unit})", "rival class"]
    columns: list[Iterable[Any]] = [
        fragile.ids,
        fragile.prediction,
        [_radius_text(fragile, row) for row in range(len(fragile))],
        np.where(fragile.may_be_larger, "not computed", fragile.rival.astype(object)),
    ]
    if truth is not None:
        heads.append("true class")
        columns.append(truth[order])
    lines = zip(*columns, strict=True)
    body = "".join(f"<tr>{_cells(line, 'td')}</tr>" for line in lines)
    caption = '<caption style="text-align: left; font-weight: bold">Most fragile predictions</caption>'
    head = f"<thead><tr>{_cells(heads, 'th')}</tr></thead>"
    return f'<table style="border-spacing: 1em 0.2em">{caption}{head}<tbody>{body}</tbody></table>'


def _radius_text(certificates: Certificates, row: int) -> str:
    if certificates.abstained[row]:
        return "abstained"
    radius = certificates.radius[row]
    text = str(radius) if certificates.unit in COUNTED_UNITS else significant(radius)
    return f"{text} or more" if certificates.may_be_larger[row] else text


def _next_calls(certificates: Certificates) -> str:
    """Name the calls that lead on from here."""
    name = certificates.id_at(int(certificates.fragile_order()[0]))
    calls = [
        (f"certificates.explain({name!r}, X_train=X_train)", "the smallest attack on the first of these predictions"),
        ("certificates.to_frame(y_test)", "all certificates as a data frame"),
        ('model.report(X_test, y_test).save("report.html")', "a report"),
    ]
    shown = "".join(f"<li><code>{html.escape(call)}</code>: {html.escape(says)}</li>" for call, says in calls)
    return f"<p>Next:</p><ul>{shown}</ul>"


def _cells(texts: Iterable[Any], tag: str) -> str:
    return "".join(f"<{tag}>{html.escape(str(text))}</{tag}>" for text in texts)
