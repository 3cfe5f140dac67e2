"""A search around one of our learners is certified, and its choice is named as what the certificates rest on."""

import numpy as np
import pytest
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import Adversary, CertifiedRidgeClassifier

GRID = {"regularization": [0.1, 10.0, 1e9]}


def problem():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    return rng.normal(size=(90, 3)) + 2 * np.eye(3)[y], y, rng.normal(size=(20, 3))


def about_the_search(certificates):
    return [one for one in certificates.assumptions if one.code == "chosen-by-search"]


SEARCHES = {
    "grid": GridSearchCV(CertifiedRidgeClassifier(), GRID, cv=3),
    "random": RandomizedSearchCV(CertifiedRidgeClassifier(), GRID, n_iter=2, cv=3, random_state=0),
    "halving": HalvingGridSearchCV(CertifiedRidgeClassifier(), GRID, cv=3, min_resources=45, random_state=0),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_certified_and_its_choice_is_named(name):
    X, y, Z = problem()
    search = SEARCHES[name].fit(X, y)
    certificates = flipproof.certify(search, Z)
    by_hand = CertifiedRidgeClassifier(**search.best_params_).fit(X, y).certify(Z)
    np.testing.assert_array_equal(certificates.prediction, search.predict(Z))
    np.testing.assert_array_equal(certificates.radius, by_hand.radius)
    [said] = about_the_search(certificates)
    assert said.values["search"] == type(search).__name__
    assert dict(said.values["parameters"]) == {name: repr(value) for name, value in search.best_params_.items()}
    assert "select_on_trusted" in str(said)
    assert set(certificates.assumptions) - {said} == set(by_hand.assumptions)


def test_a_grid_search_simply_works():
    X, y, Z = problem()
    search = GridSearchCV(CertifiedRidgeClassifier(), {"regularization": ["label-free", 1.0, 1e9]}).fit(X, y)
    assert search.best_score_ > 0.8
    assert search.best_params_["regularization"] != 1e9
    assert search.best_estimator_.certify(Z).radius.max() > 3


def test_method_and_adversary_are_passed_on():
    X, y, Z = problem()
    search = GridSearchCV(CertifiedRidgeClassifier(), GRID).fit(X, y)
    adversary = Adversary(groups=np.arange(90) // 9)
    certificates = flipproof.certify(search, Z, "tight", adversary)
    assert certificates.method == "tight"
    assert certificates.unit == "annotators"


def test_a_search_over_pipelines_and_a_pipeline_that_ends_in_a_search():
    X, y, Z = problem()
    over = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("ridge", CertifiedRidgeClassifier())]), {"ridge__regularization": [1.0]}
    )
    inside = make_pipeline(StandardScaler(), GridSearchCV(CertifiedRidgeClassifier(), {"regularization": [1.0]}))
    one, two = (flipproof.certify(model.fit(X, y), Z) for model in (over, inside))
    np.testing.assert_array_equal(one.radius, two.radius)
    for certificates in (one, two):
        assert len(about_the_search(certificates)) == 1
        [steps] = [one.values["steps"] for one in certificates.assumptions if one.code == "pipeline-steps"]
        assert [step for _, step in steps] == ["StandardScaler"]


def test_searches_of_other_libraries_are_recognised_by_their_attributes():
    X, y, Z = problem()

    class ForeignSearch:
        def __init__(self):
            self.best_params_ = {"regularization": 2.0}
            self.best_estimator_ = CertifiedRidgeClassifier(**self.best_params_).fit(X, y)

    [said] = about_the_search(flipproof.certify(ForeignSearch(), Z))
    assert said.values == {"search": "ForeignSearch", "parameters": (("regularization", "2.0"),)}


def test_a_search_without_a_model_is_refused():
    X, y, Z = problem()
    search = GridSearchCV(CertifiedRidgeClassifier(), GRID, refit=False)
    for model in (search, search.fit(X, y), make_pipeline(search)):
        with pytest.raises(ValueError, match=r"GridSearchCV has no best_estimator_ .*"):
            flipproof.certify(model, Z)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("model", "got"),
    [
        (GridSearchCV(RidgeClassifier(), {"alpha": [1.0]}), "a GridSearchCV of RidgeClassifier"),
        (
            GridSearchCV(make_pipeline(StandardScaler(), RidgeClassifier()), {"ridgeclassifier__alpha": [2.0]}),
            "a GridSearchCV of RidgeClassifier",
        ),
        (TunedThresholdClassifierCV(RidgeClassifier()), "Got TunedThresholdClassifierCV"),
    ],
)
def test_a_search_for_something_else_is_refused(model, got):
    X, y, Z = problem()
    model.fit(X, y > 0)
    with pytest.raises(ValueError, match=f"a search for one of those. .*{got} instead"):
        flipproof.certify(model, Z)
