import math
from fractions import Fraction

import numpy as np
import pytest

from flipproof.core.noise import LabelFlip, divergence_upper


@pytest.mark.parametrize(("q", "K"), [(1e-12, 2), (0.1, 2), (0.3, 3), (0.89, 10), (0.499999999, 2)])
def test_divergence_is_the_sum_over_the_outcomes(q, K):
    own, other = 1 - Fraction(q), Fraction(q) / (K - 1)
    plain = float(own - other) * math.log(float(own / other))
    assert LabelFlip(q, K).kl_per_flip == pytest.approx(plain, rel=1e-6)
    assert divergence_upper(LabelFlip(q, K)) > LabelFlip(q, K).kl_per_flip


def test_constants_survive_cancellation():
    import mpmath

    q, K = math.nextafter(2 / 3, 0), 3
    with mpmath.workdps(60):
        signal = 1 - mpmath.mpf(q) * K / (K - 1)
        kl = signal * mpmath.log((1 - mpmath.mpf(q)) * (K - 1) / mpmath.mpf(q))
        assert LabelFlip(q, K).signal == pytest.approx(float(signal), rel=1e-15)
        assert LabelFlip(q, K).kl_per_flip == pytest.approx(float(kl), rel=1e-14)
        assert divergence_upper(LabelFlip(q, K)) >= kl


def test_divergence_needs_the_number_of_classes():
    with pytest.raises(ValueError, match="n_classes=K"):
        _ = LabelFlip(0.1).kl_per_flip
    assert LabelFlip(0.1).with_classes(10).kl_per_flip > 2 * LabelFlip(0.1, 2).kl_per_flip


@pytest.mark.parametrize(("q", "K"), [(0, 2), (0.5, 2), (0.7, 2), (0.9, 10), (-0.1, 3), (1.0, None), (math.nan, 2)])
def test_q_out_of_range(q, K):
    with pytest.raises(ValueError, match="'q' parameter of LabelFlip"):
        LabelFlip(q, K)


@pytest.mark.parametrize("K", [1, 0, 2.5, True])
def test_bad_number_of_classes(K):
    with pytest.raises(ValueError, match="'n_classes' parameter of LabelFlip"):
        LabelFlip(0.1, K)


def test_frozen():
    with pytest.raises(AttributeError):
        LabelFlip(0.1).q = 0.2


def test_sample_has_the_stated_probabilities():
    labels = np.repeat(np.arange(4), 50_000)
    noisy = LabelFlip(0.3, 4).sample(labels, np.random.default_rng(0))
    for label in range(4):
        share = np.bincount(noisy[labels == label], minlength=4) / 50_000
        expected = np.where(np.arange(4) == label, 0.7, 0.1)
        # five standard errors of a binomial share
        assert np.all(np.abs(share - expected) < 5 * np.sqrt(0.21 / 50_000))
    with pytest.raises(ValueError, match="codes from 0 to 3"):
        LabelFlip(0.3, 4).sample([4], np.random.default_rng(0))
