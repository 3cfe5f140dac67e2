"""Reconstruction ICA: its mathematics, and what it does on images."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from small_images import enlarged_digits

from flipproof import CertifiedRidgeClassifier, certified_accuracy
from flipproof.datasets import load_dogfish
from flipproof.features import RICA, pca_features, rica


@pytest.fixture
def digit_images():
    return enlarged_digits()


def test_the_gradient_matches_the_loss():
    rng = np.random.default_rng(0)
    whitened, free = rng.standard_normal((30, 4)), rng.standard_normal((6, 4)) * 3

    def loss(flat):
        return rica.rica_loss(flat.reshape(6, 4), whitened, 0.7)[0]

    def gradient(flat):
        return rica.rica_loss(flat.reshape(6, 4), whitened, 0.7)[1].ravel()

    assert check_grad(loss, gradient, free.ravel()) < 1e-5 * np.linalg.norm(gradient(free.ravel()))


def test_the_loss_matches_its_definition():
    rng = np.random.default_rng(1)
    whitened, free = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    W = free / np.linalg.norm(free, axis=1, keepdims=True)
    by_hand = np.mean(
        [np.sqrt((W @ x) ** 2 + rica.SMOOTHING).sum() + 2.0 * ((W.T @ W @ x - x) ** 2).sum() for x in whitened]
    )
    assert rica.rica_loss(free, whitened, 2.0)[0] == pytest.approx(by_hand)


def test_sparse_sources_are_recovered():
    """Patches that are mixtures of few sources: filters line up with the sources, as those of no rotation of PCA do."""
    rng = np.random.default_rng(2)
    sources = rng.laplace(size=(4000, 4)) * (rng.random((4000, 4)) < 0.3)
    sources /= sources.std(axis=0)
    rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    filters, loss, steps = rica.learn_filters(
        (sources @ rotation).astype(np.float32), rng.standard_normal((4, 4)).astype(np.float32), 10.0, 300
    )
    alignment = np.abs(filters @ rotation.T)
    assert alignment.max(axis=1).min() > 0.97
    assert sorted(alignment.argmax(axis=1)) == [0, 1, 2, 3]
    assert loss < rica.rica_loss(np.eye(4), sources @ rotation, 10.0)[0]
    assert steps > 1


def test_whitened_patches_are_uncorrelated_and_have_the_same_variance(digit_images):
    X, _ = digit_images
    images = X[:200].reshape(-1, 16, 16, 1)
    patches = rica.same_contrast(rica.random_patches(images, 8, 2000, np.random.default_rng(0)), 1.0)
    mean, whitening = rica.whitening_of(patches, 10)
    whitened = (patches - mean) @ whitening
    assert np.allclose(np.cov(whitened.T), np.eye(10), atol=0.02)


def test_patches_of_fit_and_transform_have_the_same_layout():
    """An image as large as a patch has one patch: its answers are those of the filters on the image itself."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 256, (50, 5 * 5 * 3)).astype(np.float32)
    model = RICA(7, patch_size=5, image_shape=(5, 5, 3), n_patches=200, n_whitened=6, grid=1, max_iter=5).fit(X)
    answers = (rica.same_contrast(X, model.contrast_floor_) - model.mean_) @ model.whitening_ @ model.filters_.T
    expected = np.concatenate([np.maximum(answers, 0), np.maximum(-answers, 0)], axis=1)
    assert np.allclose(model.transform(X), expected, atol=1e-4)


def test_each_cell_of_the_grid_covers_its_part_of_the_image(digit_images):
    X, _ = digit_images
    model = RICA(6, patch_size=4, n_patches=300, n_whitened=5, grid=2, stride=4, max_iter=5).fit(X[:100])
    image = X[:1].reshape(16, 16).copy()
    changed = image.copy()
    changed[:8, 8:] = 255 - changed[:8, 8:]  # the upper right
    before, after = (model.transform(one.reshape(1, -1))[0].reshape(4, -1) for one in (image, changed))
    assert (before != after).any(axis=1).tolist() == [False, True, False, False]


def test_features_do_not_depend_on_the_scale_of_pixels_or_on_blocks(digit_images, monkeypatch):
    X, _ = digit_images
    settings = {"patch_size": 6, "n_patches": 300, "n_whitened": 8, "grid": 2, "max_iter": 5, "stride": 5}
    large = RICA(10, **settings).fit(X[:60]).transform(X[60:90])
    small = RICA(10, **settings).fit(X[:60] / 255).transform(X[60:90] / 255)
    assert np.allclose(large, small, atol=1e-3)
    monkeypatch.setattr(rica, "PATCH_BYTES", 1)
    assert np.allclose(RICA(10, **settings).fit(X[:60]).transform(X[60:90]), large, atol=1e-5)


def test_blank_images_give_finite_features():
    model = RICA(3, patch_size=4, n_patches=50, n_whitened=2, max_iter=3).fit(np.zeros((10, 256)))
    assert np.isfinite(model.transform(np.zeros((2, 256)))).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch_size": 17}, r"'patch_size' parameter of RICA .* from 1 to 16, .* Got 17 instead"),
        ({"grid": 4}, r"'grid' parameter of RICA .* from 1 to 3, .* Got 4 instead"),
        ({"n_whitened": 65}, r"'n_whitened' parameter of RICA .* from 1 to 64, .* Got 65 instead"),
        (
            {"image_shape": (15, 16)},
            r"'image_shape' parameter of RICA must be .* 256 numbers in all. Got \(15, 16\)",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(digit_images, changes, message):
    settings = {"patch_size": 8, "n_whitened": 8, **changes}
    with pytest.raises(ValueError, match=message):
        RICA(10, **settings).fit(digit_images[0][:20])


def test_patches_certify_more_dogs_and_fish_than_pixels(data_dir):
    """Every second image; both maps are reduced to 20 dimensions, and the labels go through the same learner."""
    data = load_dogfish(kind="images", data_home=data_dir)
    X, y = data.X_train[::2], data.y_train[::2]
    maps = {
        "pixels": pca_features(20),
        "patches": make_pipeline(
            RICA(200, image_shape=data.image_shape, n_patches=4000, n_whitened=96, max_iter=30, stride=8),
            PCA(20, random_state=0),
        ),
    }
    certified = {}
    for name, features in maps.items():
        model = CertifiedRidgeClassifier(features=features, classes=data.classes).fit(X, y)
        certified[name] = certified_accuracy(data.y_test, model.certify(data.X_test), flips=[0, 10, 25])
    assert (certified["patches"] > certified["pixels"] + 0.05).all()
