"""Small problems for attacks on undefended classifiers, and what every result must satisfy."""

from itertools import product

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression


def clusters(seed, n, K, m=5, k=2, spread=1.2):
    """Return X, y, Z: one cluster per class, every class in y."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(K, k)) * 1.5
    y = np.concatenate([np.arange(K), rng.integers(0, K, size=n - K)])
    X = centres[y] + rng.normal(size=(n, k)) * spread
    Z = centres[rng.integers(0, K, size=m)] + rng.normal(size=(m, k)) * spread
    return X, y, Z


def labelled_clusters(seed=0, n=200, m=12):
    """Return X, y, Z with string labels, hard enough to need a real search."""
    X, y, Z = clusters(seed, n, 2, m=m, k=4, spread=1.5)
    return X, np.array(["benign", "malignant"])[y], Z


def fewest_by_brute_force(model, X, y, Z, may_change=lambda new: True):
    """Return the fewest changed labels that change each row's prediction after a refit; inf if none do."""
    classes, prediction = np.unique(y), model.predict(Z)
    fewest = np.full(len(Z), np.inf)
    for codes in product(range(len(classes)), repeat=len(y)):
        new = classes[list(codes)]
        flips = np.count_nonzero(new != y)
        if len(np.unique(new)) > 1 and (flips < fewest).any() and may_change(new):
            changed = clone(model).fit(X, new).predict(Z) != prediction
            fewest = np.where(changed, np.minimum(fewest, flips), fewest)
    return fewest


def assert_true(result, model, X, y, Z, max_flips=np.inf):
    """Check all claims of a result against refits of the model itself."""
    np.testing.assert_array_equal(result.prediction, model.predict(Z))
    assert len(result) == len(Z)
    for i in range(len(Z)):
        rows, new = result.rows[i], result.new_labels[i]
        if not result.success[i]:
            assert result.flips_needed[i] == -1
            assert len(rows) == len(new) == 0
            continue
        poisoned = result.poisoned(y, i)
        assert result.flips_needed[i] == len(rows) == len(new) <= max_flips
        assert sorted(rows) == np.flatnonzero(poisoned != np.asarray(y)).tolist()
        np.testing.assert_array_equal(poisoned[rows], new)
        assert clone(model).fit(X, poisoned).predict(Z[[i]])[0] != result.prediction[i]


def fitted(X, y, **parameters):
    return LogisticRegression(**{"max_iter": 1000, **parameters}).fit(X, y)
