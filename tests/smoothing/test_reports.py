"""Measured radii and abstentions in sentences, tables and curves."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from smoothed_problems import QUICK, blobs

from flipproof import CertifiedAccuracyDisplay, certified_accuracy
from flipproof.certificate_words import certificate_sentence, method_name
from flipproof.core.noise import FeatureNoise
from flipproof.report.text import accuracy_table, summarize
from flipproof.smoothing import SmoothedClassifier

mpl.use("Agg")


@pytest.fixture(scope="module")
def problem():
    """Certificates in the l2 norm and in labels, each with some abstentions, and the true classes."""
    X, y, Z, truth = blobs()
    Z[:12] = np.linspace([3.5, 0], [5.5, 0], 12)  # from ants to bees: one of them is as close to both
    models = (SmoothedClassifier(LogisticRegression(), noise, **QUICK) for noise in (FeatureNoise(2.0), 0.3))
    features, labels = (model.fit(X, y).certify(Z) for model in models)
    assert features.abstained.any()
    assert labels.abstained.any()
    assert (features.radius > 0).any()
    return features, labels, truth


def test_sentences_state_measured_radii_and_abstentions(problem):
    features, labels, _ = problem
    row = int(features.radius.argmax())
    said = certificate_sentence(features, row)
    assert f"Test row {row} is predicted as {features.prediction[row]}. " in said
    written = float(said.split("by up to ")[1].split(" in the l2 norm")[0])
    assert 0.99 * features.radius[row] < written <= features.radius[row]
    for certificates in (features, labels):
        row = int(certificates.abstained.argmax())
        prediction, rival = certificates.prediction[row], certificates.rival[row]
        said = certificate_sentence(certificates, row)
        assert f"Test row {row} is not certified" in said
        assert f"{prediction} leads, but {rival} may be ahead" in said


def test_short_descriptions_state_measured_radii_and_abstentions(problem):
    features, labels, _ = problem
    n_features, n_labels = features.abstained.sum(), labels.abstained.sum()
    assert repr(features).endswith(f" (l2), {n_features} abstained>")
    assert "method 'gaussian', median radius " in repr(features)
    assert repr(labels).endswith(f" of 60 labels, {n_labels} abstained>")


def test_tables_contain_measured_radii_and_abstentions(problem):
    features, labels, truth = problem
    summary = summarize(truth, [features], [0, 0.25, 1.5])
    assert summary.flips == (0, 0.25, 1.5)
    table = accuracy_table(summary)
    assert table.header == ("features changed\n(l2 norm)", "0", "0.25", "1.5")
    assert table.rows[0][0] == "gaussian (sigma = 2)"
    assert summary.methods[0].certified == tuple(certified_accuracy(truth, features, [0, 0.25, 1.5]))
    assert method_name(labels) == "tight (q = 0.3)"
    with pytest.raises(ValueError, match="in the same unit"):
        summarize(truth, [features, labels], [0])


def test_curves_contain_measured_radii_and_abstentions(problem):
    import matplotlib.pyplot as plt

    features, labels, truth = problem
    figure, ax = plt.subplots()
    display = CertifiedAccuracyDisplay.from_certificates(features, truth, ax=ax)
    assert display.unit == "l2"
    assert display.accuracy[-1] == 0
    assert display.flips[-2] == features.radius[features.prediction == truth].max()
    np.testing.assert_array_equal(display.accuracy, certified_accuracy(truth, features, display.flips))
    # between two radii the curve has its value at the larger one
    assert display.line_.get_drawstyle() == "steps-pre"
    assert ax.get_xlabel() == "change of the training features (l2 norm)"
    assert not ax.child_axes
    CertifiedAccuracyDisplay.from_certificates(features, truth, ax=ax)
    with pytest.raises(ValueError, match=r"the axis is a radius in l2\. Got 60 labels"):
        CertifiedAccuracyDisplay.from_certificates(labels, truth, ax=ax)
    plt.close(figure)
    figure, ax = plt.subplots()
    CertifiedAccuracyDisplay.from_certificates(labels, truth, ax=ax)
    with pytest.raises(ValueError, match=r"percent of 60 labels\. Got a radius in l2"):
        CertifiedAccuracyDisplay.from_certificates(features, truth, ax=ax)
    plt.close(figure)
