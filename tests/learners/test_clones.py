"""Steps that are fitted here start from nothing, and what they bring with them all the same is said."""

from collections import OrderedDict, deque
from copy import copy, deepcopy
from functools import partial, wraps
from operator import methodcaller

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import flipproof
from flipproof import (
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    select_on_trusted,
)
from flipproof.attacks import AnyClassifierAttack
from flipproof.core.noise import FeatureNoise
from flipproof.learners.clones import brought_along, parts_of
from flipproof.smoothing import SmoothedClassifier

RNG = np.random.default_rng(0)
Y = np.arange(60) % 2
X = RNG.normal(size=(60, 4)) + Y[:, None]
Z = RNG.normal(size=(12, 4)) + 0.5

LEARNERS = [
    CertifiedRidgeClassifier(),
    CertifiedKernelClassifier(),
    CertifiedNeighborsClassifier(5),
    CertifiedClusterClassifier(),
    CertifiedForestClassifier(5),
    CertifiedPropagationClassifier(3),
    CertifiedPartitionClassifier(n_partitions=5),
]

LDA = LinearDiscriminantAnalysis().fit(X, Y)  # its map is made of the labels
FROZEN = FrozenEstimator(LDA)


class SelfCloning(TransformerMixin, BaseEstimator):
    """Claims to be its own clone, and is fitted in place."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0) if y is None else np.mean(np.asarray(X)[np.asarray(y) == 1], axis=0)
        return self

    def transform(self, X):
        return np.asarray(X) - self.mean_


class CopiesItself(SelfCloning):
    """Its clones keep what it has learnt."""

    def __sklearn_clone__(self):
        return copy(self)


class KeepsSecrets(SelfCloning):
    """Its clones keep what it has learnt, where nobody looks."""

    def __sklearn_clone__(self):
        made = KeepsSecrets()
        made._mean = self._mean
        return made

    def fit(self, X, y=None):
        if y is not None:
            self._mean = super().fit(X, y).mean_
        self.mean_ = self._mean
        return self


class Holder(TransformerMixin, BaseEstimator):
    """Applies the object it holds; `clone` does not look into most kinds of objects."""

    def __init__(self, held=None):
        self.held = held

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        held = self.held
        if isinstance(held, dict):
            held = held["step"]
        if isinstance(held, np.ndarray):
            held = held[0]
        return (getattr(held, "step", held)).transform(X)


class Box:
    """Nothing that scikit-learn knows."""

    def __init__(self, step):
        self.step = step

    def transform(self, X):
        return self.step.transform(X)


def embed(X):
    return LDA.transform(X)


def objects(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


#: Steps that know the labels without being fitted to them, the part that does, and what it is.
SMUGGLERS = {
    "frozen": (FROZEN, "", "FrozenEstimator of LinearDiscriminantAnalysis"),
    "in a pipeline": (Pipeline([("a", StandardScaler()), ("lda", FROZEN)]), "lda", "FrozenEstimator of"),
    "in columns": (ColumnTransformer([("lda", FROZEN, [0, 1, 2, 3])]), "lda", "FrozenEstimator of"),
    "in a union": (FeatureUnion([("pca", PCA(2)), ("lda", FROZEN)]), "lda", "FrozenEstimator of"),
    "nested": (
        Pipeline([("union", FeatureUnion([("deep", Pipeline([("lda", FROZEN)]))]))]),
        "union__deep__lda",
        "FrozenEstimator of",
    ),
    "selection": (
        SelectFromModel(FrozenEstimator(LogisticRegression().fit(X, Y)), prefit=True),
        "estimator",
        "FrozenEstimator of LogisticRegression",
    ),
    "its own clone": (SelfCloning().fit(X, Y), "", "SelfCloning"),
    "its own clone in a pipeline": (make_pipeline(SelfCloning().fit(X, Y)), "selfcloning", "SelfCloning"),
    "clone with memories": (CopiesItself().fit(X, Y), "", "CopiesItself"),
    "clone with secrets": (KeepsSecrets().fit(X, Y), "", "KeepsSecrets"),
    "ordered dict": (Holder(OrderedDict(step=LDA)), "held['step']", "LinearDiscriminantAnalysis"),
    "array of objects": (Holder(objects(LDA)), "held[0]", "LinearDiscriminantAnalysis"),
    "another object": (Holder(Box(LDA)), "held", "Box"),
    "bound method": (FunctionTransformer(LDA.transform), "func", "method transform of LinearDiscriminantAnalysis"),
    "function": (FunctionTransformer(embed), "func", "function embed"),
    "partial": (FunctionTransformer(partial(embed)), "func", "partial"),
    "polynomial": (FunctionTransformer(np.polynomial.Polynomial.fit(X[:, 0], Y, 2)), "func", "Polynomial"),
    "ufunc": (FunctionTransformer(np.frompyfunc(lambda one: one + LDA.coef_[0, 0], 1, 1)), "func", "ufunc"),
    "in a library's clothes": (FunctionTransformer(wraps(np.mean)(lambda rows: embed(rows))), "func", "function mean"),
    "method caller": (FunctionTransformer(methodcaller("__mul__", LDA.coef_)), "func", "methodcaller"),
    "method of an array": (FunctionTransformer(LDA.coef_[0].__mul__), "func", "method-wrapper"),
}


@pytest.mark.parametrize("function", [np.log1p, np.mean, expit, np.sqrt, abs], ids=lambda one: one.__name__)
def test_functions_of_libraries_know_no_labels(function):
    assert brought_along(FunctionTransformer(function)) == ([], [])


def test_steps_in_any_collection_are_found():
    for held in ([LDA], (LDA,), deque([LDA]), {"a": LDA}, objects(LDA)):
        assert [type(part.value) for part in parts_of(Holder(held)) if part.is_step] == [Holder, type(LDA)]


def told(certificates):
    """Return what is said about steps that know more than their fit."""
    return [one for one in certificates.assumptions if one.code in ("fitted-elsewhere", "used-as-given")]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SMUGGLERS)
def test_a_step_that_may_know_the_labels_is_named(name):
    step, path, kind = SMUGGLERS[name]
    model = CertifiedRidgeClassifier(features=step).fit(X, Y)
    certificates = model.certify(Z)
    assert len(told(certificates)) == 1
    said = told(certificates)[0]
    assert said.values["role"] == "features step"
    assert said.values["data"] == "labels"
    if said.code == "fitted-elsewhere":
        assert said.values["path"] == path
        assert said.values["part"].startswith(kind)
    else:
        [(at, named)] = said.values["parts"]
        assert (at, named[: len(kind)]) == (path, kind)
    np.testing.assert_array_equal(model.predict(Z), certificates.prediction)
    said_to_be_label_free = [one for one in certificates.assumptions if one.code == "fitted-without-labels"]
    assert len(said_to_be_label_free) == (path != "")
    if path and said.code == "fitted-elsewhere":
        assert said_to_be_label_free[0].values["but"] == (path,)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_frozen_encoder_serves_every_learner(learner):
    model = clone(learner).set_params(features=FROZEN, classes=[0, 1]).fit(X, Y)
    by_hand = clone(learner).set_params(classes=[0, 1]).fit(LDA.transform(X), Y)
    certificates, expected = model.certify(Z), by_hand.certify(LDA.transform(Z))
    np.testing.assert_array_equal(certificates.prediction, expected.prediction)
    np.testing.assert_array_equal(certificates.radius, expected.radius)
    assert len(told(certificates)) == 1
    assert model.features_ is FROZEN


@pytest.mark.slow
def test_what_is_said_is_true_of_a_frozen_step_that_did_read_the_labels():
    # without the sentence there would be a broken promise: refitted, the encoder is another one, and so is the model
    def fitted(labels):
        step = FrozenEstimator(LinearDiscriminantAnalysis().fit(X, labels))
        return CertifiedRidgeClassifier(features=make_pipeline(StandardScaler(), step), classes=[0, 1]).fit(X, labels)

    points = RNG.normal(size=(200, 4)) + 0.5
    before = fitted(Y).certify(points)
    broken = 0
    for row in range(len(Y)):
        attacked = Y.copy()
        attacked[row] = 1 - attacked[row]
        broken += np.count_nonzero((fitted(attacked).predict(points) != before.prediction) & (before.radius >= 1))
    assert broken > 0
    assert len(told(before)) == 1


@pytest.mark.parametrize(
    "step",
    [
        StandardScaler(),
        PCA(2).fit(X),
        make_pipeline(StandardScaler(), PCA(2)).fit(X),
        ColumnTransformer([("scale", StandardScaler(), [0, 1]), ("rest", "passthrough", slice(2, 4))]),
        FunctionTransformer(np.cbrt),
        FeatureUnion([("a", PCA(2)), ("b", "passthrough")]),
    ],
    ids=repr,
)
def test_nothing_is_said_about_steps_that_start_from_nothing(step):
    certificates = CertifiedRidgeClassifier(features=step).fit(X, Y).certify(Z)
    assert told(certificates) == []
    [fitted] = [one for one in certificates.assumptions if one.code == "fitted-without-labels"]
    assert fitted.values["but"] == ()


def test_a_frozen_step_that_was_never_fitted_is_refused():
    for step in (FrozenEstimator(PCA(2)), make_pipeline(FrozenEstimator(PCA(2)))):
        with pytest.raises(ValueError, match=r"'features' parameter of .* This PCA instance is not fitted yet"):
            CertifiedRidgeClassifier(features=step).fit(X, Y)


BASES = {
    "frozen": (FrozenEstimator(DecisionTreeClassifier().fit(X, Y)), "FrozenEstimator of DecisionTreeClassifier"),
    "behind a frozen step": (make_pipeline(FROZEN, LogisticRegression()), "'frozenestimator'"),
    "calibrated": (
        CalibratedClassifierCV(FrozenEstimator(LogisticRegression().fit(X, Y)), cv=2),
        "'estimator' (FrozenEstimator of LogisticRegression)",
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", BASES)
def test_base_learners_with_frozen_steps(name):
    base, named = BASES[name]
    partition = CertifiedPartitionClassifier(base, 3, classes=[0, 1]).fit(X, Y)
    smoothed = SmoothedClassifier(base, 0.3, 5, 20, classes=[0, 1], random_state=0).fit(X, Y)
    for model in (partition, smoothed):
        certificates = model.certify(Z)
        np.testing.assert_array_equal(certificates.prediction, model.predict(Z))
        [said] = told(certificates)
        assert named in str(said)
        assert said.values["role"] == "base learner"


def test_where_features_are_noised_a_frozen_step_must_not_have_read_those_either():
    base = make_pipeline(FROZEN, LogisticRegression())
    model = SmoothedClassifier(base, FeatureNoise(1.0), 5, 20, random_state=0).fit(X, Y)
    [said] = told(model.certify(Z))
    assert (said.code, said.values["data"]) == ("fitted-elsewhere", "training data")


def test_a_pipeline_with_a_frozen_step_is_certified():
    model = Pipeline([("lda", FROZEN), ("scale", StandardScaler()), ("ridge", CertifiedRidgeClassifier())]).fit(X, Y)
    certificates = flipproof.certify(model, Z)
    [said] = told(certificates)
    assert said.code == "fitted-elsewhere"
    assert said.values["role"] == "pipeline's step 'lda'"
    assert said.values["step"] == "FrozenEstimator of LinearDiscriminantAnalysis"
    [fitted] = [one for one in certificates.assumptions if one.code == "pipeline-steps"]
    assert fitted.values["steps"] == (("scale", "StandardScaler"),)


def test_an_index_behind_a_frozen_step_is_named():
    index = make_pipeline(FROZEN, KNeighborsTransformer(mode="distance", n_neighbors=9))
    certificates = CertifiedNeighborsClassifier(5, index=index).fit(X, Y).certify(Z)
    [said] = told(certificates)
    assert [said.values[name] for name in ("role", "step", "path")] == [
        "neighbour index",
        "Pipeline",
        "frozenestimator",
    ]


def test_parameters_are_chosen_with_frozen_features():
    trusted = np.arange(60) < 30
    learner = CertifiedRidgeClassifier(features=FROZEN, classes=[0, 1])
    selection = select_on_trusted(learner, {"regularization": [0.1, 10.0]}, X, Y, trusted, flips=2)
    assert len(told(selection.certify(Z))) == 1
    grid = {"features": [FROZEN, PCA(2)]}
    assert select_on_trusted(learner, grid, X, Y, trusted, flips=2).best_params["features"] is FROZEN


def test_a_classifier_with_frozen_steps_is_attacked():
    model = make_pipeline(FROZEN, LogisticRegression()).fit(X, Y)
    result = AnyClassifierAttack(max_refits=30).attack(model, X, Y, Z)
    for row in np.flatnonzero(result.success)[:3]:
        assert clone(model).fit(X, result.poisoned(Y, row)).predict(Z[[row]])[0] != result.prediction[row]
    assert result.success.any()


# --- what is its own clone is copied, unless it is frozen


class SelfCloningTree(DecisionTreeClassifier):
    """Claims to be its own clone, although it is fitted in place."""

    def __sklearn_clone__(self):
        return self


@pytest.mark.parametrize("base", [SelfCloningTree(), make_pipeline(SelfCloningTree())], ids=["alone", "in a pipeline"])
def test_every_partition_has_a_separate_model_and_the_given_one_is_unchanged(base):
    before = deepcopy(base)
    model = CertifiedPartitionClassifier(base, 5, classes=[0, 1]).fit(X, Y)
    plain = CertifiedPartitionClassifier(DecisionTreeClassifier(), 5, classes=[0, 1]).fit(X, Y)
    np.testing.assert_array_equal(model.certify(X).margin, plain.certify(X).margin)
    assert 0 < plain.certify(X).margin.min() < 5
    tree = base[-1] if isinstance(base, Pipeline) else base
    assert not hasattr(tree, "tree_")
    assert repr(base) == repr(before)
    assert tree.random_state is None


def test_kept_models_of_a_smoothed_learner_share_nothing():
    settings = {"n_select": 5, "n_samples": 15, "keep_models": True, "random_state": 0}
    model = SmoothedClassifier(SelfCloningTree(), 0.3, **settings).fit(X, Y)
    plain = SmoothedClassifier(DecisionTreeClassifier(), 0.3, **settings).fit(X, Y)
    np.testing.assert_array_equal(model.certify(Z).margin, plain.certify(Z).margin)
    assert len({id(one) for one in model.models_}) == 20


def test_features_whose_clone_is_the_step_itself_are_not_fitted_in_place():
    step = SelfCloning().fit(X, Y)
    mean = step.mean_.copy()
    model = CertifiedRidgeClassifier(features=make_pipeline(step)).fit(X, Y)
    np.testing.assert_array_equal(step.mean_, mean)
    assert step.random_state is None
    np.testing.assert_array_equal(model.features_[0].mean_, X.mean(axis=0))


# --- random states


class NestedStates(TransformerMixin, BaseEstimator):
    """Holds random states where `get_params` does not go."""

    def __init__(self, steps=None, random_state=None):
        self.steps = steps
        self.random_state = random_state

    def set_params(self, **params):
        super().set_params(**params)  # and returns nothing

    def fit(self, X, y=None):
        self.map_ = self.steps["sampler"][0].fit(X)
        self.shift_ = float(np.random.default_rng(self.random_state).normal())
        return self

    def transform(self, X):
        return self.map_.transform(X) + self.shift_


@pytest.mark.few(3)
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_features_with_hidden_random_states_are_reproducible(learner):
    sampler = RBFSampler(n_components=20)
    step = make_pipeline(StandardScaler(), NestedStates({"sampler": [sampler]}))
    first, second = (clone(learner).set_params(features=step, classes=[0, 1]).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(first.features_.transform(Z), second.features_.transform(Z))
    assert sampler.random_state is None
    assert step[1].random_state is None


class TossesCoins(TransformerMixin, BaseEstimator):
    """Draws from numpy's global generator when it is fitted, and when it transforms."""

    def fit(self, X, y=None):
        self.signs_ = np.random.choice([-1.0, 1.0], size=X.shape[1])  # noqa: NPY002
        return self

    def transform(self, X):
        return X * self.signs_ + np.random.normal(size=np.shape(X))  # noqa: NPY002


@pytest.mark.few(3)
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_features_that_use_the_global_generator_are_reproducible_and_leave_it_unchanged(learner):
    np.random.seed(3)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (clone(learner).set_params(features=TossesCoins(), classes=[0, 1]).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.seed(4)  # noqa: NPY002
    one, two = first.certify(Z), second.certify(Z)
    np.testing.assert_array_equal(first.predict(Z), one.prediction)
    np.testing.assert_array_equal(one.margin, two.margin)
    np.testing.assert_array_equal(one.radius, two.radius)
