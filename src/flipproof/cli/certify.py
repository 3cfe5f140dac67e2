"""`flipproof certify`: predictions with certificates, from a table."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli import EXIT_REQUIREMENT, requirement
from flipproof.cli.data import DataOptions, data_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import MODEL, REQUIREMENT, GroupedCommand, common_options, option
from flipproof.cli.workers import ClusterChoice, cluster_options
from flipproof.learners.names import LEARNERS

if TYPE_CHECKING:
    from flipproof.auditing import Audit
    from flipproof.certificates import Certificates
    from flipproof.requirements import Requirement

METHODS = ("exact", "tight", "kl")

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


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Predict, and certify every prediction.")
@data_options
@learner_options(tuple(LEARNERS))
@option(
    "--method",
    "methods",
    group=MODEL,
    type=click.Choice(METHODS),
    multiple=True,
    help="Default: exact. Given again, it is compared to the first.",
)
@option("--noise", group=MODEL, callback=read_noise, metavar="Q", help="Noise q of tight and kl, or auto. Default: 0.1")
@option(
    "--min-radius",
    group=REQUIREMENT,
    callback=requirement.min_radius,
    metavar="RADIUS[@SHARE]",
    help="Exit with 1 unless every prediction, or this share of them, has this radius.",
)
@option(
    "--min-certified-accuracy",
    group=REQUIREMENT,
    callback=requirement.min_certified_accuracy,
    metavar="ACCURACY@FLIPS",
    help="Exit with 1 unless so many are correct, and stay so under any such flips.",
)
@cluster_options
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificates, a line each: .parquet, .csv, .tsv, .json, .arrow or .feather.",
)
@option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Report: .html, .md, or .json, from which `flipproof report` makes others.",
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
    """Predict the rows of a table, and certify every prediction.

    The radius of a prediction is how many training labels anybody may have changed, whichever and to whatever, without
    changing it. Prints what that comes to; -o has it for every row.

    Columns of numbers are scaled, words become a column each, texts (--text) vectors: all without a look at the labels,
    which is what a certificate rests on.

    Of a folder or pattern of Parquet files, only a block of rows is in memory at a time. With --workers or --scheduler,
    Dask visits them.

    Exit codes: 0; 1 if a requirement is not met; 2 for wrong usage or input.
    """
    from flipproof.auditing import audit
    from flipproof.cli.output import TABLE_ENDINGS, check_file
    from flipproof.cli.talk import print_data, progress, say, warnings_in_a_line
    from flipproof.files import write_whole
    from flipproof.fitting import FIT_STEPS, comes_in_blocks, training_files
    from flipproof.report.rendering import REPORT_ENDINGS, rendered

    data, model = DataOptions.taken_from(options), ModelOptions.taken_from(options)
    cluster = ClusterChoice.taken_from(options)
    if min_radius and min_certified_accuracy:
        raise click.UsageError("Give either --min-radius or --min-certified-accuracy.")
    in_blocks = comes_in_blocks(data.train, cluster.is_given)
    if in_blocks:
        _check_blocks(data, model, cluster)
    else:
        data.check_test_rows()
    inputs = (*training_files(data.train, data.test), data.test) if in_blocks else data.files
    check_file(out, TABLE_ENDINGS, inputs)
    check_file(report, REPORT_ENDINGS, (*inputs, out))
    chosen = tuple(dict.fromkeys(methods))
    required = min_radius or min_certified_accuracy
    with ExitStack() as opened:
        opened.enter_context(warnings_in_a_line(quiet))
        if in_blocks:  # each pass over the rows has a bar of its own: steps are lines between those
            step = (lambda text: None) if quiet else say
        else:
            step = opened.enter_context(progress(FIT_STEPS + max(len(chosen), 1) + bool(report), quiet))
        result = audit(
            **data.arguments(),
            **model.arguments(in_blocks),
            methods=chosen,
            noise=noise,
            requirements=[required] if required else [],
            attack=report is not None,
            client=(lambda: opened.enter_context(cluster.client(step))) if cluster.is_given else None,
            verbose=int(not quiet),
            progress=step,
        )
        result = _in_words_of_options(result)
        summary = result.summary(command=shlex.join(["flipproof", *sys.argv[1:]]))
        contents = [
            (out, _table_file(result, out)),
            (report, rendered(summary, report.suffix.lower()).encode() if report else b""),
        ]
    for path, content in contents:
        if path is not None:
            write_whole(path, content)
    if as_json:
        print_data(rendered(summary, ".json").rstrip("\n"))
    else:
        from flipproof.cli.printing import print_summary

        print_summary(summary, result.provenance.encoding, [path for path in (out, report) if path])
    if result.passed:
        return 0
    print(f"flipproof: not met: {requirement.found_words(result.requirements[0].facts)}.", file=sys.stderr)
    return EXIT_REQUIREMENT


def _check_blocks(data: DataOptions, model: ModelOptions, cluster: ClusterChoice) -> None:
    """Refuse options that do not go together where rows come in blocks."""
    if data.holdout is not None or data.test is None:
        raise click.UsageError("Training rows in blocks need --test FILE: --holdout is for rows of a single file.")
    if cluster.is_given and model.jobs is not None:
        raise click.UsageError("--jobs is for threads of this process: with a cluster, its workers do the work.")


def _in_words_of_options(result: Audit) -> Audit:
    """Return certificates that call a parameter as the command line does."""

    def said(one: Certificates) -> Certificates:
        sentences = (sentence.replace("classes=...", "--classes") for sentence in one.assumptions)
        return replace(one, assumptions=tuple(sentences))

    return replace(result, certificates={name: said(one) for name, one in result.certificates.items()})


def _table_file(result: Audit, path: Path | None) -> bytes:
    from flipproof.cli.output import table_content

    if path is None:
        return b""
    main = result.main
    about = {
        "n_train": main.n_train,
        "n_touchable": main.n_touchable,
        "classes": main.classes.tolist(),
        "encoding": list(result.provenance.encoding),
        "assumptions": list(main.assumptions),
    }
    return table_content(result.to_arrow(), path.suffix.lower(), about)
