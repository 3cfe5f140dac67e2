"""Requirements on certificates: parse them, measure them, and decide whether they are met."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flipproof.certificates import Certificates
from flipproof.core.rounding import Values
from flipproof.errors import InputError, Parameter, nearest
from flipproof.intervals import CertifiedIntervals
from flipproof.metrics import certified_accuracy, certified_recall, n_certified, worst_class

NUMBER = r"\d+(?:\.\d*)?|\.\d+"
ACCURACY = re.compile(rf"accuracy\s*>=\s*({NUMBER})\s*@\s*(\d+)", re.ASCII)
RECALL_OF_WORST = re.compile(rf"recall\s*>=\s*({NUMBER})\s*@\s*(\d+)", re.ASCII)
RECALL = re.compile(rf"recall\s+(.+?)\s*>=\s*({NUMBER})\s*@\s*(\d+)", re.ASCII | re.DOTALL)
RADIUS = re.compile(rf"radius\s*>=\s*(\d+)(?:\s*@\s*({NUMBER}))?", re.ASCII)

SHIFT = re.compile(
    rf"shift\s*<=\s*((?:{NUMBER})(?:e[+-]?\d+)?)\s*@\s*(\d+)(?:\s*@\s*({NUMBER}))?", re.ASCII | re.IGNORECASE
)

EXAMPLES = (
    "'accuracy >= 0.9 @ 20', 'recall >= 0.6 @ 5', 'recall spam >= 0.6 @ 5', 'radius >= 3' or 'radius >= 3 @ 0.95'"
)


@dataclass(frozen=True)
class Requirement:
    """A share of test rows whose predictions must be certified at a number of flips.

    Attributes
    ----------
    measure : {"accuracy", "recall", "radius"}
        "accuracy": share of all test rows that are correct and certified; "recall": the same for the test rows of one
        class, or of the worst class if `label` is None; "radius": share of all test rows that are certified, correct or
        not.
    share : float
        The required share.
    flips : int
        Number of flips at which predictions must be certified.
    text : str
        The requirement as written.
    label
        The class of a recall, as written; None for the class with the lowest certified recall.
    """

    measure: str
    share: float
    flips: int
    text: str
    label: Any = None

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Parse a requirement, for example ``"accuracy >= 0.9 @ 20"``.

        Raises
        ------
        ValueError
            If the text is not a requirement.
        """
        given = text.strip()
        if found := ACCURACY.fullmatch(given):
            return cls("accuracy", _share(found[1], text), int(found[2]), text)
        if found := RECALL_OF_WORST.fullmatch(given):
            return cls("recall", _share(found[1], text), int(found[2]), text)
        if found := RECALL.fullmatch(given):
            return cls("recall", _share(found[2], text), int(found[3]), text, found[1])
        if found := RADIUS.fullmatch(given):
            return cls("radius", _share(found[2] or "1", text), int(found[1]), text)
        raise InputError(Parameter("requirements"), f": {text!r} must be a requirement, for example {EXAMPLES}.")

    def judge(self, certificates: Certificates, y_true: Values | None) -> Judgement:
        """Measure the share in certificates, and compare it with the required share."""
        if self.measure == "radius":
            found, label = n_certified(certificates, [self.flips])[0] / len(certificates), None
        elif y_true is None:
            raise InputError(f"{self.text} requires labels of the test rows.")
        elif self.measure == "recall" and self.label is None:
            worst = worst_class(y_true, certificates, self.flips)
            found, label = worst.recall, worst.label
        else:
            found, label = self._found(certificates, y_true), None
        return Judgement(self, found, found >= self.share, label)

    def _found(self, certificates: Certificates, y_true: Values) -> float:
        if self.measure == "accuracy":
            return float(certified_accuracy(y_true, certificates, [self.flips])[0])
        found = float(certified_recall(y_true, certificates, [self.flips])[0, self._code(certificates)])
        if np.isnan(found):
            raise InputError(f"{self.text}: no test row has class {self.label!r}.")
        return found

    def _code(self, certificates: Certificates) -> int:
        """Return the position of the class of a recall."""
        known = certificates.classes.tolist()
        for code, one in enumerate(known):
            if one == self.label or str(one) == str(self.label):
                return code
        listed = ", ".join(map(str, known[:10]))
        raise InputError(
            f"{self.text}: the class must be one of {listed}. Got {self.label!r} instead."
            f"{nearest(str(self.label), map(str, known))}"
        )


@dataclass(frozen=True)
class ShiftRequirement:
    """A share of numeric predictions that must not move farther than a limit.

    Attributes
    ----------
    tolerance : float
        How far a prediction may move.
    flips : int
        Number of changed targets.
    text : str
        The requirement as written.
    share : float
        The required share of test rows.
    measure : str
        Always "shift".
    """

    tolerance: float
    flips: int
    text: str
    share: float = 1.0
    measure: str = "shift"

    @classmethod
    def parse(cls, text: str) -> ShiftRequirement:
        """Parse a requirement, ``"shift <= 5000 @ 10"`` or ``"shift <= 5000 @ 10 @ 0.95"``."""
        found = SHIFT.fullmatch(text.strip())
        tolerance = float(found[1]) if found else np.inf
        if not found or not np.isfinite(tolerance):
            raise InputError(
                Parameter("requirements"),
                f": {text!r} must be a requirement on numbers, for example 'shift <= 5000 @ 10', or 'shift <= 5000 @ "
                "10 @ 0.95' for a share of the predictions.",
            )
        return cls(tolerance, int(found[2]), text, _share(found[3] or "1", text))

    def judge(self, intervals: CertifiedIntervals) -> Judgement:
        """Compare radii at the tolerance of this requirement with its number of changes."""
        found = float(np.count_nonzero(intervals.certified_at(self.flips)) / len(intervals))
        return Judgement(self, found, found >= self.share)


@dataclass(frozen=True)
class Judgement:
    """A requirement and its outcome.

    Attributes
    ----------
    requirement : Requirement or ShiftRequirement
        The requirement.
    found : float
        The share found.
    passed : bool
        Whether the requirement is met.
    label
        The worst class, if the requirement is about it; else None.
    """

    requirement: Requirement | ShiftRequirement
    found: float
    passed: bool
    label: Any = None

    @property
    def required(self) -> float:
        """The required share."""
        return self.requirement.share

    @property
    def text(self) -> str:
        """The requirement as written."""
        return self.requirement.text

    @property
    def facts(self) -> dict[str, Any]:
        """The outcome as an entry of a report."""
        worst = {} if self.label is None else {"class": self.label}
        return {"text": self.text, "met": self.passed, "found": self.found, **worst}


def as_requirements(given: Iterable[str | Requirement]) -> tuple[Requirement, ...]:
    """Return requirements; parse those given as text."""
    if isinstance(given, str | Requirement):
        given = (given,)
    return tuple(Requirement.parse(one) if isinstance(one, str) else one for one in given)


def _share(text: str, whole: str) -> float:
    share = float(text)
    if share > 1:
        raise InputError(Parameter("requirements"), f": {whole!r} must have a share between 0 and 1.")
    return share
