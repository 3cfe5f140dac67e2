"""Certificates by noise on the labels, `tight` and `kl`: the bound at the given witness, and the radius it proves."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from flint import arb

from flipproof_verify.balls import Noise, ball, divergence_budget, holds, is_infinite, log_half, precise
from flipproof_verify.claimed import Claims, read_exponents, read_offsets
from flipproof_verify.container import ProofFile, UnreadableFileError
from flipproof_verify.verdicts import Findings
from flipproof_verify.votes_rule import Floats, Integers, Training, VotingRows, class_sums, vote_blocks

#: How much larger another class's bound may be than that of the rival class, relative to its size.
RIVAL_TOLERANCE = 1e-6


def check_noise(file: ProofFile, claims: Claims, found: Findings) -> Iterator[int]:
    """Check certificates by noise; yield the number of rows done."""
    training, m, n_classes = Training.of(file), file.document["n_test"], claims.n_classes
    if training.changes != "labels":
        raise UnreadableFileError("changes", "Certificates by noise cover changed labels only.")
    offsets = read_offsets(file, n_classes)
    exponents = read_exponents(file)
    q, witness = file.tensor("proof.q", "f", (m,)), file.tensor("proof.witness", "f", (m, n_classes))
    log_failure = file.tensor("claim.log_failure", "f", (m,))
    if not ((q > 0) & (q < (n_classes - 1) / n_classes)).all():
        raise UnreadableFileError("noise", "The noise q must be above 0 and below (K - 1) / K.")
    if np.isnan(log_failure).any():
        raise UnreadableFileError("tensor-values", "A failure probability is not a number.")
    free, fixed_label = training.changeable, np.where(training.changeable, n_classes, training.label)
    voting = VotingRows(file)
    for rows, votes in vote_blocks(file, found.rows):
        voting.note(votes)
        scores = class_sums(votes, training.label, n_classes) + offsets[rows]
        claims.check_scores(rows, scores, found, exponents[rows])
        fixed = offsets[rows] + class_sums(votes, fixed_label, n_classes)
        for row, of_row, offset in zip(rows, votes[:, free], fixed, strict=True):
            with precise():
                winner = int(claims.prediction[row])
                bounds = _Bounds(of_row, training.label[free], offset, float(q[row]), n_classes, winner)
                _check_row(int(row), bounds, witness[row], float(log_failure[row]), file, claims, training, found)
        yield len(rows)
    voting.refuse_fixed(file, training)


class _Bounds:
    """log B of one test row against each rival."""

    def __init__(self, votes: Floats, labels: Integers, offset: Integers, q: float, n_classes: int, winner: int):
        self.noise, self._winner, self._offset = Noise(q, n_classes), winner, offset
        self._values, at = np.unique(votes.astype(np.int64), return_inverse=True)
        cells = np.bincount(labels * len(self._values) + at, minlength=n_classes * len(self._values))
        self._counts = cells.reshape(n_classes, len(self._values))
        self._mass = int(np.abs(votes).sum())
        self._terms: dict[float, list[tuple[arb, arb, arb]]] = {}

    def log_bound(self, rival: int, t: float) -> arb:
        """Return log B at this witness, at most 0."""
        offset = self.noise.signal * int(self._offset[self._winner] - self._offset[rival])
        if math.isinf(t):
            return arb("-inf") if offset > self._mass else arb(0)
        if not t > 0:
            return arb(0)
        if t not in self._terms:
            self._terms = {
                t: [self.noise.log_terms(ball(t) * int(value)) for value in self._values]
            }  # only one is held
        own, others = self._counts[self._winner], self._counts[rival]
        rest = self._counts.sum(axis=0) - own - others
        total = -ball(t) * offset
        for terms, *counts in zip(self._terms[t], own, others, rest, strict=True):
            for term, count in zip(terms, counts, strict=True):
                if count:
                    total += term * int(count)
        return total if total < 0 else arb(0)


def _check_row(
    row: int,
    bounds: _Bounds,
    witness: Floats,
    claimed: float,
    file: ProofFile,
    claims: Claims,
    training: Training,
    found: Findings,
) -> None:
    infinite = is_infinite(claimed)
    limit = arb("-inf") if infinite else ball(min(claimed, 0.0))
    rivals = [one for one in range(claims.n_classes) if one != claims.prediction[row]]
    found_bounds = {one: bounds.log_bound(one, float(witness[one])) for one in rivals}
    for value in found_bounds.values():
        at_most = not value.is_finite() if infinite else holds(value, limit)
        found.expect(row, at_most, "log_failure")
    of_rival, largest = _middle(found_bounds[int(claims.rival[row])]), max(map(_middle, found_bounds.values()))
    is_largest = of_rival >= largest - RIVAL_TOLERANCE * (1 + abs(largest)) if math.isfinite(largest) else True
    found.expect(row, is_largest, "rival")
    n_labels = training.most_in_groups(int(claims.radius[row]))
    if n_labels and not infinite and not found.is_refuted(row):
        found.expect(row, certified(n_labels, limit, bounds.noise, file.document["method"]), "radius")


def _middle(x: arb) -> float:
    return float(x.mid())


def certified(r: int, log_failure: arb, noise: Noise, method: str) -> bool | None:
    """Tell whether this failure probability certifies r changed labels for the deployed rule."""
    if method == "kl":
        if not log_failure < log_half():
            return False
        return holds(noise.divergence * r, divergence_budget(log_failure))
    is_capped = holds(noise.divergence * r, -log_failure, strict=True)
    return is_capped and holds(log_failure, noise.log_mass(r), strict=True)
