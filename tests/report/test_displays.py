"""Displays for notebooks: their attributes and drawings."""

import dataclasses
import re
import sys

import matplotlib as mpl
import numpy as np
import pytest

from flipproof import Adversary, Assumption, certified_accuracy
from flipproof.attacks import worst_flips
from flipproof.displays import AttackDisplay, CertifiedAccuracyDisplay, RadiusHistogramDisplay

mpl.use("Agg")


@pytest.fixture
def ax():
    """Axes of a figure that is closed afterwards."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_histogram_stacks_wrong_predictions_on_correct_ones(problem, ax):
    certificates = problem.certificates()["exact"]
    display = RadiusHistogramDisplay.from_certificates(certificates, problem.y, ax=ax)
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(2, -1)
    correct = certificates.prediction == problem.y
    for drawn, rows in zip(heights, (correct, ~correct), strict=True):
        np.testing.assert_array_equal(drawn, np.histogram(certificates.radius[rows], display.edges)[0])
    assert heights.sum() == 60
    tops = np.array([bar.get_y() + bar.get_height() for bar in ax.patches]).reshape(2, -1)
    np.testing.assert_array_equal(tops[1], heights.sum(axis=0))
    assert ax.get_xlabel() == "radius (changed labels)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["right", "wrong"]
    assert display.ax_ is ax


def test_histogram_works_without_truth_and_with_unattackable_predictions(problem):
    import matplotlib.pyplot as plt

    certificates = problem.certificates()["exact"]
    firm = dataclasses.replace(certificates, radius=np.where(np.arange(60) < 7, 100, certificates.radius))
    display = RadiusHistogramDisplay.from_certificates(firm)
    assert sum(bar.get_height() for bar in display.ax_.patches) == 53
    assert display.ax_.get_legend().get_title().get_text().startswith("7 more")
    plt.close(display.figure_)
    with pytest.raises(ValueError, match="one label per certificate"):
        RadiusHistogramDisplay.from_certificates(firm, [1, 2])


def test_exact_certificate_and_exact_attack_agree(problem, ax):
    certificates, attack = problem.certificates()["exact"], worst_flips(problem.model, problem.X)
    display = AttackDisplay.from_certificates(certificates, problem.y, attack, name="ridge", ax=ax)
    np.testing.assert_array_equal(display.certified_line_.get_ydata(), display.attacked_line_.get_ydata())
    np.testing.assert_array_equal(display.certified, certified_accuracy(problem.y, certificates, display.flips))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["ridge: certified", "ridge: attacked", "clean accuracy", "constant classifier"]


def test_a_looser_certificate_stays_below_the_attack(problem, ax):
    certificates, attack = problem.certificates("kl")["kl"], worst_flips(problem.model, problem.X)
    display = AttackDisplay.from_certificates(certificates, problem.y, attack, ax=ax)
    assert (display.certified <= display.attacked).all()
    assert (display.certified < display.attacked).any()
    assert display.flips[-1] == attack.flips_needed.max()
    np.testing.assert_array_equal(display.attacked_line_.get_ydata(), attack.accuracy(problem.y, display.flips))
    assert display.attacked_line_.get_color() == display.certified_line_.get_color()


def test_different_units_are_refused(problem, ax):
    attack = worst_flips(problem.model, problem.X, adversary=Adversary(groups=np.arange(100) % 10))
    with pytest.raises(ValueError, match="same test rows and in the same unit"):
        AttackDisplay.from_certificates(problem.certificates()["exact"], problem.y, attack, ax=ax)


def test_certificates_have_a_notebook_display(problem):
    certificates = problem.certificates()["exact"]
    stated = Assumption("stated", {"text": "a < b"})
    named = dataclasses.replace(certificates, prediction=np.array(["<b>"] * 60), assumptions=(stated,))
    shown = named._repr_html_()
    assert "&lt;Certificates: 60 predictions" in shown
    assert "<b>" not in shown
    assert "<li>a &lt; b</li>" in shown
    radii = re.findall(r"<td>(\d+)</td><td>&lt;b&gt;</td><td>(\d+)</td>", shown)
    assert [int(radius) for _, radius in radii] == np.sort(certificates.radius)[:5].tolist()
    assert all(certificates.radius[int(row)] == int(radius) for row, radius in radii)
    silent = dataclasses.replace(named, abstained=np.arange(60) == 17)._repr_html_()
    assert "<td>17</td><td>&lt;b&gt;</td><td>abstained</td>" in silent
    measured = dataclasses.replace(named, unit="l2", radius=np.linspace(0.12349, 1, 60))._repr_html_()
    assert "<td>0.123</td>" in measured


def test_without_matplotlib_the_error_says_what_to_install(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'flipproof\[plot\]'"):
        RadiusHistogramDisplay.from_certificates(problem.certificates()["exact"])


def test_several_curves_by_name(problem):
    import matplotlib.pyplot as plt

    both = {name: problem.model.certify(problem.X, method=name) for name in ("exact", "kl")}
    curves = CertifiedAccuracyDisplay.from_certificates(both, problem.y)
    assert list(curves) == ["exact", "kl"]
    assert curves["exact"].ax_ is curves["kl"].ax_ is curves.ax_
    assert [line.get_label() for line in curves.ax_.lines if line.get_label() in both] == ["exact", "kl"]
    plt.close(curves.figure_)
    bars = RadiusHistogramDisplay.from_certificates(both, problem.y)
    assert [one.get_title() for one in bars.ax_] == ["exact", "kl"]
    assert bars["kl"].ax_ is bars.ax_[1]
    plt.close(bars.figure_)


def test_what_is_no_dictionary_of_certificates_is_refused(problem, ax):
    exact = problem.certificates()["exact"]
    for display in (CertifiedAccuracyDisplay, RadiusHistogramDisplay):
        for wrong in ({}, {"exact": 3}, [exact]):
            with pytest.raises(ValueError, match="dictionary of names and such certificates"):
                display.from_certificates(wrong, problem.y)
    with pytest.raises(ValueError, match="name is for a single curve"):
        CertifiedAccuracyDisplay.from_certificates({"a": exact}, problem.y, name="b")
    with pytest.raises(ValueError, match="one axes per histogram, 2"):
        RadiusHistogramDisplay.from_certificates({"a": exact, "b": exact}, problem.y, ax=ax)
