"""Votes of many bits: counting by leading bits gives the certificates of whole histograms."""

import numpy as np
import pytest

from flipproof import Adversary, CertifiedKernelClassifier, CertifiedRidgeClassifier
from flipproof.core import many_bits
from flipproof.learners import base

FIELDS = ("prediction", "radius", "rival", "margin", "unlimited")


@pytest.fixture
def both(monkeypatch):
    """Return a function that certifies both ways and compares."""

    def check(model, Z, adversary=None):
        found = []
        for is_used in (False, True):
            monkeypatch.setattr(base, "can_count_leading_bits", lambda source, precision, is_used=is_used: is_used)
            found.append(model.certify(Z, "exact", adversary))
        for name in FIELDS:
            assert np.array_equal(getattr(found[0], name), getattr(found[1], name)), name

    return check


@pytest.mark.parametrize("leading", [1, 2, 5])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_random_problems(leading, K, both, monkeypatch):
    monkeypatch.setattr(many_bits, "LEADING_BITS", leading)
    rng = np.random.default_rng(10 * K + leading)
    for trial in range(60):
        n, k = int(rng.integers(2, 90)), int(rng.integers(1, 5))
        X = rng.integers(-2, 3, size=(n, k)).astype(float) if trial % 2 else rng.normal(size=(n, k))
        y = rng.integers(K, size=n)
        X += rng.choice([0.0, 2.0]) * np.eye(K, k)[y]
        Z = np.vstack([X[:5], rng.normal(size=(4, k)), np.zeros((1, k))])
        kinds = (
            CertifiedRidgeClassifier(0.2, fit_intercept=bool(trial % 3), classes=range(K)),
            CertifiedKernelClassifier(classes=range(K)),
        )
        precision = int(rng.integers(leading, 25))
        model = kinds[trial % 5 == 0].set_params(precision=max(precision, 2)).fit(X, y)
        both(model, Z)
        both(model, Z, Adversary(trusted=rng.random(n) < rng.choice([0.2, 0.9, 1.0])))


def test_it_is_used_for_many_rows_and_bits(both):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=9_000)
    X = rng.normal(size=(9_000, 4)) + 1.5 * np.eye(3, 4)[y]
    for precision, is_used in ((12, False), (16, True), (24, True)):
        model = CertifiedRidgeClassifier(classes=range(3), precision=precision, block_size=7).fit(X, y)
        source = model.votes_on(model.test_rows(X[:20]))
        assert base.can_count_leading_bits(source, precision) == is_used
    both(model, X[:20])
