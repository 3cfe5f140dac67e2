"""The best attack on a label-linear learner: a reference for problems that are too large to enumerate."""

import numpy as np
from sklearn.base import clone


def attacked(codes, alpha, winner, rival, flips):
    """Return the labels after the best attack for `rival`: the changes that lower the winner's lead most.

    A row with a positive weight is made to vote for the rival, one with a negative weight for the winner.
    """
    lead_now = alpha * ((codes == winner).astype(float) - (codes == rival))
    gain = lead_now + np.abs(alpha)
    largest = np.argsort(-gain, kind="stable")[:flips]
    poisoned = codes.copy()
    poisoned[largest] = np.where(alpha > 0, rival, winner)[largest]
    return poisoned


def assert_radius_is_exact(model, X, y, rows, n_refits):
    """Attack every row in favour of every rival, and refit on the attacked labels of the first few."""
    cert = model.certify(rows, method="exact")
    alpha, offsets = model.vote_weights(rows)
    codes = np.searchsorted(model.classes_, y)
    n_classes = len(model.classes_)
    np.testing.assert_array_equal(cert.prediction, model.predict(rows))
    for i, radius in enumerate(cert.radius):
        winner, chosen = np.searchsorted(model.classes_, [cert.prediction[i], cert.rival[i]])
        drawn = {}
        for rival in set(range(n_classes)) - {winner}:
            held = attacked(codes, alpha[i], winner, rival, radius)
            assert votes(alpha[i], offsets[i], held).argmax() == winner
            after = votes(alpha[i], offsets[i], attacked(codes, alpha[i], winner, rival, radius + 1))
            drawn[rival] = after[rival] >= after[winner]
        assert drawn[chosen] == any(drawn.values()) == (radius < len(y))
        if i < n_refits and radius < len(y):
            held, fallen = (attacked(codes, alpha[i], winner, chosen, flips) for flips in (radius, radius + 1))
            assert clone(model).fit(X, model.classes_[held]).predict(rows[[i]]) == cert.prediction[i]
            refit = clone(model).fit(X, model.classes_[fallen])
            changed = refit.predict(rows[[i]]) != cert.prediction[i]
            assert changed or refit.certify(rows[[i]]).margin == 0
    return cert


def votes(alpha, offsets, codes):
    """Return the class scores; weights lie on a grid, so these sums are exact."""
    return alpha @ (codes[:, None] == np.arange(len(offsets))) + offsets
