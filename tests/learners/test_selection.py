"""Parameters that are chosen on trusted rows do not depend on any other label, and are worth choosing."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from real_data import spambase
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from flipproof import (
    Adversary,
    Assumption,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
    certified_accuracy,
)
from flipproof.learners.selection import select_on_trusted

LAMBDAS = {"regularization": [1.0, 30.0, 1e3, 1e6]}


class Neighbours(LabelLinearClassifier):
    def __init__(self, n_neighbors=3, classes=None, method="exact", noise=0.1):
        super().__init__(noise, classes=classes, method=method)
        self.n_neighbors = n_neighbors

    def fit_without_labels(self, X):
        if self.n_neighbors > len(X):
            raise ValueError(f"n_neighbors={self.n_neighbors} is more than all {len(X)} rows")
        self.rows_ = X

    def label_free_weights(self, Z):
        distance = np.abs(Z[:, None, :] - self.rows_).sum(axis=2)
        return (distance.argsort(axis=1).argsort(axis=1) < self.n_neighbors).astype(float)


def blobs(n=120, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 3)) + 2.5 * np.eye(3)[y], y, np.arange(n) < n // 2


def scores(selection):
    return [candidate.score for candidate in selection.candidates]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (CertifiedRidgeClassifier(), LAMBDAS),
        (CertifiedRidgeClassifier(method="tight", classes=range(4)), {"noise": [1e-9, 0.1, 0.4]}),
        (Neighbours(), {"n_neighbors": [1, 5, 31, 1000]}),
    ],
)
def test_no_untrusted_label_has_a_say_in_the_choice(estimator, grid):
    X, y, trusted = blobs()
    selection = select_on_trusted(estimator, grid, X, y, trusted, flips=6)
    assert len(set(scores(selection))) > 1
    for change in (1, 2):
        other = np.where(trusted, y, (y + change) % 3)
        again = select_on_trusted(estimator, grid, X, other, trusted, flips=6)
        assert again.best_params == selection.best_params
        np.testing.assert_array_equal(scores(again), scores(selection))
        assert not np.array_equal(again.model.predict(X), selection.model.predict(X))


def test_trusted_labels_have_a_say_in_the_choice():
    X, y, trusted = blobs()
    one = select_on_trusted(CertifiedRidgeClassifier(), LAMBDAS, X, y, trusted, flips=6)
    mixed = np.where(trusted, np.random.default_rng(0).permutation(y), y)
    two = select_on_trusted(CertifiedRidgeClassifier(), LAMBDAS, X, mixed, trusted, flips=6)
    assert scores(one) != scores(two)


def test_the_choice_survives_every_attack_on_the_other_labels():
    """The whole procedure, repeated after each attack: no certified prediction changes within its radius."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(14, 1)).round(1), rng.integers(2, size=14)
    y[:2] = 0, 1
    trusted = np.arange(14) < 10
    grid, Z = {"regularization": [0.0, 10.0, 100.0]}, np.linspace(-2, 2, 9)[:, None]

    def chosen(labels):
        learner = CertifiedRidgeClassifier(classes=[0, 1])
        return select_on_trusted(learner, grid, X, labels, trusted, flips=2, cv=2)

    certificates = chosen(y).certify(Z)
    assert 1 <= certificates.radius.max() <= 4 == certificates.n_touchable
    for bits in range(16):
        attack = np.zeros(14, dtype=int)
        attack[10:] = [bits >> j & 1 for j in range(4)]
        within = certificates.radius >= attack.sum()
        predicted = chosen(y ^ attack).model.predict(Z)
        np.testing.assert_array_equal(predicted[within], certificates.prediction[within])


def test_the_score_is_certified_accuracy_within_the_trusted_rows_at_the_same_share():
    X, y, trusted = blobs(n=100, n_classes=2)
    X_trusted, y_trusted = X[trusted], y[trusted]
    selection = select_on_trusted(CertifiedRidgeClassifier(), LAMBDAS, X, y, trusted, flips=13, cv=3, random_state=4)
    for candidate in selection.candidates:
        n_safe = 0
        for train, test in StratifiedKFold(3, shuffle=True, random_state=4).split(X_trusted, y_trusted):
            model = CertifiedRidgeClassifier(**candidate.params).fit(X_trusted[train], y_trusted[train])
            flips = int(np.ceil(13 * len(train) / 100))
            assert flips == 5  # 13 % of 33 or 34 labels, rounded up
            certificates = model.certify(X_trusted[test])
            n_safe += np.count_nonzero((certificates.prediction == y_trusted[test]) & (certificates.radius >= flips))
        assert candidate.score == n_safe / 50
    assert selection.best_score == max(scores(selection))
    assert selection.best_params == selection.candidates[int(np.argmax(scores(selection)))].params


def test_the_first_of_equal_candidates_wins():
    X, y, trusted = blobs()
    for values in ([1e7, 1e8, 1e9], [1e9, 1e8, 1e7]):
        selection = select_on_trusted(CertifiedRidgeClassifier(), {"regularization": values}, X, y, trusted, flips=0)
        assert len(set(scores(selection))) == 1
        assert selection.best_params == {"regularization": values[0]}


def test_the_model_is_fitted_to_all_rows_with_the_best_parameters():
    X, y, trusted = blobs()
    estimator = CertifiedRidgeClassifier(precision=12)
    selection = select_on_trusted(estimator, LAMBDAS, X, y, trusted, flips=6)
    by_hand = CertifiedRidgeClassifier(precision=12, **selection.best_params).fit(X, y)
    for one, two in zip(selection.model.vote_weights(X), by_hand.vote_weights(X), strict=True):
        np.testing.assert_array_equal(one, two)
    assert selection.model.classes is None
    assert not hasattr(estimator, "classes_")
    with pytest.raises(FrozenInstanceError):
        selection.best_score = 1


def test_certificates_say_on_what_the_choice_rests():
    X, y, trusted = blobs()
    selection = select_on_trusted(CertifiedRidgeClassifier(), LAMBDAS, X, y, trusted, flips=6)
    assert repr(selection.adversary) == "<Adversary: 60 labels trusted>"
    certificates = selection.certify(X, "tight")
    assert certificates.method == "tight"
    parameters = tuple((name, repr(value)) for name, value in selection.best_params.items())
    said = Assumption("chosen-on-trusted", {"parameters": parameters, "n_trusted": 60})
    assert "certify against Adversary(trusted=...)" in str(said)
    for assumptions in (certificates.assumptions, selection.model.certify(X).assumptions):
        assert assumptions.count(said) == 1
    direct = selection.model.certify(X, "tight", Adversary(trusted=trusted))
    np.testing.assert_array_equal(certificates.radius, direct.radius)
    # and a new fit forgets about it
    assert said not in selection.model.fit(X, y).certify(X).assumptions


def test_certify_takes_further_limits():
    X, y, trusted = blobs()
    selection = select_on_trusted(CertifiedRidgeClassifier(), LAMBDAS, X, y, trusted, flips=6)
    groups = np.arange(len(y)) // 10
    certificates = selection.certify(X, groups=groups, allowed=[(0, 1)])
    assert certificates.unit == "annotators"
    expected = selection.model.certify(X, adversary=Adversary(trusted=trusted, groups=groups, allowed=[(0, 1)]))
    np.testing.assert_array_equal(certificates.radius, expected.radius)


def test_a_pipeline_on_data_frames():
    X, y, trusted = blobs()
    frame, names = pd.DataFrame(X, columns=["a", "b", "c"]), pd.Series(np.array(["x", "y", "z"])[y])
    pipeline = Pipeline([("scale", StandardScaler()), ("ridge", CertifiedRidgeClassifier())])
    given = StandardScaler()
    grid = {"ridge__regularization": [1.0, 1e3], "scale": [given]}
    selection = select_on_trusted(pipeline, grid, frame, names, pd.Series(trusted), flips=6)
    assert set(selection.best_params) == set(grid)
    assert not hasattr(given, "mean_")
    assert selection.model.feature_names_in_.tolist() == ["a", "b", "c"]
    [said] = [one for one in selection.certify(frame).assumptions if one.code == "chosen-on-trusted"]
    assert said.values["n_trusted"] == 60
    assert {name for name, _ in said.values["parameters"]} == set(grid)


def test_a_list_of_grids_and_class_sets():
    X, y, trusted = blobs()
    grids = [{"regularization": [1.0, 10.0]}, {"precision": [2], "fit_intercept": [False]}]
    selection = select_on_trusted(CertifiedRidgeClassifier(), grids, X, y, trusted, flips=1)
    assert [candidate.params for candidate in selection.candidates] == [
        {"regularization": 1.0},
        {"regularization": 10.0},
        {"fit_intercept": False, "precision": 2},
    ]


def test_classes_that_no_trusted_row_has_must_be_named():
    X, y, trusted = blobs()
    trusted = trusted & (y != 1)
    with pytest.raises(ValueError, match=r"No trusted row has a label 1, .*"):
        select_on_trusted(CertifiedRidgeClassifier(), LAMBDAS, X, y, trusted, flips=1)
    selection = select_on_trusted(CertifiedRidgeClassifier(classes=range(3)), LAMBDAS, X, y, trusted, flips=1)
    assert selection.model.classes_.tolist() == [0, 1, 2]


def test_a_class_with_fewer_trusted_rows_than_folds_is_no_obstacle():
    X, y, trusted = blobs()
    y[trusted] %= 2
    y[0] = 2
    selection = select_on_trusted(CertifiedRidgeClassifier(), LAMBDAS, X, y, trusted, flips=1)
    assert not np.isnan(scores(selection)).any()


def test_candidates_that_cannot_be_fitted_are_never_chosen():
    X, y, trusted = blobs()
    selection = select_on_trusted(Neighbours(), {"n_neighbors": [49, 3, 48]}, X, y, trusted, flips=0)
    first, *others = selection.candidates
    assert np.isnan(first.score)
    assert first.error == "n_neighbors=49 is more than all 48 rows"
    assert not any(np.isnan(other.score) or other.error for other in others)
    assert selection.best_params == {"n_neighbors": 3}
    message = r"None of the 2 candidates could be fitted .* \{'n_neighbors': 50\}.* n_neighbors=50 is more than all 48"
    with pytest.raises(ValueError, match=message):
        select_on_trusted(Neighbours(), {"n_neighbors": [50, 60]}, X, y, trusted, flips=0)


BAD = {
    "row numbers": ({"trusted": np.arange(60)}, "must be a mask of booleans, one for each label. Got int64"),
    "short mask": ({"trusted": np.ones(60, dtype=bool)}, r"Got bool of shape \(60,\) for labels of shape \(120,\)"),
    "too few trusted": ({"trusted": np.arange(120) < 4}, "as many trusted rows as folds, 5. Got 4"),
    "no trusted": ({"trusted": np.zeros(120, dtype=bool)}, "as many trusted rows as folds, 5. Got 0"),
    "negative flips": ({"flips": -1}, "'flips' .* must be an integer of at least 0. Got -1"),
    "fractional flips": ({"flips": 0.1}, "'flips' .* must be an integer of at least 0. Got 0.1"),
    "too many flips": ({"flips": 121}, "'flips' .* at most the number of labels, 120. Got 121"),
    "one fold": ({"cv": 1}, "'cv' .* must be an integer of at least 2. Got 1"),
    "empty grid": ({"grid": {}}, "'grid' parameter of .* Got {} instead: it has no parameters"),
    "no grids": ({"grid": []}, r"'grid' parameter of .* Got \[\] instead: it has no parameters"),
    "no values": ({"grid": {"regularization": []}}, "'grid' .* must be a dict of parameter names and lists"),
    "no list": ({"grid": {"regularization": 3}}, "'grid' .* must be a dict of parameter names and lists"),
    "unknown name": ({"grid": {"alpha": [1]}}, r"'grid' parameter of .* regularization, verbose. Got \['alpha'\]"),
    "unknown method": ({"method": "best"}, "None of the 4 candidates .* must be one of 'exact', 'tight', 'kl'"),
    "bad values": ({"grid": {"precision": [99]}}, "None of the 1 candidates .*integer from 2 to 24"),
    "foreign estimator": ({"estimator": Ridge()}, r"'estimator' .* flipproof learner or .*Pipeline .* Got Ridge\(\)"),
    "foreign pipeline": ({"estimator": make_pipeline(Ridge())}, "'estimator' .* must be a flipproof learner"),
    "search": ({"estimator": GridSearchCV(CertifiedRidgeClassifier(), {})}, "'estimator' .* flipproof learner"),
    "too few rows": ({"X": np.zeros((119, 3))}, r"inconsistent numbers of samples: \[119, 120\]"),
    "mixed labels": ({"y": [1, "a"] * 60}, "of one kind"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    X, y, trusted = blobs()
    wrong, message = BAD[name]
    arguments = {"estimator": CertifiedRidgeClassifier(), "grid": LAMBDAS, "X": X, "y": y, "trusted": trusted}
    with pytest.raises(ValueError, match=message):
        select_on_trusted(**{**arguments, "flips": 1, **wrong})


def test_the_chosen_lambda_beats_the_worst_on_real_data(data_dir):
    X, y = spambase(data_dir)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, n, flips = X[order], (y[order] == "spam").astype(int), 3600, 100
    trusted = np.arange(n) < 300
    ridge = CertifiedRidgeClassifier(features=StandardScaler(), classes=[0, 1])
    grid = {"regularization": [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]}

    def held_out(value):
        model = CertifiedRidgeClassifier(regularization=value, features=StandardScaler()).fit(X[:n], y[:n])
        return certified_accuracy(y[n:], model.certify(X[n:]), [flips])[0]

    selection = select_on_trusted(ridge, grid, X[:n], y[:n], trusted, flips=flips)
    accuracy = {value: held_out(value) for value in grid["regularization"]}
    chosen = accuracy[selection.best_params["regularization"]]
    assert chosen > min(accuracy.values()) + 0.3
    assert chosen > max(accuracy.values()) - 0.05


SEVERAL = {"ridge": CertifiedRidgeClassifier(), "neighbors": CertifiedNeighborsClassifier()}
GRIDS = {"ridge": {"regularization": [1.0, 1e3]}, "neighbors": {"n_neighbors": [0.1, 0.3]}}


def test_several_learners_are_judged_like_each_alone():
    X, y, trusted = blobs()
    together = select_on_trusted(SEVERAL, GRIDS, X, y, trusted, flips=6)
    alone = {name: select_on_trusted(SEVERAL[name], GRIDS[name], X, y, trusted, flips=6) for name in SEVERAL}
    assert [one.learner for one in together.candidates] == ["ridge", "ridge", "neighbors", "neighbors"]
    assert scores(together) == scores(alone["ridge"]) + scores(alone["neighbors"])
    best = max(alone, key=lambda name: alone[name].best_score)
    assert (together.best_learner, together.best_params) == (best, alone[best].best_params)
    np.testing.assert_array_equal(together.model.predict(X), alone[best].model.predict(X))
    [said] = [one for one in together.certify(X).assumptions if one.code == "learner-chosen-on-trusted"]
    assert said.values["learner"] == best
    assert f"The learner {best!r} and its parameters (" in str(said)


def test_the_choice_among_learners_survives_every_attack_on_the_other_labels():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(13, 1)).round(1), rng.integers(2, size=13)
    y[:2] = 0, 1
    trusted = np.arange(13) < 10
    Z = np.linspace(-2, 2, 9)[:, None]
    learners = {
        "ridge": CertifiedRidgeClassifier(classes=[0, 1]),
        "neighbors": CertifiedNeighborsClassifier(3, classes=[0, 1]),
    }
    grids = {"ridge": {"regularization": [0.0, 100.0]}}

    def chosen(labels):
        return select_on_trusted(learners, grids, X, labels, trusted, flips=2, cv=2)

    first = chosen(y)
    certificates = first.certify(Z)
    assert certificates.radius.max() >= 1
    for bits in range(8):
        attack = np.zeros(13, dtype=int)
        attack[10:] = [bits >> j & 1 for j in range(3)]
        again = chosen(y ^ attack)
        assert (again.best_learner, again.best_params) == (first.best_learner, first.best_params)
        within = certificates.radius >= attack.sum()
        np.testing.assert_array_equal(again.model.predict(Z)[within], certificates.prediction[within])


def test_the_result_prints_as_a_table_with_the_best_first():
    X, y, trusted = blobs()
    grids = {**GRIDS, "neighbors": {"n_neighbors": [0.1, 10_000]}}
    selection = select_on_trusted(SEVERAL, grids, X, y, trusted, flips=6)
    lines = repr(selection).splitlines()
    assert lines[0].startswith("4 learners and parameters, by certified accuracy at 6 changed labels, within 60")
    assert lines[1].split() == ["learner", "regularization", "n_neighbors", "score"]
    assert lines[2].split()[0] == selection.best_learner
    assert lines[-1].split() == ["neighbors", "10000", "failed"]
    assert "<table>" in selection._repr_html_()
    ranked = [one.score for one in selection.ranking]
    assert ranked[:3] == sorted(ranked[:3], reverse=True)
    assert np.isnan(ranked[3])
    frame = selection.to_frame()
    assert frame["learner"].tolist() == [one.learner for one in selection.ranking]
    assert frame["score"][0] == selection.best_score
    assert "n_neighbors" in frame["error"][3]


def test_one_learner_has_no_column_for_its_name():
    X, y, trusted = blobs()
    selection = select_on_trusted(
        CertifiedRidgeClassifier(), {"regularization": ["label-free", 1e3]}, X, y, trusted, flips=6
    )
    assert selection.best_learner is None
    assert list(selection.to_frame().columns) == ["regularization", "score"]
    assert repr(selection).splitlines()[1].split() == ["regularization", "score"]


def test_a_learner_without_a_grid_is_tried_as_it_is():
    X, y, trusted = blobs()
    selection = select_on_trusted(SEVERAL, None, X, y, trusted, flips=6)
    assert [one.params for one in selection.candidates] == [{}, {}]


@pytest.mark.parametrize(
    ("learners", "grids", "wanted"),
    [
        ({}, {}, "'estimator' parameter of select_on_trusted"),
        ({"a": 3}, {}, "'estimator' parameter of select_on_trusted"),
        (SEVERAL, {"forest": {}}, "there is no learner 'forest'"),
        (SEVERAL, [1], "'grid' parameter of select_on_trusted must be a dict of the grids"),
    ],
)
def test_bad_collections_of_learners(learners, grids, wanted):
    X, y, trusted = blobs()
    with pytest.raises(ValueError, match=wanted):
        select_on_trusted(learners, grids, X, y, trusted, flips=6)
