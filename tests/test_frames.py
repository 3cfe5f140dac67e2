"""Certificates by row, as data frames of the library of the input, and with true classes in the right order."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import Certificate, Certificates, CertifiedNeighborsClassifier, CertifiedRidgeClassifier

NAMES = [f"mail-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(72) % 3 == 0, "spam", "ham")
    X = rng.normal(size=(72, 2)) + 2 * (y == "spam")[:, None]
    return pd.DataFrame(X, columns=["links", "length"], index=[f"mail-{n}" for n in range(72)]), pd.Series(
        y, index=[f"mail-{n}" for n in range(72)]
    )


@pytest.fixture(scope="module")
def certified(rows):
    X, y = rows
    model = CertifiedRidgeClassifier(classes=["ham", "spam"]).fit(X[12:], y[12:])
    return model.certify(X[:12])


def test_an_integer_gives_one_certificate_whose_text_is_a_sentence(certified):
    one = certified[3]
    assert isinstance(one, Certificate)
    assert (one.id, one.prediction, one.radius) == ("mail-3", certified.prediction[3], certified.radius[3])
    assert type(one.radius) is int
    assert type(one.prediction) is str
    assert str(one).startswith(f"Test row mail-3 is predicted as {one.prediction}. ")
    assert certified[-1].id == "mail-11"
    assert certified[np.int64(2)].id == "mail-2"
    assert [one.id for one in certified] == NAMES
    with pytest.raises(IndexError):
        certified[12]


@pytest.mark.parametrize("chosen", [slice(2, 5), [4, 2], np.arange(12) > 8, np.array([], dtype=int)])
def test_slices_and_masks_give_certificates_that_keep_their_names(certified, chosen):
    some = certified[chosen]
    assert isinstance(some, Certificates)
    assert some.ids == np.array(NAMES)[chosen].tolist()
    np.testing.assert_array_equal(some.radius, certified.radius[chosen])
    assert some.to_frame().index.tolist() == some.ids


def test_the_frame_has_the_index_of_the_input_and_no_unused_columns(certified, rows):
    frame = certified.to_frame(rows[1])
    columns = ["label", "prediction", "correct", "radius", "rival", "margin", "unit"]
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == columns
    assert frame.index.equals(rows[0].index[:12])
    assert frame["radius"].tolist() == certified.radius.tolist()
    assert frame["label"].tolist() == rows[1][:12].tolist()
    assert frame["correct"].tolist() == (certified.prediction == rows[1][:12].to_numpy()).tolist()
    assert certified.to_frame().columns.tolist() == ["prediction", "radius", "rival", "margin", "unit"]
    assert certified.to_frame(index=range(12)).index.tolist() == list(range(12))
    with pytest.raises(ValueError, match="one name per certificate"):
        certified.to_frame(index=range(3))


def test_named_and_many_levelled_indexes_survive(rows):
    X, y = rows
    index = pd.MultiIndex.from_product([["a", "b"], range(6)], names=["box", "number"])
    model = CertifiedNeighborsClassifier(3).fit(X[12:], y[12:])
    certified = model.certify(X[:12].set_axis(index))
    assert certified.to_frame().index.equals(index)
    assert certified.to_frame().index.names == ["box", "number"]
    assert certified[7].id == ("b", 1)


@pytest.mark.parametrize(("convert", "kind"), [(pl.from_pandas, pl.DataFrame), (pa.Table.from_pandas, pa.Table)])
def test_frames_of_other_libraries_come_back_as_such(rows, convert, kind):
    X, y = rows[0].reset_index(drop=True), rows[1].tolist()
    model = CertifiedNeighborsClassifier(3).fit(X[12:], y[12:])
    given = convert(X[:12])
    certified = model.certify(given if kind is pl.DataFrame else X[:12])
    if kind is pa.Table:  # learners take no pyarrow tables, but features steps do
        from flipproof.tables import TableEncoder

        model = CertifiedNeighborsClassifier(3, features=TableEncoder()).fit(convert(X[12:]), y[12:])
        certified = model.certify(given)
    frame = certified.most_fragile(4).to_frame(np.array(y)[certified.fragile_order()[:4]])
    assert isinstance(frame, kind)
    names = frame.columns if kind is pl.DataFrame else frame.column_names
    assert list(names) == ["id", "label", "prediction", "correct", "radius", "rival", "margin", "unit"]
    found = frame["id"].to_list() if kind is pl.DataFrame else frame["id"].to_pylist()
    assert found == certified.fragile_order()[:4].tolist()


def test_arrays_give_pandas_frames_with_row_numbers(rows):
    X, y = rows[0].to_numpy(), rows[1].to_numpy()
    certified = CertifiedNeighborsClassifier(3).fit(X[12:], y[12:]).certify(X[:12])
    assert certified[np.arange(12) > 8].to_frame().index.tolist() == [9, 10, 11]


def test_the_most_fragile_come_first(certified):
    fragile = certified.most_fragile(5)
    assert fragile.radius.tolist() == np.sort(certified.radius)[:5].tolist()
    assert len(certified.most_fragile(100)) == 12
    assert len(certified.most_fragile(0)) == 0
    with pytest.raises(ValueError, match="'n' parameter of most_fragile"):
        certified.most_fragile(-1)


def test_a_series_is_read_by_its_index(certified, rows):
    y = rows[1]
    expected = certified.to_frame(y[:12])
    pd.testing.assert_frame_equal(certified.to_frame(y[:12][::-1]), expected)  # another order
    pd.testing.assert_frame_equal(certified.to_frame(y), expected)  # more rows
    pd.testing.assert_frame_equal(certified[:4].to_frame(y), expected[:4])
    accuracy = flipproof.certified_accuracy(y[:12].to_numpy(), certified, [0, 3])
    np.testing.assert_array_equal(flipproof.certified_accuracy(y[::-1], certified, [0, 3]), accuracy)
    assert certified.to_arrow(y_true=y)["label"].to_pylist() == y[:12].tolist()


def test_labels_that_do_not_fit_are_refused(certified, rows):
    y = rows[1][:12]
    with pytest.raises(ValueError, match="y_true must have the index"):
        certified.to_frame(y.reset_index(drop=True))
    with pytest.raises(ValueError, match="more than once"):
        certified.to_frame(pd.concat([y, y]))
    with pytest.raises(ValueError, match="one label per certificate"):
        certified.to_frame(y.to_numpy()[:5])
    with pytest.raises(ValueError, match="type of the training labels"):
        certified.to_frame(np.arange(12))


def test_every_way_to_certify_keeps_the_index(rows):
    X, y = rows
    train, test = (X[12:], y[12:]), X[:12]
    pipeline = make_pipeline(StandardScaler(), CertifiedRidgeClassifier()).fit(*train)
    search = GridSearchCV(CertifiedNeighborsClassifier(), {"n_neighbors": [3, 5]}, cv=2).fit(*train)
    partition = flipproof.CertifiedPartitionClassifier(GaussianNB(), n_partitions=3).fit(*train)
    smoothed = flipproof.SmoothedClassifier(GaussianNB(), n_select=5, n_samples=20, confidence=0.9).fit(*train)
    blocks = flipproof.StreamingRidgeClassifier(classes=["ham", "spam"]).fit(train[0].to_numpy(), train[1].to_numpy())
    assert flipproof.certify(pipeline, test).origin.model is pipeline
    for model in (pipeline, search, partition, smoothed):
        assert flipproof.certify(model, test).to_frame().index.equals(test.index)
    assert blocks.certify(pd.DataFrame(test.to_numpy(), index=test.index)).ids == NAMES
    assert "abstained" in smoothed.certify(test).to_frame()
    assert not {"log_failure", "noise"} & set(partition.certify(test).to_arrow().column_names)
    columns = smoothed.certify(test).to_arrow().column_names
    assert {"abstained", "abstention_reason", "log_failure", "log_rival"} <= set(columns)
    assert not any(name.startswith("witness") for name in columns)


def test_a_pickled_result_leaves_the_model_behind(certified):
    again = pickle.loads(pickle.dumps(certified))
    assert again.origin.model is None
    assert again.origin.X is None
    assert again.to_frame().equals(certified.to_frame())
    with pytest.raises(ValueError, match=r"give model=\.\.\. and X_test"):
        again.explain("mail-3")
    known = certified.origin
    assert again.explain("mail-3", model=known.model, X_test=known.X).note == certified.explain("mail-3").note


@pytest.mark.parametrize("model", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_other_classifiers_are_told_how_to_be_certified(rows, model):
    with pytest.raises(ValueError, match=r"CertifiedPartitionClassifier\(LogisticRegression\(\)\).*SmoothedClassifier"):
        flipproof.certify(model, rows[0])
    with pytest.raises(ValueError, match=r"CertifiedPartitionClassifier\(LogisticRegression\(\)\).*SmoothedClassifier"):
        flipproof.audit((rows[0].to_numpy(), rows[1].to_numpy()), holdout=0.2, learner=model)
