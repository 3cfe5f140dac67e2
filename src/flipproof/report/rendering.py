"""A report in the format given by a file ending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REPORT_ENDINGS = (".html", ".md", ".json")


def rendered(summary: Mapping[str, Any], ending: str) -> str:
    """Return a report as the text of a file with this ending.

    Raises
    ------
    ValueError
        If there is no format with this ending.
    """
    if ending == ".html":
        from flipproof.report.html import render_html

        return render_html(summary)
    if ending == ".md":
        from flipproof.report.markdown import render_markdown

        return render_markdown(summary)
    if ending == ".json":
        from flipproof.report.summary import to_json

        return to_json(summary)
    raise ValueError(f"A report file must end in {', '.join(REPORT_ENDINGS)}. Got {ending!r} instead.")
