"""A custom learner: two short methods, and it predicts, certifies and says what is wrong with it."""

import numpy as np
import pytest
from enumeration import all_labellings, flips_to_change, scores_after
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from flipproof import (
    Adversary,
    CertifiedPartitionClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
    SmoothedClassifier,
    collective_certify,
)
from flipproof.attacks import smoothed_attack, worst_flips
from flipproof.core.invariants import InvariantError
from flipproof.core.provider import provides_votes
from flipproof.core.votes import DenseVotes, dense_votes, sparse_votes
from flipproof.streaming import StreamingRidgeClassifier


class ParzenWindow(LabelLinearClassifier):
    def __init__(self, noise=0.1, *, kind="dense", precision=10, classes=None, features=None, n_jobs=None):
        super().__init__(noise, precision=precision, classes=classes, features=features, n_jobs=n_jobs)
        self.kind = kind

    def fit_without_labels(self, X):
        self.rows_ = X

    def label_free_weights(self, Z):
        alpha = np.exp(-cdist(Z, self.rows_)) - 0.3  # far rows vote against
        if self.kind == "sparse":
            return csr_array(np.where(alpha > -0.2, alpha, 0))
        if self.kind == "offsets":
            return alpha, np.linspace(0.5, 0.0, len(self.classes_))[None, :]
        return {"dense": alpha, "narrow": alpha[:, 1:], "nan": alpha * np.nan, "bad offsets": (alpha, [[0.0]])}[
            self.kind
        ]


def problem(seed=0, n=5, K=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.integers(K, size=n), rng.normal(size=(6, 2))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["dense", "sparse", "offsets"])
@pytest.mark.parametrize("precision", [3, 10, 24])
def test_every_attack_on_refitted_models(kind, precision):
    for seed in (0, 2):
        K = 2 + seed // 2
        X, y, Z = problem(seed, n=6 - seed, K=K)
        model = ParzenWindow(kind=kind, precision=precision, classes=range(K)).fit(X, y)
        labellings = all_labellings(len(y), K)
        alpha, offsets = model.vote_weights(Z)
        certificates = {method: model.certify(Z, method) for method in ("exact", "tight", "kl")}
        refitted = np.array([model.fit(X, attacked).predict(Z) for attacked in labellings])
        for i, prediction in enumerate(certificates["exact"].prediction):
            scores = scores_after(labellings, alpha[i], offsets[i])
            np.testing.assert_array_equal(refitted[:, i], scores.argmax(axis=1))
            needed = flips_to_change(y, labellings, refitted[:, i], prediction)
            for certificate in certificates.values():
                assert certificate.radius[i] < needed
            assert certificates["exact"].radius[i] == (len(y) if needed == np.inf else needed - 1)


@pytest.mark.parametrize("kind", ["dense", "sparse", "offsets"])
def test_weights_are_what_was_given_on_the_grid(kind):
    X, y, Z = problem(n=40)
    model = ParzenWindow(kind=kind, precision=20, classes=range(3)).fit(X, y)
    alpha, offsets = model.vote_weights(Z)
    given = [model.label_free_weights(Z[i : i + 1]) for i in range(len(Z))]
    if kind == "offsets":
        given_offsets = np.vstack([one[1] for one in given])
        np.testing.assert_allclose(offsets - offsets[:, :1], given_offsets - given_offsets[:, :1], atol=1e-5)
        given = [one[0] for one in given]
    expected = np.vstack([one.toarray() if kind == "sparse" else one for one in given])
    np.testing.assert_allclose(alpha, expected, atol=2e-6)
    np.testing.assert_array_equal(model.predict(Z), (alpha @ np.eye(3)[y] + offsets).argmax(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "sparse", "offsets"])
def test_batches_and_threads_do_not_matter(kind):
    X, y, Z = problem(n=300)
    Z = np.random.default_rng(1).normal(size=(50, 2))
    model = ParzenWindow("auto", kind=kind, features=StandardScaler(), classes=range(3)).fit(X, y)
    whole, in_threads = model.certify(Z, "tight"), clone(model).set_params(n_jobs=2).fit(X, y).certify(Z, "tight")
    alone = [model.certify(Z[i : i + 1], "tight") for i in range(len(Z))]
    for name in ("prediction", "radius", "log_failure", "witness", "noise"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(in_threads, name))
        np.testing.assert_array_equal(getattr(whole, name), np.concatenate([getattr(one, name) for one in alone]))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("narrow", r"one weight per training row, shape \(1, 5\).*Got shape \(1, 4\)"),
        ("nan", "finite weights. Got NaN or infinity"),
        ("bad offsets", r"finite offsets, one per class, shape \(1, 3\)"),
    ],
)
def test_invalid_weights_are_refused(kind, message):
    X, y, Z = problem()
    with pytest.raises(ValueError, match=message):
        ParzenWindow(kind=kind, classes=range(3)).fit(X, y).predict(Z)


def test_a_learner_without_its_two_methods_says_which_are_missing():
    class Nothing(LabelLinearClassifier):
        pass

    class NoWeights(LabelLinearClassifier):
        def fit_without_labels(self, X):
            pass

    X, y, Z = problem()
    with pytest.raises(NotImplementedError, match=r"Nothing must define fit_without_labels"):
        Nothing(classes=range(3)).fit(X, y)
    with pytest.raises(NotImplementedError, match=r"NoWeights must define label_free_weights"):
        NoWeights(classes=range(3)).fit(X, y).certify(Z)


class FastParzenWindow(ParzenWindow):
    """The same votes, but for all test rows at once."""

    def label_free_votes(self, Z, held):
        alpha = np.exp(-cdist(Z, self.rows_)) - 0.3
        if self.kind == "sparse":
            return sparse_votes(csr_array(np.where(alpha > -0.2, alpha, 0)), self.precision_, self.n_rows_)
        offsets = np.tile(np.linspace(0.5, 0.0, len(self.classes_)), (len(Z), 1)) if self.kind == "offsets" else None
        return dense_votes(alpha, self.precision_, offsets)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["dense", "sparse", "offsets"])
def test_votes_for_many_rows_at_once_give_the_same_certificates_and_attacks(kind):
    X, y, _ = problem(n=40)
    Z = np.random.default_rng(1).normal(size=(12, 2))
    slow, fast = (kind_of(kind=kind, classes=range(3)).fit(X, y) for kind_of in (ParzenWindow, FastParzenWindow))
    np.testing.assert_array_equal(fast.vote_weights(Z)[0], slow.vote_weights(Z)[0])
    np.testing.assert_array_equal(fast.predict(Z), slow.predict(Z))
    for adversary in (None, Adversary(trusted=np.arange(40) % 3 == 0), Adversary(groups=np.arange(40) % 7)):
        for method in ("exact", "tight", "kl"):
            one, other = fast.certify(Z, method, adversary), slow.certify(Z, method, adversary)
            np.testing.assert_array_equal(one.radius, other.radius)
            np.testing.assert_array_equal(one.log_failure, other.log_failure)
        for attack in (worst_flips, smoothed_attack):
            one, other = attack(fast, Z, adversary), attack(slow, Z, adversary)
            np.testing.assert_array_equal(one.flips_needed, other.flips_needed)
            for mine, theirs in zip(one.rows, other.rows, strict=True):
                np.testing.assert_array_equal(mine, theirs)
        one, other = (collective_certify(model, Z, 3, adversary=adversary) for model in (fast, slow))
        assert one.most_changed == other.most_changed


def test_rows_that_a_learner_keeps_are_a_copy_however_it_votes():
    X, y, Z = problem(n=20)
    X = np.ascontiguousarray(X)
    for kind_of in (ParzenWindow, FastParzenWindow):
        model = kind_of(classes=range(3)).fit(X, y)
        before = model.vote_weights(Z)[0]
        X += 1
        np.testing.assert_array_equal(model.vote_weights(Z)[0], before)


class TooLoud(ParzenWindow):
    def label_free_votes(self, Z, held):
        return DenseVotes(np.full((len(Z), self.n_rows_), 2.0**self.precision_), np.zeros(len(Z), dtype=np.int64))


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize("precision", [3, 10])
def test_votes_of_too_many_bits_are_refused(method, precision):
    X, y, Z = problem(n=40)
    model = TooLoud(precision=precision, classes=range(3)).fit(X, y)
    with pytest.raises(InvariantError, match=f"more than {precision} bits"):
        model.certify(Z, method)


def test_who_provides_votes():
    assert provides_votes(ParzenWindow())
    assert provides_votes(CertifiedRidgeClassifier())
    for other in (CertifiedPartitionClassifier(), SmoothedClassifier(), StreamingRidgeClassifier(), object()):
        assert not provides_votes(other)


class Prior(LabelLinearClassifier):
    """Weights of any size, and offsets of another one."""

    def __init__(self, weights=1.0, offsets=(0.0, 0.0, 0.0), classes=None):
        super().__init__(classes=classes)
        self.weights_of_rows = weights
        self.offsets = offsets

    def fit_without_labels(self, X):
        pass

    def label_free_weights(self, Z):
        return np.array([[1.0, -2.0, 0.5]]) * self.weights_of_rows, np.array([self.offsets])


@pytest.mark.parametrize("offsets", [(1.0, 2.0, -1.0), (-1.0, -2.0, -1.0), (-3.0, -2.0, -1.0), (0.0, 0.0, 0.0)])
@pytest.mark.parametrize(("size", "of_offsets"), [(1e-250, 1e100), (1e-300, 5e307), (1.0, 5e307), (1e300, 1e-300)])
def test_offsets_of_any_size_beside_the_weights(offsets, size, of_offsets):
    offsets = of_offsets * np.array(offsets)
    model = Prior(size, tuple(offsets), classes=[0, 1, 2]).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    certificates, attack = model.certify([[0.0]]), worst_flips(model, [[0.0]])
    if size < of_offsets and len(set(offsets)) > 1:  # the labels do not matter, unless two classes share the lead
        leaders = np.flatnonzero(offsets == offsets.max())
        assert certificates.prediction[0] in leaders
        if len(leaders) == 1:
            assert certificates.radius[0] == 3
            assert not attack.success[0]
    np.testing.assert_array_equal(certificates.prediction, model.predict([[0.0]]))
    if attack.success[0]:
        refitted = model.fit([[0.0], [1.0], [2.0]], attack.poisoned([0, 1, 2], 0))
        assert refitted.predict([[0.0]])[0] != certificates.prediction[0]
