"""Clopper-Pearson: from counted votes to a bound on a vote's probability that holds with a stated confidence."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv

from flipproof.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, Floats, below

#: How far a bound that is not yet proved is moved outwards first; each further step is twice as long.
FIRST_STEP = 2.0**-44


def log_share_upper(counts: ArrayLike, n_samples: int, alpha: float) -> Floats:
    """Return the log of an upper bound on a probability of which `counts` of `n_samples` draws bear witness.

    Clopper and Pearson (1934): the smallest b with P(Binomial(n, b) <= count) <= alpha. Whatever the probability, the
    bound falls below it with a chance of at most `alpha`. A lower bound is 1 minus the upper bound for all other draws.

    Soundness: SciPy's inverse of the beta function is a guess only. The tail is evaluated at the guess with a proven
    error (:func:`log_tail_upper`), and the guess is moved outwards until its *upper* end is at most alpha. With up to
    10^6 draws this makes the bound larger than the true one by a factor of at most 1 + 10^-6.
    """
    found = np.asarray(counts, dtype=np.int64)
    distinct, position = np.unique(found, return_inverse=True)
    bounds = np.array([_one_bound(int(count), int(n_samples), float(alpha)) for count in distinct])
    return np.asarray(bounds[position].reshape(found.shape), dtype=np.float64)


@lru_cache(maxsize=4096)
def _one_bound(count: int, n: int, alpha: float) -> float:
    if count >= n:
        return 0.0
    wanted = float(below(np.log(alpha)))
    guess = float(betainccinv(count + 1, n - count, alpha))
    bound, step = max(guess, float(np.finfo(np.float64).tiny)), FIRST_STEP
    while bound < 1 and log_tail_upper(count, n, bound) > wanted:
        bound, step = bound * (1 + step), 2 * step
    # the bound is a float64 as it stands; only its logarithm is rounded, upwards
    return min(0.0, -float(below(-np.log(bound)))) if bound < 1 else 0.0


def log_tail_upper(count: int, n: int, share: float) -> float:
    """Return an upper bound on log P(Binomial(n, share) <= count), for 0 < share < 1 and count < n.

    Soundness: the tail is its last term times 1 + a_1 (1 + a_2 (1 + ...)), a_i = (count - i + 1) / (n - count + i) *
    (1 - share) / share. The products have up to 6 roundings a factor, so the sum is within 8 (count + 1) u of its size,
    everything being positive. The last term's log is a sum of logs, each within FUNCTION_ERROR of its
    size; adding l of them pairwise or not adds at most l u of the sum of sizes.
    """
    i = np.arange(1, count + 1, dtype=np.float64)
    with np.errstate(under="ignore"):
        terms = np.cumprod((count - i + 1) / (n - count + i) * ((1 - share) / share))
    log_sum = float(np.log1p(terms.sum()))
    logs = np.log((n - count + i) / i)  # of C(n, count)
    ends = count * np.log(share), (n - count) * np.log1p(-share)
    value = log_sum + float(logs.sum()) + float(ends[0]) + float(ends[1])
    sizes = log_sum + float(np.abs(logs).sum()) + abs(float(ends[0])) + abs(float(ends[1]))
    # a quotient's rounding moves its log by 2 u, whatever its size
    error = (2 * FUNCTION_ERROR + 2 * (count + 8) * UNIT_ROUNDOFF) * sizes + 16 * (count + 8) * UNIT_ROUNDOFF
    return value + error
