"""Training rows in Parquet files that are visited a block at a time, and the fit to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.data import DataChoice, dropped_columns, feature_names, read_test_rows, refuse_copies_of_the_label
from flipproof.cli.model import Fitted, ModelChoice, make_learner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flipproof.adversary import Adversary
    from flipproof.cli.sample import Sample
    from flipproof.cli.talk import Step
    from flipproof.streaming.parquet import Footer

#: Learners whose rows may come in blocks.
LEARNERS_IN_BLOCKS = ("ridge", "kernel")

#: What a report says where attacks would be.
WITHOUT_ATTACKS = (
    "The training rows were visited in blocks, so there are no attacks here and no list of labels to check: these need "
    "all training rows in memory."
)


@dataclass(frozen=True)
class FittedInBlocks(Fitted):
    """A learner that was fitted to the rows of many files, none of which is in memory."""

    files: tuple[Path, ...]

    def file_facts(self) -> dict[str, Any]:
        """Return how many files and bytes there are."""
        return {"training_files": len(self.files), "training_bytes": sum(file.stat().st_size for file in self.files)}

    def checksums(self, train: Path) -> dict[str, str]:
        """Return the checksum of the training files, by what it is of."""
        from flipproof.cli.sample import fingerprint

        return {f"{train} (names, sizes and footers of its Parquet files)": fingerprint(self.files)}


def stands_for_files(path: Path) -> bool:
    """Whether a path is a folder or a pattern."""
    from flipproof.streaming.arrays import is_pattern

    return path.is_dir() or is_pattern(path)


def training_files(data: DataChoice) -> tuple[Path, ...]:
    """Return the Parquet files that the training rows are in, sorted by name."""
    from flipproof.streaming.arrays import PARQUET, found_files

    files = found_files(data.train, PARQUET)
    for file in files:
        if file.suffix.lower() not in PARQUET:
            raise ValueError(
                f"--train: {str(file)!r} must end in {' or '.join(PARQUET)}: only rows of Parquet files are visited in "
                "blocks."
            )
    if stands_for_files(data.train):
        _refuse_test_rows_among(files, data)
    return files


def _refuse_test_rows_among(files: Sequence[Path], data: DataChoice) -> None:
    if data.test is not None and data.test.resolve() in {file.resolve() for file in files}:
        raise ValueError(
            f"--test: {str(data.test)!r} is one of the training files in {str(data.train)!r}: move it elsewhere, or "
            "give a pattern that leaves it out."
        )


def check_choices(data: DataChoice, choice: ModelChoice, on_cluster: bool) -> None:
    """Refuse what rows in blocks cannot do."""
    if data.holdout is not None or data.test is None:
        raise click.UsageError("Training rows in blocks need --test FILE: --holdout is for rows of a single file.")
    if choice.learner not in LEARNERS_IN_BLOCKS:
        raise ValueError(
            f"--learner: {choice.learner} needs its training rows in memory. For rows in blocks there are "
            f"{' and '.join(LEARNERS_IN_BLOCKS)}."
        )
    if on_cluster and choice.jobs is not None:
        raise click.UsageError("--jobs is for threads of this process: with a cluster, its workers do the work.")


def fit_in_blocks(
    data: DataChoice, choice: ModelChoice, noise: Any, step: Step, connect: Callable[[], Any], verbose: int
) -> FittedInBlocks:
    """Encode columns by a sample of the rows, without labels, and fit the learner, a block at a time.

    Parameters
    ----------
    data, choice, noise
        What the options say.
    step : callable
        Announces what is about to happen.
    connect : callable
        Returns the client of a cluster, or None; called once all is checked that can be checked without.
    verbose : int
        Whether to show how far each pass over the rows has come.
    """
    import pyarrow as pa

    from flipproof.assumptions import Assumption
    from flipproof.cli.labels import check_classes, check_test_labels, typed_classes
    from flipproof.cli.sample import draw_sample
    from flipproof.streaming import RowBlocks
    from flipproof.streaming.parquet import Footer, vector_lengths
    from flipproof.tables import TableEncoder
    from flipproof.tables.columns import as_labels

    files = training_files(data)
    footers = [Footer.read(str(file)) for file in files]
    n_rows = sum(footer.metadata.num_rows for footer in footers)
    names = _features(data, choice, footers)
    rows_of = partial(RowBlocks.from_parquet, files, data.label, names, choice.trusted, choice.annotator)
    rows_of(encode=_nothing)  # refuses columns that do not fit
    vector_lengths(footers, names)
    typed = next(
        (one.type_of(data.label) for one in footers if not pa.types.is_null(one.type_of(data.label))), pa.null()
    )
    kind = as_labels(data.label, pa.chunked_array([], typed), repr(footers[0].path))
    test = read_test_rows(data, names, footers[0].schema, kind)
    classes = typed_classes(choice.classes, kind) if choice.classes else None
    learner = make_learner(choice, noise, classes, in_blocks=True).set_params(verbose=verbose)
    _check_landmarks(learner, n_rows)
    if n_rows < 2:
        raise ValueError(f"{str(data.train)!r} has {n_rows} rows: at least two are needed.")
    client = connect()
    step(f"Reading {n_rows:,} rows of {len(files):,} {'file' if len(files) == 1 else 'files'}")
    sample = draw_sample(footers, names, data.label, verbose)
    refuse_copies_of_the_label(sample.features, sample.labels, data.label)
    if sample.is_everything or len(set(sample.labels.to_pylist())) > 1:
        check_classes(as_labels(data.label, sample.labels, repr(str(data.train))), data.label, choice.classes)
    step("Encoding the columns")
    encoder = _fitted_encoder(TableEncoder(data.text, scale=data.scale, text_dimensions=data.text_dimensions), sample)
    X_test = encoder.transform(test.features)
    step(f"Fitting {choice.learner} to {n_rows:,} rows")
    learner.fit(rows_of(encode=encoder.transform), client=client)
    check_test_labels(test.labels, learner.classes_, data.label)
    encoded = {"n_encoded": sample.features.num_rows, "n_rows": sample.n_rows}
    learner._also_assume(Assumption("columns-encoded", encoded))
    adversary = _adversary(choice, learner.classes_)
    return FittedInBlocks(learner, test, X_test, adversary, tuple(encoder.describe()), tuple(names), n_rows, files)


def _features(data: DataChoice, choice: ModelChoice, footers: Sequence[Footer]) -> list[str]:
    """Return the columns to learn from; without --features, a file that has more than the first is refused."""
    from flipproof.streaming.parquet import all_index_columns

    first, index = footers[0], all_index_columns(footers)
    there = first.schema.names
    dropped = dropped_columns(data, list(dict.fromkeys(name for footer in footers for name in footer.schema.names)))
    own = replace(
        data,
        train=Path(first.path),
        id_column=data.id_column if data.id_column in there else None,
        drop=tuple(dropped.intersection(there)),
    )
    names = feature_names(own, there, (choice.trusted or "", choice.annotator or ""), index)
    if data.features:
        return names
    known = {*there, *index, *dropped, data.id_column}
    for footer in footers:
        more = [name for name in footer.schema.names if name not in known]
        if more:
            raise ValueError(
                f"{footer.path!r} has a column {more[0]!r}, which {first.path!r} has not: leave it out with --drop, or "
                "name the columns with --features."
            )
    return names


def _check_landmarks(learner: Any, n_rows: int) -> None:
    from flipproof.learners.kernel import LARGEST_EXACT

    if getattr(learner, "n_components", 0) is None and n_rows <= LARGEST_EXACT:
        raise ValueError(
            f"--learner kernel: give --set n_components=N, the number of landmarks: with {n_rows:,} rows all would be "
            "compared to each other, which needs them in memory."
        )


def _fitted_encoder(encoder: Any, sample: Sample) -> Any:
    try:
        return encoder.fit(sample.features)
    except ValueError as error:
        if sample.is_everything:
            raise
        raise ValueError(f"in a sample of {sample.features.num_rows:,} of the training rows, {error}") from error


def _adversary(choice: ModelChoice, classes: NDArray[Any]) -> Adversary | None:
    """Return what the rows themselves do not say: which changes are possible."""
    from flipproof.adversary import Adversary
    from flipproof.cli.labels import allowed_changes

    return Adversary(allowed=allowed_changes(choice.allow, classes)) if choice.allow else None


def _nothing(table: Any) -> Any:
    return table
