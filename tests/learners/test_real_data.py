"""On real data the exact radius is exact: the best attack fails at the radius, and wins or draws one flip later."""

import numpy as np
import pytest
from best_attack import assert_radius_is_exact
from real_data import german_credit, mnist, spambase
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from flipproof import CertifiedRidgeClassifier, certified_accuracy


def means_of_16_pixels(images):
    return images.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("read", [spambase, german_credit])
def test_the_exact_radius_is_exact_on_two_classes(read, fit_intercept, data_dir):
    X, y = read(data_dir)
    X, rows, y, truth = train_test_split(X, y, test_size=100, random_state=0)
    scaler = StandardScaler(with_mean=fit_intercept)  # around 0 the rule without an intercept says "no" to all
    model = CertifiedRidgeClassifier(fit_intercept=fit_intercept, features=scaler, classes=np.unique(y)).fit(X, y)
    cert = assert_radius_is_exact(model, X, y, rows, n_refits=10)
    assert model.score(rows, truth) > 0.65
    assert (cert.radius < len(y)).mean() > 0.5
    assert np.median(cert.radius) >= 10


def test_the_exact_radius_is_exact_on_ten_classes(data_dir):
    X, y = mnist(data_dir, "t10k")
    X, rows, y, _ = train_test_split(X[:1540], y[:1540], test_size=40, random_state=0)
    model = CertifiedRidgeClassifier(features=FunctionTransformer(means_of_16_pixels), classes=range(10)).fit(X, y)
    cert = assert_radius_is_exact(model, X, y, rows, n_refits=10)
    assert np.median(cert.radius) >= 10


def test_smoothed_radii_are_below_the_exact_one_and_certified_accuracy_falls(data_dir):
    X, y = mnist(data_dir, "train", (1, 7))
    rows, truth = mnist(data_dir, "t10k", (1, 7))
    rows, truth = rows[:200], truth[:200]
    model = CertifiedRidgeClassifier(0.1, features=PCA(50, random_state=0), classes=[1, 7]).fit(X[:3000], y[:3000])
    flips = [0, 1, 10, 50, 100, 200, 500, 3000]
    curves, radii = {}, {}
    for method in ("exact", "tight", "kl"):
        cert = model.certify(rows, method=method)
        radii[method] = cert.radius
        curves[method] = certified_accuracy(truth, cert, flips)
        assert (np.diff(curves[method]) <= 0).all()
        assert curves[method][0] == model.score(rows, truth) > 0.97
        assert curves[method][-1] == 0
    assert (radii["exact"] >= radii["tight"]).all()
    assert (radii["tight"] >= radii["kl"]).all()
    assert np.median(radii["exact"]) > np.median(radii["tight"]) > np.median(radii["kl"]) > 0
    assert curves["exact"][4] > 0.5  # a hundred flips of 3000
