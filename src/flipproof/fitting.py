"""From training and test rows of any source to a fitted learner: read, choose columns, encode without labels, fit."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary, check_adversary
from flipproof.errors import InputError, Parameter, nearest
from flipproof.learners.names import LEARNERS, LEARNERS_IN_BLOCKS
from flipproof.values import as_values

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.streaming.parquet import Footer
    from flipproof.streaming.sample import Sample
    from flipproof.tables import TableEncoder, TextLayout
    from flipproof.tables.roles import Roles, Rows

#: Announces the next step, before it begins.
Step = Callable[[str], None]

#: Steps that `fit` announces: reading, encoding and fitting.
FIT_STEPS = 3

#: Parameters of learners that the caller gives apart from others, or not at all.
OWN_PARAMETERS = ("noise", "method", "features", "classes", "n_jobs", "block_size", "verbose")

#: What labels in an array are called in errors, as if they were a column.
ARRAY_LABEL = "y"


@dataclass(frozen=True)
class DataChoice:
    """Which rows to learn from and to predict, and how to read them.

    Attributes
    ----------
    train
        A path, a data frame, a pair (X, y), or rows in blocks.
    test
        The same without blocks; labels are optional. None with `holdout`.
    roles : Roles, optional
        What the columns are for; None for arrays and rows in blocks, which have no column of labels.
    holdout : float, optional
        Share of the training rows to predict, instead of `test`.
    seed : int
        Seed of the draw.
    layout : TextLayout, optional
        How files of text are laid out.
    scale : str
        Scale of numbers, as for TableEncoder.
    text_dimensions : int
        Numbers that stand for a text.
    """

    train: Any
    test: Any = None
    roles: Roles | None = None
    holdout: float | None = None
    seed: int = 0
    layout: TextLayout | None = None
    scale: str = "standard"
    text_dimensions: int = 200


@dataclass(frozen=True)
class ModelChoice:
    """Which learner, and against whom.

    Attributes
    ----------
    learner : str or estimator
        One of LEARNERS, or an estimator, which is cloned.
    parameters : mapping
        Parameters of the learner.
    classes : sequence
        All classes; typed ones become of the type of the labels. If empty, they are read from the labels.
    noise
        Noise of the learner, if given.
    n_jobs : int, optional
        Threads.
    adversary : Adversary, optional
        What can be done to the labels of the training rows as they are given.
    allowed : sequence
        Changes of labels that are possible: pairs (old, new), or typed as OLD:NEW.
    """

    learner: Any = "ridge"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    classes: Sequence[Any] = ()
    noise: Any = None
    n_jobs: int | None = None
    adversary: Adversary | None = None
    allowed: Sequence[Any] = ()

    @property
    def name(self) -> str:
        """What the learner is called."""
        return self.learner if isinstance(self.learner, str) else type(self.learner).__name__


def choices(
    train: Any,
    test: Any = None,
    *,
    label: str | None = None,
    learner: Any = "ridge",
    parameters: Mapping[str, Any] | None = None,
    classes: Sequence[Any] = (),
    noise: Any = None,
    n_jobs: int | None = None,
    adversary: Adversary | None = None,
    allowed: Sequence[Any] = (),
    holdout: float | None = None,
    seed: int = 0,
    layout: TextLayout | None = None,
    scale: str = "standard",
    text_dimensions: int = 200,
    **columns: Any,
) -> tuple[DataChoice, ModelChoice]:
    """Return what arguments of `flipproof.audit` say about data and model; `columns` are the other roles."""
    roles = _roles(train, label, columns)
    data = DataChoice(train, test, roles, holdout, seed, layout, scale, text_dimensions)
    return data, ModelChoice(learner, parameters or {}, classes, noise, n_jobs, adversary, allowed)


def _roles(train: Any, label: str | None, others: Mapping[str, Any]) -> Roles | None:
    """Return what the columns are for; None for rows that are no table."""
    frame = train[0] if isinstance(train, tuple) and len(train) == 2 else train
    if not is_path(train) and not hasattr(frame, "columns"):
        for name, value in {"label": label, **others}.items():
            if value:
                raise InputError(Parameter(name), ": it is for columns of files and data frames.")
        return None
    if label is None and isinstance(train, tuple):
        label = str(getattr(train[1], "name", None) or "label")
    if not isinstance(label, str):
        raise InputError(Parameter("label"), f": name the column of labels. Got {label!r} instead.")
    from flipproof.tables.roles import Roles

    several = {name: others.get(name, ()) for name in ("features", "drop", "text")}
    listed = {name: (given,) if isinstance(given, str) else tuple(given) for name, given in several.items()}
    return Roles(label, **{**others, **listed})


@dataclass(frozen=True)
class Fitted:
    """A learner that was fitted to training rows, and the rows that it is to predict.

    Attributes
    ----------
    model : estimator
        Fitted.
    test : Rows
        The rows to predict.
    X_test : array of shape (m, k)
        Their features, as the model takes them.
    adversary : Adversary, optional
        What can be done to the labels that the model was fitted to.
    encoder : TableEncoder, optional
        What made features of columns; None if the rows were given as numbers.
    train : Rows, optional
        The training rows; None where they stay in blocks.
    files : tuple of paths
        The files that blocks of training rows come from.
    """

    model: Any
    test: Rows
    X_test: NDArray[Any]
    adversary: Adversary | None
    encoder: TableEncoder | None
    train: Rows | None = None
    files: tuple[Path, ...] = ()

    @property
    def encoding(self) -> tuple[str, ...]:
        """What became of the columns, in words."""
        return () if self.encoder is None else tuple(self.encoder.describe())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the features were made of."""
        return () if self.encoder is None else tuple(self.test.features.column_names)


def is_path(given: Any) -> bool:
    """Whether rows are in a file or folder."""
    return isinstance(given, (str, os.PathLike))


def comes_in_blocks(train: Any, on_cluster: bool = False) -> bool:
    """Whether training rows are visited a block at a time."""
    if is_path(train):
        from flipproof.streaming.arrays import stands_for_files

        return on_cluster or stands_for_files(Path(train))
    if isinstance(train, tuple) or hasattr(train, "columns"):
        return False
    from flipproof.streaming import RowBlocks

    return isinstance(train, RowBlocks)


def keeps_rows_in_blocks(learner: Any) -> bool:
    """Whether a learner is one for training rows in blocks."""
    from flipproof.streaming.classifiers import RowsInBlocks

    return isinstance(learner, RowsInBlocks)


def source_name(given: Any) -> str:
    """Return what rows are called in errors and reports: their path, or their type."""
    if is_path(given):
        return str(Path(given))
    if isinstance(given, tuple):
        return "arrays"
    kind = type(given)
    return f"{kind.__module__.partition('.')[0]} {kind.__name__}"


def fit(data: DataChoice, choice: ModelChoice, step: Step) -> Fitted:
    """Read the rows, encode their columns without labels, and fit the learner.

    Raises
    ------
    ValueError, OSError
        In one line, for anything that does not fit.
    """
    step(f"Reading {Path(data.train).name if is_path(data.train) else source_name(data.train)}")
    rows = _read(data)
    labels = rows.train.labels
    label = ARRAY_LABEL if data.roles is None else data.roles.label
    if labels is None:
        raise ValueError(f"there are no labels in column {label!r}.")
    from flipproof.tables.labels import check_classes, check_test_labels

    check_classes(labels, label, choice.classes)
    model = make_learner(choice, _classes(choice, labels))
    encoder = None
    X_train, X_test = rows.train.features, rows.test.features
    if data.roles is not None:
        step("Encoding the columns")
        encoder = _encoder(data, data.roles, model)
        X_train, X_test = encoder.fit_transform(X_train), encoder.transform(X_test)
    step(f"Fitting {choice.name} to {len(rows.train)} rows")
    model.fit(X_train, labels)
    learner = _learner_in(model)
    check_test_labels(rows.test.labels, learner.classes_, label)
    if encoder is not None:
        learner._also_assume(
            "The columns were turned into numbers without labels, by the training rows alone, and are taken to "
            "come out the same again."
        )
    adversary = _adversary(data, choice, rows, learner.classes_)
    return Fitted(model, rows.test, X_test, adversary, encoder, train=rows.train)


def make_learner(choice: ModelChoice, classes: Sequence[Any] | None, in_blocks: bool = False) -> Any:
    """Return the learner for rows in memory or in blocks, not yet fitted."""
    given = {"classes": classes, "n_jobs": choice.n_jobs, "noise": choice.noise}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(choice.learner, str):
        kind = _learner_class(choice.learner, in_blocks)
        known = list(inspect.signature(kind.__init__).parameters)[1:]
        _check_parameters(choice, known)
        return kind(**given, **choice.parameters)
    if not hasattr(choice.learner, "get_params"):
        raise InputError(
            Parameter("learner"),
            f": it must be one of {', '.join(LEARNERS)}, or an estimator. Got {choice.learner!r} instead.",
        )
    if in_blocks and not keeps_rows_in_blocks(choice.learner):
        raise InputError(
            Parameter("learner"),
            f": {choice.name} needs its training rows in memory. For rows in blocks there are "
            f"{' and '.join(LEARNERS_IN_BLOCKS.values())}.",
        )
    from sklearn.base import clone

    model = clone(choice.learner)
    learner = _learner_in(model)
    _check_parameters(choice, list(learner.get_params(deep=False)))
    learner.set_params(**given, **choice.parameters)
    return model


def settable_parameters(learner: str, in_blocks: bool = False) -> list[str]:
    """Return the names that `parameters` of a learner may have."""
    known = list(inspect.signature(_learner_class(learner, in_blocks).__init__).parameters)[1:]
    return [name for name in known if name not in OWN_PARAMETERS]


def _learner_class(name: str, in_blocks: bool) -> Any:
    import flipproof

    if name not in LEARNERS:
        raise InputError(
            Parameter("learner"), f": {name!r} must be one of {', '.join(LEARNERS)}.{nearest(name, LEARNERS)}"
        )
    if in_blocks and name not in LEARNERS_IN_BLOCKS:
        raise InputError(
            Parameter("learner"),
            f": {name} needs its training rows in memory. For rows in blocks there are "
            f"{' and '.join(LEARNERS_IN_BLOCKS)}.",
        )
    return getattr(flipproof, (LEARNERS_IN_BLOCKS if in_blocks else LEARNERS)[name])


def _check_parameters(choice: ModelChoice, known: list[str]) -> None:
    if choice.noise is not None and "noise" not in known:
        raise InputError(Parameter("noise"), f": the learner {choice.name!r} works without noise.")
    settable = [name for name in known if name not in OWN_PARAMETERS]
    for name in choice.parameters:
        if name not in settable:
            raise InputError(
                Parameter("parameters"), f": {name!r} must be one of {', '.join(settable)}.{nearest(name, settable)}"
            )


def _learner_in(model: Any) -> Any:
    from flipproof.learners.pipeline import learner_in

    return learner_in(model)


def _classes(choice: ModelChoice, labels: NDArray[Any]) -> list[Any] | None:
    from flipproof.tables.labels import typed_classes

    return typed_classes(choice.classes, labels) if len(choice.classes) else None


def _encoder(data: DataChoice, roles: Roles, model: Any) -> TableEncoder:
    from flipproof.tables import TableEncoder

    if getattr(_learner_in(model), "covers_features", False):
        raise InputError(
            Parameter("learner"),
            ": certificates against changed features cannot be had for a table, whose columns are encoded by the "
            "features that may be changed. Give arrays instead.",
        )
    return TableEncoder(roles.text, scale=data.scale, text_dimensions=data.text_dimensions)


@dataclass(frozen=True)
class _ReadRows:
    """Training and test rows; `kept` are the numbers of those given that are learnt from, if not all are."""

    train: Rows
    test: Rows
    n_given: int
    kept: NDArray[np.int64] | None = None


def _read(data: DataChoice) -> _ReadRows:
    if (data.test is None) == (data.holdout is None):
        raise InputError("give either ", Parameter("test"), " or ", Parameter("holdout"), ".")
    return _read_arrays(data) if data.roles is None else _read_tables(data, data.roles)


def _read_arrays(data: DataChoice) -> _ReadRows:
    if not (isinstance(data.train, tuple) and len(data.train) == 2):
        raise InputError(
            Parameter("train"),
            f": it must be a path, a data frame, a pair (X, y) or RowBlocks. Got {type(data.train).__name__} instead.",
        )
    X, labels = data.train[0], as_values(data.train[1], "y")
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if labels.shape != (n,):
        raise InputError(
            Parameter("train"),
            f": a pair (X, y) must have a label for each row. Got {n} rows and {len(labels)} labels.",
        )
    if data.holdout is None:
        return _ReadRows(_array_rows(X, labels), array_test_rows(data.test), n)
    from flipproof.tables.roles import held_out

    X, (kept, others) = np.asarray(X), held_out(n, data.holdout, data.seed)
    train, test = (_array_rows(X[part], labels[part], part.tolist()) for part in (kept, others))
    return _ReadRows(train, test, n, kept)


def array_test_rows(test: Any) -> Rows:
    """Return test rows that are given as an array, or as a pair of an array and labels."""
    if is_path(test) or hasattr(test, "columns"):
        raise InputError(
            Parameter("test"), ": it must be an array or a pair (X, y), as the training rows are no table."
        )
    X, y = test if isinstance(test, tuple) and len(test) == 2 else (test, None)
    return _array_rows(X, None if y is None else as_values(y, "y"))


def _array_rows(X: Any, labels: NDArray[Any] | None, ids: list[Any] | None = None) -> Rows:
    from flipproof.tables.roles import Rows

    features = X if hasattr(X, "shape") else np.asarray(X)
    return Rows(features, labels, list(range(features.shape[0])) if ids is None else ids)


def _read_tables(data: DataChoice, roles: Roles) -> _ReadRows:
    from flipproof.tables.columns import index_columns
    from flipproof.tables.roles import (
        feature_names,
        held_out,
        numbered,
        refuse_copies_of_the_label,
        rows_to_predict,
        training_rows,
    )

    table, source = _training_table(data, roles)
    names = feature_names(roles, table.column_names, source, index_columns(table.schema))
    refuse_copies_of_the_label(table.select(names), table[roles.label], roles.label)
    if data.holdout is None:
        train = training_rows(table, roles, names, source)
        return _ReadRows(train, read_test_rows(data, roles, names, table.schema, train.labels), table.num_rows)
    kept, others = held_out(table.num_rows, data.holdout, data.seed)
    drawn = numbered(table)
    train = training_rows(drawn.take(kept), roles, names, source)
    return _ReadRows(train, rows_to_predict(drawn.take(others), roles, names, source), table.num_rows, kept)


def _training_table(data: DataChoice, roles: Roles) -> tuple[pa.Table, str]:
    if not is_path(data.train):
        return _frame_table(data.train, roles, "train"), "the training rows"
    from flipproof.tables import read_table

    path = Path(data.train)
    return read_table(path, data.layout, part="train", as_words=roles.text, purposes=roles.purposes), repr(str(path))


def read_test_rows(data: DataChoice, roles: Roles, names: Sequence[str], schema: pa.Schema, train_labels: Any) -> Rows:
    """Read test rows; names of features, the schema and the kind of labels are those of the training rows."""
    from flipproof.tables import read_table
    from flipproof.tables.columns import is_words
    from flipproof.tables.roles import rows_to_predict

    if not is_path(data.test):
        table, source = _frame_table(data.test, roles, "test"), "the test rows"
        return rows_to_predict(table, roles, names, source, train_labels)
    path = Path(data.test)
    written = [field.name for field in schema if is_words(field.type)]
    purposes = {name: purpose for name, purpose in roles.test_purposes.items() if name not in written}
    table = read_table(path, data.layout, part="test", as_words=written, purposes=purposes)
    return rows_to_predict(table, roles, names, repr(str(path)), train_labels)


def _frame_table(given: Any, roles: Roles, parameter: str) -> pa.Table:
    """Return a data frame, or one with its labels beside it, as a table."""
    from flipproof.tables.columns import column_of
    from flipproof.tables.encoding import as_arrow

    frame, y = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if not hasattr(frame, "columns"):
        raise InputError(
            Parameter(parameter), f": it must be a path or a data frame. Got {type(frame).__name__} instead."
        )
    table = as_arrow(frame)
    if table.num_rows == 0:
        raise InputError(Parameter(parameter), ": there are no rows.")
    if y is None:
        return table
    labels = as_values(y, "y")
    if labels.shape != (table.num_rows,):
        raise InputError(
            Parameter(parameter), f": a pair must have a label for each of {table.num_rows} rows. Got {len(labels)}."
        )
    if roles.label in table.column_names:
        raise InputError(
            Parameter("label"), f": {roles.label!r} is already a column. Give the labels only once, or another name."
        )
    return table.append_column(roles.label, column_of(labels.tolist()))


def _adversary(data: DataChoice, choice: ModelChoice, rows: _ReadRows, classes: NDArray[Any]) -> Adversary | None:
    """Return what the given adversary, the columns and the possible changes come to, for the rows learnt from."""
    given = choice.adversary
    check_adversary(given, rows.n_given)
    if given is not None and rows.kept is not None:
        given = replace(
            given,
            trusted=None if given.trusted is None else given.trusted[rows.kept],
            groups=None if given.groups is None else given.groups[rows.kept],
        )
    said: dict[str, Any] = {}
    if data.roles is not None:
        from flipproof.tables.columns import as_mask, as_names

        source = repr(source_name(data.train)) if is_path(data.train) else "the training rows"
        if data.roles.trusted:
            said["trusted"] = as_mask(data.roles.trusted, rows.train.others[data.roles.trusted], source)
        if data.roles.annotator:
            said["groups"] = as_names(data.roles.annotator, rows.train.others[data.roles.annotator], source)
    return _restricted(given, said, choice, classes)


def _restricted(
    given: Adversary | None, said: dict[str, Any], choice: ModelChoice, classes: NDArray[Any]
) -> Adversary | None:
    """Return the given adversary with what is said of it elsewhere; nothing may be said twice."""
    if len(choice.allowed):
        from flipproof.tables.labels import allowed_changes

        said = {**said, "allowed": allowed_changes(choice.allowed, classes)}
    if not said:
        return given
    parameters = {"trusted": "trusted", "groups": "annotator", "allowed": "allowed"}
    for name in said:
        if given is not None and getattr(given, name) is not None:
            raise InputError("give ", Parameter(parameters[name]), " only once: ", Parameter("adversary"), " has it.")
    return replace(given or Adversary(), **said)


def training_files(train: Path, test: Any) -> tuple[Path, ...]:
    """Return the Parquet files that blocks of training rows are in, sorted by name."""
    from flipproof.streaming.arrays import PARQUET, found_files, stands_for_files

    files = found_files(train, PARQUET)
    for file in files:
        if file.suffix.lower() not in PARQUET:
            raise InputError(
                Parameter("train"),
                f": {str(file)!r} must end in {' or '.join(PARQUET)}: only rows of Parquet files are visited in "
                "blocks.",
            )
    among = is_path(test) and Path(test).resolve() in {file.resolve() for file in files}
    if among and stands_for_files(train):
        raise InputError(
            Parameter("test"),
            f": {str(Path(test))!r} is one of the training files in {str(train)!r}: move it elsewhere, or give a "
            "pattern that leaves it out.",
        )
    return files


def fit_in_blocks(data: DataChoice, choice: ModelChoice, step: Step, client: Any = None, verbose: int = 0) -> Fitted:
    """Fit the learner to training rows a block at a time; columns are encoded by a sample of them, without labels.

    Parameters
    ----------
    data, choice
        Which rows and which learner.
    step : callable
        Announces what is about to happen.
    client : distributed.Client, or function that returns one, optional
        The cluster that visits the rows. A function is called once all is checked that can be checked without.
    verbose : int
        Whether to show on stderr how far each pass over the rows has come.
    """
    if data.holdout is not None or data.test is None:
        raise InputError(
            "training rows in blocks need ", Parameter("test"), ": ", Parameter("holdout"), " is for rows of a table."
        )
    if is_path(data.train):
        return _fit_to_files(data, choice, step, client, verbose)
    test = array_test_rows(data.test)
    model = make_learner(choice, list(choice.classes) or None, in_blocks=True).set_params(verbose=verbose)
    step(f"Fitting {choice.name} to rows in blocks")
    model.fit(data.train, client=_connected(client))
    from flipproof.tables.labels import check_test_labels

    check_test_labels(test.labels, model.classes_, ARRAY_LABEL)
    return Fitted(model, test, test.features, _restricted(choice.adversary, {}, choice, model.classes_), None)


def _fit_to_files(data: DataChoice, choice: ModelChoice, step: Step, client: Any, verbose: int) -> Fitted:
    import pyarrow as pa

    from flipproof.streaming import RowBlocks
    from flipproof.streaming.parquet import Footer, vector_lengths
    from flipproof.streaming.sample import draw_sample
    from flipproof.tables.columns import as_labels
    from flipproof.tables.labels import check_classes, check_test_labels
    from flipproof.tables.roles import refuse_copies_of_the_label

    train, roles = Path(data.train), data.roles
    if roles is None:
        raise InputError(Parameter("label"), ": name the column of labels.")
    files = training_files(train, data.test)
    footers = [Footer.read(str(file)) for file in files]
    n_rows = sum(footer.metadata.num_rows for footer in footers)
    names = _features_of_all(roles, footers, repr(str(train)))
    rows_of = partial(RowBlocks.from_parquet, files, roles.label, names, roles.trusted, roles.annotator)
    rows_of(encode=_nothing)  # refuses columns that do not fit
    vector_lengths(footers, names)
    types = [footer.type_of(roles.label) for footer in footers]
    typed = next((one for one in types if not pa.types.is_null(one)), pa.null())
    no_labels = as_labels(roles.label, pa.chunked_array([], typed), repr(footers[0].path))
    test = read_test_rows(data, roles, names, footers[0].schema, no_labels)
    model = make_learner(choice, _classes(choice, no_labels), in_blocks=True).set_params(verbose=verbose)
    _check_landmarks(model, n_rows)
    if n_rows < 2:
        raise ValueError(f"{str(train)!r} has {n_rows} rows: at least two are needed.")
    connected = _connected(client)
    step(f"Reading {n_rows:,} rows of {len(files):,} {'file' if len(files) == 1 else 'files'}")
    sample = draw_sample(footers, names, roles.label, verbose)
    refuse_copies_of_the_label(sample.features, sample.labels, roles.label)
    if sample.is_everything or len(set(sample.labels.to_pylist())) > 1:
        check_classes(as_labels(roles.label, sample.labels, repr(str(train))), roles.label, choice.classes)
    step("Encoding the columns")
    encoder = _fitted_to_sample(_encoder(data, roles, model), sample)
    X_test = encoder.transform(test.features)
    step(f"Fitting {choice.name} to {n_rows:,} rows")
    model.fit(rows_of(encode=encoder.transform), client=connected)
    check_test_labels(test.labels, model.classes_, roles.label)
    model._also_assume(_encoding_assumption(sample))
    adversary = _restricted(choice.adversary, {}, choice, model.classes_)
    return Fitted(model, test, X_test, adversary, encoder, files=files)


def _features_of_all(roles: Roles, footers: Sequence[Footer], source: str) -> list[str]:
    """Return the columns to learn from; unless they are named, a file that has more than the first is refused."""
    from flipproof.streaming.parquet import all_index_columns
    from flipproof.tables.roles import dropped_columns, feature_names

    first, index = footers[0], all_index_columns(footers)
    there = first.schema.names
    everywhere = list(dict.fromkeys(name for footer in footers for name in footer.schema.names))
    dropped = dropped_columns(roles, everywhere, source)
    in_first = replace(roles, id=roles.id if roles.id in there else None, drop=tuple(dropped.intersection(there)))
    names = feature_names(in_first, there, repr(str(first.path)), index)
    if roles.features:
        return names
    known = {*there, *index, *dropped, roles.id}
    for footer in footers:
        more = [name for name in footer.schema.names if name not in known]
        if more:
            raise InputError(
                f"{footer.path!r} has a column {more[0]!r}, which {first.path!r} has not: leave it out with ",
                Parameter("drop"),
                ", or name the columns with ",
                Parameter("features"),
                ".",
            )
    return names


def _connected(client: Any) -> Any:
    return client() if callable(client) else client


def _check_landmarks(model: Any, n_rows: int) -> None:
    from flipproof.learners.kernel import LARGEST_EXACT

    if getattr(model, "n_components", 0) is None and n_rows <= LARGEST_EXACT:
        raise InputError(
            Parameter("learner", "kernel"),
            ": give ",
            Parameter("n_components", "N", of_learner=True),
            f", the number of landmarks: with {n_rows:,} rows all would be compared to each other, which needs them in "
            "memory.",
        )


def _fitted_to_sample(encoder: TableEncoder, sample: Sample) -> TableEncoder:
    try:
        return encoder.fit(sample.features)
    except ValueError as error:
        if sample.is_everything:
            raise
        raise ValueError(f"in a sample of {sample.features.num_rows:,} of the training rows, {error}") from error


def _encoding_assumption(sample: Sample) -> str:
    by_whom = (
        "the training rows alone"
        if sample.is_everything
        else f"a sample of {sample.features.num_rows:,} of the {sample.n_rows:,} training rows alone"
    )
    return (
        f"The columns were turned into numbers without labels, by {by_whom}, and are taken to come out the same again."
    )


def _nothing(table: Any) -> Any:
    return table
