"""Bounds by noise, in ball arithmetic: every number carries a bound on its error (python-flint, Arb).

A comparison of balls is True only if it holds for all numbers in them, so each function returns True, False, or None if
the balls overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from flint import arb, arb_poly, ctx, fmpq

#: Bits of the numbers; errors of the sums in question are far below those of float64.
PRECISION = 192


@contextmanager
def precise() -> Iterator[None]:
    """Compute with PRECISION bits inside."""
    before = ctx.prec
    ctx.prec = PRECISION
    try:
        yield
    finally:
        ctx.prec = before


def ball(x: float) -> arb:
    """Return a float as a ball without error."""
    mantissa, denominator = x.as_integer_ratio()
    return arb(fmpq(mantissa, denominator)) if denominator == 1 or denominator.bit_length() <= 1100 else arb(x)


def holds(smaller: arb, larger: arb, strict: bool = False) -> bool | None:
    """Tell whether smaller <= larger (strict: <); None if the balls do not decide."""
    if smaller < larger or (not strict and smaller <= larger):
        return True
    if smaller > larger or (strict and smaller >= larger):
        return False
    return None


def either(*results: bool | None) -> bool | None:
    """Return True if any result is, None if any might be."""
    return True if True in results else None if None in results else False


class Noise:
    """Each label is changed with probability q, to one of the other K - 1 classes uniformly."""

    def __init__(self, q: float, n_classes: int):
        self.n_classes = n_classes
        self.q = ball(q)
        self.other = self.q / (n_classes - 1)
        self.signal = 1 - self.q * n_classes / (n_classes - 1)
        self.keep = 1 - self.q
        self.log_odds = (self.keep / self.other).log()
        self.divergence = self.signal * self.log_odds
        self._key = q, n_classes

    def log_terms(self, tv: arb) -> tuple[arb, arb, arb]:
        """Return log E exp(-tv D(noisy y)) for a label that names the winner, the rival, or neither."""
        down, up = (-tv).exp(), tv.exp()
        third = self.q - self.other
        return (
            (self.keep * down + third + self.other * up).log(),
            (self.other * down + third + self.keep * up).log(),
            (self.other * (down + up) + 1 - 2 * self.other).log(),
        )

    def log_mass(self, r: int) -> arb:
        """Return a lower bound on log m_r, by weak duality at the median of D."""
        return _log_mass(*self._key, r)

    def _log_mass(self, r: int) -> arb:
        masses, lowest = changes_of(*self._key, r)
        beyond, k = arb(0), r
        while k > lowest and float((beyond + masses[k - lowest]).mid()) < 0.5:
            beyond += masses[k - lowest]
            k -= 1
        rho = 1 / (self.keep / self.other)
        lost, power = arb(0), arb(1)
        for j in range(k + 1, r + 1):
            power *= rho
            lost += masses[j - lowest] * (1 - power)
        left = arb(0.5) - lost
        return -self.log_odds * k + left.log() if left > 0 else arb("-inf")

    def most_after(self, share: arb, r: int) -> arb:
        """Return an upper bound on the probability that r changed labels can give to an event of this probability."""
        masses, lowest = changes_of(*self._key, r)
        # under the old labels D has the masses in reverse; take D from r downward until `share` is reached
        old, new, k = arb(0), arb(0), r
        while k > lowest and float((old + masses[-k - lowest]).mid()) < float(share.mid()):
            old += masses[-k - lowest]
            new += masses[k - lowest]
            k -= 1
        return (self.log_odds * k).exp() * (share - old) + new


@lru_cache(maxsize=4096)
def _log_mass(q: float, n_classes: int, r: int) -> arb:
    return Noise(q, n_classes)._log_mass(r)


@lru_cache(maxsize=2)  # each of them has 2 r + 1 balls
def changes_of(q: float, n_classes: int, r: int) -> tuple[arb_poly, int]:
    """Return P(D = -r), ..., P(D = r) under the new labels, and -r; see the specification."""
    noise = Noise(q, n_classes)
    return arb_poly([noise.other, noise.q - noise.other, noise.keep]) ** r, -r


def log_half() -> arb:
    """Return log 1/2."""
    return arb(0.5).log()


def divergence_budget(log_failure: arb) -> arb:
    """Return -(log 4 + L + log(1 - e^L)) / 2 for L < log 1/2."""
    return -(arb(4).log() + log_failure + (1 - log_failure.exp()).log()) / 2


def budget_over_rivals(log_failure: arb, log_rival: arb) -> arb:
    """Return -log(1 - (sqrt(1 - B) - sqrt(R))^2) for 1 - B > R."""
    difference = (1 - log_failure.exp()).sqrt() - log_rival.exp().sqrt()
    return -(1 - difference**2).log()


def binomial_tail(count: int, n: int, share: arb) -> arb:
    """Return P(Binomial(n, share) <= count)."""
    if count >= n:
        return arb(1)
    term = (1 - share) ** n
    total, odds = term, share / (1 - share)
    for i in range(1, count + 1):
        term = term * odds * (n - i + 1) / i
        total += term
    return total


def is_infinite(x: float) -> bool:
    """Tell whether a float is minus infinity."""
    return math.isinf(x) and x < 0
