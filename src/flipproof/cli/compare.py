"""`flipproof compare`: several learners on the same rows, and the choice of one on trusted labels."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.data import DataOptions, data_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import MODEL, GroupedCommand, common_options, option
from flipproof.cli.talk import say
from flipproof.learners.names import LABEL_LINEAR, LEARNERS

if TYPE_CHECKING:
    from flipproof.auditing.comparison import Comparison
    from flipproof.fitting import DataChoice, Fitted, ModelChoice
    from flipproof.learners.selection import TrustedSelection

FIGURE_SIZE = (6.4, 4.8)  # inches

#: What votes if items have several labels, in the names of lines.
VOTES = {"votes": "annotations vote", "majority": "majority first"}

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
    "certificates remain valid. The table then has the chosen one.",
)
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the table, one line per learner: .parquet, .csv, .tsv, .json, .arrow or .feather.",
)
@option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw certified accuracy, one curve per learner: .png, .svg or .pdf.",
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
    **options: Any,
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

    from flipproof.auditing.comparison import comparison_of
    from flipproof.cli.output import check_table_and_plot, write_table_and_plot
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line
    from flipproof.fitting import as_choices, comes_in_blocks, prepare
    from flipproof.fitting import select as select_learner
    from flipproof.learners.pipeline import certify

    data = DataOptions.taken_from(options)
    names = tuple(dict.fromkeys(learners)) or _all_that_take(data, options.get("window"), quiet)
    each = _model_options(names, options)
    if comes_in_blocks(data.train):
        raise ValueError(
            f"--train: {str(data.train)!r} must be a file: compare needs all training rows in memory, but folders and "
            "patterns are read in blocks."
        )
    data.check_test_rows()
    check_table_and_plot(out, plot, data.files)
    if select is None:
        _refuse_lists(each)
    ways = _ways(data, each[0], select)
    n_steps = 5 if select is not None else len(ways) * (2 + 2 * len(names))
    with progress(n_steps, quiet) as step, warnings_in_a_line(quiet):
        selection, entries, alone = None, [], {}

        def choices_of(way: str | None) -> tuple[DataChoice, list[ModelChoice]]:
            given = {**data.arguments(), "aggregate": way}
            pairs = [as_choices(**given, **one.arguments(), verbose=int(not quiet)) for one in each]
            return pairs[0][0], [choice for _, choice in pairs]

        def certified(fitted: Fitted, name: str) -> None:
            step(f"Certifying {len(fitted.test)} predictions of {name}")
            began = time.perf_counter()
            found = certify(fitted.model, fitted.X_test, None, fitted.adversary)
            entries.append((name, found, time.perf_counter() - began, fitted.seconds))
            alone[name] = fitted.trusted_only

        if select is not None:
            rows, choices = choices_of(ways[0])
            selection, fitted = select_learner(rows, choices, select, step)
            truth = _labels(fitted)
            certified(fitted, str(selection.best_learner))
        else:
            for way in ways:
                rows, choices = choices_of(way)
                prepared = prepare(rows, choices, step)
                for choice in choices:
                    fitted = prepared.fit(choice, step)
                    truth = _labels(fitted)
                    certified(fitted, choice.name if len(ways) == 1 else f"{choice.name}, {VOTES[str(way)]}")
        result = comparison_of(entries, truth, flips, trusted_only=alone)
        about = _about(result, selection)
        table = pa.table(result.columns())
        files = write_table_and_plot(table, about, result.plot, FIGURE_SIZE, out, plot)
    if as_json:
        print_data(json.dumps({**about, "models": table.to_pylist()}, indent=1, default=str))
        return
    _print(result, selection, files)


def _all_that_take(data: DataOptions, window: str | None, quiet: bool) -> tuple[str, ...]:
    """Return the learners that take these options; say which are left out.

    Only label-linear learners take several labels per item, and windows.
    """
    given = {"labels": data.labels, "annotators": data.annotators, "window": window}
    needs = next((name for name, value in given.items() if value), None)
    names = tuple(name for name in LEARNERS if needs is None or name in LABEL_LINEAR)
    left_out = [name for name in LEARNERS if name not in names]
    if left_out and not quiet:
        say(f"Left out, because --{needs} needs a label-linear learner: {', '.join(left_out)}.")
    return names


def _ways(data: DataOptions, model: ModelOptions, select: int | None) -> tuple[str | None, ...]:
    """Return what shall vote if items have several labels: both ways, unless one is given or only one is possible."""
    has_several = data.labels is not None or bool(data.annotators)
    if has_several and data.aggregate is None and select is None and not model.window:
        return tuple(VOTES)
    return (data.aggregate,)


def _model_options(names: Sequence[str], options: dict[str, Any]) -> list[ModelOptions]:
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


def _refuse_lists(each: Sequence[ModelOptions]) -> None:
    for one in each:
        for name, value in one.parameters().items():
            if isinstance(value, list):
                raise ValueError(f"--set: {one.learner}:{name} has several values, which requires --select FLIPS.")


def _labels(fitted: Fitted) -> Any:
    if fitted.test.labels is None:
        raise ValueError("compare needs test rows with labels: without them, there is no accuracy to compare.")
    return fitted.test.labels


def _about(result: Comparison, selection: TrustedSelection | None) -> dict[str, Any]:
    """Return what a table of models does not contain, in JSON types."""
    own = {name: [one.to_dict() for one in some] for name, some in result.own_assumptions.items()}
    about: dict[str, Any] = {
        "unit": result.unit,
        "flips": list(result.flips),
        "test_rows": len(result.y_true),
        "assumptions": [one.to_dict() for one in result.assumptions],
        "own_assumptions": own,
    }
    if selection is not None:
        about["selection"] = {
            "flips": selection.flips,
            "learner": selection.best_learner,
            "parameters": selection.best_params,
            "score": selection.best_score,
            "candidates": [
                {
                    "learner": one.learner,
                    "parameters": one.params,
                    "score": None if one.error else one.score,
                    "error": one.error,
                }
                for one in selection.ranking
            ],
        }
    return about


def _print(result: Comparison, selection: TrustedSelection | None, files: Sequence[Path]) -> None:
    from flipproof.cli.talk import data_console, print_paragraph

    console = data_console()
    if selection is not None:
        console.print(repr(selection), soft_wrap=True)
        chosen = ", ".join(f"{name}={value}" for name, value in selection.best_params.items())
        console.print()
        print_paragraph(console, f"Chosen: {selection.best_learner}" + f" ({chosen})" * bool(chosen), "", style="bold")
        console.print()
    if result.trusted_only_is_best_from is not None:  # said first of all
        first, *notes = result.notes
        print_paragraph(console, first, indent="", style="bold")
        console.print()
    else:
        notes = list(result.notes)
    headline, lines = result.headline, repr(result).splitlines()[1 : -len(result.notes)]
    print_paragraph(console, headline, indent="", style="bold")
    console.print("\n".join(lines), soft_wrap=True)
    console.print()
    for note in notes:
        print_paragraph(console, note, indent="  - ")
    console.print("Assumptions:" if len(result.models) == 1 else "Assumptions of all:")
    for assumption in result.assumptions:
        print_paragraph(console, str(assumption), indent="  - ")
    for path in files:
        console.print(f"Written: {path}", soft_wrap=True)
