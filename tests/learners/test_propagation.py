"""Label spreading and Poisson learning: every attack on small graphs, the closed forms, the same bits, real data."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from enumeration import least_cost, possible_attacks, random_powers, scores_after, touchable
from real_data import dogfish
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, make_moons
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from threadpoolctl import threadpool_limits

from flipproof import Adversary, Assumption, CertifiedRidgeClassifier, certified_accuracy
from flipproof.learners import propagation
from flipproof.learners.propagation import CertifiedPropagationClassifier, Graph
from flipproof.runtime.progress import CountedProgress

METHODS = ("exact", "tight", "kl")
PLACEHOLDERS = (0, -1, 7)
every_rule = pytest.mark.parametrize("rule", ["spreading", "poisson"])


@pytest.fixture(params=["solved for each label", "solved for each test row"])
def way(request, monkeypatch):
    """Both ways to find the votes, for any number of labels."""
    monkeypatch.setattr(propagation, "MOST_KEPT", 2**24 if request.param == "solved for each label" else 0)
    return request.param


def random_problem(rng, largest_n):
    n, K = int(rng.integers(3, largest_n + 1)), int(rng.integers(2, 4))
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(5, 2))
    if rng.random() < 0.3:  # whole numbers make copies and ties
        X, Z = np.rint(X), np.rint(Z)
    y = rng.integers(K, size=n) if rng.random() < 0.7 else np.full(n, rng.integers(K))
    unlabeled = rng.random(n) < rng.choice([0, 0.4])
    unlabeled[rng.integers(n)] = False
    y[unlabeled] = 0
    model = CertifiedPropagationClassifier(
        int(rng.integers(1, 5)),
        alpha=float(rng.choice([0.1, 0.5, 0.9])),
        rule=str(rng.choice(["spreading", "poisson"])),
        noise=float(rng.choice([1e-6, 0.1, 0.4])),
        precision=int(rng.choice([2, 6, 10, 24])),
        classes=range(K),
    )
    return model, X, y, Z, K, unlabeled


def cannot_change(unlabeled, powers):
    """To the judge, a row without a label is one that nobody can change."""
    return {**powers, "trusted": unlabeled | powers.get("trusted", np.zeros(len(unlabeled), dtype=bool))}


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_exact_is_attained_and_no_attack_within_a_radius_changes_the_argmax(seed, way):
    rng = np.random.default_rng(seed)
    radii, adversaries = [], set()
    for _ in range(20):
        model, X, y, Z, K, unlabeled = random_problem(rng, largest_n=6)
        powers = random_powers(rng, len(y), K)
        model.fit(X, y, unlabeled)
        assert (model._spread is None) == (way == "solved for each test row")
        alpha, offsets = model.vote_weights(Z)
        assert not alpha[:, unlabeled].any()
        certificates = [model.certify(Z, method, Adversary(**powers)) for method in METHODS]
        judged = cannot_change(unlabeled, powers)
        labellings, cost = possible_attacks(y, K, **judged)
        for i, prediction in enumerate(model.predict(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            needed = least_cost(cost, scores.argmax(axis=1) != prediction)
            for certificate in certificates:
                assert certificate.prediction[i] == prediction
                assert certificate.radius[i] < needed
                assert certificate.n_touchable == touchable(y, **judged)
                assert certificate.n_train == np.count_nonzero(~unlabeled)
            exact = int(certificates[0].radius[i])
            assert exact == (touchable(y, **judged) if needed == np.inf else needed - 1)
            radii.append(exact)
        adversaries.add((frozenset(powers), bool(unlabeled.any())))
    assert max(radii) >= 2
    assert len(adversaries) >= 8


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_no_possible_attack_within_the_radius_changes_a_refitted_model(seed, way):
    rng = np.random.default_rng(100 + seed)
    for _ in range(6):
        model, X, y, Z, K, unlabeled = random_problem(rng, largest_n=5 if rng.random() < 0.3 else 4)
        powers = random_powers(rng, len(y), K)
        model.fit(X, y, unlabeled)
        certificates = [model.certify(Z, method, Adversary(**powers)) for method in METHODS]
        labellings, cost = possible_attacks(y, K, **cannot_change(unlabeled, powers))
        # the placeholders of missing labels change nothing
        in_y = [np.where(unlabeled, rng.choice(PLACEHOLDERS), attacked) for attacked in labellings]
        refitted = np.array([model.fit(X, labels, unlabeled).predict(Z) for labels in in_y])
        for certificate in certificates:
            for i in range(len(Z)):
                assert certificate.radius[i] < least_cost(cost, refitted[:, i] != certificate.prediction[i])


def blobs(n=150, m=20, K=3, n_labels=40, seed=0):
    """Return rows of K groups, labels, the mask of those that have none, and test rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n + m)
    X = rng.normal(size=(n + m, 4)) + 2 * np.eye(K, 4)[y]
    unlabeled = np.ones(n, dtype=bool)
    unlabeled[rng.choice(n, n_labels, replace=False)] = False
    return X[:n], y[:n], unlabeled, X[n:]


def closed_form(X, unlabeled, Z, k, alpha, rule):
    """Return the weights of all training rows, by dense matrices and as the papers write them."""
    n = len(X)
    W = np.zeros((n, n))
    for i, distances in enumerate(cdist(X, X)):
        distances[i] = np.inf
        W[i, np.argsort(distances, kind="stable")[:k]] = 1
    W = np.maximum(W, W.T)
    d = W.sum(axis=1)
    e = np.zeros((len(Z), n))
    np.put_along_axis(e, np.argsort(cdist(Z, X), axis=1, kind="stable")[:, :k], 1.0, axis=1)
    Y = np.diag((~unlabeled).astype(float))  # each label a class of its own, hence one column per weight
    if rule == "spreading":
        S = W / np.sqrt(np.outer(d, d))
        return e / np.sqrt(k * d) @ np.linalg.solve(np.eye(n) - alpha * S, Y)
    deviations = np.where(unlabeled[:, None] | unlabeled, 0, np.eye(n) - 1 / np.count_nonzero(~unlabeled))
    return e @ np.linalg.solve(np.diag(d) - alpha * W, deviations)


@pytest.mark.few(5)
@every_rule
@pytest.mark.parametrize(("k", "alpha"), [(1, 0.5), (3, 0.9), (10, 0.01), (10, 0.99), (5, 0.9999), (149, 0.9)])
def test_weights_are_those_of_the_closed_form(k, alpha, rule, way):
    X, y, unlabeled, Z = blobs()
    model = CertifiedPropagationClassifier(k, alpha=alpha, rule=rule, precision=24).fit(X, y, unlabeled)
    expected = closed_form(X, unlabeled, Z, k, alpha, rule)
    found, offsets = model.vote_weights(Z)
    error = np.abs(found - expected).max(axis=1)
    assert np.all(error <= 2.0**-23 * np.abs(expected).max(axis=1) + 2.0**-32 / (1 - alpha))
    assert not offsets.any()


@every_rule
def test_scores_are_those_of_the_closed_form(rule):
    X, y, unlabeled, Z = blobs()
    model = CertifiedPropagationClassifier(5, rule=rule, precision=20).fit(X, y, unlabeled)
    expected = closed_form(X, unlabeled, Z, 5, 0.9, rule) @ np.eye(3)[y]
    np.testing.assert_allclose(model.decision_function(Z), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(model.predict(Z), expected.argmax(axis=1))


def test_few_labels_suffice_for_two_moons_as_for_label_spreading():
    X, y = make_moons(600, noise=0.05, random_state=0)
    rows, truth, X, y = X[400:], y[400:], X[:400], y[:400]
    unlabeled = np.ones(400, dtype=bool)
    unlabeled[[*np.flatnonzero(y == 0)[:4], *np.flatnonzero(y == 1)[:4]]] = False
    theirs = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.999, max_iter=10**5, tol=1e-9)
    theirs.fit(X, np.where(unlabeled, -1, y))
    radius = {}
    for rule in ("spreading", "poisson"):
        model = CertifiedPropagationClassifier(10, alpha=0.999, rule=rule, classes=[0, 1]).fit(X, y, unlabeled)
        np.testing.assert_array_equal(model.predict(rows), theirs.predict(rows))
        np.testing.assert_array_equal(model.predict(rows), truth)
        radius[rule] = np.median(model.certify(rows).radius)
    # by Poisson learning the labels of the other moon count as well: any three of all eight may be wrong
    assert radius == {"spreading": 1, "poisson": 3}
    assert CertifiedRidgeClassifier(classes=[0, 1]).fit(X[~unlabeled], y[~unlabeled]).score(rows, truth) < 0.9


@pytest.mark.few(1)
@every_rule
def test_bits_do_not_depend_on_labels_blocks_jobs_or_threads(rule, way):
    X, y, unlabeled, Z = blobs(n=120, m=17)
    rng = np.random.default_rng(0)
    model = CertifiedPropagationClassifier(5, rule=rule, precision=24, classes=range(3)).fit(X, y, unlabeled)
    alpha, offsets = model.vote_weights(Z)
    expected = {method: model.certify(Z, method) for method in ("exact", "tight")}
    winner = (alpha @ np.eye(3)[y] + offsets).argmax(axis=1)
    assert len(set(winner)) == 3
    for block_size, n_jobs, threads in ((1, 1, 2), (3, 2, 1), (7, 1, 1), (None, 2, 2)):
        with threadpool_limits(limits=threads):
            again = CertifiedPropagationClassifier(5, rule=rule, precision=24, classes=range(3))
            again.set_params(block_size=block_size, n_jobs=n_jobs).fit(X, y, unlabeled)
            for method, certificates in expected.items():
                found = again.certify(Z, method)
                for name in ("prediction", "radius", "rival", "margin", "log_failure", "witness"):
                    np.testing.assert_array_equal(getattr(found, name), getattr(certificates, name))
                np.testing.assert_array_equal(found.prediction, winner)
            np.testing.assert_array_equal(again.predict(Z), winner)
            size = block_size or 11
            pieces = [again.vote_weights(Z[start : start + size])[0] for start in range(0, len(Z), size)]
            np.testing.assert_array_equal(np.vstack(pieces), alpha)
    permuted = np.where(unlabeled, y, 0)
    permuted[~unlabeled] = rng.permutation(y[~unlabeled])
    np.testing.assert_array_equal(model.fit(X, permuted, unlabeled).vote_weights(Z)[0], alpha)
    np.testing.assert_array_equal(model.fit(X, np.ones(120, dtype=int), unlabeled).vote_weights(Z)[0], alpha)


def test_columns_are_solved_for_alone_and_together_with_the_same_bits():
    X, _, _, _ = blobs(n=120)
    graph = Graph.of_neighbors(np.argsort(cdist(X, X), axis=1, kind="stable")[:, 1:6], 0.95)
    rng = np.random.default_rng(0)
    sets = propagation._indicator(np.array([rng.choice(120, 5, replace=False) for _ in range(100)]), 120)
    expected = graph.solve(sets.T)
    for size in (1, 2, 7, 32):
        pieces = [graph.solve(sets[start : start + size].T) for start in range(0, 100, size)]
        np.testing.assert_array_equal(np.hstack(pieces), expected)
    np.testing.assert_array_equal(graph.solve(sets[::-1].T), expected[:, ::-1])


@pytest.mark.few(6)
@pytest.mark.parametrize("alpha", [0.001, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("shape", ["star", "chain", "all"])
def test_no_order_of_summation_can_round_a_sum(alpha, shape):
    # what makes the same bits on other machines too, hence a look inside: sums stay below 2^53, and solutions are good
    n = 100
    nearest = {
        "star": np.array([[1 if i == 0 else 0] for i in range(n)]),
        "chain": np.array([[i + 1 if i + 1 < n else i - 1] for i in range(n)]),
        "all": np.array([np.delete(np.arange(n), i) for i in range(n)]),
    }[shape]
    graph = Graph.of_neighbors(nearest, alpha)

    class Spy:
        def __matmul__(self, now):
            assert np.array_equal(now, np.rint(now))
            largest.append((graph.adjacency @ np.abs(now)).max())
            return graph.adjacency @ now

    largest = []
    rng = np.random.default_rng(0)
    rows = np.array([[0], [1], [n - 1], [rng.integers(n)]]) if shape != "all" else np.arange(1, n)[None, :]
    sets = propagation._indicator(rows, n).T
    solved = Graph(Spy(), graph.degree, alpha).solve(sets)
    assert max(largest) <= 2.0**53
    expected = np.linalg.solve(np.diag(graph.degree) - alpha * graph.adjacency.toarray(), sets.toarray())
    assert np.abs(solved * 2.0**-graph.bits - expected).max() <= 2.0**-35 / (1 - alpha)


def test_many_copies_of_a_row_are_joined_to_each_other_but_not_to_themselves():
    X = np.array([[0.0]] * 6 + [[1.0]] * 2 + [[5.0], [6.0]])
    found = propagation._nearest_others(propagation.exact_search(X), X, 2, CountedProgress(len(X), "rows", 0))
    assert not np.any(found == np.arange(10)[:, None])
    np.testing.assert_array_equal(found[:6], [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]])
    np.testing.assert_array_equal(found[6:], [[0, 7], [0, 6], [6, 9], [6, 8]])
    model = CertifiedPropagationClassifier(2, classes=[0, 1]).fit(X, [0, 0, 0, 1, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(model.predict([[0.0], [7.0]]), [0, 1])


@every_rule
def test_a_row_that_no_label_reaches_gets_no_votes(rule, way):
    X = np.array([[0.0], [0.1], [0.2], [10.0], [10.1], [10.2]])
    unlabeled = np.arange(6) >= 3
    model = CertifiedPropagationClassifier(2, rule=rule, classes=["a", "b", "c"])
    model.fit(X, ["b", "c", "b", None, None, None], unlabeled)
    alpha, _ = model.vote_weights([[0.1], [10.1]])
    assert alpha[0].any()
    assert not alpha[1].any()
    for method in METHODS:
        certificates = model.certify([[10.1]], method)
        assert certificates.prediction == ["a"]
        # a tie that no label can undo; noise counts a tie as lost
        assert certificates.radius == [3 if method == "exact" else 0]


@pytest.mark.parametrize("alpha", [0.9, 0.99])
def test_far_labels_fade_and_no_vote_is_mere_error(alpha, way):
    X = np.arange(400.0)[:, None]
    unlabeled = np.arange(400) % 399 != 0  # only the ends have labels
    model = CertifiedPropagationClassifier(2, alpha=alpha, precision=24, classes=[0, 1])
    weights, _ = model.fit(X, np.arange(400) // 200, unlabeled).vote_weights(X)
    reached = weights[:, 0] > 0
    assert reached[:40].all()
    assert not reached[180:].any()
    expected = closed_form(X, unlabeled, X, 2, alpha, "spreading")
    np.testing.assert_allclose(weights[reached, 0], expected[reached, 0], rtol=0.01)
    assert np.all(model.predict(X[-40:]) == 1)


def test_a_label_does_not_win_everywhere_by_numbers_with_poisson_learning():
    X = np.vstack([np.random.default_rng(0).normal(shift, 1, size=(100, 2)) for shift in (0, 3)])
    y = np.repeat([0, 1], 100)
    unlabeled = ~np.isin(np.arange(200), [*range(20), *range(100, 105)])
    spreading, poisson = (
        CertifiedPropagationClassifier(alpha=0.999, rule=rule, classes=[0, 1]).fit(X, y, unlabeled)
        for rule in ("spreading", "poisson")
    )
    assert np.all(spreading.predict(X) == 0)
    assert poisson.score(X, y) >= 0.95


PLACEHOLDERS_OF_ALL_KINDS = {
    "None": [None] * 3,
    "NaN": [np.nan] * 3,
    "a mix": [None, "?", 1.5],
    "-1": [-1] * 3,
    "infinity": [np.inf] * 3,
    "labels": [0, 1, 1],
    "lists": [[], {}, [1, 2]],
}


LABELS = {
    "numbers": [0, 1, 1, 0, 1],
    "words": ["ham", "spam", "ham", "ham", "spam"],
    "booleans": [True, False, True, False, True],
}


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("kind", "container"),
    [*((kind, list) for kind in LABELS), ("numbers", tuple), ("words", "series"), ("numbers", "objects")],
)
@pytest.mark.parametrize("name", PLACEHOLDERS_OF_ALL_KINDS)
def test_placeholders_of_missing_labels_are_ignored(kind, name, container):
    labels = LABELS[kind]
    X = np.random.default_rng(0).normal(size=(8, 2))
    unlabeled = np.array([False, True, False, False, True, True, False, False])
    y = np.empty(8, dtype=object)
    for where, values in ((unlabeled, PLACEHOLDERS_OF_ALL_KINDS[name]), (~unlabeled, labels)):
        for row, value in zip(np.flatnonzero(where), values, strict=True):
            y[row] = value
    y = {"objects": y, "series": pd.Series(y)}[container] if isinstance(container, str) else container(y.tolist())
    model = CertifiedPropagationClassifier(3).fit(X, y, unlabeled)
    expected = CertifiedPropagationClassifier(3)
    filled = np.array([*labels, *labels[:3]])
    filled[~unlabeled] = labels
    expected.fit(X, filled, unlabeled)
    assert model.classes_.dtype == expected.classes_.dtype
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    np.testing.assert_array_equal(model.vote_weights(X)[0], expected.vote_weights(X)[0])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_array_equal(model.certify(X).radius, expected.certify(X).radius)


def test_classes_of_missing_labels_are_not_classes():
    X = np.random.default_rng(0).normal(size=(8, 2))
    model = CertifiedPropagationClassifier().fit(X, [0, 1, 0, 1, 2, 2, 2, 2], np.arange(8) >= 4)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert model.n_neighbors_ == 7
    assert Assumption("unlabelled-rows", {"n_unlabelled": 4, "n_rows": 8}) in model.certify(X).assumptions
    labelled = model.fit(X, [0, 1] * 4).certify(X)
    assert all(one.code != "unlabelled-rows" for one in labelled.assumptions)


def test_all_labels_count_if_no_row_is_unlabelled(way):
    X, y, unlabeled, Z = blobs()
    one = CertifiedPropagationClassifier().fit(X, y)
    two = CertifiedPropagationClassifier().fit(X, y, np.zeros(len(y), dtype=bool))
    np.testing.assert_array_equal(one.vote_weights(Z)[0], two.vote_weights(Z)[0])
    assert one.certify(Z).n_train == len(y)
    with_fewer = CertifiedPropagationClassifier().fit(X, y, unlabeled)
    assert with_fewer.certify(Z).n_train == 40
    assert with_fewer.certify(Z).radius.mean() < one.certify(Z).radius.mean()


def test_settings_count_from_the_next_fit_on():
    X, y, unlabeled, Z = blobs()
    model = CertifiedPropagationClassifier(5).fit(X, y, unlabeled)
    expected = model.vote_weights(Z)[0]
    model.set_params(n_neighbors=3, alpha=0.5, rule="poisson", precision=3)
    np.testing.assert_array_equal(model.vote_weights(Z)[0], expected)


def test_features_are_fitted_on_rows_with_and_without_labels():
    X, y, unlabeled, Z = blobs()
    model = CertifiedPropagationClassifier(features=StandardScaler()).fit(X, y, unlabeled)
    np.testing.assert_allclose(model.features_.mean_, X.mean(axis=0))
    plain = CertifiedPropagationClassifier().fit(model.features_.transform(X), y, unlabeled)
    np.testing.assert_array_equal(plain.predict(model.features_.transform(Z)), model.predict(Z))


def test_memory_is_what_blocks_are_made_for(way):
    X, y, unlabeled, Z = blobs(n=1500, m=200, n_labels=700)
    model = CertifiedPropagationClassifier(alpha=0.1).fit(X, y, unlabeled)
    model.votes_on(Z[:2])
    tracemalloc.start()
    model.votes_on(Z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    fixed = 2 * 8 * X.size + 2**20
    assert peak <= 8 * len(Z) * (model.numbers_per_row() + model.votes_per_row()) + fixed


X, Y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
BAD_SETTINGS = {
    "n_neighbors 0": ({"n_neighbors": 0}, "'n_neighbors' .* integer of at least 1. Got 0 instead"),
    "n_neighbors a fraction": ({"n_neighbors": 2.5}, "'n_neighbors' .* integer of at least 1. Got 2.5 instead"),
    "n_neighbors True": ({"n_neighbors": True}, "'n_neighbors' .* Got True instead"),
    "n_neighbors None": ({"n_neighbors": None}, "'n_neighbors' .* Got None instead"),
    "alpha 0": ({"alpha": 0}, "'alpha' .* above 0 and up to 0.9999. Got 0 instead"),
    "alpha 1": ({"alpha": 1.0}, "'alpha' .* above 0 and up to 0.9999. Got 1.0 instead"),
    "alpha NaN": ({"alpha": np.nan}, "'alpha' .* Got nan instead"),
    "alpha a word": ({"alpha": "much"}, "'alpha' .* Got 'much' instead"),
    "alpha None": ({"alpha": None}, "'alpha' .* Got None instead"),
    "rule": ({"rule": "harmonic"}, "'rule' .* 'spreading' or 'poisson'. Got 'harmonic' instead"),
    "rule None": ({"rule": None}, "'rule' .* Got None instead"),
    "precision": ({"precision": 25}, "'precision' .* integer from 2 to 24"),
    "method": ({"method": "guess"}, "must be one of 'exact', 'tight', 'kl'. Got 'guess' instead"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused(name):
    settings, message = BAD_SETTINGS[name]
    with pytest.raises(ValueError, match=message) as error:
        CertifiedPropagationClassifier(**settings).fit(X, Y)
    assert len(str(error.value).splitlines()) == 1


def last(value):
    changed = Y.astype(float)
    changed[-1] = value
    return changed


BAD_LABELS = {
    "numbers as a mask": (Y, np.zeros(12, dtype=int), "mask of 12 booleans.* Got int64"),
    "row numbers": (Y, [3, 4], "mask of 12 booleans, one per training row, True where there is no label"),
    "mask too short": (Y, np.zeros(11, dtype=bool), r"mask of 12 booleans.* Got 11 instead"),
    "mask of two dimensions": (Y, np.zeros((12, 1), dtype=bool), r"mask of 12 booleans.* shape \(12, 1\) instead"),
    "mask of nothing": (Y, "none", "mask of 12 booleans"),
    "no label at all": (Y, np.ones(12, dtype=bool), "Got True for every training row"),
    "one class left": (Y, Y == 1, r"only one class, 0; .* name them all with classes=\[\.\.\.\]"),
    "no labels": (None, Y == 1, "requires y"),
    "too few labels": (Y[:-1], Y[:-1] == 1, r"inconsistent numbers of samples: \[12, 11\]"),
    "two columns of labels": (np.stack([Y, Y], axis=1), np.arange(12) < 3, r"1d array, got an array of shape \(9, 2\)"),
    "a label that is NaN": (last(np.nan), np.arange(12) < 3, "NaN"),
    "a label that is no class": (last(0.5), np.arange(12) < 3, "Unknown label type: continuous"),
    "a label that is None": ([*Y[:-1].tolist(), None], np.arange(12) < 3, "must not be missing"),
    "labels of two kinds": (["a", *Y[1:].tolist()], np.arange(12) > 9, "mix of numbers and strings"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels_and_masks_are_refused(name):
    labels, unlabeled, message = BAD_LABELS[name]
    with pytest.raises(ValueError, match=message) as error:
        CertifiedPropagationClassifier().fit(X, labels, unlabeled)
    assert len(str(error.value).splitlines()) == 1


def test_an_adversary_has_one_entry_per_training_row_labelled_or_not():
    model = CertifiedPropagationClassifier(classes=[0, 1]).fit(X, Y, np.arange(12) >= 6)
    with pytest.raises(ValueError, match=r"one entry per training row, 12\. Got 6"):
        model.certify(X, adversary=Adversary(trusted=np.zeros(6, dtype=bool)))


def best_of_ridge(X, y, rows, truth, flips):
    """The best that ridge does with the labelled rows alone, at each number of flips."""
    curves = [
        certified_accuracy(
            truth, CertifiedRidgeClassifier(features=f, classes=np.unique(y)).fit(X, y).certify(rows), flips
        )
        for f in (None, PCA(2), PCA(20))
    ]
    return np.max(curves, axis=0)


def test_a_hundred_labels_of_digits_certify_more_than_ridge():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y, rows, truth = X[order[:1500]], y[order[:1500]], X[order[1500:]], y[order[1500:]]
    unlabeled = np.arange(1500) >= 100
    flips = [0, 1, 2, 3]
    ridge = best_of_ridge(X[:100], y[:100], rows, truth, flips)
    spreading = CertifiedPropagationClassifier(classes=range(10)).fit(X, y, unlabeled)
    poisson = CertifiedPropagationClassifier(alpha=0.99, rule="poisson", classes=range(10)).fit(X, y, unlabeled)
    assert np.all(certified_accuracy(truth, spreading.certify(rows), flips) > ridge + np.array([0.05, 0.1, 0.2, 0.03]))
    assert np.all(certified_accuracy(truth, poisson.certify(rows), flips) > ridge + np.array([0.05, 0.2, 0.4, 0.4]))


def test_a_hundred_labels_of_dogs_and_fish_withstand_thirty_flips(data_dir):
    X, y, rows, truth = dogfish(data_dir)
    order = np.random.default_rng(0).permutation(len(X))[:1000]
    X, y, unlabeled, flips = X[order], y[order], np.arange(1000) >= 100, [0, 10, 20, 30]
    model = CertifiedPropagationClassifier(alpha=0.999, rule="poisson", classes=np.unique(y)).fit(X, y, unlabeled)
    assert np.all(certified_accuracy(truth, model.certify(rows), flips) >= 0.99)
    ridge = best_of_ridge(X[:100], y[:100], rows, truth, flips)
    assert ridge[1] < 0.95
    assert ridge[2] < 0.05
