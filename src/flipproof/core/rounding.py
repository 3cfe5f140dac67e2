"""All decisions about the direction of rounding.

Weights never read a label, so they may be rounded in any way, as long as the rounding never reads a label either:
the rounded classifier *is* the classifier, and its certificates are about that one (M9 in ``docs/theory.md``).
:func:`to_grid` and related functions do this.

Probabilities are different: a bound computed in floating point must be rounded to its safe side. :func:`below` and
:func:`above` do that, and :func:`chernoff_slack` contains the error analysis of the only long sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Labels, names, or other values, all of one type.
Values = NDArray[np.generic]

#: Relative error of one correctly rounded operation in float64.
UNIT_ROUNDOFF = 2.0**-53

#: Assumed accuracy of ``exp``, ``expm1``, ``log`` and ``log1p`` on any processor: 4 units in the last place.
FUNCTION_ERROR = 4 * 2 * UNIT_ROUNDOFF

#: Integers of up to this many bits are exact in float64, so a dot product of integers is exact in any order of
#: summation if no partial sum can need more bits.
EXACT_BITS = 53

#: Numbers below 2**51 plus this have no bits for a fraction; SHIFT_BITS is its bit pattern read as an integer.
ROUNDING_SHIFT = 1.5 * 2.0**52
SHIFT_BITS = int(np.float64(ROUNDING_SHIFT).view(np.int64))

#: Long sums are split into runs of this length, so that their error grows with run + count / run, in any order.
SUM_RUN = 64

#: A power of two that is beyond any weight of interest, and whose square root of a power stays finite.
LARGEST_EXPONENT = 960


def below(x: Floats | float, relative: float = 2 * FUNCTION_ERROR) -> Floats:
    """Return a lower bound on the true value, given that `x` has at most the relative error `relative`."""
    x = np.asarray(x, dtype=np.float64)
    finite = np.where(np.isinf(x), 0.0, x)
    with np.errstate(over="ignore"):
        lower = np.nextafter(finite - np.abs(finite) * relative, -np.inf)
    return np.where(np.isinf(x), x, lower)


def above(x: Floats | float, relative: float = 2 * FUNCTION_ERROR) -> Floats:
    """Return an upper bound on the true value, given that `x` has at most the relative error `relative`."""
    return -below(-np.asarray(x, dtype=np.float64), relative)


def exponent_above(x: Floats | float) -> Integers:
    """Return the smallest integer e with ``abs(x) < 2**e``; -LARGEST_EXPONENT for zero."""
    mantissa, exponent = np.frexp(np.abs(x))
    bounded = np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return np.where(mantissa == 0, -LARGEST_EXPONENT, bounded).astype(np.int64)


def grid_exponent(bound: Floats | float, bits: int) -> Integers:
    """Return s such that any number up to `bound`, multiplied by ``2**s``, has at most `bits` bits."""
    return np.clip(bits - exponent_above(bound), -LARGEST_EXPONENT, LARGEST_EXPONENT)


def power_of_two(exponent: Integers | int) -> Floats:
    """Return ``2**exponent``."""
    return np.asarray(np.ldexp(1.0, exponent), dtype=np.float64)


def scale(x: Floats | float, exponent: Integers | int) -> Floats:
    """Multiply by a power of two; exact unless the result leaves the range of float64."""
    exponent = np.asarray(exponent)
    if np.all(np.abs(exponent) < LARGEST_EXPONENT):
        return np.asarray(x * power_of_two(exponent), dtype=np.float64)
    half = exponent // 2
    return np.asarray(x * power_of_two(half) * power_of_two(exponent - half), dtype=np.float64)


def to_grid(x: Floats, exponent: Integers | int, bits: int) -> Floats:
    """Round ``x * 2**exponent`` to an integer of at most `bits` bits and a sign, stored in float64."""
    limit, on_grid = 2.0**bits - 1, scale(x, exponent)
    np.rint(on_grid, out=on_grid)
    return np.clip(on_grid, -limit, limit, out=on_grid)


def rounded_sum(x: Floats, shifted: Floats, more: Integers | int = 0) -> Integers:
    """Return ``rint(x) + even + more`` as integers, for even integers given as ``shifted = even + ROUNDING_SHIFT``.

    Adding ROUNDING_SHIFT leaves no bits for a fraction: the addition itself rounds, ties to even like `rint` (adding
    `even` does not change parity), and the low bits are the integer. The memory of `x` is overwritten.
    """
    x += shifted
    return np.asarray(x.view(np.int64) - (SHIFT_BITS - more))


def bits_left(terms: int, *bits_used: int) -> int:
    """Return how many bits a factor may have if a dot product of `terms` products must be exact."""
    return EXACT_BITS - sum(bits_used) - int(np.ceil(np.log2(max(terms, 1))))


def whole_runs(n_terms: int) -> int:
    """Return the number of terms, padded to whole runs if there is more than one."""
    return n_terms if n_terms <= SUM_RUN else -(-n_terms // SUM_RUN) * SUM_RUN


def weighted_sums(weights: Floats, terms: Floats) -> Floats:
    """Return ``sum_l weights[r, k, l] * terms[r, l]``, added in runs and without threads.

    Soundness: the error is at most :func:`sum_error` times the sum of absolute values, in any order of summation. The
    order of addition in a row does not depend on other rows, and omitting whole runs of zero weight changes no bit.
    """
    rows, kinds, n_terms = weights.shape
    run = min(n_terms, SUM_RUN)
    whole = n_terms - n_terms % run
    # the order of a sum follows the memory layout, so the layout must always be the same
    weights, terms = np.ascontiguousarray(weights), np.ascontiguousarray(terms)
    in_runs = weights[:, :, :whole].reshape(rows, kinds, -1, run), terms[:, :whole].reshape(rows, -1, run)
    runs = np.einsum("rkgl,rgl->rkg", *in_runs)
    sums = np.cumsum(runs, axis=-1)[:, :, -1]  # sequential: the pairing of sum() depends on the number of runs
    if whole < n_terms:
        sums = sums + np.einsum("rkl,rl->rk", weights[:, :, whole:], terms[:, whole:])
    return np.asarray(sums, dtype=np.float64)


def sum_error(n_terms: int) -> float:
    """Bound the relative error of :func:`weighted_sums`."""
    return (SUM_RUN + n_terms / SUM_RUN + 2) * UNIT_ROUNDOFF


def chernoff_slack(t: Floats, vote_mass: Floats, n_labels: int, offset: Floats, n_levels: int) -> Floats:
    """Bound the floating-point error of the exponent in :func:`flipproof.core.tails.log_failures_upper`.

    Soundness: a label whose vote is k enters with ``|x| + log a(x)``, x = t k, where ``a = lead + E (zero + E trail)``,
    E = e^-|x|, so that ``-2 |x| <= log a <= 0``. The sum over |x| is ``t * vote_mass``, an integer times t. With u =
    2^-53 and functions accurate to 8u, the error of a is at most 24u of its size (all its terms are positive) plus the
    effect of rounding x, 2u|x|; the logarithm adds 8u * 2|x|. So the error of log a is at most 24u + 18u|x|. The sum
    contains the logarithms, weighted by counts, of the winner's labels, of all labels, and of the rival's labels twice
    (M1 is rearranged to share them among rivals): at most four times

        24u n_labels + (18u + 2 sum_error) t vote_mass,

    plus a few roundings where these sums, t vote_mass and t offset are combined.
    """
    u = UNIT_ROUNDOFF
    per_label = 4 * 24 * u
    per_mass = 4 * (18 * u + 2 * sum_error(n_levels)) + 64 * u
    return per_label * n_labels + per_mass * t * vote_mass + 8 * u * t * np.abs(offset)


def ceil_divide(numerator: Integers, denominator: Integers) -> Integers:
    """Return the quotients of integers, rounded up; a denominator below 1 counts as 1."""
    return np.asarray(-(-numerator // np.maximum(denominator, 1)))
