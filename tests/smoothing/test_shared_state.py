"""Draws depend on the seed only, not on global generators, on data changed later, or on measures that work in place."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from flipproof.core.noise import FeatureNoise
from flipproof.smoothing import SmoothedClassifier


class GlobalCoin(ClassifierMixin, BaseEstimator):
    """Predicts by coin flips from numpy's global generator, one in fit and one for each prediction."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.side_ = np.random.rand() < 0.5  # noqa: NPY002
        return self

    def predict(self, X):
        tossed = np.random.rand(len(X)) < 0.5  # noqa: NPY002
        return self.classes_[np.where(tossed == self.side_, 0, len(self.classes_) - 1)]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return X, (X[:, 0] > 0).astype(int), rng.normal(size=(30, 2))


def votes(model, Z):
    certificates = model.certify(Z)
    return np.column_stack([certificates.log_failure, certificates.margin])


@pytest.mark.slow
@pytest.mark.parametrize("keep_models", [False, True])
@pytest.mark.parametrize(
    "learner",
    [GlobalCoin(), GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 3]}, cv=KFold(2, shuffle=True))],
    ids=["coin", "search"],
)
def test_votes_of_a_learner_that_uses_the_global_generator_depend_on_the_seed_only(learner, keep_models, data):
    X, y, Z = data
    settings = {"n_select": 4, "n_samples": 12, "random_state": 0, "keep_models": keep_models}
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = votes(SmoothedClassifier(learner, 0.3, **settings).fit(X, y), Z)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(6)  # noqa: NPY002
    again = SmoothedClassifier(learner, 0.3, **settings).fit(X, y)
    np.testing.assert_array_equal(votes(again, Z), first)
    np.testing.assert_array_equal(votes(again, Z), first)
    np.testing.assert_array_equal(votes(again.set_params(n_jobs=2), Z), first)
    np.testing.assert_array_equal(again.predict(Z), again.certify(Z).prediction)
    assert len(np.unique(first, axis=0)) > 1


def test_the_global_generator_differs_between_draws(data):
    X, y, _ = data
    model = SmoothedClassifier(GlobalCoin(), 0.3, n_select=1, n_samples=200, keep_models=True, random_state=0).fit(X, y)
    heads = sum(model.side_ for model in model.models_)
    assert 70 < heads < 130


class InPlace:
    """Adds the noise to its input in place."""

    def __init__(self, part):
        self.part = part

    def sample(self, data, rng):
        if self.part == "labels":
            data[:] = rng.integers(0, 2, size=len(data))
        else:
            data += rng.laplace(size=data.shape)
        return data

    def divergence(self, data, other):
        return float(np.abs(data - other).sum())


@pytest.mark.parametrize("part", ["features", "labels"])
def test_a_measure_that_works_in_place_changes_only_a_copy_of_the_data(part, data):
    X, y, Z = data
    kept_X, kept_y = X.copy(), y.copy()
    model = SmoothedClassifier(
        KNeighborsClassifier(3), InPlace(part), n_select=3, n_samples=10, method="kl", random_state=0
    ).fit(X, y)
    first = votes(model, Z)
    np.testing.assert_array_equal(votes(model, Z), first)
    np.testing.assert_array_equal(X, kept_X)
    np.testing.assert_array_equal(y, kept_y)


def test_changing_data_or_learner_after_fit_has_no_effect(data):
    X, y, Z = data
    learner = KNeighborsClassifier(3)
    model = SmoothedClassifier(learner, 0.3, n_select=5, n_samples=20, random_state=0).fit(X, y)
    first = votes(model, Z)
    X *= -1
    y[:] = 1 - y
    learner.set_params(n_neighbors=30)
    np.testing.assert_array_equal(votes(model, Z), first)


class OfLists(KNeighborsClassifier):
    """Accepts rows as lists and modifies them."""

    def fit(self, X, y):
        super().fit(np.array(list(X)), y)
        for row in X:
            row[0] = 1e9
        return self

    def predict(self, X):
        return super().predict(np.array(list(X)))


def of_objects(X):
    rows = np.empty(len(X), dtype=object)
    rows[:] = X.tolist()
    return rows


@pytest.mark.few(1)
@pytest.mark.parametrize("as_rows", [np.ndarray.tolist, of_objects])
def test_nested_lists_of_rows_are_deep_copied(as_rows, data):
    X, y, Z = data
    rows, settings = as_rows(X), {"n_select": 5, "n_samples": 20, "random_state": 0}
    model = SmoothedClassifier(OfLists(3), 0.3, **settings).fit(rows, y)
    first = votes(model, Z.tolist())
    assert [row[0] for row in rows] == X[:, 0].tolist()
    for row in rows:
        row[:] = [0.0, 0.0]
    np.testing.assert_array_equal(votes(model, Z.tolist()), first)
    plain = SmoothedClassifier(KNeighborsClassifier(3), 0.3, **settings).fit(X, y)
    np.testing.assert_array_equal(first, votes(plain, Z))


class Shifts:
    """A measure with mutable settings."""

    part = "features"

    def __init__(self):
        self.scale = [1.0]

    def sample(self, data, rng):
        return data + rng.normal(scale=self.scale[0], size=data.shape)

    def divergence(self, data, other):
        return float(np.square(data - other).sum() / (2 * self.scale[0] ** 2))


@pytest.mark.slow
def test_changing_a_measure_or_nested_setting_after_fit_has_no_effect(data):
    X, y, Z = data
    measure, grid = Shifts(), {"max_depth": [1]}
    learner = GridSearchCV(DecisionTreeClassifier(random_state=0), grid, cv=2)
    settings = {"n_select": 3, "n_samples": 12, "confidence": 0.9, "random_state": 0}
    model = SmoothedClassifier(learner, measure, method="kl", **settings).fit(X, y)
    first = votes(model, Z)
    measure.scale[0] = 50.0
    grid["max_depth"][0] = 7
    np.testing.assert_array_equal(votes(model, Z), first)


def test_unseeded_draws_do_not_depend_on_numpys_global_seed(data):
    X, y, _ = data
    seeds = set()
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        seeds.add(SmoothedClassifier(KNeighborsClassifier(3), FeatureNoise(1.0)).fit(X, y).seed_)
    assert len(seeds) == 2
