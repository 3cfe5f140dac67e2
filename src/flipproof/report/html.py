"""A report as one self-contained HTML file: no network, no fonts, no images.

All data is escaped: by Jinja's autoescape in the page, and as JSON without ``<`` in the one block that the script
reads. As a second line of defence, the page's content security policy allows no other script to run.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from flipproof.displays import charts
from flipproof.readable import percent
from flipproof.report import facts
from flipproof.report.as_json import checksum
from flipproof.report.group_bounds import gap_table, group_table, group_words
from flipproof.runtime.files import digest_of

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATE = "report.html.j2"


def render_html(summary: Mapping[str, Any]) -> str:
    """Return a report as the text of one HTML file.

    Parameters
    ----------
    summary : mapping
        The result of :func:`flipproof.report.summary.summarize`.

    Returns
    -------
    str
        The page. It loads no other resource, is readable without scripts, and prints on A4.
    """
    environment = report_environment()
    from markupsafe import Markup

    style, script = (files("flipproof.report").joinpath("templates", name).read_text("utf-8") for name in _ASSETS)
    return environment.get_template(TEMPLATE).render(
        summary=summary,
        problem=summary["problem"],
        main=summary["methods"][0],
        requirements=[(one, facts.requirement_words(one)) for one in facts.single_requirements(summary["requirement"])],
        key_figures=facts.key_figures(summary),
        accuracy=facts.accuracy_table(summary),
        training_name=facts.training_name(summary["problem"]),
        against_rows=_against_rows(summary),
        trusted_only=summary.get("trusted_only"),  # missing in older reports
        random_errors=summary.get("random_errors"),  # missing in older reports
        rates=charts.rates_chart(summary.get("random_errors")),
        by_class=facts.class_table(summary),
        groups=_groups(summary),
        annotators=facts.annotator_table(summary),
        annotators_said=facts.annotators_said(summary) if facts.annotator_table(summary) else "",
        methods=facts.method_table(summary),
        assumptions=facts.numbered_assumptions(summary),
        content_note=facts.content_note(summary),
        shown=summary["shown"] or {"test": [], "training": []},
        curve=charts.curve_chart(summary),
        histogram=charts.histogram_chart(summary),
        data_facts=facts.data_facts(summary),
        provenance=facts.provenance_facts(summary),
        checksum=checksum(summary),
        slider=_slider_data(summary),
        style=Markup(style),  # files of this package, not data: no escaping
        script=Markup(script),
        script_hash=base64.b64encode(bytes.fromhex(digest_of(script))).decode(),
    )


def _against_rows(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the section about rows shows: its text, and figures of its own if the others are about labels."""
    about = summary.get("rows")  # missing in older reports
    if about is None:
        return None
    also = about["also"]
    if also is None:
        return {**about, "accuracy": None, "curve": None}
    return {**about, "accuracy": facts.accuracy_table(also), "curve": charts.curve_chart(also)}


def _groups(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the section about groups of test rows shows, if there are any."""
    found = summary.get("groups")
    if found is None:
        return None
    about, about_gaps = group_words(found)
    return {"about": about, "table": group_table(found), "about_gaps": about_gaps, "gaps": gap_table(found)}


_ASSETS = ("report.css", "report.js")


def _slider_data(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of the slider: counts at each number of flips."""
    classes = [
        {"name": str(row["class"]), "n": row["n"], "certified": row["certified"]}
        for row in summary["by_class"]["rows"]
        if row["certified"] is not None and row["n"]
    ]
    methods = [
        {"name": one["name"], "certified": one["certified"], "correct": one["correct_certified"]}
        for one in summary["methods"]
    ]
    named = ("n_test", "n_units", "counted", "unit", "flips_name")
    return {
        "flips": summary["flips"],
        "start": summary["headline"]["flips"] or 0,
        "methods": methods,
        "classes": classes,
        **{name: summary["problem"][name] for name in named},
    }


@cache
def report_environment() -> Environment:
    """Return the environment of templates, which escapes all data."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("HTML reports need jinja2: pip install 'flipproof[cli]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("flipproof.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent, changes=facts.changes_words, change=facts.change_words, content=facts.content_words
    )
    return environment
