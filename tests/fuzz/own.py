"""Custom learners: votes from a table, and certificates that are wrong on purpose."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from flipproof import CertifiedRidgeClassifier, LabelLinearClassifier


class TableVotes(LabelLinearClassifier):
    """The weights of test row i are line i of a table, independent of its features; so are its offsets, if any."""

    def __init__(
        self,
        table=(),
        offsets=None,
        sparse=False,
        *,
        noise=0.1,
        precision=10,
        classes=None,
        block_size=None,
        n_jobs=None,
    ):
        super().__init__(noise, precision=precision, classes=classes, block_size=block_size, n_jobs=n_jobs)
        self.table = table
        self.offsets = offsets
        self.sparse = sparse

    def fit_without_labels(self, X):
        pass

    def label_free_weights(self, Z):
        lines = Z[:, 0].astype(int)
        weights = np.array(self.table, dtype=float)[lines]
        weights = csr_array(weights) if self.sparse else weights
        return weights if self.offsets is None else (weights, np.array(self.offsets, dtype=float)[lines])


class RadiusTooLarge(CertifiedRidgeClassifier):
    """Claims one changed label too many."""

    def certify(self, X, method=None, adversary=None):
        found = super().certify(X, method, adversary)
        return replace(found, radius=np.minimum(found.radius + 1, found.n_touchable))


class RadiusTooSmall(CertifiedRidgeClassifier):
    """Claims one changed label too few, if it claims any."""

    def certify(self, X, method=None, adversary=None):
        found = super().certify(X, method, adversary)
        return replace(found, radius=np.maximum(found.radius - 1, 0))


class WrongPrediction(CertifiedRidgeClassifier):
    """Certifies the last class instead of the predicted one."""

    def certify(self, X, method=None, adversary=None):
        found = super().certify(X, method, adversary)
        last, first = (np.full(len(found), self.classes_[code]) for code in (-1, 0))
        return replace(found, prediction=last, rival=first)


class WrongRival(CertifiedRidgeClassifier):
    """Names a class other than the one that limits the radius."""

    def certify(self, X, method=None, adversary=None):
        found = super().certify(X, method, adversary)
        others = [
            [c for c in self.classes_ if c not in pair] for pair in zip(found.prediction, found.rival, strict=True)
        ]
        return replace(found, rival=np.array([other[-1] for other in others]))


class FailureTooSmall(CertifiedRidgeClassifier):
    """Claims that the noise hardly ever fails."""

    def certify(self, X, method=None, adversary=None):
        found = super().certify(X, method, adversary)
        return replace(found, log_failure=found.log_failure * 4)


class ReadsLabels(CertifiedRidgeClassifier):
    """Chooses its regularization by the labels, which no certificate covers."""

    def fit(self, X, y):
        self.regularization = 1e-3 if np.asarray(y)[0] == np.asarray(y)[-1] else 1e3
        return super().fit(X, y)


class DistanceVotes(LabelLinearClassifier):
    """The weight of a row, of either sign, depends on its distance from the test row, in units of the reference."""

    def fit_without_labels(self, X):
        self.size_ = float(np.abs(X).max()) or 1.0

    def weight_of_row(self, x, z):
        with np.errstate(all="ignore"):
            return float(np.nan_to_num(np.cos(np.clip(np.abs(x / self.size_ - z / self.size_).sum(), 0, 1e9))))
