"""Forests that never see a label: the right rows vote, the same trees grow again, and the certificates are true."""

import subprocess
import sys

import numpy as np
import pytest
from best_attack import assert_radius_is_exact
from enumeration import flips_to_change, possible_attacks, scores_after
from every_attack import assert_no_attack_succeeds
from real_data import spambase
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from flipproof import Assumption, CertifiedForestClassifier, CertifiedRidgeClassifier, certified_accuracy
from flipproof.learners import base, forest

METHODS = ("exact", "tight", "kl")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("n", "n_classes", "settings"),
    [
        (5, 2, {"n_estimators": 5, "min_samples_leaf": 2}),
        (5, 2, {"n_estimators": 4, "max_depth": 1, "precision": 2}),
        (4, 3, {"n_estimators": 3, "max_features": 1, "min_samples_leaf": 2}),
    ],
)
def test_no_attack_succeeds_on_forests(n, n_classes, settings):
    rng = np.random.default_rng(n)
    X, Z = rng.normal(size=(n, 3)), rng.normal(size=(4, 3))
    model = CertifiedForestClassifier(**settings, noise=1e-6, classes=range(n_classes))
    radii = assert_no_attack_succeeds(model, X, Z, n_classes, bases=(0, 6, n_classes**n - 2))
    assert max(radii["exact"]) >= n - 3
    assert max(radii["tight"]) >= 1


@pytest.mark.few(1)
@pytest.mark.parametrize("precision", [2, 10, 24])
def test_the_exact_radius_is_attained(precision):
    rng = np.random.default_rng(precision)
    labellings, _ = possible_attacks(np.zeros(6, dtype=int), 3)
    seen = set()
    for y in rng.integers(3, size=(12, 6)):
        X, Z = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
        model = CertifiedForestClassifier(4, min_samples_leaf=int(rng.integers(1, 4)), precision=precision)
        model.set_params(classes=range(3)).fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        certificates = model.certify(Z)
        for i, prediction in enumerate(model.predict(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            needed = flips_to_change(y, labellings, scores.argmax(axis=1), prediction)
            assert certificates.radius[i] == (6 if needed == np.inf else needed - 1)
            seen.add(int(certificates.radius[i]))
    assert {0, 1} <= seen


# ---- who votes


def table(n=300, m=40, n_classes=3, seed=0):
    """Return columns of all kinds: normal, heavy tails, mostly zeros, a constant, a few values."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n + m)
    X = rng.normal(size=(n + m, 6)) + 2 * rng.normal(size=(n_classes, 6))[y]
    X[:, 1] = np.exp(3 * X[:, 1])
    X[:, 2] = np.maximum(X[:, 2] - 1, 0)
    X[:, 3] = 7
    X[:, 4] = np.rint(X[:, 4])
    return X[:n], y[:n], X[n:], y[n:]


def leaves_by_hand(model, X, rows):
    """Walk down every tree of the fitted forest, one row at a time; trees see ranks, twice."""
    found = np.empty((len(rows), len(model.estimators_)), dtype=int)
    for i, row in enumerate(rows):
        ranks = (row > X).sum(axis=0) + (row >= X).sum(axis=0)
        for t, estimator in enumerate(model.estimators_):
            tree, node = estimator.tree_, 0
            while tree.children_left[node] >= 0:
                is_left = ranks[tree.feature[node]] <= tree.threshold[node]
                node = tree.children_left[node] if is_left else tree.children_right[node]
            found[i, t] = node
    return found


def weights_by_hand(model, X, rows):
    train, test = leaves_by_hand(model, X, X), leaves_by_hand(model, X, rows)
    same = test[:, None, :] == train
    return (same / same.sum(axis=1, keepdims=True)).mean(axis=2)


@pytest.mark.parametrize("settings", [{}, {"min_samples_leaf": 1}, {"max_depth": 2, "max_features": None}])
def test_weights_are_the_mean_shares_in_the_leaves(settings):
    X, y, Z, _ = table()
    expected = weights_by_hand(CertifiedForestClassifier(7, **settings).fit(X, y), X, Z)
    np.testing.assert_allclose(expected.sum(axis=1), 1)
    for precision in (8, 24):
        model = CertifiedForestClassifier(7, precision=precision, **settings).fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        np.testing.assert_allclose(alpha, expected, rtol=0, atol=expected.max() * 2.0**-precision * 4)
        np.testing.assert_array_equal(offsets, 0)
        votes = np.abs(alpha) * 2.0 ** np.ceil(-np.log2(alpha.max(axis=1, keepdims=True)) + precision)
        assert votes.max() <= 2.0 ** (precision + 1)
    scores = expected @ (y[:, None] == np.arange(3))
    np.testing.assert_allclose(model.decision_function(Z), scores, atol=1e-3)
    clear = np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0] > 1e-6
    np.testing.assert_array_equal(model.predict(Z)[clear], scores.argmax(axis=1)[clear])


def test_leaves_and_depth_are_as_asked_for():
    X, y, _, _ = table()
    few, share = (CertifiedForestClassifier(5, min_samples_leaf=least).fit(X, y) for least in (20, 0.1))
    for model, least in ((few, 20), (share, 30)):
        train = leaves_by_hand(model, X, X)
        sizes = [np.unique(tree, return_counts=True)[1].min() for tree in train.T]
        assert min(sizes) >= least
        assert max(len(np.unique(tree)) for tree in train.T) >= 3
    shallow = CertifiedForestClassifier(5, max_depth=2, min_samples_leaf=1).fit(X, y)
    assert max(tree.get_depth() for tree in shallow.estimators_) == 2
    assert CertifiedForestClassifier(3, max_features=100).fit(X, y).estimators_[0].max_features_ == 6


def test_splits_follow_the_features_and_beat_random_ones():
    # one column tells the classes apart, and goes with others; nine columns are noise
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    X = np.hstack([3 * y[:, None] + rng.normal(size=(600, 3)), 0.3 * rng.normal(size=(600, 27))])
    accuracy = {}
    for max_features in (1, "sqrt", None):
        model = CertifiedForestClassifier(20, max_features=max_features, min_samples_leaf=0.05).fit(X[:400], y[:400])
        accuracy[max_features] = certified_accuracy(y[400:], model.certify(X[400:]), [20])[0]
    assert accuracy[None] >= accuracy["sqrt"] > accuracy[1] + 0.2


def test_it_agrees_with_scikit_learn_where_labels_would_not_have_helped():
    X, y = load_digits(return_X_y=True)
    with_labels = ExtraTreesClassifier(50, random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    without = CertifiedForestClassifier(50, min_samples_leaf=1).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    assert with_labels - 0.03 < without <= 1


@pytest.mark.parametrize("factor", [2.0**-800, 2.0**800])
def test_ranks_make_the_size_of_numbers_irrelevant(factor):
    X, y, Z, _ = table()
    alpha, _ = CertifiedForestClassifier(5).fit(X, y).vote_weights(Z)
    np.testing.assert_array_equal(CertifiedForestClassifier(5).fit(X * factor, y).vote_weights(Z * factor)[0], alpha)
    far = CertifiedForestClassifier(5).fit(X, y).predict(np.array([[1e308, -1e308, 0.0, 7.0, 0.0, -1e308]]))
    assert far.shape == (1,)


def test_where_zero_is_does_not_matter():
    X, y, Z, _ = table()
    X, Z = np.rint(10 * X[:, [0, 2, 4, 5]]), np.rint(10 * Z[:, [0, 2, 4, 5]])
    alpha, _ = CertifiedForestClassifier(5).fit(X, y).vote_weights(Z)
    np.testing.assert_array_equal(CertifiedForestClassifier(5).fit(X + 2.0**40, y).vote_weights(Z + 2.0**40)[0], alpha)


def test_ranks_of_many_rows_are_counted_by_some_of_them(monkeypatch):
    X, y, Z, truth = table(n=2000, m=400)
    exact = CertifiedForestClassifier(20).fit(X, y)
    monkeypatch.setattr(forest, "MOST_LEVELS", 50)
    coarse = CertifiedForestClassifier(20).fit(X, y)
    assert coarse._levels.shape == (6, 50)
    np.testing.assert_array_equal(coarse._levels[:, [0, -1]].T, [X.min(axis=0), X.max(axis=0)])
    assert coarse.score(Z, truth) > exact.score(Z, truth) - 0.03


# ---- the same bits


@pytest.mark.few(1)
@pytest.mark.parametrize(("method", "precision"), [("exact", 10), ("exact", 16), ("tight", 10), ("kl", 4)])
def test_blocks_jobs_threads_batches_and_labels_do_not_change_a_bit(method, precision):
    X, y, Z, _ = table()
    model = CertifiedForestClassifier(12, precision=precision, noise=0.01).fit(X, y)
    alpha, expected = model.vote_weights(Z)[0], model.certify(Z, method)
    assert len(set(expected.radius)) > 2
    np.testing.assert_array_equal(model.predict(Z), expected.prediction)
    np.testing.assert_array_equal((alpha @ (y[:, None] == np.arange(3))).argmax(axis=1), expected.prediction)
    for block_size, n_jobs, threads in ((1, 1, 1), (3, 2, 2), (None, 2, 1)):
        with threadpool_limits(limits=threads):
            again = clone(model).set_params(block_size=block_size, n_jobs=n_jobs).fit(X, y)
            found = again.certify(Z, method)
        np.testing.assert_array_equal(again.vote_weights(Z)[0], alpha)
        for name in ("prediction", "radius", "rival", "margin", "log_failure", "witness"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for rows in ([5], [7, 3], slice(None, None, -1)):
        np.testing.assert_array_equal(model.vote_weights(Z[rows])[0], alpha[rows])
        np.testing.assert_array_equal(model.certify(Z[rows], method).radius, expected.radius[rows])
    permuted = clone(model).fit(X, np.random.default_rng(1).permutation(y))
    np.testing.assert_array_equal(permuted.vote_weights(Z)[0], alpha)
    narrow = clone(model).fit(X.astype(np.float32), y).vote_weights(Z.astype(np.float32))[0]
    wide = clone(model).fit(X.astype(np.float32).astype(float), y).vote_weights(Z.astype(np.float32).astype(float))[0]
    np.testing.assert_array_equal(narrow, wide)


def test_another_seed_grows_other_trees_and_assumptions_name_it():
    X, y, Z, _ = table()
    one, same, two = (CertifiedForestClassifier(5, random_state=seed).fit(X, y) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.vote_weights(Z)[0], same.vote_weights(Z)[0])
    assert np.any(one.vote_weights(Z)[0] != two.vote_weights(Z)[0])
    assert (
        len({tree.tree_.node_count for tree in one.estimators_} | {tree.random_state for tree in one.estimators_}) > 5
    )
    assert Assumption("trees-without-labels", {"n_trees": 5, "random_state": 3}) in one.certify(Z).assumptions


@pytest.mark.few(5)
@pytest.mark.parametrize("precision", [2, 4, 10])
@pytest.mark.parametrize("least", [1, 5, 0.1])
def test_quick_predictions_are_those_of_the_votes(precision, least, monkeypatch):
    X, y, Z, _ = table(m=300)
    model = CertifiedForestClassifier(10, min_samples_leaf=least, precision=precision).fit(X, y)
    estimate = model._estimated_scores(model.test_features(Z))
    scores, exponent = model._scores(model.test_features(Z))
    assert np.all(np.abs(estimate.scores - scores) <= estimate.error)
    np.testing.assert_array_equal(estimate.exponent, exponent)
    leader, decided = estimate.decided()
    assert decided.mean() >= {2: 0, 4: 0.2, 10: 0.8}[precision]
    np.testing.assert_array_equal(leader[decided], scores.argmax(axis=1)[decided])
    np.testing.assert_array_equal(model.predict(Z), scores.argmax(axis=1))
    if decided.all():
        monkeypatch.setattr(base.LabelLinearClassifier, "_scores", None)  # the votes are not looked at
        model.predict(Z)


# ---- bad input

BAD = {
    "no trees": ({"n_estimators": 0}, "'n_estimators' .* integer of at least 1. Got 0 instead"),
    "half a tree": ({"n_estimators": 2.5}, "'n_estimators' .* Got 2.5 instead"),
    "true trees": ({"n_estimators": True}, "'n_estimators' .* Got True instead"),
    "no depth": ({"max_depth": 0}, "'max_depth' .* integer of at least 1. Got 0 instead"),
    "empty leaves": ({"min_samples_leaf": 0}, "'min_samples_leaf' .* share between 0 and 1. Got 0 instead"),
    "leaves of all": ({"min_samples_leaf": 1.0}, "'min_samples_leaf' .* Got 1.0 instead"),
    "leaves of NaN": ({"min_samples_leaf": np.nan}, "'min_samples_leaf' .* Got nan instead"),
    "columns in words": ({"max_features": "all"}, "'max_features' .* 'sqrt', 'log2', .* Got 'all' instead"),
    "no columns": ({"max_features": 0}, "'max_features' .* Got 0 instead"),
    "more than all columns": ({"max_features": 1.5}, "'max_features' .* Got 1.5 instead"),
    "no seed": ({"random_state": None}, "'random_state' .* Got None instead: a refit must grow the same trees"),
    "negative seed": ({"random_state": -1}, "'random_state' .* at least 0.* Got -1 instead"),
    "generator": ({"random_state": np.random.default_rng(0)}, "'random_state' .* Got Generator"),
    "precision": ({"precision": 1}, "'precision' .* Got 1 instead"),
    "noise": ({"noise": 0.7}, r"must be in \(0, 0\.5\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name):
    settings, message = BAD[name]
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(ValueError, match=message) as error:
        CertifiedForestClassifier(**settings).fit(X, np.arange(40) % 2)
    assert len(str(error.value).splitlines()) == 1


def test_settings_that_make_sense_are_taken():
    X, y, Z, _ = table()
    for settings in ({"max_features": "log2"}, {"max_features": 1.0}, {"max_features": 0.5}, {"max_depth": 3}):
        assert CertifiedForestClassifier(2, **settings).fit(X, y).certify(Z).radius.shape == (40,)


@pytest.mark.parametrize("precision", [2, 10, 12, 24])
def test_rows_that_are_all_alike_make_one_leaf(precision):
    # three shares of 1/48 are a hair less than a power of two: rounded up, a vote would have a bit too many
    model = CertifiedForestClassifier(3, precision=precision).fit(np.ones((16, 2)), [0] * 12 + [1] * 4)
    rows = [[1.0, 1.0], [5.0, -5.0]]
    assert model.votes_on(model.test_features(rows)).votes.max() < 2**precision
    for method in METHODS:
        certificates = model.certify(rows, method)
        np.testing.assert_array_equal(certificates.prediction, 0)
        np.testing.assert_array_equal(certificates.radius, 4 if method == "exact" else 0)
    np.testing.assert_allclose(model.vote_weights(rows)[0], 1 / 16, atol=2.0**-precision / 4)


# ---- large and real data


MEMORY_SCRIPT = """
import resource, sys
import numpy as np
from flipproof import CertifiedForestClassifier

X = np.random.default_rng(0).normal(size=(50_000, 4)).astype(np.float32)
model = CertifiedForestClassifier(10, min_samples_leaf=0.05, max_depth=4, block_size=eval(sys.argv[1]))
model.fit(X, X[:, 0] > 0).certify(X[:2])
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 256 * 2**20, resource.RLIM_INFINITY))
print(np.median(model.certify(X[:500]).radius))
"""


@pytest.mark.slow
def test_blocks_keep_within_the_memory_budget():
    results = [
        subprocess.run([sys.executable, "-c", MEMORY_SCRIPT, block_size], capture_output=True, text=True, check=False)
        for block_size in ("None", "500")
    ]
    assert results[0].returncode == 0, results[0].stderr
    assert float(results[0].stdout) > 1000
    assert "Unable to allocate" in results[1].stderr  # the limit is one


@pytest.fixture(scope="module")
def emails(data_dir):
    X, y = spambase(data_dir)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def test_the_exact_radius_is_exact_on_real_data(emails):
    X, Z, y, _ = emails
    scaler = StandardScaler()
    model = CertifiedForestClassifier(20, features=scaler, classes=["ham", "spam"]).fit(X, y)
    certificates = assert_radius_is_exact(model, X, y, Z[:30], n_refits=2)
    assert np.median(certificates.radius) >= 30


def test_forests_certify_more_than_ridge(emails):
    X, Z, y, truth = emails
    ridge = CertifiedRidgeClassifier(features=StandardScaler()).fit(X, y).certify(Z)
    larger = CertifiedForestClassifier(50, min_samples_leaf=0.1, features=StandardScaler()).fit(X, y).certify(Z)
    at_ridge, at_larger = (certified_accuracy(truth, one, [35, 70, 170]) for one in (ridge, larger))
    assert np.all(at_larger - at_ridge > [0.1, 0.2, 0.35])
