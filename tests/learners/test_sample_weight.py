"""Weights of labels multiply votes, on the grid, without reading labels."""

import numpy as np
import pytest
from enumeration import possible_attacks
from sklearn.cluster import KMeans

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
)


class Parzen(LabelLinearClassifier):
    """A learner as users write it."""

    def fit_without_labels(self, X):
        self.rows_ = X

    def label_free_weights(self, Z):
        return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2)), np.tile([0.0, 0.1], (len(Z), 1))


LEARNERS = [
    CertifiedRidgeClassifier(classes=[0, 1]),
    CertifiedKernelClassifier(classes=[0, 1]),
    CertifiedNeighborsClassifier(3, classes=[0, 1]),
    CertifiedNeighborsClassifier(3, classes=[0, 1], weights="distance"),
    CertifiedForestClassifier(n_estimators=3, classes=[0, 1], clip=0.8),
    CertifiedClusterClassifier(KMeans(2, n_init=1, random_state=0), classes=[0, 1]),
    CertifiedPropagationClassifier(n_neighbors=3, classes=[0, 1]),
    Parzen(classes=[0, 1]),
]


@pytest.mark.few(4)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: f"{type(one).__name__}-{one.clip}")
def test_radii_are_exact_with_weights(learner):
    rng = np.random.default_rng(0)
    X, Z, y = rng.normal(size=(8, 2)), rng.normal(size=(6, 2)), np.array([0, 1, 0, 1, 1, 0, 1, 0])
    weight = np.array([1.0, 0.5, 2.0, 0.0, 1 / 3, 1.0, 0.7, 1.0])
    plain, _ = learner.fit(X, y).vote_weights(Z)
    alpha, offsets = learner.fit(X, y, sample_weight=weight).vote_weights(Z)
    assert np.all(alpha[:, 3] == 0)
    if learner.clip is None:
        np.testing.assert_allclose(alpha, plain * weight / 2, atol=2.0**-9 * np.abs(plain).max())
    groups = list("aabbccdd")
    for adversary in (None, Adversary(groups=groups, trusted=np.arange(8) == 5)):
        certificates = learner.certify(Z, adversary=adversary)
        labellings, cost = possible_attacks(
            y, 2, **({} if adversary is None else {"trusted": adversary.trusted, "groups": groups})
        )
        scores = np.stack([alpha @ (c == labellings.T) for c in range(2)], axis=2) + offsets[:, None, :]
        changed = scores.argmax(axis=2) != certificates.prediction[:, None]
        for row in range(len(Z)):
            least = cost[changed[row]].min(initial=99)
            assert certificates.unlimited[row] if least == 99 else certificates.radius[row] == least - 1
    for labels in labellings[::50]:
        scores = np.stack([alpha @ (labels == c) for c in range(2)], axis=1) + offsets
        np.testing.assert_array_equal(learner.fit(X, labels, sample_weight=weight).predict(Z), scores.argmax(axis=1))


def test_equal_weights_are_no_weights_and_scale_does_not_matter():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 3)), rng.integers(3, size=50)
    model = CertifiedRidgeClassifier(classes=range(3))
    plain = model.fit(X, y).certify(X)
    equal = model.fit(X, y, sample_weight=np.full(50, 0.2)).certify(X)
    np.testing.assert_array_equal(plain.radius, equal.radius)
    weight = rng.random(50)
    once, twice = (model.fit(X, y, sample_weight=factor * weight).certify(X) for factor in (1, 4))
    np.testing.assert_array_equal(once.radius, twice.radius)
    assert not np.array_equal(once.radius, plain.radius)
    one_number = model.fit(X, y, sample_weight=2.0).certify(X)
    np.testing.assert_array_equal(plain.radius, one_number.radius)


def test_with_a_frozen_geometry_a_whole_weight_is_a_number_of_copies():
    rng = np.random.default_rng(2)
    X, y, reference = rng.normal(size=(12, 2)), rng.integers(2, size=12), rng.normal(size=(20, 2))
    times = rng.integers(0, 3, size=12)
    model = CertifiedRidgeClassifier(classes=[0, 1])
    copies = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times), reference=reference).predict(reference)
    weights = model.fit(X, y, sample_weight=times, reference=reference).predict(reference)
    assert np.mean(copies == weights) > 0.9  # up to rounding to the grid
    with pytest.raises(ValueError, match="sample_weight"):
        model.certify(X, adversary=Adversary(changes="rows"))
    with pytest.raises(ValueError, match="sample_weight"):
        model.forget([0])


@pytest.mark.parametrize(
    "bad", [np.full(6, -1.0), [1, 2], [np.nan] * 6, [np.inf] * 6, np.zeros(6), "heavy", np.ones((6, 2))]
)
def test_invalid_weights_are_refused(bad):
    X, y = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1]
    with pytest.raises((ValueError, TypeError)):
        CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y, sample_weight=bad)


def test_the_rule_of_the_paper_has_no_weights():
    X, y = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="fit_intercept"):
        CertifiedRidgeClassifier(classes=[0, 1], fit_intercept=False).fit(X, y, sample_weight=[1, 1, 1, 1, 1, 2])
