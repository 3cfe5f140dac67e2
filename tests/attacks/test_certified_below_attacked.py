"""On real data no certificate, by any method, exceeds the attack on the same classifier, which a refit confirms."""

import numpy as np
import pytest
from real_data import dogfish, mnist
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD

from flipproof import CertifiedRidgeClassifier, certified_accuracy
from flipproof.attacks import smoothed_attack, worst_flips


@pytest.fixture(scope="module", params=["mnist", "dogfish"])
def problem(request, data_dir):
    if request.param == "mnist":
        (X, y), (Z, truth) = (mnist(data_dir, part, (1, 7)) for part in ("train", "t10k"))
    else:
        X, y, Z, truth = dogfish(data_dir, "tinynet")
    features = TruncatedSVD(20, random_state=0).fit(X)  # not centred: the paper's rule has no intercept
    return features.transform(X), y, features.transform(Z[::30]), truth[::30]


@pytest.mark.filterwarnings("ignore::flipproof.learners.ridge.LabelDependenceWarning")  # the paper's lambda
@pytest.mark.parametrize("q", [1e-4, 0.3, 0.45])
@pytest.mark.parametrize("rule", [{"regularization": "paper", "fit_intercept": False}, {}], ids=["paper", "default"])
def test_certified_accuracy_is_below_attacked_accuracy_at_every_radius(problem, q, rule):
    X, y, Z, truth = problem
    model = CertifiedRidgeClassifier(noise=q, **rule).fit(X, y)
    attack, exact = smoothed_attack(model, Z), worst_flips(model, Z)
    np.testing.assert_array_equal(attack.flips_needed, exact.flips_needed)
    flips = np.arange(0, len(y) + 1, 3)
    attacked = attack.accuracy(truth, flips)
    assert attacked[-1] < attacked[0]
    for method in ("kl", "tight", "exact"):
        certificates = model.certify(Z, method)
        assert (certified_accuracy(truth, certificates, flips) <= attacked).all()
        found = attack.flips_needed > 0
        assert (certificates.radius[found] < attack.flips_needed[found]).all()


@pytest.mark.parametrize("intercept", [True, False])
def test_refitting_on_the_attacked_labels_changes_the_predictions(problem, intercept):
    X, y, Z, _ = problem
    model = CertifiedRidgeClassifier(noise=0.3, fit_intercept=intercept).fit(X, y)
    attack = worst_flips(model, Z[:6])
    changed = 0
    for row in np.flatnonzero(attack.success):
        again = clone(model).fit(X, attack.poisoned(y, row))
        changed += again.predict(Z[[row]])[0] != attack.prediction[row]
        assert again.predict(Z[[row]])[0] != attack.prediction[row] or again.certify(Z[[row]]).margin[0] == 0
    assert changed >= 4
