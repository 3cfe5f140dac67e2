"""Certificates for votes that are not sums over rows: nearest neighbours against changed rows, partitions, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from flipproof_verify.balls import (
    Noise,
    ball,
    binomial_tail,
    budget_over_rivals,
    divergence_budget,
    either,
    holds,
    is_infinite,
    log_half,
    precise,
)
from flipproof_verify.claimed import Claims, read_offsets
from flipproof_verify.container import ProofFile, UnreadableFileError
from flipproof_verify.verdicts import Findings
from flipproof_verify.votes_rule import Integers, Training

Flags = NDArray[np.bool_]

#: The largest number of votes.
LARGEST_COUNT = 2**24 - 1


def check_neighbors(file: ProofFile, claims: Claims, found: Findings) -> Iterator[int]:
    """Check certificates of nearest neighbours against changed rows; yield the number of rows done."""
    training, k, n = Training.of(file), read_k(file), file.document["n_rows"]
    offsets = read_offsets(file, claims.n_classes, optional=True)
    for row, order, ends, is_hit in nearest_rows(file, found.rows, None):
        if not ends[min(k, n) - 1 :].any() and n:
            raise UnreadableFileError("near", "No pile ends after the rows that vote.")
        attack = _OnNeighbors(training, order, ends, is_hit, k, int(claims.prediction[row]), n, offsets[row])
        scores = offsets[row] + np.bincount(training.label[order[: attack.n_voting]], minlength=claims.n_classes)
        claims.check_scores(np.array([row]), scores[None, :], found)
        if training.group is not None:  # a lower bound: as many changes as the largest sources have rows
            attack.per_change = training.most_in_groups
            claims.check_radius(row, attack, found)
        else:
            claims.check_exact_row(row, attack, found)
        yield 1


def read_k(file: ProofFile) -> int:
    """Return the number of nearest rows that vote."""
    k = file.document["k"]
    if file.document["changes"] in ("labels", "targets") or type(k) is not int or not 1 <= k < 2**31:
        raise UnreadableFileError("k", "Nearest neighbours need changes of rows and a number k of rows that vote.")
    return k


def nearest_rows(file: ProofFile, wanted: Integers, depth: int | None) -> Iterator[tuple[int, Integers, Flags, bool]]:
    """Yield test rows, their nearest training rows in order (`depth` of them), where piles end, and if the first hits.

    Soundness: no training row is listed twice, and if all of them are listed, the last one ends a pile.
    """
    n, is_hit, begin = file.document["n_rows"], file.flags("test.is_hit", (file.document["n_test"],)), 0
    for number, end in enumerate(file.document["blocks"]):
        listed = file.codes(f"near.row.{number}", (end - begin, depth), max(n, 1))
        ends_pile = file.flags(f"near.ends_pile.{number}", listed.shape)
        for row in wanted[(wanted >= begin) & (wanted < end)].tolist():
            order, ends = listed[row - begin], ends_pile[row - begin]
            if not n and is_hit[row]:
                raise UnreadableFileError("near", "There is no training row that could be equal to the test row.")
            if len(np.unique(order)) < len(order) or (len(order) == n and n and not ends[-1]):
                raise UnreadableFileError("near", "A training row is listed twice, or the last pile does not end.")
            yield row, order, ends, bool(is_hit[row])
        begin = end


class _OnNeighbors:
    """Changes of rows, one test row: try every pile as the one at the cut."""

    undecided = "depth"

    def __init__(
        self,
        training: Training,
        order: Integers,
        ends: Flags,
        is_hit: bool,
        k: int,
        winner: int,
        n: int,
        offset: Integers,
    ):
        self._offset = offset
        self._labels, self._free = training.label[order], training.changeable[order]
        self._changes, self._k, self._n, self._winner = training.changes, k, n, winner
        upto = np.flatnonzero(ends) + 1  # N(<=t)
        before = np.concatenate([[0], upto[:-1]]) if len(upto) else upto  # N(<t)
        whole = int(upto[-1]) if len(upto) else 0
        self._decided = n if whole == n else whole - k
        self.n_voting = int(upto[np.argmax(upto >= k)]) if (upto >= k).any() else whole
        if not is_hit:
            upto, before = np.concatenate([[0], upto]), np.concatenate([[0], before])
        self._upto, self._before, self._is_last = upto, before, upto == n
        self.per_change: Callable[[int], int] = int

    def wins(self, rival: int, n_changes: int | None) -> bool | None:
        """Tell whether the rival wins; beyond some number, more changes are as good as any."""
        enough = self._n + 2 * self._k + int(np.ptp(self._offset))
        r = enough if n_changes is None else min(self.per_change(n_changes), enough)
        added = 0 if self._changes == "removals" else r
        most = 0 if self._changes == "insertions" else r
        is_winner, is_rival = self._labels == self._winner, self._labels == rival
        free_winners, free_rivals = _summed(is_winner & self._free), _summed(is_rival & self._free)
        free = _summed(self._free)
        forced = np.maximum(self._before - self._k + 1, 0)
        allowed = np.where(self._is_last, most, np.minimum(most, self._upto + added - self._k))
        possible = (forced <= allowed) & (forced <= free[self._before])
        winners_first = np.minimum(forced, free_winners[self._before])
        bystanders = free[self._before] - free_winners[self._before] - free_rivals[self._before]
        rivals_lost = np.maximum(forced - winners_first - bystanders, 0)
        more = np.minimum(allowed - forced, free_winners[self._upto] - winners_first)
        margin = (_summed(is_winner) - _summed(is_rival))[self._upto]
        margin = margin + self._offset[self._winner] - self._offset[rival]
        left = margin - winners_first - np.maximum(more, 0) + rivals_lost - added + (self._winner < rival)
        if (possible & (left <= 0)).any():
            return True
        return None if len(self._labels) < self._n and r > self._decided and self._changes != "insertions" else False


def _summed(counted: NDArray[np.generic]) -> Integers:
    return np.concatenate([[0], np.cumsum(counted, dtype=np.int64)])


def check_partitions(file: ProofFile, claims: Claims, found: Findings) -> Iterator[int]:
    """Check certificates of partition learners; yield the number of rows done."""
    document, n_classes = file.document, claims.n_classes
    n_parts = document.get("n_partitions")
    if type(n_parts) is not int or n_parts < 1:
        raise UnreadableFileError("partitions", "The number of partitions must be an integer of at least 1.")
    training = Training.of(file)
    part_of = file.codes("train.partition", (document["n_rows"],), n_parts)
    offsets = read_offsets(file, n_classes, optional=True)
    votes = file.tensor("votes.partition", "i", (document["n_test"], n_parts))
    touchable = np.isin(np.arange(n_parts), part_of[training.changeable])
    for row in found.rows:
        own = np.asarray(votes[row], dtype=np.int64)
        if own.min() < 0 or own.max() > n_classes:
            raise UnreadableFileError("tensor-values", "A partition votes for a class that does not exist.")
        scores = offsets[row] + np.bincount(own, minlength=n_classes + 1)[:n_classes]
        lead = claims.check_scores(np.array([row]), scores[None, :], found)[0]
        attack = _OnPartitions(own, touchable, lead, int(claims.prediction[row]), training, part_of)
        claims.check_radius(int(row), attack, found)
        yield 1


class _OnPartitions:
    """Changes of labels or rows that turn partitions, one test row."""

    undecided = ""  # never

    def __init__(
        self, votes: Integers, touchable: Flags, lead: Integers, winner: int, training: Training, part_of: Integers
    ):
        self._votes, self._touchable, self._lead, self._winner = votes, touchable, lead, winner
        self._training, self._part_of = training, part_of

    def wins(self, rival: int, n_changes: int | None) -> bool:
        """Tell whether partitions that could turn let the rival win."""
        gains = np.where(self._votes == self._winner, 2, np.where(self._votes == rival, 0, 1))
        n_changes = max(len(self._votes), len(self._part_of)) if n_changes is None else n_changes
        r, lead = self._training.most_in_groups(n_changes), int(self._lead[rival])
        if self._largest(gains, r) < lead:
            return False
        return self._training.group is None or self._by_groups(gains, n_changes) >= lead

    def _largest(self, gains: Integers, r: int) -> int:
        """Return the largest sum of gains of partitions that r changes can turn."""
        free, others = np.sort(gains[self._touchable])[::-1], np.sort(gains[~self._touchable])[::-1]
        changes = self._training.changes
        if changes in ("labels", "removals"):
            return int(free[:r].sum())
        if changes == "insertions":
            return int(np.sort(gains)[::-1][:r].sum())
        best = 0
        for n_others in range(min(r, len(others)) + 1):  # every number of partitions that are not touchable
            best = max(best, int(others[:n_others].sum() + free[: 2 * r - n_others].sum()))
        return best

    def _by_groups(self, gains: Integers, n_groups: int) -> int:
        """Return the sum of the largest gains of groups."""
        training, per_group = self._training, []
        assert training.group is not None
        for group in np.unique(training.group[training.changeable]):
            rows = (training.group == group) & training.changeable
            owned = np.unique(self._part_of[rows])
            gain = int(gains[owned].sum())
            if training.changes == "rows":
                elsewhere = np.sort(np.delete(gains, owned))[::-1]
                gain += int(elsewhere[: int(rows.sum())].sum())
            per_group.append(gain)
        return sum(sorted(per_group, reverse=True)[:n_groups])


def check_samples(file: ProofFile, claims: Claims, found: Findings) -> Iterator[int]:
    """Check certificates by votes of models that were fitted to noisy data; yield the number of rows done."""
    document, n_classes = file.document, claims.n_classes
    m, training = document["n_test"], None if claims.is_measured else Training.of(file)
    sampling = _sampling(document, n_classes)
    selection, estimation = (
        file.integers(f"votes.{sample}", (m, n_classes), 0, LARGEST_COUNT) for sample in ("selection", "estimation")
    )
    log_failure = file.tensor("claim.log_failure", "f", (m,))
    log_rival = file.tensor("claim.log_rival", "f", (m,))
    if np.isnan(log_failure).any() or np.isnan(log_rival).any():
        raise UnreadableFileError("tensor-values", "A failure probability is not a number.")
    split = file.flags("proof.split", (m,))
    for row in found.rows:
        row = int(row)
        c, votes = int(claims.prediction[row]), estimation[row]
        found.expect(row, int(np.argmax(selection[row])) == c, "prediction")
        others = np.delete(votes, c)
        margin = (votes[c] - votes[int(claims.rival[row])]) / max(int(votes.sum()), 1)
        found.expect(row, margin == claims.margin[row], "margin")
        found.expect(row, votes[int(claims.rival[row])] == others.max(), "rival")
        with precise():
            alpha = ball(sampling["alpha"])
            failing, level = int(votes.sum() - votes[c]), alpha / 2 if split[row] else alpha
            found.expect(row, _covers(float(log_failure[row]), failing, int(votes.sum()), level), "log_failure")
            if split[row]:
                share = alpha / (2 * (n_classes - 1))
                covered = _covers(float(log_rival[row]), int(others.max()), int(votes.sum()), share)
                also = True if log_rival[row] >= log_failure[row] else covered
                found.expect(row, also, "log_failure")
            else:
                found.expect(row, bool(log_rival[row] >= log_failure[row]), "log_failure")
            if not claims.abstained[row] and not found.is_refuted(row):
                failure = min(float(log_failure[row]), 0.0)
                bounds = failure, min(float(log_rival[row]), failure)
                _check_sampled_row(row, bounds, sampling, claims, training, document, found)
        yield 1


def _sampling(document: Mapping[str, Any], n_classes: int) -> Mapping[str, Any]:
    """Return the levels of the bounds and of the noise; refuse a confidence that the bounds do not have."""
    found, m = document.get("sampling"), document["n_test"]
    keys = ("alpha", "confidence") if document["unit"] == "divergence" else ("alpha", "confidence", "level")
    if not isinstance(found, dict) or set(found) != {"alpha", "level", "confidence", "confidence_over"}:
        raise UnreadableFileError("sampling", "The sampling must have its four entries, and nothing else.")
    if not all(isinstance(found.get(key), float) and found[key] > 0 for key in keys):
        raise UnreadableFileError("sampling", "Level, confidence and noise of the sampling must be positive numbers.")
    if document["unit"] == "divergence" and found["level"] is not None:
        raise UnreadableFileError("sampling", "The noise of a divergence has no level.")
    if document["unit"] in ("labels", "annotators") and not found["level"] * n_classes < n_classes - 1:
        raise UnreadableFileError("noise", "The noise q must be above 0 and below (K - 1) / K.")
    n_statements = {"prediction": 1, "batch": m}.get(str(found.get("confidence_over")), 0)
    if not n_statements or not Fraction(found["alpha"]) * n_statements <= 1 - Fraction(found["confidence"]):
        raise UnreadableFileError("confidence", "The level of the bounds is too high for the stated confidence.")
    stated = {"confidence": found["confidence"], "over": found["confidence_over"]}
    if [one.get("values") for one in document["assumptions"] if one["code"] == "confidence"] != [stated]:
        raise UnreadableFileError("assumptions", "The assumptions do not state the confidence of the sampling.")
    return found


def _covers(log_bound: float, count: int, n: int, level: arb) -> bool | None:
    """Tell whether the bound is at least the one-sided Clopper-Pearson bound for `count` of n."""
    if log_bound >= 0 or count >= n:
        return log_bound >= 0
    return False if is_infinite(log_bound) else holds(binomial_tail(count, n, ball(log_bound).exp()), level)


def _check_sampled_row(
    row: int,
    bounds: tuple[float, float],
    sampling: Mapping[str, Any],
    claims: Claims,
    training: Training | None,
    document: Mapping[str, Any],
    found: Findings,
) -> None:
    failure, rival = (arb("-inf") if is_infinite(one) else ball(one) for one in bounds)
    found.expect(row, holds(failure.exp() + rival.exp(), arb(1), strict=True), "abstained")
    radius, method = claims.radius[row], document["method"]
    if radius == 0 or is_infinite(bounds[0]):
        return
    level: Any = sampling.get("level")  # a divergence needs none
    if training is not None:
        r, noise = training.most_in_groups(int(radius)), Noise(level, claims.n_classes)
        if method == "kl":
            holds_by = _within(noise.divergence * r, failure, rival)
        else:
            two_sided = noise.most_after(failure.exp(), r) + noise.most_after(rival.exp(), r)
            holds_by = either(holds(failure, noise.log_mass(r), strict=True), holds(two_sided, arb(1), strict=True))
    elif method == "gaussian":
        far = 2 * ball(float(radius)) / ball(level)
        one_sided = 2 * arb(2).sqrt() * (2 * failure.exp()).erfcinv()
        two_sided = arb(2).sqrt() * ((2 * failure.exp()).erfcinv() + (2 * rival.exp()).erfcinv())
        holds_by = either(holds(far, one_sided), holds(far, two_sided))
    elif document["unit"] == "l2":
        holds_by = _within((ball(float(radius)) / ball(level)) ** 2 / 2, failure, rival)
    else:
        holds_by = _within(ball(float(radius)), failure, rival)
    found.expect(row, holds_by, "radius")


def _within(divergence: arb, failure: arb, rival: arb) -> bool | None:
    one_sided = holds(divergence, divergence_budget(failure)) if failure < log_half() else False
    return either(one_sided, holds(divergence, budget_over_rivals(failure, rival)))
