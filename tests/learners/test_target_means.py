"""Weights of targets; means and gaps of groups of test rows: every attack, by refits."""

from itertools import product

import numpy as np
import pytest
from every_target_attack import attacked_targets, extreme_predictions
from sklearn.base import clone

from flipproof import (
    Adversary,
    CertifiedForestRegressor,
    CertifiedKernelRegressor,
    CertifiedNeighborsRegressor,
    CertifiedRidgeRegressor,
)
from flipproof.core import target_means

RANGE = (-1.5, 2.0)

REGRESSORS = {
    "ridge": CertifiedRidgeRegressor(target_range=RANGE),
    "ridge without intercept": CertifiedRidgeRegressor(target_range=RANGE, fit_intercept=False, precision=5),
    "kernel": CertifiedKernelRegressor(target_range=RANGE, regularization=0.3),
    "neighbours": CertifiedNeighborsRegressor(3, target_range=RANGE),
    "weighted neighbours": CertifiedNeighborsRegressor(4, weights="distance", target_range=RANGE),
    "forest": CertifiedForestRegressor(5, min_samples_leaf=2, target_range=RANGE),
}

ADVERSARIES = [
    None,
    Adversary(trusted=np.arange(6) < 2),
    Adversary(groups=list("abbacd")),
    Adversary(max_change=0.3),
]


def problem(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(6, 2)), rng.uniform(*RANGE, size=6), rng.normal(size=(5, 2))


GROUPS = np.array(["old", "young", "old", "young", "young"])


def means(predictions):
    old, young = (predictions[name == GROUPS].mean() for name in ("old", "young"))
    return np.array([old, young, old - young])


@pytest.mark.parametrize("name", REGRESSORS)
def test_means_and_gaps_are_those_of_every_attack(name):
    X, y, Z = problem(len(name))
    model, adversary = clone(REGRESSORS[name]).fit(X, y), ADVERSARIES[len(name) % 4]
    options = {"flips": [0, 1, 2], "adversary": adversary}
    found, gap = model.certify_means(Z, GROUPS, **options), model.certify_gaps(Z, GROUPS, **options)
    assert found.ids == ["old", "young"]
    assert gap.ids == ["old - young"]
    np.testing.assert_allclose([*found.prediction, *gap.prediction], means(model.predict(Z)), rtol=1e-12)
    rng = np.random.default_rng(0)
    for r in (1, 2):
        attacked = attacked_targets(y, *RANGE, adversary, r, rng)
        every = np.array([means(clone(model).fit(X, one).predict(Z)) for one in attacked])
        np.testing.assert_allclose([*found.low[:, r], *gap.low[:, r]], every.min(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose([*found.high[:, r], *gap.high[:, r]], every.max(axis=0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["ridge", "forest"])
def test_radii_of_means_and_gaps(name):
    X, y, Z = problem(3)
    model = clone(REGRESSORS[name]).fit(X, y)
    for certify in (model.certify_means, model.certify_gaps):
        every = certify(Z, GROUPS, flips=range(7))
        for tolerance in (0.0, 0.1, 0.6, 9.0):
            found = certify(Z, GROUPS, tolerance=tolerance)
            farthest = np.maximum(every.high - every.prediction[:, None], every.prediction[:, None] - every.low)
            beyond = farthest > tolerance
            np.testing.assert_array_equal(found.radius, np.where(beyond.any(1), beyond.argmax(1) - 1, 6))
        for threshold in (0.0, 0.2, float(every.prediction[0])):
            found = certify(Z, GROUPS, threshold=threshold)
            is_above = every.prediction >= threshold
            crosses = np.where(is_above[:, None], every.low < threshold, every.high >= threshold)
            np.testing.assert_array_equal(found.radius, np.where(crosses.any(1), crosses.argmax(1) - 1, 6))


def test_the_mean_of_one_row_is_its_prediction_and_blocks_do_not_matter():
    X, y, Z = problem(1)
    for model in REGRESSORS.values():
        model = clone(model).fit(X, y)
        alone = model.certify_means(Z[:1], flips=[1, 3])
        np.testing.assert_allclose(alone.high[0], model.certify(Z[:1], flips=[1, 3]).high[0], rtol=1e-14)
        assert alone.ids == ["all"]
        whole = model.certify_means(Z, GROUPS, flips=2, tolerance=0.1)
        parts = model.set_params(block_size=2).certify_means(Z, GROUPS, flips=2, tolerance=0.1)
        for name in ("prediction", "low", "high", "radius"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_bad_groups_and_medians_are_refused():
    X, y, Z = problem(0)
    model = clone(REGRESSORS["ridge"]).fit(X, y)
    with pytest.raises(ValueError, match="one entry per test row"):
        model.certify_means(Z, ["a"])
    with pytest.raises(ValueError, match="two groups"):
        model.certify_gaps(Z, ["a"] * 5)
    median = CertifiedNeighborsRegressor(3, average="median", target_range=RANGE)
    with pytest.raises(ValueError, match="not certified"):
        median.fit(X, y).certify_means(Z)
    with pytest.raises(ValueError, match="a median counts targets"):
        median.fit(X, y, sample_weight=np.arange(6))


class Weighted(CertifiedNeighborsRegressor):
    """Fits with the same weights every time."""

    def fit(self, X, y):
        return super().fit(X, y, sample_weight=[0.5, 0.0, 2.0, 1.0, 3.0, 0.7])


@pytest.mark.parametrize("n_neighbors", [1, 3, 6])
def test_weights_of_targets_are_those_of_a_weighted_mean(n_neighbors):
    X, y, Z = problem(n_neighbors)
    weights = np.array([0.5, 0.0, 2.0, 1.0, 3.0, 0.7])
    model = Weighted(n_neighbors, target_range=RANGE).fit(X, y)
    near = np.argsort(((Z[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :n_neighbors]
    total = weights[near].sum(axis=1)
    expected = np.where(total > 0, (weights[near] * y[near]).sum(axis=1) / np.where(total > 0, total, 1), 0.25)
    np.testing.assert_allclose(model.predict(Z), expected, atol=1e-3)
    found = model.certify(Z, flips=2)
    low, high = extreme_predictions(model, X, y, Z, *RANGE, None, 2)
    np.testing.assert_array_equal(found.low, low)
    np.testing.assert_array_equal(found.high, high)
    assert "target-weights" in {one.code for one in found.assumptions}


def test_weights_of_a_forest_are_certified():
    X, y, Z = problem(9)
    weights = [1, 2, 3, 0, 5, 1]
    model = clone(REGRESSORS["forest"]).fit(X, y, sample_weight=weights)
    found = model.certify(Z, flips=1)
    every = []
    for row, end in product(range(6), RANGE):
        changed = y.copy()
        changed[row] = end
        every.append(clone(model).fit(X, changed, sample_weight=weights).predict(Z))
    np.testing.assert_array_equal(found.high, np.maximum(np.max(every, axis=0), found.prediction))
    np.testing.assert_array_equal(found.low, np.minimum(np.min(every, axis=0), found.prediction))
    with pytest.raises(ValueError, match=r"non-zero|must not be 0"):
        clone(model).fit(X, y, sample_weight=np.zeros(6))


def test_means_that_would_take_too_much_memory_are_refused(monkeypatch):
    X, y, Z = problem(0)
    model = clone(REGRESSORS["weighted neighbours"]).fit(X, y)
    monkeypatch.setattr(target_means, "MOST_SUMS", 1)
    with pytest.raises(ValueError, match="too much memory"):
        model.certify_means(Z, GROUPS)
