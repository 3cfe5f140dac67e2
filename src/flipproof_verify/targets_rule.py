"""Intervals and radii of numbers under changed training targets, or changed rows: integers, and fractions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import frexp, isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.assumed import check_target_assumptions
from flipproof_verify.claimed import read_exponents, read_radii, scaled
from flipproof_verify.container import ProofFile, UnreadableFileError
from flipproof_verify.other_rules import nearest_rows, read_k
from flipproof_verify.target_rows_rule import MeanOfRows, MeanOfVotes, NearestRows, RowChanges
from flipproof_verify.verdicts import Findings
from flipproof_verify.votes_rule import Integers, read_limits, vote_blocks

AVERAGES = ("sum", "mean-of-rows", "mean-of-votes", "median")

#: A grid has at most as many steps.
MOST_STEPS = 2**20

#: The origin of sums is nearer to 0.
LARGEST_ORIGIN = 2**41

#: Sums of votes times targets are smaller.
SUM_BOUND = 2**62

#: Tells which of some numbers, numerators over one denominator, contradict a claim.
Contradicts = Callable[[Any, int], Any]


class Reach(Protocol):
    """What the adversary can do to the number of one test row, which is `value` over `divisor`."""

    value: int
    divisor: int

    def breaks(self, contradicts: Contradicts, upward: bool, n_changes: int | None) -> bool:
        """Tell whether `n_changes` changes (None: any number) bring the number to where it contradicts a claim.

        Where a number does, so does every one beyond it in this direction.
        """


@dataclass(frozen=True)
class Rule:
    """The entries of `targets` in the document."""

    average: str
    low: float
    high: float
    step: float
    origin: int
    factor: float
    max_change: float | None
    flips: tuple[int, ...]
    tolerance: float | None
    threshold: float | None

    @classmethod
    def of(cls, document: Any) -> Rule:
        """Read and check the entries."""
        given = document["targets"]
        if not isinstance(given, dict) or set(given) != set(cls.__dataclass_fields__):
            raise UnreadableFileError("targets", "The entries of 'targets' must be those of the specification.")
        flips = given["flips"] if isinstance(given["flips"], list) else [given["flips"]]
        numbers = [given[name] for name in ("low", "high", "step", "factor")]
        limits = [given[name] for name in ("max_change", "tolerance", "threshold") if given[name] is not None]
        if given["average"] not in AVERAGES or not all(
            type(one) is float and isfinite(one) for one in numbers + limits
        ):
            raise UnreadableFileError("targets", "An entry of 'targets' is unknown, or not a finite number.")
        if not flips or not all(type(one) is int and one >= 0 for one in flips):
            raise UnreadableFileError("targets", "'flips' must be an integer of at least 0, or several.")
        rule = cls(**{**given, "flips": tuple(flips)})
        is_power = rule.step > 0 and frexp(rule.step)[0] == 0.5
        if not (is_power and rule.factor > 0 and isfinite(rule.high - rule.low) and 1 <= rule.steps <= MOST_STEPS):
            raise UnreadableFileError("targets", "The range, the step or the factor of the targets is not valid.")
        if (
            type(rule.origin) is not int
            or abs(rule.origin) > LARGEST_ORIGIN
            or (rule.average == "median" and rule.origin)
        ):
            raise UnreadableFileError("targets", "The origin of the sums is not a valid integer.")
        negative = min(rule.max_change or 0, rule.tolerance or 0) < 0
        if negative or (rule.tolerance is not None and rule.threshold is not None):
            raise UnreadableFileError("targets", "A radius is about a tolerance or a threshold, which is not negative.")
        return rule

    @property
    def exponent(self) -> int:
        """A step is 2 to the power of minus this."""
        return 1 - frexp(self.step)[1]

    @property
    def steps(self) -> int:
        """The integer of the high end of the range; that of the low end is 0."""
        return int(self.on_grid(np.array([self.high]))[0])

    @property
    def has_radius(self) -> bool:
        """Whether the file claims radii."""
        return self.tolerance is not None or self.threshold is not None

    def on_grid(self, y: NDArray[np.float64]) -> Integers:
        """Round numbers in the range to the grid."""
        return np.rint(scaled(y - self.low, self.exponent)).astype(np.int64)


@dataclass(frozen=True)
class Targets:
    """The training targets on the grid, and what the adversary can change them to."""

    target: Integers
    lowest: Integers
    highest: Integers
    changeable: NDArray[np.bool_]
    group: Integers | None

    @classmethod
    def of(cls, file: ProofFile, rule: Rule) -> Targets:
        """Read and check the tensors about training targets."""
        n = file.document["n_rows"]
        y = np.asarray(file.tensor("train.target", "f", (n,)))
        if not ((y >= rule.low) & (y <= rule.high)).all():
            raise UnreadableFileError("tensor-values", "A training target is not in the range.")
        changeable = file.flags("train.changeable", (n,))
        group = file.codes("train.group", (n,), max(n, 1)) if "train.group" in file.tensors else None
        lowest, highest = np.full(n, rule.low), np.full(n, rule.high)
        if rule.max_change is not None:
            with np.errstate(over="ignore"):
                lowest = np.maximum(y - rule.max_change, rule.low)
                highest = np.minimum(y + rule.max_change, rule.high)
        low, high = (rule.on_grid(np.where(changeable, end, y)) for end in (lowest, highest))
        return cls(rule.on_grid(y), low, high, changeable, group)

    @property
    def n_touchable(self) -> int:
        """How many targets, annotators, rows or sources can be changed or removed."""
        free = self.changeable
        return int(free.sum()) if self.group is None else len(np.unique(self.group[free]))

    def per_unit(self, values: Integers, members: Integers | slice = slice(None)) -> Integers:
        """Return values of some targets, added up over groups if there are any; the largest first."""
        if self.group is not None:
            _, place = np.unique(self.group[members], return_inverse=True)
            sums = np.zeros(int(place.max(initial=-1)) + 1, dtype=np.int64)
            np.add.at(sums, place, values)
            values = sums
        return np.sort(values)[::-1]


def check_targets(file: ProofFile, found: Findings) -> Iterator[int]:
    """Check intervals and radii of numbers; yield the number of rows done."""
    document = file.document
    rule = Rule.of(document)
    targets = Targets.of(file, rule)
    check_target_assumptions(document, targets.changeable)
    if document["n_train"] != document["n_rows"] or document["n_touchable"] != targets.n_touchable:
        raise UnreadableFileError("touchable", "'n_touchable' is not the number that can be changed by the proof.")
    if document["changes"] != "targets" and rule.max_change is not None:
        raise UnreadableFileError("targets", "Only changes of targets are limited by 'max_change'.")
    claims = _Claims(file, rule)
    claims.check_flags(targets.n_touchable, found)
    reaches = _on_nearest if document["votes"] == "nearest" else _on_votes
    for row, exponent, reach in reaches(file, rule, targets, found.rows):
        units = _Units(rule, exponent, reach.value, reach.divisor)
        claims.check(row, units, reach, found)
        yield 1


class _Claims:
    """What a file claims about the numbers."""

    def __init__(self, file: ProofFile, rule: Rule):
        m, flips = file.document["n_test"], len(rule.flips)
        self._rule, self._flips = rule, rule.flips
        self._prediction = file.tensor("claim.prediction", "f", (m,))
        self._low, self._high = (file.tensor(f"claim.{end}", "f", (m, flips)) for end in ("low", "high"))
        if not all(np.isfinite(one).all() for one in (self._prediction, self._low, self._high)):
            raise UnreadableFileError("tensor-values", "A prediction or the end of an interval is not a finite number.")
        self._can_add = file.document["changes"] in ("rows", "insertions") and file.document["unit"] == "rows"
        if rule.has_radius:
            self._radius, self._unlimited = read_radii(file), file.flags("claim.unlimited", (m,))

    def check_flags(self, n_touchable: int, found: Findings) -> None:
        """Check that no radius exceeds what can be changed, where nothing can be added."""
        if self._rule.has_radius and not self._can_add:
            radius, unlimited = self._radius[found.rows], self._unlimited[found.rows]
            found.refute(found.rows[radius > n_touchable], "radius")
            found.refute(found.rows[unlimited & (radius != n_touchable)], "unlimited")

    def check(self, row: int, units: _Units, reach: Reach, found: Findings) -> None:
        """Check the prediction, both ends after each number of changes, and the radius."""
        found.expect(row, bool(units.number(reach.value, reach.divisor) == self._prediction[row]), "prediction")
        for place, n_changes in enumerate(self._flips):
            ends = self._low[row, place], self._high[row, place]
            for upward, end in zip((False, True), ends, strict=True):
                leads_out = reach.breaks(partial(units.is_beyond, end, upward), upward, n_changes)
                found.expect(row, not leads_out, "interval")
        if self._rule.has_radius:
            n_most = None if self._unlimited[row] else int(self._radius[row])
            for upward in (False, True):
                broken = reach.breaks(units.breaks_radius(upward), upward, n_most)
                found.expect(row, not broken, "unlimited" if n_most is None else "radius")


class _Units:
    """From integers to numbers, for one test row, which has `value` over `divisor` before any change."""

    def __init__(self, rule: Rule, exponent: int, value: int, divisor: int):
        self._rule, self._exponent, self._value, self._divisor = rule, exponent, value, divisor
        self._start = float(rule.low + scaled(float(rule.origin), -rule.exponent))

    def number(self, top: Any, bottom: int) -> Any:
        """Return the number that integers over a divisor represent, as the learner computes it in float64."""
        ratio = np.asarray(top, dtype=np.float64) / float(bottom)
        return self._start + scaled(ratio * self._rule.factor, -self._exponent)

    def is_beyond(self, end: float, upward: bool, top: Any, bottom: int) -> Any:
        """Tell which numbers are beyond the end of an interval."""
        number = self.number(top, bottom)
        return number > end if upward else number < end

    def breaks_radius(self, upward: bool) -> Contradicts:
        """Return what the radius says that no attack can do, in one direction."""
        return partial(self._crossed if self._rule.tolerance is None else self._moved, upward)

    def _crossed(self, upward: bool, top: Any, bottom: int) -> Any:
        """Tell whether numbers are on the other side of the threshold than the prediction, in this direction."""
        is_above = self.number(top, bottom) >= self._rule.threshold
        if upward == bool(self.number(self._value, self._divisor) >= self._rule.threshold):
            return np.zeros_like(is_above)  # there is nothing to cross
        return is_above if upward else ~is_above

    def _moved(self, upward: bool, top: Any, bottom: int) -> Any:
        """Tell exactly whether numbers are farther from the prediction than the tolerance."""
        assert self._rule.tolerance is not None
        way = Fraction(self._rule.tolerance) / Fraction(self._rule.factor) * Fraction(2) ** self._exponent
        most = min(int(way * bottom * self._divisor), SUM_BOUND**2)  # rounded down: the left side is an integer
        moved = top * self._divisor - self._value * bottom
        return (moved if upward else -moved) > most


def _on_votes(file: ProofFile, rule: Rule, targets: Targets, wanted: Integers) -> Iterator[tuple[int, int, Reach]]:
    """Yield test rows, their exponents, and what can be done to their numbers, by votes."""
    document, t = file.document, targets.target
    m, n, is_sum = document["n_test"], document["n_rows"], rule.average in ("sum", "mean-of-rows")
    exponents = read_exponents(file) if is_sum else np.zeros(m, dtype=np.int64)
    farthest = max(rule.steps, abs(rule.origin), abs(rule.steps - rule.origin))
    changes = None
    if document["changes"] != "targets":
        limits = read_limits(file)
        changes = RowChanges.of(document["changes"], targets.changeable, targets.group)
    for rows, block in vote_blocks(file, wanted):
        if n * int(np.abs(block).max(initial=0)) * farthest >= SUM_BOUND:
            raise UnreadableFileError("sums", "Sums of votes times targets do not fit into 64 bits.")
        if not is_sum and (block < 0).any():
            raise UnreadableFileError("votes", "The votes of a mean or median must not be negative.")
        for row, line in zip(rows.tolist(), block, strict=True):
            voting = np.flatnonzero(line)
            votes = line[voting].astype(np.int64)
            exponent = int(exponents[row]) + rule.exponent
            if changes is None:
                reach: Reach = (_Median if rule.average == "median" else _Sum)(rule, targets, votes, voting, n)
            elif rule.average == "mean-of-rows":
                terms = line.astype(np.int64) * (t - rule.origin)
                reach = MeanOfRows(terms, int(limits[row]) * max(abs(way) for way in _ways(rule)), changes)
            elif rule.average == "mean-of-votes":
                reach = MeanOfVotes(votes, t[voting] - rule.origin, voting, int(limits[row]), _ways(rule), changes)
            else:
                raise UnreadableFileError("votes", f"Changed rows of a {rule.average} have no proof by votes.")
            yield row, exponent, reach


def _ways(rule: Rule) -> tuple[int, int]:
    """Return how far the high end of the range is above the origin, and the low end below it, on the grid."""
    return rule.steps - rule.origin, rule.origin


def _on_nearest(file: ProofFile, rule: Rule, targets: Targets, wanted: Integers) -> Iterator[tuple[int, int, Reach]]:
    """Yield the same for changed rows of nearest neighbours, by the order of all training rows."""
    document, k = file.document, read_k(file)
    if rule.average not in ("mean-of-votes", "median"):
        raise UnreadableFileError("votes", "Nearest neighbours have a mean of votes, or a median.")
    changes = RowChanges.of(document["changes"], targets.changeable, targets.group)
    for row, order, ends, is_hit in nearest_rows(file, wanted, document["n_rows"]):
        in_order = targets.target[order] - rule.origin, ends, changes.removable[order]
        reach = NearestRows(*in_order, is_hit, k, _ways(rule), rule.average == "median", changes)
        yield row, rule.exponent, reach


class _Sum:
    """Sums of votes times targets: the largest moves of different targets add up."""

    def __init__(self, rule: Rule, targets: Targets, votes: Integers, voting: Integers, n: int):
        t = targets.target[voting]
        self.value = int((votes * (t - rule.origin)).sum())
        self.divisor = {"sum": 1, "mean-of-rows": max(n, 1)}.get(rule.average, max(int(votes.sum()), 1))
        highest, lowest = votes * (targets.highest[voting] - t), votes * (targets.lowest[voting] - t)
        moves = np.maximum(highest, lowest), -np.minimum(highest, lowest)
        self._up, self._down = (np.cumsum(targets.per_unit(one, voting)) for one in moves)

    def breaks(self, contradicts: Contradicts, upward: bool, n_changes: int | None) -> bool:
        """Tell whether the sum, moved by as many of the largest moves, contradicts a claim."""
        moves = self._up if upward else self._down
        count = len(moves) if n_changes is None else min(n_changes, len(moves))
        way = int(moves[count - 1]) if count else 0
        return bool(contradicts(self.value + way if upward else self.value - way, self.divisor))


class _Median:
    """The lower median of the targets that vote, of rank (w - 1) // 2 from 0; the low end of the range if none does."""

    divisor = 1

    def __init__(self, rule: Rule, targets: Targets, votes: Integers, voting: Integers, n: int):
        self._targets, self._voting, self._rank = targets, voting, (len(voting) - 1) // 2
        in_order = np.sort(targets.target[voting])
        self.value = int(in_order[self._rank]) if len(voting) else 0

    def breaks(self, contradicts: Contradicts, upward: bool, n_changes: int | None) -> bool:
        """Tell whether enough targets can be brought to where they contradict a claim."""
        targets, voting = self._targets, self._voting
        if not len(voting):
            return bool(contradicts(0, 1))
        end = (targets.highest if upward else targets.lowest)[voting]
        does, could = contradicts(targets.target[voting], 1), contradicts(end, 1)
        may_stay = self._rank if upward else len(voting) - 1 - self._rank
        helps = targets.per_unit((could & ~does).astype(np.int64), voting)
        return int((~does).sum()) - int(helps[:n_changes].sum()) <= may_stay
