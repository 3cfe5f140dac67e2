"""The exact radius of the deployed rule: no noise, no bound, both ways (M6).

Changing one label lowers the margin of winner c over rival d by a *gain* that depends on that label alone: 2|k| if it
now supports c with a positive vote, or d with a negative one; |k| if it names neither; 0 otherwise. Gains add up, so an
attacker who wants d to draw level takes the largest gains first, and the shortest prefix that reaches the margin is the
least number of flips. A tie counts as lost, whichever class would win it.
"""

from __future__ import annotations

import numpy as np

from flipproof.rounding import Integers
from flipproof.votes import Duel

#: Flips needed where no labels at all can overturn the prediction.
UNREACHABLE = np.iinfo(np.int64).max


def flips_to_overturn(duel: Duel, margin: Integers) -> Integers:
    """Return the least number of label changes that lets the rival draw level, or UNREACHABLE.

    Parameters
    ----------
    duel : Duel
        The votes, seen by winner and rival.
    margin : integers, one per test row
        Lead of the winner under the deployed rule, offsets included; not negative.

    Notes
    -----
    Soundness: integers throughout (below 2**46 for 10**6 votes of 24 bits), hence no rounding. The attack that attains
    the number is the prefix itself, and no other set of that many labels has a larger sum of gains.
    """
    gains, pulls = _gains(duel)
    steps = gains * pulls
    reach = np.cumsum(steps, axis=-1)
    flips = np.cumsum(pulls, axis=-1)
    reached = reach >= margin[:, None]
    first = np.argmax(reached, axis=-1)[:, None]
    gain = np.take_along_axis(np.broadcast_to(gains, reach.shape), first, axis=-1)
    missing = margin[:, None] - np.take_along_axis(reach - steps, first, axis=-1)
    within_level = -(-missing // np.maximum(gain, 1))  # ceiling division
    needed = np.take_along_axis(flips - pulls, first, axis=-1) + within_level
    return np.where(reached.any(axis=-1), needed[:, 0], UNREACHABLE)


def radius_from_flips(flips: Integers, n_touchable: int) -> Integers:
    """Return the radius: one less than the flips needed, at least 0, and all that can be touched if none suffice."""
    return np.where(flips == UNREACHABLE, n_touchable, np.maximum(flips - 1, 0))


def _gains(duel: Duel) -> tuple[Integers, Integers]:
    """Return the gains in falling order, and how many labels offer each."""
    size = np.abs(duel.values)
    double = np.where(duel.values > 0, duel.winner, 0) + np.where(duel.values < 0, duel.rival, 0)
    if duel.others is None:
        gains, pulls = 2 * size, double
    else:
        gains = np.concatenate([2 * size, size], axis=-1)
        pulls = np.concatenate([double, duel.others], axis=-1)
    order = np.argsort(-gains, axis=-1, kind="stable")
    gains = np.take_along_axis(gains, order, axis=-1)
    if order.shape[0] == 1:
        return gains, pulls[:, order[0]]
    return gains, np.take_along_axis(pulls, order, axis=-1)
