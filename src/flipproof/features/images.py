"""Rows of pixels as images."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from flipproof.parameters import NONE, Constraints, check_parameters, instance, integer, parameter_error

Images = NDArray[np.float32]


class ImageTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A feature map of images that are given as rows of pixels: row by row, colours last."""

    parameter_constraints: ClassVar[Constraints] = {
        "image_shape": NONE | instance((tuple, list, np.ndarray), "a tuple of integers"),
        "random_state": integer(0),
    }

    image_shape: tuple[int, ...] | None
    n_features_in_: int
    _n_features_out: int

    def _training_images(self, X: Any) -> Images:
        """Return training rows as images (n, height, width, channels), and remember the shape."""
        check_parameters(self)
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
        wanted = f"(height, width) or (height, width, channels) with {n_pixels} numbers in all"
        raise parameter_error(who, "image_shape", wanted, image_shape)
    return shape[0], shape[1], shape[2]
