"""The display: its attributes, its drawing, and its error without matplotlib."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flipproof import Adversary, CertifiedAccuracyDisplay, CertifiedRidgeClassifier, certified_accuracy
from flipproof.displays.curves import Panel, panels_figure

mpl.use("Agg")


@pytest.fixture
def problem():
    """Three classes that overlap: (a fitted model, test rows, their classes)."""
    X, y = make_blobs(160, centers=3, cluster_std=4.0, random_state=3)
    return CertifiedRidgeClassifier(classes=range(3)).fit(X[:100], y[:100]), X[100:], y[100:]


@pytest.fixture
def ax():
    """Axes of a figure that is closed afterwards."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
def test_curve_is_certified_accuracy(problem, ax, method):
    model, X, y = problem
    certificates = model.certify(X, method=method)
    display = CertifiedAccuracyDisplay.from_certificates(certificates, y, ax=ax)
    largest = certificates.radius[certificates.prediction == y].max()
    np.testing.assert_array_equal(display.line_.get_xdata(), np.arange(largest + 2))
    np.testing.assert_array_equal(display.line_.get_ydata(), certified_accuracy(y, certificates, display.flips))
    assert display.accuracy[-1] == 0
    assert display.clean_accuracy == model.score(X, y)
    assert display.constant_accuracy == np.bincount(y).max() / len(y)
    assert display.n_units == 100
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.line_.get_drawstyle().startswith("steps")


def test_from_estimator_uses_the_given_method(problem, ax):
    model, X, y = problem
    display = CertifiedAccuracyDisplay.from_estimator(model, X, y, method="kl", ax=ax)
    np.testing.assert_array_equal(display.accuracy, certified_accuracy(y, model.certify(X, method="kl"), display.flips))
    assert display.name == "kl (q = 0.1)"
    assert CertifiedAccuracyDisplay.from_estimator(model, X, y, ax=ax).name == "exact"


def test_from_estimator_takes_a_pipeline(problem, ax):
    _, X, y = problem
    pipeline = make_pipeline(StandardScaler(), CertifiedRidgeClassifier()).fit(X, y)
    display = CertifiedAccuracyDisplay.from_estimator(pipeline, X, y, ax=ax)
    assert display.clean_accuracy == pipeline.score(X, y)


def test_top_axis_is_a_percentage_of_the_training_set(problem, ax):
    model, X, y = problem
    model.fit(np.vstack([X] * 5)[:250], np.tile(y, 5)[:250])
    CertifiedAccuracyDisplay.from_estimator(model, X, y, ax=ax)
    (top,) = ax.child_axes
    ax.set_xlim(0, 25)
    ax.figure.canvas.draw()
    assert top.get_xlim() == pytest.approx((0, 10))
    assert "percent of the 250 training labels" in top.get_xlabel()


def test_several_displays_share_axes(problem, ax):
    model, X, y = problem
    displays = [CertifiedAccuracyDisplay.from_estimator(model, X, y, method=m, ax=ax) for m in ("exact", "tight", "kl")]
    assert len(ax.child_axes) == 1
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert len(dotted) == 1
    assert to_hex(dotted[0].get_color()) == "#000000"
    assert np.asarray(dotted[0].get_ydata())[0] == displays[0].constant_accuracy
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert [line.get_color() for line in dashed] == [display.line_.get_color() for display in displays]
    assert {np.asarray(line.get_ydata())[0] for line in dashed} == {displays[0].clean_accuracy}
    assert len({display.line_.get_color() for display in displays}) == 3
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["exact", "tight (q = 0.1)", "kl (q = 0.1)", "clean accuracy", "constant classifier"]


def test_axes_grow_with_a_longer_curve(problem, ax):
    model, X, y = problem
    for method in ("kl", "exact"):
        display = CertifiedAccuracyDisplay.from_estimator(model, X, y, method=method, ax=ax)
    ax.figure.canvas.draw()
    left, right = ax.get_xlim()
    assert left == 0
    assert right >= display.flips[-1]


def test_curves_of_different_training_sets_cannot_share_axes(problem, ax):
    model, X, y = problem
    CertifiedAccuracyDisplay.from_estimator(model, X, y, ax=ax)
    other = CertifiedRidgeClassifier(classes=range(3)).fit(X, y)
    with pytest.raises(ValueError, match=r"percent of 100 labels.*Got 60 labels"):
        CertifiedAccuracyDisplay.from_estimator(other, X, y, ax=ax)
    assert len(ax.child_axes) == 1


def test_annotators_and_labels_cannot_share_axes(problem, ax):
    model, X, y = problem
    annotators = Adversary(groups=np.arange(100) % 20)
    display = CertifiedAccuracyDisplay.from_estimator(model, X, y, adversary=annotators, ax=ax)
    assert (display.n_units, display.unit) == (20, "annotators")
    assert ax.get_xlabel() == "malicious annotators"
    assert ax.child_axes[0].get_xlabel() == "percent of the 20 annotators"
    with pytest.raises(ValueError, match=r"percent of 20 annotators.*Got 100 labels"):
        CertifiedAccuracyDisplay.from_estimator(model, X, y, ax=ax)


def test_a_display_can_be_plotted_again_with_another_name_and_colour(problem, ax):
    import matplotlib.pyplot as plt

    model, X, y = problem
    display = CertifiedAccuracyDisplay.from_estimator(model, X, y, name="mine", ax=ax)
    assert display.line_.get_label() == "mine"
    assert display.plot(name="yours", color="#CC79A7") is display
    assert display.ax_ is not ax
    assert display.line_.get_label() == "yours"
    assert display.line_.get_color() == "#CC79A7"
    assert display.name == "mine"
    plt.close(display.figure_)


def test_an_unattackable_curve_ends_at_the_training_set_size(ax):
    X = np.arange(6.0)[:, None]
    # without an intercept a row of zeros gets no votes: the offset decides
    model = CertifiedRidgeClassifier(classes=[0, 1], fit_intercept=False).fit(X, [0, 0, 0, 1, 1, 1])
    display = CertifiedAccuracyDisplay.from_estimator(model, np.zeros((3, 1)), [0, 0, 1], ax=ax)
    np.testing.assert_array_equal(display.flips, np.arange(7))
    np.testing.assert_array_equal(display.accuracy, np.full(7, 2 / 3))


def test_no_correct_predictions_give_a_flat_curve(problem, ax):
    model, X, _ = problem
    wrong = (model.predict(X) + 1) % 3
    display = CertifiedAccuracyDisplay.from_estimator(model, X, wrong, ax=ax)
    np.testing.assert_array_equal(display.accuracy, [0, 0])


def test_a_wrong_number_of_labels_is_refused(problem, ax):
    model, X, y = problem
    with pytest.raises(ValueError, match="one label per certificate"):
        CertifiedAccuracyDisplay.from_certificates(model.certify(X), y[:-1], ax=ax)


def test_panels_do_not_need_pyplot(problem):
    import matplotlib.pyplot as plt

    model, X, y = problem
    before = plt.get_fignums()
    certificates = [model.certify(X, method=method) for method in ("exact", "kl")]
    figure = panels_figure([Panel("left", y, certificates), Panel("right", y, certificates)])
    assert [ax.get_title() for ax in figure.axes] == ["left", "right"]
    assert all(ax.get_legend() is None for ax in figure.axes)
    assert len(figure.legends) == 1
    assert plt.get_fignums() == before


@pytest.mark.parametrize("how", ["from_estimator", "from_certificates", "plot"])
def test_without_matplotlib_the_error_says_what_to_install(problem, monkeypatch, how):
    model, X, y = problem
    certificates = model.certify(X)
    ready = CertifiedAccuracyDisplay(
        flips=np.arange(2), accuracy=np.ones(2), clean_accuracy=1.0, constant_accuracy=0.5, n_units=9
    )
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    draw = {
        "from_estimator": lambda: CertifiedAccuracyDisplay.from_estimator(model, X, y),
        "from_certificates": lambda: CertifiedAccuracyDisplay.from_certificates(certificates, y),
        "plot": ready.plot,
    }[how]
    with pytest.raises(ImportError, match=r"pip install 'flipproof\[plot\]'"):
        draw()
