"""Bad input is answered by one readable line that says what was wrong and what was expected."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import flipproof
from flipproof import CertifiedRidgeClassifier, LabelFlip
from flipproof.streaming import RowBlocks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.arange(40) % 2
TEN = np.arange(40) % 10
WORDS = np.array(["ham", "spam"])[Y]


def with_entry(value):
    changed = X.copy()
    changed[3, 1] = value
    return changed


def assert_readable(error):
    message = str(error.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 300


BAD_DATA = {
    "NaN": (with_entry(np.nan), Y, "X contains NaN in row 3, column 1: leave out rows like this one, or fill in"),
    "infinity": (with_entry(-np.inf), Y, "X contains infinity in row 3, column 1"),
    "no rows": (X[:0], Y[:0], "0 sample"),
    "no columns": (X[:, :0], Y, "0 feature"),
    "one row": (X[:1], Y[:1], "1 sample.* minimum of 2"),
    "three dimensions": (X[:, :, None], Y, "dim 3"),
    "words as features": (np.full((40, 3), "a"), Y, "could not convert string to float"),
    "a path": ("rows/", Y, "rows in memory. Got str instead: .* flipproof.streaming"),
    "rows in blocks": (RowBlocks.from_arrays(X, Y), None, "Got RowBlocks instead: .* flipproof.streaming"),
    "no labels": (X, None, "requires y"),
    "too few labels": (X, Y[:-1], r"inconsistent numbers of samples: \[40, 39\]"),
    "two columns of labels": (X, np.stack([Y, Y], axis=1), r"1d array, got an array of shape \(40, 2\)"),
    "one class": (X, np.zeros(40), r"only one class, 0\.0; at least two are needed"),
    "one class, in words": (X, ["ham"] * 40, r"only one class, 'ham'; .* name them all with classes=\[\.\.\.\]"),
    "continuous labels": (X, X[:, 0], "Unknown label type: continuous"),
    "NaN among labels": (X, np.where(Y == 1, np.nan, 1.0), "y contains NaN"),
    "mixed list": (X, [1, "a"] * 20, "of one kind. Got a mix of numbers and strings"),
    "mixed booleans": (X, [True, 2] * 20, "of one kind. Got a mix of booleans and numbers"),
    "mixed object array": (X, np.array([1, "a"] * 20, dtype=object), "mix of numbers and strings"),
    "mixed series": (X, pd.Series([1, "a"] * 20), "mix of numbers and strings"),
    "None among strings": (X, [None, "a"] * 20, "must not be missing"),
    "None in an object array": (X, np.array([None, "a"] * 20, dtype=object), "must not be missing"),
    "missing string in a series": (X, pd.Series(["a", "b", None, "a"] * 10, dtype="str"), "NaN|missing"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_training_data_is_refused(name):
    features, labels, message = BAD_DATA[name]
    with pytest.raises(ValueError, match=message) as error:
        CertifiedRidgeClassifier().fit(features, labels)
    assert_readable(error)


BAD_SETTINGS = {
    "q = 0": ({"noise": 0}, Y, r"must be in \(0, .* Got 0 instead: at 0 there is no noise"),
    "q negative": ({"noise": -0.1}, Y, r"must be in \(0, .* Got -0\.1 instead"),
    "q not a number": ({"noise": np.nan}, Y, "Got nan instead"),
    "q infinite": ({"noise": np.inf}, Y, "Got inf instead"),
    "q = 1/2 of two classes": ({"noise": 0.5}, Y, r"must be in \(0, 0\.5\) for 2 classes\. Got 0\.5 instead"),
    "q = 9/10 of ten classes": ({"noise": 0.9}, TEN, r"must be in \(0, 0\.9\) for 10 classes\. Got 0\.9 instead"),
    "q a word": ({"noise": "much"}, Y, "must be a number, a LabelFlip or 'auto'. Got 'much' instead"),
    "q None": ({"noise": None}, Y, "must be a number.* Got None instead"),
    "q a list": ({"noise": [0.1, 0.2]}, Y, r"must be a number.* Got \[0\.1, 0\.2\] instead"),
    "noise of three classes": ({"noise": LabelFlip(0.1, 3)}, Y, "must be for 2 classes"),
    "automatic noise, no intercept": ({"noise": "auto", "fit_intercept": False}, Y, "Set fit_intercept=True"),
    "automatic noise, paper": ({"noise": "auto", "regularization": "paper"}, Y, "needs a single noise q"),
    "method": ({"method": "guess"}, Y, "must be one of 'exact', 'tight', 'kl'. Got 'guess' instead"),
    "precision too low": ({"precision": 1}, Y, "'precision' .* integer from 2 to 24.* Got 1 instead"),
    "precision too high": ({"precision": 25}, Y, "'precision' .* integer from 2 to 24.* Got 25 instead"),
    "precision a fraction": ({"precision": 2.5}, Y, "'precision' .* integer from 2 to 24.* Got 2.5 instead"),
    "block_size 0": ({"block_size": 0}, Y, "'block_size' .* integer of at least 1. Got 0 instead"),
    "block_size a fraction": ({"block_size": 1.5}, Y, "'block_size' .* integer of at least 1. Got 1.5 instead"),
    "regularization negative": ({"regularization": -1}, Y, "'regularization' .* at least 0. Got -1 instead"),
    "regularization a word": ({"regularization": "best"}, Y, "'label-free', 'paper' or .* Got 'best' instead"),
    "regularization NaN": ({"regularization": np.nan}, Y, "'regularization' .* at least 0. Got nan instead"),
    "regularization None": ({"regularization": None}, Y, "'regularization' .* at least 0. Got None instead"),
    "fit_intercept a word": ({"fit_intercept": "yes"}, Y, "'fit_intercept' .* Got 'yes' instead"),
    "one class named": ({"classes": [1]}, Y, r"'classes' .* at least two classes. Got \[1\] instead"),
    "no class named": ({"classes": []}, Y, r"'classes' .* at least two classes. Got \[\] instead"),
    "classes of two dimensions": ({"classes": [[0, 1], [2, 3]]}, Y, "'classes'"),
    "classes of two kinds": ({"classes": [0, 1, "a"]}, Y, "classes.* mix of numbers and strings"),
    "label not named": (
        {"classes": [0, 2]},
        Y,
        r"labels y contain \[1\], which are not in classes=\[0, 2\]",
    ),
    "word not named": ({"classes": ["ham", "eggs"]}, WORDS, r"contain \['spam'\], which are not in classes"),
    "words, but numbers named": ({"classes": [0, 1]}, WORDS, r"contain \['ham', 'spam'\], which are not in classes"),
    "numbers, but words named": ({"classes": ["0", "1"]}, Y, r"contain \[0, 1\], which are not in classes"),
    "features not a transformer": ({"features": "pca"}, Y, "'features' .* a transformer.* Got 'pca' instead"),
    "features that make NaN": ({"features": FunctionTransformer(lambda A: A * np.nan)}, Y, "contains NaN"),
    "features that lose rows": (
        {"features": FunctionTransformer(lambda A: A[:5])},
        Y,
        "inconsistent numbers of samples",
    ),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused(name):
    settings, labels, message = BAD_SETTINGS[name]
    with pytest.raises(ValueError, match=message) as error:
        CertifiedRidgeClassifier(**settings).fit(X, labels)
    assert_readable(error)


def test_the_paper_lambda_needs_more_rows_than_features():
    with pytest.raises(ValueError, match=r"needs more rows than independent features\. Got 3") as error:
        CertifiedRidgeClassifier(regularization="paper", fit_intercept=False).fit(X[:3], Y[:3])
    assert_readable(error)


def test_settings_are_checked_at_fit_and_not_before():
    model = CertifiedRidgeClassifier(noise="much", method="guess", precision=99)
    assert model.precision == 99


def test_sparse_features_are_refused():
    fitted = CertifiedRidgeClassifier().fit(X, Y)
    for call in (lambda A: CertifiedRidgeClassifier().fit(A, Y), fitted.predict, fitted.certify):
        with pytest.raises((TypeError, ValueError), match="dense data is required") as error:  # scikit-learn's way
            call(sparse.csr_array(X))
        assert_readable(error)


BAD_ROWS = {
    "too few columns": (X[:, :2], "X has 2 features, but CertifiedRidgeClassifier is expecting 3"),
    "no rows": (X[:0], "0 sample"),
    "NaN": (with_entry(np.nan), "contains NaN"),
    "infinity": (with_entry(np.inf), "contains infinity"),
}


@pytest.mark.parametrize("features", [None, StandardScaler()], ids=["plain", "with features"])
@pytest.mark.parametrize("call", ["predict", "certify", "vote_weights", "decision_function"])
@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_test_rows_are_refused(name, call, features):
    rows, message = BAD_ROWS[name]
    model = CertifiedRidgeClassifier(features=features).fit(X, Y)
    with pytest.raises(ValueError, match=message) as error:
        getattr(model, call)(rows)
    assert_readable(error)


def test_an_unknown_method_is_refused_by_certify():
    model = CertifiedRidgeClassifier().fit(X, Y)
    for call in (model.certify, lambda rows, method: flipproof.certify(model, rows, method=method)):
        with pytest.raises(ValueError, match=r"must be one of 'exact', 'tight', 'kl'\. Got 'guess' instead") as error:
            call(X, method="guess")
        assert_readable(error)


@pytest.mark.parametrize("call", ["predict", "certify", "vote_weights", "decision_function"])
def test_nothing_works_before_fit(call):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(CertifiedRidgeClassifier(), call)(X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        flipproof.certify(CertifiedRidgeClassifier(), X)
