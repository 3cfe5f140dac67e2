"""`flipproof plan`: what checking N training labels would buy, and the cheapest way to a target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli import EXIT_REQUIREMENT
from flipproof.cli.compare import read_flips
from flipproof.cli.data import DataOptions, data_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import REQUIREMENT, GroupedCommand, common_options, option
from flipproof.cli.requirement import min_certified_accuracy
from flipproof.learners.names import LABEL_LINEAR

if TYPE_CHECKING:
    from flipproof.attacks.audit_plan import AuditPlan, PlannedCheck
    from flipproof.requirements import Requirement

PLAN = "Plan"

FIGURE_SIZE = (7.5, 4.8)  # inches

#: Default numbers of checked labels.
BUDGET = (50, 100, 200)

#: Options of the adversary that a plan does not simulate.
NOT_PLANNED = ("annotator", "window", "length", "allow")

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
    help="Name the way with the fewest checks to this certified accuracy at FLIPS; exit with 1 if there is none.",
)
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the table, one line per way: .parquet, .csv, .tsv, .json, .arrow or .feather.",
)
@option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw certified accuracy by the number of checked labels: .png, .svg or .pdf.",
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
    **options: Any,
) -> int:
    """Simulate what checking N training labels buys, before you check any.

    For each budget, labels are chosen because attacks use them most, at random, or by diverse features. Checked labels
    are used as trusted votes, as a prior, to grow trees (--learner forest), or alone. The result of a check is assumed
    to be the label that is given now, except for --error-rate.

    Labels of --trusted are trusted already; budgets count others. --prior is fitted to checked labels; default: forest.

    Exit codes: 0 success; 1 --reach cannot be reached; 2 wrong usage or input.
    """
    import pyarrow as pa

    from flipproof.attacks.audit_plan import FLIPS, plan_audit
    from flipproof.cli.output import check_table_and_plot, write_table_and_plot
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line
    from flipproof.fitting import FIT_STEPS, as_choices, prepare
    from flipproof.fitting.trust import PRIORS

    data, model = DataOptions.taken_from(options), ModelOptions.taken_from(options)
    _check(data, model)
    check_table_and_plot(out, plot, data.files)
    columns = FLIPS if flips is None else flips
    if reach is not None:
        columns = tuple(sorted({*columns, reach.flips}))
    prior, weight = model.prior, 1.0 if model.prior_weight is None else model.prior_weight
    with progress(FIT_STEPS + 1, quiet) as step, warnings_in_a_line(quiet):
        own = replace(model, prior=None, prior_weight=None)
        rows, choice = as_choices(**data.arguments(), **own.arguments(), verbose=int(not quiet))
        prepared = prepare(rows, [choice], step)
        fitted = prepared.fit(choice, step)
        if reach is not None and fitted.test.labels is None:
            raise ValueError("--reach requires test rows with labels: without them, there is no accuracy.")
        trained = prepared.with_trust(fitted)
        step(f"Simulating checks of {', '.join(f'{one:,}' for one in sorted(set(budget)))} labels")
        found = plan_audit(
            trained,
            fitted.X_test,
            fitted.test.labels,
            budget,
            X=prepared.encoded.train,
            y=prepared.labels,
            flips=columns,
            prior=None if prior is None else PRIORS[prior](),
            prior_weight=weight,
            error_rate=error_rate,
            random_state=data.seed,
            verbose=int(not quiet),
        )
        best = None if reach is None else found.cheapest(reach.share, reach.flips)
        about = _about(found, reach, best)
        table, (at, target) = pa.table(found.columns()), (None, None) if reach is None else (reach.flips, reach.share)
        files = write_table_and_plot(table, about, lambda ax: found.plot(at, ax, target), FIGURE_SIZE, out, plot)
    if as_json:
        print_data(json.dumps({**about, "ways": table.to_pylist()}, indent=1))
    else:
        _print(found, about["sentences"], files, at)
    return EXIT_REQUIREMENT if about.get("reached") is False else 0


def _check(data: DataOptions, model: ModelOptions) -> None:
    """Raise an error for options that a plan does not simulate."""
    from flipproof.fitting import comes_in_blocks

    if comes_in_blocks(data.train):
        raise ValueError(
            f"--train: {str(data.train)!r} must be a file: a plan needs all training rows in memory, but folders and "
            "patterns are read in blocks."
        )
    if model.changes != "labels" or data.reference is not None:
        given = "--reference" if model.changes == "labels" else f"--changes {model.changes}"
        raise click.UsageError(f"{given} cannot be combined with plan, which is about changed labels.")
    for name in NOT_PLANNED:
        if getattr(model, name):
            raise click.UsageError(f"--{name} cannot be combined with plan: it counts single labels, changed to any.")
    data.check_test_rows()


def _about(found: AuditPlan, reach: Requirement | None, best: PlannedCheck | None) -> dict[str, Any]:
    """Return what the table does not contain, in JSON types."""
    about: dict[str, Any] = {
        "flips": list(found.flips),
        "error_rate": found.error_rate,
        "n_trusted": found.n_trusted,
        "sentences": [],
    }
    if reach is not None:
        at = found.flips.index(reach.flips)
        is_met_now = found.before[at] >= reach.share
        about |= {"reach": [reach.share, reach.flips], "reached": is_met_now or best is not None}
        about["cheapest"] = None if is_met_now or best is None else _way(best)
        about["sentences"].append(_reach_sentence(found, reach, best, at))
    about["sentences"] += _notes(found)
    return about


def _way(one: PlannedCheck) -> dict[str, Any]:
    return {"n_checked": one.n_checked, "chosen": one.chosen, "used": one.used, "certified": list(one.certified)}


def _reach_sentence(found: AuditPlan, reach: Requirement, best: PlannedCheck | None, at: int) -> str:
    """Say which way reaches the target with the fewest checks, or how close the best comes."""
    from flipproof.attacks.audit_plan import CHOSEN, USED
    from flipproof.readable import percent

    target = f"{percent(reach.share)} at {reach.flips:,} changed labels"
    if found.before[at] >= reach.share:
        return f"Certified accuracy is {percent(found.before[at])} without any check: {target} needs none."
    if best is not None and not best.n_checked:
        return (
            f"No check is needed for {target}: the {found.n_trusted:,} labels that are trusted already reach "
            f"{percent(best.certified[at])} as {USED[best.used]} ({best.used})."
        )
    if best is not None:
        return (
            f"The fewest checks that reach {target}: {best.n_checked:,} labels, {CHOSEN[best.chosen]} ({best.chosen}), "
            f"as {USED[best.used]} ({best.used}): {percent(best.certified[at])}."
        )
    closest = max(found.checks, key=lambda one: one.certified[at])
    if not closest.n_checked:
        return (
            f"No way in this plan reaches {target}. The best is {percent(closest.certified[at])}, without a check: the "
            f"{found.n_trusted:,} labels that are trusted already, as {USED[closest.used]} ({closest.used})."
        )
    return (
        f"No way in this plan reaches {target}. The best is {percent(closest.certified[at])}: {closest.n_checked:,} "
        f"labels, {CHOSEN[closest.chosen]} ({closest.chosen}), as {USED[closest.used]} ({closest.used})."
    )


def _notes(found: AuditPlan) -> list[str]:
    """Say what the simulation took for granted."""
    wrong = (
        f"{100 * found.error_rate:g}% of the checked labels were given another class, at random."
        if found.error_rate
        else "Checked labels were taken as they are: a check that corrects labels may change more."
    )
    alone = "Figures of 'alone' and 'prior alone' hold at any number of changes of the other labels."
    before = f" {found.n_trusted:,} labels are trusted without a check." if found.n_trusted else ""
    return [
        f"{wrong}{before}",
        *([alone] if found.is_accuracy else []),
        "Figures are of these test rows: labels that attacks use are those of attacks on them, and random labels were "
        "drawn once. On other rows, a target that is just reached may be missed.",
    ]


def _print(found: AuditPlan, sentences: Sequence[str], files: Sequence[Path], flips: int | None) -> None:
    """Print the sentences and the table; within a budget, the best way at the target, or at most flips, comes first."""
    from flipproof.cli.talk import data_console, print_paragraph, print_table
    from flipproof.readable import percent
    from flipproof.report.text import TextTable

    console, at = data_console(), len(found.flips) - 1 if flips is None else found.flips.index(flips)
    first, *notes = sentences if flips is not None else ("", *sentences)
    if first:
        print_paragraph(console, first, indent="", style="bold")
        console.print()
    ranked = sorted(found.checks, key=lambda one: (one.n_checked, -one.certified[at]))
    lines = [("none", "", "", *map(percent, found.before))]
    lines += [
        (f"{one.n_checked:,}" if one.n_checked else "none", one.used, one.chosen, *map(percent, one.certified))
        for one in ranked
    ]
    console.print(f"{found.what[0].upper()}{found.what[1:]}, by labels checked and labels changed:")
    console.print()
    print_table(
        console, TextTable(("checked", "used as", "chosen by", *(f"{one:,}" for one in found.flips)), tuple(lines))
    )
    console.print()
    for note in notes:
        print_paragraph(console, note, indent="  - ")
    for path in files:
        console.print(f"Written: {path}", soft_wrap=True)
