"""Labels that are trusted in the fit, priors and supervised geometry: every attack on small problems, with refits."""

import itertools
from functools import cache

import numpy as np
import pytest
from enumeration import least_cost, possible_attacks, random_powers, touchable
from every_row_attack import fewest_changes, fewest_sources
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
    certify,
    collective_certify,
)
from flipproof.attacks import labels_to_audit, worst_flips, worst_rows

METHODS = ("exact", "tight", "kl")


class Parzen(LabelLinearClassifier):
    """A custom learner with offsets of its own and no `__init__` that knows priors."""

    def fit_without_labels(self, X):
        self.rows_ = X

    def label_free_weights(self, Z):
        offsets = np.zeros((len(Z), len(self.classes_)))
        offsets[:, 0] = 0.3
        return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2)), offsets

    def weight_of_row(self, x, z):
        return np.exp(-np.abs(z - x).sum())


LEARNERS = {
    "ridge": CertifiedRidgeClassifier(),
    "paper": CertifiedRidgeClassifier(fit_intercept=False, noise=0.2),
    "clipped": CertifiedRidgeClassifier(clip=0.7),
    "kernel": CertifiedKernelClassifier(gamma=0.5),
    "landmarks": CertifiedKernelClassifier("laplacian", gamma=0.5, n_components=3),
    "neighbors": CertifiedNeighborsClassifier(3),
    "weighted": CertifiedNeighborsClassifier(3, weights="distance"),
    "cluster": CertifiedClusterClassifier(KMeans(2, n_init=1)),
    "forest": CertifiedForestClassifier(3, min_samples_leaf=1),
    "supervised": CertifiedForestClassifier(3, min_samples_leaf=1, grow="supervised"),
    "propagation": CertifiedPropagationClassifier(2),
    "partition": CertifiedPartitionClassifier(GaussianNB(), 3),
    "custom": Parzen(),
}

PRIORS = (
    DecisionTreeClassifier(max_depth=1),
    KNeighborsClassifier(1),
    LinearSVC(),  # no probabilities
    GaussianNB(),
)


def _problem(rng, n_trusted=3, n=6):
    K = int(rng.integers(2, 4))
    X, Z = rng.normal(size=(n, 2)).round(1), rng.normal(size=(4, 2)).round(1)
    trusted = np.isin(np.arange(n), rng.permutation(n)[:n_trusted])
    y = rng.integers(K, size=n)
    y[trusted] = np.arange(n_trusted) % 2  # two classes, for priors and steps that need them
    return X, Z, y, trusted, K


def _with_prior(name, rng, K):
    learner = clone(LEARNERS[name]).set_params(classes=range(K))
    if "prior" in learner.get_params():
        learner.set_params(prior=PRIORS[rng.integers(len(PRIORS))], prior_weight=float(rng.choice([0.2, 0.7, 3.0])))
    else:
        learner.prior, learner.prior_weight = GaussianNB(), 0.7
    if rng.random() < 0.3:
        learner.set_params(features=make_pipeline(StandardScaler(), SelectKBest(k=1)))
    if rng.random() < 0.5 and isinstance(learner.get_params().get("noise"), float):
        learner.set_params(noise=1e-6)
    return learner


def _again(learner):
    """Clone a learner, with a prior that is no parameter of it."""
    made = clone(learner)
    for name in ("prior", "prior_weight"):
        setattr(made, name, getattr(learner, name))
    return made


SOME = pytest.param((0, 7), id="some")
ALL = pytest.param(range(16), id="all", marks=pytest.mark.slow)


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of scikit-learn, for equal rows
@pytest.mark.parametrize("kinds", [SOME, ALL])
@pytest.mark.parametrize("name", LEARNERS)
def test_exact_radius_is_the_truth_under_refits_with_trust_prior_groups_and_allowed_changes(name, kinds):
    rng = np.random.default_rng([7, *map(ord, name)])
    seen, largest = set(), 0
    for which in kinds:
        X, Z, y, trusted, K = _problem(rng)
        learner, powers = _with_prior(name, rng, K), random_powers(rng, len(y), K, which=which)
        fixed = trusted | powers.get("trusted", np.zeros(len(y), dtype=bool))
        model = _again(learner).fit(X, y, trusted=trusted)
        adversary = Adversary(**powers) if powers else None
        labellings, cost = possible_attacks(y, K, **{**powers, "trusted": fixed})
        refitted = np.array([_again(learner).fit(X, labels, trusted=trusted).predict(Z) for labels in labellings])
        n_touchable = touchable(y, **{**powers, "trusted": fixed})
        for method in [None] if name == "partition" else METHODS:
            found = model.certify(Z, method, adversary)
            np.testing.assert_array_equal(found.prediction, model.predict(Z))
            assert found.n_touchable == n_touchable
            for row in range(len(Z)):
                truth = least_cost(cost, refitted[:, row] != found.prediction[row])
                assert found.radius[row] < truth
                if method == "exact":
                    assert found.radius[row] == (n_touchable if truth == np.inf else truth - 1)
                    seen.add(truth == np.inf)
                largest = max(largest, found.radius[row])
    assert largest > 0 or len(kinds) < 8
    assert name == "partition" or len(kinds) < 8 or seen == {True, False}


ROW_LEARNERS = ("ridge", "clipped", "landmarks", "neighbors", "cluster", "forest", "supervised", "partition", "custom")


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of scikit-learn, for equal rows
@pytest.mark.parametrize("trusts", ["labels of the reference", pytest.param("training rows", marks=pytest.mark.slow)])
@pytest.mark.parametrize("most", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ROW_LEARNERS)
def test_no_changed_rows_within_the_radius_change_a_refit_with_trust_and_prior(name, most, trusts):
    rng = np.random.default_rng([11, *map(ord, name)])
    for changes in ("rows", "insertions", "removals"):
        X, Z, y, trusted, K = _problem(rng, n_trusted=3, n=5)
        K, y, Z = 2, y % 2, Z[:2]
        learner = _with_prior(name, rng, K)
        reference = np.vstack([rng.normal(size=(5, 2)).round(1), Z[:1]])
        labels = {} if trusts == "training rows" else {"reference_labels": np.arange(6) % 2}

        def fit(rows, learner=learner, reference=reference, labels=labels):
            """Fit to rows (features, label, is_free)."""
            features = np.array([row for row, _, _ in rows]).reshape(-1, 2)
            is_trusted = np.array([not is_free for _, _, is_free in rows], dtype=bool)
            codes = np.array([label for _, label, _ in rows], dtype=np.int64)
            return _again(learner).fit(features, codes, reference=reference, trusted=is_trusted, **labels)

        start = tuple(sorted((tuple(x), int(c), not bool(t)) for x, c, t in zip(X, y, trusted, strict=True)))
        model = fit(start)
        found = model.certify(Z, adversary=Adversary(changes=changes))
        additions = [(tuple(x), c, True) for x, c in itertools.product(Z.tolist(), range(K))]
        for row in range(len(Z)):
            z = Z[row : row + 1]
            truth = fewest_changes(
                start, additions, changes, lambda state, z=z, fit=fit: fit(state).predict(z)[0], most
            )
            assert truth is None or found.radius[row] < truth[0]
            if changes == "removals" and name != "partition" and truth is not None:
                assert found.radius[row] == truth[0] - 1
            if name in ("forest", "supervised", "cluster") and found.radius[row] < most:
                assert truth is not None  # copies of the test row attain the radius


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of scikit-learn, for equal rows
@pytest.mark.parametrize("changes", ["removals", pytest.param("rows", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ROW_LEARNERS)
def test_no_sources_within_the_radius_change_a_refit_with_trust_and_prior(name, changes):
    """Rows, sources, rows that are trusted in the fit and by the adversary, and a prior: every attack, with refits."""
    rng = np.random.default_rng([13, *map(ord, name)])
    n_attained = 0
    for _ in range(3):
        X, Z, y, trusted, K = _problem(rng, n_trusted=2, n=5)
        K, y, Z = 2, y % 2, Z[:2]
        learner, sources = _with_prior(name, rng, K), rng.integers(3, size=5)
        reference = np.vstack([rng.normal(size=(5, 2)).round(1), Z[:1]])
        also_trusted = trusted | (rng.random(5) < 0.2)

        def fit(state, learner=learner, reference=reference, trusted=trusted, X=X):
            features = np.array([row for row, _, _ in state]).reshape(-1, 2)
            codes = np.array([label for _, label, _ in state], dtype=np.int64)
            is_trusted = np.array([not is_free and bool((X[trusted] == row).all(1).any()) for row, _, is_free in state])
            labels = np.arange(len(reference)) % 2
            return _again(learner).fit(
                features, codes, reference=reference, reference_labels=labels, trusted=is_trusted.astype(bool)
            )

        rows = [(tuple(x), int(c), not bool(t)) for x, c, t in zip(X, y, also_trusted, strict=True)]
        adversary = Adversary(changes=changes, groups=sources, trusted=also_trusted)
        found = fit(rows).certify(Z, adversary=adversary)
        additions = [(tuple(x), c, True) for x, c in itertools.product(Z.tolist(), range(K))]
        predictions = cache(lambda state, fit=fit, Z=Z: fit(state).predict(Z))
        for row in range(len(Z)):
            predict = lambda state, row=row, predictions=predictions: predictions(state)[row]  # noqa: E731
            truth = fewest_sources(rows, sources.tolist(), additions, changes, predict, 2)
            assert truth is None or found.radius[row] < truth[0]
            if changes == "removals" and name not in ("partition", "neighbors"):
                assert found.radius[row] == (truth[0] - 1 if truth else found.n_touchable) or found.radius[row] >= 2
            n_attained += truth is not None
    assert n_attained or changes == "removals" or name in ("partition", "neighbors")


@pytest.mark.parametrize(("n_problems", "most"), [(3, 1), pytest.param(8, 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
def test_neighbours_with_a_prior_have_exact_radii_in_rows(changes, n_problems, most):
    rng = np.random.default_rng(3)
    n_attained = 0
    for _ in range(n_problems):
        reference = rng.integers(3, size=(4, 1)).astype(float)
        rows = [((float(rng.integers(3)),), int(rng.integers(2)), bool(rng.random() < 0.7)) for _ in range(4)]
        start = tuple(sorted(rows))
        prior = FrozenEstimator(DecisionTreeClassifier(max_depth=1).fit([[0.0], [0.0], [2.0], [2.0]], [0, 1, 1, 1]))
        learner = CertifiedNeighborsClassifier(
            2, prior=prior, prior_weight=float(rng.choice([0.5, 1.0])), classes=[0, 1]
        )

        def fit(state, learner=learner, reference=reference):
            X = np.array([row for row, _, _ in state]).reshape(-1, 1)
            trusted = np.array([not is_free for _, _, is_free in state], dtype=bool)
            return clone(learner).fit(X, [label for _, label, _ in state], reference=reference, trusted=trusted)

        Z = np.array([[0.0], [1.0], [2.0]])
        found = fit(start).certify(Z, adversary=Adversary(changes=changes))
        additions = [((x,), c, True) for x in (0.0, 1.0, 2.0) for c in (0, 1)]
        for row in range(len(Z)):
            z = Z[row : row + 1]
            truth = fewest_changes(
                start, additions, changes, lambda state, z=z, fit=fit: fit(state).predict(z)[0], most
            )
            if truth is None:
                assert found.radius[row] >= most or found.unlimited[row]
            else:
                assert found.radius[row] == truth[0] - 1
                n_attained += 1
    assert n_attained


STEPS = {
    "discriminant": LinearDiscriminantAnalysis(),
    "selected": make_pipeline(StandardScaler(), SelectKBest(k=2)),
    "none": None,
}


@pytest.mark.few(2)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", LEARNERS)
def test_permuting_all_untrusted_labels_changes_no_bit_of_geometry_or_prior(name, step):
    rng = np.random.default_rng(2)
    X, y, Z = rng.normal(size=(40, 3)), np.arange(40) % 2, rng.normal(size=(9, 3))
    X[:, 0] += y
    trusted = rng.random(40) < 0.4
    learner = clone(LEARNERS[name]).set_params(features=STEPS[step], classes=[0, 1])
    learner.prior, learner.prior_weight = LogisticRegression(), 0.5
    permuted = y.copy()
    permuted[~trusted] = rng.permutation(y[~trusted])
    assert (permuted != y).any()
    one, other = (_again(learner).fit(X, labels, trusted=trusted) for labels in (y, permuted))
    assert one.prior_.predict_proba(Z).tobytes() == other.prior_.predict_proba(Z).tobytes()
    if step != "none":
        assert one.features_.transform(Z).tobytes() == other.features_.transform(Z).tobytes()
    if name == "partition":
        np.testing.assert_array_equal(one.partition_, other.partition_)
    else:
        for mine, theirs in zip(one.vote_weights(Z), other.vote_weights(Z), strict=True):
            assert mine.tobytes() == theirs.tobytes()
    assert one.assumptions_ == other.assumptions_


def test_a_plain_certify_excludes_labels_that_the_prior_has_read():
    """Without that, a single changed label, which the prior has read, would break certificates."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(12, 2)), rng.normal(size=(40, 2))
    y, trusted = (X[:, 0] > 0).astype(int), np.arange(12) < 4
    learner = CertifiedRidgeClassifier(prior=KNeighborsClassifier(1), prior_weight=0.5, classes=[0, 1])
    model = learner.fit(X, y, trusted=trusted)
    assert model.certify(Z).n_touchable == 8
    [said] = [one for one in model.certify(Z).assumptions if one.code == "trusted-at-fit"]
    assert (said.values["n_trusted"], said.values["readers"]) == (4, ("the prior",))
    naive = clone(learner).fit(X, y, trusted=trusted)
    naive.is_trusted_ = np.zeros(12, dtype=bool)  # as if nothing had been trusted
    radius, broken = naive.certify(Z).radius, 0
    for row in np.flatnonzero(trusted):
        changed = y.copy()
        changed[row] = 1 - changed[row]
        after = clone(learner).fit(X, changed, trusted=trusted).predict(Z)
        broken += np.count_nonzero((after != model.predict(Z)) & (radius > 0))
    assert broken > 0


def test_attacks_never_use_labels_that_were_trusted_in_the_fit():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(30, 2)), rng.normal(size=(12, 2))
    y, trusted = (X[:, 0] > 0).astype(int), np.arange(30) % 3 == 0
    model = CertifiedRidgeClassifier(prior=GaussianNB(), prior_weight=0.3, classes=[0, 1]).fit(X, y, trusted=trusted)
    attack, audit = worst_flips(model, Z), labels_to_audit(model, Z)
    assert attack.success.any()
    for row in np.flatnonzero(attack.success):
        assert not trusted[attack.rows[row]].any()
        changed = y.copy()
        changed[attack.rows[row]] = attack.new_labels[row]
        again = clone(model).fit(X, changed, trusted=trusted)
        assert again.predict(Z[row : row + 1])[0] != attack.prediction[row]
    assert len(audit.rows)
    assert not trusted[audit.rows].any()
    together = collective_certify(model, Z, 4, method="exact")
    assert not trusted[together.rows].any()
    changed = y.copy()
    changed[together.rows] = together.new_labels
    n_changed = np.count_nonzero(clone(model).fit(X, changed, trusted=trusted).predict(Z) != model.predict(Z))
    assert n_changed == together.most_changed


@pytest.mark.parametrize("name", ["ridge", "neighbors", "forest", "supervised"])
def test_attacks_by_rows_are_confirmed_with_a_prior_and_leave_trusted_rows(name):
    rng = np.random.default_rng(1)
    X, Z, reference = rng.normal(size=(24, 2)), rng.normal(size=(8, 2)), rng.normal(size=(20, 2))
    y, trusted = (X[:, 0] > 0).astype(int), np.arange(24) % 3 == 0
    learner = clone(LEARNERS[name]).set_params(prior=GaussianNB(), prior_weight=0.4, classes=[0, 1])
    labels = (reference[:, 0] > 0).astype(int)
    model = learner.fit(X, y, reference=reference, reference_labels=labels, trusted=trusted)
    for changes in ("rows", "removals"):
        adversary = Adversary(changes=changes)
        attack = worst_rows(model, Z, adversary, reference=reference, X_train=X)
        radius = model.certify(Z, adversary=adversary).radius
        assert attack.success.any()
        for row in np.flatnonzero(attack.success):
            assert not trusted[attack.removed[row]].any()
            assert attack.changes_needed[row] > radius[row]
        assert attack.is_smallest[attack.success].all()


def test_what_was_trusted_stays_trusted_after_partial_fit_and_forget():
    rng = np.random.default_rng(5)
    X, y, Z, reference = rng.normal(size=(20, 2)), np.arange(20) % 2, rng.normal(size=(5, 2)), rng.normal(size=(9, 2))
    trusted = np.arange(20) < 5
    learner = CertifiedRidgeClassifier(prior=GaussianNB(), classes=[0, 1])
    model = clone(learner).fit(X[:12], y[:12], reference=reference, trusted=trusted[:12])
    model.partial_fit(X[12:], y[12:]).forget([7, 9])
    kept = np.delete(np.arange(20), [7, 9])
    whole = clone(learner).fit(X[kept], y[kept], reference=reference, trusted=trusted[kept])
    for adversary in (None, Adversary(changes="rows")):
        one, other = (each.certify(Z, adversary=adversary) for each in (model, whole))
        np.testing.assert_array_equal(one.radius, other.radius)
        assert one.assumptions == other.assumptions
        assert one.n_touchable == other.n_touchable == 13
    with pytest.raises(ValueError, match="the prior"):
        model.forget([2])
    assert model.n_rows_ == 18
    no_prior = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y, reference=reference, trusted=trusted).forget([2])
    assert np.count_nonzero(no_prior.is_trusted_) == 4


def test_pipelines_and_searches_hand_trusted_masks_on():
    rng = np.random.default_rng(6)
    X, y, Z = rng.normal(size=(40, 3)), np.arange(40) % 2, rng.normal(size=(5, 3))
    trusted = np.arange(40) % 4 == 0
    learner = CertifiedRidgeClassifier(prior=DecisionTreeClassifier(), classes=[0, 1])
    pipeline = make_pipeline(StandardScaler(), learner).fit(X, y, certifiedridgeclassifier__trusted=trusted)
    assert certify(pipeline, Z).n_touchable == 30
    search = GridSearchCV(learner, {"prior__max_depth": [1, 2]}, cv=2).fit(X, y, trusted=trusted)
    assert certify(search, Z).n_touchable == 30


def test_a_fitted_prior_is_used_as_it_is_and_said_so():
    rng = np.random.default_rng(4)
    X, y, Z = rng.normal(size=(30, 2)), np.arange(30) % 2, rng.normal(size=(6, 2))
    prior = GaussianNB().fit(rng.normal(size=(8, 2)), np.arange(8) % 2)
    model = CertifiedRidgeClassifier(prior=prior, prior_weight=2.0, classes=[0, 1]).fit(X, y)
    before = model.certify(Z)
    assert before.n_touchable == 30
    assert "fitted-elsewhere" in [one.code for one in before.assumptions]
    prior.fit(X, 1 - y)  # the model has a copy
    np.testing.assert_array_equal(model.certify(Z).margin, before.margin)
    alpha, offsets = model.vote_weights(Z)
    np.testing.assert_array_equal(model.classes_[(alpha @ np.eye(2)[y] + offsets).argmax(axis=1)], before.prediction)
    frozen = clone(CertifiedRidgeClassifier(prior=FrozenEstimator(model.prior_), classes=[0, 1])).fit(X, y)
    assert frozen.prior_.estimator.class_count_.sum() == 8


def test_a_prior_of_great_weight_decides_alone():
    rng = np.random.default_rng(4)
    X, y, Z = rng.normal(size=(30, 2)), np.arange(30) % 2, rng.normal(size=(6, 2))
    trusted = np.arange(30) < 9
    for name in LEARNERS:
        learner = clone(LEARNERS[name]).set_params(classes=[0, 1])
        learner.prior, learner.prior_weight = DecisionTreeClassifier(), 3.0
        model = learner.fit(X, y, trusted=trusted)
        found = model.certify(Z)
        if name != "paper":  # whose offset may be larger
            np.testing.assert_array_equal(found.prediction, model.prior_.predict(Z))
            np.testing.assert_array_equal(found.radius, 21)


@pytest.mark.parametrize("name", ["ridge", "neighbors", "forest"])
def test_a_prior_keeps_its_share_of_the_votes_with_sample_weights(name):
    rng = np.random.default_rng(4)
    X, y, Z = rng.normal(size=(30, 2)), np.arange(30) % 2, rng.normal(size=(6, 2))
    for given in ({}, {"reference": X[:15]}):
        learner = clone(LEARNERS[name]).set_params(classes=[0, 1], prior=DecisionTreeClassifier(), prior_weight=1.5)
        model = learner.fit(X, y, sample_weight=rng.random(30), trusted=np.arange(30) < 9, **given)
        np.testing.assert_array_equal(model.predict(Z), model.prior_.predict(Z))
        np.testing.assert_array_equal(model.certify(Z).radius, 21)


class _Strange(GaussianNB):
    answer = None

    def predict_proba(self, X):
        return np.full((len(X), 2), np.nan) if self.answer is None else self.answer


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        ({"prior": GaussianNB()}, {}, "trusted"),
        ({"prior": 3}, {}, "prior"),
        ({"prior_weight": -1.0}, {}, "prior_weight"),
        ({"prior_weight": np.inf}, {}, "prior_weight"),
        ({"prior": _Strange()}, {"trusted": np.arange(8) < 4}, "NaN"),
        ({"prior": GaussianNB().fit([[0.0, 0.0], [1.0, 1.0]], ["a", "b"])}, {}, "class"),
        ({}, {"reference_labels": [0, 1]}, "reference"),
        ({}, {"reference": np.eye(2), "reference_labels": [0, 1, 1]}, "must have one label per row of the reference, "),
        ({}, {"reference": np.eye(2), "reference_labels": [0, 7]}, "7"),
        ({}, {"trusted": np.arange(7) < 4}, "Got 7 for 8 rows instead"),
        ({}, {"trusted": [1, 2]}, "mask"),
        ({"features": LinearDiscriminantAnalysis()}, {}, "trusted"),
        ({"features": PLSRegression(9)}, {"trusted": np.arange(8) < 4}, "features"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, given, said):
    X, y = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2
    with pytest.raises(ValueError, match=said):
        CertifiedRidgeClassifier(classes=[0, 1], **arguments).fit(X, y, **given)


def test_supervised_trees_need_trusted_labels():
    X, y = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2
    with pytest.raises(ValueError, match="grow"):
        CertifiedForestClassifier(3, grow="supervised").fit(X, y)


def test_labels_of_the_reference_name_classes():
    X, y = np.random.default_rng(0).normal(size=(8, 2)), np.array(["a", "b"] * 4)
    model = CertifiedRidgeClassifier().fit(X, y, reference=X[:3], reference_labels=["a", "b", "c"])
    assert model.classes_.tolist() == ["a", "b", "c"]


def test_supervised_trees_separate_what_label_free_trees_do_not():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 30)), rng.integers(2, size=400)
    X[:, 3] = y + 0.1 * rng.normal(size=400)
    Z, z = X[200:], y[200:]
    trusted = np.arange(200) < 40
    for grow, least, most in (("label-free", 0.0, 0.9), ("supervised", 0.95, 1.0)):
        model = CertifiedForestClassifier(20, min_samples_leaf=0.1, max_features=None, grow=grow, classes=[0, 1])
        assert least <= model.fit(X[:200], y[:200], trusted=trusted).score(Z, z) <= most


@pytest.mark.parametrize("learner", [CertifiedNeighborsClassifier(3), CertifiedPartitionClassifier(GaussianNB(), 2)])
def test_no_first_row_makes_a_fit_with_a_reference_and_a_prior_fail(learner):
    """A tree refuses rows of this size; whoever adds such a row must not decide whether the fit succeeds."""
    reference, labels = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    X, y = np.array([[0.0], [1.0], [2.0]]), [0, 0, 1]
    learner = clone(learner).set_params(classes=[0, 1], prior=DecisionTreeClassifier(random_state=0))
    later = clone(learner).fit(X, y, reference=reference, reference_labels=labels).partial_fit([[1e150]], [1])
    first = clone(learner).fit([[1e150], *X], [1, *y], reference=reference, reference_labels=labels)
    Z = [[0.2], [2.6]]
    assert np.array_equal(first.predict(Z), later.predict(Z))
    adversary = Adversary(changes="rows")
    assert np.array_equal(first.certify(Z, adversary=adversary).radius, later.certify(Z, adversary=adversary).radius)
