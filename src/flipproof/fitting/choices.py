"""The data and the model to fit: the caller's choices, the learner, the adversary, and the result of a fit."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.core.powers import CHANGES
from flipproof.core.rounding import Values
from flipproof.errors import InputError, Parameter, nearest
from flipproof.fitting.crowd import CrowdChoice, crowd_choice
from flipproof.fitting.sources import Estimator, FilePath, Source, is_path
from flipproof.learners.names import LEARNERS, LEARNERS_IN_BLOCKS
from flipproof.parameters import NONE, share

if TYPE_CHECKING:
    from flipproof.learners.baseline import TrustedOnlyPredictions
    from flipproof.tables import TableEncoder, TextLayout
    from flipproof.tables.roles import Roles, Rows

#: Called with the name of each step before it begins.
Step = Callable[[str], None]

#: Steps that `fit` announces: reading, encoding and fitting.
FIT_STEPS = 3

#: Parameters of learners that cannot be set through `parameters`.
OWN_PARAMETERS = ("noise", "method", "features", "classes", "n_jobs", "block_size", "verbose")

#: Name of an array of labels in errors, in place of a column name.
ARRAY_LABEL = "y"


@dataclass(frozen=True)
class DataChoice:
    """The training and test rows, and how to read them.

    Attributes
    ----------
    train
        A path, a data frame, a pair (X, y), or rows in blocks.
    test
        As `train`, except blocks; labels are optional. None with `holdout`.
    roles : Roles, optional
        Roles of the columns; None for arrays and rows in blocks, which have no label column.
    holdout : float, optional
        Share of the training rows to hold out as test rows, instead of `test`.
    seed : int
        Random seed for `holdout`.
    layout : TextLayout, optional
        Layout of text files.
    scale : str
        Scaling of numbers, as in TableEncoder.
    text_dimensions : int
        Number of features per text column.
    text_encoder
        What encodes text columns instead: a transformer, or the folder of a sentence-transformers model.
    reference
        Rows that nobody may have changed, optional: a path or a data frame if `train` is a table, else an array.
    reference_labels : bool
        Whether the labels of the reference are trusted: its label column, or y of a pair (X, y).
    crowd : CrowdChoice, optional
        Where the annotations are, if items have several labels.
    """

    train: Any
    test: Any = None
    roles: Roles | None = None
    holdout: float | None = None
    seed: int = 0
    layout: TextLayout | None = None
    scale: str = "auto"
    text_dimensions: int = 200
    reference: Any = None
    reference_labels: bool = False
    crowd: CrowdChoice | None = None
    text_encoder: FilePath | Estimator | None = None


@dataclass(frozen=True)
class ModelChoice:
    """The learner and the adversary.

    Attributes
    ----------
    learner : str or estimator
        One of LEARNERS, or an estimator, which is cloned.
    parameters : mapping
        Parameters of the learner.
    classes : sequence
        All classes; strings are converted to the type of the labels. If empty, classes are read from the labels.
    noise
        Noise of the learner, optional.
    n_jobs : int, optional
        Number of threads.
    adversary : Adversary, optional
        Adversary for the labels of the training rows as given.
    allowed : sequence
        Allowed label changes: pairs (old, new), or strings "OLD:NEW".
    changes : {"labels", "rows", "insertions", "removals"}
        What may be changed. "labels": what `adversary` may change.
    length : number, timedelta or str, optional
        Length of a window of time, if the roles name a column of timestamps.
    verbose : int
        Whether the learner shows its progress on stderr.
    title : str
        Name of the learner beside others; empty: that of the learner.
    """

    learner: str | Estimator = "ridge"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    classes: Sequence[object] = ()
    noise: float | str | None = None
    n_jobs: int | None = None
    adversary: Adversary | None = None
    allowed: Sequence[object] = ()
    changes: str = "labels"
    length: Any = None
    verbose: int = 0
    title: str = ""

    @property
    def changes_rows(self) -> bool:
        """Whether whole rows may be changed."""
        return self.changes != "labels" or (self.adversary is not None and self.adversary.changes_rows)

    @property
    def name(self) -> str:
        """Name of the learner."""
        if self.title:
            return self.title
        return self.learner if isinstance(self.learner, str) else type(self.learner).__name__


def as_choices(
    train: Source,
    test: Source | None = None,
    *,
    label: str | None = None,
    learner: str | Estimator = "ridge",
    parameters: Mapping[str, object] | None = None,
    classes: Sequence[object] = (),
    noise: float | str | None = None,
    n_jobs: int | None = None,
    adversary: Adversary | None = None,
    allowed: Sequence[object] = (),
    changes: str = "labels",
    length: object = None,
    verbose: int = 0,
    clip: float | str | None = None,
    prior: str | Estimator | None = None,
    prior_weight: float | None = None,
    reference: Source | None = None,
    reference_labels: bool = False,
    holdout: float | None = None,
    seed: int = 0,
    layout: TextLayout | None = None,
    scale: str = "auto",
    text_dimensions: int = 200,
    text_encoder: FilePath | Estimator | None = None,
    labels: Source | None = None,
    item: str | None = None,
    annotators: str | Sequence[str] = (),
    aggregate: str | None = None,
    count: str | None = None,
    title: str = "",
    **columns: object,
) -> tuple[DataChoice, ModelChoice]:
    """Convert arguments of `flipproof.audit` to choices of data and model; `columns` are the other roles.

    `title` is the name of the learner beside others.
    """
    check_holdout(holdout)
    _check_standard_input({"train": train, "test": test, "reference": reference, "labels": labels})
    roles = _roles(train, label, columns)
    crowd, of_items = crowd_choice(labels, item, annotators, aggregate, count, roles)
    data = DataChoice(
        *(train, test, of_items, holdout, seed, layout, scale, text_dimensions, reference, reference_labels, crowd),
        text_encoder=text_encoder,
    )
    if text_encoder is not None and (roles is None or not roles.text):
        raise InputError(Parameter("text_encoder"), " requires ", Parameter("text"), ", the columns with texts.")
    given = dict(parameters or {})
    if clip is not None:
        if "clip" in given:
            raise InputError("give ", Parameter("clip"), " only once: it is also set in ", Parameter("parameters"), ".")
        given["clip"] = clip
    if prior is not None or prior_weight is not None:
        from flipproof.fitting.trust import prior_parameters

        given |= prior_parameters(prior, prior_weight, given)
    if reference_labels and reference is None:
        raise InputError(Parameter("reference_labels"), " requires ", Parameter("reference"), ".")
    choice = ModelChoice(
        learner, given, tuple(classes), noise, n_jobs, adversary, tuple(allowed), changes, length, verbose, title
    )
    _check_changes(data, choice)
    _check_window(roles, choice)
    return data, choice


def check_holdout(holdout: object) -> None:
    """Raise InputError unless the share of held-out rows is a share between 0 and 1, or None."""
    if not (NONE | share()).allows(holdout):
        raise InputError(
            Parameter("holdout"), f": it must be a share between 0 and 1, for example 0.25. Got {holdout!r} instead."
        )


def _check_standard_input(given: Mapping[str, Any]) -> None:
    """Raise InputError if two sources of rows are standard input, which can be read once."""
    twice = [name for name, rows in given.items() if is_path(rows) and os.fspath(rows) == "-"]
    if len(twice) > 1:
        one, other = (Parameter(name) for name in twice[:2])
        raise InputError(one, " and ", other, " cannot both be -: standard input can be read only once.")


def _check_changes(data: DataChoice, choice: ModelChoice) -> None:
    """Raise InputError for changes that cannot be combined with the other choices."""
    changes = Parameter("changes", choice.changes)
    if choice.changes not in CHANGES:
        raise InputError(
            Parameter("changes"),
            f": {choice.changes!r} must be one of {', '.join(CHANGES)}.{nearest(str(choice.changes), CHANGES)}",
        )
    if not choice.changes_rows:
        return
    if choice.changes == "labels":
        assert choice.adversary is not None
        changes = Parameter("changes", choice.adversary.changes)
    elif choice.adversary is not None and choice.adversary.changes not in ("labels", choice.changes):
        raise InputError("give ", changes, " only once: it is also set in ", Parameter("adversary"), ".")
    if data.reference is None:
        raise InputError(
            changes,
            " requires ",
            Parameter("reference"),
            ": rows that nobody may have changed, without labels. All but the votes is learned from them.",
        )
    if data.crowd is not None:
        several = Parameter("annotators" if data.crowd.annotators else "labels")
        raise InputError(changes, " cannot be combined with ", several, ": it requires one label per row.")
    if len(choice.allowed):
        raise InputError(
            Parameter("allowed"), " cannot be combined with ", changes, ": an added row may have any label."
        )
    if changes.value == "insertions" and data.roles is not None and data.roles.annotator:
        raise InputError(
            Parameter("annotator"),
            " cannot be combined with ",
            changes,
            ": there is no limit to the number of rows that a source could add.",
        )


def _check_window(roles: Roles | None, choice: ModelChoice) -> None:
    """Raise InputError for windows of time that are incomplete or combined with other units."""
    window = None if roles is None else roles.window
    if (window is None) != (choice.length is None):
        raise InputError("give ", Parameter("window"), " and ", Parameter("length"), " together.")
    if window is None or roles is None:
        return
    if roles.annotator:
        raise InputError(
            Parameter("window"), " cannot be combined with ", Parameter("annotator"), ": a radius counts one of them."
        )
    if choice.changes_rows:
        changes = choice.changes if choice.adversary is None or choice.changes != "labels" else choice.adversary.changes
        raise InputError(
            Parameter("window"), " cannot be combined with ", Parameter("changes", changes), ": windows are of labels."
        )


def _roles(train: Source, label: str | None, others: Mapping[str, Any]) -> Roles | None:
    """Return the roles of the columns; None for rows that are not a table."""
    frame = train[0] if isinstance(train, tuple) and len(train) == 2 else train
    if not is_path(train) and not hasattr(frame, "columns"):
        for name, value in {"label": label, **others}.items():
            if value:
                raise InputError(Parameter(name), ": it requires a file or a data frame with columns.")
        return None
    if label is None and isinstance(train, tuple):
        label = str(getattr(train[1], "name", None) or "label")
    if not isinstance(label, str):
        raise InputError(Parameter("label"), f": it must name the label column. Got {label!r} instead.")
    from flipproof.tables.roles import Roles

    several = {name: others.get(name, ()) for name in ("features", "drop", "text", "categories", "show")}
    listed = {name: (given,) if isinstance(given, str) else tuple(given) for name, given in several.items()}
    return Roles(label, **{**others, **listed})


@dataclass(frozen=True)
class Fitted:
    """A fitted learner and its test rows.

    Attributes
    ----------
    model : estimator
        The fitted learner.
    test : Rows
        Test rows.
    X_test : array of shape (m, k)
        Features of the test rows, as input of the model.
    adversary : Adversary, optional
        Adversary for the labels that the model was fitted to.
    encoder : TableEncoder, optional
        Encoder of the columns; None if the rows were given as numbers.
    train : Rows, optional
        Training rows; None if they were read in blocks.
    files : tuple of paths
        Files of training rows in blocks.
    n_reference : int, optional
        Number of rows of the reference, if there is one.
    X_reference : array of shape (r, k), optional
        Features of the reference, as input of the model, if the training rows are in memory.
    X_train : array of shape (n, k), optional
        Features of the training rows, as input of the model, if they are in memory and there is a reference.
    trusted_only : tuple of TrustedOnlyPredictions
        Predictions that depend on trusted labels only; empty if no label is trusted.
    n_trusted : int
        Number of trusted labels, those of the reference included.
    seconds : float
        Duration of the fit of the learner to rows in memory, or of the choice of one.
    n_unclear : int
        How many items that were held out are no test rows, because the majority of their labels is not clear.
    """

    model: Any
    test: Rows
    X_test: NDArray[Any]
    adversary: Adversary | None
    encoder: TableEncoder | None
    train: Rows | None = None
    files: tuple[Path, ...] = ()
    n_reference: int | None = None
    X_reference: Any = None
    word_columns: tuple[str, ...] = ()
    X_train: Any = None
    trusted_only: tuple[TrustedOnlyPredictions, ...] = ()
    n_trusted: int = 0
    seconds: float = 0.0
    n_unclear: int = 0

    @property
    def encoding(self) -> tuple[str, ...]:
        """Descriptions of how the columns were encoded."""
        return () if self.encoder is None else tuple(self.encoder.describe())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that were encoded as features."""
        return () if self.encoder is None else tuple(self.test.features.column_names)


def keeps_rows_in_blocks(learner: object) -> bool:
    """Whether a learner takes training rows in blocks."""
    from flipproof.streaming.rows_in_blocks import RowsInBlocks

    return isinstance(learner, RowsInBlocks)


def make_learner(choice: ModelChoice, classes: Sequence[object] | None, in_blocks: bool = False) -> Any:
    """Return the unfitted learner for rows in memory or in blocks."""
    given = {"classes": classes, "n_jobs": choice.n_jobs, "noise": choice.noise}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(choice.learner, str):
        kind = _learner_class(choice.learner, in_blocks)
        known = list(inspect.signature(kind.__init__).parameters)[1:]
        _check_parameters(choice, known)
        return kind(**given, **choice.parameters, verbose=choice.verbose)
    if not hasattr(choice.learner, "get_params"):
        raise InputError(
            Parameter("learner"),
            f": it must be one of {', '.join(LEARNERS)}, or an estimator. Got {choice.learner!r} instead.",
        )
    if in_blocks and not keeps_rows_in_blocks(choice.learner):
        raise InputError(
            Parameter("learner"),
            f": {choice.name} needs all training rows in memory. For rows in blocks, use "
            f"{' or '.join(LEARNERS_IN_BLOCKS.values())}.",
        )
    from sklearn.base import clone

    model = clone(choice.learner)
    learner = learner_inside(model)
    known = list(learner.get_params(deep=False))
    _check_parameters(choice, known)
    if choice.verbose and "verbose" in known:  # not in custom learners with their own parameters
        given["verbose"] = choice.verbose
    learner.set_params(**given, **choice.parameters)
    return model


def settable_parameters(learner: str, in_blocks: bool = False) -> list[str]:
    """Return the names of the parameters of a learner that can be set."""
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
            f": {name} needs all training rows in memory. For rows in blocks, use {' or '.join(LEARNERS_IN_BLOCKS)}.",
        )
    return getattr(flipproof, (LEARNERS_IN_BLOCKS if in_blocks else LEARNERS)[name])


def _check_parameters(choice: ModelChoice, known: list[str]) -> None:
    if choice.noise is not None and "noise" not in known:
        raise InputError(Parameter("noise"), f": the learner {choice.name!r} has no noise.")
    settable = [name for name in known if name not in OWN_PARAMETERS]
    if "clip" in choice.parameters and "clip" not in settable:
        raise InputError(
            Parameter("clip"),
            f": the learner {choice.name!r} has no votes to clip. Use ridge, kernel or forest, or omit it.",
        )
    if "prior" in choice.parameters and "prior" not in settable:
        raise InputError(Parameter("prior"), f": the learner {choice.name!r} takes no prior.")
    for name in choice.parameters:
        if name not in settable:
            raise InputError(
                Parameter("parameters"), f": {name!r} must be one of {', '.join(settable)}.{nearest(name, settable)}"
            )


def learner_inside(model: object) -> Any:
    """Return the flipproof learner: the model itself, or the last step of a Pipeline."""
    from flipproof.learners.certified import CertifiedClassifier
    from flipproof.learners.pipeline import learner_in, remedy_for

    learner = learner_in(model)
    if getattr(learner, "predicts_numbers", False):
        raise InputError(
            Parameter("learner"),
            f": {type(learner).__name__} predicts numbers, and this is about classes. Use flipproof.audit_numbers.",
        )
    if not isinstance(learner, CertifiedClassifier):
        raise InputError(
            Parameter("learner"),
            f": it must be a flipproof learner, or a Pipeline that ends in one. Got {type(model).__name__} instead"
            f"{remedy_for(learner)}.",
        )
    return learner


def class_set(choice: ModelChoice, labels: Values) -> list[Any] | None:
    """Return the given classes in the type of the labels; None if no classes were given."""
    from flipproof.tables.labels import typed_classes

    return typed_classes(choice.classes, labels) if len(choice.classes) else None


def table_encoder(data: DataChoice, roles: Roles) -> TableEncoder:
    """Return an unfitted encoder of the columns."""
    from flipproof.tables import TableEncoder

    return TableEncoder(
        roles.text,
        scale=data.scale,
        text_dimensions=data.text_dimensions,
        categories=roles.categories,
        text_encoder=_text_encoder(data.text_encoder),
    )


def _text_encoder(given: object) -> Any:
    """Return an encoder of texts: as given, or a SentenceEncoder for the folder of a model."""
    if not isinstance(given, (str, os.PathLike)):
        return given
    from flipproof.features import SentenceEncoder

    return SentenceEncoder(given)


def assumptions_about_texts(encoder: TableEncoder | None) -> list[Assumption]:
    """Return what is assumed of the encoder of text columns that was given, if there is one."""
    if encoder is None or encoder.text_encoder is None:
        return []
    from flipproof.learners.clones import assumptions_about

    stated = getattr(encoder.text_encoder, "rests_on", None)
    found = assumptions_about(encoder.text_encoder, "text encoder")
    return [*found, stated] if isinstance(stated, Assumption) else found


def refuse_encoded_features(learner: Any) -> None:
    """Raise InputError if a learner certifies against changed features: the encoding depends on the features."""
    if learner.covers_features:
        raise InputError(
            Parameter("learner"),
            ": certificates against changed features require arrays. The encoding of a table depends on the features "
            "that may be changed.",
        )


def restricted(given: Adversary | None, said: dict[str, Any], choice: ModelChoice, classes: Values) -> Adversary | None:
    """Return the given adversary, restricted by columns and allowed changes; raise if a restriction is given twice."""
    if len(choice.allowed):
        from flipproof.tables.labels import allowed_changes

        said = {**said, "allowed": allowed_changes(choice.allowed, classes)}
    if choice.changes != "labels":
        given = replace(given or Adversary(), changes=choice.changes)
    if not said:
        return given
    parameters = {"groups": "annotator"}
    for name in said:
        if given is not None and getattr(given, name) is not None:
            raise InputError(
                "give ",
                Parameter(parameters.get(name, name)),
                " only once: it is also set in ",
                Parameter("adversary"),
                ".",
            )
    return replace(given or Adversary(), **said)
