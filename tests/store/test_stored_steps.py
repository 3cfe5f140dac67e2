"""Every step, clusterer and base learner of the registry is the same after loading, to the last bit."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from same_state import difference
from sklearn.cluster import Birch
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import NMF, PCA, FastICA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestCentroid
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from stored_models import N_ROWS, X, Y, cluster, models, neighbors, partition, ridge

import flipproof
from flipproof.features import RICA, UMAPFeatures, WordVectors, ica_features
from flipproof.store import registered_classes
from flipproof.tables import TableEncoder

DENSE = FunctionTransformer(np.abs)
HOLES = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
NAMES = np.array([["ann", "bob", "cid", None][i % 4] for i in range(N_ROWS)], dtype=object)
COLOURS = np.array([["red", "blue"][i % 2] for i in range(N_ROWS - 1)] + ["rare"], dtype=object)
WORD_ROWS = np.stack([NAMES, COLOURS], axis=1)
TEXTS = [f"the {NAMES[i]} has {COLOURS[i]} shoes, $ {i % 5} and ümlaut 😀" for i in range(N_ROWS)]
FRAME = pd.DataFrame({"a": HOLES[:, 0], "n": np.arange(N_ROWS) % 5, "name": NAMES, "text": TEXTS, "ok": X[:, 1] > 0})
NUMBERS = FRAME[["a", "n"]].fillna(0.0)
IMAGES = np.random.default_rng(0).random((N_ROWS, 36))
VECTORS = (["shoes", "red", "bob"], [[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])


def by_column(remainder):
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return ColumnTransformer([("numbers", numbers, ["a"]), ("words", OneHotEncoder(), ["name"])], remainder=remainder)


STEPS = [
    *((scaler(), X) for scaler in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer, Binarizer)),
    (StandardScaler(with_mean=False, with_std=False), X),
    (StandardScaler(), NUMBERS),
    (StandardScaler().set_output(transform="pandas"), NUMBERS),
    (make_pipeline(StandardScaler(), SimpleImputer()), HOLES),
    (RobustScaler(with_centering=False), X.astype("float32")),
    (QuantileTransformer(n_quantiles=9), X),
    (PowerTransformer(), X),
    (KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"), X),
    *((PCA(2, svd_solver=solver, whiten=solver == "full"), X) for solver in ("auto", "full", "randomized", "arpack")),
    (TruncatedSVD(2), X),
    (FastICA(2, tol=0.1), X),
    (ica_features(2), X),
    (VarianceThreshold(), X),
    (Nystroem(n_components=5, random_state=0), X),
    (RBFSampler(n_components=5, random_state=0), X),
    (FunctionTransformer(), X),
    (FunctionTransformer(np.log1p), np.abs(X)),
    (SimpleImputer(strategy="constant", fill_value=-1), HOLES),
    (
        make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder(sparse_output=False)),
        WORD_ROWS,
    ),
    (FeatureUnion([("missing", MissingIndicator()), ("values", SimpleImputer())]), HOLES),
    (OneHotEncoder(sparse_output=False, handle_unknown="infrequent_if_exist", min_frequency=3), WORD_ROWS),
    (OneHotEncoder(sparse_output=False, drop="first"), WORD_ROWS),
    (OneHotEncoder(sparse_output=False, dtype=np.float32), X.round()),
    (OneHotEncoder(sparse_output=False, categories=[["ann", "bob", "cid", None], ["rare", "blue", "red"]]), WORD_ROWS),
    (OrdinalEncoder(encoded_missing_value=-1, handle_unknown="use_encoded_value", unknown_value=-2), WORD_ROWS),
    (make_pipeline(TfidfVectorizer(stop_words=["the"]), TruncatedSVD(3)), TEXTS),
    (make_pipeline(CountVectorizer(ngram_range=(1, 2)), TfidfTransformer(), TruncatedSVD(3)), TEXTS),
    (make_pipeline(CountVectorizer(vocabulary={"shoes": 0, "ann": 1}), TruncatedSVD(1)), TEXTS),
    (make_pipeline(HashingVectorizer(n_features=64), TruncatedSVD(3)), TEXTS),
    (FeatureUnion([("pca", PCA(1)), ("as they are", "passthrough"), ("no", "drop")]), X),
    (FrozenEstimator(PCA(2).fit(X)), X),
    (by_column("drop"), FRAME),
    (by_column(MinMaxScaler()), FRAME[["a", "name", "n"]]),
    (ColumnTransformer([("first", StandardScaler(), [0]), ("rest", "passthrough", slice(1, 3))]), X),
    (ColumnTransformer([("first", StandardScaler(), np.array([True, False, True]))], remainder="passthrough"), X),
    (make_pipeline(make_pipeline(StandardScaler()), PCA(2)), X),
    *((TableEncoder(["text"], scale=scale, text_dimensions=3), FRAME) for scale in ("standard", "rank", "none")),
    (TableEncoder(), pa.table({"heavy": np.arange(N_ROWS) ** 12.0, "n": np.arange(N_ROWS) % 5})),
    (TableEncoder(), pa.table({"v": [[1.0, float(i)] for i in range(N_ROWS)], "n": list(range(N_ROWS))})),
    (WordVectors(VECTORS, weighting="idf"), TEXTS),
    (RICA(4, patch_size=3, n_patches=50, n_whitened=5, grid=1, stride=1, max_iter=2), IMAGES),
]

BASE_LEARNERS = [
    *(LogisticRegression(), RidgeClassifier(), LinearSVC(), SGDClassifier(), SGDClassifier(average=True), Perceptron()),
    *(GaussianNB(), make_pipeline(DENSE, BernoulliNB(binarize=0.3)), make_pipeline(DENSE, MultinomialNB())),
    *(
        make_pipeline(DENSE, ComplementNB()),
        NearestCentroid(),
        LinearDiscriminantAnalysis(),
    ),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    make_pipeline(PCA(1), QuadraticDiscriminantAnalysis()),
    *(DecisionTreeClassifier(max_depth=3), ExtraTreeClassifier(), RandomForestClassifier(3), ExtraTreesClassifier(3)),
]


def round_trip(model, folder):
    flipproof.save(model, folder / "m.flipproof")
    return flipproof.load(folder / "m.flipproof")


@pytest.mark.few(3)
@pytest.mark.parametrize(("step", "rows"), STEPS, ids=lambda one: type(one).__name__)
def test_features_are_the_same_to_the_last_bit(step, rows, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FastICA may stop early
        model = neighbors(5, features=step).fit(rows, Y)
    loaded = round_trip(model, tmp_path)
    assert difference(model, loaded) is None
    assert model.test_features(rows).tobytes() == loaded.test_features(rows).tobytes()
    assert model.certify(rows).radius.tolist() == loaded.certify(rows).radius.tolist()


@pytest.mark.few(3)
@pytest.mark.parametrize("base", BASE_LEARNERS, ids=lambda one: type(one).__name__)
def test_base_learners_of_partitions(base, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows in a partition
        model = partition(base, 3).fit(X, np.array(["no", "yes", "ü"])[Y])
    loaded = round_trip(model, tmp_path)
    assert difference(model, loaded) is None
    assert np.array_equal(model.decision_function(X), loaded.decision_function(X))


#: Classes that other tests store: tests/store/test_stored_crowds.py, and tests/features/test_sentence_encoder.py.
STORED_ELSEWHERE = {
    "flipproof.core.ballots.Ballots",
    "flipproof.core.majority.ItemVotes",
    "flipproof.features.sentence_encoder.SentenceEncoder",
}


@pytest.mark.slow
def test_every_class_of_the_registry_is_stored_by_some_test(tmp_path):
    """A new entry needs a line here; an entry without a test may lose what its class needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_steps = [neighbors(5, features=step).fit(rows, Y) for step, rows in STEPS]
        of_bases = [partition(base, 3).fit(X, Y) for base in BASE_LEARNERS]
        of_tables = flipproof.audit(FRAME.assign(y=Y), holdout=0.2, label="y", text=["text"], annotator="n").deployed
        stored = [*models().values(), *of_steps, *of_bases, of_tables]
    found = set()
    for model in stored:
        flipproof.save(model, tmp_path / "m.flipproof")
        content = (tmp_path / "m.flipproof").read_bytes()
        found |= {key for key in registered_classes() if f'\\"object\\":\\"{key}\\"'.encode() in content}
    assert set(registered_classes()) - found == STORED_ELSEWHERE


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_types_of_the_reference_are_kept(make, tmp_path):
    """Rows are converted to the types of the reference, also those of data frames."""
    frame = make({"a": np.arange(N_ROWS) % 7, "b": X[:, 0]})
    model = ridge(features=StandardScaler()).fit(frame, Y, reference=frame)
    loaded = round_trip(model, tmp_path)
    assert difference(model, loaded) is None
    assert np.array_equal(model.certify(frame).radius, loaded.certify(frame).radius)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("model", "named"),
    [
        (ridge(features=NMF(2, max_iter=2)), "sklearn.decomposition._nmf.NMF"),
        (ridge(features=FunctionTransformer(lambda X: X)), "the function <lambda>"),
        (ridge(features=FunctionTransformer(np.asarray)), "the function asarray"),
        (ridge(features=FunctionTransformer(np.sin)), "the function sin"),
        (ridge(features=make_pipeline(MinMaxScaler(), NMF(2, max_iter=2))), "features.steps.1.1 is a .*NMF"),
        (ridge(features=make_pipeline(StandardScaler(), memory="folder")), "memory=None"),
        (neighbors(5, index=KNeighborsTransformer(n_neighbors=5)), "index"),
        (neighbors(5, metric=lambda u, v: abs(u - v).sum()), "the function <lambda>"),
        (cluster(Birch(n_clusters=2)), "Birch"),
        (partition(SVC(), 2), "SVC"),
        (partition(KNeighborsClassifier(), 2), "KNeighborsClassifier"),
        (partition(HistGradientBoostingClassifier(max_iter=2), 2), "HistGradientBoostingClassifier"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_what_cannot_be_stored_is_refused_by_name(model, named, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.abs(X[:, :2])
        fitted = model.fit(rows, Y)
    with pytest.raises(ValueError, match=named) as caught:
        flipproof.save(fitted, tmp_path / "m.flipproof")
    assert "docs/models.md" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_subclasses_are_refused(tmp_path):
    class Own(StandardScaler):
        """A subclass may transform in another way."""

    with pytest.raises(ValueError, match="Own, which cannot be stored"):
        flipproof.save(ridge(features=Own()).fit(X, Y), tmp_path / "m.flipproof")


def test_selectors_of_columns_are_refused(tmp_path):
    step = ColumnTransformer([("numbers", StandardScaler(), make_column_selector(dtype_include=float))])
    with pytest.raises(ValueError, match="make_column_selector"):
        flipproof.save(ridge(features=step).fit(NUMBERS, Y), tmp_path / "m.flipproof")


@pytest.mark.deep("umap")
def test_maps_that_place_rows_together_are_refused(tmp_path):
    model = ridge(features=UMAPFeatures(2)).fit(np.vstack([X] * 3), np.tile(Y, 3))
    with pytest.raises(ValueError, match="UMAPFeatures"):
        flipproof.save(model, tmp_path / "m.flipproof")
