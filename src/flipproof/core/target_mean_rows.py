"""Means of predictions over groups of test rows, and gaps between them, under changed training rows (M16).

If a prediction is a mean of terms over all training rows (ridge and kernel regression), so is a mean of predictions:
:class:`~flipproof.core.target_rows.MeanOfAll` has its highest value. Against removals this is exact. A row that is
added is taken to have its largest vote on every test row at once, which a single row may not reach: a bound.

If each prediction is divided by its own sum of weights (forests, neighbours), a mean of predictions is a sum of
fractions with different denominators. What is certified is the mean of the ends of all predictions: a bound, since one
attack attains each of these ends at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from flipproof.core.target_rows import RowPower, RowReach, searched

#: A number of changes; None for any number.
Changes: TypeAlias = "int | None"


@dataclass(frozen=True)
class LineReach:
    """How far changed rows move a mean or a gap: ``start + unit * value``.

    Attributes
    ----------
    start, unit : Fraction
        From the values to numbers; the unit is positive.
    highest, lowest : functions
        The ends of the value after a number of changes; None: after any.
    """

    start: Fraction
    unit: Fraction
    highest: Callable[[Changes], Fraction]
    lowest: Callable[[Changes], Fraction]

    def number(self, value: Fraction) -> float:
        """Return the number of a value, rounded once, to the nearest: monotone."""
        return float(self.start + self.unit * value)

    def ends(self, n_changes: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the lowest and highest number after any `n_changes` changes."""
        ends = (self.lowest, self.highest)
        low, high = ([self.number(one(number)) for number in n_changes] for one in ends)
        return low, high

    def broken_at(self, tolerance: float | None, threshold: float | None) -> list[Callable[[Changes], bool]]:
        """Return functions that tell whether a number of changes breaks what a radius is about, one per direction."""
        highest, lowest = self.highest(0), self.lowest(0)
        if tolerance is not None:
            way = Fraction(tolerance) / self.unit
            return [lambda one: self.highest(one) - lowest > way, lambda one: highest - self.lowest(one) > way]
        assert threshold is not None
        if self.number(highest) >= threshold:
            return [lambda one: self.number(self.lowest(one)) < threshold]
        return [lambda one: self.number(self.highest(one)) >= threshold]


def line_of_sums(start: Fraction, unit: Fraction, rising: RowReach, falling: RowReach) -> LineReach:
    """Return the reach of a mean over all training rows; `falling` is that of the terms with their signs turned."""

    def highest(n_changes: Changes) -> Fraction:
        return rising.ceiling if n_changes is None else rising.best(n_changes)

    def lowest(n_changes: Changes) -> Fraction:
        return -(falling.ceiling if n_changes is None else falling.best(n_changes))

    return LineReach(start, unit, highest, lowest)


@dataclass(frozen=True)
class GroupEnds:
    """Sums of the highest predictions of each group, and of the lowest ones with their signs turned."""

    rising: Sequence[Fraction]
    falling: Sequence[Fraction]


@dataclass
class ExactSum:
    """A sum of many fractions, exact; those with the same denominator are added up first."""

    numerators: dict[int, int] = field(default_factory=dict)

    def add(self, one: Fraction) -> None:
        """Add a fraction."""
        self.numerators[one.denominator] = self.numerators.get(one.denominator, 0) + one.numerator

    def total(self) -> Fraction:
        """Return the sum. Pairs are joined, then pairs of these, and reduced once: denominators have many digits."""
        parts = [(above, below) for below, above in self.numerators.items()] or [(0, 1)]
        while len(parts) > 1:
            odd = parts[len(parts) & ~1 :]
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [(a * d + c * b, b * d) for (a, b), (c, d) in pairs] + odd
        return Fraction(*parts[0])


def line_of_ends(
    start: Fraction,
    step: Fraction,
    factors: Mapping[int, int],
    sizes: Sequence[int],
    ends_after: Callable[[Changes], GroupEnds],
) -> LineReach:
    """Return the reach of a sum over groups of a factor, 1 or -1, times the mean of their predictions.

    Soundness: the mean of a group is not above the mean of the highest predictions of its test rows, nor below that of
    the lowest ones; a gap is not above the highest mean of one group less the lowest of the other.
    """

    def bound(n_changes: Changes, upward: bool) -> Fraction:
        ends = ends_after(n_changes)
        return sum(
            (
                (ends.rising if (factor > 0) == upward else ends.falling)[group] / sizes[group]
                for group, factor in factors.items()
            ),
            start=Fraction(0),
        )

    return LineReach(start, step, lambda one: bound(one, True), lambda one: -bound(one, False))


def fewest_changes_side_by_side(
    lines: Sequence[LineReach],
    tolerance: float | None,
    threshold: float | None,
    power: RowPower,
    prepare: Callable[[set[Changes]], None],
) -> list[int]:
    """Return the fewest changes that break each line, as :func:`~flipproof.core.target_rows.fewest_changes` does.

    All searches take their next step together. `prepare` is called before each step with the numbers of changes that
    they ask for, so that one pass over the test rows answers all of them.
    """
    prepare({0})
    searches = [
        (place, broken, searched(power))
        for place, line in enumerate(lines)
        for broken in line.broken_at(tolerance, threshold)
    ]
    asked = {number: next(search) for number, (_, _, search) in enumerate(searches)}
    fewest: list[list[int]] = [[] for _ in lines]
    while asked:
        prepare(set(asked.values()))
        for number, n_changes in list(asked.items()):
            place, broken, search = searches[number]
            try:
                asked[number] = search.send(broken(n_changes))
            except StopIteration as found:
                del asked[number]
                fewest[place].append(found.value)
    return [min(one) for one in fewest]
