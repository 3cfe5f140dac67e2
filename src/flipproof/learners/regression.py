"""What all certified regressors share: targets on a grid, predict, exact intervals, worst changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from flipproof.adversary import Adversary, check_adversary
from flipproof.assumptions import Assumption
from flipproof.core.rounding import Floats, Integers
from flipproof.core.target_mean_rows import LineReach, fewest_changes_side_by_side, line_of_ends, line_of_sums
from flipproof.core.target_means import SumsOfVotes
from flipproof.core.target_rows import MeanOfAll, RowPower, RowReach
from flipproof.core.targets import (
    ListedVotes,
    NumberRule,
    Reach,
    Reachable,
    Units,
    largest_moves,
    listed_votes,
    rows_at_a_time,
    sum_of_votes,
    sum_reach,
)
from flipproof.core.votes import VoteSource
from flipproof.intervals import CertifiedIntervals, WorstChanges
from flipproof.learners.label_linear import MEMORY_BUDGET
from flipproof.learners.number_questions import (
    Answer,
    Question,
    as_question,
    certified_parts,
    limits_of_targets,
    refuse_limits_of_labels,
)
from flipproof.learners.regression_rows import (
    Breaks,
    EndsOfGroups,
    RowLimits,
    adversary_adds,
    reach_of_sums,
    reach_of_weights,
)
from flipproof.learners.targets_in_memory import TargetsInMemory
from flipproof.origins import Origin
from flipproof.parameters import (
    check_parameter,
    integer,
    one_of,
)
from flipproof.values import distinct, groups_of_rows


class CertifiedRegressor(TargetsInMemory):
    """A regressor that certifies how far changed training targets can move its predictions."""

    #: Whether predictions are weighted means, divided by the sum of the votes; else the weights are used as they are.
    _is_mean = False

    def predict(self, X: object) -> Floats:
        """Return the predictions, as floats of shape (m,).

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        floats of shape (m,)
            A number for each test row.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> model.predict([[5.0], [17.4]])
        array([ 5., 17.])
        """
        check_is_fitted(self)
        return np.concatenate([predicted for _, predicted in self.voted(X)])

    def voted(self, X: object) -> Iterator[tuple[VoteSource, Floats]]:
        """Yield the votes of all training rows on blocks of test rows, with the predictions that they make."""
        for _, source in self._in_blocks(X):
            listed = listed_votes(source)
            yield source, self._units(listed, source).numbers(self._value(listed, self._as_it_is()))

    @property
    def rule(self) -> NumberRule:
        """How votes and targets make a prediction."""
        average = "mean-of-votes" if self._is_mean else "sum" if self.n_reference_ is None else "mean-of-rows"
        return NumberRule(average, self._scale.grid, self._scale.origin, self._factor)

    def _as_it_is(self) -> Reachable:
        """Return the targets that nobody changes."""
        return Reachable(self._integers, self._integers, self._integers, None, 0)

    def certify(
        self,
        X: object,
        flips: int | Sequence[int] | None = None,
        *,
        tolerance: float | None = None,
        threshold: float | None = None,
        adversary: Adversary | None = None,
    ) -> CertifiedIntervals:
        """Predict, and certify how far changed training targets can move every prediction.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        flips : int, or several, optional
            Numbers of changed targets; with ``Adversary(groups=...)``, of malicious annotators. Default: 1.
        tolerance : float, optional
            The radius is then the largest number of changes that cannot move a prediction by more than this.
        threshold : float, optional
            The radius is then the largest number of changes that cannot move a prediction to the other side of this:
            from at least the threshold to below it, or the other way.
        adversary : Adversary, optional
            `trusted`, `groups` and `max_change` limit what an attacker can do. Default: change any target to any number
            in the target range. ``Adversary(changes="rows")``, ``"insertions"`` or ``"removals"``: whole rows, after a
            fit with ``reference=...``; `flips` and radii then count rows, or malicious sources.

        Returns
        -------
        CertifiedIntervals

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> found = model.certify([[5.0], [17.4]], flips=1, tolerance=20)
        >>> found.low.round(1), found.high.round(1), found.radius
        (array([ 3.6, 13.2]), array([12.4, 22. ]), array([2, 4]))
        """
        check_is_fitted(self)
        question = as_question(type(self).__name__, flips, tolerance, threshold)
        if isinstance(adversary, Adversary) and adversary.changes_rows:
            return self._certify_rows(X, question, adversary)
        reachable = self._reachable(adversary)
        parts = []
        for _, source in self._in_blocks(X):
            listed = listed_votes(source)
            units, reach = self._units(listed, source), self._reach(listed, reachable)
            parts.append(certified_parts(reach, units, question))
        origin = Origin.of(self, X, sum(len(part[0]) for part in parts))
        return self._intervals(parts, question, reachable, adversary, origin, "prediction")

    def certify_means(
        self,
        X: object,
        groups: object = None,
        flips: int | Sequence[int] | None = None,
        *,
        tolerance: float | None = None,
        threshold: float | None = None,
        adversary: Adversary | None = None,
    ) -> CertifiedIntervals:
        """Certify how far changed training targets can move the mean prediction of each group of test rows.

        A mean of weighted sums of the targets is one, too: the intervals are exact (M16). Not for medians. Against
        changed rows, they are exact for ridge and kernel regression if rows can only be removed, else bounds:
        `assumptions` tells which.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        groups : array of shape (m,), optional
            The group of each test row. Default: all rows are one group.
        flips, tolerance, threshold, adversary
            As for :meth:`certify`.

        Returns
        -------
        CertifiedIntervals
            One line per group, in the order of their names. Numbers are rounded once, from exact fractions.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> model.certify_means([[5.0], [17.4], [30.0]], ["a", "b", "b"], flips=1).to_frame()
           mean   low  high     unit
        a   5.0   3.6  12.4  targets
        b  23.5  20.3  26.0  targets
        """
        return self._certify_groups(X, groups, flips, tolerance, threshold, adversary, of_gaps=False)

    def certify_gaps(
        self,
        X: object,
        groups: object,
        flips: int | Sequence[int] | None = None,
        *,
        tolerance: float | None = None,
        threshold: float | None = None,
        adversary: Adversary | None = None,
    ) -> CertifiedIntervals:
        """Certify how far changed training targets can move the gap between the mean predictions of two groups.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        groups : array of shape (m,)
            The group of each test row; two groups or more.
        flips, tolerance, threshold, adversary
            As for :meth:`certify`. With ``threshold=0``, the radius is the largest number of changes that cannot turn
            the sign of the gap.

        Returns
        -------
        CertifiedIntervals
            One line per pair of groups: the mean of the first minus the mean of the second.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> model.certify_gaps([[5.0], [17.4], [30.0]], ["a", "b", "b"], flips=1, threshold=0).to_frame()
                gap   low  high  radius     unit
        a - b -18.5 -21.0 -11.1       2  targets
        """
        return self._certify_groups(X, groups, flips, tolerance, threshold, adversary, of_gaps=True)

    def _certify_groups(
        self,
        X: object,
        groups: object,
        flips: object,
        tolerance: object,
        threshold: object,
        adversary: Any,
        of_gaps: bool,
    ) -> CertifiedIntervals:
        check_is_fitted(self)
        self._check_means_are_linear()
        question = as_question(type(self).__name__, flips, tolerance, threshold)
        Z = self._geometry.test_rows(X)
        names, codes = (["all"], np.zeros(len(Z), dtype=np.int64)) if groups is None else groups_of_rows(groups, len(Z))
        wanted, lines = _means_or_gaps(names, of_gaps)
        origin = Origin(np.arange(len(lines)), names=lines)
        about = "gap" if of_gaps else "mean"
        if isinstance(adversary, Adversary) and adversary.changes_rows:
            fixed, limits, n_rows = self._row_limits(adversary, question)
            self._check_votes_against_rows()
            parts = self._row_lines(Z, codes, wanted, limits.power, question, n_rows)
            is_attained = limits.sizes is None and not self._is_mean and not adversary_adds(adversary)
            assumptions = self._row_assumptions(adversary, limits, fixed, is_attained)
            return self._joined(parts, question, limits, assumptions, adversary, origin, about)
        reachable, sums = self._reachable(adversary), SumsOfVotes(self.n_rows_)
        for rows, source in self._blocks(Z):
            listed = listed_votes(source)
            sums.add(listed, self._units(listed, source), codes[rows])
        y0, parts = self._scale.origin_value, []
        for factors in wanted:
            mean = sums.combined(factors)
            mean = replace(mean, denominator=mean.denominator / Fraction(self._factor))
            reach = mean.reach(reachable, self._scale.origin, y0)
            low, high = reach.ends(question.flips)
            fewest = question.fewest_of(reach)
            numbers = np.array([reach.number(reach.value)]), np.array([low]), np.array([high])
            parts.append((*numbers, None if fewest is None else np.array([fewest])))
        return self._intervals(parts, question, reachable, adversary, origin, about)

    def _row_lines(
        self,
        Z: object,
        codes: Integers,
        wanted: Sequence[dict[int, int]],
        power: RowPower,
        question: Question,
        n_rows: Sequence[int],
    ) -> list[tuple[Any, ...]]:
        """Return numbers, ends and fewest changes of means or gaps against changed rows."""
        y0 = Fraction(self._scale.origin_value)
        if self._is_mean:
            ends = EndsOfGroups(lambda: self._row_reaches_in_blocks(Z, power), codes)
            step, sizes, prepare = Fraction(2) ** -self._scale.grid.exponent, ends.sizes, ends.prepare
            lines = [line_of_ends(y0 * sum(one.values()), step, one, sizes, ends.after) for one in wanted]
        else:
            lines, prepare = self._lines_of_sums(Z, codes, wanted, power), lambda asked: None
        prepare({0, *n_rows})
        fewest: Sequence[int | None] = [None] * len(lines)
        if question.tolerance is not None or question.threshold is not None:
            fewest = fewest_changes_side_by_side(lines, question.tolerance, question.threshold, power, prepare)
        parts = []
        for line, one in zip(lines, fewest, strict=True):
            low, high = line.ends(n_rows)
            value = line.number(line.highest(0))
            parts.append((*map(np.array, ([value], [low], [high])), None if one is None else np.array([one])))
        return parts

    def _lines_of_sums(
        self, Z: object, codes: Integers, wanted: Sequence[dict[int, int]], power: RowPower
    ) -> list[LineReach]:
        """Return the reaches of means or gaps whose predictions are means over all training rows."""
        sums, targets, y0 = SumsOfVotes(self.n_rows_), self._integers - self._scale.origin, self._scale.origin_value
        for rows, source in self._blocks(Z):
            listed = listed_votes(source)
            units = self._units(listed, source)
            sums.add(listed, replace(units, divisor=np.ones_like(units.divisor)), codes[rows], source.limit)
        lines = []
        for factors in wanted:
            one = sums.combined(factors)
            largest = one.largest * max(self._scale.ways)
            terms = one.weights * targets.astype(object)
            rising, falling = (MeanOfAll.of(signed, largest, power) for signed in (terms, -terms))
            unit = Fraction(self._factor) / one.denominator
            lines.append(line_of_sums(Fraction(y0) * one.n_origins, unit, rising, falling))
        return lines

    def _row_reaches_in_blocks(
        self, Z: Any, power: RowPower
    ) -> Iterator[tuple[slice, Callable[[int, bool], RowReach]]]:
        """Yield how far changed rows move the predictions on blocks of test rows."""
        for rows, source in self._blocks(Z):
            listed = listed_votes(source)
            yield rows, self._row_reaches(Z[rows], source, listed, self._value(listed, self._as_it_is()), power)

    def _check_votes_against_rows(self) -> None:
        """Raise ValueError if the votes have no certificates against changed rows."""

    def _check_means_are_linear(self) -> None:
        """Raise ValueError if predictions are no weighted sums of the targets."""

    def worst_changes(
        self, X: object, flips: int = 1, *, end: str = "high", adversary: Adversary | None = None
    ) -> list[WorstChanges]:
        """Return, for each test row, the changes of training targets that move its prediction farthest.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        flips : int, default=1
            Number of changed targets, or of malicious annotators.
        end : {"high", "low"}, default="high"
            Which end of the interval to attain.
        adversary : Adversary, optional
            As for :meth:`certify`.

        Returns
        -------
        list of WorstChanges
            ``model.fit(X_train, changes.applied_to(y_train)).predict(...)`` is the end of the interval, to the last
            bit, if `target_range` is given.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> (changes,) = model.worst_changes([[5.0]], flips=1)
        >>> changes.rows.tolist(), changes.targets.tolist(), changes.before, changes.after
        ([3], [40.0], 5.0, 12.4)
        """
        check_is_fitted(self)
        check_parameter("worst_changes", "end", end, one_of("high", "low"))
        check_parameter("worst_changes", "flips", flips, integer(0))
        reachable, upward, found = self._reachable(adversary), end == "high", []
        max_change = None if adversary is None else adversary.max_change
        lowest, highest = self._scale.ends_of(self.targets_, self._is_fixed(adversary), max_change)
        for _, source in self._in_blocks(X):
            listed = listed_votes(source)
            units, reach = self._units(listed, source), self._reach(listed, reachable)
            low, high = reach.ends([int(flips)])
            before, after = (units.numbers(one) for one in (reach.value, (high if upward else low)[:, 0]))
            for row in range(len(listed.votes)):
                members = listed.members[row if len(listed.members) > 1 else 0][None]
                one = ListedVotes(listed.votes[row][None], members)
                rows, to_highest = self._best_changes(one, reachable, int(flips), upward)
                targets = np.where(to_highest, highest[rows], lowest[rows])
                found.append(WorstChanges(rows, targets, float(before[row]), float(after[row])))
        return found

    def _best_changes(
        self, listed: ListedVotes, reachable: Reachable, flips: int, upward: bool
    ) -> tuple[Integers, NDArray[np.bool_]]:
        return largest_moves(listed, reachable, flips, upward)

    def _in_blocks(self, X: object) -> Iterator[tuple[slice, VoteSource]]:
        """Yield the votes of all training rows on blocks of test rows."""
        return self._blocks(self._geometry.test_rows(X))

    def _blocks(self, Z: Any) -> Iterator[tuple[slice, VoteSource]]:
        n_votes = self._geometry.votes_per_row() + self._geometry.numbers_per_row() // 4
        size = self.block_size or rows_at_a_time(n_votes, MEMORY_BUDGET)
        for start in range(0, len(Z), size):
            rows = slice(start, min(start + size, len(Z)))
            yield rows, self._geometry.votes_on(Z[rows])

    def _units(self, listed: ListedVotes, source: VoteSource) -> Units:
        """Return how the integers of a block become numbers."""
        origin, shape = self._scale.origin_value, len(listed.votes)
        if self._is_mean:
            divisor = np.maximum(listed.votes.sum(axis=1).astype(np.int64), 1)
            return Units(origin, divisor, np.full(shape, self._scale.grid.exponent, dtype=np.int64))
        n_rows = 1 if self.n_reference_ is None else max(self.n_rows_, 1)
        divisor = np.full(shape, n_rows, dtype=np.int64)
        return Units(origin, divisor, source.exponent + self._scale.grid.exponent, self._factor)

    @property
    def _factor(self) -> float:
        """What weighted sums are multiplied by; label-free.

        Votes of a frozen geometry are shares of the reference: times the number of its rows, their mean over training
        rows is a prediction. Weights count relative to their mean.
        """
        if self._is_mean:
            return 1.0
        ballots = self._geometry._ballots
        weight = None if ballots is None else ballots.weight
        share = 1.0 if weight is None else len(weight) / fsum(weight.tolist())
        return share * (1 if self.n_reference_ is None else self.n_reference_)

    def _value(self, listed: ListedVotes, as_it_is: Reachable) -> Integers:
        """Return the integers of the predictions."""
        return sum_of_votes(listed, as_it_is.targets - self._scale.origin)

    def _reach(self, listed: ListedVotes, reachable: Reachable) -> Reach:
        """Return how far changes move the integers of a block."""
        return sum_reach(listed, reachable, self._scale.origin)

    def _is_fixed(self, adversary: Adversary | None) -> NDArray[np.bool_]:
        """Return which training rows an adversary cannot change: those trusted by it, and those trusted in the fit."""
        if adversary is None or adversary.trusted is None:
            return self.is_trusted_
        return np.asarray(self.is_trusted_ | adversary.trusted)

    def _certify_rows(self, X: object, question: Question, adversary: Adversary) -> CertifiedIntervals:
        """Certify against changed rows: one test row after another, by exact fractions (M16)."""
        fixed, limits, flips = self._row_limits(adversary, question)
        has_radius = question.tolerance is not None or question.threshold is not None
        parts, is_attained = [], limits.sizes is None
        Z = self._geometry.test_rows(X)
        for rows, source in self._blocks(Z):
            listed = listed_votes(source)
            units, value = self._units(listed, source), self._value(listed, self._as_it_is())
            breaks = Breaks(units, question.tolerance, question.threshold)
            reach_of = self._row_reaches(Z[rows], source, listed, value, limits.power)
            ends = np.empty((2, len(value), len(flips)))
            fewest = np.zeros(len(value), dtype=np.int64) if has_radius else None
            for row in range(len(value)):
                for upward in (False, True):
                    reach = reach_of(row, upward)
                    found = [reach.best(one) for one in flips]
                    ends[int(upward), row] = [units.number_of(row, one if upward else -one) for one in found]
                if fewest is not None:
                    now = Fraction(int(value[row]), int(units.divisor[row]))
                    fewest[row] = breaks.fewest(row, now, partial(reach_of, row))
            parts.append((units.numbers(value), ends[0], ends[1], fewest))
            is_attained &= self._attains_row_ends(Z[rows], source, adversary)
        origin = Origin.of(self, X, sum(len(part[0]) for part in parts))
        assumptions = self._row_assumptions(adversary, limits, fixed, is_attained)
        return self._joined(parts, question, limits, assumptions, adversary, origin, "prediction")

    def _row_limits(self, adversary: Adversary, question: Question) -> tuple[NDArray[np.bool_], RowLimits, list[int]]:
        """Return which rows are fixed, what an adversary can do to the others, and numbers of changes in rows."""
        check_adversary(adversary, self.n_rows_)
        self._geometry.refuse_unless_frozen(adversary)
        self._geometry._refuse_ballots("Certificates against changed rows")
        fixed, most = self._is_fixed(adversary), self._most_row_changes()
        limits = RowLimits.of(adversary, fixed, most)
        flips = [limits.rows_of(one) for one in question.flips]
        if max(flips) > most:
            raise ValueError(
                f"{type(self).__name__}.certify(flips=...) must be at most {most:,} where rows can be added: beyond, "
                "sums need more than 53 bits. Lower flips, or the precision."
            )
        return fixed, limits, flips

    def _row_assumptions(
        self, adversary: Adversary, limits: RowLimits, fixed: NDArray[np.bool_], is_attained: bool
    ) -> tuple[Assumption, ...]:
        """Return what certificates against changed rows rest on."""
        changed = {"changes": adversary.changes, "by_sources": limits.sizes is not None}
        assumptions = [Assumption("target-rows-changed", changed)]
        assumptions += [one for one in self.assumptions_ if one.code not in ("targets-only", "trusted-targets")]
        assumptions += [] if is_attained else [Assumption("target-rows-bounded")]
        if fixed.any():
            values = {"n_trusted": int(fixed.sum()), "n_rows": self.n_rows_}
            can_add = adversary_adds(adversary) and limits.sizes is None  # sources add none beyond their own
            assumptions.append(Assumption("trusted-rows", {**values, "can_add": can_add}))
        if limits.sizes is not None:
            assumptions.append(Assumption("sources", {"n_sources": limits.n_touchable, "changes": adversary.changes}))
        return tuple(assumptions)

    def _row_reaches(
        self, Z: object, source: VoteSource, listed: ListedVotes, value: Integers, power: RowPower
    ) -> Callable[[int, bool], RowReach]:
        """Return a function that tells how far changed rows move the prediction on a test row of a block, upwards."""
        targets, limit = self._integers - self._scale.origin, source.limit
        assert limit is not None
        reach = reach_of_weights if self._is_mean else reach_of_sums

        def reach_of(row: int, upward: bool) -> RowReach:
            return reach(listed, row, targets, int(limit[row]), self._scale.ways, power, upward)

        return reach_of

    def _attains_row_ends(self, Z: Any, source: VoteSource, adversary: Adversary) -> bool:
        """Tell whether rows are known that attain the ends of the intervals of a block."""
        if not adversary_adds(adversary):
            return True
        assert source.limit is not None
        is_even = self._is_mean or abs(self._scale.ways[0]) == abs(
            self._scale.ways[1]
        )  # else the sign of the vote matters
        return is_even and self._geometry.attains_largest_votes(Z, source.limit)

    def _reachable(self, adversary: Adversary | None) -> Reachable:
        """Return what an adversary can do to the targets of this fit."""
        check_adversary(adversary, self.n_rows_)
        t, fixed = self._integers, self._is_fixed(adversary)
        if adversary is None:
            lowest, highest = self._scale.integers_of_ends(self.targets_, fixed, None)
            return Reachable(t, lowest, highest, None, int(np.count_nonzero(~fixed)))
        owner = type(self).__name__
        if adversary.changes_rows:
            raise ValueError(
                f"Adversary(changes={adversary.changes!r}) is covered by certify, certify_means and certify_gaps of "
                f"{owner} only, after a fit with reference=...: coefficients and worst_changes are about changed "
                "targets. Omit changes."
            )
        refuse_limits_of_labels(owner, adversary)
        lowest, highest = self._scale.integers_of_ends(self.targets_, fixed, adversary.max_change)
        groups = None if adversary.groups is None else distinct(adversary.groups)[1].astype(np.int64)
        free = ~fixed
        n_touchable = int(free.sum()) if groups is None else len(np.unique(groups[free]))
        return Reachable(t, lowest, highest, groups, n_touchable)

    def _intervals(
        self,
        parts: Sequence[tuple[object, ...]],
        question: Question,
        reachable: Reachable,
        adversary: Adversary | None,
        origin: Origin | None,
        about: str,
    ) -> CertifiedIntervals:
        """Join the results of blocks, about changed targets."""
        assumptions = (*self.assumptions_, *limits_of_targets(adversary, reachable.n_touchable))
        return self._joined(parts, question, reachable, assumptions, adversary, origin, about)

    def _joined(
        self,
        parts: Sequence[tuple[object, ...]],
        question: Question,
        limits: Reachable | RowLimits,
        assumptions: tuple[Assumption, ...],
        adversary: Adversary | None,
        origin: Origin | None,
        about: str,
    ) -> CertifiedIntervals:
        """Join the results of blocks."""
        answer = Answer(question, limits, self.target_range_, self.n_rows_, assumptions, adversary, about)
        return answer.intervals(parts, origin)


def _means_or_gaps(names: list[Any], of_gaps: bool) -> tuple[list[dict[int, int]], list[Any]]:
    """Return the factors of the means that make up each line of a result, by group, and the names of the lines."""
    if not of_gaps:
        return [{group: 1} for group in range(len(names))], names
    if len(names) < 2:
        raise ValueError(f"A gap needs two groups of test rows. Got {len(names)} instead.")
    pairs = list(combinations(range(len(names)), 2))
    return [{one: 1, other: -1} for one, other in pairs], [f"{names[one]} - {names[other]}" for one, other in pairs]
