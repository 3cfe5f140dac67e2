"""On real data the exact radius is exact: the best attack fails at the radius, and wins or draws one flip later."""

import gzip

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from flipproof import CertifiedRidgeClassifier, certified_accuracy


def spambase(data_dir):
    with gzip.open(data_dir / "spambase" / "spambase.data.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], np.where(table[:, -1] == 1, "spam", "ham")


def german_credit(data_dir):
    with gzip.open(data_dir / "german_credit" / "german.data-numeric.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :-1], np.where(table[:, -1] == 1, "good", "bad")


def mnist(data_dir, part, digits=range(10)):
    with gzip.open(data_dir / "mnist" / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28 * 28)
    with gzip.open(data_dir / "mnist" / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), dtype=np.uint8, offset=8)
    kept = np.isin(labels, digits)
    return images[kept].astype(float), labels[kept].astype(int)


def attacked(y, alpha, winner, rival, flips):
    """Return the labels after the best attack for `rival`: the changes that lower the winner's lead most.

    A row with a positive weight should vote for the rival, one with a negative weight should vote for the winner.
    """
    wanted = np.where(alpha > 0, rival, winner)
    lead_now = alpha * ((y == winner).astype(float) - (y == rival))
    lead_then = -np.abs(alpha)
    largest_gains = np.argsort(lead_then - lead_now, kind="stable")[:flips]
    poisoned = y.copy()
    poisoned[largest_gains] = wanted[largest_gains]
    assert (poisoned != y).sum() <= flips
    return poisoned


def assert_radius_is_exact(model, X, y, rows, n_refits):
    """Attack every row in favour of every rival; refit on some of the attacked labels as well."""
    cert = model.certify(rows, method="exact")
    alpha, offsets = model.weights(rows)
    np.testing.assert_array_equal(cert.prediction, model.predict(rows))

    def scores(i, labels):
        return alpha[i] @ (labels[:, None] == model.classes_) + offsets[i]  # sums of grid points: exact

    for i, (winner, radius) in enumerate(zip(cert.prediction, cert.radius, strict=True)):
        code = np.flatnonzero(model.classes_ == winner)[0]
        overtaken = []
        for rival in np.delete(model.classes_, code):
            held = attacked(y, alpha[i], winner, rival, radius)
            assert model.classes_[scores(i, held).argmax()] == winner
            fallen = attacked(y, alpha[i], winner, rival, radius + 1)
            overtaken.append(scores(i, fallen)[model.classes_ == rival][0] >= scores(i, fallen)[code])
            if i < n_refits and rival == cert.rival[i]:
                assert clone(model).fit(X, held).predict(rows[[i]]) == winner
                refit = clone(model).fit(X, fallen)
                tied = np.ptp(np.sort(refit.decision_function(rows[[i]]).ravel())[-2:]) == 0
                if len(model.classes_) == 2:
                    tied = refit.decision_function(rows[[i]]) == 0
                assert tied or refit.predict(rows[[i]]) != winner
        if radius < len(y):
            assert any(overtaken)
            assert overtaken[list(np.delete(model.classes_, code)).index(cert.rival[i])]
        else:
            assert not any(overtaken)
    return cert


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("read", [spambase, german_credit])
def test_the_exact_radius_is_exact_on_two_classes(read, fit_intercept, data_dir):
    X, y = read(data_dir)
    X, rows, y, truth = train_test_split(X, y, test_size=100, random_state=0)
    model = CertifiedRidgeClassifier(
        0.1, fit_intercept=fit_intercept, features=StandardScaler(), classes=np.unique(y)
    ).fit(X, y)
    cert = assert_radius_is_exact(model, X, y, rows, n_refits=10)
    if fit_intercept:
        assert model.score(rows, truth) > 0.7
        assert np.median(cert.radius) >= 10


def test_the_exact_radius_is_exact_on_ten_classes(data_dir):
    X, y = mnist(data_dir, "t10k")
    X, rows, y, _ = train_test_split(X[:2050], y[:2050], test_size=50, random_state=0)
    model = CertifiedRidgeClassifier(features=PCA(30, random_state=0), classes=range(10)).fit(X, y)
    cert = assert_radius_is_exact(model, X, y, rows, n_refits=5)
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
    assert curves["exact"][4] > 0.9  # a hundred flips of 3000
