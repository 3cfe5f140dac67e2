"""From a failure probability to a radius: KL, tight, Gaussian.

All functions take ``log_failure`` = log B, where B is an *upper* bound on the probability, under the noise, that
the predicted class does not strictly win. Probabilities like 1 - 10^-3000 exist only as logarithms (M2); no
function takes or returns p. All functions are vectorised, and a radius is rounded down at every step.

The functions ``..._over_rivals`` are about the *plurality* of K classes (the paper's Appendix B.1): they also take
``log_rival``, the log of an upper bound on the vote of every single rival, and so can certify a class that wins with
less than half of the votes. Since a rival's vote is at most B, their radii are never below those of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri_exp

from flipproof.core.noise import LabelFlip, divergence_upper
from flipproof.core.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, Floats, Integers, above, below
from flipproof.parameters import parameter_error

LOG_HALF = float(np.log(0.5))

#: Tables of log m_r grow by doubling from this size.
SMALLEST_TABLE = 256

#: Number of steps between two cuts of a table's edges.
STEPS_BETWEEN_CUTS = 16

#: Probability mass that may be cut off a table's edges in one step; the mass cut off is added to the unsafe side.
NEGLIGIBLE_MASS = 1e-24


def divergence_budget(log_failure: ArrayLike) -> Floats:
    """Return the largest KL divergence under which the majority cannot change: ``-log(4 p (1 - p)) / 2``, p = 1 - B.

    Soundness: the generic bound (the paper's Example 3): to bring an event of probability B < 1/2 up to 1/2, the
    measure must move by KL(Bernoulli(1/2) || Bernoulli(B)). Valid for any two measures. Rounded down; 0 if B >= 1/2.
    """
    L = _checked(log_failure)
    decided = np.where((L < LOG_HALF) & (-np.inf < L), L, LOG_HALF)
    log_four_variance = decided - 2 * LOG_HALF + np.log1p(-np.exp(decided))
    # the terms may cancel, so the error is bounded by their sizes: |L|, log 4 and at most log 2
    budget = -0.5 * (log_four_variance + 4 * FUNCTION_ERROR * (np.abs(decided) + 3))
    return np.where(-np.inf == L, np.inf, np.where(L < LOG_HALF, np.maximum(budget, 0.0), 0.0))


def kl_radius(log_failure: ArrayLike, noise: LabelFlip, n_train: int) -> Integers:
    """Return the radius of the generic KL bound, eq. (4) of the paper, for K classes (M3).

    Soundness: r changed labels have a divergence of exactly ``r * kl_per_flip``; certified while that is within
    :func:`divergence_budget`. Covers both the majority vote and the deployed rule (M7). At most `n_train`.
    """
    return _whole_flips(divergence_budget(log_failure), noise, n_train)


def mean_rule_radius(log_failure: ArrayLike, noise: LabelFlip, n_train: int) -> Integers:
    """Return the largest r with ``r * kl_per_flip < -log B``: the deployed rule cannot change (M7).

    Soundness: Donsker and Varadhan: ``E_rho[-t M] <= KL(rho || mu) + log E_mu[exp(-t M)] = r KL1 + log B(t)`` for the
    noisy margin M. If the mean margin under the changed labels were not positive, the left side would be at least 0.
    """
    return _whole_flips(np.maximum(below(-_checked(log_failure)), 0.0), noise, n_train, strict=True)


def tight_radius(log_failure: ArrayLike, noise: LabelFlip, n_train: int) -> Integers:
    """Return the largest r with ``log B < log m_r``: the majority *vote* cannot change (M4).

    Soundness: this is about the vote. `predict` returns the mean rule, so a learner reports the smaller of this radius
    and :func:`mean_rule_radius`. At most `n_train`; r has no other limit.
    """
    L = _checked(log_failure)
    radius: Integers = np.where(-np.inf == L, n_train, 0)
    searched = (L < LOG_HALF) & (-np.inf < L)
    if searched.any():
        lowest = float(L[searched].min())
        size = SMALLEST_TABLE
        table = _tight_table(noise.q, noise.known_classes(), size)
        while table[-1] > lowest and size < n_train:
            size *= 2
            table = _tight_table(noise.q, noise.known_classes(), size)
        # the table decreases with r; count the entries strictly above L, where entry 0 is r = 0
        radius[searched] = np.searchsorted(-table, -L[searched], side="left") - 1
    return np.clip(radius, 0, n_train)


def tight_log_failure(radius: ArrayLike, noise: LabelFlip) -> Floats:
    """Return log m_r: the largest failure probability that still certifies r flips (M4), rounded down.

    Let D count, over the r changed coordinates, the draws of the new label minus the draws of the old one. Under the
    new labels D is a sum of r terms +1, 0, -1 with probabilities 1 - q, q (K-2)/(K-1), q/(K-1); under the old labels
    the probability of D = k is ``rho**k`` times that, rho = q / ((K - 1)(1 - q)) < 1. By Neyman and Pearson the
    cheapest event that reaches probability 1/2 under the new labels takes D from r downward; its probability under
    the old labels is m_r. The size of the training set does not matter.

    Soundness: for *every* k0, weak duality of that linear program gives
    ``m_r >= rho**k0 * (1/2 - sum over k > k0 of P(D = k) (1 - rho**(k - k0)))``, with equality at the median.
    So k0 need not be exact, and an upper bound on the sum gives a lower bound on m_r.
    """
    r = np.asarray(radius)
    if r.size and (not np.issubdtype(r.dtype, np.integer) or r.min() < 0):
        raise parameter_error("tight_log_failure", "radius", "integers of at least 0", radius)
    size = SMALLEST_TABLE
    while size < r.max(initial=0):
        size *= 2
    return np.asarray(_tight_table(noise.q, noise.known_classes(), size)[r])


def gaussian_radius(log_failure: ArrayLike, sigma: float) -> Floats:
    """Return the l2 radius ``sigma * Phi^-1(1 - B)`` under Gaussian feature noise (Cohen et al.; Example 1).

    Soundness: rounded down by 1e-12 of its size, which covers the error of the inverse normal; 0 if B >= 1/2.
    """
    if not (np.isfinite(sigma) and sigma > 0):
        raise parameter_error("gaussian_radius", "sigma", "a number above 0", sigma)
    L = _checked(log_failure)
    radius = np.where(-np.inf == L, np.inf, -sigma * ndtri_exp(np.where(-np.inf == L, LOG_HALF, L)))
    return np.where(L < LOG_HALF, np.maximum(below(radius, 1e-12), 0.0), 0.0)


def wins_over_rivals(log_failure: ArrayLike, log_rival: ArrayLike) -> NDArray[np.bool_]:
    """Tell where the bounds prove that the class has more of the vote than every rival.

    Soundness: 1 - B > R, with each side rounded to its safe end.
    """
    L, R = _bounds(log_failure, log_rival)
    return np.asarray(above(np.exp(L)) + above(np.exp(R)) < 1 - 4 * UNIT_ROUNDOFF)


def budget_over_rivals(log_failure: ArrayLike, log_rival: ArrayLike) -> Floats:
    """Return the largest KL divergence under which the plurality cannot change: ``-log(1 - (sqrt(p) - sqrt(R))^2)``.

    Soundness: with p = 1 - B > R. For any two measures rho, mu and a rival d, by the data-processing inequality
    KL(rho || mu) is at least the divergence between their distributions on {c, d, others}. If d draws level under rho,
    the minimum over all rho(c) = rho(d) is attained at rho(c) = rho(d) proportional to sqrt(mu(c) mu(d)), the others
    proportional to mu: ``-log(2 sqrt(mu(c) mu(d)) + 1 - mu(c) - mu(d))``. That increases with mu(c) and decreases
    with mu(d), so the bounds can be inserted. With R = B it is :func:`divergence_budget`. Rounded down; 0 if undecided.
    """
    L, R = _bounds(log_failure, log_rival)
    certain = -np.inf == L
    L_finite, R_finite = np.where(certain, LOG_HALF, L), np.where(certain, LOG_HALF, R)
    gap = R_finite - L_finite  # at most 0; -inf where no rival has a vote
    # 1 - (sqrt(p) - sqrt(R))^2 = sqrt(B) (sqrt(B) (1 - R/B) + 2 sqrt(p) sqrt(R/B)): nothing cancels
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.exp(0.5 * np.log1p(-np.exp(np.minimum(L_finite, 0.0))))
        rest = np.exp(0.5 * L_finite) * -np.expm1(gap) + 2 * root * np.exp(0.5 * gap)
        log_left = 0.5 * L_finite + np.log(rest)
        budget = -log_left - 8 * FUNCTION_ERROR * (np.abs(L_finite) + np.abs(np.log(rest)) + 3)
    two_sided = np.where(wins_over_rivals(L, R), np.maximum(budget, 0.0), 0.0)
    return np.maximum(two_sided, divergence_budget(L))


def kl_radius_over_rivals(log_failure: ArrayLike, log_rival: ArrayLike, noise: LabelFlip, n_train: int) -> Integers:
    """Return the number of changed labels whose divergence is within :func:`budget_over_rivals`."""
    return _whole_flips(budget_over_rivals(log_failure, log_rival), noise, n_train)


def tight_radius_over_rivals(log_failure: ArrayLike, log_rival: ArrayLike, noise: LabelFlip, n_train: int) -> Integers:
    """Return the largest r such that no rival can draw level with the class through r changed labels.

    Soundness: let H_r(b) be the largest probability that r changed labels can give to an event of probability b, see
    `_most_after`. Then the class keeps at least 1 - H_r(B) of the vote, and a rival gets at most H_r(R): certified
    while H_r(B) + H_r(R) < 1. Neither contains n. H_r increases with r, because each additional changed label is one
    more coordinate that distinguishes old from new.
    """
    L, R = np.broadcast_arrays(*_bounds(log_failure, log_rival))
    radius = np.asarray(tight_radius(L, noise, n_train))
    searched = wins_over_rivals(L, R) & (R < L)
    if not searched.any():
        return radius
    pairs, row = np.unique(np.stack([L[searched], R[searched]]), axis=1, return_inverse=True)
    found, alive = np.zeros(pairs.shape[1], dtype=np.int64), np.arange(pairs.shape[1])
    for changes in islice(_noisy_changes(noise), n_train):
        lost, gained = (_most_after(bound[alive], changes, noise.log_odds) for bound in pairs)
        alive = alive[above(lost + gained) < 1]
        if not alive.size:
            break
        found[alive] = changes.r
    radius[searched] = np.maximum(radius[searched], found[row.ravel()])
    return radius


def gaussian_radius_over_rivals(log_failure: ArrayLike, log_rival: ArrayLike, sigma: float) -> Floats:
    """Return the l2 radius ``sigma / 2 (Phi^-1(1 - B) - Phi^-1(R))`` (Cohen et al. 2019, Theorem 1).

    Soundness: rounded down by 1e-12 of its terms, which covers the error of the inverse normal; 0 if undecided.
    """
    one_sided = gaussian_radius(log_failure, sigma)
    L, R = _bounds(log_failure, log_rival)
    decided = wins_over_rivals(L, R) & (-np.inf < R)
    failing, rival = ndtri_exp(np.where(decided, L, LOG_HALF)), ndtri_exp(np.where(decided, R, LOG_HALF))
    two_sided = 0.5 * sigma * (-failing - rival - 1e-12 * (np.abs(failing) + np.abs(rival) + 1e-3))
    return np.where(decided, np.maximum(two_sided, one_sided), one_sided)


def _bounds(log_failure: ArrayLike, log_rival: ArrayLike) -> tuple[Floats, Floats]:
    """Return both bounds; a rival's vote is at most the vote that the class does not have."""
    L = _checked(log_failure)
    return L, np.minimum(_checked(log_rival), L)


def _checked(log_failure: ArrayLike) -> Floats:
    L = np.asarray(log_failure, dtype=np.float64)
    if np.isnan(L).any():
        remedy = "a radius needs a bound on the failure."
        raise parameter_error("the radius", "log_failure", "free of NaN", remedy=remedy, found="NaN")
    return L


def _whole_flips(budget: Floats, noise: LabelFlip, n_train: int, strict: bool = False) -> Integers:
    flips = below(np.minimum(budget / divergence_upper(noise), n_train + 1.0))
    whole = np.ceil(flips) - 1 if strict else np.floor(flips)
    return np.asarray(np.clip(whole, 0, n_train), dtype=np.int64)


@lru_cache(maxsize=32)
def _tight_table(q: float, n_classes: int, size: int) -> Floats:
    """Return lower bounds on log m_0, ..., log m_size."""
    noise = LabelFlip(q, n_classes)
    log_rho = -noise.log_odds
    discount = -np.expm1(np.arange(2 * size + 2) * log_rho)  # 1 - rho**j
    medians, left = np.zeros(size + 1), np.full(size + 1, 0.5)
    median = 0
    for r, masses, lowest, lost in islice(_noisy_changes(noise), size):
        median = _median_near(median, masses, lowest)
        beyond = masses[median - lowest + 1 :]
        error = (5 * r + masses.size) * UNIT_ROUNDOFF + 4 * FUNCTION_ERROR
        medians[r] = median
        left[r] = 0.5 - float(np.einsum("i,i->", beyond, discount[1 : beyond.size + 1])) * (1 + error) - 2 * lost
    with np.errstate(divide="ignore"):
        table = below(medians * log_rho) + below(np.log(np.maximum(left, 0.0))) - 4 * UNIT_ROUNDOFF
    table = np.minimum.accumulate(table)
    table.setflags(write=False)
    return table


class NoisyChanges(NamedTuple):
    """The distribution of D under the new labels: P(D = lowest), P(D = lowest + 1), ..., and the mass cut off."""

    r: int
    masses: Floats
    lowest: int
    lost: float


def _noisy_changes(noise: LabelFlip) -> Iterator[NoisyChanges]:
    """Yield the distribution of D for r = 1, 2, 3, ... changed labels.

    Soundness: the masses P(D = k) are computed by repeated addition of positive terms, so after r steps each has a
    relative error of at most 5 r u. Mass below NEGLIGIBLE_MASS is cut off at the edges to keep the window narrow, and
    counted in full as `lost`, on the unsafe side.
    """
    chance = noise.probabilities
    one_step = np.array([chance.other, chance.third, chance.keep])
    masses, lowest, lost = np.ones(1), 0, 0.0
    for r in count(1):
        masses, lowest = np.convolve(masses, one_step), lowest - 1
        if r % STEPS_BETWEEN_CUTS == 0:
            kept = np.flatnonzero(masses > NEGLIGIBLE_MASS)
            first, last = int(kept[0]), int(kept[-1]) + 1
            lost += float(masses[:first].sum() + masses[last:].sum())
            masses, lowest = masses[first:last], lowest + first
        yield NoisyChanges(r, masses, lowest, lost)


def _most_after(log_share: Floats, changes: NoisyChanges, log_odds: float) -> Floats:
    """Return the largest vote that a class can have after r changed labels, if it has e^log_share now.

    Soundness: let E be the set of noisy labellings that vote for the class, b its probability under the old labels. For
    every threshold k0, P_new(E) - rho^-k0 P_old(E) is at most the sum of the positive parts of P_new - rho^-k0 P_old,
    which are those with D > k0. So

        P_new(E) <= rho^-k0 (b - P_old(D > k0)) + P_new(D > k0),

    with equality for the best event by Neyman and Pearson, at the k0 where P_old(D >= k0) reaches b. Old and new labels
    are symmetric: P_old(D > k0) = P_new(D < -k0). Every term is rounded up: masses are within 5 r u, sums of w masses
    within another w u, rho^-k0 within 16 u of its exponent.
    """
    r, masses, lowest, lost = changes
    from_below = np.concatenate([[0.0], np.cumsum(masses)])
    from_above = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])
    share = np.exp(log_share)
    at = np.minimum(np.searchsorted(from_below[1:], share), masses.size - 1)
    k0 = -(lowest + at)
    beyond = from_above[np.clip(k0 + 1 - lowest, 0, masses.size)]
    error = (5 * r + masses.size) * UNIT_ROUNDOFF + 4 * FUNCTION_ERROR
    exponent = k0 * log_odds
    scale_error = 16 * UNIT_ROUNDOFF * (np.abs(exponent) + np.abs(log_share)) + 4 * FUNCTION_ERROR
    missing = np.maximum(share * (1 + scale_error) - from_below[at] * (1 - error), 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        most = np.exp(exponent) * missing * (1 + scale_error) + beyond * (1 + error) + 2 * lost
    return np.where(np.isnan(most), np.inf, most)


def _median_near(guess: int, masses: Floats, lowest: int) -> int:
    """Return the largest k with P(D >= k) >= 1/2, searched from the median of the previous step."""
    k = guess + 1
    tail = float(masses[k - lowest :].sum())
    while tail < 0.5:
        k -= 1
        tail += float(masses[k - lowest])
    while tail - masses[k - lowest] >= 0.5:
        tail -= float(masses[k - lowest])
        k += 1
    return k
