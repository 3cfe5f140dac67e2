"""`flipproof certify`: predictions with certificates, from a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flipproof.cli.certify_targets import TargetOptions, certify_targets, target_options
from flipproof.cli.data import DataOptions, data_or_model_options
from flipproof.cli.evidence_files import EvidenceFiles, evidence_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import MODEL, REQUIREMENT, GroupedCommand, common_options, option, split_at_commas
from flipproof.cli.requirement import exit_code, requirement_options, taken_requirements
from flipproof.cli.workers import ClusterChoice, cluster_options
from flipproof.learners.names import LEARNERS

if TYPE_CHECKING:
    from flipproof.auditing.audit_result import Audit
    from flipproof.certificates import Certificates

METHODS = ("exact", "tight", "kl")

EXAMPLES = """\b
Examples:
  flipproof certify --train train.csv --test test.csv --label spam
  flipproof certify --train emails.tsv --holdout 0.25 --label kind \\
      --text body -o certificates.parquet --report report.html
  flipproof certify --train train.parquet --test test.parquet --label y \\
      --features 'emb_*' --annotator who --min-certified-accuracy 0.9@2
  flipproof certify --train folder/ --test test.parquet --label y --workers 4
  flipproof certify --train reported.csv --test test.csv --label spam \\
      --reference checked.csv --changes rows --clip 0.9
  flipproof certify --model spam.flipproof --test new.csv
  flipproof certify --train sales.csv --test new.csv --target price \\
      --range 0:1000000 --tolerance 5000 --max-shift 5000@10
"""

#: Options that go with a model; all others were decided when it was fitted.
WITH_MODEL = frozenset(
    (
        *(
            "model_file",
            "test",
            "methods",
            "error_rate",
            "radius_up_to",
            "out",
            "report",
            "proof",
            "junit",
            "sarif",
            "attestation",
            "bom",
            "model_card",
            "title",
            "show",
            "by",
            "flips",
            "as_json",
            "quiet",
            "config",
            "jobs",
        ),
        *("no_header", "names", "separator", "no_quotes", "kind", "encoding", "decimal", "na"),
    )
)


def read_noise(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | str | None:
    """Read a number, or "auto"."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} must be a number between 0 and 1, or auto.") from None


def read_rates(_context: click.Context, _parameter: click.Parameter, text: object) -> float | tuple[float, ...] | None:
    """Read one probability, or several that are separated by commas."""
    if text is None:
        return None
    try:
        rates = tuple(float(part) for part in str(text).split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} must be probabilities from 0 to 1, for example 0.01,0.05.") from None
    return rates[0] if len(rates) == 1 else rates


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Predict and certify the rows of a table.")
@data_or_model_options
@learner_options(tuple(LEARNERS))
@target_options
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
    "--error-rate",
    group=MODEL,
    callback=read_rates,
    metavar="P[,P...]",
    help="Bound the effect of random errors that change each label with probability P. 0: no bound. Default: 0.05",
)
@requirement_options
@option(
    "--radius-up-to",
    group=REQUIREMENT,
    type=click.IntRange(min=0),
    metavar="R",
    help="Compute radii only up to R, which takes less time: a radius of R means R or more. Cannot be combined "
    "with --proof, --sarif or the methods tight and kl.",
)
@cluster_options
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write certificates, one line per test row (.parquet, .csv, .tsv, .json, .arrow or .feather).",
)
@option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a report (.html, .md or .json). `flipproof report` converts .json to the others.",
)
@option(
    "--proof",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the proof of the certificates (.flipproof). `flipproof verify` checks it.",
)
@option("--title", metavar="TEXT", help="Title of the report.")
@option(
    "--show",
    multiple=True,
    callback=split_at_commas,
    metavar="COLS",
    help="Columns whose contents the report shows, for fragile test rows and attacked training rows; * matches "
    "anything. Default: none, because readers of the report may not be allowed to see the data.",
)
@evidence_options
@common_options
def certify(
    methods: tuple[str, ...],
    noise: object,
    error_rate: float | tuple[float, ...] | None,
    out: Path | None,
    report: Path | None,
    proof: Path | None,
    title: str | None,
    show: tuple[str, ...],
    radius_up_to: int | None,
    as_json: bool,
    quiet: bool,
    model_file: Path | None,
    **options: object,
) -> int:
    """Predict the rows of a table and certify every prediction.

    A prediction with radius r is guaranteed unchanged even if any r training labels are changed to any class. Prints a
    summary; -o writes the certificate of every row.

    With --reference and --changes rows, radii count whole training rows that are added, removed or replaced.

    Columns are encoded without using labels: numbers are scaled, each category becomes a column, and texts (--text)
    become vectors.

    Parquet files in a folder are read block by block and need not fit in memory. With --workers or --scheduler, Dask
    processes read them in parallel.

    With --target instead of --label, predictions are numbers. Each gets an exact interval, the range in which it
    stays under any r changed training targets.

    With --model, the model is the one that `flipproof fit` wrote, and the certificates are the same.

    Exit codes: 0 success; 1 a requirement is not met; 2 wrong usage or input.
    """
    from flipproof.auditing.audit_result import PROOF_ENDING
    from flipproof.auditing.classes import audit
    from flipproof.cli.output import TABLE_ENDINGS, check_file
    from flipproof.cli.talk import print_data, progress, say, warnings_in_a_line
    from flipproof.fitting import FIT_STEPS, training_files
    from flipproof.report.rendering import REPORT_ENDINGS, rendered
    from flipproof.runtime.files import digest_of, portable_path, write_all

    targets = TargetOptions.taken_from(options)
    data, model = DataOptions.taken_from(options), ModelOptions.taken_from(options)
    cluster, required = ClusterChoice.taken_from(options), taken_requirements(options)
    evidence = EvidenceFiles.taken_from(options)
    if report is None and not as_json:
        _refuse({"--title": title, "--show": show}, "requires --report or --json.")
    if radius_up_to is not None:
        need_exact = {"--proof": proof, "--target": targets.target, "--sarif": evidence.sarif}
        _refuse(need_exact, "needs exact radii, so it cannot be combined with --radius-up-to.")
    if targets.target is not None:
        return certify_targets(
            *(targets, data, model, required),
            out=out,
            report=report,
            proof=proof,
            title=title,
            as_json=as_json,
            quiet=quiet,
            command=_command(sys.argv[1:]),
        )
    in_blocks = _check_rows(data, model, cluster, model_file)
    inputs = (*training_files(data.train, data.test), *data.files[1:]) if in_blocks else (*data.files, model_file)
    check_file(out, TABLE_ENDINGS, inputs)
    check_file(report, REPORT_ENDINGS, inputs, (out,))
    check_file(proof, (PROOF_ENDING,), inputs, (out, report))
    evidence.check(inputs, (out, report, proof))
    chosen = tuple(dict.fromkeys(methods))
    evidence.check_sarif(in_blocks, data.train, chosen, model.changes)
    attacks = (report is not None or evidence.sarif is not None) and radius_up_to is None
    with ExitStack() as opened:
        opened.enter_context(warnings_in_a_line(quiet))
        if in_blocks:  # each pass over the rows has its own progress bar; steps are lines between them
            step = (lambda text: None) if quiet else say
        else:
            n_steps = FIT_STEPS + max(len(chosen), 1) + attacks + (targets.by is not None)
            step = opened.enter_context(progress(n_steps, quiet))
        if model_file is None:
            given = {**data.arguments(), **model.arguments(in_blocks), "noise": noise}
        else:
            given = {"model": model_file, "test": data.test, "layout": data.layout, "n_jobs": model.jobs}
        result = audit(
            **given,
            methods=chosen,
            requirements=required,
            radius_up_to=radius_up_to,
            attack=attacks,
            title=title,
            show=show,
            error_rate=error_rate,
            flips=targets.flips,
            by=targets.by,
            client=(lambda: opened.enter_context(cluster.client(step))) if cluster.is_given else None,
            verbose=int(not quiet),
            progress=step,
        )
        summary = result.summary(command=_command(sys.argv[1:]))
        tables = {} if out is None else {out: _table_file(result, out)}
        reports = {} if report is None else {report: rendered(summary, report.suffix.lower()).encode()}
        located = evidence.located(result, summary)
        if proof is not None:  # while a cluster that holds the rows is there
            written = {**tables, **reports}
            result.save_proof(proof, {portable_path(path): digest_of(content) for path, content in written.items()})
    files = {**located, **evidence.contents(result, summary, tables, proof)}
    write_all({**tables, **reports, **files})
    if as_json:
        print_data(rendered(summary, ".json").rstrip("\n"))
    else:
        from flipproof.cli.printing import print_summary

        print_summary(summary, result.provenance.encoding, [path for path in (out, report, proof, *files) if path])
    return exit_code(result.requirements)


def _refuse(given: Mapping[str, object], reason: str) -> None:
    """Raise UsageError for the first of these options that is given."""
    for name, value in given.items():
        if value:
            raise click.UsageError(f"{name} {reason}")


def _check_rows(data: DataOptions, model: ModelOptions, cluster: ClusterChoice, model_file: Path | None) -> bool:
    """Raise UsageError for rows that are missing or that options do not fit; return whether rows come in blocks."""
    from flipproof.fitting import comes_in_blocks

    if model_file is not None:
        _check_beside_model(click.get_current_context())
        if data.test is None:
            raise click.UsageError("--model requires --test FILE.")
        return False
    data.check_training_rows()
    in_blocks = comes_in_blocks(data.train, cluster.is_given)
    if in_blocks:
        _check_blocks(data, model, cluster)
    else:
        data.check_test_rows()
    return in_blocks


def _check_beside_model(context: click.Context) -> None:
    """Raise UsageError for options that were decided when a model was fitted."""
    requirements = tuple(name for name in context.params if name.startswith("min_"))
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)
        if is_given and name not in (*WITH_MODEL, *requirements):
            raise click.UsageError(
                f"{parameter.opts[0]} cannot be combined with --model: it is an option of `flipproof fit`."
            )


def _check_blocks(data: DataOptions, model: ModelOptions, cluster: ClusterChoice) -> None:
    """Raise UsageError for options that cannot be combined with rows in blocks."""
    if data.holdout is not None or data.test is None:
        raise click.UsageError("Training rows in blocks require --test FILE; --holdout requires a single file.")
    if cluster.is_given and model.jobs is not None:
        raise click.UsageError("--jobs cannot be combined with --workers or --scheduler.")


def _command(arguments: Sequence[str]) -> str:
    """Return the command for a report; paths are those that the report shows, without folders of this machine."""
    from flipproof.runtime.files import portable_path

    shown = []
    for argument in arguments:
        name, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        path = portable_path(value) if Path(value).is_absolute() else value
        # a shell replaces ~ only without quotes
        quoted = f"~/{shlex.quote(path[2:])}" if path.startswith("~/") and path != value else shlex.quote(path)
        shown.append(f"{name}{equals}{quoted}" if equals else shlex.quote(argument) if name else quoted)
    return " ".join(["flipproof", *shown])


def _table_file(result: Audit, path: Path) -> bytes:
    from flipproof.cli.output import table_content

    main = result.main
    about = {
        "n_train": main.n_train,
        "unit": main.unit,
        "changes": main.changes,
        "reference": result.provenance.reference,
        "n_touchable": main.n_touchable,
        "classes": main.classes.tolist(),
        "encoding": list(result.provenance.encoding),
        "methods": {name: _method_facts(one) for name, one in result.certificates.items()},
    }
    return table_content(result.to_arrow(), path.suffix.lower(), about)


def _method_facts(one: Certificates) -> dict[str, Any]:
    """Return the noise and the assumptions of a method."""
    from flipproof.report.summary import plain_noise

    return {"noise": plain_noise(one), "assumptions": [assumption.to_dict() for assumption in one.assumptions]}
