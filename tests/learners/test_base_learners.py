"""A base learner is reproducible from the same rows and labels, or it is refused."""

import random
import sys
import threading

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tiers import mostly_slow

from flipproof import CertifiedPartitionClassifier
from flipproof.runtime.determinism import with_seeds
from flipproof.smoothing import SmoothedClassifier

RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=(120, 3)), RNG.integers(0, 2, size=120), RNG.normal(size=(80, 3))
GRID = {"max_depth": [1, 2, 3, 5], "min_samples_leaf": [1, 3]}


class Folds:
    """Custom folds, by a generator in an attribute."""

    def __init__(self, random_state):
        self.random_state = random_state

    def split(self, X, y=None, groups=None):
        one, other = np.array_split(self.random_state.permutation(len(X)), 2)
        yield one, other
        yield other, one

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2


def search(cv, grid=GRID):
    return GridSearchCV(DecisionTreeClassifier(), grid, cv=cv)


RANDOM = {
    "shuffle split": search(ShuffleSplit(3, test_size=0.3)),
    "stratified": search(StratifiedKFold(2, shuffle=True)),
    "repeated": search(RepeatedKFold(n_splits=2, n_repeats=2)),
    "folds with a generator": search(KFold(2, shuffle=True, random_state=np.random.RandomState(5))),
    "custom folds": search(Folds(np.random.default_rng(5))),
    "behind a step": make_pipeline(StandardScaler(), search(ShuffleSplit(2, test_size=0.3))),
    "in the grid": GridSearchCV(
        make_pipeline(GaussianNB()), {"gaussiannb": [RandomForestClassifier(2), SGDClassifier()]}, cv=ShuffleSplit(2)
    ),
    "search in a search": GridSearchCV(
        search(ShuffleSplit(2)), {"estimator__max_features": [1, 2]}, cv=ShuffleSplit(2)
    ),
    "bagging": BaggingClassifier(LogisticRegression(), 3, random_state=np.random.RandomState(7)),
}


def votes(base, n_jobs=None):
    model = CertifiedPartitionClassifier(base, 4, classes=[0, 1], n_jobs=n_jobs).fit(X, Y)
    votes = model.partition_votes(Z)
    np.testing.assert_array_equal(model.partition_votes(Z[::-1])[::-1], votes)
    return votes


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(RANDOM, fast=(0, 5)))
def test_random_numbers_are_the_same_in_every_fit(name):
    base = RANDOM[name]
    np.random.seed(1)  # noqa: NPY002
    first = votes(base)
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(votes(base), first)
    np.testing.assert_array_equal(votes(clone(base), n_jobs=2), first)
    assert 0 < first.mean() < 1


@pytest.mark.slow
def test_the_given_folds_are_left_as_they_are():
    state = np.random.RandomState(5)
    folds, other = ShuffleSplit(2), KFold(2, shuffle=True, random_state=state)
    before = state.get_state()[1].copy()
    for cv in (folds, other):
        votes(search(cv))
    assert folds.random_state is None
    assert other.random_state is state
    np.testing.assert_array_equal(state.get_state()[1], before)


class Coin(ClassifierMixin, BaseEstimator):
    """Predicts what a generator says, in `fit` or in `predict`."""

    def __init__(self, toss, in_fit=True):
        self.toss = toss
        self.in_fit = in_fit

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.side_ = np.array([self.toss() for _ in range(100)]) if self.in_fit else None
        return self

    def predict(self, X):
        tossed = self.side_[(100 * np.abs(X[:, 0])).astype(int) % 100] if self.in_fit else [self.toss() for _ in X]
        return self.classes_[np.asarray(tossed, dtype=int)]


def of_numpy():
    return np.random.rand() < 0.5  # noqa: NPY002


def of_python():
    return random.random() < 0.5


def of_torch():
    import torch

    return bool(torch.rand(1).item() < 0.5)


@pytest.mark.few(1)
@pytest.mark.parametrize("in_fit", [True, False])
@pytest.mark.parametrize("toss", [of_numpy, of_python, pytest.param(of_torch, marks=pytest.mark.deep)])
def test_generators_that_all_code_shares_are_seeded_and_left_alone(toss, in_fit):
    first = votes(Coin(toss, in_fit))
    for number in range(3):
        toss()  # moves on
        before = _states()
        np.testing.assert_array_equal(votes(Coin(toss, in_fit)), first, err_msg=f"{number}")
        assert _states() == before
    if in_fit:  # reseeded for each row, predict would give all rows the same side of the coin
        assert 0 < first.mean() < 1


def _states():
    states = [np.random.get_state()[1].tolist(), random.getstate()]  # noqa: NPY002
    torch = sys.modules.get("torch")
    return states if torch is None else [*states, torch.get_rng_state().tolist()]


def test_threads_draw_one_after_the_other_and_leave_generators_unchanged():
    before, drawn = _states(), []

    def draw():
        return [(np.random.rand(), random.random()) for _ in range(2000)]  # noqa: NPY002

    threads = [threading.Thread(target=lambda: drawn.append(with_seeds(draw))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == [with_seeds(draw)] * 4
    assert _states() == before


def test_seeds_within_seeds_do_not_disturb_those_around_them():
    def drawn(inner):
        return with_seeds(lambda: (np.random.rand(), inner(), np.random.rand()), (1, 2, 3))  # noqa: NPY002

    nested = drawn(lambda: with_seeds(np.random.rand))
    assert nested[::2] == drawn(lambda: None)[::2]
    assert nested[1] == with_seeds(np.random.rand)
    assert len(set(nested)) == 3


OWN = np.random.default_rng()


class OwnGenerator(Coin):
    """Has a generator that nobody can seed."""

    def __init__(self, in_fit=True):
        super().__init__(lambda: OWN.random() < 0.5, in_fit)


class Remembers(ClassifierMixin, BaseEstimator):
    """Learns from all labels that any of its kind has ever seen."""

    seen: list = []  # noqa: RUF012 - that is the point

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen.append(len(y))
        self.side_ = len(self.seen) % 2
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[self.side_])


class Drifts(KNeighborsClassifier):
    """Says the same whenever it is fitted, but its scores differ by very little."""

    def predict_proba(self, X):
        return super().predict_proba(X) + 1e-15 * self.drift_

    def fit(self, X, y):
        self.drift_ = OWN.random()
        return super().fit(X, y)


def refusal(base):
    try:
        CertifiedPartitionClassifier(base, 5).fit(X, Y)
    except ValueError as error:
        return str(error)
    return "none"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "base", [OwnGenerator(), make_pipeline(StandardScaler(), OwnGenerator()), Remembers(), Drifts(3)], ids=repr
)
def test_a_base_learner_whose_refit_predicts_differently_is_refused_by_name(base):
    said = refusal(base)
    assert f"base learner {type(base).__name__} must be reproducible" in said
    assert "when it is refitted" in said
    assert "random_state" in said


class MovesOn(ClassifierMixin, BaseEstimator):
    """Fits reproducibly, but predicts with a generator that keeps advancing."""

    def fit(self, X, y):
        self.classes_, self.rng_ = np.unique(y), np.random.default_rng(0)
        return self

    def predict(self, X):
        return self.classes_[self.rng_.integers(2, size=len(X))]


def test_a_base_learner_that_predicts_differently_in_a_second_call_is_refused():
    assert "when predict is called again" in refusal(MovesOn())


class CountsFits(GaussianNB):
    n_fits = 0

    def fit(self, X, y):
        type(self).n_fits += 1
        return super().fit(X, y)


def test_the_check_costs_one_more_fit():
    CountsFits.n_fits = 0
    CertifiedPartitionClassifier(CountsFits(), 10).fit(X, Y)
    assert CountsFits.n_fits == 11


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "base",
    [
        MLPClassifier((5,), max_iter=5),
        RandomForestClassifier(5),
        SGDClassifier(loss="log_loss"),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        KNeighborsClassifier(3),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ordinary_base_learners_are_not_refused(base):
    model = CertifiedPartitionClassifier(base, 5, classes=[0, 1]).fit(X, Y)
    assert len(model.estimators_) == 5


@pytest.mark.parametrize("learner", [CertifiedPartitionClassifier, SmoothedClassifier])
def test_folds_that_can_be_used_only_once_are_refused(learner):
    folds = (pair for pair in [(np.arange(0, 20), np.arange(20, 30))])
    with pytest.raises(ValueError, match=r"GridSearchCV .* cannot be cloned.* give a list instead"):
        learner(search(folds)).fit(X, Y)


@pytest.mark.slow
def test_an_iterator_of_folds_restarts_in_every_fit():
    folds = iter([(np.arange(0, 20), np.arange(20, 30)), (np.arange(10, 30), np.arange(0, 10))])
    base = search(folds)
    np.testing.assert_array_equal(votes(base), votes(base))
    assert len(list(folds)) == 2
