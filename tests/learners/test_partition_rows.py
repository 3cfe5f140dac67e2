"""Partitions with a reference: every change of rows on small problems, and that no partition depends on others."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.decomposition import PCA
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MinMaxScaler
from sklearn.tree import DecisionTreeClassifier
from tiers import mostly_slow

from flipproof import Adversary, Assumption, CertifiedPartitionClassifier
from flipproof.attacks import worst_rows

REFERENCE = np.random.default_rng(99).normal(size=(6, 2))
ROW_CHANGES = ("rows", "insertions", "removals")


class Obeys(ClassifierMixin, BaseEstimator):
    """Predicts the label of the row with the largest first feature: one added row decides."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.answer_ = y[np.argmax(X[:, 0])]
        return self

    def predict(self, X):
        return np.full(len(X), self.answer_)


class Parity(ClassifierMixin, BaseEstimator):
    """Every change of rows or labels turns its prediction, if there are two classes."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.answer_ = self.classes_[(len(y) + int(np.sum(y))) % len(self.classes_)]
        return self

    def predict(self, X):
        return np.full(len(X), self.answer_)


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers the bits that it was given, in order."""

    def fit(self, X, y):
        self.classes_, self.bits_ = np.unique(y), (X.tobytes(), X.shape, X.dtype.str, y.tolist())
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


BASE_LEARNERS = {"tree": DecisionTreeClassifier(), "obeys": Obeys(), "parity": Parity()}


def learner(base, n_partitions, K=2, **settings):
    return CertifiedPartitionClassifier(base, n_partitions, classes=range(K), **settings)


def rows_in_every_partition(rng, model, y):
    """Rows at extreme scales and of ordinary size, one in each partition, the first feature large."""
    is_tree = isinstance(model.estimator, DecisionTreeClassifier)  # which refuses what is too large for 32 bits
    large = 1e30 if is_tree else 1e150
    scales = rng.choice([1.0, large, 1e-150, 5e-324], size=200)
    many = np.column_stack([large * (1 + rng.random(200)), rng.normal(size=200) * scales])
    numbers = clone(model).fit(many, np.resize(y, 200), reference=REFERENCE).partition_
    return np.array([many[np.argmax(numbers == number)] for number in range(model.n_partitions)])


class AfterEveryChange:
    """Predictions of models that were refitted without some rows and with some candidates, up to three of each."""

    def __init__(self, model, X, y, candidates, Z, most=3):
        self.states = []
        n = len(X)
        for gone in itertools.chain.from_iterable(itertools.combinations(range(n), size) for size in range(n + 1)):
            kept = np.delete(np.arange(n), gone)
            for n_added in range(most + 1):
                if len(gone) > most and n_added > len(gone):
                    continue
                for added in itertools.combinations_with_replacement(range(len(candidates)), n_added):
                    rows = np.vstack([X[kept], *(candidates[one][0][None] for one in added)])
                    labels = [*y[kept], *(candidates[one][1] for one in added)]
                    after = clone(model).fit(rows, labels, reference=REFERENCE).predict(Z)
                    self.states.append((set(gone), n_added, after))

    def least(self, changes, trusted=None, sources=None):
        """Return, for each test row, the least number of changes (or sources) that changes the prediction.

        The end of any sequence of r additions, removals and replacements is reached by at most r of each kind.
        """
        before = next(after for gone, n_added, after in self.states if not gone and not n_added)
        least = np.full(len(before), np.inf)
        for gone, n_added, after in self.states:
            if trusted is not None and any(trusted[one] for one in gone):
                continue
            if (changes == "insertions" and gone) or (changes == "removals" and n_added):
                continue
            if sources is None:
                cost = max(len(gone), n_added)
                if cost > 3:
                    continue
            else:
                if n_added > len(gone):  # a source replaces its rows, and adds no others
                    continue
                cost = len({sources[one] for one in gone})
            least = np.where(after != before, np.minimum(least, cost), least)
        return least


# --- every change there is


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("base", "n", "K", "n_partitions"),
    mostly_slow(
        [
            ("obeys", 4, 2, 4),
            ("tree", 3, 2, 3),
            ("parity", 3, 3, 3),
            ("tree", 4, 2, 4),
            ("tree", 3, 3, 3),
            ("obeys", 4, 3, 3),
            ("parity", 4, 2, 4),
            ("parity", 5, 2, 2),
            ("obeys", 6, 2, 4),
        ],
        fast=(0, 2, 3),
    ),
)
def test_no_change_of_rows_within_the_radius_changes_a_refitted_model(base, n, K, n_partitions):
    rng = np.random.default_rng([n, K, n_partitions, list(BASE_LEARNERS).index(base)])
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(4, 2))
    X[-1] = X[0]  # equal rows, perhaps with different labels
    y = np.where(rng.random(n) < 0.3, rng.integers(K, size=n), 0)
    model = learner(BASE_LEARNERS[base], n_partitions, K)
    added = rows_in_every_partition(rng, model, y)
    labels = [1] if n > 3 else range(K)
    candidates = [(row, label) for row in added[: 4 if n > 3 else 2] for label in labels]
    attacks = AfterEveryChange(model, X, y, candidates, Z)
    model.fit(X, y, reference=REFERENCE)
    trusted, sources = rng.random(n) < 0.4, rng.integers(max(2, n - 2), size=n)
    for changes, mask in itertools.product(ROW_CHANGES, (None, trusted)):
        certificates = model.certify(Z, adversary=Adversary(changes=changes, trusted=mask))
        least = attacks.least(changes, mask)
        assert np.all((certificates.radius < least) | certificates.unlimited)
        assert np.all(np.isinf(least[certificates.unlimited]))
        assert certificates.unit == "rows"
        if changes != "insertions":
            certificates = model.certify(Z, adversary=Adversary(changes=changes, trusted=mask, groups=sources))
            least = attacks.least(changes, mask, sources)
            assert np.all((certificates.radius < least) | certificates.unlimited)
            assert np.all(np.isinf(least[certificates.unlimited]))
            assert certificates.unit == "sources"


@pytest.mark.parametrize("K", [2, 3])
def test_insertions_attain_the_radius_where_base_learners_obey_them(K):
    rng = np.random.default_rng(K)
    n_partitions, Z = 9, np.zeros((1, 2))
    largest = 0
    for n in (0, 1, 6, 60):
        X, y = rng.normal(size=(n, 2)), np.where(rng.random(n) < 0.9, 1, rng.integers(K, size=n))
        model = learner(Obeys(), n_partitions, K).fit(X, y, reference=REFERENCE)
        certificate = model.certify(Z, adversary=Adversary(changes="insertions"))
        votes = np.array([-1 if one is None else one.predict(Z)[0] for one in model.estimators_])
        for_winner_first = np.argsort(votes != certificate.prediction[0], kind="stable")
        if K == 3:
            third = (votes != certificate.rival[0]) & (votes != certificate.prediction[0])
            for_winner_first = np.lexsort((~third, votes != certificate.prediction[0]))
        added = rows_in_every_partition(rng, model, [0, 1])[for_winner_first]
        for more, is_changed in ((0, False), (1, True)):
            r = int(certificate.radius[0]) + more
            rows, labels = np.vstack([X, added[:r]]), [*y, *[certificate.rival[0]] * r]
            after = clone(model).fit(rows, labels, reference=REFERENCE)
            assert (after.predict(Z)[0] != certificate.prediction[0]) == is_changed
        largest = max(largest, r)
    assert largest > 3


def test_replaced_rows_attain_the_radius_where_base_learners_obey_them():
    # six votes for 0; two of the partitions also have a quieter row of class 1, which speaks if the other is removed
    rng, model, Z = np.random.default_rng(5), learner(Obeys(), 6), np.zeros((1, 2))
    many = rng.normal(size=(300, 2))
    partition = clone(model).fit(many, np.zeros(300, dtype=int), reference=REFERENCE).partition_
    of_each = [many[partition == number] for number in range(6)]
    loudest = np.array([rows[np.argmax(rows[:, 0])] for rows in of_each])
    quiet = np.array([rows[np.argmin(rows[:, 0])] for rows in of_each[:2]])
    X, y = np.vstack([loudest, quiet]), np.array([0] * 6 + [1] * 2)
    certificate = model.fit(X, y, reference=REFERENCE).certify(Z, adversary=Adversary(changes="rows"))
    assert certificate.margin.tolist() == [6]
    assert certificate.radius.tolist() == [1]
    added = rows_in_every_partition(rng, model, y)

    def after(gone, more):
        rows, labels = np.vstack([np.delete(X, gone, axis=0), added[more]]), [*np.delete(y, gone), *[1] * len(more)]
        return clone(model).fit(rows, labels, reference=REFERENCE).predict(Z)[0]

    for gone, more in itertools.product([[], *([one] for one in range(8))], [[], *([one] for one in range(6))]):
        assert after(gone, more) == 0
    assert after([0, 1], [4, 5]) == 1
    trusted = model.certify(Z, adversary=Adversary(changes="rows", trusted=np.ones(8, dtype=bool)))
    assert trusted.radius.tolist() == [3]
    assert after([], [0, 1, 2]) == 0
    assert after([], [0, 1, 2, 3]) == 1


def test_rows_that_are_scaled_into_the_range_of_the_reference_do_not_make_a_fit_fail():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y, far = (X[:, 0] > 0).astype(int), [[1e308, -1e308], [5e-324, 1e200]]
    model = learner(DecisionTreeClassifier(), 3, features=MinMaxScaler(clip=True)).fit(X, y, reference=REFERENCE)
    assert model.partial_fit(far, [0, 1]).n_rows_ == 42
    with pytest.raises(ValueError, match="could not be fitted to partition"):
        learner(DecisionTreeClassifier(), 3).fit(X, y, reference=REFERENCE).partial_fit(far, [0, 1])


def test_an_added_row_that_other_base_learners_refuse_does_not_make_a_fit_fail():
    """Alone in its partition, it only decides the vote of that partition."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y, far = (X[:, 0] > 0).astype(int), rng.normal(size=(12, 2)) * 1e200
    many = learner(Obeys(), 60).fit(np.vstack([X, far]), np.append(y, [0] * 12), reference=REFERENCE)
    is_alone = ~np.isin(many.partition_[40:], many.partition_[:40])
    assert np.count_nonzero(is_alone) > 3
    for row in far[is_alone]:
        model = learner(DecisionTreeClassifier(), 60)
        after = model.fit(np.vstack([X, row]), np.append(y, 0), reference=REFERENCE).predict(X)
        joined = model.fit(X, y, reference=REFERENCE).partial_fit([row], [0])
        np.testing.assert_array_equal(joined.predict(X), after)


@pytest.mark.few(1)
@pytest.mark.parametrize("base", ["tree", "parity"])
def test_no_changed_labels_within_the_radius_change_a_refitted_model_with_a_reference(base):
    rng = np.random.default_rng(1)
    X, Z, y = rng.normal(size=(6, 2)), rng.normal(size=(4, 2)), np.array([0, 0, 1, 0, 0, 0])
    X[3:5] = X[2]
    model = learner(BASE_LEARNERS[base], 4).fit(X, y, reference=REFERENCE)
    certificates = model.certify(Z)
    for labels in itertools.product(range(2), repeat=6):
        after = clone(model).fit(X, labels, reference=REFERENCE).predict(Z)
        assert np.all((after == certificates.prediction) | (certificates.radius < np.sum(labels != y)))


@pytest.mark.slow
def test_radii_are_those_of_a_plain_search():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 2))
    y, Z = (X[:, 0] > 0) + (X[:, 1] > 1).astype(int), rng.normal(size=(30, 2))
    model = learner(DecisionTreeClassifier(), 30, 3).fit(X, y, reference=REFERENCE)
    trusted = np.isin(model.partition_, np.arange(18)) | (rng.random(300) < 0.5)
    votes = np.stack([one.predict(Z) for one in model.estimators_], axis=1)
    removable = np.isin(np.arange(30), model.partition_[~trusted])
    seen = set()
    for changes in ROW_CHANGES:
        certificates = model.certify(Z, adversary=Adversary(changes=changes, trusted=trusted))
        for i, row in enumerate(votes):
            fewest = least_by_search(np.bincount(row, minlength=3), row, removable, changes)
            assert certificates.unlimited[i] == (fewest is None)
            expected = int(np.count_nonzero(~trusted)) if fewest is None else fewest - 1
            assert certificates.radius[i] == expected
            seen.add(expected)
    assert len(seen) > 5


def least_by_search(counts, votes, removable, changes):
    winner = int(np.argmax(counts))
    for r in range(1, 31):
        for rival in set(range(3)) - {winner}:
            gains = 2 * (votes == winner) + ((votes != winner) & (votes != rival))
            for n_removed in range(r + 1 if changes != "insertions" else 1):
                # removals first, on the best removable ones; or additions first
                by_removal = sorted(np.flatnonzero(removable), key=lambda one: -gains[one])[:n_removed]
                left = np.delete(np.arange(30), by_removal)
                n_added = r if changes != "removals" else 0
                total = gains[by_removal].sum() + sum(sorted(gains[left], reverse=True)[:n_added])
                if total >= counts[winner] - counts[rival] + (winner < rival):
                    return r
    return None


def test_only_rows_that_can_be_removed_count_for_removals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y, Z = (X[:, 0] > 0).astype(int), rng.normal(size=(20, 2))
    model = learner(GaussianNB(), 6).fit(X, y, reference=REFERENCE)
    adversary = {"trusted": model.partition_ < 5, "changes": "removals"}
    unanimous = np.abs(model.decision_function(Z)) == 1
    assert unanimous.any()
    for groups in (None, np.arange(60) % 7):
        certificates = model.certify(Z, adversary=Adversary(**adversary, groups=groups))
        assert certificates.unlimited[unanimous].all()
        assert np.all(certificates.radius[unanimous] == certificates.n_touchable)
    rows = model.certify(Z, adversary=Adversary(trusted=np.ones(60, dtype=bool), changes="rows"))
    inserted = model.certify(Z, adversary=Adversary(changes="insertions"))
    np.testing.assert_array_equal(rows.radius, inserted.radius)
    assert not rows.unlimited.any()


# --- what a partition depends on


def bits_of(model):
    return [None if one is None else getattr(one, "bits_", one.predict([[0.0, 0.0]])[0]) for one in model.estimators_]


@pytest.mark.parametrize("features", [None, PCA(2)], ids=["plain", "pca"])
def test_a_base_learner_gets_the_same_bits_for_any_change_of_other_partitions(features):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)) * np.logspace(-150, 150, 90)[:, None], rng.integers(3, size=90)
    X[20:30], X[30:35] = X[10:20], 0.0
    X[35:40] = -0.0
    reference = rng.normal(size=(20, 2))
    model = learner(Recorder(), 7, 3, features=features).fit(X, y, reference=reference)
    expected = bits_of(model)
    order = rng.permutation(90)
    shuffled = clone(model).fit(X[order], y[order], reference=reference)
    np.testing.assert_array_equal(shuffled.partition_, model.partition_[order])
    assert bits_of(shuffled) == expected
    for count in (1, 10, 70):
        fewer = clone(model).fit(X[order[count:]], y[order[count:]], reference=reference)
        untouched = np.setdiff1d(np.arange(7), model.partition_[order[:count]])
        assert all(bits_of(fewer)[number] == expected[number] for number in untouched)
        np.testing.assert_array_equal(fewer.partition_, model.partition_[order[count:]])
    extra, labels = rng.normal(size=(2, 2)) * 1e100, [0, 2]
    more = clone(model).fit(np.vstack([extra, X]), [*labels, *y], reference=reference)
    untouched = np.setdiff1d(np.arange(7), more.partition_[:2])
    assert len(untouched)
    assert all(bits_of(more)[number] == expected[number] for number in untouched)


def test_rows_of_single_and_double_precision_are_the_same_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)).astype(np.float32), rng.integers(2, size=40)
    for features in (None, PCA(2)):
        model = learner(Recorder(), 5, features=features).fit(X, y, reference=REFERENCE)
        for same in (X.astype(float), np.asfortranarray(X), X.astype(float).tolist()):
            again = clone(model).fit(same, y, reference=REFERENCE)
            assert bits_of(again) == bits_of(model)
            assert again.partition_.tolist() == model.partition_.tolist()


def test_equal_rows_share_a_partition_and_the_order_of_their_labels_does_not_matter():
    X, y = np.tile([[0.0, 1.0], [-0.0, 1.0], [5e-324, 1.0]], (4, 1)), np.arange(12) % 2
    model = learner(Recorder(), 6).fit(X, y, reference=REFERENCE)
    assert len(set(model.partition_[np.arange(12) % 3 < 2])) == 1
    again = clone(model).fit(X[::-1], y[::-1], reference=REFERENCE)
    assert bits_of(again) == bits_of(model)
    assert all(one.code != "equal-rows-by-order" for one in model.assumptions_)


@pytest.mark.parametrize("K", [2, 256])
def test_empty_partitions_vote_for_nobody(K):
    X, y = np.array([[0.0, 1.0], [2.0, 3.0]]), [1, 1]
    model = learner(DecisionTreeClassifier(), 40, K)
    for n, shares in ((2, 2 / 40), (1, 1 / 40), (0, 0.0)):
        model.fit(X[:n], y[:n], reference=REFERENCE)
        assert sum(one is not None for one in model.estimators_) == n
        values = model.decision_function(X)
        assert np.all((values if K == 2 else values[:, 1]) == shares)
        assert model.predict(X).tolist() == [1 if n else 0] * 2
        for changes, n_turned in (("insertions", 1), ("rows", 1), ("removals", 1)):
            certificates = model.certify(X, adversary=Adversary(changes=changes))
            if n == 0:
                assert certificates.unlimited.all() == (changes == "removals")
            assert certificates.radius.max() <= n_turned


# --- rows that join and leave


@pytest.mark.few(1)
@pytest.mark.parametrize("base", [Recorder(), DecisionTreeClassifier(), None], ids=repr)
def test_rows_that_join_and_leave_give_the_same_model_as_one_fit(base):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y, Z = (X[:, 0] + X[:, 1] > 0).astype(int), rng.normal(size=(10, 2))
    settings = {"reference": REFERENCE}
    model = learner(base, 9, features=PCA(2)).fit(X[:50], y[:50], **settings)
    before = model.estimators_
    model.partial_fit(X[50:53], y[50:53])
    touched = set(model.partition_[50:])
    assert 0 < len(touched) < 9
    for number, (old, new) in enumerate(zip(before, model.estimators_, strict=True)):
        assert (old is new) == (number not in touched)
    model.partial_fit(X[53:], y[53:]).partial_fit(X[:0], y[:0])
    check_same(model, clone(model).fit(X, y, **settings), Z)
    before = model.estimators_
    gone = np.flatnonzero(model.partition_ == 3)
    model.forget(gone)
    assert model.estimators_[3] is None
    assert sum(old is not new for old, new in zip(before, model.estimators_, strict=True)) == 1
    check_same(model, clone(model).fit(np.delete(X, gone, axis=0), np.delete(y, gone), **settings), Z)
    model.forget(np.ones(model.n_rows_, dtype=bool)).partial_fit(X[::-1], y[::-1])
    check_same(model, clone(model).fit(X[::-1], y[::-1], **settings), Z)


def check_same(one, two, Z):
    assert one.partition_.tolist() == two.partition_.tolist()
    assert one.assumptions_ == two.assumptions_
    assert bits_of(one) == bits_of(two)
    np.testing.assert_array_equal(one.decision_function(Z), two.decision_function(Z))
    for changes in ("labels", *ROW_CHANGES):
        adversary = Adversary(changes=changes)
        certificates = [model.certify(Z, adversary=adversary) for model in (one, two)]
        np.testing.assert_array_equal(certificates[0].radius, certificates[1].radius)
        np.testing.assert_array_equal(certificates[0].rival, certificates[1].rival)


def test_a_fit_that_fails_changes_nothing():
    class FailsOnSeven(GaussianNB):
        def fit(self, X, y):
            if 7.0 in X:
                raise RuntimeError("seven")
            return super().fit(X, y)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    model = learner(FailsOnSeven(), 3).fit(X, y, reference=REFERENCE)
    before, estimators = model.certify(X), list(model.estimators_)
    with pytest.raises(ValueError, match=r"partition \d of 3 .*seven"):
        model.partial_fit([[7.0, 0.0], [1.0, 1.0]], [0, 1])
    assert model.n_rows_ == 40
    assert all(old is new for old, new in zip(estimators, model.estimators_, strict=True))
    np.testing.assert_array_equal(model.certify(X).radius, before.radius)
    model.partial_fit([[1.0, 1.0]], [1])
    assert model.n_rows_ == 41


def test_the_base_learner_of_the_fit_is_used_for_rows_that_join():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(2, size=30)
    tree = DecisionTreeClassifier(max_depth=1)
    model = learner(tree, 2).fit(X[:20], y[:20], reference=REFERENCE)
    tree.set_params(max_depth=5)
    model.set_params(n_partitions=8, estimator=GaussianNB())
    model.partial_fit(X[20:], y[20:])
    assert [one.max_depth for one in model.estimators_] == [1, 1]
    assert pickle.loads(pickle.dumps(model)).partial_fit(X, y).n_rows_ == 60


# --- what is said, and what is refused


def test_certificates_against_rows_say_what_they_rest_on():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = CertifiedPartitionClassifier(GaussianNB(), 6).fit(X, y, reference=REFERENCE)
    of_fit = (
        Assumption("classes-read", {"n_classes": 2}),
        Assumption("reference-fixed", {"n_reference": 6}),
        Assumption("base-learner-reproducible", {"step": "GaussianNB"}),
        Assumption("partitions-chosen"),
    )
    assert model.certify(X).assumptions == (Assumption("labels-only"), *of_fit)
    certificates = model.certify(X, adversary=Adversary(changes="rows", groups=np.arange(60), trusted=y == 0))
    assert certificates.assumptions == (
        Assumption("rows-changed", {"changes": "rows", "by_sources": True}),
        *of_fit,
        Assumption("base-learner-any-rows", {"step": "GaussianNB"}),
        Assumption("rows-lower-bound"),
        Assumption("trusted-rows", {"n_trusted": int((y == 0).sum()), "n_rows": 60, "can_add": False}),
        Assumption("sources", {"n_sources": int((y == 1).sum()), "changes": "rows"}),
        Assumption("sources-bounded"),
    )


def test_rows_without_a_reference_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    model = CertifiedPartitionClassifier(GaussianNB(), 4).fit(X, y)
    with pytest.raises(ValueError, match=r"reference=\.\.\."):
        model.certify(X, adversary=Adversary(changes="rows"))
    with pytest.raises(AttributeError, match=r"partial_fit .* reference=\.\.\."):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"at most the number of training rows, 20. Got 21 .*reference"):
        CertifiedPartitionClassifier(GaussianNB(), 21).fit(X, y)
    CertifiedPartitionClassifier(GaussianNB(), 21).fit(X, y, reference=REFERENCE)


def test_a_base_learner_that_is_not_reproducible_is_refused_when_rows_join():
    class EveryFitDiffers(GaussianNB):
        n_fits = 0

        def fit(self, X, y):
            EveryFitDiffers.n_fits += 1
            self.number_ = EveryFitDiffers.n_fits
            return super().fit(X, y)

        def predict(self, X):
            return np.full(len(X), self.classes_[self.number_ % 2])

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    model = learner(EveryFitDiffers(), 1).fit(X, np.zeros(20, dtype=int), reference=REFERENCE)  # one class: not used
    with pytest.raises(ValueError, match="must be reproducible"):
        model.partial_fit(X, np.arange(20) % 2)


def test_attacks_by_rows_say_that_there_is_only_a_bound():
    X, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    model = CertifiedPartitionClassifier(GaussianNB(), 2, classes=[0, 1]).fit(X, y, reference=X)
    with pytest.raises(ValueError, match="no attack on partitions: their radius is only a lower bound"):
        worst_rows(model, X)
