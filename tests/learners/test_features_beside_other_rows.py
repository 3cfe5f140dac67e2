"""Features of a test row are the same alone and beside any other rows, to the last bit."""

import numpy as np
import pandas as pd
import polars
import pytest
from scipy.sparse import coo_array
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from flipproof import CertifiedForestClassifier, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.features import UMAPFeatures

RNG = np.random.default_rng(0)
Y = np.arange(300) % 2


def rows(k):
    return RNG.normal(size=(300, k)) + 0.4 * Y[:, None]


def same_alone(model, Z, some=(0, 3, 99, 100, 131)):
    together = model.decision_function(Z)
    numbers = np.array(some)
    alone = np.concatenate([model.decision_function(take(Z, [number])) for number in numbers])
    np.testing.assert_array_equal(alone, together[numbers])
    backwards = np.arange(len(together))[::-1]
    np.testing.assert_array_equal(model.decision_function(take(Z, backwards)), together[backwards])


def take(Z, numbers):
    if isinstance(Z, list):
        return [Z[number] for number in numbers]
    return Z.iloc[numbers] if hasattr(Z, "iloc") else Z[np.asarray(numbers)]


@pytest.mark.few(2)
@pytest.mark.parametrize("k", [2, 17, 64, 200, 784])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [PCA(1), PCA(2, whiten=True), make_pipeline(StandardScaler(), PCA(0.9))])
def test_principal_components(k, dtype, step):
    X = rows(k).astype(dtype)
    # one over the distance, in 24 bits: a row of the training set and the last bits of its features weigh most
    model = CertifiedNeighborsClassifier(20, weights="distance", precision=24, features=step).fit(X, Y)
    same_alone(model, X[:132])


def test_other_containers():
    X = rows(30)
    frame = pd.DataFrame(X, columns=[f"c{number}" for number in range(30)])
    for learner in (CertifiedRidgeClassifier(features=PCA(7)), CertifiedForestClassifier(5, features=PCA(7))):
        same_alone(learner.fit(frame, Y), frame[:132])
        same_alone(learner.fit(X.tolist(), Y), X[:132].tolist())
        same_alone(learner.fit(polars.from_pandas(frame), Y), polars.from_pandas(frame)[:132])
    texts = [" ".join(RNG.choice(list("abcdefgh"), 9)) for _ in Y]
    words = make_pipeline(TfidfVectorizer(analyzer="char"), TruncatedSVD(5, random_state=0))
    same_alone(CertifiedRidgeClassifier(features=words).fit(texts, Y), texts[:132])
    same_alone(CertifiedRidgeClassifier(features=words).fit(np.array(texts), Y), np.array(texts)[:132])


def test_sparse_rows_of_any_format():
    X = np.maximum(rows(30), 0)
    model = CertifiedRidgeClassifier(features=TruncatedSVD(5, random_state=0)).fit(coo_array(X), Y)
    np.testing.assert_array_equal(model.predict(coo_array(X)), model.predict(X))


def test_random_numbers_do_not_depend_on_the_place_of_a_row():
    def jittered(X):
        return X + 1e-3 * np.random.normal(size=X.shape[1])  # noqa: NPY002 - what a step might do

    model = CertifiedRidgeClassifier(precision=24, features=FunctionTransformer(jittered)).fit(rows(3), Y)
    same_alone(model, rows(3)[:132])


def test_umap_is_given_all_test_rows_and_says_so():
    assert UMAPFeatures.places_rows_together
    assert UMAPFeatures.rests_on.code == "test-rows-together"


def test_no_test_rows_are_refused():
    model = CertifiedRidgeClassifier(features=PCA(1)).fit(rows(3), Y)
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(np.empty((0, 3)))
