"""What the noise really does to small problems, and what a failure probability proves: the judge of smoothing.

Exact sums over all outcomes of the noise, by the definitions alone (M1 to M5, M7 and M10 of the theory); nothing is
bounded here, and nothing is rounded but logarithms.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

#: Error of logarithms.
SLACK = 1e-9


def signal_of(q, n_classes):
    """Return the share of a margin that remains under the noise, on average."""
    return 1 - n_classes * q / (n_classes - 1)


def log_failure(votes, lead_of_fixed, codes, winner, rival, q, n_classes):
    """Return log P(noisy labels let the rival draw level), where `votes` and `codes` are of the noisy labels only.

    Outcomes that the rounding of floats could have on the wrong side are left out: the result is not too large.
    """
    q, other = Fraction(q), Fraction(q) / (n_classes - 1)
    sums = {0: Fraction(1)}
    for vote, code in zip(votes, codes, strict=True):
        chances = {winner: 1 - q if code == winner else other, rival: 1 - q if code == rival else other}
        steps = {vote: chances[winner], -vote: chances[rival]} if vote else {}
        steps[0] = steps.get(0, 0) + 1 - sum(steps.values())
        after = {}
        for reached, chance in sums.items():
            for step, its_chance in steps.items():
                after[reached + step] = after.get(reached + step, 0) + chance * its_chance
        sums = after
    fixed = (1 - n_classes * q / (n_classes - 1)) * lead_of_fixed
    size = max([abs(lead_of_fixed), *map(abs, votes)])
    sure = -size * Fraction(SLACK) if lead_of_fixed else 0
    return _log(sum((chance for reached, chance in sums.items() if reached + fixed <= sure), Fraction(0)))


def largest_proved(log_p, method, q, n_classes, most):
    """Return the largest radius, up to `most`, that a failure probability proves."""
    if log_p == -math.inf or not log_p < math.log(0.5):
        return most if log_p == -math.inf else 0
    per_flip = signal_of(q, n_classes) * math.log((1 - q) * (n_classes - 1) / q)
    if method == "kl":
        value = math.log(4) + log_p + math.log1p(-math.exp(log_p))
        return min(most, math.floor(-value / (2 * per_flip) + SLACK)) if per_flip > 0 else most
    radius = 0
    while radius < most and (radius + 1) * per_flip < -log_p + SLACK:
        if log_p >= _log(_tight_limit(radius + 1, q, n_classes)) + SLACK:
            break
        radius += 1
    return radius


@cache
def _tight_limit(radius, q, n_classes):
    """Return the largest failure probability that certifies a given number of flips (M4)."""
    q = Fraction(q)
    up, down = q / (n_classes - 1), 1 - q  # that the new label, or the old one, is drawn when the old one is there
    before, after = {0: Fraction(1)}, {0: Fraction(1)}
    for _ in range(radius):
        before = _convolved(before, {1: up, -1: down, 0: 1 - up - down})
        after = _convolved(after, {1: down, -1: up, 0: 1 - up - down})
    missing, limit = Fraction(1, 2), Fraction(0)
    for step in sorted(after, reverse=True):
        if after[step] >= missing:
            return limit + before[step] * missing / after[step]
        limit, missing = limit + before[step], missing - after[step]
    return limit


def _convolved(one, steps):
    after = {}
    for reached, chance in one.items():
        for step, its_chance in steps.items():
            after[reached + step] = after.get(reached + step, 0) + chance * its_chance
    return after


def _log(number):
    return math.log(number.numerator) - math.log(number.denominator) if number > 0 else -math.inf
