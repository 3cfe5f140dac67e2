"""`check_regressor` passes sound regressors, and finds intervals that are too narrow or too wide."""

from dataclasses import replace

import numpy as np
import pytest

from flipproof import (
    CertifiedForestRegressor,
    CertifiedKernelRegressor,
    CertifiedNeighborsRegressor,
    CertifiedRidgeRegressor,
)
from flipproof.checks import check_regressor

RANGE = (-1, 3)


@pytest.mark.parametrize(
    "estimator",
    [
        CertifiedRidgeRegressor(target_range=RANGE),
        CertifiedRidgeRegressor(target_range=RANGE, clip=0.5),
        CertifiedKernelRegressor(target_range=RANGE),
        CertifiedNeighborsRegressor(3, target_range=RANGE),
        CertifiedNeighborsRegressor(4, average="median", target_range=RANGE),
        CertifiedForestRegressor(5, target_range=RANGE),
    ],
)
def test_sound_regressors_pass(estimator):
    check_regressor(estimator, n_attacks=30, n_problems=1)


class Narrow(CertifiedRidgeRegressor):
    def certify(self, *args, **options):
        found = super().certify(*args, **options)
        return replace(
            found, high=found.high - 1e-6 * (found.high > found.prediction.reshape(-1, *[1] * (found.high.ndim - 1)))
        )


class Wide(CertifiedRidgeRegressor):
    def certify(self, *args, **options):
        found = super().certify(*args, **options)
        return replace(found, high=found.high + 1e-9)


class Boastful(CertifiedRidgeRegressor):
    def certify(self, *args, **options):
        found = super().certify(*args, **options)
        return found if found.radius is None else replace(found, radius=found.radius + 1)


class LooksAtTargets(CertifiedRidgeRegressor):
    def predict(self, X):
        return super().predict(X) + self.targets_.mean()


@pytest.mark.parametrize(
    ("kind", "fragment"),
    [(Narrow, "interval"), (Wide, "attain"), (Boastful, "radius"), (LooksAtTargets, "certify and predict differ")],
)
def test_unsound_regressors_are_found(kind, fragment):
    with pytest.raises(AssertionError, match=fragment):
        check_regressor(kind(target_range=RANGE), n_attacks=250, n_problems=1)


def test_own_data_and_bad_input():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), rng.uniform(*RANGE, size=20)
    check_regressor(CertifiedRidgeRegressor(target_range=RANGE), X[:15], y[:15], X[15:], n_attacks=10)
    with pytest.raises(ValueError, match="together"):
        check_regressor(CertifiedRidgeRegressor(target_range=RANGE), X)
    with pytest.raises(ValueError, match="target_range"):
        check_regressor(CertifiedRidgeRegressor())
