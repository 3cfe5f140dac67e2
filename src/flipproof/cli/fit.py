"""`flipproof fit`: fit a learner to a table, and keep it in a file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from flipproof.cli.certify import read_noise
from flipproof.cli.data import DataOptions, training_options
from flipproof.cli.model import ModelOptions, learner_options
from flipproof.cli.options import MODEL, GroupedCommand, common_options, option
from flipproof.learners.names import LEARNERS

#: Ending of model files.
MODEL_ENDING = ".flipproof"

EXAMPLES = """\b
Examples:
  flipproof fit --train train.csv --label spam --model spam.flipproof
  flipproof certify --model spam.flipproof --test new.csv --report report.html
"""


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Fit a model to a table and keep it in a file.")
@training_options
@learner_options(tuple(LEARNERS))
@option(
    "--noise", group=MODEL, callback=read_noise, metavar="Q", help="Noise q for tight and kl, or auto. Default: 0.1"
)
@option(
    "--model",
    "model_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help=f"Write the model: a file that ends in {MODEL_ENDING}.",
)
@common_options
def fit(noise: object, model_file: Path, as_json: bool, quiet: bool, **options: object) -> None:
    """Fit a learner to a table, and write the model to a file, for `flipproof certify --model`.

    The file contains all that certificates need: encoder, geometry, training labels, trusted labels, annotators and
    allowed changes. Some learners also keep features of training rows in it; see docs/models.md. It contains no code.
    """
    from flipproof.cli.output import check_file
    from flipproof.cli.talk import print_data, progress, warnings_in_a_line
    from flipproof.fitting import FIT_STEPS, as_choices, refuse_blocks
    from flipproof.fitting import fit as fit_to
    from flipproof.fitting.deployed import table_model
    from flipproof.store import save

    data, model = DataOptions.taken_from(options), ModelOptions.taken_from(options)
    refuse_blocks(data.train, "a model needs")
    check_file(model_file, (MODEL_ENDING,), data.files)
    with progress(FIT_STEPS + 1, quiet) as step, warnings_in_a_line(quiet):
        given = {**data.arguments(), **model.arguments(), "noise": noise, "verbose": int(not quiet)}
        choices = as_choices(**given)
        fitted = fit_to(*choices, step, needs_test=False)
        deployed = table_model(*choices, fitted)
        assert deployed is not None
        step(f"Writing {model_file.name}")
        digest = save(deployed, model_file)
    learner = deployed.learner
    facts = {
        "model": str(model_file),
        "sha256": digest,
        "bytes": model_file.stat().st_size,
        "learner": type(learner).__name__,
        "training_rows": learner.n_rows_,
        "classes": learner.classes_.tolist(),
    }
    if as_json:
        print_data(json.dumps(facts))
        return
    classes = ", ".join(map(str, facts["classes"][:10]))
    print_data(f"{facts['learner']}, {learner.n_rows_:,} training rows, classes {classes}")
    print_data(f"SHA-256 of the model: {digest}")
    print_data(f"Written: {model_file} ({facts['bytes']:,} bytes)")
