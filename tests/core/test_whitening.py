"""Whitened coordinates span the training rows, and the largest leverage covers all rows and any rounding error."""

from fractions import Fraction

import numpy as np
import pytest

from flipproof.core.linalg import LARGEST_TRAINING_FEATURE, whiten
from flipproof.runtime.determinism import on_one_thread


@pytest.mark.parametrize("n", [40, 2**13 + 3])
@pytest.mark.parametrize("center", [False, True])
def test_largest_leverage_bounds_every_row(n, center):
    X = np.random.default_rng(0).normal(size=(n, 3))
    X[0] *= 20  # in the first chunk of many rows
    whitening, basis = whiten(X, center, on_one_thread)
    steps = [Fraction(1, 2 ** int(exponent)) for exponent in whitening.basis_exponent[: whitening.rank]]
    exact = sum((int(x) * step) ** 2 for x, step in zip(basis[0], steps, strict=False))
    plain = (basis[:, : whitening.rank] * np.array(steps, dtype=float)) ** 2
    assert plain.sum(axis=1).argmax() == 0
    # summed in another order or on another machine, it may be larger by some units in the last place
    assert exact * (1 + Fraction(1, 10**13)) < Fraction(whitening.largest_leverage) < exact * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])  # more columns than rows: decomposed by rows
def test_products_of_coordinates_are_the_projection_onto_the_features(shape, center):
    X = np.random.default_rng(1).normal(size=shape) + 1
    whitening, _ = whiten(X, center, on_one_thread)
    assert whitening.is_centered == center
    assert whitening.rank == min(shape) - (center and shape[0] < shape[1])
    U, centred = whitening.coordinates(X), X - center * X.mean(axis=0)
    np.testing.assert_allclose(U @ U.T, centred @ np.linalg.pinv(centred), atol=1e-6)
    eigenvalues = np.linalg.svd(centred, compute_uv=False)[: whitening.rank] ** 2
    np.testing.assert_allclose(
        [whitening.in_feature_units(one) for one in whitening.eigenvalues[::-1]], eigenvalues, rtol=1e-6
    )


def test_features_whose_squares_would_overflow_are_refused():
    X = np.array([[1.0, 2 * LARGEST_TRAINING_FEATURE], [3.0, 4.0]])
    for rows in (X, -X):
        with pytest.raises(ValueError, match="Training features must be between"):
            whiten(rows, True, on_one_thread)
