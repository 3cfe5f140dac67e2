"""`flipproof attack`: the labels or rows that would change a prediction, and the labels to check first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flipproof.cli.data import DataOptions, data_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import GroupedCommand, common_options, option, split_at_commas
from flipproof.learners.names import LABEL_LINEAR

if TYPE_CHECKING:
    from flipproof.auditing.found_attacks import FoundAttacks

EXAMPLES = """\b
Examples:
  flipproof attack --train train.csv --test test.csv --label spam --row 17
  flipproof attack --train train.csv --test test.csv --label spam \\
      --top 50 -o audit.csv
  flipproof attack --train reported.csv --test test.csv --label spam \\
      --reference checked.csv --changes rows --clip 0.9 -o rows.csv
"""


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Find the labels that would change a prediction.")
@data_options
@learner_options(LABEL_LINEAR)
@option(
    "--row",
    "rows",
    group="Attack",
    multiple=True,
    callback=split_at_commas,
    metavar="ROWS",
    help="Predictions to attack, by ids (with --id) or row numbers from 0, separated by commas. They must be among the "
    "test rows: all of --test, or those that --holdout drew. Repeatable.",
)
@option(
    "--max-flips",
    group="Attack",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --row: largest number of changes to try.",
)
@option(
    "--top",
    group="Attack",
    type=click.IntRange(min=1),
    default=20,
    metavar="N",
    help="Without --row: number of labels or annotators to list; with --changes rows, of predictions to attack, the "
    "most fragile first. Default: 20",
)
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the labels or rows, one per line (.parquet, .csv, .tsv, .json, .arrow or .feather).",
)
@common_options
def attack(
    rows: tuple[str, ...],
    max_flips: int | None,
    top: int,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **options: object,
) -> None:
    """Find the training labels, or rows, that would change a prediction.

    With --row: the smallest set of label changes that overturns each of these predictions, in the order of the attack.

    Without --row: the labels that are part of the most attacks on the 1,000 most fragile predictions. With --annotator
    or --annotators, these are annotators, unless --count annotations is given. A report has the same lists, and
    `flipproof plan` measures what checking labels buys.

    With --reference and --changes rows: the fewest rows to add, remove or replace, for the predictions of --row or the
    most fragile ones. Every attack is confirmed by a refit; -o writes the rows.
    """
    from flipproof.auditing.attack_search import find_attacks
    from flipproof.cli.output import TABLE_ENDINGS, check_file, table_content
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line
    from flipproof.fitting import FIT_STEPS
    from flipproof.runtime.files import write_whole

    data, model = DataOptions.taken_from(options), ModelOptions.taken_from(options)
    data.check_test_rows()
    check_file(out, TABLE_ENDINGS, data.files)
    with progress(FIT_STEPS + 1, quiet) as step, warnings_in_a_line(quiet):
        found = find_attacks(
            **{**data.arguments(), **model.arguments(), "verbose": int(not quiet)},
            rows=rows or None,
            top=top,
            max_changes=max_flips,
            progress=step,
        )
        content = table_content(found.to_arrow(), out.suffix.lower(), found.facts()) if out else b""
    if out is not None:
        write_whole(out, content)
    if as_json:
        print_data(table_content(found.to_arrow(), ".json", found.facts()).decode().rstrip("\n"))
        return
    _print(found)
    if out is not None:
        print_data(f"Written: {out}")


def _print(found: FoundAttacks) -> None:
    from flipproof.auditing.found_attacks import MOST_LINES
    from flipproof.cli.talk import data_console, print_paragraph, print_table
    from flipproof.report.text import TextTable

    console = data_console()
    for sentence in found.sentences:
        print_paragraph(console, sentence, indent="", style="bold")
    header, lines = found.lines()
    if not lines:
        return
    console.print()
    print_table(console, TextTable(tuple(header), tuple(map(tuple, lines[:MOST_LINES]))))
    if len(lines) > MOST_LINES:
        console.print(f"... and {len(lines) - MOST_LINES:,} more. Use -o FILE to write all.")
