"""A learner defined by a table: its prediction for each labelling is arbitrary, and its votes can be enumerated."""

import numpy as np
from enumeration import all_labellings
from sklearn.base import BaseEstimator, ClassifierMixin


class TableLearner(ClassifierMixin, BaseEstimator):
    """Predicts ``table[row, number of the training labelling]``; the test row's only feature is its number."""

    def __init__(self, table=None, n_classes=2):
        self.table = table
        self.n_classes = n_classes

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.labelling_ = int(np.asarray(y) @ self.n_classes ** np.arange(len(y) - 1, -1, -1))
        return self

    def predict(self, X):
        return self.table[np.asarray(X)[:, 0].astype(int), self.labelling_]


def random_table(rng, n_rows, n, n_classes):
    """A table whose rows lean to class 0 by different amounts; one-class labellings predict it, as documented."""
    labellings = all_labellings(n, n_classes)
    size = (n_rows, len(labellings))
    table = np.where(rng.random(size) < np.linspace(0, 0.9, n_rows)[:, None], 0, rng.integers(n_classes, size=size))
    constant = (labellings == labellings[:, :1]).all(axis=1)
    table[:, constant] = labellings[constant, 0]
    return table


def enumerated_votes(table, q, n, n_classes):
    """The distance of all labellings, and the vote for each class at each of them, shape (rows, labellings, K)."""
    labellings = all_labellings(n, n_classes)
    distance = (labellings[:, None, :] != labellings[None, :, :]).sum(axis=2)
    chance = (1 - q) ** (n - distance) * (q / (n_classes - 1)) ** distance
    return distance, np.stack([(table == c) @ chance for c in range(n_classes)], axis=2)
