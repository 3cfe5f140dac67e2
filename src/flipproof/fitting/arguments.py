"""Arguments about data, learner and adversary, which all functions that fit to files, frames or arrays share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from flipproof.errors import InputError, Parameter, nearest
from flipproof.fitting.choices import Step
from flipproof.fitting.sources import Estimator, FilePath, Source, comes_in_blocks, is_path

if TYPE_CHECKING:
    from flipproof.adversary import Adversary
    from flipproof.tables import TextLayout


class FitArguments(TypedDict, total=False):
    """Arguments of :func:`flipproof.audit` about rows, columns and the adversary; that function documents them."""

    label: str | None
    classes: Sequence[object]
    adversary: Adversary | None
    changes: str
    reference: Source | None
    reference_labels: bool
    clip: str | float | None
    trusted: str | None
    annotator: str | None
    window: str | None
    length: object
    allowed: Sequence[object]
    labels: Source | None
    item: str | None
    annotators: Sequence[str]
    aggregate: str | None
    count: str | None
    features: Sequence[str]
    drop: Sequence[str]
    text: Sequence[str]
    categories: Sequence[str]
    id: str | None
    scale: str
    text_dimensions: int
    text_encoder: FilePath | Estimator | None
    layout: TextLayout | None
    holdout: float | None
    seed: int
    n_jobs: int | None
    verbose: int


class FitArgumentsWithPrior(FitArguments, total=False):
    """The same, and the prior."""

    prior: str | Estimator | None
    prior_weight: float | None


def check_arguments_of(owner: Callable[..., object], options: Mapping[str, object]) -> None:
    """Raise TypeError for one of the further arguments of a function that does not exist."""
    own = [
        name
        for name, one in inspect.signature(owner).parameters.items()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    known = [*FitArgumentsWithPrior.__annotations__, *own]
    for name in options:
        if name not in FitArgumentsWithPrior.__annotations__:
            raise TypeError(f"{owner.__name__}() got an unexpected argument {name!r}.{nearest(name, known)}")


def require_pyarrow(owner: str) -> None:
    """Raise ImportError with the remedy if tables cannot be read."""
    if find_spec("pyarrow") is None:
        raise ImportError(f"flipproof.{owner} needs pyarrow: pip install 'flipproof[cli]'")


def refuse_blocks(train: Source, who_needs: str) -> None:
    """Raise InputError for training rows in blocks; `who_needs` begins the reason, such as "attacks need"."""
    if not comes_in_blocks(train):
        return
    reason = f"{who_needs} all training rows in memory, but"
    if is_path(train):
        shown = repr(str(Path(train)))
        raise InputError(
            Parameter("train"), f": {shown} must be a file: {reason} folders and patterns are read in blocks."
        )
    raise InputError(Parameter("train"), f": {reason} {type(train).__name__} are read in blocks.")


def no_step(text: str) -> None:
    """Announce nothing: the progress of a function without one."""


def as_step(progress: Step | None) -> Step:
    """Return what announces steps."""
    return no_step if progress is None else progress
