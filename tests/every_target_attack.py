"""Every attack on a few training targets, by real refits: it knows nothing of how intervals are computed."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from sklearn.base import clone


def possible_targets(y, low, high, adversary, rng):
    """Return, for each row, the numbers that an adversary could choose: both ends, and one at random between them."""
    lowest, highest = np.full(len(y), low, dtype=float), np.full(len(y), high, dtype=float)
    if adversary is not None and adversary.max_change is not None:
        lowest, highest = np.maximum(y - adversary.max_change, low), np.minimum(y + adversary.max_change, high)
    inner = rng.uniform(lowest, highest)
    return np.stack([lowest, highest, inner], axis=1)


def attacked_targets(y, low, high, adversary, r, rng):
    """Yield all training targets that r changes to an end make, and for one changed row a random target between."""
    choices = possible_targets(y, low, high, adversary, rng)
    trusted = np.zeros(len(y), dtype=bool) if adversary is None or adversary.trusted is None else adversary.trusted
    groups = np.arange(len(y)) if adversary is None or adversary.groups is None else adversary.groups
    for chosen in combinations(np.unique(groups), min(r, len(np.unique(groups)))):
        rows = np.flatnonzero(np.isin(groups, chosen) & ~trusted)
        for ends in product(range(3 if len(rows) < 2 else 2), repeat=len(rows)):
            changed = y.copy()
            changed[rows] = choices[rows, list(ends)]
            yield changed


def extreme_predictions(model, X, y, Z, low, high, adversary, r, seed=0):
    """Return the lowest and highest prediction on each test row over all attacks, each after a refit."""
    rng, refit = np.random.default_rng(seed), clone(model)
    found = [refit.fit(X, one).predict(Z) for one in attacked_targets(y, low, high, adversary, r, rng)]
    return np.min(found, axis=0), np.max(found, axis=0)
