"""`flipproof attack`: the labels or rows that would change a prediction, and the labels to check first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.data import DataOptions, data_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import GroupedCommand, common_options, option, split_at_commas
from flipproof.learners.names import LABEL_LINEAR

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.fitting import Fitted
    from flipproof.tables.roles import Rows

#: Largest number of table lines on the terminal; a file has all of them.
MOST_LINES = 20

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
    help="Without --row: number of labels to list; with --changes rows, of predictions to attack, the most fragile "
    "first. Default: 20",
)
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the labels or rows, one per line: .parquet, .csv, .tsv, .json, .arrow or .feather.",
)
@common_options
def attack(
    rows: tuple[str, ...],
    max_flips: int | None,
    top: int,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Find the training labels, or rows, that would change a prediction.

    With --row: the smallest set of label changes that overturns each of these predictions, in the order of the attack.

    Without --row: the labels that are part of the most attacks on the 1,000 most fragile predictions, or with
    --annotator, the annotators. A report has the same lists; `flipproof plan` measures what checking labels buys.

    With --reference and --changes rows: the fewest rows to add, remove or replace, for the predictions of --row or the
    most fragile ones. Every attack is confirmed by a refit; -o writes the rows.
    """
    from flipproof.cli.attack_rows import check_attackable_by_rows, predictions_table, row_changes_table
    from flipproof.cli.output import TABLE_ENDINGS, check_file, table_content
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line
    from flipproof.fitting import FIT_STEPS, as_choices, comes_in_blocks, fit
    from flipproof.runtime.files import write_whole

    data, model = DataOptions.taken_from(options), ModelOptions.taken_from(options)
    if comes_in_blocks(data.train):
        raise ValueError(
            f"--train: {str(data.train)!r} must be a file: attacks need all training rows in memory, but folders "
            "and patterns are read in blocks."
        )
    is_about_rows = model.changes != "labels"
    if is_about_rows:
        check_attackable_by_rows(model.learner)
    data.check_test_rows()
    check_file(out, TABLE_ENDINGS, data.files)
    with progress(FIT_STEPS + 1, quiet) as step, warnings_in_a_line(quiet):
        fitted = fit(*as_choices(**data.arguments(), **model.arguments(), verbose=int(not quiet)), step)
        chosen = rows_named(rows, fitted.test.ids) if rows else None
        if is_about_rows:
            step("Attacking by rows")
            table, about = row_changes_table(fitted, chosen, top, max_flips)
        elif chosen is not None:
            step(f"Attacking {len(chosen)} predictions")
            table, about = flips_table(fitted, chosen, max_flips)
        elif model.annotator:
            step("Ranking annotators by attacks on the most fragile predictions")
            table, about = annotator_table(fitted, top)
        else:
            step("Ranking labels by attacks on the most fragile predictions")
            table, about = audit_table(fitted, top)
        content = table_content(table, out.suffix.lower(), about) if out else b""
    if out is not None:
        write_whole(out, content)
    if as_json:
        print_data(table_content(table, ".json", about).decode().rstrip("\n"))
        return
    _print_lines(predictions_table(about) if is_about_rows else table, about["sentences"])
    if out is not None:
        print_data(f"Written: {out}")


def rows_named(names: tuple[str, ...], ids: list[Any]) -> list[int]:
    """Return the positions of the named test rows."""
    from flipproof.errors import nearest

    places = {str(one): place for place, one in reversed(list(enumerate(ids)))}
    for name in names:
        if name not in places:
            raise ValueError(f"--row: there is no test row {name!r}.{nearest(name, places)}")
    return list(dict.fromkeys(places[name] for name in names))


def flips_table(fitted: Fitted, rows: list[int], max_flips: int | None) -> tuple[pa.Table, dict[str, Any]]:
    """Return the label changes that overturn each of these predictions, and a sentence about each prediction."""
    import pyarrow as pa

    from flipproof.attacks import worst_flips
    from flipproof.values import column_of, distinct

    found = worst_flips(fitted.model, fitted.X_test[rows], fitted.adversary, max_flips)
    if not found.attempted.all():
        raise KeyboardInterrupt  # a partial result would look complete
    train, sentences = _training_rows(fitted), []
    who = ("annotator",) if found.annotators is not None else ()
    columns: dict[str, list[Any]] = {
        name: [] for name in ("id", "prediction", "order", *who, "train_id", "old_label", "new_label")
    }
    for place, row in enumerate(rows):
        name, prediction = fitted.test.ids[row], found.prediction[place].item()
        needed, changed = int(found.flips_needed[place]), found.rows[place].tolist()
        sentence = _sentence(name, prediction, needed, len(changed), found.unit, max_flips)
        if found.annotators is not None and needed > 0:
            n_all = len(distinct(fitted.adversary.groups)[0])  # type: ignore[union-attr]
            sentence = sentence.replace(_counted(needed, "annotator"), f"{needed:,} of {n_all:,} annotators")
            named = [f"{one} ({n_labels:,})" for one, n_labels in found.who(place).items()]
            sentence += f" In the order of the attack, with their numbers of labels: {', '.join(named)}."
        sentences.append(sentence)
        if found.annotators is not None:
            columns["annotator"] += found.annotators[place].tolist()
        columns["id"] += [name] * len(changed)
        columns["prediction"] += [prediction] * len(changed)
        columns["order"] += range(1, len(changed) + 1)
        columns["train_id"] += [train.ids[one] for one in changed]
        columns["old_label"] += [train.labels[one].item() for one in changed]  # type: ignore[index]
        columns["new_label"] += found.new_labels[place].tolist()
    return pa.table({name: column_of(one) for name, one in columns.items()}), {
        "sentences": sentences,
        "unit": found.unit,
    }


def audit_table(fitted: Fitted, top: int) -> tuple[pa.Table, dict[str, Any]]:
    """Return the training labels that are part of the most attacks, and a sentence about them."""
    import pyarrow as pa

    from flipproof.attacks import labels_to_audit
    from flipproof.values import column_of

    audit = labels_to_audit(fitted.model, fitted.X_test, fitted.adversary, top)
    train = _training_rows(fitted)
    table = pa.table(
        {
            "train_id": column_of([train.ids[row] for row in audit.rows]),
            "label": column_of([train.labels[row].item() for row in audit.rows]),  # type: ignore[index]
            "n_attacks": audit.n_attacks,
            "weight": audit.weight,
        }
    )
    sentence = (
        f"Of {len(train):,} training labels, these are part of the most attacks on the {audit.n_attacked:,} most "
        "fragile predictions. Once they are checked, attackers use others: `flipproof plan` measures what checking "
        "them buys, beside random labels and a model of the checked labels alone."
        if len(audit.rows)
        else f"No change of labels can overturn any of the {audit.n_attacked:,} most fragile predictions."
    )
    return table, {"sentences": [sentence], "n_attacked": audit.n_attacked}


def annotator_table(fitted: Fitted, top: int) -> tuple[pa.Table, dict[str, Any]]:
    """Return the annotators who take part in the most attacks, and a sentence about them."""
    import pyarrow as pa

    from flipproof.attacks import annotators_to_check
    from flipproof.values import column_of

    audit = annotators_to_check(fitted.model, fitted.X_test, fitted.adversary, top)
    table = pa.table(
        {
            "annotator": column_of(audit.names.tolist()),
            "n_labels": audit.n_labels,
            "n_attacks": audit.n_attacks,
            "n_alone": audit.n_alone,
        }
    )
    sentence = (
        f"Check these annotators first: of {audit.n_annotators:,}, they take part in the most attacks on the "
        f"{audit.n_attacked:,} most fragile predictions."
        if len(audit)
        else f"No annotators can overturn any of the {audit.n_attacked:,} most fragile predictions."
    )
    return table, {"sentences": [sentence], "n_attacked": audit.n_attacked}


def _training_rows(fitted: Fitted) -> Rows:
    if fitted.train is None:
        raise ValueError("attacks need all training rows in memory.")
    return fitted.train


def _sentence(name: object, prediction: object, needed: int, n_labels: int, unit: str, max_flips: int | None) -> str:
    predicted = f"Test row {name} is predicted as {prediction}"
    if needed < 0:
        labels = "labels" if max_flips is None else f"at most {_counted(max_flips, 'label')}"
        return f"{predicted}. No change of {labels} overturns it."
    if unit in ("annotators", "windows"):
        changed = _counted(n_labels, "changed label")
        return f"{predicted}. It takes {_counted(needed, unit[:-1])} with {changed} to overturn it."
    return f"{predicted}. It takes {_counted(needed, 'changed label')} to overturn it."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _print_lines(table: pa.Table, sentences: list[str]) -> None:
    from flipproof.cli.talk import data_console, print_paragraph, print_table
    from flipproof.report.text import TextTable

    console = data_console()
    for sentence in sentences:
        print_paragraph(console, sentence, indent="", style="bold")
    lines = [
        tuple(f"{value:.3g}" if isinstance(value, float) else str(value) for value in line.values())
        for line in table.slice(0, MOST_LINES).to_pylist()
    ]
    if not lines:
        return
    console.print()
    print_table(console, TextTable(tuple(name.replace("_", " ") for name in table.column_names), tuple(lines)))
    if table.num_rows > MOST_LINES:
        console.print(f"... and {table.num_rows - MOST_LINES:,} more. Use -o FILE to write all.")
