"""`flipproof certify`: predictions with certificates, from a table."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli import EXIT_REQUIREMENT, requirement
from flipproof.cli.blocks import (
    WITHOUT_ATTACKS,
    FittedInBlocks,
    check_choices,
    fit_in_blocks,
    stands_for_files,
    training_files,
)
from flipproof.cli.data import DataChoice, data_options
from flipproof.cli.model import (
    FIT_STEPS,
    LEARNERS,
    Fitted,
    FittedInMemory,
    ModelChoice,
    fit,
    learner_options,
    parameters_of,
)
from flipproof.cli.options import MODEL, REQUIREMENT, GroupedCommand, common_options, option
from flipproof.cli.requirement import Requirement
from flipproof.cli.workers import ClusterChoice, cluster_options
from flipproof.files import digest_of_file

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.attacks.result import AttackResult
    from flipproof.attacks.worst import LabelAudit
    from flipproof.certificates import Certificates

METHODS = ("exact", "tight", "kl")

#: Most fragile predictions whose attacks a report shows, and of which it says which labels to audit.
ATTACKED_IN_REPORT = 1000

EXAMPLES = """\b
Examples:
  flipproof certify --train train.csv --test test.csv --label spam
  flipproof certify --train mails.tsv --holdout 0.25 --label kind \\
      --text body -o certificates.parquet --report report.html
  flipproof certify --train train.parquet --test test.parquet --label y \\
      --features 'emb_*' --annotator who --min-certified-accuracy 0.9@2
  flipproof certify --train folder/ --test test.parquet --label y --workers 4
"""


def read_noise(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | str | None:
    """Read a number, or "auto"."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} must be a number between 0 and 1, or auto.") from None


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Predict and certify the rows of a table.")
@data_options
@learner_options(tuple(LEARNERS))
@option(
    "--method",
    "methods",
    group=MODEL,
    type=click.Choice(METHODS),
    multiple=True,
    help="Type of certificate. Repeat it to compare several. Default: exact",
)
@option(
    "--noise", group=MODEL, callback=read_noise, metavar="Q", help="Noise q for tight and kl, or auto. Default: 0.1"
)
@option(
    "--min-radius",
    group=REQUIREMENT,
    callback=requirement.min_radius,
    metavar="RADIUS[@SHARE]",
    help="Exit with 1 unless all predictions, or this share of them, have at least this radius.",
)
@option(
    "--min-certified-accuracy",
    group=REQUIREMENT,
    callback=requirement.min_certified_accuracy,
    metavar="ACCURACY@FLIPS",
    help="Exit with 1 unless certified accuracy at FLIPS is at least ACCURACY.",
)
@cluster_options
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write certificates, one line per test row: .parquet, .csv, .tsv, .json, .arrow or .feather.",
)
@option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a report: .html, .md or .json (which `flipproof report` converts).",
)
@common_options
def certify(
    methods: tuple[str, ...],
    noise: Any,
    min_radius: Requirement | None,
    min_certified_accuracy: Requirement | None,
    out: Path | None,
    report: Path | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Predict the rows of a table and certify every prediction.

    A prediction with radius r is guaranteed unchanged even if any r training labels are changed to any class. Prints a
    summary; -o writes the certificate of every row.

    Columns are encoded without using labels: numbers are scaled, each category becomes a column, and texts (--text)
    become vectors.

    Parquet files in a folder are read block by block and need not fit in memory. With --workers or --scheduler, Dask
    processes read them in parallel.

    Exit codes: 0 success; 1 a requirement is not met; 2 wrong usage or input.
    """
    from flipproof.cli.output import REPORT_ENDINGS, TABLE_ENDINGS, check_file
    from flipproof.cli.talk import print_data, progress, say, warnings_in_a_line
    from flipproof.files import write_whole

    data, model = DataChoice.taken_from(options), ModelChoice.taken_from(options)
    cluster = ClusterChoice.taken_from(options)
    if min_radius and min_certified_accuracy:
        raise click.UsageError("Give either --min-radius or --min-certified-accuracy.")
    in_blocks = cluster.is_given or stands_for_files(data.train)
    if in_blocks:
        check_choices(data, model, cluster.is_given)
    inputs = (*training_files(data), data.test) if in_blocks else data.files
    check_file(out, TABLE_ENDINGS, inputs)
    check_file(report, REPORT_ENDINGS, (*inputs, out))
    chosen = tuple(dict.fromkeys(methods)) or (None,)
    began = time.perf_counter()
    with ExitStack() as opened:
        opened.enter_context(warnings_in_a_line(quiet))
        fitted: Fitted
        if in_blocks:  # each pass over the rows has a bar of its own: steps are lines between those
            step = (lambda text: None) if quiet else say
            fitted = fit_in_blocks(
                data, model, noise, step, lambda: opened.enter_context(cluster.client(step)), int(not quiet)
            )
        else:
            step = opened.enter_context(progress(FIT_STEPS + len(chosen) + bool(report), quiet))
            fitted = fit(data, model, noise, step)
        certificates = {}
        for method in chosen:
            step(f"Certifying {len(fitted.test)} predictions" + (f" ({method})" if method else ""))
            found = fitted.learner.certify(fitted.X_test, method=method, adversary=fitted.adversary)
            certificates[found.method] = found
        main = next(iter(certificates.values()))
        required = min_radius or min_certified_accuracy
        outcome = required.outcome(main, fitted.test.labels) if required else None
        attack, audit = None, None
        if report and isinstance(fitted, FittedInMemory) and model.learner != "partition" and main.method == "exact":
            step("Attacking the most fragile predictions")
            attack, audit = attacks_for_report(fitted, main)
        summary = _summary(fitted, certificates, attack, audit, _facts(data, model, fitted, began), outcome)
        contents = [(out, _table_file(fitted, certificates, out)), (report, _report_file(summary, report))]
    for path, content in contents:
        if path is not None:
            write_whole(path, content)
    if as_json:
        from flipproof.report.summary import to_json

        print_data(to_json(summary).rstrip("\n"))
    else:
        from flipproof.cli.printing import print_summary

        print_summary(summary, fitted.encoding, [path for path in (out, report) if path])
    if outcome is None or outcome["met"]:
        return 0
    print(f"flipproof: not met: {requirement.found_words(outcome)}.", file=sys.stderr)
    return EXIT_REQUIREMENT


def certificate_table(fitted: Fitted, certificates: dict[str, Certificates]) -> pa.Table:
    """Return a line for each test row, and for each method."""
    import pyarrow as pa

    ids, labels = fitted.test.ids, fitted.test.labels
    return pa.concat_tables([one.to_arrow(ids=ids, y_true=labels, details=False) for one in certificates.values()])


def attacks_for_report(fitted: FittedInMemory, main: Certificates) -> tuple[AttackResult, LabelAudit]:
    """Attack the most fragile predictions, for all of which a report has no room, and say which labels matter to them.

    Raises
    ------
    KeyboardInterrupt
        If it was interrupted: what had been found by then would pass for all there is.
    """
    import numpy as np

    from flipproof.attacks import labels_to_audit, worst_flips
    from flipproof.attacks.result import NO_ATTACK, AttackResult

    fragile = np.lexsort((main.margin, main.radius))[:ATTACKED_IN_REPORT]
    found = worst_flips(fitted.learner, fitted.X_test[fragile], fitted.adversary)
    if not found.attempted.all():
        raise KeyboardInterrupt
    audit = labels_to_audit(fitted.learner, fitted.X_test[fragile], fitted.adversary)
    nothing, no_labels = np.zeros(0, dtype=np.int64), main.prediction[:0]
    rows, new_labels = [nothing] * len(main), [no_labels] * len(main)
    needed, attempted = np.full(len(main), NO_ATTACK), np.zeros(len(main), dtype=bool)
    needed[fragile], attempted[fragile] = found.flips_needed, True
    for position, row in enumerate(fragile):
        rows[row], new_labels[row] = found.rows[position], found.new_labels[position]
    attack = AttackResult(
        flips_needed=needed,
        rows=tuple(rows),
        new_labels=tuple(new_labels),
        success=needed != NO_ATTACK,
        prediction=main.prediction.copy(),
        unit=found.unit,
        attack=found.attack,
        attempted=attempted,
    )
    return attack, audit


def _table_file(fitted: Fitted, certificates: dict[str, Certificates], path: Path | None) -> bytes:
    from flipproof.cli.output import table_content

    if path is None:
        return b""
    main = next(iter(certificates.values()))
    about = {
        "n_train": main.n_train,
        "n_touchable": main.n_touchable,
        "classes": main.classes.tolist(),
        "encoding": list(fitted.encoding),
        "methods": {name: _method_facts(one) for name, one in certificates.items()},
    }
    return table_content(certificate_table(fitted, certificates), path.suffix.lower(), about)


def _method_facts(one: Certificates) -> dict[str, Any]:
    """Return the noise of a method, and what its certificates rest on."""
    from flipproof.report.summary import plain_noise

    return {"noise": plain_noise(one), "assumptions": [assumption.to_dict() for assumption in one.assumptions]}


def _report_file(summary: dict[str, Any], path: Path | None) -> bytes:
    from flipproof.cli.report import rendered

    return b"" if path is None else rendered(summary, path.suffix.lower()).encode()


def _summary(
    fitted: Fitted,
    certificates: dict[str, Certificates],
    attack: AttackResult | None,
    audit: LabelAudit | None,
    facts: dict[str, Any],
    outcome: dict[str, Any] | None,
) -> dict[str, Any]:
    from flipproof.report.summary import summarize

    train = fitted.train if isinstance(fitted, FittedInMemory) else None
    return summarize(
        certificates,
        y_true=fitted.test.labels,
        test_ids=fitted.test.ids,
        train_ids=None if train is None else train.ids,
        y_train=None if train is None else train.labels,
        attack=attack,
        audit=audit,
        without_attack=WITHOUT_ATTACKS if train is None else None,
        facts=facts,
        requirement=outcome,
    )


def _facts(data: DataChoice, model: ModelChoice, fitted: Fitted, began: float) -> dict[str, Any]:
    test = data.test if data.test is not None else f"{data.holdout:g} of {data.train.name}, seed {data.seed}"
    if isinstance(fitted, FittedInBlocks):
        files, checksums = fitted.file_facts(), fitted.checksums(data.train)
    else:
        files, checksums = {}, {str(data.train): digest_of_file(data.train)}
    if data.test is not None:
        checksums[str(data.test)] = digest_of_file(data.test)
    return {
        "training_file": str(data.train),
        **files,
        "training_rows": fitted.n_train,
        "test_file": str(test),
        "test_rows": len(fitted.test),
        "label_column": data.label,
        "columns_used": list(fitted.columns),
        "encoding": list(fitted.encoding),
        "learner": {"name": model.learner, **parameters_of(fitted.learner)},
        "sha256": checksums,
        "command": shlex.join(["flipproof", *sys.argv[1:]]),
        "seconds": round(time.perf_counter() - began, 1),
    }
