"""SmoothedClassifier: any learner, any labels, reproducible votes, and clear errors."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from smoothed_problems import QUICK, blobs

from flipproof import Adversary, Assumption, certified_accuracy, certify, select_on_trusted
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip
from flipproof.smoothing import SmoothedClassifier, largest_certifiable


@pytest.mark.few(25)
@parametrize_with_checks(
    [
        SmoothedClassifier(n_select=5, n_samples=10),
        SmoothedClassifier(DecisionTreeClassifier(), FeatureNoise(0.1), n_select=5, n_samples=10, keep_models=True),
    ]
)
def test_scikit_learn_checks_pass(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one check is skipped
    check(estimator)


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize(
    "base",
    [
        LogisticRegression(),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
        RandomForestClassifier(5),
        MLPClassifier((5,), max_iter=60, learning_rate_init=0.1),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [5, 9]}, cv=2),
    ],
    ids=lambda base: type(base).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_learner_can_be_certified(base, n_classes):
    X, y, Z, truth = blobs(n_classes)
    model = SmoothedClassifier(base, 0.2, 5, 25, 0.9, random_state=1).fit(X, y)
    cert = model.certify(Z)
    assert set(cert.prediction) <= set(y)
    np.testing.assert_array_equal(cert.prediction, model.predict(Z))
    assert np.mean(cert.prediction == truth) > 0.8
    assert np.mean(cert.abstained) < 0.3
    assert cert.unit == "labels"
    assert (cert.rival != cert.prediction).all()
    accuracy = certified_accuracy(truth, cert, [0, 1, 60])
    assert accuracy[0] == np.mean((cert.prediction == truth) & ~cert.abstained)
    assert accuracy[0] > 0.5
    assert accuracy[2] == 0


def test_each_unseeded_fit_draws_a_new_seed_and_keeps_it():
    X, y, Z, _ = blobs()
    model = SmoothedClassifier(DecisionTreeClassifier(), 0.3, 5, 20, 0.9).fit(X, y)
    np.testing.assert_array_equal(model.certify(Z).margin, model.certify(Z).margin)
    assert model.fit(X, y).seed_ != model.fit(X, y).seed_
    np.testing.assert_allclose(model.predict_proba(Z).sum(axis=1), 1)


def test_selection_and_estimation_use_different_draws():
    X, y, _, _ = blobs()
    model = SmoothedClassifier(KNeighborsClassifier(1), 0.3, 5, 5, 0.5, keep_models=True, random_state=0).fit(X, y)
    seen = [tuple(one.predict(X)) for one in model.models_]  # a neighbour at distance 0 repeats its noisy label
    assert len(set(seen)) == 10
    share = np.mean([np.mean(np.array(one) != y) for one in seen])
    assert 0.2 < share < 0.4


def test_more_selections_do_not_change_the_estimation_sample():
    X, y, Z, _ = blobs()
    few, many = (SmoothedClassifier(DecisionTreeClassifier(), 0.2, n, 30, 0.9, random_state=0) for n in (3, 30))
    few, many = few.fit(X, y).certify(Z), many.fit(X, y).certify(Z)
    same = (few.prediction == many.prediction) & (few.rival == many.rival)
    assert same.sum() > 10
    np.testing.assert_array_equal(few.margin[same], many.margin[same])


class Seeded(DecisionTreeClassifier):
    """Predicts by the seed that it was fitted with."""

    def predict(self, X, check_input=True):
        return self.classes_[np.full(len(X), self.random_state % 2)]


def test_random_states_are_set_for_each_draw_unless_they_are_integers():
    X, y, Z, _ = blobs(2)
    votes = SmoothedClassifier(Seeded(), 0.2, 40, 10, 0.5, random_state=0).fit(X, y).predict_proba(Z[:1])
    assert 0.2 < votes[0, 0] < 0.8
    fixed = SmoothedClassifier(Seeded(random_state=3), 0.2, 40, 10, 0.5, random_state=0).fit(X, y)
    assert fixed.predict_proba(Z[:1]).tolist() == [[0, 1]]


def test_a_draw_with_one_class_votes_for_it_without_fitting():
    X, y = np.array([[0.0], [1.0]]), ["ant", "bee"]
    model = SmoothedClassifier(LogisticRegression(), 0.4, 200, 10, 0.5, random_state=0).fit(X, y)
    # of the four labellings two are of one class, with a chance of 0.24 each; LogisticRegression would refuse them
    share = model.predict_proba([[-9.0]])[0, 0]
    assert abs(share - (0.36 + 0.24)) < 0.15


def test_a_draw_that_lacks_a_class_is_fitted_on_the_others():
    X, y, Z, _ = blobs(3, n=6)
    cert = SmoothedClassifier(LogisticRegression(), 0.6, random_state=0, n_select=20, n_samples=50).fit(X, y).certify(Z)
    assert len(cert) == 20


def test_fit_refuses_data_that_the_learner_refuses():
    X, y, _, _ = blobs()
    with pytest.raises(ValueError, match="contains NaN"):
        SmoothedClassifier(LogisticRegression()).fit(np.full_like(X, np.nan), y)


@pytest.mark.slow
def test_learners_that_modify_their_input_do_not_change_the_data_or_the_votes():
    X, y, Z, _ = blobs()
    careless = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    careful = make_pipeline(StandardScaler(), LogisticRegression())
    before = X.copy(), Z.copy()
    careless, careful = (SmoothedClassifier(one, 0.3, **QUICK).fit(X, y).certify(Z) for one in (careless, careful))
    np.testing.assert_array_equal(careless.margin, careful.margin)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Z, before[1])


@pytest.mark.slow
def test_the_learner_receives_frames_texts_and_sparse_features_unconverted():
    X, y, Z, _ = blobs(2)
    plain = SmoothedClassifier(LogisticRegression(), 0.3, **QUICK).fit(X, y).certify(Z)
    sparse = SmoothedClassifier(LogisticRegression(), 0.3, **QUICK).fit(csr_array(X), y).certify(csr_array(Z))
    assert np.abs(plain.margin - sparse.margin).max() < 0.1
    frame = pd.DataFrame({"size": X[:, 0], "kind": np.where(X[:, 1] > 0, "big", "small")})
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough")
    model = SmoothedClassifier(make_pipeline(columns, LogisticRegression()), 0.3, **QUICK).fit(frame, y)
    assert model.predict(frame).shape == (60,)
    assert list(model.feature_names_in_) == ["size", "kind"]
    texts = [f"{name} {name} thing" for name in y]
    words = SmoothedClassifier(make_pipeline(CountVectorizer(), LogisticRegression()), 0.3, **QUICK).fit(texts, y)
    assert (words.predict(["ant thing", "bee"]) == ["ant", "bee"]).all()


def test_test_features_are_what_the_models_get():
    X, y, Z, _ = blobs(2)
    frame = pd.DataFrame(Z, columns=["a", "b"])
    labels = SmoothedClassifier(LogisticRegression(), 0.3, **QUICK)
    with pytest.raises(NotFittedError):
        labels.test_features(frame)
    assert labels.fit(pd.DataFrame(X, columns=["a", "b"]), y).test_features(frame) is frame
    features = SmoothedClassifier(LogisticRegression(), FeatureNoise(0.5), **QUICK).fit(X, y)
    np.testing.assert_array_equal(features.test_features(Z.tolist()), Z)


def test_features_are_certified_in_the_l2_norm():
    X, y, Z, _ = blobs()
    cert = SmoothedClassifier(LogisticRegression(), FeatureNoise(0.8), **QUICK).fit(X, y).certify(Z)
    assert (cert.unit, cert.method, cert.noise) == ("l2", "gaussian", 0.8)
    assert cert.radius.dtype == np.float64
    assert cert.radius.max() == largest_certifiable(40, 0.9, FeatureNoise(0.8))
    kl = SmoothedClassifier(LogisticRegression(), FeatureNoise(0.8), **QUICK).fit(X, y).certify(Z, method="kl")
    assert np.all(kl.radius <= cert.radius)
    assert kl.radius.max() > 0.5 * cert.radius.max()


@pytest.mark.slow
def test_labels_and_features_share_one_budget():
    X, y, Z, _ = blobs(2)
    noise = JointNoise(LabelFlip(0.4), FeatureNoise(0.7))
    model = SmoothedClassifier(KNeighborsClassifier(25), noise, 10, 300, 0.99, random_state=0).fit(X, y)
    cert = model.certify(Z)
    kl = model.certify(Z, method="kl")
    assert np.all(kl.radius <= cert.radius)
    radii = cert.feature_radius([0, 1, 2, 60])
    one_flip = LabelFlip(0.4, 2).kl_per_flip
    for flips, line in zip([0, 1, 2, 60], radii, strict=True):
        certified = np.isfinite(line)
        np.testing.assert_array_equal(certified[~cert.abstained], (flips <= kl.radius)[~cert.abstained])
        assert not certified[cert.abstained].any()
        spent = flips * one_flip + line[certified] ** 2 / (2 * 0.7**2)
        assert np.all(spent <= cert.divergence_budget[certified])
        np.testing.assert_allclose(spent, cert.divergence_budget[certified], rtol=1e-9)
    assert np.isfinite(radii[2]).any()
    with pytest.raises(ValueError, match="JointNoise"):
        SmoothedClassifier(DecisionTreeClassifier(), 0.3, **QUICK).fit(X, y).certify(Z).feature_radius([0])
    with pytest.raises(ValueError, match="integers of at least 0"):
        cert.feature_radius([0.5])


@dataclass(frozen=True)
class LaplaceNoise:
    """A custom measure on features only; its divergence is at most |delta| / scale."""

    scale: float
    part = "features"

    def sample(self, data, rng):
        return np.asarray(data) + rng.laplace(scale=self.scale, size=np.shape(data))

    def divergence(self, data, other):
        return float(np.abs(np.asarray(data) - np.asarray(other)).sum() / self.scale)


@dataclass(frozen=True)
class Bag:
    """A custom measure on labels and features: a number of rows drawn with replacement."""

    size: int
    wrong: str = ""

    def sample(self, data, rng):
        X, codes = data
        rows = rng.integers(len(codes), size=self.size)
        codes = {"codes": codes + 5, "length": codes[:-1], "kind": codes / 2}.get(self.wrong, codes)
        return X[rows], codes if self.wrong == "length" else codes[rows]

    def divergence(self, data, other):
        return np.inf


@pytest.mark.slow
def test_custom_measures_get_the_generic_guarantee():
    X, y, Z, _ = blobs()
    model = SmoothedClassifier(LogisticRegression(), LaplaceNoise(0.5), **QUICK, method="kl").fit(X, y)
    cert = model.certify(Z)
    assert (cert.unit, cert.method) == ("divergence", "kl")
    np.testing.assert_array_equal(cert.radius[~cert.abstained], cert.divergence_budget[~cert.abstained])
    assert cert.assumptions[0].code == "divergence-only"
    bagged = SmoothedClassifier(DecisionTreeClassifier(), Bag(30), **QUICK, method="kl").fit(X, y).certify(Z)
    assert (~bagged.abstained).any()
    with pytest.raises(ValueError, match="method='kl' holds for any measure"):
        SmoothedClassifier(LogisticRegression(), LaplaceNoise(0.5), **QUICK).fit(X, y)
    for wrong, said in [("codes", "coded as 0 to 2"), ("length", "as many labels as rows"), ("kind", "as integers")]:
        strange = SmoothedClassifier(LogisticRegression(), Bag(30, wrong), **QUICK, method="kl").fit(X, y)
        with pytest.raises(ValueError, match=said):
            strange.certify(Z)


def test_abstentions_have_a_reason_and_keep_their_prediction():
    X, y, Z, _ = blobs(2)
    cert = SmoothedClassifier(Seeded(), 0.3, **QUICK).fit(X, y).certify(Z[:2])  # a coin decides
    assert cert.abstained.all()
    assert set(cert.prediction) <= {"ant", "bee"}
    assert cert.radius.tolist() == [0, 0]
    assert cert.abstention_reason[0].startswith(f"the vote for {cert.prediction[0]} is ")
    assert certified_accuracy(cert.prediction, cert, [0]) == 0
    decided = SmoothedClassifier(LogisticRegression(), 0.2, **QUICK).fit(*blobs(2)[:2]).certify(blobs(2)[2])
    assert (decided.abstention_reason[~decided.abstained] == "").all()


@pytest.mark.slow
def test_confidence_over_a_batch_uses_a_union_bound():
    X, y, Z, _ = blobs(2)
    each, batch = (
        SmoothedClassifier(DecisionTreeClassifier(max_depth=1), 0.3, **QUICK, confidence_over=scope).fit(X, y)
        for scope in ("prediction", "batch")
    )
    assert np.all(batch.certify(Z).log_failure > each.certify(Z).log_failure)
    np.testing.assert_array_equal(batch.certify(Z[:1]).log_failure, each.certify(Z[:1]).log_failure)
    alone = clone(each).set_params(confidence=1 - 0.1 / 20).fit(X, y).certify(Z)
    np.testing.assert_allclose(alone.log_failure, batch.certify(Z).log_failure, rtol=1e-9)
    assert batch.certify(Z).assumptions[2].values["over"] == "batch"
    assert each.certify(Z).assumptions[2].values["over"] == "prediction"


def test_the_largest_radius_is_the_one_that_unanimous_votes_certify():
    X, y, _, _ = blobs(2)
    constant = DummyClassifier(strategy="constant", constant="bee")
    model = SmoothedClassifier(constant, 0.3, 5, 200, 0.99, random_state=0).fit(X, y)
    cert = model.certify(X[:1])
    assert cert.prediction == "bee"
    assert cert.margin == 1
    assert cert.radius.max() == largest_certifiable(200, 0.99, LabelFlip(0.3, 2), n_train=60)
    assert largest_certifiable(200, 0.99, LabelFlip(0.3, 2), n_train=2) == 2
    assert largest_certifiable(200, 0.99, LabelFlip(0.3, 2), n_predictions=100) < cert.radius.max()
    assert largest_certifiable(3, 0.99, LabelFlip(0.3, 2)) == -1
    few = clone(model).set_params(n_samples=3).fit(X, y)
    with pytest.raises(ValueError, match=r"n_samples=3 .* confidence=0\.99 for each prediction"):
        few.certify(X[:2])


@pytest.mark.slow
def test_pipelines_and_arrow_tables_support_smoothed_certificates():
    X, y, Z, _ = blobs()
    pipeline = make_pipeline(StandardScaler(), SmoothedClassifier(LogisticRegression(), 0.3, **QUICK)).fit(X, y)
    cert = certify(pipeline, Z)
    assert any(one.code == "pipeline-steps" for one in cert.assumptions)
    assert Assumption("classes-read", {"n_classes": 3}) in cert.assumptions
    table = cert.to_arrow()
    assert table["abstention_reason"].to_pylist() == cert.abstention_reason.tolist()
    np.testing.assert_array_equal(table["log_rival"].to_numpy(), cert.log_rival)
    assert table.schema.metadata[b"confidence"] == b"0.9"
    assert table.schema.metadata[b"n_samples"] == b"40"
    fixed = SmoothedClassifier(LogisticRegression(), 0.3, classes=["ant", "bee", "cat"], **QUICK).fit(X, y)
    assert all(one.code != "classes-read" for one in fixed.certify(Z).assumptions)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": Ridge()}, "'estimator' parameter of SmoothedClassifier .* a scikit-learn classifier"),
        ({"estimator": LogisticRegression}, "'estimator' parameter"),
        ({"noise": "loud"}, "'noise' parameter of SmoothedClassifier .* a LabelFlip"),
        ({"noise": 0.5}, "'noise' parameter of SmoothedClassifier must be in"),
        ({"noise": True}, "'noise' parameter"),
        ({"noise": FeatureNoise}, "'noise' parameter"),
        ({"noise": LabelFlip(0.1, 3)}, "noise is for 3 classes"),
        ({"n_select": 0}, "'n_select' parameter of SmoothedClassifier must be an integer of at least 1. Got 0"),
        ({"n_samples": 10.5}, "'n_samples' parameter of SmoothedClassifier must be an integer"),
        ({"confidence": 1}, "'confidence' parameter of SmoothedClassifier must be a number between 0 and 1"),
        ({"confidence": "high"}, "'confidence' parameter"),
        ({"method": "exact"}, "must be one of 'tight', 'kl', 'gaussian'. Got 'exact'"),
        ({"method": "gaussian"}, "method='gaussian' is only for FeatureNoise"),
        ({"confidence_over": "day"}, "'confidence_over' parameter"),
        ({"random_state": -1}, "'random_state' parameter of SmoothedClassifier"),
        ({"classes": ["ant"]}, "at least two classes"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    X, y, _, _ = blobs(2)
    with pytest.raises(ValueError, match=message):
        SmoothedClassifier(**parameters).fit(X, y)


def test_bad_data_is_refused():
    X, y, Z, _ = blobs(2)
    model = SmoothedClassifier(LogisticRegression(), FeatureNoise(0.5), **QUICK)
    with pytest.raises(TypeError, match=r"sparse features.*toarray"):
        model.fit(csr_array(X), y)
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.fit(pd.DataFrame({"a": ["x"] * 60, "b": ["y"] * 60}), y)
    with pytest.raises(ValueError, match="must be one of 'tight'"):
        model.fit(X, y).certify(Z, method="exact")
    with pytest.raises(ValueError, match="only one class"):
        SmoothedClassifier().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SmoothedClassifier().fit(X, y[:-1])


def test_sample_sizes_are_fixed_by_fit_and_confidence_by_certify():
    X, y, Z, _ = blobs(2)
    model = SmoothedClassifier(DecisionTreeClassifier(), 0.3, **QUICK, keep_models=True).fit(X, y)
    before = model.certify(Z)
    after = model.set_params(n_select=3, n_samples=9, confidence=0.8).certify(Z)
    np.testing.assert_array_equal(before.margin, after.margin)
    assert (after.n_select, after.n_samples) == (10, 40)
    assert np.all(after.log_failure <= before.log_failure)
    assert after.assumptions[2] == Assumption("confidence", {"confidence": 0.8, "over": "prediction"})
    with pytest.raises(ValueError, match="'confidence_over' parameter"):
        model.set_params(confidence_over="week").certify(Z)


def test_a_restricted_adversary_gets_the_unrestricted_guarantee():
    X, y, _, _ = blobs(2)
    constant = DummyClassifier(strategy="constant", constant="bee")
    model = SmoothedClassifier(constant, 0.4, **QUICK).fit(X, y)
    anybody = model.certify(X[:1]).radius[0]
    assert anybody > 6
    trusting = model.certify(X[:1], adversary=Adversary(trusted=np.arange(60) >= 4))
    assert (trusting.radius[0], trusting.n_touchable) == (4, 4)  # all changeable labels
    annotators = model.certify(X[:1], adversary=Adversary(groups=np.arange(60) // 3))
    assert (annotators.radius[0], annotators.unit, annotators.n_touchable) == (anybody // 3, "annotators", 20)
    assert annotators.assumptions[-1].code == "noise-on-all-labels"
    features = SmoothedClassifier(LogisticRegression(), FeatureNoise(0.5), **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="needs noise on labels"):
        features.certify(X[:1], adversary=Adversary(groups=np.arange(60)))


@pytest.mark.slow
def test_parameters_can_be_chosen_on_trusted_rows():
    X, y, Z, _ = blobs(2)
    trees = SmoothedClassifier(DecisionTreeClassifier(), 0.3, **QUICK)
    chosen = select_on_trusted(trees, {"estimator__max_depth": [1, 2]}, X, y, trusted=np.arange(60) < 30, flips=1, cv=2)
    assert len(chosen.certify(Z)) == 20
