"""What holds for every learner: the promise by brute force, label independence, an attack that meets the radius."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
)
from flipproof.attacks import worst_flips
from flipproof.checks import check_certifier

TWO_CLUSTERS = KMeans(2, n_init=1, random_state=0)
LABEL_LINEAR = [
    CertifiedRidgeClassifier(),
    CertifiedRidgeClassifier(fit_intercept=False, regularization=0.1),
    CertifiedKernelClassifier(),
    CertifiedKernelClassifier("laplacian", n_components=4, fit_intercept=False),
    CertifiedNeighborsClassifier(3),
    CertifiedNeighborsClassifier(3, weights="distance", metric="cosine"),
    CertifiedClusterClassifier(TWO_CLUSTERS),
    CertifiedForestClassifier(5),
    CertifiedPropagationClassifier(2),
    CertifiedPropagationClassifier(2, rule="poisson"),
]
EVERY_LEARNER = [*LABEL_LINEAR, CertifiedPartitionClassifier(DecisionTreeClassifier(), n_partitions=3)]


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", EVERY_LEARNER, ids=repr)
def test_every_attack_on_small_problems(learner):
    check_certifier(learner, n_rows=4, n_problems=2)


@pytest.mark.slow
@pytest.mark.parametrize("learner", EVERY_LEARNER, ids=repr)
def test_every_attack_on_larger_problems(learner):
    check_certifier(learner, n_problems=2)


@pytest.fixture(scope="module")
def one_against_seven():
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, (1, 7))
    return X[kept][:300], y[kept][:300], X[kept][300:330]


@pytest.mark.few(6)
@pytest.mark.parametrize("learner", [*LABEL_LINEAR, CertifiedClusterClassifier(TWO_CLUSTERS, vote="joint")], ids=repr)
@pytest.mark.parametrize(
    "adversary",
    [
        None,
        Adversary(trusted=np.arange(300) % 3 == 0, allowed=[(7, 1), (1, 7)]),
        Adversary(groups=np.arange(300) % 60, trusted=np.arange(300) < 30),
    ],
    ids=repr,
)
def test_the_best_attack_needs_one_flip_more_than_the_radius_and_a_refit_confirms_it(
    learner, adversary, one_against_seven
):
    X, y, Z = one_against_seven
    model = clone(learner).set_params(classes=[1, 7]).fit(X, y)
    certificates, attack = model.certify(Z, "exact", adversary), worst_flips(model, Z, adversary)
    np.testing.assert_array_equal(attack.flips_needed[attack.success], certificates.radius[attack.success] + 1)
    assert np.all(certificates.radius[~attack.success] == certificates.n_touchable)
    for i in np.flatnonzero(attack.success)[:2]:
        refitted = model.fit(X, attack.poisoned(y, i))
        assert refitted.predict(Z[i : i + 1])[0] != certificates.prediction[i]


@pytest.mark.few(2)
@pytest.mark.parametrize("learner", LABEL_LINEAR, ids=repr)
def test_permuting_labels_never_changes_weights(learner, one_against_seven):
    X, y, Z = one_against_seven
    rng = np.random.default_rng(0)
    alpha, offsets = clone(learner).set_params(classes=[1, 7]).fit(X, y).vote_weights(Z)
    for _ in range(3):
        again = clone(learner).set_params(classes=[1, 7]).fit(X, rng.permutation(y)).vote_weights(Z)
        np.testing.assert_array_equal(alpha, again[0])
        np.testing.assert_array_equal(offsets, again[1])
