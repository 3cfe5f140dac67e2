"""Options for requirements: the command exits with code 1 if certificates do not meet them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flipproof.readable import four_decimals

if TYPE_CHECKING:
    from flipproof.requirements import Requirement


def min_radius(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Requirement | None:
    """Parse RADIUS or RADIUS@SHARE."""
    if text is None:
        return None
    radius, at, share = text.partition("@")
    flips, part = _whole(radius), _share(share) if at else 1.0
    if flips is None or part is None:
        raise click.BadParameter(f"{text!r} must be a number of flips, or RADIUS@SHARE, for example 10 or 10@0.9.")
    from flipproof.requirements import Requirement

    return Requirement("radius", part, flips, f"--min-radius {text}")


def min_certified_accuracy(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> Requirement | None:
    """Parse ACCURACY@FLIPS."""
    if text is None:
        return None
    share, _, radius = text.partition("@")
    flips, part = _whole(radius), _share(share)
    if flips is None or part is None:
        raise click.BadParameter(f"{text!r} must be ACCURACY@FLIPS, for example 0.9@100.")
    from flipproof.requirements import Requirement

    return Requirement("accuracy", part, flips, f"--min-certified-accuracy {text}")


def found_words(outcome: Mapping[str, Any]) -> str:
    """Return the requirement and the value found, rounded down: 0.89996 is not 0.9."""
    return f"{outcome['text']}, found {four_decimals(outcome['found'])}"


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None
