"""Certified nearest neighbours: the neighbours are the right ones, to the last bit, and the certificates are true."""

import itertools
import tracemalloc

import numpy as np
import pytest
from best_attack import assert_radius_is_exact
from enumeration import all_labellings, flips_to_change, scores_after
from real_data import mnist, spambase
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from flipproof import Adversary, Assumption, CertifiedNeighborsClassifier, CertifiedRidgeClassifier, certified_accuracy
from flipproof.learners import nearest_rows, neighbor_search
from flipproof.learners.nearest_rows import smallest
from flipproof.learners.neighbor_search import OUTLYING, exact_search

METHODS = ("exact", "tight", "kl")


def signed(distances):
    """Weigh the nearest 3, the second nearest 2 and so on, down to -1 and below."""
    return 3.0 - np.arange(distances.shape[1]) + 0 * distances


def bell(distances):
    return np.exp(-(distances**2))


def signed_by_last_bits(distances):
    """Let the last bits of a distance decide on its sign, so that none can change unseen."""
    return np.where(np.frexp(distances)[0] * 2.0**53 % 4 < 2, 1.0, -1.0)


def city(u, v):
    return np.abs(u - v).sum()


def toy(n=120, k=4, n_classes=3, seed=0, m=25, whole=False):
    """Return overlapping classes, training rows and labels, test rows; whole numbers make equal distances."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n + m)
    X = rng.normal(size=(n + m, k)) + 2 * rng.normal(size=(n_classes, k))[y] + 1
    X = np.rint(X) if whole else X
    return X[:n], y[:n], X[n:]


def one_hot(y, n_classes):
    return (y[:, None] == np.arange(n_classes)).astype(float)


# ---- every attack on small problems


def random_problem(rng, largest_n, weights_kinds, metrics=("euclidean", "cosine", "cityblock")):
    n, K = int(rng.integers(3, largest_n + 1)), int(rng.integers(2, 4))
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(4, 2))
    if rng.random() < 0.4:  # equal distances, and test rows that are training rows
        X, Z = np.rint(2 * X), np.rint(2 * Z)
    model = CertifiedNeighborsClassifier(
        int(rng.integers(1, n + 1, size=2).max()),
        weights=weights_kinds[rng.integers(len(weights_kinds))],
        metric=str(rng.choice(metrics)),
        noise=float(rng.choice([1e-6, 0.01, 0.1, 0.3])),
        precision=int(rng.choice([2, 6, 10, 24])),
        classes=range(K),
    )
    y = rng.integers(K, size=n) if rng.random() < 0.5 else np.full(n, rng.integers(K))
    return model, X, y, Z, K


def test_no_attack_within_the_radius_changes_a_refitted_model():
    rng = np.random.default_rng(0)
    largest = dict.fromkeys(METHODS, 0)
    for _ in range(18):
        model, X, y, Z, K = random_problem(rng, 5, ["uniform", "distance"])
        model.fit(X, y)
        certificates = {method: model.certify(Z, method) for method in METHODS}
        labellings = all_labellings(len(y), K)
        refitted = np.array([model.fit(X, attacked).predict(Z) for attacked in labellings])
        for i in range(len(Z)):
            needed = flips_to_change(y, labellings, refitted[:, i], certificates["exact"].prediction[i])
            for method, certificate in certificates.items():
                assert certificate.prediction[i] == certificates["exact"].prediction[i]
                assert certificate.radius[i] < needed
                largest[method] = max(largest[method], certificate.radius[i])
    assert min(largest["exact"], largest["tight"]) >= 1


@pytest.mark.few(1)
@pytest.mark.parametrize("weights", [signed, bell])
def test_no_attack_within_the_radius_changes_a_refitted_model_with_custom_weights(weights):
    rng = np.random.default_rng(9)
    for _ in range(3):
        model, X, y, Z, K = random_problem(rng, 4, [weights])
        model.fit(X, y)
        certificates = {method: model.certify(Z, method) for method in METHODS}
        labellings = all_labellings(len(y), K)
        refitted = np.array([model.fit(X, attacked).predict(Z) for attacked in labellings])
        for i in range(len(Z)):
            needed = flips_to_change(y, labellings, refitted[:, i], certificates["exact"].prediction[i])
            assert all(certificate.radius[i] < needed for certificate in certificates.values())


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_the_exact_radius_is_attained(seed):
    rng = np.random.default_rng(50 + seed)
    seen = set()
    for _ in range(40):
        model, X, y, Z, K = random_problem(rng, 6, ["uniform", "distance", signed, bell])
        model.fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        labellings = all_labellings(len(y), K)
        exact, smoothed = model.certify(Z), [model.certify(Z, method) for method in ("tight", "kl")]
        for i, prediction in enumerate(model.predict(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            needed = flips_to_change(y, labellings, scores.argmax(axis=1), prediction)
            assert exact.radius[i] == (len(y) if needed == np.inf else needed - 1)
            assert all(certificate.radius[i] <= exact.radius[i] for certificate in smoothed)
            seen.add(int(exact.radius[i]))
    assert {0, 1, 2} <= seen


def test_the_smoothing_certificates_are_not_empty():
    X, y, Z = toy(n=400, n_classes=2, m=100)
    model = CertifiedNeighborsClassifier(100, noise=0.01).fit(X, y)
    exact, tight, kl = (np.median(model.certify(Z, method).radius) for method in METHODS)
    assert exact > tight > kl >= 15


def random_adversary(rng, n, K):
    """Return powers of every kind, alone and together."""
    trusted = rng.random(n) < 0.3 if rng.random() < 0.6 else None
    groups = rng.integers(3, size=n) if rng.random() < 0.6 else None
    pairs = [pair for pair in itertools.permutations(range(K), 2) if rng.random() < 0.6]
    return Adversary(trusted=trusted, groups=groups, allowed=pairs if rng.random() < 0.6 and pairs else None)


def possible_attacks(adversary, y, K):
    """Return every labelling that the adversary can make, and how many labels or annotators each of them takes."""
    labellings = all_labellings(len(y), K)
    changed = labellings != y
    possible = np.ones(len(labellings), dtype=bool)
    if adversary.trusted is not None:
        possible &= ~changed[:, adversary.trusted].any(axis=1)
    if adversary.allowed is not None:
        allowed = np.eye(K, dtype=bool)
        for old, new in adversary.allowed:
            allowed[old, new] = True
        possible &= allowed[y, labellings].all(axis=1)
    labellings, changed = labellings[possible], changed[possible]
    if adversary.groups is None:
        return labellings, changed.sum(axis=1)
    owners = [changed[:, adversary.groups == group].any(axis=1) for group in np.unique(adversary.groups)]
    return labellings, np.sum(owners, axis=0)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_every_attack_that_an_adversary_can_make(seed):
    rng = np.random.default_rng(200 + seed)
    refits = 0
    for _ in range(18):
        model, X, y, Z, K = random_problem(rng, 6, ["uniform", "distance", signed])
        adversary = random_adversary(rng, len(y), K)
        model.fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        certificates = {method: model.certify(Z, method, adversary=adversary) for method in METHODS}
        labellings, cost = possible_attacks(adversary, y, K)
        if len(labellings) <= 32 and model.weights is not signed:
            refits += 1
            predictions = np.array([clone(model).fit(X, attacked).predict(Z) for attacked in labellings])
        else:
            by_row = [scores_after(labellings, *both).argmax(axis=1) for both in zip(alpha, offsets, strict=True)]
            predictions = np.stack(by_row, axis=1)
        for i, prediction in enumerate(model.predict(Z)):
            broken = cost[predictions[:, i] != prediction]
            needed = broken.min() if broken.size else np.inf
            for certificate in certificates.values():
                assert certificate.radius[i] < needed
            exact = certificates["exact"]
            assert exact.radius[i] == (exact.n_touchable if needed == np.inf else needed - 1)
    assert refits >= 3


# ---- label independence, and the same bits beside any other rows

SETTINGS = {
    "uniform": {"n_neighbors": 20},
    "distance": {"n_neighbors": 20, "weights": "distance"},
    "signed": {"n_neighbors": 20, "weights": signed, "precision": 5},
    "cosine": {"n_neighbors": 20, "metric": "cosine", "weights": "distance"},
    "manhattan": {"n_neighbors": 0.2, "metric": "manhattan", "weights": bell},
    "own metric": {"n_neighbors": 20, "metric": city, "weights": "distance"},
    "index": {"n_neighbors": 20, "index": KNeighborsTransformer(n_neighbors=25, mode="distance")},
    "brute index": {
        "n_neighbors": 20,
        "weights": "distance",
        "index": KNeighborsTransformer(n_neighbors=25, mode="distance", algorithm="brute"),
    },
}
every_setting = pytest.mark.parametrize("name", SETTINGS)


@pytest.mark.few(2)
@every_setting
def test_weights_never_depend_on_labels_and_make_the_prediction(name):
    X, y, Z = toy(whole=True)
    model = CertifiedNeighborsClassifier(**SETTINGS[name]).fit(X, y)
    alpha, offsets = model.vote_weights(Z)
    largest_pile = np.unique(X, axis=0, return_counts=True)[1].max() if model.index_ is None else 1
    assert (np.count_nonzero(alpha, axis=1) < model.n_neighbors_ + largest_pile).all() or name == "cosine"
    np.testing.assert_array_equal(model.predict(Z), (alpha @ one_hot(y, 3) + offsets).argmax(axis=1))
    np.testing.assert_array_equal(model.predict(Z), model.certify(Z).prediction)
    rng = np.random.default_rng(1)
    for labels in (rng.permutation(y), np.sort(y), (y + 1) % 3):
        again, _ = model.fit(X, labels).vote_weights(Z)
        np.testing.assert_array_equal(again, alpha)


@pytest.mark.few(1)
@every_setting
def test_blocks_jobs_and_threads_do_not_change_a_bit(name):
    X, y, Z = toy(n=90, m=10, whole=True)
    settings = SETTINGS[name]
    model = CertifiedNeighborsClassifier(**settings).fit(X, y)
    alpha, _ = model.vote_weights(Z)
    alone = np.vstack([model.vote_weights(row[None])[0] for row in Z])
    np.testing.assert_array_equal(alone, alpha)
    for method in ("exact", "tight"):
        expected = model.set_params(block_size=None, n_jobs=None).certify(Z, method)
        for block_size, n_jobs in ((1, 1), (3, 2), (None, 2)):
            again = model.set_params(block_size=block_size, n_jobs=n_jobs).certify(Z, method)
            for one in ("prediction", "radius", "rival", "margin", "log_failure", "witness"):
                np.testing.assert_array_equal(getattr(again, one), getattr(expected, one), err_msg=one)
            np.testing.assert_array_equal(model.predict(Z), expected.prediction)
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            again, _ = CertifiedNeighborsClassifier(**settings).fit(X, y).vote_weights(Z)
        np.testing.assert_array_equal(again, alpha)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_batches_and_tiles_do_not_change_a_bit(metric, monkeypatch):
    X, y, Z = toy(n=301, k=37)  # 37 terms are enough for sums in another order to end in other bits
    model = CertifiedNeighborsClassifier(30, metric=metric, weights=signed_by_last_bits).fit(X, y)
    expected, _ = model.vote_weights(Z)
    np.testing.assert_array_equal(np.vstack([model.vote_weights(row[None])[0] for row in Z]), expected)
    np.testing.assert_array_equal(model.vote_weights(Z[::-1])[0][::-1], expected)
    monkeypatch.setattr(neighbor_search, "FEATURES_AT_A_TIME", 1)
    monkeypatch.setattr(nearest_rows, "NUMBERS_TO_SELECT_FROM", 1)
    np.testing.assert_array_equal(model.vote_weights(Z)[0], expected)
    np.testing.assert_array_equal(model.fit(X, y).vote_weights(Z)[0], expected)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_type_and_layout_of_the_numbers_do_not_change_a_bit(metric):
    X, y, Z = (array.astype(np.float32) for array in toy(n=301, k=37))
    settings = {"metric": metric, "weights": "distance", "precision": 24}
    expected, _ = CertifiedNeighborsClassifier(30, **settings).fit(X, y).vote_weights(Z)
    for convert in (np.float64, lambda A: np.asfortranarray(A, dtype=np.float64)):
        again, _ = CertifiedNeighborsClassifier(30, **settings).fit(convert(X), y).vote_weights(convert(Z))
        np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("by_angle", [False, True])
@pytest.mark.parametrize("n_features", [1, 3, 50, 784])
def test_squared_distances_are_exact_integers(n_features, by_angle):
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(60, n_features)) * rng.uniform(0.1, 100, size=n_features)
    Z = np.vstack([3 * rng.normal(size=(5, n_features)), np.full((1, n_features), 1e9), X[:2]])
    search = exact_search(X, by_angle)
    assert np.abs(search.columns).max() <= 2**24
    found = search.nearest(Z, len(X))
    # float64 holds all integers of up to 53 bits: Python's integers, which never round, must find the same
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True) if by_angle else Z
    rows = search.grid.integers(unit).astype(np.int64).astype(object)
    columns = search.columns.astype(np.int64).astype(object)
    squared = ((rows[:, :, None] - columns) ** 2).sum(axis=1)
    assert max(squared.ravel()) <= 2**53
    if by_angle:  # the test's own rows of length 1 may differ by a step of the grid
        step = 2.0**-search.grid.exponent
        np.testing.assert_allclose(found.distances, squared.astype(float) * step**2 / 2, atol=4 * step)
        np.testing.assert_array_equal(found.distances[-2:, :2][[0, 1], [0, 1]], 0)
    else:
        squares = (found.distances * 2.0**search.grid.exponent) ** 2
        np.testing.assert_array_equal(np.rint(squares).astype(np.int64), squared.astype(np.int64))
        assert max(squared.ravel()) >= 2**40


@pytest.mark.parametrize("seed", range(3))
def test_equal_values_are_taken_in_the_order_of_their_columns(seed):
    rng = np.random.default_rng(seed)
    for levels in (1, 2, 7, 10**6):
        values = rng.integers(levels, size=(40, 29)).astype(float)
        order = np.argsort(values, axis=1, kind="stable")
        for k in (1, 2, 15, 28, 29):
            np.testing.assert_array_equal(smallest(values, k), np.sort(order[:, :k], axis=1))


def test_a_pile_at_the_last_place_votes_whole():
    X = np.array([[2.0], [0.0], [1.0], [1.0], [1.0], [3.5]])
    model = CertifiedNeighborsClassifier(3, classes=[0, 1]).fit(X, [0, 1] * 3)
    np.testing.assert_array_equal(model.vote_weights([[0.0]])[0], [[0, 1, 1, 1, 1, 0]])
    np.testing.assert_array_equal(model.vote_weights([[2.0]])[0], [[1, 0, 1, 1, 1, 0]])


# ---- agreement with plain nearest neighbours


@pytest.mark.few(7)
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan", "l2", "chebyshev", "canberra", city])
@pytest.mark.parametrize("weights", ["uniform", "distance", bell, signed])
def test_scores_are_those_of_scikit_learn(metric, weights):
    X, y, Z = toy(n=200, k=5)
    Z = np.vstack([Z, X[:5]])  # the last ones are exact hits
    model = CertifiedNeighborsClassifier(11, metric=metric, weights=weights, precision=24).fit(X, y)
    plain = KNeighborsClassifier(11, metric=metric, algorithm="brute").fit(X, y)
    distances, rows = plain.kneighbors(Z)
    distances[distances < 1e-7] = 0  # scikit-learn's hits are off by rounding errors
    if callable(weights):
        weighed = weights(distances)
    else:
        hit = (distances == 0).any(axis=1, keepdims=True)
        by_distance = np.where(hit, distances == 0, 1 / np.where(hit, 1, distances))
        weighed = by_distance if weights == "distance" else np.ones_like(distances)
    expected = np.zeros((len(Z), len(X)))
    np.put_along_axis(expected, rows, weighed, axis=1)
    alpha, offsets = model.vote_weights(Z)
    assert (np.abs(alpha - expected).max(axis=1) <= 2e-5 * np.abs(expected).max(axis=1)).all()
    assert not offsets.any()
    if weights in ("uniform", "distance") and metric == "euclidean":
        np.testing.assert_array_equal(plain.set_params(weights=weights).predict(Z), model.predict(Z))


def test_a_function_may_be_called_like_a_metric_of_scipy():
    def seuclidean(u, v):
        return np.abs(u - v).sum()

    X, y, Z = toy(n=40)
    ours, theirs = (
        CertifiedNeighborsClassifier(metric=metric).fit(X, y).vote_weights(Z)[0] for metric in (seuclidean, city)
    )
    np.testing.assert_array_equal(ours, theirs)


def test_uniform_votes_are_one_at_any_precision():
    X, y, Z = toy()
    for precision in (2, 24):
        model = CertifiedNeighborsClassifier(7, precision=precision).fit(X, y)
        alpha, _ = model.vote_weights(Z)
        assert set(np.unique(alpha)) == {0.0, 1.0}
        assert (alpha.sum(axis=1) == 7).all()
        assert model.precision_ == 1


def test_rows_of_zeros_are_at_a_right_angle_to_all():
    X, Z = np.array([[0.0, 0.0], [1.0, 0.1], [-1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 0.0]])
    found = exact_search(X, by_angle=True).nearest(Z, 3)
    np.testing.assert_allclose(found.distances, [[1, 1 - 1 / np.sqrt(1.01), 2], [1, 1, 1]], atol=1e-6)


def test_one_absurd_value_does_not_blur_the_others():
    X, y, Z = toy(n=200)
    expected, _ = CertifiedNeighborsClassifier(5).fit(X, y).vote_weights(Z)
    assert len(np.unique(expected, axis=0)) > 10
    for absurd in (1e9, 1e20, -1e100):
        dirty = X.copy()
        dirty[expected[0].argmax(), 1] = absurd
        model = CertifiedNeighborsClassifier(5).fit(dirty, y)
        alpha, _ = model.vote_weights(Z)
        unconcerned = expected[:, expected[0].argmax()] == 0
        np.testing.assert_array_equal(alpha[unconcerned], expected[unconcerned])
        assert not alpha[:, expected[0].argmax()].any()
        assert model.vote_weights([[0, absurd, 0, 0]])[0][0, expected[0].argmax()] == 1


def test_far_rows_are_moved_into_the_box():
    X, y, _ = toy()
    search = exact_search(X)
    reach = np.abs(X - search.grid.center).max()
    assert search.grid.box == 4 * reach < OUTLYING * np.median(np.abs(X - search.grid.center).max(axis=1))
    model = CertifiedNeighborsClassifier(5, weights="distance").fit(X, y)
    inside = search.grid.center + search.grid.box
    np.testing.assert_array_equal(model.vote_weights([inside])[0], model.vote_weights([np.full(4, 1e300)])[0])


def test_constant_features_are_all_equally_near():
    model = CertifiedNeighborsClassifier(2, weights="distance").fit(np.ones((5, 2)), [0, 1, 0, 1, 1])
    np.testing.assert_array_equal(model.vote_weights([[1, 1], [3, 1]])[0] > 0, [[1, 1, 1, 1, 1]] * 2)


# ---- how many neighbours


def test_the_number_of_neighbours_may_be_a_share():
    X, y, Z = toy(n=100)
    for given, used in ((0.07, 7), (0.071, 8), (1e-9, 1), (0.999, 100), (np.float64(0.5), 50), (np.int64(4), 4)):
        model = CertifiedNeighborsClassifier(given).fit(X, y)
        assert model.n_neighbors_ == used
        assert (model.vote_weights(Z)[0].sum(axis=1) == used).all()


def test_by_default_one_row_in_twenty_votes_but_not_fewer_than_15():
    X, y = np.random.default_rng(0).normal(size=(421, 2)), np.arange(421) % 2
    for n, used in ((8, 8), (15, 15), (300, 15), (301, 16), (400, 20), (421, 22)):
        assert CertifiedNeighborsClassifier().fit(X[:n], y[:n]).n_neighbors_ == used


def test_shares_can_be_tuned_on_small_folds():
    X, _, Z = toy(n=12)
    search = GridSearchCV(CertifiedNeighborsClassifier(classes=range(3)), {"n_neighbors": [0.1, 0.9, None]}, cv=3)
    assert set(search.fit(X, np.arange(12) % 3).predict(Z)) <= {0, 1, 2}


def test_settings_that_are_changed_after_fit_wait_for_the_next_one():
    X, y, Z = toy()
    model = CertifiedNeighborsClassifier(7).fit(X, y)
    expected = model.certify(Z)
    model.set_params(n_neighbors=3, weights="distance", metric="cosine", precision=24)
    np.testing.assert_array_equal(model.certify(Z).radius, expected.radius)
    np.testing.assert_array_equal(model.certify(Z).margin, expected.margin)


# ---- an index


class SpyIndex(BaseEstimator):
    """Exact distances to all rows, by plain scipy; knows what it was asked."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        self.labels_, self.rows_, self.asked_ = y, X, []
        return self

    def transform(self, Z):
        from scipy.sparse import csr_matrix

        self.asked_.append(len(Z))
        # an entry per pair, also where the distance is 0
        m, n = len(Z), len(self.rows_)
        columns = np.tile(np.arange(n)[::-1], m)
        return csr_matrix((cdist(Z, self.rows_)[:, ::-1].ravel(), columns, n * np.arange(m + 1)), shape=(m, n))


def test_an_index_is_cloned_fitted_without_labels_and_asked_row_by_row():
    X, y, Z = toy()
    given = SpyIndex()
    model = CertifiedNeighborsClassifier(9, weights="distance", index=given).fit(X, y)
    expected = CertifiedNeighborsClassifier(9, weights="distance").fit(X, y).vote_weights(np.vstack([Z, X[:3]]))[0]
    np.testing.assert_array_equal(model.vote_weights(np.vstack([Z, X[:3]]))[0], expected)
    assert not hasattr(given, "rows_")
    assert model.index_.labels_ is None
    assert model.index_.random_state == 0
    assert set(model.index_.asked_) == {1}


@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
def test_the_index_of_scikit_learn_finds_the_same_neighbours(algorithm):
    X, y, Z = toy(n=300)
    index = make_pipeline(StandardScaler(), KNeighborsTransformer(n_neighbors=20, mode="distance", algorithm=algorithm))
    model = CertifiedNeighborsClassifier(20, index=index, classes=range(3)).fit(X, y)
    plain = CertifiedNeighborsClassifier(20, features=StandardScaler(), classes=range(3)).fit(X, y)
    np.testing.assert_array_equal(model.vote_weights(Z)[0], plain.vote_weights(Z)[0])
    np.testing.assert_array_equal(model.certify(Z).radius, plain.certify(Z).radius)


def test_assumptions_name_an_index_and_custom_functions():
    X, y, Z = toy()
    plain = CertifiedNeighborsClassifier(classes=range(3)).fit(X, y).certify(Z).assumptions
    assert len(plain) == 1
    with_index = CertifiedNeighborsClassifier(classes=range(3), index=SpyIndex(), weights=bell).fit(X, y)
    said = with_index.certify(Z).assumptions[len(plain) :]
    index = {"role": "neighbour index", "step": "SpyIndex", "but": ()}
    weights = {"parameter": "weights", "function": "function bell"}
    assert said == (Assumption("fitted-without-labels", index), Assumption("custom-function", weights))
    own_metric = CertifiedNeighborsClassifier(classes=range(3), metric=city).fit(X, y)
    metric = {"parameter": "metric", "function": "function city"}
    assert own_metric.certify(Z).assumptions[-1] == Assumption("custom-function", metric)


# ---- bad input


class BadIndex(SpyIndex):
    """Gives answers of the wrong kind."""

    def __init__(self, fault=None, random_state=None):
        super().__init__(random_state)
        self.fault = fault

    def transform(self, Z):
        answer = super().transform(Z)
        if self.fault == "shape":
            return answer[:, :-1]
        if self.fault == "twice":
            answer.indices[0] = answer.indices[1]
        if self.fault == "nan":
            answer.data[0] = np.nan
        return answer


BAD_SETTINGS = {
    "no neighbours": ({"n_neighbors": 0}, "'n_neighbors' .* integer of at least 1 .* share .* Got 0 instead"),
    "share of 1": ({"n_neighbors": 1.0}, "'n_neighbors' .* share between 0 and 1.* Got 1.0 instead"),
    "share of 0": ({"n_neighbors": 0.0}, "'n_neighbors' .* Got 0.0 instead"),
    "share not a number": ({"n_neighbors": np.nan}, "'n_neighbors' .* Got nan instead"),
    "True neighbours": ({"n_neighbors": True}, "'n_neighbors' .* Got True instead"),
    "a word of neighbours": ({"n_neighbors": "many"}, "'n_neighbors' .* Got 'many' instead"),
    "too many neighbours": ({"n_neighbors": 41}, "at most the number of training rows, 40. Got 41 instead: give fewer"),
    "weights": ({"weights": "gauss"}, "'weights' .* 'uniform', 'distance' or a function.* Got 'gauss' instead"),
    "weights None": ({"weights": None}, "'weights' .* Got None instead"),
    "metric": ({"metric": "far"}, "'metric' .* 'euclidean', 'cosine', another metric .* Got 'far' instead"),
    "metric a number": ({"metric": 2}, "'metric' .* name of a metric or a function of two rows. Got 2 instead"),
    "seuclidean": ({"metric": "seuclidean"}, r"not depend on other test rows.* use features=StandardScaler\(\)"),
    "mahalanobis": ({"metric": "mahalanobis"}, r"not depend on other test rows.* use features=PCA\(whiten=True\)"),
    "metric NaN": ({"metric": lambda u, v: np.nan}, "must give finite distances. Got NaN or infinity"),
    "metric with index": ({"metric": "cosine", "index": SpyIndex()}, "no effect on an index"),
    "index a word": ({"index": "hnsw"}, "'index' .* as KNeighborsTransformer is. Got 'hnsw' instead"),
    "index without distances": ({"index": KNeighborsTransformer(mode="connectivity")}, "set its mode to 'distance'"),
    "index of too few": (
        {"index": KNeighborsTransformer(n_neighbors=5, mode="distance")},
        "at least 15 neighbours for each row. Got 6 instead",
    ),
    "index that needs labels": ({"index": KNeighborsClassifier()}, "'index' .* as KNeighborsTransformer is"),
    "index of another shape": ({"index": BadIndex("shape")}, r"shape \(1, 40\) .* Got shape \(1, 39\) instead"),
    "index that repeats itself": ({"index": BadIndex("twice")}, "finite distances, one per neighbour"),
    "index with NaN": ({"index": BadIndex("nan")}, "finite distances, one per neighbour"),
    "precision": ({"precision": 1}, "'precision' .* integer from 2 to 24"),
    "method": ({"method": "guess"}, "must be one of 'exact', 'tight', 'kl'"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused(name):
    settings, message = BAD_SETTINGS[name]
    X, y, _ = toy(n=40)
    with pytest.raises(ValueError, match=message) as error:
        CertifiedNeighborsClassifier(**settings).fit(X, y)
    assert len(str(error.value).splitlines()) == 1


BAD_WEIGHTINGS = {
    "shape": (lambda distances: distances[:, :-1], r"shape \(1, 15\) for one test row. Got shape \(1, 14\) instead"),
    "no rows": (lambda distances: distances[0], r"Got shape \(15,\) instead"),
    "NaN": (lambda distances: distances * np.nan, "must return finite weights.* Got NaN or infinity"),
    "infinity": (lambda distances: distances + np.inf, "must return finite weights.* Got NaN or infinity"),
}


@pytest.mark.parametrize("name", BAD_WEIGHTINGS)
def test_bad_weights_are_refused(name):
    weights, message = BAD_WEIGHTINGS[name]
    X, y, Z = toy(n=40)
    model = CertifiedNeighborsClassifier(weights=weights).fit(X, y)
    for call in (model.predict, model.certify, model.vote_weights):
        with pytest.raises(ValueError, match=message):
            call(Z)


def test_features_that_would_overflow_are_refused():
    with pytest.raises(ValueError, match=r"must be between -1e\+150 and 1e\+150.*rescale them"):
        CertifiedNeighborsClassifier(1).fit([[1e200], [0.0]], [0, 1])


def test_a_metric_that_is_undefined_for_a_test_row_is_refused():
    X, y, Z = toy()
    model = CertifiedNeighborsClassifier(metric="correlation").fit(X, y)
    Z[0] = 1.0
    with pytest.raises(ValueError, match="The metric 'correlation' must give finite distances"):
        model.predict(Z)


# ---- size


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_test_rows():
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(60_000, 3)), rng.integers(2, size=60_000), rng.normal(size=(600, 3))
    for k in (10, 6_000):
        model = CertifiedNeighborsClassifier(k, classes=[0, 1]).fit(X, y)
        tracemalloc.start()
        try:
            model.certify(Z)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 64 * 2**20  # all distances would be 275 MiB
        assert next(model.blocks(600)).stop >= 16  # fewer rows at a time would make poor use of BLAS


# ---- real data


def test_digits_are_told_apart_and_certified():
    X, y = load_digits(return_X_y=True)
    X, rows, y, truth = train_test_split(X, y, test_size=300, random_state=0)
    for settings in ({"n_neighbors": 40}, {"n_neighbors": 0.1, "metric": "cosine", "weights": "distance"}):
        model = CertifiedNeighborsClassifier(**settings, classes=range(10)).fit(X, y)
        cert = assert_radius_is_exact(model, X, y, rows[:60], n_refits=4)
        assert model.score(rows, truth) > 0.93
        assert np.median(cert.radius) >= 15


def test_mnist_at_a_thousand_flips(data_dir):
    X, y = mnist(data_dir, "train")
    rows, truth = mnist(data_dir, "t10k")
    model = CertifiedNeighborsClassifier(4000, features=PCA(50, random_state=0), classes=range(10))
    cert = model.fit(X.astype(np.float32), y).certify(rows[::30].astype(np.float32))
    accuracy = certified_accuracy(truth[::30], cert, [100, 500, 1000])
    assert (accuracy >= [0.74, 0.46, 0.2]).all()  # all 10,000 rows: 0.764, 0.502, 0.246


def test_neighbours_certify_more_than_ridge_on_spambase(data_dir):
    X, y = spambase(data_dir)
    X, rows, y, truth = train_test_split(X, y, test_size=0.25, random_state=0)
    settings = {"features": StandardScaler(), "classes": ["ham", "spam"]}
    neighbours = CertifiedNeighborsClassifier(0.3, metric="cosine", **settings).fit(X, y)
    ridge = CertifiedRidgeClassifier(**settings).fit(X, y)
    flips = [0, 34, 69, 172]
    ours, theirs = (certified_accuracy(truth, model.certify(rows), flips) for model in (neighbours, ridge))
    assert (ours - theirs > [0, 0.15, 0.3, 0.5]).all()
