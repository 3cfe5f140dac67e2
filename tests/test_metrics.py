"""Certified accuracy and recall, on five certificates that can be counted by hand."""

import numpy as np
import pandas as pd
import pytest

from flipproof import Certificates, certified_accuracy, certified_recall
from flipproof.metrics import constant_class, last_above, worst_class

TRUTH = ["ham", "ham", "spam", "spam", "spam"]


@pytest.fixture
def certificates():
    m = 5
    return Certificates(
        prediction=np.array(["ham", "spam", "spam", "spam", "spam"]),  # the second is wrong
        radius=np.array([3, 50, 0, 10, 10]),
        rival=np.array(["spam", "ham", "ham", "ham", "ham"]),
        margin=np.ones(m),
        log_failure=np.full(m, np.nan),
        abstained=np.array([False, False, False, False, True]),  # the last is correct but does not count
        witness=np.full((m, 3), np.nan),
        method="exact",
        noise=0.1,
        n_train=100,
        classes=np.array(["eggs", "ham", "spam"]),
        assumptions=(),
    )


def test_certified_accuracy_counts_correct_certified_predictions(certificates):
    accuracy = certified_accuracy(TRUTH, certificates, flips=[0, 1, 3, 4, 10, 11])
    np.testing.assert_array_equal(accuracy, [3 / 5, 2 / 5, 2 / 5, 1 / 5, 1 / 5, 0])


def test_flips_may_be_unsorted_or_a_single_number(certificates):
    np.testing.assert_array_equal(certified_accuracy(TRUTH, certificates, flips=[10, 0]), [1 / 5, 3 / 5])
    np.testing.assert_array_equal(certified_accuracy(TRUTH, certificates, flips=3), [2 / 5])
    assert certified_accuracy(TRUTH, certificates, flips=[]).shape == (0,)


def test_certified_recall_counts_per_true_class(certificates):
    recall = certified_recall(TRUTH, certificates, flips=[0, 3, 4])
    np.testing.assert_array_equal(
        recall,
        [
            [np.nan, 1 / 2, 2 / 3],  # no recall of eggs: the truth has none
            [np.nan, 1 / 2, 1 / 3],
            [np.nan, 0, 1 / 3],
        ],
    )


def test_the_worst_class_has_the_lowest_certified_recall(certificates):
    for flips, label, recall in ((0, "ham", 1 / 2), (3, "spam", 1 / 3), (4, "ham", 0), (11, "ham", 0)):
        worst = worst_class(TRUTH, certificates, flips)
        assert (worst.label, worst.recall) == (label, recall)
    unknown = worst_class(["ham", "tofu", "spam", "spam", "spam"], certificates, 3)
    assert (unknown.label, unknown.n, unknown.n_certified) == ("tofu", 1, 0)


def test_the_constant_classifier_is_compared(certificates):
    assert constant_class(TRUTH) == type(constant_class(TRUTH))("spam", 3, 3)
    correct = np.array(TRUTH) == certificates.prediction
    for count, last in ((0, 10), (1, 3), (2, 0), (3, None)):
        assert last_above(certificates, correct, count) == last
        if last is not None:  # by the definition
            more = [flips for flips in range(60) if (certificates.radius[:4][correct[:4]] >= flips).sum() > count]
            assert max(more) == last


def test_truth_may_be_a_series_with_unseen_classes(certificates):
    truth = pd.Series(["ham", "tofu", "spam", "spam", "spam"], index=[9, 8, 7, 6, 5])
    np.testing.assert_array_equal(certified_accuracy(truth, certificates, flips=[0, 3]), [3 / 5, 2 / 5])


@pytest.mark.parametrize("metric", [certified_accuracy, certified_recall])
@pytest.mark.parametrize(
    ("truth", "flips", "message"),
    [
        (TRUTH[:4], [0], r"one label per certificate, shape \(5,\). Got shape \(4,\) instead"),
        ([TRUTH], [0], r"Got shape \(1, 5\) instead"),
        ("ham", [0], r"Got shape \(\) instead"),
        (TRUTH, [0, -1], r"flips must be numbers of at least 0. Got \[0, -1\] instead"),
        (TRUTH, ["many"], "flips must be numbers of at least 0"),
        (TRUTH, [[0, 1]], "flips must be numbers of at least 0"),
    ],
)
def test_bad_shapes_are_refused(metric, truth, flips, message, certificates):
    with pytest.raises(ValueError, match=message):
        metric(truth, certificates, flips=flips)


def test_accuracy_without_test_rows_is_refused(certificates):
    arrays = ("prediction", "radius", "rival", "margin", "log_failure", "abstained", "witness")
    fields = {name: value[:0] if name in arrays else value for name, value in vars(certificates).items()}
    with pytest.raises(ValueError, match="y_true is empty"):
        certified_accuracy([], Certificates(**fields), flips=[0])


def test_masked_true_labels_are_refused(certificates):
    hidden = np.ma.array(TRUTH, mask=False)
    assert certified_accuracy(hidden, certificates, [0]) == certified_accuracy(TRUTH, certificates, [0])
    hidden[1] = np.ma.masked
    with pytest.raises(ValueError, match="y_true must not be missing"):
        certified_accuracy(hidden, certificates, [0])


@pytest.mark.parametrize("metric", [certified_accuracy, certified_recall, worst_class])
def test_certificates_in_place_of_the_labels_are_refused(metric, certificates):
    with pytest.raises(ValueError, match=r"The true labels come first.* Got Certificates and list instead"):
        metric(certificates, TRUTH, 3)
    with pytest.raises(ValueError, match="The true labels come first"):
        metric(TRUTH, TRUTH, 3)
