"""Fit a regressor to training rows in blocks; columns of Parquet files are encoded from a sample, without targets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.errors import InputError, Parameter
from flipproof.fitting.choices import DataChoice, Fitted, ModelChoice, Step, assumptions_about_texts, table_encoder
from flipproof.fitting.in_blocks import features_of_all, fitted_to_sample, no_features, training_files
from flipproof.fitting.memory import array_test_rows, read_test_rows, word_columns
from flipproof.fitting.sources import is_path


def fit_numbers_in_blocks(
    data: DataChoice, choice: ModelChoice, model: Any, adversary: Adversary | None, step: Step
) -> Fitted:
    """Fit a regressor for rows in blocks to Parquet files, or to RowBlocks.

    Parameters
    ----------
    data, choice
        The rows.
    model : regressor
        The regressor, unfitted.
    adversary : Adversary or None
        The adversary of the certificates.
    step : callable
        Called with the name of each step before it begins.
    """
    if data.holdout is not None or data.test is None:
        raise InputError(
            "training rows in blocks require ",
            Parameter("test"),
            "; ",
            Parameter("holdout"),
            " requires a single table.",
        )
    if is_path(data.train):
        return _fit_to_files(data, choice, model, adversary, step)
    test = array_test_rows(data.test)
    step("Fitting to rows in blocks")
    model.fit(data.train)
    return Fitted(model, test, test.features, adversary, None)


def _fit_to_files(data: DataChoice, choice: ModelChoice, model: Any, adversary: Adversary | None, step: Step) -> Fitted:
    from flipproof.streaming import RowBlocks
    from flipproof.streaming.parquet import Footer, vector_lengths
    from flipproof.streaming.sample import draw_sample
    from flipproof.tables.roles import refuse_copies_of_the_label

    train, roles = Path(data.train), data.roles
    if roles is None:
        raise InputError(Parameter("target"), ": it must name the column of targets.")
    files = training_files(train, data.test)
    footers = [Footer.read(str(file)) for file in files]
    names = features_of_all(roles, footers, repr(str(train)))
    rows_of = partial(RowBlocks.from_parquet, files, roles.label, names, roles.trusted, roles.annotator, numeric=True)
    rows_of(encode=no_features)  # checks the columns
    vector_lengths(footers, names)
    test = read_test_rows(data, roles, names, word_columns(footers[0].schema, roles), None)
    n_rows = sum(footer.metadata.num_rows for footer in footers)
    step(f"Reading {n_rows:,} rows of {len(files):,} {'file' if len(files) == 1 else 'files'}")
    sample = draw_sample(footers, names, roles.label, choice.verbose, numeric=True)
    refuse_copies_of_the_label(sample.features, sample.labels, roles.label)
    step("Encoding the columns")
    encoder = fitted_to_sample(table_encoder(data, roles), sample)
    X_test = encoder.transform(test.features)
    step(f"Fitting ridge to {n_rows:,} rows")
    model.fit(rows_of(encode=encoder.transform))
    values = {"n_encoded": sample.features.num_rows, "n_rows": sample.n_rows}
    for one in (Assumption("columns-encoded", values), *assumptions_about_texts(encoder)):
        model.also_assume(one)
    return Fitted(model, test, X_test, adversary, encoder, files=files)
