"""What checking labels buys: the simulation against fits by hand."""

import matplotlib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from flipproof import CertifiedForestClassifier, CertifiedRidgeClassifier, certified_accuracy
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
    levers = np.isin(np.arange(120), labels_to_audit(model, Z, top=30).rows)
    assert np.count_nonzero(levers) == 30
    trusted = clone(model).set_params(classes=["a", "b"]).fit(X, Y, trusted=levers)
    assert found[30, "levers", "votes"] == tuple(certified_accuracy(TRUTH, trusted.certify(Z), [0, 5, 20]))
    alone = clone(PRIOR).fit(X[levers], Y[levers]).score(Z, TRUTH)
    assert found[30, "levers", "prior alone"] == (alone,) * 3


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


def test_frame_plot_and_test_rows_without_labels():
    model = CertifiedRidgeClassifier().fit(X, Y)
    plan = plan_audit(model, Z, budget=[10], X=X, y=Y, flips=[0, 5], prior=PRIOR)
    assert not plan.is_accuracy
    assert plan.before[0] == 1.0
    frame = plan.to_frame()
    assert len(frame) == 1 + len(plan.checks) == 7
    matplotlib.use("Agg")
    assert len(plan.plot().lines) == 7


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": [0]}, "budget"),
        ({"budget": [121]}, "budget"),
        ({"error_rate": 1.0}, "error_rate"),
        ({"y": Y[::-1], "budget": [10]}, "other labels"),
    ],
)
def test_plans_that_are_impossible_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        plan_audit(CertifiedRidgeClassifier().fit(X, Y), Z, TRUTH, **{"X": X, "y": Y, **given})
