"""Rows of pixels as images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

Images = NDArray[np.float32]


class ImageTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A feature map of images that are given as rows of pixels: row by row, colours last."""

    image_shape: tuple[int, ...] | None
    n_features_in_: int
    _n_features_out: int

    def _training_images(self, X: Any) -> Images:
        """Return training rows as images (n, height, width, channels), and remember the shape."""
        X = validate_data(self, X, dtype=np.float32)
        self.image_shape_ = image_shape_of(self.n_features_in_, self.image_shape, type(self).__name__)
        return np.asarray(X).reshape(len(X), *self.image_shape_)

    def _test_images(self, X: Any) -> Images:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False)
        return np.asarray(X).reshape(len(X), *self.image_shape_)


def image_shape_of(n_pixels: int, image_shape: tuple[int, ...] | None, who: str) -> tuple[int, int, int]:
    """Return height, width and channels: as given, or those of a square grey image."""
    if image_shape is None:
        side = round(n_pixels**0.5)
        shape: tuple[int, ...] = (side, side, 1)
    else:
        shape = (*image_shape, 1) if len(image_shape) == 2 else tuple(image_shape)
    if len(shape) != 3 or int(np.prod(shape)) != n_pixels:
        raise ValueError(
            f"The 'image_shape' parameter of {who} must be (height, width) or (height, width, channels) with "
            f"{n_pixels} numbers in all. Got {image_shape!r} instead."
        )
    return shape[0], shape[1], shape[2]
