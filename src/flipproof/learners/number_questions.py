"""What regressors are asked, numbers of changes and a tolerance or a threshold, and how answers are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.core.rounding import Floats, Integers
from flipproof.core.target_means import CombinationReach
from flipproof.core.targets import NEVER, Reach, Units, crossing, tolerated
from flipproof.intervals import CertifiedIntervals
from flipproof.origins import Origin
from flipproof.parameters import NONE, check_parameter, is_integer, number, parameter_error


@dataclass(frozen=True)
class Question:
    """What `certify` was asked: numbers of changes, and a tolerance or a threshold for the radius."""

    flips: tuple[int, ...]
    is_one: bool
    tolerance: float | None
    threshold: float | None

    def fewest(self, reach: Reach, units: Units) -> Integers | None:
        """Return the fewest changes that break what the radius is about; None if there is no radius."""
        if self.tolerance is not None:
            return tolerated(reach, units, self.tolerance)
        return None if self.threshold is None else crossing(reach, units, self.threshold)

    def fewest_of(self, reach: CombinationReach) -> int | None:
        """Return the same for a mean or a gap."""
        if self.tolerance is not None:
            return reach.tolerated(self.tolerance)
        return None if self.threshold is None else reach.crossing(self.threshold)


def as_question(regressor: str, flips: Any, tolerance: Any, threshold: Any) -> Question:
    """Return what `certify` of a regressor was asked; refuse what is no question."""
    owner = f"{regressor}.certify"
    numbers = [1] if flips is None else [flips] if np.ndim(flips) == 0 else list(flips)
    if not numbers or not all(is_integer(one) and one >= 0 for one in numbers):
        raise parameter_error(owner, "flips", "an integer of at least 0, or several", flips)
    check_parameter(owner, "tolerance", tolerance, NONE | number(0, closed="low"))
    check_parameter(owner, "threshold", threshold, NONE | number())
    if tolerance is not None and threshold is not None:
        raise ValueError(f"{owner} takes a tolerance or a threshold, not both: a radius is about one of them.")
    is_one = np.ndim(flips) == 0
    as_floats = (None if one is None else float(one) for one in (tolerance, threshold))
    return Question(tuple(int(one) for one in numbers), is_one, *as_floats)


def certified_parts(reach: Reach, units: Units, question: Question) -> tuple[Floats, Floats, Floats, Integers | None]:
    """Return numbers, both ends after each number of changes, and the fewest changes that break the radius."""
    low, high = reach.ends(question.flips)
    return units.numbers(reach.value), units.numbers(low), units.numbers(high), question.fewest(reach, units)


def turning(reach: Reach) -> Integers:
    """Return the fewest changes after which each integer no longer has its sign; 1 for 0, so that its radius is 0."""
    zero = np.zeros_like(reach.value)
    fewest = np.where(reach.value > 0, reach.fewest(zero, upward=False), reach.fewest(zero, upward=True))
    return np.where(reach.value == 0, 1, np.minimum(fewest, NEVER))


class Limits(Protocol):
    """How many targets, rows, annotators or sources can be changed, and what a number of changes is called."""

    @property
    def n_touchable(self) -> int:
        """How many can be changed."""
        ...

    @property
    def unit(self) -> str:
        """What is counted."""
        ...

    def radius(self, fewest: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the radii, and where no number of changes is enough."""
        ...


@dataclass(frozen=True)
class Answer:
    """What the intervals of all test rows have in common.

    Attributes
    ----------
    question : Question
        What was asked.
    limits : Limits
        What can be changed.
    target_range : pair of floats
        The target range.
    n_train : int
        Number of training rows.
    assumptions : tuple of Assumption
        What the intervals assume.
    adversary : Adversary or None
        The adversary that they hold against.
    about : str
        What has an interval.
    """

    question: Question
    limits: Limits
    target_range: tuple[float, float]
    n_train: int
    assumptions: tuple[Assumption, ...]
    adversary: Adversary | None
    about: str

    def intervals(self, parts: Sequence[tuple[object, ...]], origin: Origin | None) -> CertifiedIntervals:
        """Join numbers, both ends and fewest changes of several blocks."""
        value, low, high, fewest = (None if one[0] is None else np.concatenate(one) for one in zip(*parts, strict=True))
        assert value is not None
        assert low is not None
        assert high is not None
        question, limits = self.question, self.limits
        shape = (len(value),) if question.is_one else low.shape
        radius, unlimited = (None, None) if fewest is None else limits.radius(fewest)
        return CertifiedIntervals(
            prediction=value,
            flips=question.flips[0] if question.is_one else question.flips,
            low=low.reshape(shape),
            high=high.reshape(shape),
            radius=radius,
            tolerance=question.tolerance,
            threshold=question.threshold,
            target_range=self.target_range,
            n_train=self.n_train,
            n_touchable=limits.n_touchable,
            unit=limits.unit,
            assumptions=self.assumptions,
            about=self.about,
            adversary=self.adversary,
            origin=origin,
            unlimited=unlimited,
        )


def refuse_limits_of_labels(owner: str, adversary: Adversary) -> None:
    """Refuse what limits an adversary of classes only."""
    for name, what in (("allowed", "classes"), ("window", "labels in windows of time")):
        if getattr(adversary, name) is not None:
            raise ValueError(f"{owner} does not cover Adversary({name}=...), which is about {what}: omit it.")


def limits_of_targets(adversary: Adversary | None, n_annotators: int) -> list[Assumption]:
    """Return the limits that an adversary is assumed to have."""
    found: list[Assumption] = []
    if adversary is None:
        return found
    if adversary.trusted is not None:
        values = {"n_trusted": int(np.count_nonzero(adversary.trusted)), "n_targets": len(adversary.trusted)}
        found.append(Assumption("trusted-targets", values))
    if adversary.groups is not None:
        found.append(Assumption("target-annotators", {"n_annotators": n_annotators}))
    if adversary.max_change is not None:
        found.append(Assumption("targets-moved", {"max_change": float(adversary.max_change)}))
    return found
