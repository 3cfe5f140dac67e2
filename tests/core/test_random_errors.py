"""Random errors: bounds against probabilities by enumeration, simulation with refits, and high precision."""

import itertools

import mpmath
import numpy as np
import pytest
from enumeration import all_labellings, scores_after
from hypothesis import given, settings
from hypothesis import strategies as st

from flipproof import (
    Adversary,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
)
from flipproof.core.histograms import VoteHistogram
from flipproof.core.random_errors import change_probability_upper, log_sum_upper, probability_upper
from flipproof.streaming import StreamingRidgeClassifier

RATES = [0.0, 1e-300, 1e-6, 0.05, 0.3, 0.5, 0.66, 0.7, 1.0]


class Given(LabelLinearClassifier):
    """Votes and offsets are the test row."""

    def fit_without_labels(self, X):
        self.n_ = len(X)

    def label_free_weights(self, Z):
        return Z[:, : self.n_], Z[:, self.n_ :]


def drawn(seed, n, K):
    """Labels, a fitted learner, and a test row: its votes, then its offsets."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(K, size=n)
    row = np.concatenate([rng.integers(-6, 7, size=n), rng.integers(-4, 5, size=K) * rng.integers(2)]).astype(float)
    model = Given(classes=range(K)).fit(np.zeros((n, n + K)), codes)
    return rng, codes, row, model


def changed_predictions(codes, row, model, labellings):
    n, K = len(codes), len(model.classes_)
    predictions = scores_after(labellings, row[:n], row[n : n + K]).argmax(axis=1)
    assert model.predict([row])[0] == predictions[(labellings == codes).all(axis=1)][0]
    return predictions != model.predict([row])[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("K", [2, 3, 4])
def test_no_probability_by_enumeration_exceeds_the_uniform_bound(K):
    n = 6 if K == 2 else 5 if K == 3 else 4
    labellings = all_labellings(n, K)
    smaller = 0
    for seed in range(12):
        rng, codes, row, model = drawn(seed, n, K)
        trusted = rng.random(n) < 0.3
        changed = changed_predictions(codes, row, model, labellings)
        bounds = model.random_error_bound([row], RATES, direction="uniform", trusted=trusted)[0]
        for p, bound in zip(RATES, bounds, strict=True):
            each = np.where(labellings == codes, 1 - p, p / (K - 1))
            each[:, trusted] = (labellings == codes)[:, trusted]
            truth = each.prod(axis=1)[changed].sum()
            assert truth <= bound * (1 + 1e-12)
            smaller += 0 < bound < 1
    assert smaller > 10


@pytest.mark.parametrize("K", [2, 3])
def test_no_errors_of_any_direction_exceed_the_worst_bound(K):
    """The truth is largest if each label has one direction, with probability p or 0."""
    n = 5 if K == 2 else 4
    labellings = all_labellings(n, K)
    for seed in range(8):
        _, codes, row, model = drawn(seed, n, K)
        changed = changed_predictions(codes, row, model, labellings)
        rates = [0.03, 0.4]
        bounds = model.random_error_bound([row], rates)[0]
        is_changed = dict(zip(map(tuple, labellings.tolist()), changed.tolist(), strict=True))
        for p, bound in zip(rates, bounds, strict=True):
            for directions in itertools.product(range(K), repeat=n):
                truth = 0.0
                for which in itertools.product([False, True], repeat=n):
                    labels = tuple(e if w else int(y) for w, e, y in zip(which, directions, codes, strict=True))
                    truth += is_changed[labels] * p ** sum(which) * (1 - p) ** (n - sum(which))
                assert truth <= bound * (1 + 1e-12)


def test_errors_of_one_direction_can_exceed_the_uniform_bound():
    codes = np.array([0] * 8 + [1] * 3 + [2] * 0)
    row = np.concatenate([np.ones(11), np.zeros(8)])
    model = Given(classes=range(8)).fit(np.zeros((11, 19)), codes)
    p = 0.2
    uniform, worst = (model.random_error_bound([row], p, direction=one)[0] for one in ("uniform", "worst"))
    # all errors go from class 0 to class 1: three of eight make 5 to 6
    one_way = sum(mpmath.binomial(8, r) * p**r * (1 - p) ** (8 - r) for r in range(3, 9))
    assert uniform < one_way <= worst


@pytest.mark.parametrize("direction", ["uniform", "worst"])
def test_bounds_are_upper_bounds_to_many_digits(direction):
    """With two classes and equal votes the truth is a binomial tail; a bound far below float64 is still not 0."""
    model = CertifiedNeighborsClassifier(n_neighbors=301, classes=[0, 1])
    X, y = np.arange(400.0)[:, None], np.r_[np.zeros(301, dtype=int), np.ones(99, dtype=int)]
    model.fit(X, y)
    for p in (1e-5, 0.01, 0.2, 0.45):
        bound = model.random_error_bound([[10.0]], p, direction=direction)[0]
        with mpmath.workdps(60):
            q = mpmath.mpf(p)
            tail = sum(mpmath.binomial(301, r) * q**r * (1 - q) ** (301 - r) for r in range(151, 302))
        assert tail <= bound
        assert mpmath.log(bound) <= max(mpmath.log(tail) + 4, mpmath.log(np.finfo(float).tiny))


@given(st.lists(st.floats(-3000, 0), min_size=1, max_size=9))
@settings(max_examples=50, deadline=None)
def test_sums_of_logarithms_are_rounded_up(logs):
    upper = float(log_sum_upper(np.array([logs]))[0])
    with mpmath.workdps(60):
        exact = mpmath.log(sum(mpmath.exp(one) for one in logs))
    assert upper >= min(exact, 0)
    assert upper <= min(exact, 0) * (1 - 1e-13) + 1e-13
    assert probability_upper(np.array([upper]))[0] > 0


def test_more_errors_are_no_less_likely_and_trust_helps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y)
    rates = np.linspace(0, 1, 11)
    worst, uniform = model.random_error_bound(X, rates), model.random_error_bound(X, rates, direction="uniform")
    assert worst.shape == (60, 11)
    assert np.all(np.diff(worst, axis=1) >= 0)
    assert np.all(uniform <= worst * (1 + 1e-9))
    assert np.all(uniform[:, 0] == 0)
    trusted = np.ones(60, dtype=bool)
    assert np.all(model.random_error_bound(X, 0.3, trusted=trusted) == 0)
    trusted[:30] = False
    fewer = model.random_error_bound(X, 0.3, trusted=trusted)
    assert np.all(fewer <= worst[:, 3])
    assert np.any(fewer < worst[:, 3])
    in_blocks = CertifiedRidgeClassifier(classes=[0, 1], block_size=7).fit(X, y).random_error_bound(X, rates)
    np.testing.assert_array_equal(in_blocks, worst)


def test_rows_in_blocks_have_the_same_bounds():
    rng = np.random.default_rng(1)
    X, y, trusted = rng.normal(size=(80, 3)), rng.integers(3, size=80), rng.random(80) < 0.2
    for clip in (None, 0.8):
        memory = CertifiedRidgeClassifier(classes=range(3), clip=clip).fit(X, y)
        blocks = StreamingRidgeClassifier(classes=range(3), clip=clip).fit(X, y)
        for mask in (None, trusted):
            np.testing.assert_array_equal(
                memory.random_error_bound(X[:9], [0.1, 0.2], trusted=mask),
                blocks.random_error_bound(X[:9], [0.1, 0.2], trusted=mask),
            )


@pytest.mark.parametrize(
    "bad",
    [
        {"rate": -0.1},
        {"rate": 5},
        {"rate": "5%"},
        {"rate": []},
        {"rate": [[0.1]]},
        {"rate": True},
        {"rate": np.nan},
        {"direction": "up"},
        {"trusted": [True]},
    ],
)
def test_invalid_arguments_are_refused(bad):
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"rate|direction|trusted"):
        model.random_error_bound([[1.0]], **bad)


LEARNERS = [
    CertifiedRidgeClassifier(classes=range(3)),
    CertifiedRidgeClassifier(classes=[0, 1], fit_intercept=False),
    CertifiedKernelClassifier(classes=range(3)),
    CertifiedNeighborsClassifier(n_neighbors=9, classes=range(3)),
    CertifiedForestClassifier(n_estimators=5, classes=range(3)),
]


@pytest.mark.few(2)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: f"{type(one).__name__}-{len(one.classes)}")
@pytest.mark.parametrize("kind", ["uniform", "one-sided", "structured"])
def test_refits_on_random_errors_change_predictions_no_more_often(learner, kind):
    """Uniform errors for both bounds; of one direction, or only in some rows at different rates, for the worst one."""
    rng = np.random.default_rng(7)
    K, n, p, n_refits = len(learner.classes), 50, 0.08, 25
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(25, 2))
    y = np.clip(np.floor(X[:, 0] + 1.2 + 0.3 * rng.normal(size=n)), 0, K - 1).astype(int)
    learner.fit(X, y)
    before, changes = learner.predict(Z), np.zeros(25)
    worst = learner.random_error_bound(Z, p)
    uniform = learner.random_error_bound(Z, p, direction="uniform")
    for _ in range(n_refits):
        hit = rng.random(n) < p
        new = (y + rng.integers(1, K, size=n)) % K
        if kind == "one-sided":
            new = np.full(n, K - 1)
        if kind == "structured":
            hit, new = hit & (X[:, 1] > 0) & (rng.random(n) < np.abs(np.sin(9 * X[:, 0]))), np.where(X[:, 0] > 0, 0, 1)
        changes += learner.fit(X, np.where(hit, new, y)).predict(Z) != before
    allowed = uniform if kind == "uniform" else worst
    spread = 4 * np.sqrt(n_refits * np.clip(allowed, 0.02, 1))
    assert np.all(changes <= n_refits * allowed + spread)
    assert np.all(uniform <= worst * (1 + 1e-9))
    assert np.any(allowed < 0.8)


def test_nothing_is_certain_without_votes_to_spare():
    empty = VoteHistogram(np.zeros((1, 1), dtype=np.int64), np.zeros((2, 3, 1), dtype=np.int64), 1)
    offsets = np.array([[0, -1, -5], [0, 0, 0]])
    bounds = change_probability_upper(empty, offsets, np.zeros(2, dtype=np.int64), 0.5, "worst")
    np.testing.assert_array_equal(bounds, [0, 0])  # no votes, nothing to change: ties go to the lowest class


def test_trusted_at_certify_and_in_bounds_agree():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 2)), rng.integers(2, size=30)
    model = CertifiedNeighborsClassifier(n_neighbors=5, classes=[0, 1]).fit(X, y)
    trusted = rng.random(30) < 0.6
    unlimited = model.certify(X, adversary=Adversary(trusted=trusted)).unlimited
    bounds = model.random_error_bound(X, 0.2, trusted=trusted)
    assert unlimited.any()
    np.testing.assert_array_equal(bounds == 0, unlimited)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_uniform_errors_are_never_bounded_by_more_than_errors_of_any_direction(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.where(rng.random(40) < 0.95, 0, 1)
    model = CertifiedNeighborsClassifier(30, classes=range(n_classes)).fit(X, y)
    for rate in (0.3, 0.5, 0.6, 0.7, 0.99, 1.0):
        uniform, worst = (model.random_error_bound(X, rate, one) for one in ("uniform", "worst"))
        assert (uniform <= worst).all()


def test_the_uniform_bound_is_not_the_larger_one_of_nearly_equal_bounds():
    """One rival label and rare errors: each bound has its own t, and the search for it stops before the minimum."""
    for seed in range(4, 8):
        rng = np.random.default_rng(seed)
        codes = np.r_[1, np.zeros(111, dtype=int)]
        row = np.r_[np.round(rng.exponential(40, size=112)), np.zeros(2)]
        model = Given(classes=range(2)).fit(np.zeros((112, 114)), codes)
        rates = np.geomspace(1e-12, 1e-3, 200)
        uniform, worst = (model.random_error_bound([row], rates, direction=one) for one in ("uniform", "worst"))
        assert (uniform <= worst).all()
