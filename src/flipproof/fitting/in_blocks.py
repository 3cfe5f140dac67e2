"""Fit to training rows in blocks; columns of Parquet files are encoded from a sample of rows, without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flipproof.assumptions import Assumption
from flipproof.core.rounding import Values
from flipproof.errors import InputError, Parameter
from flipproof.fitting.choices import (
    ARRAY_LABEL,
    DataChoice,
    Fitted,
    ModelChoice,
    Step,
    assumptions_about_texts,
    class_set,
    make_learner,
    refuse_encoded_features,
    restricted,
    table_encoder,
)
from flipproof.fitting.memory import array_test_rows, read_test_rows, word_columns
from flipproof.fitting.reference import (
    Reference,
    check_array_reference,
    check_takes_reference,
    encoded_by_reference,
    feature_columns,
    fitted_encoder,
    read_reference,
    typed_reference_labels,
)
from flipproof.fitting.sources import Source, is_path
from flipproof.fitting.trust import require_trusted
from flipproof.learners.baseline import trusted_only_predictions
from flipproof.readable import alternatives

if TYPE_CHECKING:
    from flipproof.streaming.parquet import Footer
    from flipproof.streaming.sample import Sample
    from flipproof.tables import TableEncoder
    from flipproof.tables.roles import Roles, Rows


def training_files(train: Path, test: Source | None) -> tuple[Path, ...]:
    """Return the Parquet files with the training rows, sorted by name."""
    from flipproof.streaming.arrays import PARQUET, found_files, means_files

    files = found_files(train, PARQUET)
    for file in files:
        if file.suffix.lower() not in PARQUET:
            raise InputError(
                Parameter("train"),
                f": {str(file)!r} must end in {alternatives(PARQUET)}: only Parquet files are read in blocks.",
            )
    if is_path(test) and means_files(train) and Path(test).resolve() in {file.resolve() for file in files}:
        raise InputError(
            Parameter("test"),
            f": {str(Path(test))!r} is one of the training files in {str(train)!r}: move it to another folder, "
            "or use a pattern that excludes it.",
        )
    return files


def fit_in_blocks(data: DataChoice, choice: ModelChoice, step: Step, client: object = None) -> Fitted:
    """Fit the learner to training rows in blocks; columns are encoded from a sample of them, without labels.

    Parameters
    ----------
    data, choice
        The rows and the learner.
    step : callable
        Called with the name of each step before it begins.
    client : distributed.Client, or function that returns one, optional
        Dask cluster that reads the rows. A function is called after all checks that need no cluster.
    """
    if data.holdout is not None or data.test is None:
        raise InputError(
            "training rows in blocks require ",
            Parameter("test"),
            "; ",
            Parameter("holdout"),
            " requires a single table.",
        )
    if data.roles is not None and data.roles.window:
        raise InputError(Parameter("window"), " needs training rows in memory, but they are read in blocks.")
    if is_path(data.train):
        return _fit_to_files(data, choice, step, client)
    test = array_test_rows(data.test)
    model = make_learner(choice, list(choice.classes) or None, in_blocks=True)
    reference = read_reference(data)
    if reference is not None:
        check_takes_reference(choice, model)
        check_array_reference(reference, model)
    labels = None if reference is None else reference.labels
    require_trusted(model, data.train.has_trusted or labels is not None)
    step(f"Fitting {choice.name} to rows in blocks")
    model.fit(data.train, client=_connected(client), **_learned_from(reference, None, labels))
    from flipproof.tables.labels import check_test_labels

    check_test_labels(test.labels, model.classes_, ARRAY_LABEL)
    return Fitted(
        model,
        test,
        test.features,
        restricted(choice.adversary, {}, choice, model.classes_),
        None,
        n_reference=None if reference is None else len(reference),
        **_trusted_alone(model, reference, None, labels, test, test.features),
    )


def _fit_to_files(data: DataChoice, choice: ModelChoice, step: Step, client: object) -> Fitted:
    import pyarrow as pa

    from flipproof.streaming import RowBlocks
    from flipproof.streaming.parquet import Footer, vector_lengths
    from flipproof.streaming.sample import draw_sample
    from flipproof.tables.columns import as_labels
    from flipproof.tables.labels import check_classes, check_test_labels
    from flipproof.tables.roles import refuse_copies_of_the_label, shown_columns

    train, roles = Path(data.train), data.roles
    if roles is None:
        raise InputError(Parameter("label"), ": it must name the label column.")
    files = training_files(train, data.test)
    footers = [Footer.read(str(file)) for file in files]
    n_rows = sum(footer.metadata.num_rows for footer in footers)
    reference = read_reference(data)
    names = features_of_all(roles, footers, repr(str(train)), reference)
    rows_of = partial(RowBlocks.from_parquet, files, roles.label, names, roles.trusted, roles.annotator)
    rows_of(encode=no_features)  # checks the columns
    vector_lengths(footers, names)
    types = [footer.type_of(roles.label) for footer in footers]
    typed = next((one for one in types if not pa.types.is_null(one)), pa.null())
    no_labels = as_labels(roles.label, pa.chunked_array([], typed), repr(footers[0].path))
    test = read_test_rows(data, roles, names, word_columns(footers[0].schema, roles), no_labels)
    shown_columns(roles, [] if test.shown is None else test.shown.column_names, "the test table")  # raises if missing
    model = make_learner(choice, class_set(choice, no_labels), in_blocks=True)
    if reference is None:
        _check_landmarks(model, n_rows)
    else:
        check_takes_reference(choice, model)
    reference_labels = typed_reference_labels(reference, roles.label, no_labels)
    require_trusted(model, bool(roles.trusted) or reference_labels is not None)
    least = 2 if reference is None else 1
    if n_rows < least:
        raise ValueError(f"{str(train)!r} has {n_rows} rows, but at least {least} are required.")
    connected = _connected(client)
    step(f"Reading {n_rows:,} rows of {len(files):,} {'file' if len(files) == 1 else 'files'}")
    sample = draw_sample(footers, names, roles.label, choice.verbose)
    refuse_copies_of_the_label(sample.features, sample.labels, roles.label)
    if sample.is_everything or len(set(sample.labels.to_pylist())) > 1:
        check_classes(as_labels(roles.label, sample.labels, repr(str(train))), roles.label, choice.classes)
    step("Encoding the columns")
    if reference is None:
        encoder = fitted_to_sample(table_encoder(data, roles), sample)
        assumption = Assumption("columns-encoded", {"n_encoded": sample.features.num_rows, "n_rows": sample.n_rows})
    else:
        encoder, assumption = fitted_encoder(data, roles, reference, names), encoded_by_reference(reference)
        encoder.check_columns(sample.features, "the training rows", "the reference", strictly=True)
    X_test = encoder.transform(test.features)
    step(f"Fitting {choice.name} to {n_rows:,} rows")
    learned_from = _learned_from(reference, encoder, reference_labels)
    model.fit(rows_of(encode=encoder.transform), client=connected, **learned_from)
    check_test_labels(test.labels, model.classes_, roles.label)
    refuse_encoded_features(model)
    for one in (assumption, *assumptions_about_texts(encoder)):
        model.also_assume(one)
    adversary = restricted(choice.adversary, {}, choice, model.classes_)
    n_reference = None if reference is None else len(reference)
    alone = _trusted_alone(model, reference, encoder, reference_labels, test, X_test)
    return Fitted(model, test, X_test, adversary, encoder, files=files, n_reference=n_reference, **alone)


def _learned_from(reference: Reference | None, encoder: TableEncoder | None, labels: Values | None) -> dict[str, Any]:
    """Return the arguments of `fit` for the reference and its trusted labels, if there are any."""
    if reference is None:
        return {}
    found = {"reference": reference.rows if encoder is None else encoder.transform(reference.rows)}
    return found if labels is None else {**found, "reference_labels": labels}


def _trusted_alone(
    model: Any,
    reference: Reference | None,
    encoder: TableEncoder | None,
    labels: Values | None,
    test: Rows,
    X_test: object,
) -> dict[str, Any]:
    """Return what trusted labels alone predict, if the truth is known: those of the reference, or those of the prior.

    Trusted training rows are in blocks, so only the prior, which has read them, is asked.
    """
    if test.labels is None:
        return {}
    if labels is not None:
        rows = _learned_from(reference, encoder, None)["reference"]
        n_trusted, is_trusted = len(labels), np.ones(len(labels), dtype=bool)
    else:
        read = [one.values["n_trusted"] for one in model.assumptions_ if one.code == "trusted-at-fit"]
        if not read:
            return {}
        rows, (n_trusted,), is_trusted = None, read, np.zeros(0, dtype=bool)
    return {
        "trusted_only": trusted_only_predictions(model, rows, labels, is_trusted, X_test),
        "n_trusted": n_trusted,
    }


def features_of_all(
    roles: Roles, footers: Sequence[Footer], source: str, reference: Reference | None = None
) -> list[str]:
    """Return the feature columns; raise if a file has more columns than the first, unless `features` are given."""
    from flipproof.streaming.parquet import all_index_columns
    from flipproof.tables.roles import dropped_columns, feature_names

    first, index = footers[0], all_index_columns(footers)
    there = first.schema.names
    everywhere = list(dict.fromkeys(name for footer in footers for name in footer.schema.names))
    if reference is not None:
        everywhere += [name for name in reference.rows.column_names if name not in everywhere]
    dropped = dropped_columns(roles, everywhere, source)
    in_first = replace(roles, id=roles.id if roles.id in there else None, drop=tuple(dropped.intersection(there)))
    if reference is None:
        names = feature_names(in_first, there, repr(str(first.path)), index)
    else:
        whole = replace(in_first, drop=tuple(dropped.intersection([*there, *reference.rows.column_names])))
        names = feature_columns(whole, reference, there, repr(str(first.path)), index)
    if roles.features:
        return names
    known = {*there, *index, *dropped, roles.id}
    for footer in footers:
        more = [name for name in footer.schema.names if name not in known]
        if more:
            raise InputError(
                f"{footer.path!r} has a column {more[0]!r}, but {first.path!r} does not: leave it out with ",
                Parameter("drop"),
                ", or select the columns with ",
                Parameter("features"),
                ".",
            )
    return names


def _connected(client: object) -> Any:
    return client() if callable(client) else client


def _check_landmarks(model: object, n_rows: int) -> None:
    from flipproof.learners.kernel import LARGEST_EXACT

    if getattr(model, "n_components", 0) is None and n_rows <= LARGEST_EXACT:
        raise InputError(
            Parameter("learner", "kernel"),
            ": give ",
            Parameter("n_components", "N", of_learner=True),
            f", the number of landmarks: without it, all pairs of the {n_rows:,} rows are compared, which needs all "
            "rows in memory.",
        )


def fitted_to_sample(encoder: TableEncoder, sample: Sample) -> TableEncoder:
    """Fit an encoder to a sample of the training rows; errors say that rows are those of the sample."""
    try:
        return encoder.fit(sample.features)
    except ValueError as error:
        if sample.is_everything:
            raise
        start = f"in a sample of {sample.features.num_rows:,} of the training rows, "
        if isinstance(error, InputError):
            raise InputError(start, *error.with_rows(lambda row: f"row {row} of the sample").args) from error
        raise ValueError(f"{start}{error}") from error


def no_features(table: object) -> Any:
    """Encode nothing: for checks of columns without reading them."""
    return table
