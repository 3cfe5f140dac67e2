"""Requirements that certificates must meet, or the command ends with exit code 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flipproof.readable import four_decimals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flipproof.certificates import Certificates


@dataclass(frozen=True)
class Requirement:
    """A share of the predictions that must stand under any so many flips; `correct`: and be correct."""

    text: str
    share: float
    flips: int
    correct: bool

    def found(self, certificates: Certificates, y_true: NDArray[Any] | None) -> float:
        """Return the share that does."""
        from flipproof.metrics import certified_accuracy, n_certified

        if not self.correct:
            return n_certified(certificates, [self.flips])[0] / len(certificates)
        if y_true is None:
            raise ValueError("--min-certified-accuracy needs the labels of the test rows, but they have none.")
        return float(certified_accuracy(y_true, certificates, [self.flips])[0])

    def outcome(self, certificates: Certificates, y_true: NDArray[Any] | None) -> dict[str, Any]:
        """Return what was asked for, what was found, and whether that is enough."""
        found = self.found(certificates, y_true)
        return {"text": self.text, "met": found >= self.share, "found": found}


def min_radius(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Requirement | None:
    """Read RADIUS, or RADIUS@SHARE of the predictions."""
    if text is None:
        return None
    radius, at, share = text.partition("@")
    flips, part = _whole(radius), _share(share) if at else 1.0
    if flips is None or part is None:
        raise click.BadParameter(f"{text!r} must be a number of flips, such as 10, or that of a share, such as 10@0.9.")
    return Requirement(f"--min-radius {text}", part, flips, correct=False)


def min_certified_accuracy(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> Requirement | None:
    """Read ACCURACY@FLIPS."""
    if text is None:
        return None
    share, _, radius = text.partition("@")
    flips, part = _whole(radius), _share(share)
    if flips is None or part is None:
        raise click.BadParameter(f"{text!r} must be an accuracy and a number of flips, such as 0.9@100.")
    return Requirement(f"--min-certified-accuracy {text}", part, flips, correct=True)


def found_words(outcome: Mapping[str, Any]) -> str:
    """Say what was required and what was found, rounded down: 0.89996 is not 0.9."""
    return f"{outcome['text']}, found {four_decimals(outcome['found'])}"


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None
