"""`flipproof certify --target`: numeric predictions with certified intervals, from a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flipproof.cli.data import DataOptions
from flipproof.cli.model import ModelOptions, given_settings
from flipproof.cli.options import ADVERSARY, DATA, MODEL, OUTPUT, REQUIREMENT, option, together
from flipproof.cli.requirement import exit_code, found_words

if TYPE_CHECKING:
    from flipproof.auditing.numbers import NumberAudit
    from flipproof.intervals import CertifiedIntervals
    from flipproof.requirements import Requirement, ShiftRequirement

#: Options that go with --target; all others are about classes, or about rows in blocks.
WITH_TARGET = frozenset(
    (
        *("target", "target_range", "flips", "tolerance", "threshold", "by", "max_change", "max_shift", "min_radius"),
        *("coefficients", "coefficients_out"),
        *("train", "test", "holdout", "seed", "features", "drop", "text", "categories", "id_column", "scale"),
        *("text_dimensions", "no_header", "names", "separator", "no_quotes", "kind", "encoding", "decimal", "na"),
        *("learner", "settings", "trusted", "annotator", "out", "report", "proof", "title", "as_json", "quiet"),
        "config",
    )
)

#: Options that need training rows in memory.
NEED_MEMORY = ("by", "proof", "holdout")

#: Options that need --target.
NEED_TARGET = (
    *("target_range", "tolerance", "threshold", "coefficients", "coefficients_out", "max_change", "max_shift"),
)


def read_range(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    """Parse LOW:HIGH."""
    if text is None:
        return None
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise click.BadParameter(f"{text!r} must be LOW:HIGH, two finite numbers, for example 0:1000000.")
    return low, high


def read_flips(_context: click.Context, _parameter: click.Parameter, text: object) -> tuple[int, ...] | None:
    """Parse whole numbers that are separated by commas."""
    if text is None:
        return None
    parts = [part.strip() for part in str(text).split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise click.BadParameter(f"{text!r} must be whole numbers, for example 1,5,20.")
    return tuple(map(int, parts))


def max_shift(text: str) -> ShiftRequirement:
    """Parse EPS@FLIPS or EPS@FLIPS@SHARE."""
    from flipproof.requirements import ShiftRequirement

    parts = text.split("@")
    try:
        eps, flips, share = float(parts[0]), int(parts[1]), float(parts[2]) if len(parts) == 3 else 1.0
    except (ValueError, IndexError):
        eps = math.nan
    if len(parts) > 3 or not (math.isfinite(eps) and eps >= 0 and flips >= 0 and 0 <= share <= 1):
        raise click.BadParameter(f"{text!r} must be EPS@FLIPS, or EPS@FLIPS@SHARE, for example 5000@10 or 5000@10@0.9.")
    return ShiftRequirement(eps, flips, f"--max-shift {text}", share)


def _shifts(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> tuple[ShiftRequirement, ...]:
    return tuple(max_shift(text) for text in given)


def _not_negative(_context: click.Context, parameter: click.Parameter, given: float | None) -> float | None:
    if given is not None and not (math.isfinite(given) and (given >= 0 or parameter.name == "threshold")):
        raise click.BadParameter(
            f"{given:g} must be a finite number{'' if parameter.name == 'threshold' else ' >= 0'}."
        )
    return given


target_options: Callable[[Any], Any] = together(
    option(
        "--target",
        group=DATA,
        metavar="COL",
        help="Instead of --label: column with numeric targets. Every prediction then gets an interval: how far changed "
        "targets can move it.",
    ),
    option(
        "--range",
        "target_range",
        group=DATA,
        callback=read_range,
        metavar="LOW:HIGH",
        help="With --target: lowest and highest possible target. Default: read from the targets, which is then an "
        "assumption.",
    ),
    option(
        "--flips",
        group=MODEL,
        callback=read_flips,
        metavar="N[,N...]",
        help="With --target: numbers of changed targets of which intervals are computed. Default: 1,5,10,50,100. With "
        "--by and --label: numbers of changed labels. Default: 1,5,10",
    ),
    option(
        "--tolerance",
        group=MODEL,
        type=float,
        callback=_not_negative,
        metavar="EPS",
        help="With --target: radii are the largest number of changes that cannot move a prediction by more than EPS.",
    ),
    option(
        "--threshold",
        group=MODEL,
        type=float,
        callback=_not_negative,
        metavar="T",
        help="With --target: radii are the largest number of changes that cannot move a prediction across T.",
    ),
    option(
        "--by",
        group=DATA,
        metavar="COL",
        help="Column that divides the test rows into groups. Bounds how many predictions of each group one attack can "
        "change; with --target, how far it can move the mean prediction of each group and the gaps between groups.",
    ),
    option(
        "--coefficients",
        group=MODEL,
        is_flag=True,
        help="With --target and ridge: certify the coefficient of each column, and how many changes can reverse its "
        "sign.",
    ),
    option(
        "--coefficients-out",
        group=OUTPUT,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the coefficients with their intervals, one line per column. Same endings as --out.",
    ),
    option(
        "--max-change",
        group=ADVERSARY,
        type=float,
        callback=_not_negative,
        metavar="DELTA",
        help="With --target: each target can be moved by at most DELTA. Default: anywhere in the range.",
    ),
    option(
        "--max-shift",
        group=REQUIREMENT,
        multiple=True,
        callback=_shifts,
        metavar="EPS@FLIPS[@SHARE]",
        help="With --target: exit with 1 unless all predictions, or this share of them, move by at most EPS after any "
        "FLIPS changes.",
    ),
)


@dataclass(frozen=True)
class TargetOptions:
    """Values of the options about numeric targets."""

    target: str | None
    target_range: tuple[float, float] | None
    flips: tuple[int, ...] | None
    tolerance: float | None
    threshold: float | None
    by: str | None
    coefficients: bool
    coefficients_out: Path | None
    max_change: float | None
    max_shift: tuple[ShiftRequirement, ...]

    @classmethod
    def taken_from(cls, options: dict[str, object]) -> TargetOptions:
        """Remove these options from a command's options and return them; raise UsageError if they lack --target."""
        # click has read values of the right types
        values: dict[str, Any] = {name: options.pop(name) for name in cls.__dataclass_fields__}
        found = cls(**values)
        if found.target is None:
            _refuse(lambda name: name in NEED_TARGET, "requires --target: it is about numeric predictions.")
            if found.by is None:
                _refuse(lambda name: name == "flips", "requires --target, or --by.")
        else:
            _refuse(lambda name: name not in WITH_TARGET, "cannot be combined with --target.")
        return found


def _refuse(is_refused: Callable[[str], bool], reason: str) -> None:
    """Raise UsageError for the first option that was given and is refused."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)
        if is_given and is_refused(name):
            raise click.UsageError(f"{parameter.opts[0]} {reason}")


def certify_targets(
    targets: TargetOptions,
    data: DataOptions,
    model: ModelOptions,
    required: Sequence[Requirement],
    *,
    out: Path | None,
    report: Path | None,
    proof: Path | None,
    title: str | None,
    as_json: bool,
    quiet: bool,
    command: str,
) -> int:
    """Certify numeric predictions, write files, print a summary and return the exit code."""
    from flipproof.auditing.audit_result import PROOF_ENDING
    from flipproof.auditing.numbers import audit_numbers
    from flipproof.cli.output import TABLE_ENDINGS, check_file, table_content
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line
    from flipproof.fitting import comes_in_blocks, training_files
    from flipproof.fitting.regressor import settable_numbers
    from flipproof.learners.names import REGRESSORS
    from flipproof.report.rendering import REPORT_ENDINGS, rendered
    from flipproof.runtime.files import digest_of, portable_path, write_all

    if data.train is None:
        raise click.UsageError("Missing option '--train'.")
    data.check_test_rows()
    in_blocks = comes_in_blocks(data.train)
    if in_blocks:
        _refuse(lambda name: name in NEED_MEMORY, "needs training rows in memory, but these are read in blocks.")
    if model.learner not in REGRESSORS:
        raise click.UsageError(f"--learner {model.learner} has no regressor: use {', '.join(REGRESSORS)}.")
    inputs = (*training_files(data.train, data.test), *data.files[1:]) if in_blocks else data.files
    check_file(out, TABLE_ENDINGS, inputs)
    check_file(report, REPORT_ENDINGS, inputs, (out,))
    check_file(targets.coefficients_out, TABLE_ENDINGS, inputs, (out, report))
    check_file(proof, (PROOF_ENDING,), inputs, (out, report, targets.coefficients_out))
    settings = given_settings(model.settings, settable_numbers(model.learner)) if model.settings else {}
    columns = ("train", "test", "holdout", "seed", "features", "drop", "text", "categories", "scale", "text_dimensions")
    with_coefficients = targets.coefficients or targets.coefficients_out is not None
    n_steps = 4 + (targets.by is not None) + with_coefficients
    with progress(n_steps, quiet) as step, warnings_in_a_line(quiet):
        result = audit_numbers(
            **{name: getattr(data, name) for name in columns},
            id=data.id_column,
            layout=data.layout,
            target=targets.target,
            target_range=targets.target_range,
            learner=model.learner,
            parameters=settings,
            flips=targets.flips,
            tolerance=targets.tolerance,
            threshold=targets.threshold,
            by=targets.by,
            coefficients=with_coefficients,
            max_change=targets.max_change,
            trusted=model.trusted,
            annotator=model.annotator,
            requirements=(*required, *targets.max_shift),
            title=title,
            progress=step,
        )
        summary = result.summary(command=command)
        files: dict[Path, bytes] = {}
        tables = ((out, result.to_arrow(), result.intervals), (targets.coefficients_out, None, result.coefficients))
        for path, table, found in tables:
            if path is not None and found is not None:
                content = found.to_arrow() if table is None else table
                files[path] = table_content(content, path.suffix.lower(), _about(result, found))
        if report is not None:
            files[report] = rendered(summary, report.suffix.lower()).encode()
        if proof is not None:
            result.save_proof(proof, {portable_path(path): digest_of(content) for path, content in files.items()})
    write_all(files)
    if as_json:
        print_data(rendered(summary, ".json").rstrip("\n"))
    else:
        _print(summary, result, [path for path in (*files, proof) if path is not None])
    return exit_code(result.requirements)


def _about(result: NumberAudit, found: CertifiedIntervals) -> dict[str, Any]:
    """Return the facts about all lines for a file of intervals."""
    return {
        "method": found.method,
        "unit": found.unit,
        "n_train": found.n_train,
        "n_touchable": found.n_touchable,
        "flips": found.flips,
        "tolerance": found.tolerance,
        "threshold": found.threshold,
        "target_range": found.target_range,
        "encoding": list(result.provenance.encoding),
        "assumptions": [one.to_dict() for one in found.assumptions],
    }


def _print(summary: dict[str, Any], result: NumberAudit, files: Sequence[Path]) -> None:
    from flipproof.cli.talk import data_console, print_paragraph, print_table
    from flipproof.report.interval_report import accuracy_words, coefficient_table, interval_table, line_table

    console, source = data_console(), result.provenance
    print_paragraph(console, summary["headline"], indent="", style="bold")
    if summary["problem"]["truth_known"]:
        print_paragraph(console, accuracy_words(summary), indent="")
    console.print()
    lines = [
        f"{source.n_train:,} training rows: {source.training}",
        f"{source.n_test:,} test rows: {source.test}",
        *source.encoding,
        f"{source.learner['name']}, fitted to column {source.label}",
    ]
    for line in lines:
        print_paragraph(console, line, indent="  - ")
    console.print()
    print_table(console, interval_table(summary))
    console.print()
    for part, name in (("means", "mean of group"), ("gaps", "gap between groups")):
        if summary[part]:
            print_table(console, line_table(summary[part], summary["flips"], name))
            console.print()
    if summary["coefficients"]:
        print_table(console, coefficient_table(summary["coefficients"], summary["flips"]))
        console.print()
    for one in summary["requirement"]:
        print_paragraph(console, f"{'Met' if one['met'] else 'NOT MET'}: {found_words(one)}", indent="")
    if summary["requirement"]:
        console.print()
    console.print("Assumptions:")
    for assumption in summary["assumptions"]:
        print_paragraph(console, assumption["sentence"], indent="  - ")
    for path in files:
        console.print(f"Written: {path}", soft_wrap=True)
