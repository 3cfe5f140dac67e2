"""Shared by the tests of rows in blocks: whether two certificates are the same to the last bit, and rows cut up."""

from dataclasses import fields

import numpy as np


def assert_same(found, wanted, same_adversary=True):
    """Check that all fields are equal, NaN included; `same_adversary` is False where only one was told at the fit."""
    for field in fields(wanted):
        one, other = getattr(found, field.name), getattr(wanted, field.name)
        if field.name == "origin":  # the model that made them
            continue
        if field.name == "adversary":
            assert one is other or not same_adversary
        elif isinstance(other, np.ndarray):
            assert one.dtype == other.dtype, field.name
            np.testing.assert_array_equal(one, other, err_msg=field.name, strict=True)
        elif isinstance(other, float):
            np.testing.assert_equal(one, other, err_msg=field.name)
        else:
            assert one == other, field.name


def assert_same_model(blocks, memory, Z, methods=("exact", "tight", "kl"), adversaries=(None,)):
    """Check that a learner on rows in blocks does what the one in memory does."""
    np.testing.assert_array_equal(blocks.predict(Z), memory.predict(Z), strict=True)
    np.testing.assert_array_equal(blocks.decision_function(Z), memory.decision_function(Z), strict=True)
    for method in methods:
        for adversary in adversaries:
            assert_same(blocks.certify(Z, method, adversary), memory.certify(Z, method, adversary))


def cut(sizes, *columns):
    """Return blocks of this number of rows, and one of the rows that are left."""
    ends = np.cumsum(sizes)
    return list(zip(*(np.split(np.asarray(column), ends) for column in columns), strict=True))


def some_problem(n, k, n_classes, seed=0, m=12):
    """Return training rows that overlap a little, their labels, and test rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    centres = rng.normal(size=(n_classes, k))
    X = centres[y] + rng.normal(scale=0.8, size=(n, k))
    return X, y, centres[rng.integers(n_classes, size=m)] + rng.normal(scale=0.8, size=(m, k))
