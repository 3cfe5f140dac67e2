"""Every attack there is, tried one by one: the judge of small cases, which knows nothing of the implementation."""

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


def flips_to_level(labels, labellings, scores, prediction):
    """The least number of changed labels that lets some other class at least draw level."""
    others = np.delete(scores, prediction, axis=1).max(axis=1)
    distance = (labellings != labels).sum(axis=1)
    level = distance[others >= scores[:, prediction]]
    return level.min() if level.size else np.inf
