"""Summaries and tables: numbers that agree with the metrics and never claim more than was proved."""

import dataclasses

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from flipproof import Adversary, CertifiedRidgeClassifier, certified_accuracy, certified_recall
from flipproof.certificate_words import method_name
from flipproof.metrics import constant_accuracy
from flipproof.readable import percent
from flipproof.report.text import accuracy_table, summarize

FLIPS = (0, 2, 5)


@pytest.fixture
def problem():
    """(a fitted model, test rows, their classes)."""
    X, y = make_blobs(160, centers=3, cluster_std=4.0, random_state=3)
    return CertifiedRidgeClassifier(classes=range(3)).fit(X[:100], y[:100]), X[100:], y[100:]


def test_summary_agrees_with_the_metrics(problem):
    model, X, y = problem
    certificates = [model.certify(X, method=method) for method in ("exact", "kl")]
    summary = summarize(y, certificates, FLIPS)
    assert (summary.n_train, summary.n_test, summary.n_classes) == (100, 60, 3)
    assert summary.flips == FLIPS
    assert summary.shares == (0, 0.02, 0.05)
    for one, method in zip(certificates, summary.methods, strict=True):
        assert method.certified == tuple(certified_accuracy(y, one, FLIPS))
        assert method.worst_recall == tuple(certified_recall(y, one, FLIPS).min(axis=1))
        assert method.clean_accuracy == model.score(X, y)
    with pytest.raises(dataclasses.FrozenInstanceError):
        summary.n_train = 1


def test_annotators_are_reported_as_the_unit(problem):
    model, X, y = problem
    annotators = model.certify(X, adversary=Adversary(groups=np.arange(100) % 20))
    summary = summarize(y, [annotators], [0, 2])
    assert summary.shares == (0, 0.1)
    assert accuracy_table(summary).header == ("malicious annotators\nof 20", "0\n= 0.0%", "2\n= 10.0%")
    with pytest.raises(ValueError, match="in the same unit"):
        summarize(y, [annotators, model.certify(X)], [0])


def test_worst_class_occurs_in_the_truth(problem):
    model, X, y = problem
    rows = y != 2
    (method,) = summarize(y[rows], [model.certify(X[rows])], [0]).methods
    assert method.worst_recall == (certified_recall(y[rows], model.certify(X[rows]), [0])[0, :2].min(),)


def test_unknown_classes_have_recall_0(problem):
    model, X, y = problem
    (method,) = summarize(np.where(y == 2, 7, y), [model.certify(X)], FLIPS).methods
    assert method.worst_recall == (0, 0, 0)


def test_table_has_a_row_per_method_and_one_for_the_worst_class(problem):
    model, X, y = problem
    summary = summarize(y, [model.certify(X, method=method) for method in ("exact", "tight", "kl")], FLIPS)
    table = accuracy_table(summary)
    assert table.header == ("changed labels\nof 100", "0\n= 0.0%", "2\n= 2.0%", "5\n= 5.0%")
    assert [row[0] for row in table.rows] == ["exact", "  worst class", "tight (q = 0.1)", "kl (q = 0.1)"]
    assert all(len(row) == len(table.header) for row in table.rows)
    assert table.rows[0][1:] == tuple(percent(share) for share in summary.methods[0].certified)


def test_certificates_of_different_training_sets_are_not_compared(problem):
    model, X, y = problem
    other = CertifiedRidgeClassifier(classes=range(3)).fit(X, y)
    with pytest.raises(ValueError, match="same training labels"):
        summarize(y, [model.certify(X), other.certify(X)], FLIPS)
    with pytest.raises(ValueError, match="no certificates"):
        summarize(y, [], FLIPS)


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0.0%"), (1, "100.0%"), (0.9999, "99.9%"), (0.29, "29.0%"), (2 / 3, "66.6%"), (0.0009, "0.0%")],
)
def test_percent_rounds_down(share, said):
    assert percent(share) == said


def test_no_share_of_rows_is_rounded_up():
    for m in range(1, 300):
        for correct in range(m + 1):
            assert float(percent(correct / m)[:-1]) * m <= 100 * correct + 1e-9


def test_names_include_the_noise(problem):
    model, X, y = problem
    assert method_name(model.certify(X, method="tight")) == "tight (q = 0.1)"
    auto = CertifiedRidgeClassifier("auto", classes=range(3)).fit(X, y)
    assert method_name(auto.certify(X[:3], method="kl")) == "kl (best q per row)"
    assert method_name(auto.certify(X[:3])) == "exact"


def test_constant_classifier_predicts_the_most_frequent_class():
    assert constant_accuracy(["a", "b", "b", "c"]) == 0.5
