"""`flipproof compare`: several learners on the same rows, and the choice of one on trusted labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.data import DataOptions, data_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import MODEL, GroupedCommand, common_options, option
from flipproof.cli.talk import say
from flipproof.learners.names import LEARNERS

if TYPE_CHECKING:
    from flipproof.auditing.comparison import Comparison

FIGURE_SIZE = (6.4, 4.8)  # inches

EXAMPLES = """\b
Examples:
  flipproof compare --train train.csv --test test.csv --label spam \\
      --learner ridge --learner forest --flips 0,10,100
  flipproof compare --train train.csv --test test.csv --label spam \\
      --learner neighbors --learner forest \\
      --set neighbors:n_neighbors=0.05 --plot curves.png -o table.csv
  flipproof compare --train train.csv --test test.csv --label spam \\
      --trusted checked --select 20 --learner ridge --learner forest \\
      --set 'ridge:regularization=[1,100,10000]'
"""


def read_flips(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Parse numbers of flips, separated by commas."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise click.BadParameter(f"{text!r} must be numbers of changed labels, for example 0,10,100.")
    return tuple(map(int, parts))


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Compare learners on the same rows, or choose one.")
@data_options
@learner_options(tuple(LEARNERS), several=True)
@option(
    "--flips",
    group=MODEL,
    callback=read_flips,
    metavar="N,N,...",
    help="Numbers of changed labels in the table. Default: a few up to the largest radius.",
)
@option(
    "--select",
    group=MODEL,
    type=click.IntRange(min=0),
    metavar="FLIPS",
    help="Choose learner and parameters by certified accuracy at FLIPS, within the rows of --trusted only, so that "
    "certificates remain valid. The table then shows only the chosen learner.",
)
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the table, one line per learner (.parquet, .csv, .tsv, .json, .arrow or .feather).",
)
@option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw certified accuracy, one curve per learner (.png, .svg or .pdf).",
)
@common_options
def compare(
    learners: tuple[str, ...],
    flips: tuple[int, ...] | None,
    select: int | None,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
    **options: object,
) -> None:
    """Fit several learners to the same rows and compare their certified accuracy.

    The rows are read and encoded once. Prints certified accuracy at several numbers of changed labels, and below it the
    certified recall of the worst class. The test rows need labels.

    With several labels per item, both ways to use them are compared, unless --aggregate names one: each annotation
    votes, or the majority of each item.

    With --select, learner and parameters are chosen by cross-validation within the trusted rows: no other label is
    read, so an attacker cannot change the choice.
    """
    import pyarrow as pa

    from flipproof.auditing.learner_comparison import compare_learners, n_steps
    from flipproof.cli.output import check_table_and_plot, write_table_and_plot
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line

    data = DataOptions.taken_from(options)
    names = tuple(dict.fromkeys(learners)) or _all_that_take(data, options.get("window"), quiet)
    each = _model_options(names, options)
    data.check_test_rows()
    check_table_and_plot(out, plot, data.files)
    given = {**data.arguments(), **_without_learner(each[0])}
    with progress(n_steps(len(each), given, select), quiet) as step, warnings_in_a_line(quiet):
        result = compare_learners(
            **{**given, "verbose": int(not quiet)},
            learners=[one.learner for one in each],
            parameters={one.learner: one.parameters() for one in each},
            flips=flips,
            select=select,
            progress=step,
        )
        table, about = pa.table(result.columns()), result.facts()
        files = write_table_and_plot(table, about, result.plot, FIGURE_SIZE, out, plot)
    if as_json:
        print_data(json.dumps({**about, "models": table.to_pylist()}, indent=1, default=str))
        return
    _print(result, files)


def _all_that_take(data: DataOptions, window: object, quiet: bool) -> tuple[str, ...]:
    """Return the learners that take these options; say which are left out."""
    from flipproof.auditing.learner_comparison import usual_learners

    names, needs = usual_learners({"labels": data.labels, "annotators": data.annotators, "window": window})
    left_out = [name for name in LEARNERS if name not in names]
    if left_out and not quiet:
        say(f"Left out, because --{needs} needs a label-linear learner: {', '.join(left_out)}.")
    return names


def _without_learner(model: ModelOptions) -> dict[str, Any]:
    """Return the options that all learners share, as arguments."""
    return {name: value for name, value in model.arguments().items() if name not in ("learner", "parameters")}


def _model_options(names: Sequence[str], options: dict[str, object]) -> list[ModelOptions]:
    """Return the options of each learner; settings with a prefix are those of one learner."""
    common = ModelOptions.taken_from({**options, "learner": ""})
    for name in ModelOptions.__dataclass_fields__:
        options.pop(name, None)
    own: dict[str, list[str]] = {name: [] for name in names}
    for setting in common.settings:
        prefix, colon, rest = setting.partition(":")
        if colon and "=" not in prefix:
            if prefix not in own:
                raise ValueError(f"--set: {setting!r} must begin with one of the learners, {', '.join(own)}.")
            own[prefix].append(rest)
        else:
            for settings in own.values():
                settings.append(setting)
    return [replace(common, learner=name, settings=tuple(own[name])) for name in names]


def _print(result: Comparison, files: Sequence[Path]) -> None:
    from flipproof.cli.talk import data_console, print_paragraph
    from flipproof.readable import text_table

    console = data_console()
    if result.choice is not None:
        console.print(repr(result.selection), soft_wrap=True)
        console.print()
        print_paragraph(console, result.choice, "", style="bold")
        console.print()
    if result.trusted_only_is_best_from is not None:  # said first of all
        first, *notes = result.notes
        print_paragraph(console, first, indent="", style="bold")
        console.print()
    else:
        notes = list(result.notes)
    print_paragraph(console, result.headline, indent="", style="bold")
    console.print(text_table(*result.table()), soft_wrap=True)
    console.print()
    for note in notes:
        print_paragraph(console, note, indent="  - ")
    console.print("Assumptions:" if len(result.models) == 1 else "Assumptions of all:")
    for assumption in result.assumptions:
        print_paragraph(console, str(assumption), indent="  - ")
    for path in files:
        console.print(f"Written: {path}", soft_wrap=True)
