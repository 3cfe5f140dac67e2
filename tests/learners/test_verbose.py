"""Progress of learners on stderr: it is shown, it moves, and results do not depend on it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
)

LABEL_LINEAR = [
    CertifiedRidgeClassifier(),
    CertifiedKernelClassifier(),
    CertifiedKernelClassifier(n_components=20),
    CertifiedNeighborsClassifier(5),
    CertifiedClusterClassifier(),
    CertifiedForestClassifier(5),
    CertifiedPropagationClassifier(5),
]
ARRAYS = ("prediction", "radius", "rival", "margin", "log_failure", "witness")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:150], y[:150], X[150:230]


@pytest.mark.few(3)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("learner", LABEL_LINEAR, ids=repr)
def test_results_do_not_depend_on_progress(learner, n_jobs, digits, capfd):
    X, y, Z = digits
    silent = clone(learner).fit(X, y)
    expected = silent.certify(Z)
    assert capfd.readouterr().err == ""
    shown = clone(learner).set_params(verbose=1, n_jobs=n_jobs).fit(X, y)
    capfd.readouterr()
    found = shown.certify(Z)
    assert "80 of 80 test rows" in capfd.readouterr().err
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.assumptions == expected.assumptions
    np.testing.assert_array_equal(shown.predict(Z), silent.predict(Z))
    np.testing.assert_array_equal(shown.decision_function(Z), silent.decision_function(Z))
    said = capfd.readouterr()
    assert said.err.count("80 of 80 test rows") == 2
    assert said.out == ""


@pytest.mark.parametrize(
    ("learner", "wanted"),
    [
        (CertifiedRidgeClassifier(), "450 of 450 visits to training rows"),
        (CertifiedKernelClassifier(n_components=20), "600 of 600 visits to training rows"),
        (CertifiedKernelClassifier(), "150 of 150 landmarks compared"),
        (CertifiedForestClassifier(5, n_jobs=2), "5 of 5 trees"),
        (CertifiedPropagationClassifier(5), "150 of 150 labels spread"),
        (CertifiedPartitionClassifier(DecisionTreeClassifier(), 5), "5 of 5 base learners fitted"),
        (CertifiedRidgeClassifier(features=StandardScaler()), "450 of 450 visits to training rows"),
        (CertifiedClusterClassifier(MiniBatchKMeans(3, n_init=1)), ""),
    ],
    ids=repr,
)
def test_fits_show_progress(learner, wanted, digits, capfd):
    X, y, _ = digits
    clone(learner).set_params(verbose=1).fit(X, y)
    assert wanted in capfd.readouterr().err
    clone(learner).fit(X, y)
    assert capfd.readouterr().err == ""


def test_a_features_step_shows_progress(digits, capfd):
    X, y, Z = digits
    model = CertifiedRidgeClassifier(features=StandardScaler(), verbose=1).fit(X, y)
    model.certify(Z)
    assert "80 of 80 rows transformed" in capfd.readouterr().err


@pytest.mark.few(1)
@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(), GaussianNB()], ids=repr)
def test_partitions_predict_the_same_in_pieces(estimator, digits, capfd):
    X, y, Z = digits
    silent = CertifiedPartitionClassifier(estimator, 4).fit(X, y)
    shown = CertifiedPartitionClassifier(estimator, 4, verbose=1).fit(X, y)
    np.testing.assert_array_equal(shown.certify(Z).radius, silent.certify(Z).radius)
    np.testing.assert_array_equal(shown.decision_function(Z), silent.decision_function(Z))
    assert "80 of 80 test rows" in capfd.readouterr().err


class WithoutVerbose(LabelLinearClassifier):
    """A custom learner whose `__init__` does not know the parameter."""

    def __init__(self, noise=0.1, method="exact", precision=10, features=None, classes=None, block_size=None):
        self.noise, self.method, self.precision = noise, method, precision
        self.features, self.classes, self.block_size = features, classes, block_size
        self.n_jobs = None

    def fit_without_labels(self, X):
        self.rows_ = X

    def label_free_weights(self, Z):
        return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))


def test_a_custom_learner_without_the_parameter_is_silent(digits, capfd):
    X, y, Z = digits
    WithoutVerbose().fit(X, y).certify(Z)
    assert capfd.readouterr().err == ""


def test_verbose_is_checked():
    with pytest.raises(ValueError, match="'verbose' parameter of CertifiedRidgeClassifier must be an integer"):
        CertifiedRidgeClassifier(verbose="yes").fit([[0.0], [1.0]], [0, 1])
