"""`flipproof report`: convert a saved report to another format."""

from __future__ import annotations

from pathlib import Path

import click

from flipproof.cli.options import GroupedCommand, common_options, option

EXAMPLES = """\b
Examples:
  flipproof certify --train a.csv --test b.csv --label y --report saved.json
  flipproof report saved.json -o report.html
  flipproof report saved.json > report.md
"""


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Convert a saved report to another format.")
@click.argument("saved", type=click.Path(path_type=Path), metavar="SAVED.json")
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report (.html, .md or .json). Default: Markdown on stdout",
)
@common_options
def report(saved: Path, out: Path | None, as_json: bool, quiet: bool) -> None:
    """Convert a report saved by `flipproof certify --report saved.json`."""
    from flipproof.cli.output import check_file
    from flipproof.cli.talk import print_data
    from flipproof.report.as_json import from_json
    from flipproof.report.rendering import REPORT_ENDINGS, rendered
    from flipproof.runtime.files import write_whole
    from flipproof.tables.file_content import read_content

    check_file(out, REPORT_ENDINGS, (saved,))
    try:
        text = read_content(saved).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(saved)!r} is not a saved report: it is not text.") from error
    summary = from_json(text)
    if out is not None:
        write_whole(out, rendered(summary, out.suffix.lower()).encode())
    if as_json or out is None:
        print_data(rendered(summary, ".json" if as_json else ".md").rstrip("\n"))
    elif not quiet:
        print_data(f"Written: {out}")
