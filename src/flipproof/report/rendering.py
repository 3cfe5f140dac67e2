"""A report in the format given by a file ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from flipproof.errors import InputError, Parameter
from flipproof.readable import alternatives
from flipproof.runtime.files import write_whole

REPORT_ENDINGS = (".html", ".md", ".json")


def rendered(summary: Mapping[str, object], ending: str) -> str:
    """Return a report as the text of a file with this ending.

    Raises
    ------
    ValueError
        If there is no format with this ending.
    """
    if summary.get("kind") == "numbers" and ending in (".html", ".md"):
        from flipproof.report.interval_report import numbers_html, numbers_markdown

        return numbers_html(summary) if ending == ".html" else numbers_markdown(summary)
    if ending == ".html":
        from flipproof.report.html import render_html

        return render_html(summary)
    if ending == ".md":
        from flipproof.report.markdown import render_markdown

        return render_markdown(summary)
    if ending == ".json":
        from flipproof.report.as_json import to_json

        return to_json(summary)
    raise ValueError(f"A report file must end in {alternatives(REPORT_ENDINGS)}. Got {ending!r} instead.")


def save_report(summary: Callable[[], Mapping[str, object]], path: str | os.PathLike[str]) -> None:
    """Write a report to a file, in the format of its ending; `summary` returns the content."""
    file = Path(path)
    if file.suffix.lower() not in REPORT_ENDINGS:
        raise InputError(Parameter("path"), f": {str(file)!r} must end in {alternatives(REPORT_ENDINGS)}.")
    write_whole(file, rendered(summary(), file.suffix.lower()).encode())
