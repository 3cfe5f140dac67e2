"""The guarantee, checked against every attack on small problems."""

import numpy as np
import pytest
from enumeration import all_labellings, flips_to_change, scores_after
from tiers import mostly_slow

from flipproof import CertifiedRidgeClassifier

NOISES = (1e-6, 0.01, 0.1, 0.3, 0.45)
METHODS = ("exact", "tight", "kl")


def random_problem(rng, largest_n):
    n, K, k = int(rng.integers(2, largest_n + 1)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    X, Z = rng.normal(size=(n, k)), rng.normal(size=(6, k))
    if rng.random() < 0.3:  # whole numbers make ties and equal gains
        X, Z = np.rint(X), np.rint(Z)
    y = rng.integers(K, size=n) if rng.random() < 0.7 else np.full(n, rng.integers(K))
    model = CertifiedRidgeClassifier(
        noise=float(rng.choice(NOISES)),
        regularization=rng.choice([0.0, 0.1, 1.0, 10.0]) if rng.random() < 0.7 else "label-free",
        fit_intercept=bool(rng.random() < 0.5),
        precision=int(rng.choice([2, 3, 6, 10, 16, 24])),
        classes=range(K),
    )
    return model, X, y, Z, K


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", mostly_slow(range(10), fast=range(5)))
def test_no_attack_within_the_radius_changes_the_argmax(seed):
    rng = np.random.default_rng(seed)
    largest_radius = 0
    for _ in range(50):
        model, X, y, Z, K = random_problem(rng, largest_n=7)
        model.fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        labellings = all_labellings(len(y), K)
        certificates = {method: model.certify(Z, method) for method in METHODS}
        for i, prediction in enumerate(model.predict(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            needed = flips_to_change(y, labellings, scores.argmax(axis=1), prediction)
            for certificate in certificates.values():
                assert certificate.prediction[i] == prediction
                assert certificate.radius[i] < needed
            exact = int(certificates["exact"].radius[i])
            assert exact == (len(y) if needed == np.inf else needed - 1)
            largest_radius = max(largest_radius, exact)
    assert largest_radius >= 2  # the problems are not all trivial


@pytest.mark.parametrize("seed", mostly_slow(range(8), fast=(4,)))
def test_no_attack_within_the_radius_changes_a_refitted_model(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(25):
        model, X, y, Z, K = random_problem(rng, largest_n=5 if rng.random() < 0.3 else 4)
        model.fit(X, y)
        certificates = {method: model.certify(Z, method) for method in METHODS}
        labellings = all_labellings(len(y), K)
        refitted = np.array([model.fit(X, attacked).predict(Z) for attacked in labellings])
        for i in range(len(Z)):
            needed = flips_to_change(y, labellings, refitted[:, i], certificates["exact"].prediction[i])
            for certificate in certificates.values():
                assert certificate.radius[i] < needed
            assert certificates["exact"].radius[i] == (len(y) if needed == np.inf else needed - 1)


def test_the_smoothing_certificates_are_not_empty():
    """Radius 0 everywhere would be sound, but useless."""
    rng = np.random.default_rng(7)
    X = np.vstack([rng.normal(-2, 1, size=(100, 2)), rng.normal(2, 1, size=(100, 2))])
    y = np.repeat([0, 1], 100)
    model = CertifiedRidgeClassifier(noise=0.1).fit(X, y)
    exact, tight, kl = (np.median(model.certify(X, method).radius) for method in METHODS)
    assert exact >= 30
    assert tight >= 12
    assert kl >= 6
