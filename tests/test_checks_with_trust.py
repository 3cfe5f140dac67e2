"""`check_certifier` with trusted labels: priors and supervised trees pass, learners that read other labels do not."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from flipproof import CertifiedForestClassifier, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.checks import check_certifier

SMALL = {"n_rows": 5, "n_problems": 1, "trusted": [True, True, False, False, False]}
TREE = DecisionTreeClassifier(max_depth=1, random_state=0)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "learner",
    [
        CertifiedRidgeClassifier(prior=TREE, prior_weight=0.5),
        CertifiedNeighborsClassifier(3, prior=TREE),
        CertifiedForestClassifier(2, min_samples_leaf=1, grow="supervised"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_learners_that_read_trusted_labels_are_sound(learner, seed):
    check_certifier(learner, random_state=seed, **SMALL)


class ReadsAll(CertifiedRidgeClassifier):
    """A prior that is fitted to all labels, trusted or not."""

    def fit(self, X, y, trusted=None):
        self.prior = GaussianNB().fit(X, y) if len(np.unique(y)) > 1 else None
        return super().fit(X, y, trusted=trusted)


class ForgetsTrust(CertifiedRidgeClassifier):
    """A prior that has read labels which the certificates count as changeable."""

    def fit(self, X, y, trusted=None):
        super().fit(X, y, trusted=trusted)
        self.is_trusted_ = np.zeros(len(y), dtype=bool)
        return self


def test_a_prior_that_reads_other_labels_is_found():
    with pytest.raises(AssertionError, match=r"depend on labels|breaks a certificate|different results"):
        check_certifier(ReadsAll(), **SMALL)


def test_labels_that_are_trusted_only_in_name_are_found():
    with pytest.raises(AssertionError, match="radius"):
        check_certifier(ForgetsTrust(prior=TREE), **SMALL)


@pytest.mark.parametrize("trusted", [[True] * 5, [False] * 5, [True, False]])
def test_masks_that_leave_nothing_to_check_are_refused(trusted):
    with pytest.raises(ValueError, match="trusted"):
        check_certifier(CertifiedRidgeClassifier(), n_rows=5, n_problems=1, trusted=trusted)
