"""A learner whose votes are sparse gets the same certificates as its dense twin, and they are true."""

from dataclasses import dataclass

import numpy as np
import pytest
from enumeration import all_labellings, flips_to_change, scores_after
from scipy.sparse import csr_array

from flipproof.core.votes import SparseVotes
from flipproof.learners.base import LabelLinearClassifier

NEIGHBOURS = 3


@dataclass(frozen=True)
class DenseVotes:
    votes: np.ndarray
    exponent: np.ndarray

    @property
    def n_train(self):
        return self.votes.shape[1]

    def unrounded(self, start, stop):
        return self.votes[:, start:stop].copy()


class NearestNeighbours(LabelLinearClassifier):
    """The nearest votes 3, the second 2, the third -1 (so that signs matter)."""

    def __init__(self, noise=0.1, sparse=True, method="exact", precision=10, features=None, classes=None):
        self.noise = noise
        self.sparse = sparse
        self.method = method
        self.precision = precision
        self.features = features
        self.classes = classes

    block_size = n_jobs = None

    def fit_without_labels(self, X):
        self._X = X

    def label_free_votes(self, Z, held):
        distance = np.abs(Z[:, None, :] - self._X[None]).sum(axis=2)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :NEIGHBOURS]
        votes = np.zeros(distance.shape)
        np.put_along_axis(votes, nearest, np.array([[3.0, 2.0, -1.0]]), axis=1)
        exponent = np.zeros(len(Z), dtype=np.int64)
        return SparseVotes(csr_array(votes), exponent, NEIGHBOURS) if self.sparse else DenseVotes(votes, exponent)


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize("precision", [2, 10, 20])
def test_sparse_and_dense_agree(method, precision):
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(500, 2)), rng.integers(3, size=500), rng.normal(size=(30, 2))
    one, two = (
        NearestNeighbours(0.01, sparse, precision=precision).fit(X, y).certify(Z, method) for sparse in (True, False)
    )
    # two rivals may be equally close: which one is named then depends on the last bit of a sum
    for name in ("prediction", "radius", "rival", "margin") if method == "exact" else ("prediction", "radius"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_allclose(one.log_failure, two.log_failure, rtol=1e-5)


def test_every_attack_on_a_sparse_learner():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n, K = int(rng.integers(4, 7)), int(rng.integers(2, 4))
        X, y, Z = rng.normal(size=(n, 1)), rng.integers(K, size=n), rng.normal(size=(5, 1))
        model = NearestNeighbours(precision=int(rng.choice([2, 10])), classes=range(K)).fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        labellings = all_labellings(n, K)
        certificates = model.certify(Z)
        for i, prediction in enumerate(model.predict(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            needed = flips_to_change(y, labellings, scores.argmax(axis=1), prediction)
            assert certificates.radius[i] == (n if needed == np.inf else needed - 1)
