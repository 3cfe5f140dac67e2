"""Warnings about ids that occur twice and about test rows that are training rows."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import flipproof
from flipproof.fitting.repeated import warn_about_ids, warn_about_training_rows


def rows(n, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return pa.table({"x": rng.normal(size=n) + y, "z": rng.normal(size=n), "y": y})


@pytest.fixture
def files(tmp_path):
    csv.write_csv(rows(40, 0), tmp_path / "train.csv")
    csv.write_csv(rows(10, 1), tmp_path / "test.csv")
    return tmp_path


def test_the_same_file_twice(files):
    with pytest.warns(UserWarning, match=r"train.csv' is both the training and the test file"):
        flipproof.audit(files / "train.csv", files / "train.csv", label="y", attack=False)


def test_test_rows_that_are_training_rows(files):
    mixed = pa.concat_tables([rows(10, 1), rows(40, 0).slice(3, 2)])
    csv.write_csv(mixed, files / "test.csv")
    with pytest.warns(UserWarning, match="of 12 test rows, 2 are also training rows"):
        flipproof.audit(files / "train.csv", files / "test.csv", label="y", attack=False)
    with pytest.warns(UserWarning, match="of 12 test rows, 2 are also training rows"):
        flipproof.audit(rows(40, 0), mixed, label="y", attack=False)


def test_rows_with_another_label_are_other_rows():
    X = np.arange(6.0).reshape(3, 2)
    with pytest.warns(UserWarning, match="of 3 test rows, 1 is also a training row"):
        warn_about_training_rows(X, X, (np.array(["a", "b", "b"]), np.array(["a", "a", "a"])))
    warn_about_training_rows(X, X, (np.array(["b", "b", "b"]), np.array(["a", "a", "a"])))


def test_copies_are_expected_in_tables_of_a_few_categories():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (500, 4)).astype(float)
    labels = (rng.integers(0, 2, 400), rng.integers(0, 2, 100))
    warn_about_training_rows(X[:400], X[400:], labels)
    warn_about_training_rows(X[:400], X[400:], (None, None))


def test_other_features_are_not_compared():
    words = np.array([["a"], ["b"]], dtype=object)
    warn_about_training_rows(words, words, (None, None))
    warn_about_training_rows([[1.0]], [[1.0]], (None, None))


def test_ids_that_occur_twice(files):
    table = rows(40, 0).append_column("key", [[0, 0, *range(2, 40)]])
    with pytest.warns(UserWarning, match=r"column 'key' of the training rows is not unique: 2 rows have the id 0"):
        flipproof.audit(table, rows(10, 1).append_column("key", [list(range(10))]), label="y", id="key", attack=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_ids([], "key", "the test rows")
        warn_about_ids(["a", "b"], "key", "the test rows")
