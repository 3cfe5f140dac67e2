"""Corners that a hostile reader found."""

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler

from flipproof import CertifiedRidgeClassifier, LabelFlip


def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    return X, (X[:, 0] > 0).astype(int), rng.standard_normal((40, 5))


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
def test_the_rival_is_never_the_prediction_itself(method):
    X, y, _ = problem()
    model = CertifiedRidgeClassifier(fit_intercept=False, classes=[0, 1]).fit(X, y)
    certificates = model.certify(np.zeros((1, 5)), method)  # no votes at all: nothing can overturn it
    assert certificates.radius[0] == 60
    assert certificates.rival[0] != certificates.prediction[0]
    assert certificates.margin[0] > 0


def test_a_random_features_step_is_reproducible():
    X, y, Z = problem()
    model = CertifiedRidgeClassifier(features=RBFSampler(n_components=20), classes=[0, 1])
    np.testing.assert_array_equal(model.fit(X, y).vote_weights(Z)[0], model.fit(X, y).vote_weights(Z)[0])
    assert any(one.code == "fitted-without-labels" for one in model.certify(Z).assumptions)


def test_settings_of_numpys_types():
    X, y, Z = problem()
    model = CertifiedRidgeClassifier(np.float32(0.1), fit_intercept=np.bool_(True), precision=np.int64(8)).fit(X, y)
    assert len(model.certify(Z)) == 40


@pytest.mark.parametrize("classes", [np.array([0, 1], dtype=object), [0, 1], np.array([1.0, 0.0]), range(2)])
def test_classes_are_compared_by_value(classes):
    X, y, Z = problem()
    model = CertifiedRidgeClassifier(classes=classes)
    for labels in (y, 0 * y, 1 - y):
        assert set(model.fit(X, labels).predict(Z)) <= {0, 1}


@pytest.mark.parametrize("classes", [[0, 0.5, 1], [0, 1, np.nan]])
def test_classes_that_no_label_may_be(classes):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"whole numbers|must not be missing"):
        CertifiedRidgeClassifier(classes=classes).fit(X, y)


def test_noise_too_small_for_floating_point():
    with pytest.raises(ValueError, match="at least 1e-200"):
        LabelFlip(1e-308, 3)
    assert LabelFlip(1e-200, 50).kl_per_flip > 400
