"""Every possible attack, one by one: a reference for small cases, independent of the implementation."""

import itertools

import numpy as np


def all_labellings(n, n_classes):
    """Every label vector, one per line."""
    return np.array(list(itertools.product(range(n_classes), repeat=n)))


def scores_after(labellings, alpha, offsets):
    """Class scores of one test row under every labelling: alpha @ onehot(y) + offsets, exact on the grid."""
    return np.stack([(labellings == c) @ alpha + offset for c, offset in enumerate(offsets)], axis=1)


def flips_to_change(labels, labellings, predictions, prediction):
    """The least number of changed labels that changes the prediction; infinity if none does."""
    distance = (labellings != labels).sum(axis=1)
    changed = distance[predictions != prediction]
    return changed.min() if changed.size else np.inf


def possible_attacks(labels, n_classes, trusted=None, allowed=None, groups=None):
    """Every labelling that an adversary can reach, and its cost: labels changed, or annotators needed."""
    labellings = all_labellings(len(labels), n_classes)
    changed = labellings != labels
    possible = np.ones(len(labellings), dtype=bool)
    if trusted is not None:
        possible &= ~changed[:, trusted].any(axis=1)
    if allowed is not None:
        pairs = {(int(old), int(new)) for old, new in allowed}
        fine = np.array(
            [[(int(old), int(new)) in pairs for old, new in zip(labels, row, strict=True)] for row in labellings]
        )
        possible &= (fine | ~changed).all(axis=1)
    if groups is None:
        cost = changed.sum(axis=1)
    else:
        names = sorted(set(groups))
        cost = np.stack([changed[:, np.asarray(groups) == name].any(axis=1) for name in names], axis=1).sum(axis=1)
    return labellings[possible], cost[possible]


def touchable(labels, trusted=None, allowed=None, groups=None):
    """How many labels, or annotators, an adversary can touch at all."""
    free = [
        j
        for j, label in enumerate(labels)
        if not (trusted is not None and trusted[j])
        and (allowed is None or any(int(old) == int(label) for old, _ in allowed))
    ]
    return len(free) if groups is None else len({groups[j] for j in free})


def random_powers(rng, n, n_classes, which=None):
    """Some of trusted, allowed and groups, or none of them; `which` of the eight combinations is drawn at random."""
    which = rng.integers(8) if which is None else which
    pairs = [(a, b) for a in range(n_classes) for b in range(n_classes) if a != b]
    powers = {}
    if which & 1:
        powers["trusted"] = rng.random(n) < 0.4
    if which & 2:
        powers["allowed"] = [pairs[i] for i in np.flatnonzero(rng.random(len(pairs)) < 0.5)] or pairs[:1]
    if which & 4:
        powers["groups"] = rng.choice(list("abc"), size=n).tolist()
    return powers


def least_cost(cost, happened):
    """Cost of the cheapest successful attack; infinity if none succeeded."""
    return cost[happened].min() if happened.any() else np.inf
