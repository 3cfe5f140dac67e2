"""Certificates against changed rows, compared with every attack on small problems, and with refits."""

from collections import Counter

import numpy as np
import pytest
from every_row_attack import fewest_changes, fewest_sources
from sklearn.base import clone
from sklearn.cluster import KMeans
from tiers import mostly_slow

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
)
from flipproof.attacks import worst_rows
from flipproof.core.votes import DenseVotes

#: Largest number of changes in an attack that is tried.
MOST = 3

CHANGES = ("rows", "insertions", "removals")


class Weighs(LabelLinearClassifier):
    """Integer weights of both signs by the distance of the first coordinates, 0 if they are far apart."""

    def fit_without_labels(self, X):
        pass

    def weight_of_row(self, x, z):
        return float([3, -2, 1, 0][min(int(abs(x[0] - z[0])), 3)])


class LeansToOne(Weighs):
    """An offset in favour of the last class, so that the scores depend on more than the rows."""

    def label_free_votes(self, Z, held):
        votes = super().label_free_votes(Z, held)
        offsets = np.zeros((len(Z), len(self.classes_)))
        offsets[:, :-1] = -(2.0 if self.clip == "sign" else 700.0) * np.abs(Z[:, :1])
        return DenseVotes(votes.votes, votes.exponent, offsets)


LEARNERS = {
    "weights": Weighs(precision=2),
    "offsets": LeansToOne(),
    "ridge": CertifiedRidgeClassifier(regularization=1.0, precision=4),
    "kernel": CertifiedKernelClassifier(precision=4),
    "forest": CertifiedForestClassifier(2, min_samples_leaf=2, precision=4),
    "clusters": CertifiedClusterClassifier(KMeans(3, n_init=1)),
}


CLIPPED = [(name, clip) for name in LEARNERS for clip in (None, 0.5, "sign") if clip is None or name != "clusters"]


def learner_of(name, clip):
    return LEARNERS[name] if clip is None else clone(LEARNERS[name]).set_params(clip=clip)


class Problem:
    """Integer rows with labels and a reference; candidate rows to add; what each of them votes on one test row."""

    def __init__(self, learner, n_classes, n_rows, seed):
        rng = np.random.default_rng([seed, n_classes, n_rows])
        self.rng, self.n_classes = rng, n_classes
        self.learner = clone(learner).set_params(classes=range(n_classes))
        self.reference = rng.integers(-2, 3, size=(6, 2)).astype(float)
        self.reference[:3] = [[0, 0], [1, 2], [-2, 1]]
        self.X = rng.integers(-2, 3, size=(n_rows, 2)).astype(float)
        self.y = rng.integers(n_classes, size=n_rows)
        self.z = rng.integers(-2, 3, size=(1, 2)).astype(float)
        self.model = self.fitted(self.X, self.y)
        others = self.vote_of(self.reference)
        loudest = self.model.loudest_rows(self.z)
        pool = np.vstack([loudest, self.z, self.reference[np.argmax(np.abs(others))][None], self.X])
        self.pool = np.unique(pool, axis=0)
        self.votes = self.vote_of(self.pool)
        self.offsets = self.model.vote_weights(self.z)[1][0]
        # of additions, only the loudest and one more are tried
        self.additions = np.unique([np.argmax(self.votes), np.argmin(self.votes), rng.integers(len(self.pool))])

    def fitted(self, X, y):
        return clone(self.learner).fit(X, y, reference=self.reference)

    def vote_of(self, rows):
        return self.fitted(rows, np.zeros(len(rows), dtype=int)).vote_weights(self.z)[0][0]

    def state(self, trusted=None):
        number = {tuple(row): at for at, row in enumerate(self.pool.tolist())}
        free = np.ones(len(self.y), dtype=bool) if trusted is None else ~trusted
        return [
            (number[tuple(x)], int(label), bool(f)) for x, label, f in zip(self.X.tolist(), self.y, free, strict=True)
        ]

    def predict(self, state):
        """Return the class that the votes name; refits confirm it."""
        scores = self.offsets.copy()
        for row, label, _ in state:
            scores[label] += self.votes[row]
        return int(np.argmax(scores))

    def refit(self, state):
        rows = self.pool[[row for row, _, _ in state]].reshape(-1, 2)
        return int(self.fitted(rows, np.array([label for _, label, _ in state], dtype=int)).predict(self.z)[0])


def is_exact(certificates):
    return "rows-lower-bound" not in [one.code for one in certificates.assumptions]


def check(problem, adversary, tally):
    state = problem.state(adversary.trusted)
    additions = [(int(row), label, True) for row in problem.additions for label in range(problem.n_classes)]
    if adversary.groups is None:
        truth = fewest_changes(tuple(sorted(state)), additions, adversary.changes, problem.predict, MOST)
    else:
        truth = fewest_sources(state, adversary.groups.tolist(), additions, adversary.changes, problem.predict, MOST)
    found = problem.model.certify(problem.z, adversary=adversary)
    assert found.prediction[0] == problem.predict(tuple(state)) == problem.refit(state)
    radius = int(found.radius[0])
    attack = worst_rows(problem.model, problem.z, adversary, reference=problem.reference)
    if truth is not None:
        n_changes, after = truth
        assert problem.refit(after) != found.prediction[0]
        assert radius < n_changes, (radius, truth)
        assert not found.unlimited[0]
        if is_exact(found):
            assert radius == n_changes - 1, (radius, truth)
        tally["changed"] += 1
    elif is_exact(found):
        assert found.unlimited[0] or radius >= MOST or (adversary.groups is not None and radius >= found.n_touchable)
        tally["unchanged"] += 1
    if is_exact(found):
        assert attack.is_smallest[0]
        assert attack.success[0] == (not found.unlimited[0])
        tally["exact"] += 1
    if attack.success[0]:
        assert attack.changes_needed[0] > radius
        X, y = attack.changed(problem.X, problem.y, 0)
        assert problem.fitted(X, y).predict(problem.z)[0] != found.prediction[0]


CASES = [(name, clip, n_classes) for n_classes in (2, 3) for name, clip in CLIPPED]


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "clip", "n_classes"), mostly_slow(CASES, fast=range(0, len(CASES), 6)))
def test_radii_are_those_of_the_best_attack(name, clip, n_classes):
    learner, tally = learner_of(name, clip), Counter()
    for seed, n_rows in enumerate([0, 1, 1, 2, 3, 3, 4, 4, 5]):
        problem = Problem(learner, n_classes, n_rows, seed)
        for changes in CHANGES:
            check(problem, Adversary(changes=changes), tally)
            check(problem, Adversary(changes=changes, trusted=problem.rng.random(n_rows) < 0.4), tally)
            if changes != "insertions" and n_rows:
                groups, trusted = problem.rng.integers(3, size=n_rows), problem.rng.random(n_rows) < 0.3
                check(problem, Adversary(changes=changes, groups=groups, trusted=trusted), tally)
    assert tally["changed"] >= 10
    assert tally["exact"] >= 20


class OneIsHopeless(LeansToOne):
    """Class 0 is so far behind that no row can help it."""

    def label_free_votes(self, Z, held):
        votes = super().label_free_votes(Z, held)
        return DenseVotes(votes.votes, votes.exponent, np.tile([-1e9, 0.0], (len(Z), 1)))


def test_offsets_do_not_depend_on_the_number_of_rows():
    """Also without any rows: a class that no vote can help is not predicted because all rows have been removed."""
    reference, X, y = [[0.0], [1.0]], [[0.1], [1.1]], [1, 0]
    model = OneIsHopeless(classes=[0, 1]).fit(X, y, reference=reference)
    before = model.vote_weights([[0.0]])[1]
    assert model.certify([[0.0]], adversary=Adversary(changes="removals")).unlimited[0]
    assert model.forget([0, 1]).predict([[0.0]]) == [1]
    np.testing.assert_array_equal(model.vote_weights([[0.0]])[1], before)
