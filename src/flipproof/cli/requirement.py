"""Options for requirements: the command exits with code 1 if certificates do not meet them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli import EXIT_REQUIREMENT
from flipproof.cli.options import REQUIREMENT, Command, option, together
from flipproof.readable import four_decimals

if TYPE_CHECKING:
    from flipproof.requirements import Judgement, Requirement


def min_radius(text: str) -> Requirement:
    """Parse RADIUS or RADIUS@SHARE."""
    radius, at, share = text.partition("@")
    flips, part = _whole(radius), _share(share) if at else 1.0
    if flips is None or part is None:
        raise click.BadParameter(f"{text!r} must be a number of flips, or RADIUS@SHARE, for example 10 or 10@0.9.")
    from flipproof.requirements import Requirement

    return Requirement("radius", part, flips, f"--min-radius {text}")


def min_certified_accuracy(text: str) -> Requirement:
    """Parse ACCURACY@FLIPS."""
    share, _, radius = text.partition("@")
    flips, part = _whole(radius), _share(share)
    if flips is None or part is None:
        raise click.BadParameter(f"{text!r} must be ACCURACY@FLIPS, for example 0.9@100.")
    from flipproof.requirements import Requirement

    return Requirement("accuracy", part, flips, f"--min-certified-accuracy {text}")


def min_certified_recall(text: str) -> Requirement:
    """Parse [CLASS:]RECALL@FLIPS from the end: numbers contain neither ":" nor "@", but names of classes may."""
    before, _, radius = text.rpartition("@")
    label, _, share = before.rpartition(":")
    flips, part = _whole(radius), _share(share)
    if flips is None or part is None or before.startswith(":"):
        raise click.BadParameter(
            f"{text!r} must be RECALL@FLIPS for the worst class, or CLASS:RECALL@FLIPS, for example spam:0.6@5."
        )
    from flipproof.requirements import Requirement

    return Requirement("recall", part, flips, f"--min-certified-recall {text}", label or None)


def _required(name: str, parse: Callable[[str], Requirement], metavar: str, says: str) -> Callable[[Command], Command]:
    def read(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> tuple[Requirement, ...]:
        return tuple(parse(text) for text in given)

    return option(name, group=REQUIREMENT, callback=read, multiple=True, metavar=metavar, help=says)


requirement_options = together(
    _required(
        "--min-radius",
        min_radius,
        "RADIUS[@SHARE]",
        "Exit with 1 unless all predictions, or this share of them, have at least this radius. Requirements can be "
        "combined and repeated.",
    ),
    _required(
        "--min-certified-accuracy",
        min_certified_accuracy,
        "ACCURACY@FLIPS",
        "Exit with 1 unless certified accuracy at FLIPS is at least ACCURACY.",
    ),
    _required(
        "--min-certified-recall",
        min_certified_recall,
        "[CLASS:]RECALL@FLIPS",
        "Exit with 1 unless certified recall of CLASS at FLIPS is at least RECALL. Default: of the worst class.",
    ),
)


def taken_requirements(options: dict[str, Any]) -> list[Requirement]:
    """Remove the requirements from a command's options and return them."""
    names = ("min_radius", "min_certified_accuracy", "min_certified_recall")
    return [one for name in names for one in options.pop(name)]


def found_words(outcome: Mapping[str, Any]) -> str:
    """Return the requirement and the value found, rounded down: 0.89996 is not 0.9."""
    of_class = "" if outcome.get("class") is None else f" (class {outcome['class']})"
    return f"{outcome['text']}, found {four_decimals(outcome['found'])}{of_class}"


def exit_code(judged: Sequence[Judgement]) -> int:
    """Name the requirements that are not met on stderr, and return the exit code."""
    for one in judged:
        if not one.passed:
            print(f"flipproof: not met: {found_words(one.facts)}.", file=sys.stderr)
    return 0 if all(one.passed for one in judged) else EXIT_REQUIREMENT


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None
