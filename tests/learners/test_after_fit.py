"""A fitted model is what it was fitted as: parameters that are set later, and data that are changed later, wait."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics.pairwise import rbf_kernel
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
    LabelLinearClassifier,
    collective_certify,
    streaming,
)
from flipproof.attacks import worst_flips
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip
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
    CertifiedNeighborsClassifier(9, weights="distance", metric="cityblock"),
    CertifiedNeighborsClassifier(5, index=KNeighborsTransformer(mode="distance", n_neighbors=9)),
    CertifiedClusterClassifier(KMeans(4, n_init=1)),
    CertifiedForestClassifier(7),
    CertifiedPropagationClassifier(4),
    CertifiedPartitionClassifier(GaussianNB(), 7),
    SmoothedClassifier(GaussianNB(), 0.3, **SMOOTHED),
    SmoothedClassifier(GaussianNB(), 0.3, keep_models=True, **SMOOTHED),
    SmoothedClassifier(GaussianNB(), FeatureNoise(0.5), **SMOOTHED),
    SmoothedClassifier(GaussianNB(), JointNoise(LabelFlip(0.3), FeatureNoise(0.5)), **SMOOTHED),
    streaming.StreamingRidgeClassifier(),
    streaming.StreamingKernelClassifier(n_components=9, gamma=0.5),
]

#: For each parameter, values that mean another model, some of them no model at all.
OTHERS = {
    "alpha": [0.1, "x"],
    "classes": [[0, 1, 2], ["a", "b"], [1, 0]],
    "clusterer": [KMeans(2, n_init=1), None, 3],
    "clip": [0.3, "sign"],
    "coef0": [5.0],
    "confidence": [0.8],
    "confidence_over": ["batch"],
    "degree": [2],
    "estimator": [DecisionTreeClassifier(), RandomForestClassifier(2), None],
    "features": [PCA(1), StandardScaler(), "x"],
    "fit_intercept": [True, False],
    "gamma": [0.01, 3.0],
    "graph": [np.ones((80, 80)), "x"],
    "grow": ["supervised"],
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
    "prior": [DecisionTreeClassifier(), DecisionTreeClassifier().fit([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], [0, 1]), "x"],
    "prior_weight": [5.0],
    "random_state": [7],
    "regularization": ["paper", 1e9],
    "rule": ["poisson"],
    "verbose": [0],
    "vote": ["joint"],
    "weights": ["distance", "uniform"],
    "block_size": [1, 1000],
}

#: What a certificate is asked for, and not what the model is: a later value counts.
ASKED_FOR = {"method", "confidence", "confidence_over"}


PARAMETERS = [(learner, name) for learner in LEARNERS for name in sorted(learner.get_params(deep=False))]


@pytest.mark.few(2)
@pytest.mark.parametrize(("learner", "name"), PARAMETERS, ids=lambda value: str(value)[:60])
def test_parameters_that_are_set_after_fit_change_no_fitted_model(learner, name):
    model = clone(learner).fit(X, Y)
    before, adversary = model.certify(Z), None
    if before.unit == "labels":
        adversary = Adversary(trusted=np.arange(80) < 40)
    limited = model.certify(Z, adversary=adversary)
    predicted = model.predict(Z)
    np.testing.assert_array_equal(before.prediction, predicted)
    assert any(one.code == "classes-read" for one in before.assumptions)
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
            [said] = [one for one in after.assumptions if one.code == "confidence"]
            assert said.values["confidence"] == after.confidence
        assert [one for one in after.assumptions if one.code == "classes-read"] == [
            one for one in before.assumptions if one.code == "classes-read"
        ]


IN_MEMORY = [one for one in LEARNERS if not type(one).__module__.startswith("flipproof.streaming")]


@pytest.mark.few(3)
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


# ---- steps and functions that write into what they are given


class Overwrites(TransformerMixin, BaseEstimator):
    """Scales rows where they are."""

    def fit(self, X, y=None):
        X /= 3
        self.is_fitted_ = True
        return self

    def transform(self, X):
        X *= 2
        return X


@pytest.mark.few(1)
@pytest.mark.parametrize("step", [StandardScaler(copy=False), Overwrites()], ids=repr)
@pytest.mark.parametrize(
    "learner", [CertifiedRidgeClassifier(), CertifiedPartitionClassifier(n_partitions=5)], ids=repr
)
def test_a_step_that_writes_into_its_input_changes_nothing_else(learner, step):
    given, rows = X.copy(), Z.copy()
    model = clone(learner).set_params(features=step).fit(given, Y)
    predictions = [model.predict(rows), model.predict(rows), model.certify(rows).prediction, model.predict(Z.copy())]
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(rows, Z)
    for again in predictions[1:]:
        np.testing.assert_array_equal(again, predictions[0])
    if learner.__class__ is CertifiedRidgeClassifier:
        attack = worst_flips(model, rows)
        for row in np.flatnonzero(attack.success)[:5]:
            refitted = clone(model).fit(X.copy(), attack.poisoned(Y, row))
            assert refitted.predict(Z[row : row + 1].copy())[0] != predictions[0][row]
        bounds = [collective_certify(model, rows, flips=3).most_changed for _ in range(2)]
        radii = model.certify(Z.copy()).radius
        assert bounds[0] == bounds[1] >= 1
        assert np.count_nonzero(radii < 3) >= bounds[0]


class WritesIntoRows(LabelLinearClassifier):
    """Keeps the rows that it was given, and writes into test rows."""

    def fit_without_labels(self, X):
        self.rows_ = X

    def label_free_weights(self, Z):
        Z -= 1
        return np.exp(-((Z[:, None] + 1 - self.rows_) ** 2).sum(axis=2))


def test_a_custom_learner_neither_sees_nor_makes_later_changes():
    given, rows = X.copy(), Z.copy()
    model = WritesIntoRows(classes=[0, 1]).fit(given, Y)
    before = model.certify(rows)
    given[:] = 0
    after = model.certify(rows)
    np.testing.assert_array_equal(rows, Z)
    np.testing.assert_array_equal(before.prediction, after.prediction)
    np.testing.assert_array_equal(before.radius, after.radius)


def test_a_kernel_and_a_metric_that_write_into_test_rows_change_nothing():
    def kernel(one, two):
        values = rbf_kernel(one, two)
        one[:] = 0
        return values

    def metric(u, v):
        far = np.abs(u - v).sum()
        u[:] = 0
        return far

    for model in (CertifiedKernelClassifier(kernel), CertifiedNeighborsClassifier(5, metric=metric)):
        given, rows = X.copy(), Z.copy()
        model.fit(given, Y)
        np.testing.assert_array_equal(model.predict(rows), model.predict(rows))
        np.testing.assert_array_equal(rows, Z)
        np.testing.assert_array_equal(given, X)


def test_a_kernel_and_a_metric_cannot_write_into_training_rows():
    def write(one, two):
        two[:] = 0

    for model in (CertifiedKernelClassifier(write), CertifiedNeighborsClassifier(5, metric=write)):
        with pytest.raises(ValueError, match="read-only"):
            model.fit(X.copy(), Y)


class DrawsFromAll(TransformerMixin, BaseEstimator):
    """Draws from the generator that all code of the process shares, and takes its time."""

    def fit(self, X, y=None):
        self.shift_ = []
        for _ in range(X.shape[1]):
            self.shift_.append(np.random.normal())  # noqa: NPY002
            time.sleep(0.005)
        return self

    def transform(self, X):
        return X * self.shift_


def test_fits_in_several_threads_draw_the_same_random_numbers_as_alone():
    def fitted(_):
        return CertifiedRidgeClassifier(features=DrawsFromAll()).fit(X, Y).features_.shift_

    alone = fitted(None)
    with ThreadPoolExecutor(4) as pool:
        assert all(one == alone for one in pool.map(fitted, range(8)))
