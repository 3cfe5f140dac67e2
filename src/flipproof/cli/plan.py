"""`flipproof plan`: what checking N training labels would buy, and the cheapest way to a target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flipproof.cli import EXIT_REQUIREMENT
from flipproof.cli.compare import read_flips
from flipproof.cli.data import DataOptions, data_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import REQUIREMENT, GroupedCommand, common_options, in_words_of_options, option
from flipproof.cli.requirement import min_certified_accuracy
from flipproof.errors import InputError
from flipproof.learners.names import LABEL_LINEAR

if TYPE_CHECKING:
    from flipproof.attacks.plan_result import AuditPlan
    from flipproof.requirements import Requirement

PLAN = "Plan"

FIGURE_SIZE = (7.5, 4.8)  # inches

#: Default numbers of checked labels.
BUDGET = (50, 100, 200)

EXAMPLES = """\b
Examples:
  flipproof plan --train train.csv --test test.csv --label spam
  flipproof plan --train train.csv --test test.csv --label spam \\
      --learner forest --budget 50,100,200 --flips 0,20,100 \\
      --reach 0.9@20 --error-rate 0.05 --plot plan.png -o plan.csv
"""


def read_budget(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Parse numbers of checked labels, separated by commas."""
    if text is None:
        return BUDGET
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise click.BadParameter(f"{text!r} must be numbers of labels to check, for example 50,100,200.")
    return tuple(map(int, parts))


def read_reach(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Requirement | None:
    """Parse ACCURACY@FLIPS."""
    return None if text is None else min_certified_accuracy(text)


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Plan which labels to check, and what that buys.")
@data_options
@learner_options(LABEL_LINEAR)
@option(
    "--budget",
    group=PLAN,
    callback=read_budget,
    metavar="N,N,...",
    help="Numbers of labels to check. Default: 50,100,200",
)
@option(
    "--flips",
    group=PLAN,
    callback=read_flips,
    metavar="N,N,...",
    help="Numbers of changed labels in the table. Default: 0,10,20,50,100",
)
@option(
    "--error-rate",
    group=PLAN,
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    metavar="P",
    help="Share of the checked labels that the check gets wrong. Default: 0",
)
@option(
    "--reach",
    group=REQUIREMENT,
    callback=read_reach,
    metavar="ACCURACY@FLIPS",
    help="Find the way that needs the fewest checks to reach this certified accuracy at FLIPS. Exit with 1 if there is "
    "none.",
)
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the table, one line per way (.parquet, .csv, .tsv, .json, .arrow or .feather).",
)
@option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw certified accuracy by the number of checked labels (.png, .svg or .pdf).",
)
@common_options
def plan(
    budget: tuple[int, ...],
    flips: tuple[int, ...] | None,
    error_rate: float,
    reach: Requirement | None,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
    **options: object,
) -> int:
    """Simulate what checking N training labels buys, before you check any.

    For each budget, labels are chosen because attacks use them most, at random, or by diverse features. Checked labels
    are used as trusted votes, as a prior, to grow trees (--learner forest), or alone. The result of a check is assumed
    to be the label that is given now, except for --error-rate.

    Labels of --trusted are trusted already; budgets count others. --prior is fitted to checked labels; default: forest.

    Exit codes: 0 success; 1 --reach cannot be reached; 2 wrong usage or input.
    """
    import pyarrow as pa

    from flipproof.auditing.check_plan import plan_checks, refuse_unplanned
    from flipproof.cli.output import check_table_and_plot, write_table_and_plot
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line
    from flipproof.fitting import FIT_STEPS

    data, model = DataOptions.taken_from(options), ModelOptions.taken_from(options)
    given = {**data.arguments(), **model.arguments(), "verbose": int(not quiet)}
    try:
        refuse_unplanned(given)
    except InputError as error:
        raise click.UsageError(in_words_of_options(error)) from error
    data.check_test_rows()
    check_table_and_plot(out, plot, data.files)
    with progress(FIT_STEPS + 1, quiet) as step, warnings_in_a_line(quiet):
        found = plan_checks(**given, budget=budget, flips=flips, reach=reach, error_rate=error_rate, progress=step)
        about, table = found.facts(), pa.table(found.columns())
        at, share = (None, None) if reach is None else (reach.flips, reach.share)
        files = write_table_and_plot(table, about, lambda ax: found.plot(at, ax, share), FIGURE_SIZE, out, plot)
    if as_json:
        print_data(json.dumps({**about, "ways": table.to_pylist()}, indent=1))
    else:
        _print(found, files)
    return EXIT_REQUIREMENT if found.reached is False else 0


def _print(found: AuditPlan, files: Sequence[Path]) -> None:
    """Print the answer, the table and the notes."""
    from flipproof.cli.talk import data_console, print_paragraph, print_table
    from flipproof.report.text import TextTable

    console = data_console()
    if found.answer is not None:
        print_paragraph(console, found.answer, indent="", style="bold")
        console.print()
    console.print(found.headline)
    console.print()
    header, lines = found.table()
    print_table(console, TextTable(tuple(header), tuple(map(tuple, lines))))
    console.print()
    for note in found.notes:
        print_paragraph(console, note, indent="  - ")
    for path in files:
        console.print(f"Written: {path}", soft_wrap=True)
