"""Partitions that vote: every attack on small problems, and that nothing but features decides who votes."""

import itertools

import numpy as np
import pytest
from enumeration import least_cost, possible_attacks, random_powers, touchable
from joblib import effective_n_jobs
from real_data import spambase
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_info, threadpool_limits
from tiers import mostly_slow

import flipproof
from flipproof import Adversary, Assumption, CertifiedPartitionClassifier, CertifiedRidgeClassifier, certified_accuracy
from flipproof.report.text import summarize


class EveryLabelCounts(ClassifierMixin, BaseEstimator):
    """Any single change of a label turns every prediction: the worst base learner there is."""

    def fit(self, X, y):
        self.classes_ = np.arange(3) if max(y) > 1 else np.arange(2)
        self.prediction_ = int(np.sum(y)) % len(self.classes_)
        return self

    def predict(self, X):
        return np.full(len(X), self.prediction_)


BASE_LEARNERS = {
    "tree": DecisionTreeClassifier(),
    "logistic": None,
    "bayes": GaussianNB(),
    "neighbour": KNeighborsClassifier(1),
    "every label counts": EveryLabelCounts(),
}


def blobs(n, K=2, seed=0, k=3, apart=2.0):
    """Training rows, their labels, and 40 test rows between and around the classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    centres = apart * np.eye(k)
    return rng.normal(size=(n, k)) + centres[y], y, rng.normal(size=(40, k)) + centres[np.arange(40) % K]


def votes_of(model, Z):
    """What each base learner says, asked without any of the library's care."""
    return np.stack([np.searchsorted(model.classes_, base.predict(Z)) for base in model.estimators_], axis=1)


# --- every attack there is


@pytest.mark.few(1)
@pytest.mark.parametrize("base", BASE_LEARNERS)
@pytest.mark.parametrize(("n", "K", "n_partitions"), [(6, 2, 3), (5, 2, 5), (5, 2, 4), (4, 3, 3)])
def test_no_possible_attack_within_the_radius_changes_a_refitted_model(base, n, K, n_partitions):
    rng = np.random.default_rng([n, K, n_partitions, list(BASE_LEARNERS).index(base)])
    X, Z, y = rng.normal(size=(n, 2)), rng.normal(size=(6, 2)), rng.integers(K, size=n)
    y[: n - n // 3] = 0  # mostly one class, or no vote has a lead worth a certificate
    if n_partitions == 4:
        X[1] = X[0]
    model = CertifiedPartitionClassifier(BASE_LEARNERS[base], n_partitions, classes=range(K))
    labellings, _ = possible_attacks(y, K)
    refitted = {tuple(one): clone(model).fit(X, one).predict(Z) for one in labellings}
    model.fit(X, y)
    for which in [*range(8), *range(8)]:
        powers = random_powers(rng, n, K, which)
        certificate = model.certify(Z, adversary=Adversary(**powers) if powers else None)
        attacks, cost = possible_attacks(y, K, **powers)
        after = np.array([refitted[tuple(one)] for one in attacks])
        np.testing.assert_array_equal(certificate.prediction, refitted[tuple(y)])
        assert certificate.n_touchable == touchable(y, **powers)
        assert certificate.unit == ("annotators" if "groups" in powers else "labels")
        for i, prediction in enumerate(certificate.prediction):
            assert certificate.radius[i] < least_cost(cost, after[:, i] != prediction)


@pytest.mark.parametrize("K", [2, 3])
def test_the_radius_is_attained_where_every_row_is_a_partition(K):
    # a base learner that knows one row says what its label says
    rng = np.random.default_rng(K)
    largest = 0
    for _ in range(10):
        n = 6 if K == 2 else 5
        X, y = rng.normal(size=(n, 2)), rng.choice(K, size=n, p=[0.7, 0.3] if K == 2 else [0.7, 0.15, 0.15])
        model = CertifiedPartitionClassifier(n_partitions=n, classes=range(K)).fit(X, y)
        for which in range(8):
            powers = random_powers(rng, n, K, which)
            if "allowed" in powers:
                continue
            attacks, cost = possible_attacks(y, K, **powers)
            certificate = model.certify(X[:1], adversary=Adversary(**powers))
            winner = certificate.prediction[0]
            scores = np.stack([(attacks == c).sum(axis=1) for c in range(K)], axis=1)
            cheapest = least_cost(cost, scores.argmax(axis=1) != winner)
            expected = touchable(y, **powers) if cheapest == np.inf else cheapest - 1
            assert certificate.radius[0] == expected
            largest = max(largest, expected)
    assert largest >= 2


@pytest.mark.parametrize("seed", range(4))
def test_annotators_who_change_every_partition_with_a_label_of_theirs_do_not_get_past_the_radius(seed):
    # base learners are given no credit: whoever has a changeable label in a partition decides its vote
    rng = np.random.default_rng(seed)
    n, K, n_partitions = 36, 2 + seed % 2, 8
    X, y, Z = blobs(n, K, seed, apart=4)
    model = CertifiedPartitionClassifier(DecisionTreeClassifier(), n_partitions, classes=range(K)).fit(X, y)
    votes = votes_of(model, Z)
    tight = 0
    for spread in (1, 2, 4):  # how many partitions an annotator works in
        groups = (model.partition_ + n_partitions // spread * rng.integers(spread, size=n)) % n_partitions
        trusted = rng.random(n) < 0.5
        certificate = model.certify(Z, adversary=Adversary(groups=groups, trusted=trusted))
        names = np.unique(groups[~trusted])
        owned = [set(model.partition_[(groups == name) & ~trusted]) for name in names]
        for i in range(0, len(Z), 2):
            sizes = (
                size
                for size in range(len(names) + 1)
                for some in itertools.combinations(owned, size)
                if can_win(votes[i], set().union(*some), K)
            )
            needed = next(sizes, np.inf)
            true_radius = len(names) if needed == np.inf else needed - 1
            assert certificate.radius[i] <= true_radius
            if spread == 1:
                assert certificate.radius[i] == true_radius
            tight += certificate.radius[i] == true_radius > 0
    assert tight > 10


def can_win(votes, turned, K):
    """Whether some other class wins when these votes go to it; ties go to the lowest class."""
    votes = votes.tolist()
    winner = max(range(K), key=votes.count)
    kept = [vote for number, vote in enumerate(votes) if number not in turned]
    return any(kept.count(d) + len(turned) >= kept.count(winner) + (d > winner) for d in range(K) if d != winner)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_radius_and_rival_are_those_of_a_plain_count(K):
    X, y, Z = blobs(200, K, k=5, apart=4)
    trusted = np.random.default_rng(0).random(200) < 0.93
    model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 25, classes=range(K)).fit(X, y)
    votes = votes_of(model, Z)
    untouched = np.array([trusted[model.partition_ == p].all() for p in range(25)])
    assert 3 < untouched.sum() < 22
    for adversary, can_turn in ((None, np.ones(25, dtype=bool)), (Adversary(trusted=trusted), ~untouched)):
        certificate = model.certify(Z, "gap", adversary)
        for i, row in enumerate(votes):
            counts = [int((row == c).sum()) for c in range(K)]
            winner = counts.index(max(counts))
            needed = {}
            for d in set(range(K)) - {winner}:
                from_winner = int(((row == winner) & can_turn).sum())
                from_others = int(((row != winner) & (row != d) & can_turn).sum())
                needed[d] = min(
                    (
                        a + b
                        for a in range(from_winner + 1)
                        for b in range(from_others + 1)
                        if 2 * a + b >= counts[winner] - counts[d] + (d > winner)
                    ),
                    default=np.inf,
                )
            fewest = min(needed.values())
            assert certificate.prediction[i] == winner
            assert needed[certificate.rival[i]] == fewest
            assert certificate.margin[i] == counts[winner] - counts[certificate.rival[i]]
            reachable = fewest < np.inf
            assert certificate.radius[i] == (max(fewest - 1, 0) if reachable else certificate.n_touchable)
            if K == 2 and adversary is None:
                assert certificate.radius[i] == max(-(-(max(counts) - min(counts)) // 2) - 1, 0)
        assert len(set(certificate.radius)) > 3


def test_nobody_can_turn_what_only_trusted_labels_have_made():
    X, y, Z = blobs(60)
    model = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X, y)
    for powers in ({}, {"groups": np.arange(60) % 7}):
        certificate = model.certify(Z, adversary=Adversary(trusted=model.partition_ < 5, **powers))
        unanimous = np.abs(model.decision_function(Z)) == 1
        assert unanimous.any()
        assert np.all(certificate.radius[unanimous] == certificate.n_touchable)
        assert certificate.n_touchable == (len(set(np.arange(60)[model.partition_ == 5] % 7)) if powers else 10)
    nobody = model.certify(Z, adversary=Adversary(trusted=np.ones(60, dtype=bool), groups=np.arange(60)))
    assert nobody.n_touchable == 0
    assert not nobody.radius.any()


def test_a_possible_change_may_turn_a_vote_in_any_direction():
    # one label 1 of three makes a vote for 1, two make a vote for 0
    X, Z = np.random.default_rng(0).normal(size=(9, 2)), np.zeros((1, 2))
    model = CertifiedPartitionClassifier(EveryLabelCounts(), 3, classes=[0, 1])
    partition = clone(model).fit(X, np.zeros(9, dtype=int)).partition_
    y = np.zeros(9, dtype=int)
    y[[np.argmax(partition == number) for number in range(3)]] = 1
    certificate = model.fit(X, y).certify(Z, adversary=Adversary(allowed=[(0, 1)]))
    assert certificate.prediction == 1
    assert certificate.radius == 1
    attacks, cost = possible_attacks(y, 2, allowed=[(0, 1)])
    attacks, cost = attacks[cost <= 2], cost[cost <= 2]
    turned = np.array([clone(model).fit(X, attack).predict(Z)[0] == 0 for attack in attacks])
    assert least_cost(cost, turned) == 2


def test_changes_that_are_not_possible_do_not_count():
    X, y, Z = blobs(60)
    model = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X, y)
    partition, own = model.partition_, model.certify(Z)
    some = model.certify(Z, adversary=Adversary(allowed=[(0, 1)]))
    assert some.n_touchable == 30
    np.testing.assert_array_equal(some.radius, own.radius)  # every partition has a label 0
    only_one = y.copy()
    only_one[partition < 5] = 1
    model.fit(X, only_one)
    certificate = model.certify(Z, adversary=Adversary(allowed=[(0, 1)]))
    assert np.all(certificate.radius == certificate.n_touchable)  # five votes for 1 are out of reach


# --- what the partition depends on


def test_the_partition_depends_on_features_alone():
    rng = np.random.default_rng(0)
    X, y, Z = blobs(500, 3)
    model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 20, classes=range(3))
    expected, prediction = clone(model).fit(X, y).partition_, clone(model).fit(X, y).predict(Z)
    assert np.ptp(np.bincount(expected, minlength=20)) <= 1
    np.testing.assert_array_equal(clone(model).fit(X, rng.permutation(y)).partition_, expected)
    for order in (rng.permutation(500), np.argsort(y, kind="stable"), np.arange(500)[::-1]):
        moved = clone(model).fit(X[order], y[order])
        np.testing.assert_array_equal(moved.partition_, expected[order])
        np.testing.assert_array_equal(moved.predict(Z), prediction)
    np.testing.assert_array_equal(clone(model).fit(np.asfortranarray(X), y).partition_, expected)
    narrow = X.astype(np.float32)
    np.testing.assert_array_equal(
        clone(model).fit(narrow, y).partition_, clone(model).fit(narrow.astype(float), y).partition_
    )


@pytest.mark.slow
def test_base_learners_see_their_rows_in_the_same_order_for_any_order_of_all_rows():
    X, y, _ = blobs(50)
    order = np.argsort(y, kind="stable")
    models = [CertifiedPartitionClassifier(Spy(), 4).fit(X[rows], y[rows]) for rows in (np.arange(50), order)]
    for one, two in zip(*(model.estimators_ for model in models), strict=True):
        np.testing.assert_array_equal(one.X_, two.X_)
        np.testing.assert_array_equal(one.y_, two.y_)


def test_the_partition_of_a_row_says_nothing_about_its_label():
    # rows that come sorted by label, with features that are whole numbers: parts must have some of each class
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 2000)
    X = rng.integers(-1, 2, size=(4000, 12)).astype(float)
    model = CertifiedPartitionClassifier(DecisionTreeClassifier(max_depth=1), 40).fit(X, y)
    share = np.array([y[model.partition_ == p].mean() for p in range(40)])
    assert np.abs(share - 0.5).max() < 0.2  # four standard deviations
    # and neither does each single feature
    means = np.array([X[model.partition_ == p].mean(axis=0) for p in range(40)])
    assert np.abs(means - X.mean(axis=0)).max() < 0.4


def test_both_zeros_are_the_same_number_and_columns_differ():
    X = np.random.default_rng(0).integers(-1, 2, size=(300, 8)).astype(float)
    y = np.arange(300) % 2
    model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 7)
    expected = clone(model).fit(X, y).partition_
    np.testing.assert_array_equal(clone(model).fit(np.where(X == 0, -0.0, X), y).partition_, expected)
    assert not np.array_equal(clone(model).fit(X[:, ::-1], y).partition_, expected)


def test_rows_alike_are_told_apart_by_their_order_and_that_is_said():
    X, y, Z = blobs(60)
    model = CertifiedPartitionClassifier(GaussianNB(), 5).fit(np.ones_like(X), y)
    np.testing.assert_array_equal(model.partition_, np.arange(60) % 5)
    assert Assumption("equal-rows-by-order", {"n_equal": 59, "n_rows": 60}) in model.assumptions_
    assert all(one.code != "equal-rows-by-order" for one in model.fit(X, y).certify(Z).assumptions)


def test_hashes_of_small_numbers_do_not_collide():
    X = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=9)))
    model = CertifiedPartitionClassifier(DecisionTreeClassifier(max_depth=1), 2).fit(X, np.arange(len(X)) % 2)
    assert all(one.code != "equal-rows-by-order" for one in model.assumptions_)


def test_features_are_learnt_from_all_rows_without_labels():
    X, y, Z = blobs(120, 2, k=6)
    model = CertifiedPartitionClassifier(GaussianNB(), 6, features=PCA(2)).fit(X, y)
    by_hand = PCA(2, random_state=0).fit(X)
    np.testing.assert_allclose(model.features_.components_, by_hand.components_)
    plain = CertifiedPartitionClassifier(GaussianNB(), 6).fit(by_hand.transform(X), y)
    np.testing.assert_array_equal(plain.partition_, model.partition_)
    again = clone(model).fit(X, y[::-1])
    np.testing.assert_array_equal(again.partition_, model.partition_)
    step = {"role": "features step", "step": "PCA", "but": ()}
    assert Assumption("fitted-without-labels", step) in model.certify(Z).assumptions


class ThreadsMatter(TransformerMixin, BaseEstimator):
    """Features that depend on the number of threads: more than last bits, so that nobody misses it."""

    def fit(self, X, y=None):
        self.factor_ = sum(threads())
        return self

    def transform(self, X):
        return X * self.factor_


def test_features_give_the_same_partition_for_any_number_of_threads():
    X, y, _ = blobs(100)
    found = []
    for limit in (1, 2):
        with threadpool_limits(limits=limit):
            model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 6, features=ThreadsMatter()).fit(X, y)
            found.append((model.features_.factor_, model.partition_.tolist()))
    assert found[0] == found[1]


# --- base learners


def test_a_partition_with_one_class_votes_for_it():
    X, _, Z = blobs(60)
    model = CertifiedPartitionClassifier(LogisticRegression(), 6, classes=["no", "yes"]).fit(X, ["no"] * 60)
    assert set(model.predict(Z)) == {"no"}
    assert set(model.certify(Z).radius) == {3}  # three against three is a tie, which the first class wins
    y = np.where(model.partition_ == 4, "yes", "no")
    y[np.flatnonzero(model.partition_ == 2)[:5]] = "yes"
    model.fit(X, y)
    votes = votes_of(model, Z)
    assert np.all(votes[:, 4] == 1)
    assert np.all(np.delete(votes, [2, 4], axis=1) == 0)
    assert isinstance(model.estimators_[2], LogisticRegression)


def test_a_learner_with_the_fewest_votes_it_can_have():
    X, y, Z = blobs(10)
    for n_partitions in (1, 10):
        certificate = CertifiedPartitionClassifier(n_partitions=n_partitions).fit(X, y).certify(Z)
        assert set(certificate.radius) == {0}  # one vote can be turned; five against five, and one more decides


def test_scores_are_shares_of_votes_and_ties_go_to_the_lowest_class():
    X, y, Z = blobs(100, 3)
    words = np.array(["a", "b", "c"])
    model = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X, words[y])
    votes = votes_of(model, Z)
    counts = np.stack([(votes == c).sum(axis=1) for c in range(3)], axis=1)
    np.testing.assert_array_equal(model.decision_function(Z), counts / 6)
    np.testing.assert_array_equal(model.predict(Z), words[counts.argmax(axis=1)])
    assert np.any((counts == counts.max(axis=1)[:, None]).sum(axis=1) > 1)
    two = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X[y < 2], y[y < 2])
    scores = two.decision_function(Z)
    np.testing.assert_array_equal(scores > 0, two.predict(Z) == 1)
    np.testing.assert_array_equal(np.abs(scores) * 6, two.certify(Z).margin)


def less_their_mean(X):
    return X - X.mean(axis=0)


FOR_BITS = {
    "logistic": LogisticRegression(),
    "scaled logistic": make_pipeline(StandardScaler(), MinMaxScaler(), LogisticRegression()),
    "robust ridge": make_pipeline(RobustScaler(), RidgeClassifier()),
    "svm": LinearSVC(),
    "sgd without intercept": SGDClassifier(fit_intercept=False),
    "tree": DecisionTreeClassifier(),
    "forest": RandomForestClassifier(5, n_jobs=2),
    "extra trees": ExtraTreesClassifier(5),
    "boosting": HistGradientBoostingClassifier(max_iter=2),
    "centroid": NearestCentroid(),
    "support vectors": SVC(),
    "components": make_pipeline(PCA(4), LogisticRegression()),
    "company": make_pipeline(FunctionTransformer(less_their_mean), LogisticRegression()),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "K"), [(name, 2) for name in FOR_BITS] + mostly_slow([(name, 3) for name in list(FOR_BITS)[:7]], fast=())
)
def test_batches_threads_and_jobs_do_not_change_a_vote(name, K):
    X, y, Z = blobs(120, K, k=30)
    Z = np.vstack([Z[:5], np.rint(Z[5:10])])
    results = []
    for threads, n_jobs in ((1, None), (2, None), (1, 2)) if name == "forest" and K == 3 else ((1, None), (2, None)):
        with threadpool_limits(limits=threads):
            model = CertifiedPartitionClassifier(FOR_BITS[name], 3, n_jobs=n_jobs).fit(X, y)
            results.append(model.partition_votes(Z))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[-1], results[0])
    alone = np.vstack([model.partition_votes(Z[i : i + 1]) for i in range(len(Z))])
    np.testing.assert_array_equal(alone, results[0])
    plain = np.stack([[base.predict(row[None])[0] for base in model.estimators_] for row in Z])
    np.testing.assert_array_equal(plain, results[0])
    certificate = model.certify(Z[::-1])
    np.testing.assert_array_equal(certificate.prediction[::-1], model.predict(Z))
    np.testing.assert_array_equal(certificate.radius[::-1], model.certify(Z).radius)


@pytest.mark.few(1)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_rows_on_the_decision_boundary_get_the_same_vote_in_any_batch(K, scaled):
    # scores there are a few last bits, which other rows in the same product change
    X, y, _ = blobs(120, K, k=50)
    base = make_pipeline(StandardScaler(), LogisticRegression()) if scaled else LogisticRegression()
    model = CertifiedPartitionClassifier(base, 2).fit(X, y)
    scaler = model.estimators_[0][0] if scaled else StandardScaler(with_mean=False, with_std=False).fit(X)
    linear = model.estimators_[0][-1] if scaled else model.estimators_[0]
    coef, intercept = linear.coef_, linear.intercept_
    w, b = (coef[0], intercept[0]) if K == 2 else (coef[0] - coef[1], intercept[0] - intercept[1])
    rows = np.random.default_rng(0).normal(size=(400, 50)) - (3 * coef[2] if K == 3 else 0)
    for _ in range(3):
        rows -= ((rows @ w + b) / (w @ w))[:, None] * w
    Z = scaler.inverse_transform(rows)
    at_once = model.estimators_[0].predict(Z)
    alone = np.concatenate([model.estimators_[0].predict(Z[i : i + 1]) for i in range(len(Z))])
    assert np.any(at_once != alone)  # the danger is real
    np.testing.assert_array_equal(model.partition_votes(Z)[:, 0], alone)
    np.testing.assert_array_equal(model.partition_votes(Z[7:9])[:, 0], alone[7:9])


class Spy(ClassifierMixin, BaseEstimator):
    """Remembers what it was given, and how many threads there were."""

    def __init__(self, random_state=None, step=None):
        self.random_state = random_state
        self.step = step

    def fit(self, X, y):
        self.classes_, self.X_, self.y_ = np.unique(y), X, y
        self.seen_ = [threads()]
        return self

    def predict(self, X):
        self.seen_.append((*threads(), *X[:, 0]))
        X[:] = 0  # an unkind thing to do
        return np.full(len(X), self.classes_[-1])


def threads():
    return max(pool["num_threads"] for pool in threadpool_info()), effective_n_jobs(-1)


@pytest.mark.few(1)
@pytest.mark.parametrize("random_state", [None, 5, np.random.RandomState(3)])
def test_base_learners_work_alone_and_with_a_fixed_random_state(random_state):
    X, y, Z = blobs(40)
    spy = Spy(random_state, step=DecisionTreeClassifier(random_state=random_state))
    with threadpool_limits(limits=2):
        model = CertifiedPartitionClassifier(spy, 4).fit(X, np.array(["x", "z"])[y])
        before = Z.copy()
        assert set(model.predict(Z[:3])) == {"z"}
    np.testing.assert_array_equal(Z, before)
    for number, base in enumerate(model.estimators_):
        assert base.seen_[0] == (1, 1)
        assert base.seen_[-3:] == [(1, 1, Z[0, 0]), (1, 1, Z[1, 0]), (1, 1, Z[2, 0])]
        assert {(seen[:2], len(seen)) for seen in base.seen_[1:]} == {((1, 1), 3)}
        assert base.random_state == base.step.random_state == (5 if random_state == 5 else 0)
        rows = np.flatnonzero(model.partition_ == number)
        assert {tuple(row) for row in base.X_} == {tuple(row) for row in X[rows]}
        assert set(base.y_) <= {"x", "z"}
    assert spy.random_state is random_state


def test_a_base_learner_without_scikit_learn_in_it_will_do():
    class Plain:
        def get_params(self, deep=True):
            return {}

        def set_params(self):
            return self

        def fit(self, X, y):
            self.most = max(set(y.tolist()), key=y.tolist().count)
            return self

        def predict(self, X):
            return np.full((len(X), 1), self.most)  # in a column, as some libraries do

    X, y, Z = blobs(40)
    y[:30] = 1
    assert set(CertifiedPartitionClassifier(Plain(), 4).fit(X, y).predict(Z)) == {1}


# --- what is said, and what is refused


def test_certificates_say_what_they_rest_on():
    X, y, Z = blobs(60)
    model = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X, y)
    certificate = flipproof.certify(model, Z)
    assert certificate.method == "gap"
    assert np.isnan(certificate.noise)
    assert np.isnan(certificate.log_failure).all()
    assert np.isnan(certificate.witness).all()
    assert certificate.witness.shape == (40, 2)
    assert certificate.n_train == certificate.n_touchable == 60
    assert certificate.assumptions == (
        Assumption("labels-only"),
        Assumption("classes-read", {"n_classes": 2}),
        Assumption("base-learner-reproducible", {"step": "GaussianNB"}),
        Assumption("partitions-chosen"),
    )
    all_of_it = Adversary(trusted=y == 0, allowed=[(1, 0)], groups=np.arange(60) % 9)
    limits = model.certify(Z, adversary=all_of_it)
    assert limits.assumptions == (
        *certificate.assumptions,
        Assumption("trusted-labels", {"n_trusted": int((y == 0).sum()), "n_labels": 60}),
        Assumption("changes-allowed", {"changes": [(1, 0)], "n_changes": 1}),
        Assumption("changes-partly-used", {"method": "gap"}),
        Assumption("annotators", {"n_annotators": limits.n_touchable}),
        Assumption("annotators-bounded"),
    )
    assert "gap" in repr(certificate)
    assert summarize(model.predict(Z), [certificate], [0, 1]).methods[0].name == "gap"


BAD_SETTINGS = {
    "no partitions": ({"n_partitions": 0}, "'n_partitions' .* integer of at least 1. Got 0 instead"),
    "half a partition": ({"n_partitions": 2.5}, "'n_partitions' .* integer of at least 1. Got 2.5 instead"),
    "true": ({"n_partitions": True}, "'n_partitions' .* integer of at least 1. Got True instead"),
    "more partitions than rows": ({"n_partitions": 61}, "at most the number of training rows, 60. Got 61 instead"),
    "a word": ({"estimator": "tree"}, "'estimator' .* scikit-learn classifier. Got 'tree' instead"),
    "a regression": ({"estimator": LinearRegression()}, r"'estimator' .* Got LinearRegression\(\) instead"),
    "a transformer": ({"estimator": StandardScaler()}, r"'estimator' .* Got StandardScaler\(\) instead"),
    "a class": ({"estimator": GaussianNB}, "'estimator' .* Got <class .*GaussianNB'> instead"),
    "a base learner that needs more rows": (
        {"estimator": make_pipeline(PCA(9), GaussianNB()), "n_partitions": 10},
        "base learner Pipeline could not be fitted to partition 0 of 10 .6 rows, 2 classes.: n_components=9 must be",
    ),
    "features not a transformer": ({"features": "pca"}, "'features' parameter of .* a transformer.* Got 'pca' instead"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused(name):
    settings, message = BAD_SETTINGS[name]
    X, y, _ = blobs(60)
    with pytest.raises(ValueError, match=message) as error:
        CertifiedPartitionClassifier(**{"n_partitions": 6, **settings}).fit(X, y)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_partition_that_failed_is_named(n_jobs):
    class FailsOnSeven(GaussianNB):
        def fit(self, X, y):
            if 7.0 in X:
                raise RuntimeError("seven\n  is too many")
            return super().fit(X, y)

    X, y, _ = blobs(60)
    X[30, 0] = 7
    model = CertifiedPartitionClassifier(FailsOnSeven(), 6, n_jobs=n_jobs)
    number = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X, y).partition_[30]
    with pytest.raises(ValueError, match=f"partition {number} of 6 .10 rows, 2 classes.: seven is too many"):
        model.fit(X, y)


def test_an_answer_that_is_no_class_is_refused():
    class Halves(GaussianNB):
        def predict(self, X):
            return super().predict(X) / 2

    X, y, Z = blobs(60)
    model = CertifiedPartitionClassifier(Halves(), 6).fit(X, y)
    with pytest.raises(ValueError, match=r"base learner Halves .* one of the classes \[0, 1\].* Got .*0\.5"):
        model.predict(Z)


@pytest.mark.few(2)
@pytest.mark.parametrize("method", ["exact", "tight", "kl", "guess", 1])
def test_other_methods_are_refused(method):
    X, y, Z = blobs(60)
    model = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X, y)
    with pytest.raises(ValueError, match=r"'method' parameter of .* need a label-linear learner"):
        model.certify(Z, method)


# --- real data


def test_more_of_spambase_is_certified_than_by_ridge(data_dir):
    X, y = spambase(data_dir)
    X, rows, y, truth = train_test_split(X, (y == "spam").astype(int), test_size=500, random_state=0)
    settings = {"features": StandardScaler(), "classes": [0, 1]}
    ridge = CertifiedRidgeClassifier(**settings).fit(X, y)
    trees = CertifiedPartitionClassifier(DecisionTreeClassifier(), 50, **settings).fit(X, y)
    logistic = CertifiedPartitionClassifier(n_partitions=200, **settings).fit(X, y)
    flips = [0, 5, 50]
    by_ridge, by_trees, by_logistic = (
        certified_accuracy(truth, model.certify(rows), flips) for model in (ridge, trees, logistic)
    )
    assert by_trees[0] > by_ridge[0] + 0.02
    assert by_logistic[2] > by_ridge[2] + 0.05
    # the labels that an attack on one row would change first, where the lead is smallest: it holds at the radius
    certificate = trees.certify(rows)
    for i in np.argsort(certificate.margin)[20:80:20]:
        radius = int(certificate.radius[i])
        against = np.flatnonzero(votes_of(trees, rows[[i]])[0] == certificate.prediction[i])[:radius]
        poisoned = y.copy()
        for number in against:
            poisoned[np.flatnonzero(trees.partition_ == number)[0]] = certificate.rival[i]
        assert clone(trees).fit(X, poisoned).predict(rows[[i]]) == certificate.prediction[i]
