"""Errors that nobody planned: how likely random changes of labels are to change a prediction (M17).

Soundness: if each label that is not trusted is changed independently of all others, and the classifier is trained
again, its scores on a test row are those of the deployed rule with other labels: votes k and offsets are unchanged. The
prediction changes only if the margin over some rival d falls to 0 or below (d sorts before the winner c), or below 0
(d sorts after it), so to ``margin + [c < d] <= 0``, since margins are integers. For each rival, M1 bounds this
probability at every t > 0; the bounds are added up over the rivals and capped at 1, all in logarithms, rounded up.

Two directions:

- ``"uniform"``: each label is changed with probability *exactly* p, to each other class with the same probability. The
  bound says nothing about errors of another kind: with errors of one direction only, the truth can exceed it.
- ``"worst"``: each label has its own probability of *at most* p, and its own direction. With x = t k and
  D(e) = [e = c] - [e = d], a label y enters with ``(1 - p) e^(-x D(y)) + p max_e e^(-x D(e))``. This is an upper
  bound on its factor for every probability up to p, since the maximum is not below ``e^(-x D(y))``, and for every
  distribution of the new label.

Uniform errors at rate p are errors of the second kind: each label has the probability p, which is at most p, and one
distribution of its new label. So both bounds hold for them, and so does the smaller one, which is returned. At the same
t the first is never larger than the second: each factor of a uniform error is ``(1 - p) e^(-x D(y))`` plus p times a
mean over the classes e other than y, which is at most ``max_e e^(-x D(e))``. But each law has a t of its own, found by
a search that is not exact, so that of two nearly equal bounds the first can come out larger.

In both cases labels change independently. The habit of an annotator is not covered: see certificates by annotators.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from flipproof.core.histograms import VoteHistogram
from flipproof.core.noise import SMALLEST_NOISE, LabelFlip
from flipproof.core.rounding import UNIT_ROUNDOFF, Floats, Integers, above
from flipproof.core.tails import Factor, LabelLaw, best_t, flip_law, log_bounds_upper, mean_margins

#: What is known about the errors, besides their rate.
DIRECTIONS = ("uniform", "worst")

#: Rivals whose bound is smaller than the largest by this factor need no t of their own.
NEGLIGIBLE = np.log(1e-3)


def error_law(rate: float, direction: str, n_classes: int) -> LabelLaw:
    """Return the law of labels with random errors.

    From a uniform rate of (K - 1) / K on, a label is no likelier than any other class: the law is then that of errors
    of any direction, among which uniform errors are.
    """
    is_noise = rate >= SMALLEST_NOISE and Fraction(rate) < Fraction(n_classes - 1, n_classes)
    if direction == "uniform" and is_noise:
        return flip_law(LabelFlip(rate, n_classes))
    p = max(rate, SMALLEST_NOISE)  # also covers smaller rates
    keep = float(1 - Fraction(p))
    return LabelLaw(
        winner=Factor((p, 1.0), 0.0, (keep, 0.0)),
        rival=Factor((1.0, p), 0.0, (0.0, keep)),
        others=Factor((p, p), keep, (0.0, 0.0)),
    )


def change_probability_upper(
    histogram: VoteHistogram, offsets: Integers, winner: Integers, rate: float, direction: str
) -> Floats:
    """Bound the probability that random errors change each prediction.

    Parameters
    ----------
    histogram : VoteHistogram
        Votes of the labels that are not trusted, on a block of test rows.
    offsets : integers of shape (rows, classes)
        Offsets of the deployed rule; they contain the votes of trusted labels.
    winner : integers of shape (rows,)
        The predicted classes.
    rate : float
        The probability p of an error, or its maximum.
    direction : {"uniform", "worst"}
        See the module.

    Returns
    -------
    floats of shape (rows,)
        Rounded up; 0 only where no errors can change the prediction.
    """
    if rate == 0:
        return np.zeros(len(winner))
    # uniform errors are among those of any direction, whose bound holds for them, too
    laws = dict.fromkeys(error_law(rate, one, offsets.shape[1]) for one in (direction, "worst"))
    logarithms = [log_sum_upper(log_rival_bounds(histogram, offsets, winner, law)) for law in laws]
    return probability_upper(np.minimum.reduce(logarithms))


def log_rival_bounds(histogram: VoteHistogram, offsets: Integers, winner: Integers, law: LabelLaw) -> Floats:
    """Bound log P(a rival wins) for every class, -inf for the winner; rivals that matter get their own t."""
    rows, n_classes = np.arange(len(winner)), offsets.shape[1]
    # exact: integers below 2**53
    needed = (offsets[rows, winner][:, None] - offsets + (np.arange(n_classes) > winner[:, None])).astype(np.float64)
    bounds, is_open = np.zeros(offsets.shape), np.ones(offsets.shape, dtype=bool)
    bounds[rows, winner], is_open[rows, winner] = -np.inf, False
    for _ in range(n_classes - 1):
        candidates = np.where(is_open[rows], bounds[rows], -np.inf)
        rival = np.argmax(candidates, axis=1)
        most = bounds[rows].max(axis=1)
        matters = (candidates.max(axis=1) > -np.inf) & (candidates.max(axis=1) > most + NEGLIGIBLE)
        rows, rival = rows[matters], rival[matters]
        if not len(rows):
            break
        part, lead = histogram.rows(rows), needed[rows, rival]
        margin = mean_margins(part, winner[rows], rival, lead, law)
        t = best_t(part, winner[rows], rival, lead, law, margin)
        bounds[rows] = np.minimum(bounds[rows], log_bounds_upper(part, winner[rows], needed[rows], t, law))
        is_open[rows, rival] = False
    return bounds


def log_sum_upper(logarithms: Floats) -> Floats:
    """Return log of the sum of exp over the last axis, rounded up, at most 0.

    Soundness: each term relative to the largest has an error of at most 16 units, and their sum at most one more per
    term, so (terms + 32) units of the sum are enough.
    """
    largest = logarithms.max(axis=-1)
    finite = np.where(np.isfinite(largest), largest, 0.0)
    total = np.exp(logarithms - finite[..., None]).sum(axis=-1)
    with np.errstate(divide="ignore"):
        upper = above(np.log(above(total, (logarithms.shape[-1] + 32) * 2 * UNIT_ROUNDOFF)))
    return np.where(np.isneginf(largest), -np.inf, np.minimum(above(finite + upper), 0.0))


def probability_upper(logarithm: Floats) -> Floats:
    """Return exp, rounded up, at most 1; 0 only for -inf, since a tiny probability is not 0."""
    upper = np.maximum(above(np.exp(logarithm)), np.finfo(np.float64).tiny)
    return np.where(np.isneginf(logarithm), 0.0, np.minimum(upper, 1.0))
