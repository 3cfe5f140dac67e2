"""Learners take data frames: words are refused with a remedy, and TableEncoder encodes them as a features step."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.naive_bayes import GaussianNB

import flipproof
from flipproof import Adversary, CertifiedForestClassifier, CertifiedPartitionClassifier, CertifiedRidgeClassifier
from flipproof.tables import TableEncoder


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 150
    job = rng.choice(["cook", "nurse", "clerk"], n)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "job": job,
            "married": rng.random(n) < 0.5,
            "pay": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + (job == "nurse")),
            "rich": np.where((job == "nurse") ^ (rng.random(n) < 0.1), "yes", "no"),
        },
        index=rng.permutation(n),
    )


@pytest.mark.parametrize("convert", [lambda X: X, pl.from_pandas])
@pytest.mark.parametrize("learner", [CertifiedRidgeClassifier, CertifiedPartitionClassifier, CertifiedForestClassifier])
def test_words_and_missing_numbers_name_the_remedy_in_one_line(frame, convert, learner):
    y, X = frame["rich"].tolist(), convert(frame.drop(columns="rich"))
    with pytest.raises(ValueError, match=r"column 'job' of the data frame is not numeric") as caught:
        learner().fit(X, y)
    assert f"{learner.__name__}(features=TableEncoder())" in str(caught.value)
    assert "flipproof.audit(train, test, label=...)" in str(caught.value)
    assert "\n" not in str(caught.value)
    numbers = convert(frame[["age", "pay"]])
    with pytest.raises(ValueError, match=r"column 'pay' of the data frame has missing values") as caught:
        learner().fit(numbers, y)
    assert "\n" not in str(caught.value)


def test_test_rows_with_words_are_refused_in_the_same_way(frame):
    model = CertifiedRidgeClassifier().fit(frame[["age", "married"]], frame["rich"])
    with pytest.raises(ValueError, match="TableEncoder"):
        model.predict(frame[["job", "married"]].rename(columns={"job": "age"}))


@pytest.mark.few(1)
@pytest.mark.parametrize("convert", [lambda X: X, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize(
    "learner",
    [
        CertifiedRidgeClassifier(features=TableEncoder()),
        CertifiedForestClassifier(n_estimators=3, features=TableEncoder()),
        CertifiedPartitionClassifier(GaussianNB(), n_partitions=3, features=TableEncoder()),
    ],
)
def test_the_encoder_is_a_features_step_for_frames_of_all_libraries(frame, convert, learner):
    y, X = frame["rich"].to_numpy(), frame.drop(columns="rich").reset_index(drop=True)
    given = convert(X[:100]), convert(X[100:].reset_index(drop=True))
    model = learner.fit(given[0], y[:100])
    certified = model.certify(given[1])
    np.testing.assert_array_equal(model.predict(given[1]), certified.prediction)
    encoder = TableEncoder().fit(X[:100])
    by_hand = learner.__class__(**{**learner.get_params(deep=False), "features": None})
    plain = by_hand.fit(encoder.transform(X[:100]), y[:100]).certify(encoder.transform(X[100:]))
    np.testing.assert_array_equal(certified.prediction, plain.prediction)
    np.testing.assert_array_equal(certified.radius, plain.radius)
    if hasattr(model, "votes_on"):
        found = certified.explain(X_train=given[0], columns=["job"])
        jobs = X["job"].tolist()
        assert list(found.contents["job"])[1:] == [jobs[change.row] for change in found.changes]


def test_the_index_is_no_feature(frame):
    X, y = frame.drop(columns="rich"), frame["rich"]
    shuffled = CertifiedRidgeClassifier(features=TableEncoder()).fit(X[:100], y[:100])
    numbered = CertifiedRidgeClassifier(features=TableEncoder()).fit(X[:100].reset_index(drop=True), y[:100].to_numpy())
    assert "__index_level_0__" not in shuffled.features_.kinds_
    np.testing.assert_array_equal(shuffled.certify(X[100:]).radius, numbered.certify(X[100:]).radius)
    assert shuffled.row_names_.tolist() == X.index[:100].tolist()
    assert numbered.row_names_ is None


def test_the_encoder_learns_from_the_reference(frame):
    X, y = frame.drop(columns="rich"), frame["rich"]
    model = CertifiedRidgeClassifier(features=TableEncoder(), clip=0.9, classes=["no", "yes"])
    model.fit(X[50:100], y[50:100], reference=X[:50])
    certified = model.certify(X[100:], adversary=Adversary(changes="rows"))
    found = certified.explain(X_train=X[50:100], columns=["job", "pay"])
    assert set(found.contents) == {"job", "pay"}
    model.partial_fit(X[100:103], y[100:103]).forget([0])
    assert model.row_names_.tolist() == X.index[51:103].tolist()


@pytest.mark.parametrize("given", ["train", "holdout"])
def test_an_audit_takes_ids_from_the_index(frame, given):
    if given == "holdout":
        result = flipproof.audit(frame, label="rich", holdout=0.3, attack=False)
    else:
        result = flipproof.audit(frame[:100], frame[100:], label="rich", attack=False)
        assert result.test.ids == frame.index[100:].tolist()
    assert set(result.test.ids) | set(result.train.ids) == set(frame.index.tolist())
    labels = frame["rich"][result.test.ids].tolist()
    assert result.test.labels.tolist() == labels
    sliced = frame.reset_index(drop=True)[1::3]
    assert flipproof.audit(frame[::3], sliced, label="rich", attack=False).test.ids == list(range(1, 150, 3))
