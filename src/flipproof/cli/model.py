"""The options that say which learner and which adversary, and the fit."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

import flipproof
from flipproof.cli.data import DataChoice, Rows, read_rows
from flipproof.cli.options import ADVERSARY, MODEL, Command, nearest, option, split_at_commas, together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flipproof.adversary import Adversary
    from flipproof.cli.talk import Step

LEARNERS = {
    "ridge": "CertifiedRidgeClassifier",
    "neighbors": "CertifiedNeighborsClassifier",
    "kernel": "CertifiedKernelClassifier",
    "cluster": "CertifiedClusterClassifier",
    "forest": "CertifiedForestClassifier",
    "partition": "CertifiedPartitionClassifier",
}

#: Parameters that have an option of their own, or none.
OWN_OPTIONS = ("noise", "method", "features", "classes", "n_jobs", "block_size", "verbose")

#: Reading, encoding and fitting.
FIT_STEPS = 3


def learner_options(names: Sequence[str]) -> Callable[[Command], Command]:
    """Return the options of learners and adversaries, with these learners to choose from."""
    return together(
        option(
            "--learner",
            group=MODEL,
            type=click.Choice(names),
            default="ridge",
            help="Type of classifier. Default: ridge",
        ),
        option(
            "--set",
            "settings",
            group=MODEL,
            multiple=True,
            metavar="NAME=VALUE",
            help="Set a parameter of the learner, such as n_neighbors=50. Repeatable.",
        ),
        option(
            "--classes",
            group=MODEL,
            multiple=True,
            callback=split_at_commas,
            metavar="CLASSES",
            help="All classes, separated by commas. Default: read from the labels, which is then an assumption.",
        ),
        option("--jobs", group=MODEL, type=int, metavar="N", help="Number of threads. Results do not depend on it."),
        option(
            "--trusted", group=ADVERSARY, metavar="COL", help="Column that is true for labels that cannot be changed."
        ),
        option(
            "--annotator",
            group=ADVERSARY,
            metavar="COL",
            help="Column with the annotator of each row. Radii then count annotators.",
        ),
        option(
            "--allow",
            group=ADVERSARY,
            multiple=True,
            metavar="OLD:NEW",
            help="Allow only this label change. Repeatable. Default: all changes.",
        ),
    )


@dataclass(frozen=True)
class ModelChoice:
    """What the options of learners and adversaries say."""

    learner: str
    settings: tuple[str, ...]
    classes: tuple[str, ...]
    jobs: int | None
    trusted: str | None
    annotator: str | None
    allow: tuple[str, ...]

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> ModelChoice:
        """Take what belongs here out of a command's options."""
        return cls(**{name: options.pop(name) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Fitted:
    """A learner that was fitted to training rows, and the rows that it is to predict."""

    learner: Any
    test: Rows
    X_test: NDArray[Any]
    adversary: Adversary | None
    encoding: tuple[str, ...]
    columns: tuple[str, ...]
    n_train: int


@dataclass(frozen=True)
class FittedInMemory(Fitted):
    """A learner that was fitted to the rows of a file."""

    train: Rows


def fit(data: DataChoice, choice: ModelChoice, noise: Any, step: Step) -> FittedInMemory:
    """Read the rows, encode their columns without labels, and fit the learner."""
    step(f"Reading {data.train.name}")
    train, test = read_rows(data, (choice.trusted or "", choice.annotator or ""))
    labels = train.labels
    if labels is None:
        raise ValueError(f"there are no labels in column {data.label!r}.")
    from flipproof.cli.labels import check_classes, check_test_labels, typed_classes

    check_classes(labels, data.label, choice.classes)
    classes = typed_classes(choice.classes, labels) if choice.classes else None
    learner = make_learner(choice, noise, classes)
    step("Encoding the columns")
    from flipproof.assumptions import Assumption
    from flipproof.tables import TableEncoder

    encoder = TableEncoder(data.text, scale=data.scale, text_dimensions=data.text_dimensions)
    X_train, X_test = encoder.fit_transform(train.features), encoder.transform(test.features)
    step(f"Fitting {choice.learner} to {len(train)} rows")
    learner.fit(X_train, labels)
    check_test_labels(test.labels, learner.classes_, data.label)
    learner._also_assume(Assumption("columns-encoded", {"n_encoded": len(train), "n_rows": len(train)}))
    adversary = _adversary(choice, train, learner.classes_, repr(str(data.train)))
    learner.powers(adversary)
    columns = tuple(train.features.column_names)
    return FittedInMemory(
        learner, test, X_test, adversary, tuple(encoder.describe()), columns, n_train=len(train), train=train
    )


def make_learner(choice: ModelChoice, noise: Any, classes: Sequence[Any] | None, in_blocks: bool = False) -> Any:
    """Return the learner for rows in memory or in blocks, not yet fitted."""
    name = LEARNERS[choice.learner]
    kind = getattr(flipproof, name.replace("Certified", "Streaming") if in_blocks else name)
    known = inspect.signature(kind.__init__).parameters
    given: dict[str, Any] = {"classes": classes, "n_jobs": choice.jobs}
    if noise is not None:
        if "noise" not in known:
            raise ValueError(f"--noise: the learner {choice.learner!r} works without noise.")
        given["noise"] = noise
    settable = [name for name in known if name != "self" and name not in OWN_OPTIONS]
    for setting in choice.settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in settable:
            raise ValueError(
                f"--set: {setting!r} must be NAME=VALUE with one of {', '.join(settable)}.{nearest(name, settable)}"
            )
        given[name] = _value(value)
    return kind(**given)


def parameters_of(learner: Any) -> dict[str, Any]:
    """Return a learner's parameters as plain values."""
    left_out = ("features", "verbose")
    own = {name: value for name, value in learner.get_params(deep=False).items() if name not in left_out}
    return dict(json.loads(json.dumps(own, default=str)))


def _value(text: str) -> Any:
    """Return a number, a boolean or None, as JSON or Python writes it, or the text itself."""
    constants = {"None": None, "True": True, "False": False}
    if text in constants:
        return constants[text]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _adversary(choice: ModelChoice, train: Rows, classes: NDArray[Any], source: str) -> Adversary | None:
    from flipproof.adversary import Adversary
    from flipproof.cli.labels import allowed_changes
    from flipproof.tables.columns import as_mask, as_names

    if not (choice.trusted or choice.annotator or choice.allow):
        return None
    return Adversary(
        trusted=as_mask(choice.trusted, train.others[choice.trusted], source) if choice.trusted else None,
        groups=as_names(choice.annotator, train.others[choice.annotator], source) if choice.annotator else None,
        allowed=allowed_changes(choice.allow, classes) if choice.allow else None,
    )
