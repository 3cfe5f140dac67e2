"""Votes of clusters: the right rows vote, nobody's label moves a cluster, and the certificates are true."""

import numpy as np
import pytest
from best_attack import assert_radius_is_exact
from enumeration import flips_to_change, possible_attacks, scores_after
from every_attack import assert_no_attack_succeeds
from real_data import mnist, spambase
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.cluster import DBSCAN, AgglomerativeClustering, BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from flipproof import Adversary, Assumption, CertifiedClusterClassifier, CertifiedRidgeClassifier, certified_accuracy
from flipproof.learners.cluster import _nearest

METHODS = ("exact", "tight", "kl")


class Fixed(ClusterMixin, BaseEstimator):
    """Clusters of training rows as they are given; a test row is in the cluster that its first number names."""

    def __init__(self, labels=(), answer=None):
        self.labels = labels
        self.answer = answer

    def fit_predict(self, X, y=None):
        return np.array(self.labels)

    def predict(self, X):
        return X[:, 0].astype(int)


SMALL = {
    "k-means": KMeans(2, n_init=1),
    "no predict": AgglomerativeClustering(2),
    "noise and unseen": Fixed((4, -1, 4, 7, 7)),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "n", "n_classes"), [(name, 5, 2) for name in SMALL] + [("noise and unseen", 4, 3)])
def test_no_attack_succeeds_on_clusters(name, n, n_classes):
    X = np.array([[4.0, 0.1], [4.2, 1.0], [4.3, -0.4], [7.0, 0.5], [7.9, -0.2]])[:n]
    Z = np.array([[4.1, 0.0], [7.5, 0.3], [9.0, 0.0], [-1.0, 5.0]])
    clusterer = Fixed(SMALL[name].labels[:n]) if name == "noise and unseen" else SMALL[name]
    model = CertifiedClusterClassifier(clusterer, noise=1e-6, classes=range(n_classes))
    radii = assert_no_attack_succeeds(model, X, Z, n_classes, bases=(0, 6, n_classes**n - 2))
    assert max(radii["exact"]) >= 2
    assert max(radii["tight"]) >= 1


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["k-means", "no predict", "noise and unseen"])
def test_no_attack_succeeds_on_the_joint_vote(name):
    X = np.array([[4.0, 0.1], [4.2, 1.0], [4.3, -0.4], [7.0, 0.5], [7.9, -0.2]])
    Z = np.array([[4.1, 0.0], [7.5, 0.3], [9.0, 0.0]])
    model = CertifiedClusterClassifier(SMALL[name], vote="joint", noise=1e-6, classes=range(2))
    radii = assert_no_attack_succeeds(model, X, Z, 2, bases=(0, 3, 24))
    assert max(radii["exact"]) >= 2
    assert max(radii["tight"]) >= 1


def test_three_classes_and_three_clusters_by_brute_force():
    rng = np.random.default_rng(0)
    labellings, _ = possible_attacks(np.zeros(6, dtype=int), 3)
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))
    model = CertifiedClusterClassifier(AgglomerativeClustering(2), classes=range(3))
    for y in rng.integers(3, size=(12, 6)):
        model.fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        certificates = model.certify(Z)
        for i, prediction in enumerate(model.predict(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            needed = flips_to_change(y, labellings, scores.argmax(axis=1), prediction)
            assert certificates.radius[i] == (6 if needed == np.inf else needed - 1)


# ---- who votes


def blobs(n=200, m=60, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n + m)
    X = rng.normal(size=(n + m, 3)) + 3 * rng.normal(size=(n_classes, 3))[y]
    return X[:n], y[:n], X[n:], y[n:]


def by_hand(train_clusters, test_clusters, joint=False):
    """Return the weights as the class says it."""
    same = test_clusters[:, None] == train_clusters
    alpha = np.where(train_clusters < 0, 0, np.where(same, 1, -1 if joint else 0))
    return np.where(np.isin(test_clusters, train_clusters[train_clusters >= 0])[:, None], alpha, 1)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "clusterer",
    [KMeans(6), MiniBatchKMeans(6), BisectingKMeans(6), GaussianMixture(4), make_pipeline(StandardScaler(), KMeans(5))],
    ids=lambda clusterer: type(clusterer).__name__,
)
def test_a_test_row_gets_the_votes_of_the_cluster_that_scikit_learn_predicts(clusterer):
    X, y, Z, _ = blobs()
    model = CertifiedClusterClassifier(clusterer).fit(X, y)
    fitted = model.clusterer_
    train = fitted.labels_ if hasattr(fitted, "labels_") else fitted.predict(X)
    alpha, offsets = model.vote_weights(Z)
    np.testing.assert_array_equal(alpha, by_hand(train, fitted.predict(Z)))
    np.testing.assert_array_equal(offsets, 0)
    elected = np.array([np.bincount(y[train == one], minlength=3).argmax() for one in fitted.predict(Z)])
    np.testing.assert_array_equal(model.predict(Z), elected)


@pytest.mark.parametrize("joint", [False, True])
def test_without_a_predict_the_nearest_mean_decides(joint):
    X, y, Z, _ = blobs(n_classes=2)
    clusterer = AgglomerativeClustering(2 if joint else 5)
    model = CertifiedClusterClassifier(clusterer, vote="joint" if joint else "cluster").fit(X, y)
    train = clone(clusterer).fit(X).labels_
    means = np.array([X[train == one].mean(axis=0) for one in range(train.max() + 1)])
    nearest = ((Z[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(model.vote_weights(Z)[0], by_hand(train, nearest, joint))
    assert len(set(nearest)) == len(means)


def test_noise_rows_vote_only_on_test_rows_in_no_cluster():
    X, y, Z, _ = blobs()
    model = CertifiedClusterClassifier(DBSCAN(eps=0.9, min_samples=4)).fit(X, y)
    train = DBSCAN(eps=0.9, min_samples=4).fit(X).labels_
    assert 0.1 < np.mean(train < 0) < 0.5
    alpha = model.vote_weights(Z)[0]
    assert not alpha[:, train < 0].any()
    assert alpha.any(axis=1).all()
    assert model.n_clusters_ == train.max() + 1
    unseen = CertifiedClusterClassifier(Fixed([0] * 5 + [2] * 3 + [-1] * 2)).fit(np.zeros((10, 1)), [0] * 3 + [1] * 7)
    rows = np.array([[0.0], [1.0], [2.0], [-1.0], [9.0]])
    np.testing.assert_array_equal(
        unseen.vote_weights(rows)[0], by_hand(np.array([0] * 5 + [2] * 3 + [-1] * 2), rows[:, 0].astype(int))
    )
    np.testing.assert_array_equal(unseen.predict(rows), [0, 1, 1, 1, 1])
    np.testing.assert_array_equal(unseen.decision_function(rows), [-1, 4, 3, 4, 4])


def test_joint_votes_of_two_clusters_are_opposite_and_twice_as_strong():
    X, y, Z, _ = blobs(n_classes=2, seed=1)
    one, joint = (CertifiedClusterClassifier(KMeans(2), vote=vote).fit(X, y) for vote in ("cluster", "joint"))
    np.testing.assert_array_equal(one.vote_weights(Z)[0], np.maximum(joint.vote_weights(Z)[0], 0))
    margins, joint_margins = (
        dict(zip(one.clusterer_.predict(Z), model.decision_function(Z), strict=True)) for model in (one, joint)
    )
    difference = margins[1] - margins[0]
    assert joint_margins == {0: -difference, 1: difference}
    assert abs(difference) > 1.5 * max(map(abs, margins.values()))


def test_the_default_is_k_means_with_four_clusters_per_class():
    X, y, _, _ = blobs()
    model = CertifiedClusterClassifier().fit(X, y)
    assert isinstance(model.clusterer_, KMeans)
    assert model.n_clusters_ == 12
    assert CertifiedClusterClassifier(classes=range(5)).fit(X[:9], y[:9]).n_clusters_ == 9
    assert CertifiedClusterClassifier(classes=range(5)).fit(X[[0, 0, 1, 1]], y[:4]).n_clusters_ == 2


# ---- the same bits


@pytest.mark.few(1)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("clusterer", [KMeans(7), AgglomerativeClustering(7), GaussianMixture(4)], ids=repr)
def test_blocks_jobs_threads_batches_and_labels_do_not_change_a_bit(clusterer, method):
    X, y, Z, _ = blobs()
    model = CertifiedClusterClassifier(clusterer, noise=0.01).fit(X, y)
    alpha, expected = model.vote_weights(Z)[0], model.certify(Z, method)
    assert len(set(expected.radius)) > 2
    np.testing.assert_array_equal(model.predict(Z), expected.prediction)
    np.testing.assert_array_equal((alpha @ (y[:, None] == np.arange(3))).argmax(axis=1), expected.prediction)
    for block_size, n_jobs, threads in ((1, 1, 1), (3, 2, 2), (None, 2, 1)):
        with threadpool_limits(limits=threads):
            again = clone(model).set_params(block_size=block_size, n_jobs=n_jobs).fit(X, y)
            found = again.certify(Z, method)
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


def test_a_row_between_two_centres_gets_the_same_cluster_in_any_batch():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(9, 40)) * 1e3
    Z = (centres[rng.integers(9, size=400)] + centres[rng.integers(9, size=400)]) / 2 + rng.normal(size=40) * 1e-13
    together = _nearest(Z, centres)
    np.testing.assert_array_equal(together, np.concatenate([_nearest(Z[i : i + 1], centres) for i in range(len(Z))]))
    np.testing.assert_array_equal(together, _nearest(np.asfortranarray(Z), np.asfortranarray(centres)))
    np.testing.assert_array_equal(together[::-1], _nearest(Z[::-1], centres))


def test_each_row_is_asked_for_alone_and_its_answer_is_kept_to():
    class Crowd(Fixed):
        def predict(self, X):
            return np.full(len(X), min(len(X) - 1, 1))

    model = CertifiedClusterClassifier(Crowd([0, 0, 1, 1])).fit(np.zeros((4, 1)), [0, 0, 1, 1])
    np.testing.assert_array_equal(model.predict(np.zeros((50, 1))), 0)


def test_random_states_are_fixed_and_the_clusterer_of_the_user_stays_as_it_was():
    X, y, Z, _ = blobs()
    clusterer = KMeans(20, n_init=1)
    alpha = [CertifiedClusterClassifier(clusterer).fit(X, y).vote_weights(Z)[0] for _ in range(3)]
    np.testing.assert_array_equal(alpha[0], alpha[1])
    np.testing.assert_array_equal(alpha[0], alpha[2])
    assert clusterer.random_state is None
    assert not hasattr(clusterer, "labels_")


def test_labels_are_not_shown_to_the_clusterer_and_assumptions_name_it():
    class Spy(Fixed):
        def fit_predict(self, X, y=None):
            assert y is None
            return super().fit_predict(X)

    model = CertifiedClusterClassifier(Spy([0, 0, 1, 1]), classes=[0, 1]).fit(np.zeros((4, 1)), [0, 0, 1, 1])
    assumptions = model.certify(np.zeros((1, 1))).assumptions
    assert Assumption("clustered-without-labels", {"step": "Spy", "n_clusters": 2}) in assumptions


# ---- bad input

BAD = {
    "vote": ({"vote": "both"}, "'vote' .* 'cluster' or 'joint'. Got 'both' instead"),
    "vote a list": ({"vote": ["joint"]}, "'vote' .* Got .'joint'. instead"),
    "a word": ({"clusterer": "kmeans"}, "'clusterer' .* clusterer with fit_predict, as KMeans.* Got 'kmeans' instead"),
    "a class": ({"clusterer": KMeans}, "'clusterer' .* as KMeans"),
    "a classifier": ({"clusterer": KNeighborsClassifier()}, "'clusterer' .* Got KNeighborsClassifier.. instead"),
    "too many clusters": (
        {"clusterer": KMeans(50)},
        "without labels.* should be >= n_clusters=50",
    ),
    "all noise": ({"clusterer": DBSCAN(eps=1e-9)}, "all 40 training rows as noise"),
    "wrong length": ({"clusterer": Fixed([0, 1])}, r"an integer per training row, shape \(40,\).* shape \(2,\)"),
    "no whole numbers": ({"clusterer": Fixed([0.5] * 40)}, "an integer per training row.* returned float64"),
    "joint, three clusters": ({"clusterer": KMeans(3), "vote": "joint"}, "exactly two clusters.* found 3 instead"),
    "joint, one cluster": ({"clusterer": Fixed([0] * 40), "vote": "joint"}, "exactly two clusters.* found 1 instead"),
    "joint by default": ({"vote": "joint"}, "exactly two clusters.* found 8 instead: set its number of clusters to 2"),
    "joint, three classes": (
        {"clusterer": KMeans(2), "vote": "joint", "classes": range(3)},
        "'joint' .* exactly two classes. Got 3 instead: use vote='cluster'",
    ),
    "noise": ({"noise": 0.7}, r"must be in \(0, 0\.5\)"),
    "block_size": ({"block_size": 0}, "'block_size' .* Got 0 instead"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name):
    settings, message = BAD[name]
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(ValueError, match=message) as error:
        CertifiedClusterClassifier(**settings).fit(X, np.arange(40) % 2)
    assert len(str(error.value).splitlines()) == 1


# ---- large and real data


def test_many_test_rows_are_certified_once_per_cluster(monkeypatch):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(60_000, 20)), rng.normal(size=(10_000, 20))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = CertifiedClusterClassifier(KMeans(8, n_init=1, max_iter=5, tol=1.0)).fit(X, y)
    certified = []
    certify_block = model._certify_block
    monkeypatch.setattr(
        model, "_certify_block", lambda Z, *more: (certified.append(len(Z)), certify_block(Z, *more))[1]
    )
    certificates = model.certify(Z)
    assert sum(certified) == 8
    np.testing.assert_array_equal(certificates.prediction, model.predict(Z))
    np.testing.assert_array_equal(certificates.radius[:50], [model.certify(row).radius[0] for row in Z[:50, None]])


@pytest.fixture(scope="module")
def one_or_seven(data_dir):
    """Return 50 principal components of the pixels, which are label-free, and labels; training rows, then test rows."""
    (X, y), (Z, truth) = (mnist(data_dir, part, (1, 7)) for part in ("train", "t10k"))
    components = PCA(50, random_state=0).fit(X)
    return components.transform(X), y, components.transform(Z), truth


def test_two_clusters_of_mnist_hold_against_nearly_six_thousand_flips(one_or_seven):
    X, y, Z, truth = one_or_seven
    assert (len(y), len(truth)) == (13_007, 2_163)
    two = KMeans(2, n_init=10, random_state=0)
    model = CertifiedClusterClassifier(two, vote="joint", classes=[1, 7]).fit(X, y)
    certificates = model.certify(Z)
    assert len(set(certificates.radius)) == 1
    assert 5_945 <= certificates.radius[0] <= 5_957
    assert certified_accuracy(truth, certificates, [5_945])[0] == pytest.approx(0.955, abs=0.002)
    alone = clone(model).set_params(vote="cluster").fit(X, y).certify(Z)
    assert alone.radius.max() < 3_200
    whitened = clone(model).set_params(features=StandardScaler()).fit(X, y).certify(Z)
    assert certified_accuracy(truth, whitened, [6_300])[0] == pytest.approx(0.982, abs=0.003)


def test_the_best_attack_on_two_clusters_of_mnist_meets_the_radius(one_or_seven):
    X, y, Z, _ = one_or_seven
    model = CertifiedClusterClassifier(KMeans(2, n_init=1), vote="joint", classes=[1, 7]).fit(X, y)
    assert_radius_is_exact(model, X, y, Z[:4], n_refits=2)


@pytest.mark.parametrize("name", ["digits", pytest.param("spambase", marks=pytest.mark.data)])
def test_clusters_certify_more_than_ridge_at_large_radii(name, request):
    if name == "digits":
        X, y, n_clusters, flips, most = *load_digits(return_X_y=True), 16, 13, 0.65
    else:
        X, y, n_clusters, flips, most = *spambase(request.getfixturevalue("data_dir")), 4, 170, 0.2
    X, Z, y, truth = train_test_split(X, y, test_size=0.25, random_state=0)
    scaler = StandardScaler() if name == "spambase" else None
    ridge = CertifiedRidgeClassifier(features=scaler).fit(X, y).certify(Z)
    clusters = CertifiedClusterClassifier(KMeans(n_clusters, n_init=10), features=scaler).fit(X, y).certify(Z)
    against_ridge, against_clusters = (certified_accuracy(truth, one, [flips])[0] for one in (ridge, clusters))
    assert against_ridge < most
    assert against_clusters > against_ridge + 0.1


def test_annotators_and_trusted_rows_count_on_real_data():
    X, y = load_digits(return_X_y=True)
    model = CertifiedClusterClassifier(KMeans(20, n_init=1)).fit(X[:1500], y[:1500])
    anyone = model.certify(X[1500:])
    trusted = model.certify(X[1500:], adversary=Adversary(trusted=np.arange(1500) % 2 == 0))
    annotators = model.certify(X[1500:], adversary=Adversary(groups=np.arange(1500) // 30))
    np.testing.assert_array_equal(trusted.prediction, anyone.prediction)
    np.testing.assert_array_equal(annotators.prediction, anyone.prediction)
    assert np.all(trusted.radius >= anyone.radius)
    assert np.all(annotators.radius <= anyone.radius)
    assert trusted.radius.sum() > anyone.radius.sum() > annotators.radius.sum() > 0
