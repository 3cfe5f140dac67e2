"""Certified regressors: intervals and radii against every attack, by refits; scikit-learn's checks; bad input."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from every_target_attack import extreme_predictions
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import flipproof
from flipproof import (
    Adversary,
    CertifiedForestRegressor,
    CertifiedKernelRegressor,
    CertifiedNeighborsClassifier,
    CertifiedNeighborsRegressor,
    CertifiedRidgeRegressor,
)
from flipproof.features import GraphFeatures, PatternRule, WeakSupervision

RANGE = (-1.5, 2.0)

REGRESSORS = {
    "ridge": CertifiedRidgeRegressor(target_range=RANGE),
    "ridge without intercept": CertifiedRidgeRegressor(target_range=RANGE, fit_intercept=False, precision=5),
    "kernel": CertifiedKernelRegressor(target_range=RANGE, regularization=0.3),
    "kernel on landmarks": CertifiedKernelRegressor(target_range=RANGE, n_components=3, precision=24),
    "mean of neighbours": CertifiedNeighborsRegressor(3, target_range=RANGE),
    "weighted neighbours": CertifiedNeighborsRegressor(4, weights="distance", target_range=RANGE),
    "median of neighbours": CertifiedNeighborsRegressor(3, average="median", target_range=RANGE),
    "lower median": CertifiedNeighborsRegressor(4, average="median", target_range=RANGE),
    "forest": CertifiedForestRegressor(5, min_samples_leaf=2, target_range=RANGE),
}

ADVERSARIES = {
    "any target": None,
    "trusted": Adversary(trusted=np.arange(6) < 2),
    "annotators": Adversary(groups=["a", "b", "b", "a", "c", "d"]),
    "small changes": Adversary(max_change=0.3),
    "all limits": Adversary(trusted=np.arange(6) == 4, groups=[0, 0, 1, 1, 2, 3], max_change=0.7),
}


#: Every regressor with one adversary, and every adversary with some regressor; the rest is for the second tier.
FEW = [(name, list(ADVERSARIES)[place % len(ADVERSARIES)]) for place, name in enumerate(REGRESSORS)]
ALL = [
    pytest.param(name, who, marks=[] if (name, who) in FEW else pytest.mark.slow)
    for name in REGRESSORS
    for who in ADVERSARIES
]


def problem(seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
    y = rng.uniform(*RANGE, size=6)
    y[0], y[1] = RANGE  # targets at both ends
    return X, y, Z


@pytest.mark.parametrize(("name", "who"), ALL)
def test_intervals_are_those_of_every_attack(name, who):
    X, y, Z = problem(len(name) + len(who))
    model, adversary = REGRESSORS[name], ADVERSARIES[who]
    model = clone(model).fit(X, y)
    found = model.certify(Z, flips=[0, 1, 2], adversary=adversary)
    np.testing.assert_array_equal(found.prediction, model.predict(Z))
    np.testing.assert_array_equal(found.low[:, 0], found.prediction)
    for place, r in ((1, 1), (2, 2)):
        low, high = extreme_predictions(model, X, y, Z, *RANGE, adversary, r)
        np.testing.assert_array_equal(found.low[:, place], low)  # to the last bit, both ways
        np.testing.assert_array_equal(found.high[:, place], high)


@pytest.mark.parametrize(("name", "who"), ALL)
def test_worst_changes_attain_both_ends_after_a_refit(name, who):
    X, y, Z = problem(3 * len(name) + len(who))
    model, adversary = clone(REGRESSORS[name]).fit(X, y), ADVERSARIES[who]
    for r, end in ((1, "low"), (2, "high"), (3, "low")):
        certified = getattr(model.certify(Z, flips=r, adversary=adversary), end)
        for row, changes in enumerate(model.worst_changes(Z, r, end=end, adversary=adversary)):
            refit = clone(model).fit(X, changes.applied_to(y))
            assert refit.predict(Z)[row] == certified[row] == changes.after
            assert changes.before == model.predict(Z)[row]
            assert (adversary is not None and adversary.groups is not None) or len(changes.rows) <= r
            if adversary is not None and adversary.trusted is not None:
                assert not adversary.trusted[changes.rows].any()


@pytest.mark.parametrize(("name", "who"), ALL)
def test_radii_are_the_last_number_of_changes_that_is_not_enough(name, who):
    X, y, Z = problem(5 * len(name) + len(who))
    model, adversary = clone(REGRESSORS[name]).fit(X, y), ADVERSARIES[who]
    every = model.certify(Z, flips=range(7), adversary=adversary)
    moved = np.maximum(every.high - every.prediction[:, None], every.prediction[:, None] - every.low)
    for tolerance in (0.0, 0.05, 0.4, 2.0):
        found = model.certify(Z, tolerance=tolerance, adversary=adversary)
        enough = np.argmax(moved > tolerance, axis=1)
        expected = np.where((moved > tolerance).any(axis=1), enough - 1, found.n_touchable)
        np.testing.assert_array_equal(found.radius, expected)
    for threshold in (-0.4, 0.1, 0.9, float(every.prediction[0])):
        found = model.certify(Z, threshold=threshold, adversary=adversary)
        is_above = every.prediction >= threshold
        crosses = np.where(is_above[:, None], every.low < threshold, every.high >= threshold)
        expected = np.where(crosses.any(axis=1), np.argmax(crosses, axis=1) - 1, found.n_touchable)
        np.testing.assert_array_equal(found.radius, expected)


def test_coefficients_are_those_of_every_attack_and_of_scikit_learn():
    X, y, _ = problem(11)
    model = CertifiedRidgeRegressor(target_range=RANGE).fit(X, y)
    found = model.certify_coefficients(flips=[1, 2, 3, 4, 5, 6])
    slope = Slopes(target_range=RANGE).fit(X, y)
    for place, r in enumerate((1, 2)):
        low, high = extreme_predictions(slope, X, y, None, *RANGE, None, r)
        np.testing.assert_array_equal(found.low[:, place], low)
        np.testing.assert_array_equal(found.high[:, place], high)
    plain = Ridge(alpha=model.regularization_).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-3)
    keeps = np.where(found.prediction[:, None] > 0, found.low > 0, found.high < 0)
    np.testing.assert_array_equal(found.radius, keeps.argmin(axis=1))


class Slopes(CertifiedRidgeRegressor):
    """Its predictions are its coefficients."""

    def predict(self, X):
        return self.coef_


def test_coefficients_are_in_units_of_the_columns():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = CertifiedRidgeRegressor(regularization=0, target_range=(25, 346)).fit(X, y)
    other = clone(model).fit(X * [1, 2, 4, 1, 1, 1, 1, 1, 1, 0.5], y)
    found, scaled = model.certify_coefficients(flips=3), other.certify_coefficients(flips=3)
    assert found.ids == list(X.columns)
    np.testing.assert_allclose(scaled.low * [1, 2, 4, 1, 1, 1, 1, 1, 1, 0.5], found.low, rtol=1e-3)
    assert found.to_frame().loc["bmi", "radius"] > found.to_frame().loc["age", "radius"]


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((-2, 5)), MaxAbsScaler(), RobustScaler()])
def test_coefficients_are_in_units_of_the_input_of_a_scaler(scaler):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(30, 3)) * [1e-3, 1, 1e4] + [0, 5, 0]
    y = np.clip(X @ [200, 0.3, 1e-5], -1.5, 2)
    model = CertifiedRidgeRegressor(regularization=1e-6, precision=20, target_range=RANGE, features=scaler).fit(X, y)
    step = np.diag([1e-3, 1, 1e4])
    slopes = (model.predict(X[0] + step) - model.predict(X[0] - step)) / (2 * np.diag(step))
    found = model.certify_coefficients(flips=[1, 4])
    np.testing.assert_allclose(found.prediction, slopes, rtol=1e-2)
    keeps = np.where(found.prediction[:, None] > 0, found.low > 0, found.high < 0)
    np.testing.assert_array_equal(found.certified_at(4), keeps[:, 1])
    one, place = model.certify_coefficients(flips=1), 1
    high = max(clone(model).fit(X, np.where(np.arange(30) == j, e, y)).coef_[place] for j in range(30) for e in RANGE)
    assert high == one.high[place]


def test_a_constant_column_has_the_coefficient_0_and_no_sign():
    X, y, _ = problem(2)
    found = CertifiedRidgeRegressor(target_range=RANGE).fit(np.c_[X, np.ones(6)], y).certify_coefficients(flips=6)
    assert found.low[2] == found.high[2] == found.prediction[2] == found.radius[2] == 0


def test_predictions_are_those_of_plain_learners():
    X, y = load_diabetes(return_X_y=True)
    ridge = CertifiedRidgeRegressor(target_range=(25, 346)).fit(X[:200], y[:200])
    plain = Ridge(alpha=ridge.regularization_).fit(X[:200], y[:200])
    np.testing.assert_allclose(ridge.predict(X), plain.predict(X), atol=0.01)
    mean = CertifiedNeighborsRegressor(7, target_range=(25, 346)).fit(X[:200], y[:200])
    np.testing.assert_allclose(mean.predict(X), KNeighborsRegressor(7).fit(X[:200], y[:200]).predict(X), atol=1e-3)


def test_blocks_and_company_change_no_bit():
    X, y = load_diabetes(return_X_y=True)
    for model in REGRESSORS.values():
        model = clone(model).set_params(target_range=(25, 346)).fit(X[:60], y[:60])
        whole = model.certify(X[60:90], flips=[1, 4], tolerance=3.0)
        parts = model.set_params(block_size=7).certify(X[60:90], flips=[1, 4], tolerance=3.0)
        for name in ("prediction", "low", "high", "radius"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X[60:61]), whole.prediction[:1])


def test_the_median_needs_half_of_the_neighbours():
    X, y = np.arange(9.0)[:, None], np.arange(9.0)
    model = CertifiedNeighborsRegressor(9, average="median", target_range=(0, 100)).fit(X, y)
    found = model.certify([[4.0]], flips=range(7))
    np.testing.assert_array_equal(found.high[0], [4, 5, 6, 7, 8, 100, 100])
    np.testing.assert_array_equal(found.low[0], [4, 3, 2, 1, 0, 0, 0])


def test_results_as_frames_and_tables():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = CertifiedRidgeRegressor(target_range=(25, 346), features=StandardScaler()).fit(X[:100], y[:100])
    found = model.certify(X[100:110], flips=[1, 5], threshold=150.0)
    frame = found.to_frame()
    assert list(frame.columns) == ["prediction", "low_1", "high_1", "low_5", "high_5", "radius", "unit"]
    assert list(frame.index) == list(range(100, 110))
    assert found[2:4].to_frame().index.tolist() == [102, 103]
    assert found.to_arrow().num_rows == 10
    assert "10 predictions" in repr(found)
    one = model.certify(X[100:110], flips=2)
    assert list(one.to_frame().columns) == ["prediction", "low", "high", "unit"]
    assert {one.code for one in found.assumptions} >= {"targets-only", "target-range"}
    with pytest.raises(ValueError, match="one name per row"):
        found.to_frame(index=[1])


def test_the_true_targets_are_a_column_not_names():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = CertifiedRidgeRegressor(target_range=(25, 346)).fit(X[:100], y[:100])
    found = model.certify(X[100:110], flips=2)
    for truth in (y, y[::-1], y[100:110].to_numpy(), y[100:110].tolist()):  # a Series is read by its index
        frame = found.to_frame(truth)
        assert list(frame.columns) == ["target", "prediction", "low", "high", "unit"]
        assert list(frame.index) == list(range(100, 110))
        np.testing.assert_array_equal(frame["target"], y[100:110])
        np.testing.assert_array_equal(found.to_arrow(y_true=truth)["target"], y[100:110])
    named = found.to_frame(y, index=list("abcdefghij"))
    assert list(named.index) == list("abcdefghij")
    with pytest.raises(ValueError, match="one target per prediction"):
        found.to_frame(y[:3].to_numpy())
    with pytest.raises(ValueError, match="y_true must be numbers"):
        found.to_frame(list("abcdefghij"))
    with pytest.raises(ValueError, match=r"requires intervals of predictions, .* coefficients"):
        model.certify_coefficients(flips=2).to_frame(y[:10])


def test_a_range_read_from_the_targets_is_an_assumption():
    X, y, Z = problem(4)
    found = CertifiedRidgeRegressor().fit(X, y).certify(Z)
    assert "target-range-read" in {one.code for one in found.assumptions}
    given = CertifiedRidgeRegressor(target_range=RANGE).fit(X, y).certify(Z)
    assert "target-range-read" not in {one.code for one in given.assumptions}


@pytest.mark.parametrize(
    ("y", "fragment"),
    [
        ([0.0, 1.0, 2.5, 0.0, 0.0, 0.0], "within target_range"),
        ([0.0, np.nan, 1.0, 0.0, 0.0, 0.0], "contains NaN"),
        ([True, False, True, False, True, False], "needs numbers"),
        (["a", "b", "c", "d", "e", "f"], "needs numbers"),
        (np.array([0, 1, "x", 0, 0, 0], dtype=object), "needs numbers"),
        (np.arange(6) * 1j, "Complex data not supported"),
        (None, "requires y to be passed"),
        ([0.0, 1.0], "inconsistent numbers"),
    ],
)
def test_bad_targets_are_refused_in_one_line(y, fragment):
    X, _, _ = problem(0)
    with pytest.raises(ValueError, match=fragment) as caught:
        CertifiedRidgeRegressor(target_range=RANGE).fit(X, y)
    assert "\n" not in str(caught.value).strip() or "NaN" in str(caught.value)


@pytest.mark.parametrize(
    "bad", [(0, np.inf), (1, 0), (0, 0), (np.nan, 1), (-1.7e308, 1.7e308), 3, (0, 1, 2), ("a", "b")]
)
def test_bad_ranges_are_refused(bad):
    X, y, _ = problem(0)
    with pytest.raises(ValueError, match="'target_range' parameter of CertifiedRidgeRegressor"):
        CertifiedRidgeRegressor(target_range=bad).fit(X, y)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"tolerance": -0.1}, "'tolerance'"),
        ({"tolerance": np.nan}, "'tolerance'"),
        ({"threshold": np.inf}, "'threshold'"),
        ({"tolerance": 1.0, "threshold": 1.0}, "not both"),
        ({"flips": -1}, "'flips'"),
        ({"flips": 1.5}, "'flips'"),
        ({"flips": []}, "'flips'"),
        ({"adversary": Adversary(changes="rows")}, r"reference="),
        ({"adversary": Adversary(allowed=[(0, 1)])}, "about classes"),
        ({"adversary": Adversary(window=np.arange(6), length=2)}, "windows of time"),
        ({"adversary": Adversary(trusted=[True])}, "one entry per training row"),
    ],
)
def test_bad_questions_are_refused(options, fragment):
    X, y, Z = problem(0)
    with pytest.raises(ValueError, match=fragment):
        CertifiedRidgeRegressor(target_range=RANGE).fit(X, y).certify(Z, **options)


TEXTS = ["sea view", "small room", "large garden", "small garden", "sea and garden", "room"]


@pytest.mark.parametrize(
    ("X", "features"),
    [
        (TEXTS, make_pipeline(TfidfVectorizer(), TruncatedSVD(3, random_state=0))),
        (TEXTS, WeakSupervision([PatternRule("sea|large", "dear"), PatternRule("small|room", "cheap")])),
        (np.arange(6), GraphFeatures(np.eye(6)[[1, 2, 3, 4, 5, 0]] + np.eye(6)[[5, 0, 1, 2, 3, 4]], problem(0)[0])),
    ],
)
def test_rows_without_columns(X, features):
    _, y, _ = problem(1)
    for model in (CertifiedRidgeRegressor, CertifiedKernelRegressor, CertifiedForestRegressor):
        model = model(features=features, target_range=RANGE).fit(X, y)
        found = model.certify(X[:2], flips=[1, 2], tolerance=0.1)
        assert (found.low <= found.prediction[:, None]).all()
        np.testing.assert_array_equal(model.predict(X[:2]), found.prediction)
        assert not hasattr(model, "n_features_in_")
    assert not hasattr(
        CertifiedRidgeRegressor().fit(problem(1)[0], y).set_params(features=features).fit(X, y), "n_features_in_"
    )


def test_more_changes_than_targets_are_as_many_as_there_are():
    X, y, Z = problem(6)
    for model in REGRESSORS.values():
        model = clone(model).fit(X, y)
        found = model.certify(Z, flips=[6, 7, 10**30], tolerance=1e9)
        for end in (found.low, found.high):
            np.testing.assert_array_equal(end[:, 1:], end[:, [0, 0]])
        assert found.unlimited.all()
        assert found.certified_at(10**30).all()
        for change in model.worst_changes(Z, flips=10**30):
            assert np.isfinite(change.after)
        assert not model.certify(Z, tolerance=0).certified_at(6).any()
    with pytest.raises(ValueError, match="Without a radius"):
        model.certify(Z).certified_at(1)


def test_messages_name_the_regressor():
    X, y, _ = problem(0)
    for model, name in (
        (CertifiedRidgeRegressor(regularization=-1), "CertifiedRidgeRegressor"),
        (CertifiedKernelRegressor(gamma=-1), "CertifiedKernelRegressor"),
        (CertifiedNeighborsRegressor(99), "CertifiedNeighborsRegressor"),
        (CertifiedForestRegressor(0), "CertifiedForestRegressor"),
    ):
        with pytest.raises(ValueError, match=name):
            model.fit(X, y)
    with pytest.raises(ValueError, match="a median counts targets"):
        CertifiedNeighborsRegressor(3, average="median", weights="distance").fit(X, y)
    frame = pd.DataFrame({"town": list("abcdef")})
    with pytest.raises(ValueError, match="CertifiedRidgeRegressor"):
        CertifiedRidgeRegressor().fit(frame, y)
    with pytest.raises(ValueError, match="beyond 64 bits"):
        CertifiedRidgeRegressor(target_range=(1e6, 1e6 + 1), fit_intercept=False, precision=24).fit(X, y - y + 1e6)
    with pytest.raises(ValueError, match="not very far from 0"):
        CertifiedRidgeRegressor(target_range=(1e6, 1e6 + 1e-6), fit_intercept=False).fit(X, np.full(6, 1e6))


def test_classifiers_refuse_what_is_about_numbers():
    X, y, Z = problem(0)
    model = CertifiedNeighborsClassifier(3, classes=[0, 1]).fit(X, y > 0)
    with pytest.raises(ValueError, match="numeric targets"):
        model.certify(Z, adversary=Adversary(max_change=1.0))
    with pytest.raises(ValueError, match="'max_change'"):
        Adversary(max_change=-1)
    with pytest.raises(ValueError, match="cannot be combined"):
        Adversary(max_change=1.0, changes="rows")


def test_functions_for_classifiers_refuse_a_regressor(tmp_path):
    X, y, Z = problem(0)
    model = CertifiedRidgeRegressor(target_range=RANGE).fit(X, y)
    calls = (
        lambda: flipproof.collective_certify(model, Z, 1),
        lambda: flipproof.attacks.worst_flips(model, Z),
        lambda: flipproof.certify(model, Z),
        lambda: flipproof.Report.from_estimator(model, Z),
        lambda: flipproof.compare({"a": model}, Z, y[:4] > 0),
        lambda: flipproof.save(model, tmp_path / "m.flipproof"),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"CertifiedRidgeRegressor (predicts numbers|cannot be stored)") as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="audit_numbers"):
        flipproof.audit((X, y), Z, learner=model)
    for targets in ((y,), ()):
        with pytest.raises(ValueError, match="in memory"):
            clone(model).fit(flipproof.streaming.RowBlocks.from_arrays(X, y), *targets)
    assert not list(tmp_path.iterdir())


#: A weight multiplies the vote of a row and leaves the geometry as it is; a copy of a row changes the geometry, too.
WEIGHTS_ARE_NOT_COPIES = {"check_sample_weight_equivalence_on_dense_data": "weights multiply votes, not rows"}

#: A median counts targets.
NO_WEIGHTS = WEIGHTS_ARE_NOT_COPIES | {
    f"check_{name}": "medians refuse weights"
    for name in (
        *("sample_weights_pandas_series", "sample_weights_not_an_array", "sample_weights_list"),
        *("all_zero_sample_weights_error", "sample_weights_shape", "sample_weights_not_overwritten"),
    )
}


@parametrize_with_checks(
    [
        CertifiedRidgeRegressor(regularization=0.1),
        CertifiedKernelRegressor(regularization=0.01),
        CertifiedNeighborsRegressor(5),
        CertifiedNeighborsRegressor(5, average="median"),
        CertifiedForestRegressor(10, min_samples_leaf=1),
    ],
    expected_failed_checks=lambda one: NO_WEIGHTS if "median" in repr(one) else WEIGHTS_ARE_NOT_COPIES,
)
def test_scikit_learn_checks_pass(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one check is skipped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)
