import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from flipproof import CertifiedRidgeClassifier, SmoothedClassifier
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip, divergence_upper


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


@pytest.mark.parametrize(("q", "K"), [(0.1, 2), (0.3, 3), (1e-12, 3)])
def test_divergence_is_that_of_the_enumerated_noises(q, K):
    noise, labels, others = LabelFlip(q).with_classes(K), np.array([0, 1, 1]), np.array([0, 0, 1])
    noisy, chances = noise.support(labels)
    again, other_chances = noise.support(others)
    np.testing.assert_array_equal(noisy, again)
    assert math.fsum(chances) == pytest.approx(1, abs=1e-15)
    enumerated = math.fsum(chances * np.log(chances / other_chances))
    assert noise.divergence(labels, others) == pytest.approx(enumerated, rel=1e-9)
    assert 0 <= noise.divergence(labels, labels) <= np.finfo(float).tiny  # rounded up


def test_too_many_noisy_labels_are_not_enumerated():
    with pytest.raises(ValueError, match=r"2\^100 noisy copies"):
        LabelFlip(0.1, 2).support(np.zeros(100, dtype=int))


def test_noise_below_the_smallest_is_refused():
    with pytest.raises(ValueError, match="and at least"):
        LabelFlip(1e-300, 2)


def test_divergence_of_feature_noise_is_rounded_up():
    rng = np.random.default_rng(0)
    X, moved = rng.normal(size=(2, 20, 3))
    exact = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(X.flat, moved.flat, strict=True))
    exact /= 2 * Fraction(0.3) ** 2
    assert exact < Fraction(FeatureNoise(0.3).divergence(X, moved)) < exact * (1 + Fraction(1, 10**12))


def test_feature_noise_has_the_stated_deviation():
    noisy = FeatureNoise(0.3).sample(np.full((1000, 100), 2.0), np.random.default_rng(0))
    # five standard errors of a mean and of a deviation
    assert abs(noisy.mean() - 2) < 5 * 0.3 / np.sqrt(noisy.size)
    assert abs(noisy.std() - 0.3) < 5 * 0.3 / np.sqrt(2 * noisy.size)


def test_divergences_of_independent_noises_add_up():
    X, codes = np.zeros((3, 2)), np.array([0, 1, 2])
    moved, changed = X + 0.5, np.array([0, 1, 1])
    noise = JointNoise(LabelFlip(0.2), FeatureNoise(0.7)).with_classes(3)
    parts = FeatureNoise(0.7).divergence(X, moved) + LabelFlip(0.2, 3).divergence(codes, changed)
    joint = noise.divergence((X, codes), (moved, changed))
    assert parts <= joint <= parts * (1 + 1e-14)
    sampled = noise.sample((X, codes), np.random.default_rng(0))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(sampled[0], noise.features.sample(X, rng))
    np.testing.assert_array_equal(sampled[1], noise.labels.sample(codes, rng))


def test_added_rows_have_no_divergence():
    for noise in (LabelFlip(0.1, 2), FeatureNoise(1.0)):
        with pytest.raises(ValueError, match="same shape"):
            noise.divergence(np.zeros(2, dtype=int), np.zeros(3, dtype=int))


def test_joint_noise_needs_both_kinds_in_order():
    with pytest.raises(ValueError, match="a LabelFlip and a FeatureNoise"):
        JointNoise(FeatureNoise(1.0), LabelFlip(0.1))


@pytest.mark.parametrize("model", [CertifiedRidgeClassifier(noise=0.9), SmoothedClassifier(GaussianNB(), noise=0.9)])
def test_a_learner_names_its_own_parameter(model):
    with pytest.raises(ValueError, match=f"'noise' parameter of {type(model).__name__}"):
        model.fit([[0.0], [1.0]], [0, 1])
