"""Newton's method for softmax regression finds scikit-learn's minimum from any start, and correct influences."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from undefended_problems import clusters

from flipproof.attacks.undefended.logistic import contrasts
from flipproof.attacks.undefended.logistic_target import RowSearch, logistic_target
from flipproof.attacks.undefended.search import fewest, fewest_from, narrowed
from flipproof.attacks.undefended.strategies import InfluenceAttack, by_influence, change_in_rounds, choose_again
from flipproof.attacks.undefended.victim import NO_FLIPS
from flipproof.runtime.progress import StopSign


def exact_model(**parameters):
    return LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=10_000, **parameters)


def coefficients(fit, n_classes):
    """Return scikit-learn's coefficients, the intercept last: one row for two classes."""
    W = contrasts(len(fit.present)) @ fit.weights
    return (W[1] - W[0])[None] if n_classes == 2 else W


def scikit_learn_coefficients(model):
    both = np.hstack([model.coef_, model.intercept_[:, None]])[:, : model.n_features_in_ + model.fit_intercept]
    return both if len(both) == 1 else both - both.mean(axis=0)  # a common shift of the intercepts changes nothing


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_minimum_equals_that_of_scikit_learn(K, C, fit_intercept):
    X, y, Z = clusters(0, 150, K, k=3, spread=2.0)
    model = exact_model(C=C, fit_intercept=fit_intercept).fit(X, y)
    target = logistic_target(model, X, y, Z, None, "attack")
    np.testing.assert_allclose(coefficients(target.clean, K), scikit_learn_coefficients(model), atol=1e-6)
    decision = model.decision_function(Z)
    logits = target.clean.logits(target.Z, K)
    if K == 2:
        np.testing.assert_allclose(logits[:, 1] - logits[:, 0], decision, atol=1e-5)
    else:
        np.testing.assert_allclose(
            logits - logits.mean(axis=1, keepdims=True), decision - decision.mean(axis=1, keepdims=True), atol=1e-5
        )


def test_the_unpenalized_minimum_equals_that_of_scikit_learn():
    X, y, Z = clusters(0, 150, 3, k=2, spread=3.0)  # cannot be separated
    model = exact_model(C=np.inf).fit(X, y)
    np.testing.assert_allclose(
        coefficients(logistic_target(model, X, y, Z, None, "attack").clean, 3),
        scikit_learn_coefficients(model),
        atol=1e-5,
    )


@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("changed", [1, 10, 70])
def test_a_warm_start_from_other_labels_reaches_the_same_minimum(changed, C):
    X, y, Z = clusters(1, 100, 3, k=2)
    target = logistic_target(exact_model(C=C).fit(X, y), X, y, Z, None, "attack")
    codes = y.copy()
    codes[:changed] = (codes[:changed] + 1) % 3
    np.testing.assert_allclose(
        target.regression.fit(codes, target.clean).weights, target.regression.fit(codes).weights, rtol=1e-5, atol=1e-5
    )


def test_a_class_without_rows_is_left_out_as_in_scikit_learn():
    X, y, Z = clusters(2, 80, 3, spread=2.0)
    model = exact_model().fit(X, y)
    target = logistic_target(model, X, y, Z, None, "attack")
    codes = np.where(y == 1, 2, y)
    fit = target.regression.fit(codes, target.clean)
    logits = fit.logits(target.Z, 3)
    assert (logits[:, 1] == -np.inf).all()
    np.testing.assert_allclose(logits[:, 2] - logits[:, 0], clone(model).fit(X, codes).decision_function(Z), atol=1e-5)


@pytest.mark.parametrize("K", [2, 3])
def test_watched_fits_give_the_correct_sign_of_the_margin(K):
    X, y, Z = clusters(3, 200, K, m=30, spread=2.0)
    target = logistic_target(exact_model().fit(X, y), X, y, Z, None, "attack")
    rng = np.random.default_rng(0)
    for row in range(len(Z)):
        search = RowSearch(target, row, None, StopSign())
        codes = np.where(rng.random(len(y)) < 0.1 * (row % 5), rng.integers(0, K, size=len(y)), y)
        watched = target.regression.fit(codes, target.clean, (search.z, search.winner))
        full = target.regression.fit(codes)
        signs = [fit.logits(search.z[None], K)[0].argmax() == search.winner for fit in (watched, full)]
        assert signs[0] == signs[1]


@pytest.mark.parametrize("K", [2, 4])
def test_influence_predicts_the_effect_of_a_single_flip_on_the_margin(K):
    X, y, Z = clusters(4, 3000, K, m=2, k=3, spread=2.0)  # many rows, so that one is a small change
    target = logistic_target(exact_model().fit(X, y), X, y, Z, None, "attack")
    search = RowSearch(target, 0, None, StopSign())
    for rival in search.rivals():
        order, gains = by_influence(search, target.clean, rival, NO_FLIPS)
        before = search.logits[search.winner] - search.logits[rival]
        assert (np.diff(gains) <= 0).all()
        for place in (0, len(order) // 2):
            codes = y.copy()
            codes[order.rows[place]] = order.labels[place]
            after = target.regression.fit(codes, target.clean).logits(search.z[None], K)[0]
            taken = before - (after[search.winner] - after[rival])
            np.testing.assert_allclose(taken, gains[place], rtol=0.05)


@pytest.mark.few(1)
@pytest.mark.parametrize("K", [2, 3])
def test_choosing_labels_again_reduces_the_number_of_flips(K):
    X, y, Z = clusters(3, 300, K, m=10, k=6, spread=1.0)
    target = logistic_target(LogisticRegression(C=10.0).fit(X, y), X, y, Z, None, "attack")
    in_rounds, afresh = [], []
    for row in range(len(Z)):
        search = RowSearch(target, row, None, StopSign())
        change_in_rounds(search, search.rivals()[0])
        in_rounds.append(search.best.count)
        choose_again(search)
        afresh.append(search.best.count)
        assert search.refit(search.best.order.first(search.best.count), None)[0] <= 0
    assert (np.array(afresh) <= in_rounds).all()
    assert sum(afresh) < 0.95 * sum(in_rounds)
    attacked = InfluenceAttack(reverse=False).attack(target.victim.model, X, y, Z)
    assert attacked.flips_needed.sum() < 0.95 * sum(in_rounds)


@pytest.mark.parametrize("enough", [1, 2, 3, 7, 64, 65, 1000])
def test_searches_return_the_smallest_sufficient_number_of_flips(enough):
    looked_at = []

    def margin(count):
        looked_at.append(count)
        return enough - 0.5 - count

    assert fewest(margin, 2000, at_none=enough - 0.5) == enough
    assert len(looked_at) <= 2 + 2 * np.log2(enough + 1)
    assert fewest(margin, enough, at_none=enough - 0.5) == enough
    assert fewest(margin, enough - 1, at_none=enough - 0.5) is None
    assert narrowed(margin, 0, 2000, np.inf, -np.inf) == enough
    for start in {1, max(1, enough - 3), enough}:
        assert fewest_from(margin, start, 2000) == enough
        assert fewest_from(margin, start, enough) == enough
        assert fewest_from(margin, start, enough - 1) is None


def test_a_search_that_converges_from_one_side_only_switches_to_bisection():
    looked_at = []

    def margin(count):  # linear interpolation always lands next to the lower end
        looked_at.append(count)
        return 1e-9 if count < 900 else -1e9

    assert narrowed(margin, 0, 1000, 1e-9, -1e9) == 900
    assert len(looked_at) <= 25
