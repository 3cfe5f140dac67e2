"""Reports and plots about changed rows and malicious sources."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from flipproof import Adversary, CertifiedAccuracyDisplay, CertifiedRidgeClassifier
from flipproof.displays import RadiusHistogramDisplay
from flipproof.report.html import render_html
from flipproof.report.markdown import render_markdown
from flipproof.report.summary import summarize

SOURCES, TRUSTED = np.arange(100) % 20, np.arange(100) < 10
ADDED = ("may be added", "are added", "were added", "adds rows")


@pytest.fixture(scope="module")
def rows():
    X, y = make_blobs(220, centers=3, cluster_std=4.0, random_state=3)
    model = CertifiedRidgeClassifier(classes=range(3), clip=0.9).fit(X[:100], y[:100], reference=X[160:])
    return model, X[100:160], y[100:160]


def summary_of(rows, adversary, against_rows=None):
    model, X, y = rows
    certificates = {"exact": model.certify(X, adversary=adversary)}
    also = None if against_rows is None else model.certify(X, adversary=against_rows)
    return summarize(certificates, y_true=y, against_rows=also)


def sentences_of(summary):
    rows = summary["rows"]
    assumed = [one["sentence"] for one in summary["assumptions"]]
    return [summary["headline"]["text"], rows["title"], *summary["threat"], *rows["sentences"], *assumed]


@pytest.mark.parametrize("trusted", [None, TRUSTED])
@pytest.mark.parametrize("changes", ["rows", "removals"])
def test_sources_add_no_rows(rows, changes, trusted):
    """No sentence may say that rows can be added, beside the one that sources add none."""
    summary = summary_of(rows, Adversary(changes=changes, groups=SOURCES, trusted=trusted))
    assert summary["problem"]["flips_name"] == "malicious sources"
    assert summary["rows"]["title"] == "If sources of rows were malicious"
    assert "rows are added" in summary["voids"][0]
    said = sentences_of(summary)
    assert any("adds no further rows" in sentence for sentence in said)
    assert not [sentence for sentence in said if any(word in sentence for word in ADDED)]
    for page in (render_html(summary), render_markdown(summary)):
        assert "malicious sources" in page
        assert "changed labels" not in page


@pytest.mark.parametrize("trusted", [None, TRUSTED])
@pytest.mark.parametrize(
    ("changes", "name"), [("rows", "changed rows"), ("insertions", "added rows"), ("removals", "removed rows")]
)
def test_changed_rows(rows, changes, name, trusted):
    summary = summary_of(rows, Adversary(changes=changes, trusted=trusted))
    assert summary["problem"]["flips_name"] == name
    can_be_added = any(word in sentence for sentence in sentences_of(summary) for word in ADDED)
    assert can_be_added == (changes != "removals")
    assert "number of training rows" not in " ".join(summary["voids"])
    for page in (render_html(summary), render_markdown(summary)):
        assert name in page
        assert "changed labels" not in page


@pytest.mark.parametrize(
    ("groups", "names"),
    [(None, ("changed labels", "changed rows")), (SOURCES, ("malicious annotators", "malicious sources"))],
)
def test_both_tables(rows, groups, names):
    summary = summary_of(rows, Adversary(groups=groups), Adversary(changes="rows", groups=groups))
    found = summary["problem"]["flips_name"], summary["rows"]["also"]["problem"]["flips_name"]
    assert found == names
    assert [one.partition(":")[0] for one in summary["voids"][:2]] == [
        "Figures about labels",
        "Figures about rows",
    ]
    for page in (render_html(summary), render_markdown(summary)):
        assert all(name in page for name in names)


@pytest.mark.parametrize(
    ("adversary", "below", "above"),
    [
        (Adversary(changes="rows"), ("changed training rows", "radius (changed rows)"), "100 training rows"),
        (Adversary(changes="insertions"), ("added training rows", "radius (added rows)"), "100 training rows"),
        (Adversary(changes="removals"), ("removed training rows", "radius (removed rows)"), "100 training rows"),
        (
            Adversary(changes="rows", groups=SOURCES),
            ("malicious sources", "radius (malicious sources)"),
            "20 sources",
        ),
    ],
)
def test_axes_say_what_is_counted(rows, adversary, below, above):
    plt = pytest.importorskip("matplotlib.pyplot")
    model, X, y = rows
    certificates = model.certify(X, adversary=adversary)
    curve = CertifiedAccuracyDisplay.from_certificates(certificates, y)
    histogram = RadiusHistogramDisplay.from_certificates(certificates, y)
    assert (curve.ax_.get_xlabel(), histogram.ax_.get_xlabel()) == below
    assert [one.get_xlabel() for one in curve.ax_.child_axes] == [f"percent of the {above}"]
    plt.close("all")
