"""Chernoff tails: how likely is it that noisy labels take the prediction away from the winner?

For a winner c, a rival d and noisy labels Y, the margin is ``M = offset + sum_j k_j ([Y_j = c] - [Y_j = d])``, and for
every t > 0 (the paper's Appendix B.2; M1)

    log P(M <= 0) <= log B(t) = -t offset + sum_j log E exp(-t k_j ([Y_j = c] - [Y_j = d])).

It holds at *every* t, so the search for a good t is untrusted: a poor t costs tightness, never soundness. The value at
the t that was found, :func:`log_failures_upper`, is what carries the proof.

Votes k are integers on the grid of :mod:`flipproof.votes`, and t is in units of one grid step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.noise import LabelFlip
from flipproof.rounding import Floats, Integers, below, chernoff_slack, weighted_sums
from flipproof.votes import VoteHistogram, coarse_histogram

#: A witness is good enough once a Newton step would gain less than this part of the exponent.
WITNESS_TOLERANCE = 1e-6

#: Steps of the search. Every third one halves the bracket, so it ends long before; a stopped search is still sound.
MOST_STEPS = 100

SMALLEST = np.finfo(np.float64).tiny


def mean_offset_lower(offset: Integers, noise: LabelFlip) -> Floats:
    """Return the offset that the noisy margin has if the deployed rule has `offset` (M5), at its lower end.

    The deployed rule adds offset = b / signal, so that it chooses the class whose *mean noisy* score wins.

    Soundness: rounded down whatever its sign, because log B falls with it.
    """
    return below(noise.signal * offset.astype(np.float64))


def log_failures_upper(
    histogram: VoteHistogram, winner: Integers, offsets: Floats, t: Floats, noise: LabelFlip
) -> Floats:
    """Return upper bounds on log P(M <= 0) against every class at once, each test row at its own t.

    Parameters
    ----------
    histogram : VoteHistogram
        Votes on a block of test rows.
    winner : integers of shape (rows,)
        The predicted class c.
    offsets : floats of shape (rows, classes)
        Lower bounds on the offset of the noisy margin against each class d.
    t : floats of shape (rows,)
        The witness; at infinity a row says only that the probability is 0 where no labels at all reach the offset.
    noise : LabelFlip
        With its number of classes.

    Returns
    -------
    floats of shape (rows, classes)
        log B(t), rounded up, never above 0; -inf in the winner's own column.

    Notes
    -----
    Soundness: M1 at this very t, plus :func:`flipproof.rounding.chernoff_slack`. With A, R, O the logarithms for labels
    that name the winner, the rival, or neither, the sum is rearranged as
    ``sum_(y=c) (A - O) + sum_all O + sum_(y=d) (R - O)``, so that all rivals share all logarithms.
    """
    runaway = np.isinf(t)
    finite_t = np.where(runaway, 0.0, t)
    rows, n_classes = histogram.counts.shape[:2]
    counts = histogram.counts.astype(np.float64)
    vote_mass = histogram.vote_mass
    size = finite_t[:, None] * np.abs(histogram.values)
    small = np.exp(-size)
    positive = histogram.values >= 0
    chance = noise.probabilities
    for_winner = _log_part(small, positive, chance.keep, chance.third, chance.other)
    for_rival = _log_part(small, positive, chance.other, chance.third, chance.keep)
    own_counts = counts[np.arange(rows), winner][:, None, :]
    if n_classes > 2:
        for_others = _log_part(small, positive, chance.other, chance.bystander, chance.other)
        shared = weighted_sums(own_counts, for_winner - for_others)[:, 0]
        shared = shared + weighted_sums(counts, for_others).sum(axis=1)
        against = weighted_sums(counts, for_rival - for_others)
    else:
        shared = weighted_sums(own_counts, for_winner)[:, 0]
        against = weighted_sums(counts, for_rival)
    mass, per_row = vote_mass.astype(np.float64)[:, None], finite_t[:, None]
    exponent = shared[:, None] + against + per_row * mass - per_row * offsets
    exponent += chernoff_slack(per_row, mass, histogram.n_labels, offsets, size.shape[-1])
    impossible = runaway[:, None] & (vote_mass[:, None] < offsets)
    bounds = np.where(impossible, -np.inf, np.minimum(exponent, 0.0))
    bounds[np.arange(rows), winner] = -np.inf
    return bounds


def find_witness(
    histogram: VoteHistogram, winner: Integers, rival: Integers, offset: Floats, noise: LabelFlip
) -> Floats:
    """Search the t that makes log B(t) smallest, one per test row; 0 where the winner does not lead on average.

    A safeguarded Newton method on a convex function: on a coarse histogram first, then on the fine one,
    where it mostly finds that nothing is left to gain.
    The slope at infinity is ``sum |k_j| - offset``: where that is negative no labels can overturn the prediction, log B
    has no lower end, and the witness is inf.
    """
    coarse = _noisy_labels(coarse_histogram(histogram), winner, rival, noise)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        slope, curvature, _ = _derivatives(coarse, offset, np.zeros(len(offset)))
        leads = slope < 0
        runaway = leads & (histogram.vote_mass < offset)
        searched = leads & ~runaway
        t = np.where(searched, np.clip(-slope / np.maximum(curvature, SMALLEST), 1e-12, 1e3), 0.0)
        t = _newton(coarse, offset, t, searched)
        t = _newton(_noisy_labels(histogram, winner, rival, noise), offset, t, searched)
    return np.where(runaway, np.inf, t)


@dataclass(frozen=True)
class _NoisyLabels:
    """Labels of one kind: their votes, how many there are, and the chances that a noisy copy counts -1, 0, +1."""

    values: Floats
    counts: Floats
    minus: float
    zero: float
    plus: float

    def rows(self, at: Integers) -> _NoisyLabels:
        values = self.values if len(self.values) == 1 else self.values[at]
        return _NoisyLabels(values, self.counts[at], self.minus, self.zero, self.plus)


def _noisy_labels(histogram: VoteHistogram, winner: Integers, rival: Integers, noise: LabelFlip) -> list[_NoisyLabels]:
    """Return the labels that name the winner, the rival, or (with more than two classes) neither."""
    chance = noise.probabilities
    rows = np.arange(len(winner))
    values = histogram.values.astype(np.float64)
    own, other = histogram.counts[rows, winner], histogram.counts[rows, rival]
    kinds = [
        _NoisyLabels(values, own.astype(np.float64), chance.keep, chance.third, chance.other),
        _NoisyLabels(values, other.astype(np.float64), chance.other, chance.third, chance.keep),
    ]
    if histogram.counts.shape[1] > 2:
        rest = (histogram.counts.sum(axis=1) - own - other).astype(np.float64)
        kinds.append(_NoisyLabels(values, rest, chance.other, chance.bystander, chance.other))
    return kinds


def _newton(labels: list[_NoisyLabels], offset: Floats, t: Floats, searched: NDArray[np.bool_]) -> Floats:
    """Minimise log B from `t` on, for the rows that are searched."""
    low, high = np.zeros(len(t)), np.full(len(t), np.inf)
    at = np.flatnonzero(searched)
    for step in range(MOST_STEPS):
        if at.size == 0:
            break
        slope, curvature, exponent = _derivatives([kind.rows(at) for kind in labels], offset[at], t[at])
        gain = 0.5 * slope**2 / np.maximum(curvature, SMALLEST)
        low[at] = np.where(slope < 0, t[at], low[at])
        high[at] = np.where(slope < 0, high[at], t[at])
        following = _next_step(t[at], slope, curvature, low[at], high[at], halve=step % 3 == 2)
        settled = gain <= WITNESS_TOLERANCE * np.abs(exponent)
        settled |= ~((following > low[at]) & (following < high[at]))
        t[at] = np.where(settled, t[at], following)
        at = at[~settled]
    return t


def _next_step(t: Floats, slope: Floats, curvature: Floats, low: Floats, high: Floats, halve: bool) -> Floats:
    """Return the Newton step where it stays in the bracket, else the bracket's middle in logarithms."""
    newton = t - slope / np.maximum(curvature, SMALLEST)
    middle = np.where(np.isinf(high), 4 * t, np.where(low > 0, np.sqrt(low * high), t / 16))
    inside = (newton > low) & (newton < high) & (newton <= 64 * t)
    return np.where(inside & ~(halve & np.isfinite(high)), newton, middle)


def _derivatives(labels: list[_NoisyLabels], offset: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
    """Return slope, curvature and value of log B at t, to the precision that a search needs."""
    slope, curvature, exponent = -offset, np.zeros(len(t)), -t * offset
    for kind in labels:
        k = np.abs(kind.values)
        size = t[:, None] * k
        small = np.exp(-size)
        positive = kind.values >= 0
        leading, trailing = np.where(positive, kind.plus, kind.minus), np.where(positive, kind.minus, kind.plus)
        total = leading + small * (kind.zero + small * trailing)
        up, down = leading / total, small * small * trailing / total
        drift = up - down
        slope = slope + (kind.counts * k * drift).sum(axis=-1)
        curvature = curvature + (kind.counts * k * k * (up + down - drift * drift)).sum(axis=-1)
        exponent = exponent + (kind.counts * (size + np.log(total))).sum(axis=-1)
    return slope, curvature, exponent


def _log_part(small: Floats, positive: NDArray[np.bool_], minus: float, zero: float, plus: float) -> Floats:
    """Return ``log(minus e^-x + zero + plus e^x) - |x|``, given e^-|x| and the sign of x; never above 0."""
    leading, trailing = np.where(positive, plus, minus), np.where(positive, minus, plus)
    return np.asarray(np.log(leading + small * (zero + small * trailing)))
