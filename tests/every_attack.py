"""Every attack of every kind of adversary on refitted learners, for problems of up to five training rows."""

import numpy as np
from enumeration import least_cost, possible_attacks, scores_after, touchable
from sklearn.base import clone

from flipproof import Adversary

METHODS = ("exact", "tight", "kl")
ADVERSARIES = [
    {},
    {"trusted": [True, False, False, True, False]},
    {"allowed": [(0, 1)]},
    {"groups": ["a", "b", "a", "c", "b"]},
    {"trusted": [False, True, False, False, False], "allowed": [(1, 0), (0, 1)]},
    {"trusted": [False, False, True, False, True], "groups": ["a", "a", "b", "b", "c"]},
    {"allowed": [(1, 0)], "groups": ["a", "b", "b", "c", "c"]},
    {"trusted": [True, False, False, False, False], "allowed": [(0, 1), (1, 0)], "groups": ["c", "b", "b", "a", "a"]},
]


def assert_no_attack_succeeds(model, X, Z, n_classes, bases):
    """Fit to every labelling, and try every attack of every kind of adversary on the certificates of some of them.

    The exact radius is attained for every adversary.
    """
    n = len(X)
    labellings, _ = possible_attacks(np.zeros(n, dtype=int), n_classes)
    number = n_classes ** np.arange(n - 1, -1, -1)
    fitted = [clone(model).fit(X, y) for y in labellings]
    predictions = np.array([one.predict(Z) for one in fitted])
    alpha, offsets = fitted[0].vote_weights(Z)
    for one in fitted[1 :: len(fitted) // 10]:
        np.testing.assert_array_equal(one.vote_weights(Z)[0], alpha)
    scores = np.stack([scores_after(labellings, *line) for line in zip(alpha, offsets, strict=True)], axis=1)
    np.testing.assert_array_equal(scores.argmax(axis=2), predictions)
    radii = {method: [] for method in METHODS}
    for base in bases:
        y = labellings[base]
        for powers in ADVERSARIES:
            powers = {name: value if name == "allowed" else np.array(value)[:n] for name, value in powers.items()}
            attacks, cost = possible_attacks(y, n_classes, **powers)
            after = attacks @ number
            for method in METHODS:
                certificates = fitted[base].certify(Z, method, Adversary(**powers) if powers else None)
                np.testing.assert_array_equal(certificates.prediction, predictions[base])
                assert_true_radii(certificates, predictions[after], cost, touchable(y, **powers))
                radii[method].extend(certificates.radius.tolist())
    return radii


def assert_true_radii(certificates, predictions, cost, limit):
    """Check radii against the costs of all attacks and the predictions after them.

    No attack within the radius changes a prediction; by the exact method, one that costs a unit more does, or the
    radius is the `limit`, all that can be touched.
    """
    for i, prediction in enumerate(certificates.prediction):
        cheapest = least_cost(cost, predictions[:, i] != prediction)
        assert certificates.radius[i] < cheapest
        if certificates.method == "exact":
            assert certificates.radius[i] == (limit if cheapest == np.inf else cheapest - 1)
