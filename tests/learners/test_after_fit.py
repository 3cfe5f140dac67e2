"""A fitted model is what it was fitted as: parameters that are set later, and data that are changed later, wait."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsTransformer
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    distributed,
)
from flipproof.noise import FeatureNoise, JointNoise, LabelFlip
from flipproof.smoothing import SmoothedClassifier

RNG = np.random.default_rng(0)
Y = np.arange(80) % 2
X = RNG.normal(size=(80, 3)) + 0.7 * Y[:, None]
Z = RNG.normal(size=(25, 3)) + 0.35

SMOOTHED = {"n_select": 3, "n_samples": 12, "confidence": 0.9, "random_state": 0}
LEARNERS = [
    CertifiedRidgeClassifier(),
    CertifiedRidgeClassifier(fit_intercept=False, noise=0.2),
    CertifiedKernelClassifier(),
    CertifiedKernelClassifier("laplacian", gamma=0.5, n_components=9),
    CertifiedNeighborsClassifier(9),
    CertifiedNeighborsClassifier(9, weighting="distance", metric="cityblock"),
    CertifiedNeighborsClassifier(5, index=KNeighborsTransformer(mode="distance", n_neighbors=9)),
    CertifiedClusterClassifier(KMeans(4, n_init=1)),
    CertifiedForestClassifier(7),
    CertifiedPropagationClassifier(4),
    CertifiedPartitionClassifier(GaussianNB(), 7),
    SmoothedClassifier(GaussianNB(), 0.3, **SMOOTHED),
    SmoothedClassifier(GaussianNB(), 0.3, keep_models=True, **SMOOTHED),
    SmoothedClassifier(GaussianNB(), FeatureNoise(0.5), **SMOOTHED),
    SmoothedClassifier(GaussianNB(), JointNoise(LabelFlip(0.3), FeatureNoise(0.5)), **SMOOTHED),
    distributed.CertifiedRidgeClassifier(),
    distributed.CertifiedKernelClassifier(n_components=9, gamma=0.5),
]

#: For each parameter, values that mean another model, some of them no model at all.
OTHERS = {
    "alpha": [0.1, "x"],
    "classes": [[0, 1, 2], ["a", "b"], [1, 0]],
    "clusterer": [KMeans(2, n_init=1), None, 3],
    "coef0": [5.0],
    "confidence": [0.8],
    "confidence_over": ["batch"],
    "degree": [2],
    "estimator": [DecisionTreeClassifier(), RandomForestClassifier(2), None],
    "features": [PCA(1), StandardScaler(), "x"],
    "fit_intercept": [True, False],
    "gamma": [0.01, 3.0],
    "guarantee": ["kl"],
    "index": [None, KNeighborsTransformer(mode="distance", n_neighbors=2)],
    "keep_models": [True, False],
    "kernel": ["linear", "poly", lambda a, b: a @ b.T],
    "max_depth": [1],
    "max_features": [1],
    "method": ["kl", "tight", "exact"],
    "metric": ["cosine", "euclidean", lambda a, b: 1.0],
    "min_samples_leaf": [20],
    "n_components": [None, 3],
    "n_estimators": [1],
    "n_jobs": [2],
    "n_neighbors": [1, 40],
    "n_partitions": [2],
    "n_samples": [5],
    "n_select": [1],
    "noise": [0.01, 0.45, "auto", FeatureNoise(3.0)],
    "precision": [2, 24],
    "random_state": [7],
    "regularization": ["paper", 1e9],
    "rule": ["poisson"],
    "verbose": [0],
    "vote": ["joint"],
    "weighting": ["distance", "uniform"],
    "block_size": [1, 1000],
}

#: What a certificate is asked for, and not what the model is: a later value counts.
ASKED_FOR = {"method", "guarantee", "confidence", "confidence_over"}


PARAMETERS = [(learner, name) for learner in LEARNERS for name in sorted(learner.get_params(deep=False))]


@pytest.mark.parametrize(("learner", "name"), PARAMETERS, ids=lambda value: str(value)[:60])
def test_parameters_that_are_set_after_fit_change_no_fitted_model(learner, name):
    model = clone(learner).fit(X, Y)
    before, adversary = model.certify(Z), None
    if before.unit == "labels":
        adversary = Adversary(trusted=np.arange(80) < 40)
    limited = model.certify(Z, adversary=adversary)
    predicted = model.predict(Z)
    np.testing.assert_array_equal(before.prediction, predicted)
    assert any("class set" in one for one in before.assumptions)
    for value in OTHERS[name]:
        model.set_params(**{name: value})
        np.testing.assert_array_equal(model.predict(Z), predicted)
        try:
            after, after_limited = model.certify(Z), model.certify(Z, adversary=adversary)
        except ValueError:  # a parameter that is no good is an error at any time
            continue
        np.testing.assert_array_equal(after.prediction, predicted)
        if name not in ASKED_FOR:
            for now, then in ((after, before), (after_limited, limited)):
                np.testing.assert_array_equal(now.radius, then.radius)
                np.testing.assert_array_equal(now.margin, then.margin)
                assert now.assumptions == then.assumptions
                assert (now.unit, now.n_touchable) == (then.unit, then.n_touchable)
        if hasattr(after, "confidence"):
            assert any(f"probability {after.confidence} over" in one for one in after.assumptions)
        assert [one for one in after.assumptions if "class set" in one] == [
            one for one in before.assumptions if "class set" in one
        ]


IN_MEMORY = [one for one in LEARNERS if not type(one).__module__.startswith("flipproof.distributed")]


@pytest.mark.parametrize("learner", IN_MEMORY, ids=lambda value: str(value)[:60])
def test_data_that_are_changed_after_fit_change_no_fitted_model(learner):
    rows, labels, classes = X.copy(), Y.copy(), np.array([0, 1])
    model = clone(learner).set_params(classes=classes).fit(rows, labels)
    before = model.certify(Z)
    rows[:] = RNG.normal(size=rows.shape)
    labels[:] = 0
    classes[:] = [5, 6]
    after = model.certify(Z)
    np.testing.assert_array_equal(after.prediction, before.prediction)
    np.testing.assert_array_equal(after.radius, before.radius)
    np.testing.assert_array_equal(after.margin, before.margin)
    np.testing.assert_array_equal(model.predict(Z), before.prediction)
    assert after.assumptions == before.assumptions


def test_every_parameter_is_tried():
    names = {name for learner in LEARNERS for name in learner.get_params(deep=False)}
    assert names == set(OTHERS)
