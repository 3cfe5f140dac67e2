"""What to fit and to which rows: choices of data and model, the learner, the adversary, and what a fit returns."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.errors import InputError, Parameter, nearest
from flipproof.learners.names import LEARNERS, LEARNERS_IN_BLOCKS

if TYPE_CHECKING:
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


def as_choices(
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
    return data, ModelChoice(learner, parameters or {}, tuple(classes), noise, n_jobs, adversary, tuple(allowed))


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
    learner = learner_inside(model)
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


def learner_inside(model: Any) -> Any:
    """Return the learner of flipproof that predicts in the end."""
    from flipproof.learners.certified import CertifiedClassifier
    from flipproof.learners.pipeline import learner_in

    learner = learner_in(model)
    if not isinstance(learner, CertifiedClassifier):
        raise InputError(
            Parameter("learner"),
            f": it must be a learner of flipproof, or a Pipeline that ends in one. Got {type(model).__name__} instead.",
        )
    return learner


def class_set(choice: ModelChoice, labels: NDArray[Any]) -> list[Any] | None:
    """Return the classes that were named, in the type of the labels; None if none were."""
    from flipproof.tables.labels import typed_classes

    return typed_classes(choice.classes, labels) if len(choice.classes) else None


def table_encoder(data: DataChoice, roles: Roles) -> TableEncoder:
    """Return what makes features of columns, not yet fitted."""
    from flipproof.tables import TableEncoder

    return TableEncoder(roles.text, scale=data.scale, text_dimensions=data.text_dimensions)


def refuse_encoded_features(learner: Any) -> None:
    """Refuse a fitted learner that certifies against changed features: those decide how columns are encoded."""
    if learner.covers_features:
        raise InputError(
            Parameter("learner"),
            ": certificates against changed features cannot be had for a table, whose columns are encoded by the "
            "features that may be changed. Give arrays instead.",
        )


def restricted(
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
