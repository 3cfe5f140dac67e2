"""Small images that tests of feature maps share."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits


@cache
def enlarged_digits():
    """Digits enlarged to 16 x 16 pixels with values from 0 to 255, and their labels, ten classes."""
    X, y = load_digits(return_X_y=True)
    large = np.kron(X.reshape(-1, 8, 8), np.ones((2, 2))) * (255 / 16)
    return large.reshape(len(X), 256).astype(np.float32), y
