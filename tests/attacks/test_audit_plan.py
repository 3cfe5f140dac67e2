"""What checking labels buys: the simulation against fits by hand."""

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
    certified_accuracy,
)
from flipproof.attacks import labels_to_audit, plan_audit

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(120, 4)), RNG.normal(size=(60, 4))
Y, TRUTH = (np.where(rows[:, 0] + 0.5 * RNG.normal(size=len(rows)) > 0, "a", "b") for rows in (X, Z))
PRIOR = DecisionTreeClassifier(max_depth=2, random_state=0)


def _plan(model, **given):
    return plan_audit(model, Z, TRUTH, [10, 30], X=X, y=Y, flips=[0, 5, 20], prior=PRIOR, **given)


def test_shares_are_those_of_fits_with_the_checked_labels_trusted():
    model = CertifiedRidgeClassifier().fit(X, Y)
    plan = _plan(model)
    found = {(one.n_checked, one.chosen, one.used): one.certified for one in plan.checks}
    assert {used for _, _, used in found} == {"votes", "prior", "alone", "prior alone"}
    assert plan.before == tuple(certified_accuracy(TRUTH, model.certify(Z), [0, 5, 20]))
    attacked = np.isin(np.arange(120), labels_to_audit(model, Z, top=30).rows)
    assert np.count_nonzero(attacked) == 30
    trusted = clone(model).set_params(classes=["a", "b"]).fit(X, Y, trusted=attacked)
    assert found[30, "attacks", "votes"] == tuple(certified_accuracy(TRUTH, trusted.certify(Z), [0, 5, 20]))
    alone = clone(PRIOR).fit(X[attacked], Y[attacked]).score(Z, TRUTH)
    assert found[30, "attacks", "prior alone"] == (alone,) * 3


def test_the_cheapest_way_to_a_target():
    plan = _plan(CertifiedRidgeClassifier().fit(X, Y))
    best = max(one.certified[2] for one in plan.checks)
    cheapest = plan.cheapest(best, 20)
    assert cheapest.certified[2] == best
    assert plan.cheapest(1.01, 20) is None
    assert plan.cheapest(0.0, 20).n_checked == 10
    with pytest.raises(ValueError, match="flips"):
        plan.cheapest(0.5, 7)


def test_trees_can_be_grown_with_checked_labels():
    plan = _plan(CertifiedForestClassifier(5).fit(X, Y))
    assert {one.used for one in plan.checks} == {"votes", "prior", "geometry", "alone", "prior alone"}
    assert repr(plan).startswith("<AuditPlan: certified accuracy at 20 flips")


def test_checks_that_are_wrong_make_the_prior_worse():
    model = CertifiedRidgeClassifier().fit(X, Y)

    def mean(plan):
        return np.mean([one.certified[0] for one in plan.checks if one.used == "prior alone"])

    assert mean(_plan(model, error_rate=0.5)) < mean(_plan(model))


@pytest.mark.slow
def test_frame_plot_and_test_rows_without_labels():
    model = CertifiedRidgeClassifier().fit(X, Y)
    plan = plan_audit(model, Z, budget=[10], X=X, y=Y, flips=[0, 5], prior=PRIOR)
    assert not plan.is_accuracy
    assert plan.before[0] == 1.0
    frame = plan.to_frame()
    assert len(frame) == 1 + len(plan.checks) == 7
    assert frame["certified_share_5"].tolist() == [plan.before[1], *(one.certified[1] for one in plan.checks)]
    matplotlib.use("Agg")
    drawn = plan.plot(flips=5, target=0.9)
    labels = [one.get_text() for one in drawn.get_legend().get_texts()]
    pyplot.close(drawn.figure)
    assert labels == ["votes", "prior", "attacks", "random", "diversity", "no check", "target"]


def test_labels_that_are_trusted_already_stay_so_and_are_not_checked_again():
    known = np.arange(120) % 3 == 0
    model = CertifiedRidgeClassifier(classes=["a", "b"]).fit(X, Y, trusted=known)
    plan = _plan(model)
    assert plan.n_trusted == 40
    assert plan.before == tuple(certified_accuracy(TRUTH, model.certify(Z), [0, 5, 20]))
    for one in plan.checks:
        if one.used == "votes":
            assert all(now >= before for now, before in zip(one.certified, plan.before, strict=True))
    all_others = plan_audit(model, Z, TRUTH, [80], X=X, y=Y, flips=[80], prior=PRIOR)
    accuracy = float(np.mean(model.predict(Z) == TRUTH))
    assert {one.certified[0] for one in all_others.checks if one.used == "votes"} == {accuracy}
    with pytest.raises(ValueError, match="budget"):
        plan_audit(model, Z, TRUTH, [81], X=X, y=Y)


def test_rows_in_data_frames_with_words():
    import pandas as pd

    from flipproof.tables import TableEncoder

    def frame(rows):
        return pd.DataFrame({"number": rows[:, 0], "word": np.where(rows[:, 1] > 0, "up", "down")})

    model = CertifiedRidgeClassifier(features=TableEncoder()).fit(frame(X), Y)
    plan = plan_audit(model, frame(Z), TRUTH, [30], X=frame(X), y=pd.Series(Y), flips=[0])
    assert {one.used for one in plan.checks} == {"votes", "prior", "alone", "prior alone"}
    assert max(one.certified[0] for one in plan.checks) > 0.7
    assert isinstance(plan.to_frame(), pd.DataFrame)


def test_equal_rows_are_not_checked_twice():
    rows = np.repeat(X[:40], 3, axis=0)
    labels = np.repeat(Y[:40], 3)
    model = CertifiedRidgeClassifier(classes=["a", "b"]).fit(rows, labels)
    plan = plan_audit(model, Z, TRUTH, [120], X=rows, y=labels, flips=[120], prior=PRIOR)
    accuracy = float(np.mean(model.predict(Z) == TRUTH))
    assert {one.certified[0] for one in plan.checks if one.used == "votes"} == {accuracy}  # all labels are trusted


@pytest.mark.parametrize(
    "learner",
    [
        CertifiedRidgeClassifier(),
        CertifiedKernelClassifier(),
        CertifiedNeighborsClassifier(7),
        CertifiedClusterClassifier(),
        CertifiedForestClassifier(5),
        CertifiedPropagationClassifier(),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("features", [None, StandardScaler()], ids=["raw", "scaled"])
def test_every_learner_is_simulated_as_it_would_be_fitted(learner, features):
    model = clone(learner).set_params(classes=["a", "b"], features=clone(features) if features else None).fit(X, Y)
    plan = plan_audit(model, Z, TRUTH, [20], X=X, y=Y, flips=[0, 5, 20], prior=PRIOR)
    found = {(one.chosen, one.used): one.certified for one in plan.checks}
    attacked = np.isin(np.arange(120), labels_to_audit(model, Z, top=20).rows)

    def shares(**parameters):
        fitted = clone(model).set_params(**parameters).fit(X, Y, trusted=attacked)
        return tuple(certified_accuracy(TRUTH, fitted.certify(Z), [0, 5, 20]))

    for way in ("attacks", "random", "diversity"):
        assert found[way, "votes"][0] == plan.before[0]
    assert found["attacks", "votes"] == shares()
    assert found["attacks", "prior"] == shares(prior=PRIOR)  # a tree of ranks: scaling does not matter
    if "grow" in learner.get_params():
        assert found["attacks", "geometry"] == shares(grow="supervised")


@pytest.mark.parametrize("step", [LinearDiscriminantAnalysis(), SelectKBest(k=2)], ids=["LDA", "SelectKBest"])
def test_features_that_need_labels_are_learned_from_checked_ones_too(step):
    known = np.arange(120) % 4 == 0
    model = CertifiedRidgeClassifier(features=step, classes=["a", "b"]).fit(X, Y, trusted=known)
    plan = _plan(model)
    found = {(one.n_checked, one.chosen, one.used): one.certified for one in plan.checks}
    checked = known | np.isin(np.arange(120), labels_to_audit(model, Z, top=30).rows)
    expected = clone(model).fit(X, Y, trusted=checked).certify(Z)
    assert found[30, "attacks", "geometry"] == tuple(certified_accuracy(TRUTH, expected, [0, 5, 20]))
    as_votes = model.certify(Z, adversary=Adversary(trusted=checked))
    assert found[30, "attacks", "votes"] == tuple(certified_accuracy(TRUTH, as_votes, [0, 5, 20]))
    alone = clone(model).fit(X[checked], Y[checked], trusted=np.ones(checked.sum(), dtype=bool)).predict(Z)
    assert found[30, "attacks", "alone"] == (float(np.mean(alone == TRUTH)),) * 3


def test_labels_that_are_trusted_already_may_reach_a_target_without_a_check():
    known = np.arange(120) % 2 == 0
    plan = _plan(CertifiedRidgeClassifier(classes=["a", "b"]).fit(X, Y, trusted=known))
    now = {one.used: one.certified for one in plan.checks if not one.n_checked}
    assert set(now) == {"prior", "alone", "prior alone"}
    alone = clone(PRIOR).fit(X[known], Y[known]).score(Z, TRUTH)
    assert now["prior alone"] == (alone,) * 3
    assert plan.before[2] < alone
    assert plan.cheapest(alone, 20).n_checked == 0


def test_fits_that_a_plan_would_not_repeat_are_refused():
    weighted = CertifiedRidgeClassifier().fit(X, Y, sample_weight=np.arange(120) % 2 + 1.0)
    with pytest.raises(ValueError, match="weight 1"):
        _plan(weighted)
    with pytest.raises(ValueError, match="reference"):
        _plan(CertifiedRidgeClassifier().fit(X, Y, reference=X))
    with pytest.raises(ValueError, match="without a prior"):
        _plan(CertifiedRidgeClassifier(prior=clone(PRIOR).fit(X, Y)).fit(X, Y))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": [0]}, "budget"),
        ({"budget": [121]}, "budget"),
        ({"budget": [10.5]}, "whole numbers"),
        ({"flips": [-1], "budget": [10]}, "flips"),
        ({"flips": [], "budget": [10]}, "flips"),
        ({"error_rate": 1.0}, "error_rate"),
        ({"y": Y[::-1], "budget": [10]}, "other labels"),
    ],
)
def test_plans_that_are_impossible_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        plan_audit(CertifiedRidgeClassifier().fit(X, Y), Z, TRUTH, **{"X": X, "y": Y, **given})


@pytest.mark.parametrize(
    "learner",
    [
        CertifiedRidgeClassifier(),
        CertifiedRidgeClassifier(features=StandardScaler()),
        CertifiedNeighborsClassifier(n_neighbors=15),
        CertifiedKernelClassifier(),
        CertifiedForestClassifier(20),
    ],
    ids=lambda one: f"{type(one).__name__}{'' if one.features is None else ' of features'}",
)
def test_other_rows_with_the_same_labels_are_refused(learner):
    others = np.random.default_rng(1).normal(size=X.shape)
    for trusted in (None, np.arange(120) % 3 == 0):
        model = clone(learner).fit(X, Y, trusted=trusted)
        for rows in (others, X[::-1], 2 * X + 1):
            with pytest.raises(ValueError, match="Got other rows"):
                plan_audit(model, Z, TRUTH, [10], X=rows, y=Y, prior=PRIOR)
        assert plan_audit(model, Z, TRUTH, [10], X=X, y=Y, flips=[0], prior=PRIOR).checks


def test_a_learner_that_differs_from_fit_to_fit_is_not_refused():
    drawn = np.random.default_rng(2)

    class Draws(LabelLinearClassifier):
        def fit_without_labels(self, X):
            self.weights_ = drawn.integers(1, 1000, size=len(X))

        def label_free_weights(self, Z):
            return np.tile(self.weights_, (len(Z), 1))

    model = Draws().fit(X, Y)
    assert plan_audit(model, Z, TRUTH, [10], X=X, y=Y, flips=[0], prior=PRIOR).checks


def test_numbers_of_flips_are_in_order():
    """The plot shows the largest by default, and refuses a number that the plan does not have."""
    matplotlib.use("Agg")
    plan = plan_audit(CertifiedRidgeClassifier().fit(X, Y), Z, TRUTH, [10], X=X, y=Y, flips=[20, 0, 20], prior=PRIOR)
    assert plan.flips == (0, 20)
    assert "at 20 changed labels" in plan.plot().get_ylabel()
    pyplot.close("all")
    with pytest.raises(ValueError, match="one of"):
        plan.plot(flips=7)
