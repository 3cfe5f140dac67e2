"""Chernoff tails: bounds on the probability that noisy labels change the prediction.

For a winner c, a rival d and noisy labels Y, the margin is ``M = offset + sum_j k_j ([Y_j = c] - [Y_j = d])``, and for
every t > 0 (the paper's Appendix B.2; M1)

    log P(M <= 0) <= log B(t) = -t offset + sum_j log E exp(-t k_j ([Y_j = c] - [Y_j = d])).

It holds at *every* t, so the search for a good t is untrusted: a poor t costs tightness, never soundness. The proof is
the value at the t that was found, :func:`log_failures_upper`.

Votes k are integers on the grid of :mod:`flipproof.core.votes`, and t is in units of one grid step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.core.histograms import VoteHistogram, coarse_histogram
from flipproof.core.noise import LabelFlip
from flipproof.core.rounding import Floats, Integers, below, chernoff_slack, weighted_sums

#: A witness is good enough once a Newton step would gain less than this fraction of t times the slope at 0. That
#: product is the exponent that a linear function would reach, usually two to ten times the true one.
WITNESS_TOLERANCE = 1e-6

#: Maximum number of search steps. Every third step halves the bracket, so the search ends much earlier; if it is
#: stopped, the result is still sound.
MOST_STEPS = 100

SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Factor:
    """The factor of one label in the bound, ``leading e^|x| + zero + trailing e^-|x|`` with x = t k.

    It is E exp(-x D(Y)) of the noisy label Y, D(e) = [e = c] - [e = d], or an upper bound on it. `leading` and
    `trailing` have two entries: for votes k >= 0, and for votes below 0. All entries are in [0, 1]. For either sign,
    their sum is at most 1, and they are not all 0.
    """

    leading: tuple[float, float]
    zero: float
    trailing: tuple[float, float]


@dataclass(frozen=True)
class LabelLaw:
    """How labels vary: the factors of labels that name the winner, the rival, and neither."""

    winner: Factor
    rival: Factor
    others: Factor


def flip_law(noise: LabelFlip) -> LabelLaw:
    """Return the law of labels that are changed to another class, each with the same probability."""
    chance = noise.probabilities
    keep, other = chance.keep, chance.other
    return LabelLaw(
        winner=Factor((other, keep), chance.third, (keep, other)),
        rival=Factor((keep, other), chance.third, (other, keep)),
        others=Factor((other, other), chance.bystander, (other, other)),
    )


def mean_offset_lower(offset: Integers, noise: LabelFlip) -> Floats:
    """Return the offset of the noisy margin if the deployed rule has `offset` (M5), rounded down.

    The deployed rule adds offset = b / signal, so that it chooses the class with the highest *mean noisy* score.

    Soundness: rounded down for either sign, because log B decreases with the offset.
    """
    return below(noise.signal * offset.astype(np.float64))


def log_failures_upper(
    histogram: VoteHistogram, winner: Integers, offsets: Floats, t: Floats, noise: LabelFlip
) -> Floats:
    """Return upper bounds on log P(M <= 0) against all classes, each test row at its own t.

    Parameters
    ----------
    histogram : VoteHistogram
        Votes on a block of test rows.
    winner : integers of shape (rows,)
        The predicted class c.
    offsets : floats of shape (rows, classes)
        Lower bounds on the offset of the noisy margin against each class d.
    t : floats of shape (rows,)
        The witness. Infinity proves only that the probability is 0 where no labels can reach the offset.
    noise : LabelFlip
        The noise, with its number of classes.

    Returns
    -------
    floats of shape (rows, classes)
        log B(t), rounded up, never above 0; -inf in the winner's column.

    Notes
    -----
    Soundness: M1 at this t, plus :func:`flipproof.core.rounding.chernoff_slack`. With A, R, O the logarithms for
    labels that name the winner, the rival, or neither, the sum is rearranged as
    ``sum_(y=c) (A - O) + sum_all O + sum_(y=d) (R - O)``, so that all rivals share all logarithms.
    """
    return log_bounds_upper(histogram, winner, offsets, t, flip_law(noise))


def log_bounds_upper(histogram: VoteHistogram, winner: Integers, offsets: Floats, t: Floats, law: LabelLaw) -> Floats:
    """Return :func:`log_failures_upper` for labels that vary independently by any law."""
    runaway = np.isinf(t)
    finite_t = np.where(runaway, 0.0, t)
    rows, n_classes = histogram.counts.shape[:2]
    counts = histogram.float_counts
    vote_mass = histogram.vote_mass
    size = finite_t[:, None] * np.abs(histogram.values)
    small = np.exp(-size)
    positive = histogram.values >= 0
    for_winner, for_rival = _log_part(small, positive, law.winner), _log_part(small, positive, law.rival)
    own_counts = counts[np.arange(rows), winner][:, None, :]
    if n_classes > 2:
        for_others = _log_part(small, positive, law.others)
        shared = weighted_sums(own_counts, for_winner - for_others)[:, 0]
        shared = shared + weighted_sums(counts, for_others).sum(axis=1)
        against = weighted_sums(counts, for_rival - for_others)
    else:
        shared = weighted_sums(own_counts, for_winner)[:, 0]
        against = weighted_sums(counts, for_rival)
    mass, per_row = vote_mass.astype(np.float64)[:, None], finite_t[:, None]
    exponent = shared[:, None] + against + per_row * mass - per_row * offsets
    exponent += chernoff_slack(per_row, mass, histogram.n_labels, offsets, histogram.n_levels)
    impossible = runaway[:, None] & (vote_mass[:, None] < offsets)
    bounds = np.where(impossible, -np.inf, np.minimum(exponent, 0.0))
    bounds[np.arange(rows), winner] = -np.inf
    return bounds


def find_witness(
    histogram: VoteHistogram, winner: Integers, rival: Integers, offset: Floats, noise: LabelFlip
) -> Floats:
    """Search for the t that minimises log B(t), one per test row; 0 where the winner does not lead on average.

    A safeguarded Newton method on a convex function: first on a coarse histogram, then on the fine one, where usually
    nothing is left to gain. The slope at infinity is ``sum |k_j| - offset``: where that is negative no labels can
    overturn the prediction, log B is unbounded below, and the witness is inf.
    """
    rows = np.arange(len(winner))
    mean_margin = noise.signal * (histogram.scores[rows, winner] - histogram.scores[rows, rival]) + offset
    return best_t(histogram, winner, rival, offset, flip_law(noise), mean_margin)


def mean_margins(histogram: VoteHistogram, winner: Integers, rival: Integers, offset: Floats, law: LabelLaw) -> Floats:
    """Return minus the slope of log B at t = 0: the mean margin over the rival, or by a bound on it."""
    slope, _ = _Search(histogram, winner, rival, offset, law).derivatives(np.zeros(len(offset)))
    return -slope


def best_t(
    histogram: VoteHistogram, winner: Integers, rival: Integers, offset: Floats, law: LabelLaw, mean_margin: Floats
) -> Floats:
    """Return :func:`find_witness` for labels that vary by any law; `mean_margin` is minus the slope of log B at 0."""
    runaway = (mean_margin > 0) & (histogram.vote_mass < offset)
    searched = np.flatnonzero((mean_margin > 0) & ~runaway)
    coarse = _Search(coarse_histogram(histogram), winner, rival, offset, law)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        _, curvature = coarse.derivatives(np.zeros(len(offset)))
        start = np.clip(mean_margin / np.maximum(curvature, SMALLEST), 1e-12, 1e3)
        t = np.zeros(len(offset))
        t[searched] = start[searched]
        t = _newton(coarse, t, searched, mean_margin)
        t = _newton(_Search(histogram, winner, rival, offset, law), t, searched, mean_margin)
    return np.where(runaway, np.inf, t)


class _Search:
    """log B(t) of one pair of classes per test row, to the precision that a search needs."""

    def __init__(self, histogram: VoteHistogram, winner: Integers, rival: Integers, offset: Floats, law: LabelLaw):
        rows = np.arange(len(winner))
        own, other = histogram.float_counts[rows, winner], histogram.float_counts[rows, rival]
        self._kinds = [(own, law.winner), (other, law.rival)]
        if histogram.counts.shape[1] > 2:
            others = histogram.all_counts - own - other
            self._kinds.append((others, law.others))
        self._values = histogram.values.astype(np.float64)
        self._offset = offset

    def derivatives(self, t: Floats, at: Integers | slice = slice(None)) -> tuple[Floats, Floats]:
        """Return slope and curvature of log B at t, for some of the rows."""
        values = self._values if len(self._values) == 1 else self._values[at]
        size, positive = np.abs(values), values >= 0
        small = np.exp(-t[:, None] * size)
        slope, curvature = -self._offset[at], np.zeros(len(t))
        for counts, factor in self._kinds:
            leading, trailing = _by_sign(factor, positive)
            down = small * trailing
            share = 1 / (leading + small * (factor.zero + down))
            down = down * small * share
            up = leading * share
            drift = (up - down) * size
            spread = (up + down) * size**2 - drift**2
            weights = counts[at][:, None, :]
            slope = slope + weighted_sums(weights, drift)[:, 0]
            curvature = curvature + weighted_sums(weights, spread)[:, 0]
        return slope, curvature


def _newton(search: _Search, t: Floats, at: Integers, mean_margin: Floats) -> Floats:
    """Minimise log B starting at `t`, for the rows `at`; the slope at 0 is minus the mean margin."""
    t = t.copy()
    low, high = np.zeros(len(t)), np.full(len(t), np.inf)
    for step in range(MOST_STEPS):
        if at.size == 0:
            break
        here = t[at]
        slope, curvature = search.derivatives(here, at)
        low[at] = np.where(slope < 0, here, low[at])
        high[at] = np.where(slope < 0, high[at], here)
        following = _next_step(here, slope, curvature, low[at], high[at], halve=step % 3 == 2)
        gain = 0.5 * slope**2 / np.maximum(curvature, SMALLEST)
        settled = gain <= WITNESS_TOLERANCE * here * mean_margin[at]
        settled |= ~((following > low[at]) & (following < high[at]))
        t[at] = np.where(settled, here, following)
        at = at[~settled]
    return t


def _next_step(t: Floats, slope: Floats, curvature: Floats, low: Floats, high: Floats, halve: bool) -> Floats:
    """Return the Newton step if it stays in the bracket, else the middle of the bracket on a logarithmic scale."""
    newton = t - slope / np.maximum(curvature, SMALLEST)
    middle = np.where(np.isinf(high), 4 * t, np.where(low > 0, np.sqrt(low * high), t / 16))
    inside = (newton > low) & (newton < high) & (newton <= 64 * t)
    return np.where(inside & ~(halve & np.isfinite(high)), newton, middle)


def _by_sign(factor: Factor, positive: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    return np.where(positive, *factor.leading), np.where(positive, *factor.trailing)


def _log_part(small: Floats, positive: NDArray[np.bool_], factor: Factor) -> Floats:
    """Return ``log(factor) - |x|``, given e^-|x| and the sign of x; never above 0."""
    leading, trailing = _by_sign(factor, positive)
    return np.asarray(np.log(leading + small * (factor.zero + small * trailing)))
