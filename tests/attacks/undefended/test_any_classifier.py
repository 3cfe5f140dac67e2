"""The attack on any classifier: refits confirm it, it is never below the minimum, and it stays within its budget."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from undefended_problems import assert_true, clusters, fewest_by_brute_force, labelled_clusters

from flipproof import Adversary
from flipproof.attacks.undefended.any_classifier import AnyClassifierAttack

MODELS = {
    "neighbours": KNeighborsClassifier(3),
    "tree": DecisionTreeClassifier(random_state=0),
    "logistic": LogisticRegression(),
    "support vectors": make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["neighbours", "tree"])
@pytest.mark.parametrize(("n", "K"), [(8, 2), (6, 3)])
def test_attacks_never_use_fewer_flips_than_the_enumerated_minimum(name, n, K):
    X, y, Z = clusters(1, n, K, m=15)
    model = MODELS[name].fit(X, y)
    result = AnyClassifierAttack().attack(model, X, y, Z)
    assert_true(result, model, X, y, Z)
    fewest = fewest_by_brute_force(model, X, y, Z)
    assert (np.where(result.success, result.flips_needed, np.inf) >= fewest).all()
    assert np.mean(result.flips_needed == fewest) >= 0.7


@pytest.mark.few(1)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("K", [2, 4])
def test_refits_confirm_every_reported_attack(name, K):
    X, y, Z = clusters(2, 80, K, m=8, spread=2.0)
    y = np.array(["a", "b", "c", "d"])[y]
    model = MODELS[name].fit(X, y)
    result = AnyClassifierAttack().attack(model, X, y, Z)
    assert_true(result, model, X, y, Z)
    assert result.success.mean() > 0.7
    assert result.attempted.all()


def test_attacks_on_nearest_neighbours_are_minimal():
    X, y, Z = clusters(3, 60, 2, m=20)
    model = KNeighborsClassifier(7).fit(X, y)
    result = AnyClassifierAttack().attack(model, X, y, Z)
    for_it = y[model.kneighbors(Z, return_distance=False)] == model.predict(Z)[:, None]
    np.testing.assert_array_equal(result.flips_needed, for_it.sum(axis=1) - 3)


def test_text_pipelines_can_be_attacked():
    texts = ["good film", "great good plot", "good great fun", "bad film", "boring bad plot", "bad boring mess"] * 4
    y = ["pos"] * 3 + ["neg"] * 3
    model = make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts, y * 4)
    result = AnyClassifierAttack().attack(model, texts, y * 4, ["good plot", "bad fun"])
    assert result.success.all()
    for i, text in enumerate(["good plot", "bad fun"]):
        poisoned = result.poisoned(y * 4, i)
        assert (
            make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts, poisoned).predict([text])[0]
            != (result.prediction[i])
        )


@pytest.mark.parametrize("budget", [1, 2, 5, 17, 40])
def test_the_refit_budget_is_kept_and_unattempted_rows_are_reported(budget):
    X, y, Z = clusters(4, 100, 2, m=30)
    model = DecisionTreeClassifier(random_state=0, min_samples_leaf=5).fit(X, y)
    result = AnyClassifierAttack(max_refits=budget).attack(model, X, y, Z)
    assert result.n_refits == budget
    assert not result.attempted.all()
    assert result.attempted[result.success].all()
    assert_true(result, model, X, y, Z)


def test_refits_are_shared_between_test_rows():
    X, y, Z = clusters(5, 60, 2, m=1)
    model = KNeighborsClassifier(7).fit(X, y)
    once = AnyClassifierAttack().attack(model, X, y, Z)
    same = AnyClassifierAttack().attack(model, X, y, np.repeat(Z, 50, axis=0))
    assert (same.flips_needed == once.flips_needed[0]).all()
    assert same.n_refits <= once.n_refits + 2 * 49  # one more each, with one flip fewer, in both orders


@pytest.mark.parametrize("K", [2, 3])
def test_trusted_labels_are_unchanged_and_only_allowed_changes_are_made(K):
    X, y, Z = clusters(6, 60, K, m=8, spread=2.0)
    model = KNeighborsClassifier(5).fit(X, y)
    trusted = np.random.default_rng(0).random(len(y)) < 0.3
    allowed = [(0, 1)] if K == 2 else [(0, 1), (1, 2), (2, 1)]
    result = AnyClassifierAttack().attack(model, X, y, Z, Adversary(trusted=trusted, allowed=allowed))
    assert_true(result, model, X, y, Z)
    assert result.success.any()
    for rows, new in zip(result.rows, result.new_labels, strict=True):
        assert not trusted[rows].any()
        assert {(int(old), int(e)) for old, e in zip(y[rows], new, strict=True)} <= set(allowed)
    nothing = AnyClassifierAttack().attack(model, X, y, Z, Adversary(trusted=np.ones(len(y), dtype=bool)))
    assert not nothing.success.any()
    assert nothing.attempted.all()
    assert nothing.n_refits == 0


def test_attacks_stay_within_max_flips():
    X, y, Z = clusters(3, 60, 2, m=20)
    model = KNeighborsClassifier(7).fit(X, y)
    result = AnyClassifierAttack(max_flips=2).attack(model, X, y, Z)
    assert_true(result, model, X, y, Z, max_flips=2)
    assert result.attempted.all()
    assert 0 < result.success.sum() < len(Z)


def test_models_without_a_seed_are_refitted_with_a_fixed_seed():
    X, y, Z = clusters(7, 60, 2, m=6, spread=2.0)
    model = RandomForestClassifier(5).fit(X, y)  # no random_state
    result = AnyClassifierAttack(max_refits=60).attack(model, X, y, Z)
    seeded = RandomForestClassifier(5, random_state=0)
    for i in np.flatnonzero(result.success):
        assert seeded.fit(X, result.poisoned(y, i)).predict(Z[[i]])[0] != result.prediction[i]
    already = seeded.fit(X, y).predict(Z) != model.predict(Z)
    np.testing.assert_array_equal(result.flips_needed == 0, already)


def test_verbose_prints_progress_to_stderr(capsys):
    X, y, Z = clusters(3, 30, 2)
    AnyClassifierAttack(verbose=1).attack(KNeighborsClassifier().fit(X, y), X, y, Z)
    out, err = capsys.readouterr()
    assert out == ""
    assert "5 of 5 test rows" in err
    assert "refits" in err


X, Y, Z = labelled_clusters(n=40, m=3)
MODEL = KNeighborsClassifier().fit(X, Y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((KNeighborsClassifier(), X, Y, Z), "not fitted"),
        ((LinearRegression().fit(X, np.arange(40.0)), X, Y, Z), "must be a fitted scikit-learn classifier"),
        ((KNeighborsClassifier, X, Y, Z), "Got the class KNeighborsClassifier"),
        ((MODEL, X[:-1], Y, Z), "one entry per training row"),
        ((MODEL, X[:, :3], Y, Z), "4 features, but X has 3"),
        ((MODEL, X, Y[:, None], Z), "one label per training row"),
        ((MODEL, X, np.where(Y == "benign", "malignant", "benign"), Z), "fitted on X and y"),
        ((MODEL, X, Y, Z, Adversary(groups=np.arange(40))), "without groups"),
    ],
)
def test_bad_input_raises_a_clear_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        AnyClassifierAttack().attack(*arguments)


@pytest.mark.parametrize("budget", [0, -3, 2.5, True, None])
def test_an_invalid_refit_budget_is_refused(budget):
    with pytest.raises(ValueError, match="'max_refits' parameter"):
        AnyClassifierAttack(max_refits=budget).attack(MODEL, X, Y, Z)


def test_rows_that_have_no_distances_are_refused():
    class Oracle(KNeighborsClassifier):
        def fit(self, X, y):
            return super().fit(np.array([[len(word)] for word in X]), y)

        def predict(self, X):
            return super().predict(np.array([[len(word)] for word in X]))

    words = ["a", "be", "see", "deep", "eagle"] * 8
    with pytest.raises(ValueError, match="measures distances between rows"):
        AnyClassifierAttack().attack(Oracle().fit(words, Y), words, Y, words[:3])


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(3, random_state=np.random.RandomState(0)),
        GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, cv=KFold(2, shuffle=True)),
    ],
)
def test_a_randomized_model_is_not_mistaken_for_one_fitted_on_other_data(model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 2, size=80)
    for _ in range(3):
        result = AnyClassifierAttack(max_refits=3).attack(clone(model).fit(X, y), X, y, X[:40] + 0.1)
        assert result.n_refits <= 3
