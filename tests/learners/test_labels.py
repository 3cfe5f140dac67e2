"""Labels and classes by value: predictions come back in the type of the labels, and equal labels are one class."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.naive_bayes import GaussianNB

from flipproof import Adversary, CertifiedPropagationClassifier, CertifiedRidgeClassifier, SmoothedClassifier

N = 60
Y = np.arange(N) % 2
X = np.random.default_rng(0).normal(size=(N, 3)) + 2 * Y[:, None]
WORDS = np.array(["ham", "spam"])

LABELS = {
    "boolean": (pd.Series(Y == 1, dtype="boolean"), [False, True]),
    "Int64": (pd.Series(Y, dtype="Int64"), [0, 1]),
    "UInt64": (pd.Series(Y, dtype="UInt64"), [0, 1]),
    "Int64 in an array": (pd.array(Y, dtype="Int64"), [0, 1]),
    "Int64 in an index": (pd.Index(Y, dtype="Int64"), [0, 1]),
    "string": (pd.Series(WORDS[Y], dtype="string"), ["ham", "spam"]),
    "words of a category": (pd.Series(WORDS[Y], dtype="category"), ["ham", "spam"]),
    "numbers of a category": (pd.Categorical(Y), [0, 1]),
    "booleans of a category": (pd.Categorical(Y == 1), [False, True]),
    "arrow booleans": (pd.Series(Y == 1, dtype=pd.ArrowDtype(pa.bool_())), [False, True]),
    "arrow numbers": (pd.Series(Y, dtype=pd.ArrowDtype(pa.int16())), [0, 1]),
    "arrow words": (pd.Series(WORDS[Y], dtype=pd.ArrowDtype(pa.string())), ["ham", "spam"]),
    "arrow": (pa.array(Y), [0, 1]),
    "decimals": ([Decimal(int(one)) / Decimal("1.0") for one in Y], [0, 1]),
    "objects": (np.array(Y, dtype=object), [0, 1]),
    "nothing masked": (np.ma.array(Y, mask=False), [0, 1]),
    "uint64": (2**63 + Y.astype(np.uint64), [2**63, 2**63 + 1]),
    "large numbers in a list": ([2**63 + int(one) for one in Y], [2**63, 2**63 + 1]),
    "next to each other in int64": (2**53 + Y, [2**53, 2**53 + 1]),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("given", [False, True])
def test_predictions_are_of_the_type_of_the_labels(name, given):
    labels, classes = LABELS[name]
    expected = CertifiedRidgeClassifier().fit(X, Y).predict(X)
    for model in (
        CertifiedRidgeClassifier(),
        SmoothedClassifier(GaussianNB(), n_select=9, n_samples=9, random_state=0),
    ):
        model.set_params(classes=classes[::-1] if given else None).fit(X, labels)
        assert model.classes_.tolist() == classes
        assert {type(one) for one in model.classes_.tolist()} == {type(classes[0])}
    found = CertifiedRidgeClassifier(classes=classes if given else None).fit(X, labels).predict(X)
    assert found.tolist() == [classes[code] for code in expected]


def test_a_frame_of_one_column_keeps_its_type():
    with pytest.warns(UserWarning, match="column-vector"):
        model = CertifiedRidgeClassifier().fit(X, pd.DataFrame({"y": pd.array(Y == 1, dtype="boolean")}))
    assert model.classes_.dtype == bool


@pytest.mark.few(11)
@pytest.mark.parametrize(
    "classes", [[0, 1], [0.0, 1.0], [Decimal("0.0"), Decimal(1)], pd.Categorical([1, 0]), range(2)]
)
@pytest.mark.parametrize("kind", ["int8", "uint8", "uint64", "float32", "object", "bool"])
def test_classes_of_another_numeric_type(classes, kind):
    model = CertifiedRidgeClassifier(classes=classes).fit(X, Y.astype(kind))
    assert model.classes_.tolist() == [0, 1]
    expected = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, Y)
    adversary = Adversary(allowed=[(np.float32(1), Decimal("0.00"))])
    np.testing.assert_array_equal(
        model.certify(X, adversary=adversary).radius, expected.certify(X, adversary=Adversary(allowed=[(1, 0)])).radius
    )


def test_classes_that_are_equal_in_float64():
    with pytest.raises(ValueError, match=r"contain \[9007199254740993\], which are not in classes"):
        CertifiedRidgeClassifier(classes=[2.0**53, 0.0]).fit(X, np.where(Y == 1, 2**53 + 1, 0))
    model = CertifiedRidgeClassifier().fit(X, np.where(Y == 1, 2**53 + 1, 0))
    with pytest.raises(ValueError, match="not a class of the learner"):
        model.certify(X, adversary=Adversary(allowed=[(2.0**53, 0)]))


@pytest.mark.parametrize("strange", [2**64, -(2**63) - 1])
def test_labels_beyond_64_bits_are_refused(strange):
    with pytest.raises(ValueError, match=rf"at most 64 bits. Got {strange} among them: convert them to strings"):
        CertifiedRidgeClassifier().fit(X, [strange if one else 0 for one in Y])


@pytest.mark.parametrize("name", ["X", "y", "unlabeled", "classes"])
def test_masked_entries_are_refused(name):
    given = {"X": X, "y": Y, "unlabeled": np.arange(N) % 3 == 2}
    classes = np.ma.array([0, 1, 2], mask=[False, False, name == "classes"])
    if name in given:
        given[name] = np.ma.array(given[name], mask=np.zeros(given[name].shape, dtype=bool))
        CertifiedPropagationClassifier().fit(**given)
        given[name][4] = np.ma.masked
    with pytest.raises(ValueError, match=r"must not be missing. Got \d masked"):
        CertifiedPropagationClassifier(classes=classes).fit(**given)


def test_masked_rows_that_have_no_label_are_fine():
    unlabeled = np.arange(N) % 3 == 2
    wanted = CertifiedPropagationClassifier().fit(X, Y, unlabeled)
    labels = (np.ma.array(Y, mask=unlabeled), pd.Series(Y, dtype="Int64").mask(unlabeled), np.where(unlabeled, -7, Y))
    for given in labels:
        model = CertifiedPropagationClassifier().fit(X, given, unlabeled)
        assert model.classes_.tolist() == [0, 1]
        np.testing.assert_array_equal(model.certify(X).radius, wanted.certify(X).radius)


@pytest.mark.parametrize("kind", ["Int64", "boolean"])
def test_missing_labels_are_refused(kind):
    labels = pd.Series(Y, dtype=kind)
    labels[3] = pd.NA
    with pytest.raises(ValueError, match="must not be missing"):
        CertifiedRidgeClassifier().fit(X, labels)


@pytest.mark.parametrize("classes", ["ab", {0, 1}, 3, (one for one in "ab")])
def test_classes_that_are_no_list_are_refused(classes):
    with pytest.raises(ValueError, match="must be a list of at least"):
        CertifiedRidgeClassifier(classes=classes).fit(X, Y)
