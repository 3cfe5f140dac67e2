"""CertifiedIntervalDisplay: what it draws, and what it refuses."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from flipproof import CertifiedIntervalDisplay, CertifiedNeighborsClassifier, CertifiedRidgeRegressor

pytest.importorskip("matplotlib").use("Agg")

X, y = load_diabetes(return_X_y=True)
MODEL = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:200], y[:200])


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_bands_contain_the_predictions_in_order():
    display = CertifiedIntervalDisplay.from_estimator(MODEL, X[200:300], [1, 5], y[200:300])
    line = display.ax_.lines[0].get_ydata()
    np.testing.assert_array_equal(line, np.sort(MODEL.predict(X[200:300])))
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "5 changed targets",
        "1 changed targets",
        "prediction",
        "true target",
    ]


@pytest.mark.parametrize("what", ["coefficients", "gaps"])
def test_few_intervals_have_names(what):
    groups = np.arange(50) % 3
    found = MODEL.certify_coefficients([1, 3]) if what == "coefficients" else MODEL.certify_gaps(X[200:250], groups)
    display = CertifiedIntervalDisplay.from_certificates(found)
    names = {text.get_text() for text in display.ax_.get_yticklabels()}
    assert names == {str(one) for one in found.ids}


def test_others_are_refused():
    model = CertifiedNeighborsClassifier(3, classes=[0, 1]).fit(X[:50], y[:50] > 100)
    with pytest.raises(ValueError, match="CertifiedAccuracyDisplay"):
        CertifiedIntervalDisplay.from_estimator(model, X[:5])
    with pytest.raises(ValueError, match="of a regressor"):
        CertifiedIntervalDisplay.from_certificates(model.certify(X[:5]))
    with pytest.raises(ValueError, match="one target per row"):
        CertifiedIntervalDisplay.from_certificates(MODEL.certify(X[:5]), [1.0])
