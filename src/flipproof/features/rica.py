"""Reconstruction ICA: overcomplete sparse features of image patches, learned without labels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.optimize import minimize

from flipproof.features.images import Images, ImageTransformer
from flipproof.parameters import Constraints, check_parameter, integer, number

Matrix = NDArray[np.floating[Any]]

#: Smooths the absolute value near 0: sqrt(a^2 + SMOOTHING).
SMOOTHING = 1e-2
#: Share of the mean variance that is added to the variance of a patch before division, so that flat patches stay flat.
CONTRAST_FLOOR = 0.01
#: Avoids division by 0 for images without contrast.
TINY = 1e-12
#: Bytes of patches in memory at a time.
PATCH_BYTES = 128 * 2**20


class RICA(ImageTransformer):
    """Reconstruction ICA (Le et al. 2011): an overcomplete set of filters for patches, then pooled over the image.

    The paper uses it where the training set is too small for a deep network (Dogfish). Patches of the training images
    are scaled to the same contrast and whitened; filters W minimise
    ``sum |W x| + reconstruction * |W'W x - x|^2`` over them, with rows of length 1. The features of an image are the
    means of the positive and of the negative part of every filter's response over each cell of a grid.
    Labels are never read.

    Parameters
    ----------
    n_filters : int, default=400
        Number of filters; more than `n_whitened` is overcomplete.
    patch_size : int, default=16
        Height and width of a patch.
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) of the images. Default: square and grey.
    n_patches : int, default=20000
        Number of random patches that the filters are learned from.
    n_whitened : int, default=96
        Number of principal components of the patches.
    reconstruction : float, default=1.0
        Weight of the reconstruction relative to sparsity.
    grid : int, default=3
        Responses are pooled over grid x grid cells of the image.
    stride : int, default=4
        Pixels between neighbouring patches when an image is transformed.
    max_iter : int, default=100
        Largest number of L-BFGS steps.
    random_state : int, default=0
        Seed.

    Attributes
    ----------
    filters_ : array of shape (n_filters, n_whitened)
        The filters of whitened patches.
    loss_ : float
        Final value of the loss.
    n_iter_ : int
        Number of steps.

    See Also
    --------
    flipproof.features.pca_features : Principal components.
    flipproof.features.SimCLRFeatures : A network trained without labels.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof.features import RICA
    >>> X, _ = load_digits(return_X_y=True)
    >>> features = RICA(24, patch_size=4, n_whitened=12, n_patches=500, grid=2, stride=2, max_iter=20)
    >>> features.fit_transform(X[:200]).shape
    (200, 192)
    """

    parameter_constraints: ClassVar[Constraints] = {
        "n_filters": integer(1),
        "patch_size": integer(1),
        "n_patches": integer(1),
        "n_whitened": integer(1),
        "reconstruction": number(0, closed="low"),
        "grid": integer(1),
        "stride": integer(1),
        "max_iter": integer(0),
    }

    def __init__(
        self,
        n_filters: int = 400,
        *,
        patch_size: int = 16,
        image_shape: tuple[int, ...] | None = None,
        n_patches: int = 20000,
        n_whitened: int = 96,
        reconstruction: float = 1.0,
        grid: int = 3,
        stride: int = 4,
        max_iter: int = 100,
        random_state: int = 0,
    ) -> None:
        self.n_filters = n_filters
        self.patch_size = patch_size
        self.image_shape = image_shape
        self.n_patches = n_patches
        self.n_whitened = n_whitened
        self.reconstruction = reconstruction
        self.grid = grid
        self.stride = stride
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: object, y: object = None) -> RICA:
        """Learn the filters from random patches; labels are ignored.

        Parameters
        ----------
        X : array of shape (n, pixels)
            Images.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from flipproof.features import RICA
        >>> X, _ = load_digits(return_X_y=True)
        >>> features = RICA(8, patch_size=4, n_whitened=8, n_patches=100, grid=2, stride=4, max_iter=2)
        >>> features.fit(X[:50]).transform(X[:2]).shape
        (2, 64)
        """
        images = self._training_images(X)
        self._check_sizes()
        rng = np.random.default_rng(self.random_state)
        patches = random_patches(images, self.patch_size, self.n_patches, rng)
        self.contrast_floor_ = CONTRAST_FLOOR * float(patches.var(axis=1).mean())
        patches = same_contrast(patches, self.contrast_floor_)
        self.mean_, self.whitening_ = whitening_of(patches, self.n_whitened)
        whitened = (patches - self.mean_) @ self.whitening_
        start = rng.standard_normal((self.n_filters, whitened.shape[1])).astype(np.float32)
        self.filters_, self.loss_, self.n_iter_ = learn_filters(whitened, start, self.reconstruction, self.max_iter)
        self._n_features_out = 2 * self.n_filters * self.grid**2
        return self

    def transform(self, X: object) -> NDArray[np.float32]:
        """Return the pooled responses of all filters, shape (m, 2 * n_filters * grid^2).

        Parameters
        ----------
        X : array of shape (n, pixels)
            Images.

        Returns
        -------
        floats
            A line per image.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from flipproof.features import RICA
        >>> X, _ = load_digits(return_X_y=True)
        >>> features = RICA(8, patch_size=4, n_whitened=8, n_patches=100, grid=2, stride=4, max_iter=2)
        >>> features.fit(X[:50]).transform(X[50:53]).shape
        (3, 64)
        """
        images = self._test_images(X)
        per_image = self._positions(0).size * self._positions(1).size * max(self.mean_.size, 2 * self.n_filters) * 4
        block = max(1, PATCH_BYTES // per_image)
        parts = [self._pooled(images[i : i + block]) for i in range(0, len(images), block)]
        return np.concatenate(parts).astype(np.float32, copy=False)

    def _pooled(self, images: Images) -> Matrix:
        size, stride = self.patch_size, self.stride
        windows = sliding_window_view(images, (size, size), axis=(1, 2))[:, ::stride, ::stride]
        n, n_rows, n_columns = windows.shape[:3]
        patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * n_rows * n_columns, -1)  # colours last, as in fit
        answers = (same_contrast(patches, self.contrast_floor_) - self.mean_) @ (self.whitening_ @ self.filters_.T)
        both = np.concatenate([np.maximum(answers, 0), np.maximum(-answers, 0)], axis=1)
        both = both.reshape(n, n_rows, n_columns, -1)
        cells = [
            both[:, rows][:, :, columns].mean(axis=(1, 2))
            for rows in np.array_split(np.arange(n_rows), self.grid)
            for columns in np.array_split(np.arange(n_columns), self.grid)
        ]
        return np.concatenate(cells, axis=1)

    def _positions(self, axis: int) -> NDArray[np.int64]:
        return np.arange(0, self.image_shape_[axis] - self.patch_size + 1, self.stride)

    def _check_sizes(self) -> None:
        height, width, channels = self.image_shape_
        side = min(height, width)
        check_parameter("RICA", "patch_size", self.patch_size, integer(1, side, "the image's shorter side"))
        fewest = min(self._positions(0).size, self._positions(1).size)
        along = "the number of patches along a side with this patch_size and stride"
        check_parameter("RICA", "grid", self.grid, integer(1, fewest, along))
        most = min(self.patch_size**2 * channels, self.n_patches)
        in_patch = "the smaller of the size of a patch and the number of patches"
        check_parameter("RICA", "n_whitened", self.n_whitened, integer(1, most, in_patch))


def random_patches(images: Images, size: int, n_patches: int, rng: np.random.Generator) -> Matrix:
    """Return patches from random places of random images, flattened."""
    n, height, width, channels = images.shape
    image = rng.integers(n, size=n_patches)
    top = rng.integers(height - size + 1, size=n_patches)
    left = rng.integers(width - size + 1, size=n_patches)
    windows = sliding_window_view(images, (size, size), axis=(1, 2))
    return np.asarray(windows[image, top, left].transpose(0, 2, 3, 1).reshape(n_patches, size * size * channels))


def same_contrast(patches: Matrix, floor: float) -> Matrix:
    """Return patches with mean 0 and, unless they are flat, variance 1."""
    centred = patches - patches.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt(centred.var(axis=1, keepdims=True) + floor + TINY))


def whitening_of(patches: Matrix, n_components: int) -> tuple[Matrix, Matrix]:
    """Return the mean of patches, and the matrix that whitens their first principal components."""
    mean = patches.mean(axis=0)
    centred = (patches - mean).astype(np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(patches))
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    floor = max(values[0], 1.0) * 1e-6  # directions without variance are not amplified
    return mean, (vectors / np.sqrt(values + floor)).astype(np.float32)


def learn_filters(whitened: Matrix, start: Matrix, reconstruction: float, max_iter: int) -> tuple[Matrix, float, int]:
    """Return filters of length 1, their loss, and the number of L-BFGS steps."""

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        loss, gradient = rica_loss(flat.reshape(start.shape).astype(np.float32), whitened, reconstruction)
        return loss, gradient.astype(np.float64).ravel()

    found = minimize(
        objective, start.astype(np.float64).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
    )
    return unit_rows(found.x.reshape(start.shape).astype(np.float32))[0], float(found.fun), int(found.nit)


def unit_rows(free: Matrix) -> tuple[Matrix, Matrix]:
    """Return rows scaled to length 1, and their lengths."""
    lengths = np.sqrt((free**2).sum(axis=1, keepdims=True) + TINY)
    return free / lengths, lengths


def rica_loss(free: Matrix, whitened: Matrix, reconstruction: float) -> tuple[float, Matrix]:
    """Return the mean loss over patches and its gradient, for filters that are scaled to length 1 first."""
    filters, lengths = unit_rows(free)
    answers = whitened @ filters.T
    smooth = np.sqrt(answers**2 + SMOOTHING)
    error = answers @ filters - whitened
    loss = (smooth.sum() + reconstruction * (error**2).sum()) / len(whitened)
    by_answers = answers / smooth + 2 * reconstruction * (error @ filters.T)
    gradient = (by_answers.T @ whitened + 2 * reconstruction * (answers.T @ error)) / len(whitened)
    along = (gradient * filters).sum(axis=1, keepdims=True)
    return float(loss), (gradient - along * filters) / lengths
