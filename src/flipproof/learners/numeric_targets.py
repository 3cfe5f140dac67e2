"""Targets that are numbers: which ones are valid, their range and their grid, and what certificates assume of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import column_or_1d

from flipproof.assumptions import Assumption
from flipproof.core.rounding import Floats, Integers
from flipproof.core.targets import TARGET_BITS, TargetGrid, sums_fit
from flipproof.parameters import Constraint, number

#: Assumptions of a geometry that are about classes, or that a regressor states in its own words.
NOT_ABOUT_TARGETS = ("labels-only", "classes-read", "sample-weights")


def is_range(value: object) -> bool:
    """Tell whether a value is a pair of finite numbers, the lower one first, with a finite difference."""
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != 2:
        return False
    if not all(number().allows(one) for one in value):
        return False
    low, high = map(float, value)
    with np.errstate(over="ignore"):
        return bool(low < high and np.isfinite(np.float64(high) - np.float64(low)))


TARGET_RANGE = Constraint(is_range, ("a pair of finite numbers (low, high) with low < high",))


def checked_targets(owner: str, y: object) -> Floats:
    """Return targets as floats; refuse what is no number.

    Parameters
    ----------
    owner : str
        Class of the regressor, for messages.
    y : array of shape (n,)
        The targets.
    """
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None: give the training targets.")
    if np.iscomplexobj(np.asarray(y)):
        raise ValueError(f"Complex data not supported: {owner} needs real numbers as targets.")
    given = column_or_1d(y, warn=True)
    if given.dtype.kind == "O":
        kinds = {type(one) for one in given.tolist()}
        if any(issubclass(kind, (str, bytes, bool, np.bool_)) for kind in kinds):
            raise ValueError(f"{owner} needs numbers as targets. Got {next(iter(kinds)).__name__} in y instead.")
    elif given.dtype.kind not in "iuf":
        raise ValueError(
            f"{owner} needs numbers as targets. Got y of type {given.dtype} instead: convert it, or use a "
            "classifier for classes."
        )
    targets = given.astype(np.float64)
    assert_all_finite(targets, input_name="y", estimator_name=owner)
    return np.array(targets)


def refuse_outside(targets: Floats, low: float, high: float) -> None:
    """Raise ValueError if targets are outside their range."""
    outside = np.flatnonzero((targets < low) | (targets > high))
    if len(outside):
        raise ValueError(
            f"Targets must be within target_range, {low:g} to {high:g}. Got {targets[outside[0]]:g} in row "
            f"{outside[0]} and {len(outside) - 1} others outside: widen the range, or correct the targets."
        )


@dataclass(frozen=True)
class TargetScale:
    """The range of the targets, its grid, and the target that sums count from; no part of it reads a target.

    Attributes
    ----------
    grid : TargetGrid
        The grid, from the low to the high end of the range.
    origin : int
        y0 on the grid.
    is_read : bool
        Whether the range is that of the targets, because none was given.
    """

    grid: TargetGrid
    origin: int
    is_read: bool

    @classmethod
    def of(cls, owner: str, ends: tuple[float, float], is_read: bool, has_intercept: bool) -> TargetScale:
        """Return the scale of a target range that is given, or read: then its ends are those of the targets.

        The origin is the middle of the range or, without an intercept, the step nearest to 0.
        """
        low, high = map(float, ends)
        if is_read:
            if low == high:
                low, high = low - 1, high + 1
            if not is_range((low, high)):
                raise ValueError(f"{owner} cannot read a target range from targets {low:g} to {high:g}: rescale them.")
        grid = TargetGrid.of(low, high)
        if not 1 <= grid.steps <= 2**TARGET_BITS:  # a narrower or wider range than powers of two can step through
            raise ValueError(
                f"{owner} cannot divide the target range {low:g} to {high:g} into steps: rescale the targets."
            )
        return cls(grid, grid.steps // 2 if has_intercept else cls._nearest_to_zero(grid), is_read)

    @staticmethod
    def _nearest_to_zero(grid: TargetGrid) -> int:
        exact = -grid.low * 2.0**grid.exponent
        if abs(exact) > 2.0**40:
            raise ValueError(
                "fit_intercept=False needs a target_range that is not very far from 0: set fit_intercept=True, or "
                "subtract a constant from the targets."
            )
        return int(np.rint(exact))

    @property
    def range(self) -> tuple[float, float]:
        """The target range."""
        return self.grid.low, self.grid.high

    @property
    def ways(self) -> tuple[int, int]:
        """How far the high end of the range is above the origin, and the low end below it, on the grid."""
        return self.grid.steps - self.origin, self.origin

    @property
    def origin_value(self) -> float:
        """y0, as a number."""
        return self.grid.value(self.origin)

    def check_sums(self, owner: str, n_rows: int, precision: int, given_precision: int) -> None:
        """Raise ValueError if sums of votes times targets might not fit into 64 bits."""
        if not sums_fit(n_rows, precision, self.grid, self.origin):
            raise ValueError(
                f"{owner} with precision={given_precision} and {n_rows:,} training rows has sums beyond 64 bits: lower "
                "the precision, or subtract a constant from targets that are far from 0."
            )

    def ends_of(self, y: Floats, fixed: NDArray[np.bool_], max_change: float | None) -> tuple[Floats, Floats]:
        """Return the lowest and highest number that each target can be changed to, as numbers are given to `fit`.

        Parameters
        ----------
        y : floats of shape (n,)
            The targets.
        fixed : booleans of shape (n,)
            Which of them cannot be changed.
        max_change : float or None
            How far each target can be moved.
        """
        if max_change is not None:
            lowest, highest = self.grid.ends_within(y, float(max_change))
        else:
            lowest, highest = (np.full(len(y), end) for end in self.range)
        if fixed.any():
            lowest, highest = (np.where(fixed, y, end) for end in (lowest, highest))
        return lowest, highest

    def integers_of_ends(
        self, y: Floats, fixed: NDArray[np.bool_], max_change: float | None
    ) -> tuple[Integers, Integers]:
        """Return the same on the grid."""
        lowest, highest = self.ends_of(y, fixed, max_change)
        return self.grid.integers(lowest), self.grid.integers(highest)

    def assumptions(
        self, n_trusted: int, n_targets: int, of_geometry: Iterable[Assumption], also: Iterable[Assumption]
    ) -> tuple[Assumption, ...]:
        """Return what certificates of a fit assume; those of the geometry that are about classes are left out."""
        (low, high), geometry = self.range, tuple(of_geometry)
        step = 2.0**-self.grid.exponent
        found = [Assumption("targets-only"), Assumption("target-range", {"low": low, "high": high, "step": step})]
        if n_trusted:
            found.append(Assumption("trusted-targets", {"n_trusted": n_trusted, "n_targets": n_targets}))
        if self.is_read:
            found.append(Assumption("target-range-read"))
        if any(one.code == "sample-weights" for one in geometry):
            found.append(Assumption("target-weights"))
        return (*found, *(one for one in geometry if one.code not in NOT_ABOUT_TARGETS), *also)
