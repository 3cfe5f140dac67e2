"""Small problems, and few samples, for all tests of SmoothedClassifier."""

import numpy as np
from sklearn.datasets import make_blobs

QUICK = {"n_select": 10, "n_samples": 40, "confidence": 0.9, "random_state": 0}


def blobs(n_classes=3, n=60, seed=0):
    centers = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])[:n_classes]
    X, y = make_blobs(n + 20, centers=centers, cluster_std=2.0, random_state=seed)
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    return X[:n], names[:n], X[n:], names[n:]
