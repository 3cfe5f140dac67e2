"""The largest leverage bounds every vote, so it must cover all training rows and any rounding error."""

from fractions import Fraction

import numpy as np
import pytest

from flipproof.core.linalg import whiten


@pytest.mark.parametrize("n", [40, 2**13 + 3])
@pytest.mark.parametrize("center", [False, True])
def test_largest_leverage_bounds_every_row(n, center):
    X = np.random.default_rng(0).normal(size=(n, 3))
    X[0] *= 20  # in the first chunk of many rows
    whitening, basis = whiten(X, center)
    steps = [Fraction(1, 2 ** int(exponent)) for exponent in whitening.basis_exponent[: whitening.rank]]
    exact = sum((int(x) * step) ** 2 for x, step in zip(basis[0], steps, strict=False))
    plain = (basis[:, : whitening.rank] * np.array(steps, dtype=float)) ** 2
    assert plain.sum(axis=1).argmax() == 0
    # summed in another order or on another machine, it may be larger by some units in the last place
    assert exact * (1 + Fraction(1, 10**13)) < Fraction(whitening.largest_leverage) < exact * (1 + Fraction(1, 10**11))
