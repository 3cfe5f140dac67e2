"""Regressors on hard random problems: extreme scales and ranges, ties, few bits; every attack, by refits."""

import numpy as np
import pytest
from every_target_attack import extreme_predictions

from flipproof import (
    Adversary,
    CertifiedForestRegressor,
    CertifiedKernelRegressor,
    CertifiedNeighborsRegressor,
    CertifiedRidgeRegressor,
)

#: What a problem may be refused for: its numbers are too far apart, in one clear line.
REFUSALS = ("target_range", "beyond 64 bits", "into steps")


def hard_range(rng):
    unit = 10.0 ** rng.integers(-300, 300) if rng.random() < 0.3 else 1.0
    start = float(rng.choice([0, 1, -3, 1e6, -1e12])) * unit
    return start + unit * float(rng.choice([0, -1, -0.3])), start + unit * float(rng.choice([1, 2.7, 1e-9, 1e3]))


def some_regressor(rng, n, target_range):
    options = {"target_range": target_range, "precision": int(rng.integers(2, 25))}
    has_intercept = bool(rng.integers(2))
    return [
        lambda: CertifiedRidgeRegressor(fit_intercept=has_intercept, regularization=float(rng.integers(2)), **options),
        lambda: CertifiedKernelRegressor(fit_intercept=has_intercept, regularization=0.1, **options),
        lambda: CertifiedNeighborsRegressor(int(rng.integers(1, n + 1)), weights="distance", **options),
        lambda: CertifiedNeighborsRegressor(int(rng.integers(1, n + 1)), **options),
        lambda: CertifiedNeighborsRegressor(int(rng.integers(1, n + 1)), average="median", **options),
        lambda: CertifiedForestRegressor(3, min_samples_leaf=1, **options),
    ][rng.integers(6)]()


def some_adversary(rng, n, width):
    limits = {}
    if rng.random() < 0.4:
        limits["trusted"] = rng.random(n) < 0.4
    if rng.random() < 0.4:
        limits["groups"] = rng.integers(0, 3, size=n)
    if rng.random() < 0.4:
        limits["max_change"] = float(width * rng.choice([0, 0.01, 0.3, 1, 5]))
    return Adversary(**limits) if limits else None


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(one, marks=pytest.mark.slow) for one in range(12, 400))])
def test_hard_problems_have_exact_intervals_and_radii(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    scale = 10.0 ** rng.integers(-150, 100)
    X = rng.integers(-2, 3, size=(n, k)).astype(float) if rng.random() < 0.4 else rng.normal(size=(n, k)) * scale
    Z = np.r_[X[:1], rng.normal(size=(2, k))]
    low, high = hard_range(rng)
    y = np.clip(rng.uniform(low, max(high, low), size=n), low, high)
    y = rng.choice([low, high, y[0]], size=n) if rng.random() < 0.5 else y
    adversary, r = some_adversary(rng, n, abs(high - low)), int(rng.integers(0, 3))
    try:
        model = some_regressor(rng, n, (low, high)).fit(X, y)
    except ValueError as error:
        assert any(one in str(error) for one in REFUSALS), error  # noqa: PT017
        return
    found = model.certify(Z, r, adversary=adversary)
    lowest, highest = extreme_predictions(model, X, y, Z, low, high, adversary, r, seed)
    np.testing.assert_array_equal(found.low, lowest)
    np.testing.assert_array_equal(found.high, highest)
    threshold = float(found.prediction[0])
    crossed = model.certify(Z, range(n + 1), threshold=threshold, adversary=adversary)
    crosses = np.where((crossed.prediction >= threshold)[:, None], crossed.low < threshold, crossed.high >= threshold)
    expected = np.where(crosses.any(axis=1), crosses.argmax(axis=1) - 1, crossed.n_touchable)
    np.testing.assert_array_equal(crossed.radius, expected)


@pytest.mark.parametrize("target_range", [(0, 1e300), (-6e299, 6e299), (0, 1e-300)], ids=str)
@pytest.mark.parametrize("regressor", [CertifiedNeighborsRegressor(2), CertifiedForestRegressor(precision=2)], ids=str)
def test_ranges_that_no_grid_of_20_bits_can_step_through_are_refused(regressor, target_range):
    with pytest.raises(ValueError, match="into steps: rescale"):
        regressor.set_params(target_range=target_range).fit(np.arange(4.0)[:, None], np.zeros(4))


@pytest.mark.parametrize("unit", [1e-270, 1e270])
def test_huge_and_tiny_ranges_have_intervals_that_no_change_leaves(unit):
    rng = np.random.default_rng(0)
    X, y, low, high = rng.normal(size=(5, 1)), unit * rng.random(5), -0.9 * unit, 1.1 * unit
    model = CertifiedNeighborsRegressor(2, target_range=(low, high)).fit(X, y)
    found = model.certify(X, 1)
    after = []
    for row in range(5):
        for end in (low, high):
            changed = y.copy()
            changed[row] = end
            after.append(CertifiedNeighborsRegressor(2, target_range=(low, high)).fit(X, changed).predict(X))
    np.testing.assert_array_equal(np.min(after, axis=0), found.low)
    np.testing.assert_array_equal(np.max(after, axis=0), found.high)
