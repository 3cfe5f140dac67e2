"""Attacks on logistic regression: refits confirm them, and they are never below the enumerated minimum."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from tiers import mostly_slow
from undefended_problems import assert_true, clusters, fewest_by_brute_force, fitted, labelled_clusters

from flipproof import Adversary
from flipproof.attacks.undefended.strategies import DistanceAttack, InfluenceAttack, strongest, undefended_attack

ATTACKS = {
    "influence": InfluenceAttack(),
    "influence forward": InfluenceAttack(reverse=False),
    "distance": DistanceAttack(),
    "distance forward": DistanceAttack(reverse=False),
}


def run(name, model, X, y, Z, adversary=None, **options):
    if name == "best":
        return undefended_attack(model, X, y, Z, adversary, **options)
    attack = ATTACKS[name]
    return type(attack)(reverse=attack.reverse, **options).attack(model, X, y, Z, adversary)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["influence", "distance", "best"])
@pytest.mark.parametrize(("n", "K", "C"), mostly_slow([(7, 2, 1.0), (7, 2, 100.0), (6, 3, 1.0)], fast=(0, 2)))
def test_attacks_never_use_fewer_flips_than_the_enumerated_minimum(name, n, K, C, truth):
    X, y, Z, model, fewest = truth(n, K, C)
    result = run(name, model, X, y, Z)
    assert_true(result, model, X, y, Z)
    assert (np.where(result.success, result.flips_needed, np.inf) >= fewest).all()


@pytest.fixture(scope="module")
def truth():
    known = {}

    def of(n, K, C):
        if (n, K, C) not in known:
            X, y, Z = clusters(3, n, K, m=20)
            model = fitted(X, y, C=C)
            known[n, K, C] = X, y, Z, model, fewest_by_brute_force(model, X, y, Z)
        return known[n, K, C]

    return of


@pytest.mark.few(1)
@pytest.mark.parametrize(("n", "K", "C"), [(7, 2, 1.0), (7, 2, 100.0), (6, 3, 1.0)])
def test_the_best_attack_is_usually_minimal(n, K, C, truth):
    X, y, Z, model, fewest = truth(n, K, C)
    result = run("best", model, X, y, Z)
    assert np.isfinite(fewest).any()
    assert np.mean(np.where(result.success, result.flips_needed, np.inf) == fewest) >= 0.7


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["influence", "distance", "best"])
def test_string_labels_and_pipelines_can_be_attacked(name):
    X, y, Z = labelled_clusters()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(100 * X, y)
    result = run(name, model, 100 * X, y, 100 * Z)
    assert_true(result, model, 100 * X, y, 100 * Z)
    assert result.success.all()
    assert result.n_refits > len(Z)
    assert result.attempted.all()


def test_scaling_in_a_pipeline_gives_the_same_attack_as_scaling_beforehand():
    X, y, Z = labelled_clusters()
    scaler = StandardScaler().fit(X)
    inside = InfluenceAttack().attack(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), X, y, Z)
    before = InfluenceAttack().attack(
        fitted(scaler.transform(X), y, max_iter=100), scaler.transform(X), y, scaler.transform(Z)
    )
    np.testing.assert_array_equal(inside.flips_needed, before.flips_needed)


@pytest.mark.few(2)
@pytest.mark.parametrize("parameters", [{"C": 0.05}, {"C": np.inf}, {"fit_intercept": False}, {"solver": "newton-cg"}])
@pytest.mark.parametrize("K", [2, 4])
def test_every_accepted_kind_of_logistic_regression_can_be_attacked(K, parameters):
    X, y, Z = clusters(1, 120, K, m=6, spread=2.0)
    model = fitted(X, y, **parameters)
    result = run("best", model, X, y, Z)
    assert_true(result, model, X, y, Z)
    assert result.success.mean() >= 0.5


def test_influence_needs_fewer_flips_than_distance_and_combining_them_is_no_worse():
    X, y, Z = labelled_clusters(n=400)
    model = fitted(X, y)
    influence, distance, best = (run(name, model, X, y, Z) for name in ("influence", "distance", "best"))
    assert best.success.all()
    assert influence.flips_needed.sum() < distance.flips_needed.sum()
    assert (best.flips_needed <= np.minimum(influence.flips_needed, distance.flips_needed)).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["influence", "distance"])
@pytest.mark.parametrize("K", [2, 3])
def test_also_trying_the_reverse_order_never_needs_more_flips(name, K):
    X, y, Z = clusters(5, 90, K, m=10, spread=2.0)
    model = fitted(X, y)
    forward, both = run(f"{name} forward", model, X, y, Z), run(name, model, X, y, Z)
    never = len(y) + 1
    assert (
        np.where(both.success, both.flips_needed, never) <= np.where(forward.success, forward.flips_needed, never)
    ).all()


def test_the_reverse_order_can_need_fewer_flips():
    # the nearest rows do not help: a distant one has all the leverage
    X = np.concatenate([np.linspace(-1, -0.5, 20), np.linspace(0.5, 1, 20), [60.0]])[:, None]
    y = np.repeat([0, 1], [20, 21])
    model = fitted(X, y)
    Z = np.array([[0.9]])
    forward, both = run("distance forward", model, X, y, Z), run("distance", model, X, y, Z)
    assert both.flips_needed[0] < forward.flips_needed[0]
    assert both.rows[0][0] == 40
    assert_true(both, model, X, y, Z)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["influence", "distance", "best"])
@pytest.mark.parametrize("K", [2, 3])
def test_trusted_labels_are_unchanged_and_only_allowed_changes_are_made(name, K):
    X, y, Z = clusters(2, 80, K, m=8, spread=2.0)
    model = fitted(X, y)
    trusted = np.random.default_rng(0).random(len(y)) < 0.4
    allowed = [(0, 1)] if K == 2 else [(0, 1), (1, 2), (2, 1)]
    result = run(name, model, X, y, Z, Adversary(trusted=trusted, allowed=allowed))
    assert_true(result, model, X, y, Z)
    assert result.success.any()
    for rows, new in zip(result.rows, result.new_labels, strict=True):
        assert not trusted[rows].any()
        assert {(int(old), int(e)) for old, e in zip(y[rows], new, strict=True)} <= set(allowed)


@pytest.fixture(scope="module")
def restricted_truth():
    X, y, Z = clusters(3, 6, 3, m=12)
    model = fitted(X, y)
    trusted, allowed = np.arange(6) == 4, {(0, 1), (1, 0), (2, 0)}

    def may_change(new):
        changed = new != y
        return not (changed & trusted).any() and set(zip(y[changed], new[changed], strict=True)) <= allowed

    fewest = fewest_by_brute_force(model, X, y, Z, may_change)
    return X, y, Z, model, Adversary(trusted=trusted, allowed=sorted(allowed)), fewest


@pytest.mark.parametrize("name", ["influence", "distance", "best"])
def test_restricted_attacks_never_use_fewer_flips_than_their_enumerated_minimum(name, restricted_truth):
    X, y, Z, model, adversary, fewest = restricted_truth
    result = run(name, model, X, y, Z, adversary)
    assert_true(result, model, X, y, Z)
    assert (np.where(result.success, result.flips_needed, np.inf) >= fewest).all()


@pytest.mark.parametrize("name", ["influence", "distance", "best"])
def test_an_attack_is_impossible_if_every_label_is_trusted(name):
    X, y, Z = labelled_clusters()
    result = run(name, fitted(X, y), X, y, Z, Adversary(trusted=np.ones(len(y), dtype=bool)))
    assert not result.success.any()
    assert result.attempted.all()
    assert result.n_refits == 0
    assert (result.flips_needed == -1).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["influence", "distance", "best"])
def test_attacks_stay_within_max_flips(name):
    X, y, Z = labelled_clusters()
    model = fitted(X, y)
    most = int(np.median(run("best", model, X, y, Z).flips_needed))
    few = run(name, model, X, y, Z, max_flips=most)
    assert_true(few, model, X, y, Z, max_flips=most)
    assert not few.success.all()
    assert few.attempted.all()
    none = run(name, model, X, y, Z, max_flips=0)
    assert not none.success.any()


def test_the_result_does_not_depend_on_the_number_of_threads():
    X, y, Z = clusters(4, 150, 3, m=9, spread=2.0)
    model = fitted(X, y)
    one, two = (undefended_attack(model, X, y, Z, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.flips_needed, two.flips_needed)
    assert one.n_refits == two.n_refits
    for a, b in zip(one.rows, two.rows, strict=True):
        np.testing.assert_array_equal(a, b)


def test_attacks_need_far_fewer_refits_than_flips():
    X, y, Z = clusters(6, 1500, 2, m=6, k=3)
    result = InfluenceAttack().attack(fitted(X, y, C=0.001), X, y, Z)
    assert result.success.all()
    assert result.flips_needed.min() > 100
    assert result.n_refits < 30 * len(Z)


def test_an_attack_continues_until_a_refit_of_the_model_confirms_it():
    X, y, Z = labelled_clusters(n=400)
    loose = LogisticRegression(tol=0.5).fit(X, y)  # stops long before the minimum
    result = undefended_attack(loose, X, y, Z)
    assert_true(result, loose, X, y, Z)
    assert result.success.mean() > 0.5


def test_an_attack_may_remove_a_class_if_two_classes_remain():
    X, y, _ = clusters(8, 30, 3)
    y[y == 2] = 1
    y[:1] = 2  # the only one
    X[0] = [30.0, 30.0]
    model = fitted(X, y)
    result = undefended_attack(model, X, y, X[:1])
    assert result.prediction[0] == 2
    assert result.flips_needed[0] == 1
    assert result.rows[0].tolist() == [0]


def test_strongest_keeps_the_attack_with_the_fewest_flips_for_each_row():
    X, y, Z = labelled_clusters()
    model = fitted(X, y)
    a, b = run("distance", model, X, y, Z), run("influence", model, X, y, Z, max_flips=10)
    best = strongest(a, b)
    assert_true(best, model, X, y, Z)
    never = len(y) + 1
    both = np.minimum(*(np.where(one.success, one.flips_needed, never) for one in (a, b)))
    np.testing.assert_array_equal(np.where(best.success, best.flips_needed, never), both)
    assert best.n_refits == a.n_refits + b.n_refits
    assert best.attack == "best of distance attack, influence attack"
    assert 0 < b.success.sum() < len(Z)
    with pytest.raises(ValueError, match="same predictions"):
        strongest(a, run("distance", model, X, y, Z[:3]))
    with pytest.raises(ValueError, match="at least one"):
        strongest()


def test_accuracy_decreases_with_the_number_of_flips():
    X, y, Z = labelled_clusters()
    model = fitted(X, y)
    result = undefended_attack(model, X, y, Z)
    curve = result.accuracy(model.predict(Z), flips=[0, 5, 10, 50, 200])
    assert curve[0] == 1.0
    assert curve[-1] == 0.0
    assert (np.diff(curve) <= 0).all()


def test_verbose_prints_progress_to_stderr(capsys):
    X, y, Z = labelled_clusters()
    model = fitted(X, y)
    InfluenceAttack().attack(model, X, y, Z)
    assert capsys.readouterr().err == ""
    InfluenceAttack(verbose=1).attack(model, X, y, Z)
    out, err = capsys.readouterr()
    assert out == ""
    assert "12 of 12 test rows, 12 overturned" in err


def test_data_frames_and_series_are_accepted():
    X, y, Z = labelled_clusters(n=60, m=3)
    frame, labels = pd.DataFrame(X, columns=list("abcd")), pd.Series(y, index=range(100, 160))
    test = pd.DataFrame(Z, columns=list("abcd"), index=list("xyz"))
    inside = undefended_attack(fitted(frame, labels), frame, labels, test)
    plain = undefended_attack(fitted(X, y), X, y, Z)
    np.testing.assert_array_equal(inside.flips_needed, plain.flips_needed)
    for one, other in zip(inside.rows, plain.rows, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_model_fitted_with_weights_or_on_other_rows_is_refused():
    X, y, Z = labelled_clusters(n=2000, m=30)
    weighted = LogisticRegression().fit(X, y, sample_weight=np.where(y == "benign", 20.0, 1.0))
    with pytest.raises(ValueError, match="without sample weights"):
        undefended_attack(weighted, X, y, Z)
    unseeded = fitted(X, y, solver="sag")
    assert undefended_attack(unseeded, X, y, Z[:2], max_flips=1).attempted.all()


X, Y, Z = labelled_clusters(n=40, m=3)
MODEL = fitted(X, Y)
FALLBACK = "use AnyClassifierAttack"


@pytest.mark.parametrize("attack", [InfluenceAttack().attack, DistanceAttack().attack, undefended_attack])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LogisticRegression(), X, Y, Z), "not fitted"),
        ((MODEL, X[:-1], Y, Z), "one entry per training row. Got 39 and 40"),
        ((MODEL, X[:, :2], Y, Z), "4 features, but X has 2"),
        ((MODEL, X, Y, Z[:, :2]), "2 features"),
        ((MODEL, X, Y.reshape(-1, 1), Z), "one label per training row"),
        ((MODEL, X, np.where(Y == "benign", "good", Y), Z), "fitted on y"),
        ((MODEL, X, np.where(Y == "benign", "malignant", "benign"), Z), "fitted on X and y"),
        ((MODEL, X, Y, Z, "trust me"), "flipproof.Adversary"),
        ((MODEL, X, Y, Z, Adversary(groups=np.arange(40))), "without groups"),
        ((MODEL, X, Y, Z, Adversary(trusted=[True])), "one entry per training row"),
        ((LogisticRegression, X, Y, Z), FALLBACK),
        ((DecisionTreeRegressor().fit(X, np.arange(40.0)), X, Y, Z), FALLBACK),
        ((KNeighborsClassifier().fit(X, Y), X, Y, Z), FALLBACK),
        ((make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(X, Y), X, Y, Z), FALLBACK),
        ((fitted(X, Y).set_params(penalty="elasticnet"), X, Y, Z), "penalty='elasticnet'"),
        ((fitted(X, Y).set_params(l1_ratio=0.5), X, Y, Z), "l1_ratio=0.5"),
        ((fitted(X, Y, class_weight="balanced"), X, Y, Z), "class_weight='balanced'"),
        ((fitted(X, Y, solver="liblinear"), X, Y, Z), "solver='liblinear'"),
    ],
)
def test_bad_input_raises_a_clear_error(attack, arguments, message):
    with pytest.raises(ValueError, match=message):
        attack(*arguments)


def test_cross_validated_logistic_regression_is_refused():
    with pytest.raises(ValueError, match=FALLBACK):  # it chooses C by the labels
        InfluenceAttack().attack(LogisticRegressionCV(), X, Y, Z)


@pytest.mark.parametrize("most", [-1, 2.5, True, "3"])
def test_an_invalid_max_flips_is_refused(most):
    for attack in (InfluenceAttack(max_flips=most), DistanceAttack(max_flips=most)):
        with pytest.raises(ValueError, match="'max_flips' parameter of"):
            attack.attack(MODEL, X, Y, Z)
    with pytest.raises(ValueError, match="'max_flips' parameter of"):
        undefended_attack(MODEL, X, Y, Z, max_flips=most)


def test_an_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="metric"):
        DistanceAttack(metric="miles").attack(MODEL, X, Y, Z)
