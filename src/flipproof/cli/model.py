"""Options that select the learner and the adversary."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from flipproof.cli.options import ADVERSARY, MODEL, Command, option, split_at_commas, together
from flipproof.errors import nearest

#: Priors by name; those of `flipproof.fitting.trust` are not imported for the same reason as below.
PRIORS = ("forest", "logistic", "ridge")

#: What may be changed. The choices of `Adversary` are not imported: `--help` must not load NumPy.
CHANGES = ("labels", "rows", "insertions", "removals")


def read_clip(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | str | None:
    """Parse a share in (0, 1], or "sign"."""
    if text is None or text == "sign":
        return text
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise click.BadParameter(f"{text!r} must be a share above 0 and at most 1, for example 0.9, or sign.")
    return share


#: What an adversary may change.
adversary_options = together(
    option(
        "--changes",
        group=ADVERSARY,
        type=click.Choice(CHANGES),
        default="labels",
        help="What may be changed: labels, or whole rows that are added, removed or replaced (rows), only added "
        "(insertions), or only removed (removals). Rows require --reference. Default: labels",
    ),
    option(
        "--trusted",
        group=ADVERSARY,
        metavar="COL",
        help="Column that is true for labels that cannot be changed, or rows that cannot be removed or replaced.",
    ),
    option(
        "--annotator",
        group=ADVERSARY,
        metavar="COL",
        help="Column with the annotator, or source, of each row. Radii then count annotators or sources.",
    ),
    option(
        "--window",
        group=ADVERSARY,
        metavar="COL",
        help="Column with the timestamp of each label. Radii then count windows of time of the given --length.",
    ),
    option(
        "--length",
        group=ADVERSARY,
        metavar="LENGTH",
        help="Length of a window, both ends included: 7d, 12h, 30min; or a number, if timestamps are numbers.",
    ),
    option(
        "--allow",
        group=ADVERSARY,
        multiple=True,
        metavar="OLD:NEW",
        help="Allow only this label change. Repeatable. Default: all changes.",
    ),
)


def learner_options(names: Sequence[str], several: bool = False) -> Callable[[Command], Command]:
    """Return the options of learner and adversary, with these learners as choices; `several` may be given if so."""
    return together(
        option(
            "--learner",
            "learners" if several else "learner",
            group=MODEL,
            type=click.Choice(names),
            multiple=several,
            default=None if several else "ridge",
            help="Type of classifier. Repeatable. Default: all" if several else "Type of classifier. Default: ridge",
        ),
        option(
            "--set",
            "settings",
            group=MODEL,
            multiple=True,
            metavar="[LEARNER:]NAME=VALUE" if several else "NAME=VALUE",
            help="Set a parameter of one learner, for example forest:n_estimators=50, or of all. Repeatable. With "
            "--select, a JSON list of values to try: ridge:regularization=[1,100]."
            if several
            else "Set a parameter of the learner, for example n_neighbors=50. Repeatable.",
        ),
        option(
            "--clip",
            group=MODEL,
            callback=read_clip,
            metavar="SHARE|sign",
            help="Limit the votes of single rows to the size that this share of the votes does not exceed, or count "
            "only their signs. For ridge, kernel and forest; often increases radii. Default: no limit",
        ),
        option(
            "--prior",
            group=MODEL,
            type=click.Choice(PRIORS),
            help="Classifier that votes beside the labels, fitted to trusted labels alone (--trusted, or "
            "--reference-labels): a random forest, logistic or ridge regression. Default: none",
        ),
        option(
            "--prior-weight",
            group=MODEL,
            type=click.FloatRange(min=0),
            metavar="W",
            help="Weight of the prior. 1 counts as much as all votes together. Default: 1",
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
        adversary_options,
    )


@dataclass(frozen=True)
class ModelOptions:
    """Values of the learner and adversary options."""

    learner: str
    settings: tuple[str, ...]
    clip: float | str | None
    prior: str | None
    prior_weight: float | None
    classes: tuple[str, ...]
    jobs: int | None
    changes: str
    trusted: str | None
    annotator: str | None
    window: str | None
    length: str | None
    allow: tuple[str, ...]

    @classmethod
    def taken_from(cls, options: dict[str, object]) -> ModelOptions:
        """Remove these options from a command's options and return them."""
        values: dict[str, Any] = {
            name: options.pop(name) for name in cls.__dataclass_fields__
        }  # of the types that click has read
        return cls(**values)

    def parameters(self, in_blocks: bool = False) -> dict[str, Any]:
        """Return the parameters of the learner, for rows in memory or in blocks."""
        if not self.settings:
            return {}
        from flipproof.fitting import settable_parameters

        return given_settings(self.settings, settable_parameters(self.learner, in_blocks))

    def arguments(self, in_blocks: bool = False) -> dict[str, Any]:
        """Return the options as arguments of `flipproof.audit`."""
        same = ("learner", "clip", "classes", "changes", "trusted", "annotator", "window", "length")
        of_prior = {"prior": self.prior, "prior_weight": self.prior_weight}
        own = {"parameters": self.parameters(in_blocks), "n_jobs": self.jobs, "allowed": self.allow}
        return {name: getattr(self, name) for name in same} | own | of_prior


def given_settings(settings: Sequence[str], settable: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE of parameters that can be set."""
    given = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in settable:
            raise ValueError(
                f"--set: {setting!r} must be NAME=VALUE with one of {', '.join(settable)}.{nearest(name, settable)}"
            )
        given[name] = _value(value)
    return given


def _value(text: str) -> Any:
    """Parse a number, a boolean or None in JSON or Python notation; return other text unchanged."""
    constants = {"None": None, "True": True, "False": False}
    if text in constants:
        return constants[text]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
