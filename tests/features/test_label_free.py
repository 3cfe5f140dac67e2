"""No feature map reads a label, and a refit gives the same features."""

import pickle
import sys
import types

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from small_images import enlarged_digits

from flipproof import CertifiedRidgeClassifier, certify
from flipproof.features import (
    RICA,
    CNNFeatures,
    FrozenMap,
    SimCLRFeatures,
    StraightenedImages,
    UMAPFeatures,
    WordVectors,
    ica_features,
    pca_features,
)

DEEP = tuple(pytest.param(name, marks=pytest.mark.deep) for name in ("cnn", "simclr"))
NAMES = ("pca", "pca, whitened", "ica", "umap", "frozen umap", "straightened", "rica", "words", *DEEP)
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


@pytest.fixture
def digit_images():
    return enlarged_digits()


@pytest.fixture
def stand_in_for_umap(monkeypatch):
    """A module that is called as umap-learn is, and refuses labels; what it was called with is in `calls`."""
    module = types.ModuleType("umap")
    module.calls = []

    class UMAP:
        def __init__(self, n_components, **settings):
            module.calls.append({"n_components": n_components, **settings})
            self.pca = PCA(n_components, random_state=settings["random_state"])

        def fit(self, X, y=None):
            assert y is None, "labels were handed over"
            self.pca.fit(X)
            return self

        def transform(self, X):
            return self.pca.transform(X)

    module.UMAP = UMAP
    monkeypatch.setitem(sys.modules, "umap", module)
    return module


@pytest.fixture
def problem(request, digit_images, stand_in_for_umap):
    """A feature map by name, training rows with labels, and test rows."""
    name = request.param
    images, labels = digit_images
    X, y, Z = images[:80], labels[:80] % 2, images[80:120]
    others = slice(200, 280)
    made = {
        "pca": lambda: pca_features(5),
        "pca, whitened": lambda: pca_features(5, whiten=True),
        "ica": lambda: ica_features(3),
        "umap": lambda: UMAPFeatures(4),
        "frozen umap": lambda: FrozenMap(UMAPFeatures(4)),
        "straightened": lambda: StraightenedImages(),
        "rica": lambda: RICA(20, patch_size=6, n_patches=300, n_whitened=8, grid=2, max_iter=10, stride=5),
        "words": lambda: WordVectors((WORDS, np.arange(12.0).reshape(6, 2) ** 2), weighting="idf"),
        "cnn": lambda: CNNFeatures(images[others], labels[others], n_components=4, epochs=1),
        "simclr": lambda: SimCLRFeatures(width=2, epochs=1, batch_size=40, projection=4),
    }[name]()
    if name == "words":
        rng = np.random.default_rng(0)
        texts = np.array([" ".join(rng.choice(WORDS, 5)) for _ in range(120)], dtype=object)
        X, Z = texts[:80], texts[80:]
    return made, X, y, Z


@pytest.mark.parametrize("problem", NAMES, indirect=True)
def test_other_labels_or_none_give_the_same_features(problem):
    made, X, y, Z = problem
    without = clone(made).fit(X).transform(Z)
    assert np.isfinite(without).all()
    assert np.ptp(without, axis=0).max() > 0
    shuffled = np.random.default_rng(1).permutation(y)
    for labels in (y, shuffled, np.zeros_like(y)):
        assert np.array_equal(clone(made).fit(X, labels).transform(Z), without)
        assert np.array_equal(clone(made).fit_transform(X, labels), clone(made).fit_transform(X))


@pytest.mark.parametrize("problem", NAMES, indirect=True)
def test_certificates_equal_those_on_precomputed_features(problem):
    made, X, y, Z = problem
    within = CertifiedRidgeClassifier(features=made, classes=[0, 1]).fit(X, y)
    fitted = clone(made).fit(X)
    outside = CertifiedRidgeClassifier(classes=[0, 1]).fit(fitted.transform(X), y)
    inside = within.certify(Z)
    assert np.array_equal(inside.radius, outside.certify(fitted.transform(Z)).radius)
    [fitted] = [one for one in inside.assumptions if one.code == "fitted-without-labels"]
    assert fitted.values["step"] == type(made).__name__
    codes = {one.code for one in inside.assumptions}
    assert isinstance(made, CNNFeatures) == ("auxiliary-labels" in codes)
    assert isinstance(made, UMAPFeatures) == ("test-rows-together" in codes)
    piped = make_pipeline(clone(made), CertifiedRidgeClassifier(classes=[0, 1])).fit(X, y)
    assert np.array_equal(certify(piped, Z).radius, inside.radius)


@pytest.mark.parametrize("problem", ["umap", "rica", "words", *DEEP], indirect=True)
def test_it_follows_the_transformer_interface(problem):
    made, X, _, Z = problem
    with pytest.raises(NotFittedError):
        clone(made).transform(Z)
    fitted = clone(made).fit(X)
    features = fitted.transform(Z)
    assert len(fitted.get_feature_names_out()) == features.shape[1]
    if not isinstance(made, UMAPFeatures):  # the module that replaces umap-learn cannot be pickled
        assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(Z), features)
    if not isinstance(made, WordVectors):
        with pytest.raises(ValueError, match=r"X has 7 features, but .* is expecting 256 features"):
            fitted.transform(np.zeros((2, 7)))
    # every row by itself, so that certificates of a row do not depend on the rows beside it
    alone = np.concatenate([fitted.transform(Z[i : i + 1]) for i in range(5)])
    assert np.allclose(alone, features[:5], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("problem", ["rica", *DEEP], indirect=True)
def test_another_seed_gives_other_features(problem):
    made, X, _, Z = problem
    first, second = (clone(made).set_params(random_state=seed).fit(X).transform(Z) for seed in (0, 1))
    assert not np.allclose(first, second)


def test_umap_gets_a_seed_and_no_labels(digit_images, stand_in_for_umap):
    X, y = digit_images
    UMAPFeatures(3, n_neighbors=7, metric="cosine", random_state=5).fit(X[:50], y[:50])
    assert stand_in_for_umap.calls == [
        {"n_components": 3, "n_neighbors": 7, "metric": "cosine", "min_dist": 0.0, "random_state": 5, "n_jobs": 1}
    ]


def test_ica_has_components_of_equal_variance_even_if_the_first_pixel_is_constant(digit_images):
    X, _ = digit_images
    assert np.ptp(X[:300, 0]) == 0
    features = ica_features(5).fit_transform(X[:300])
    assert np.allclose(features.std(axis=0), 1, atol=1e-3)
