"""The view in notebooks: complete, self-contained, valid, and in the colours of the notebook."""

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from flipproof import Adversary, CertifiedNeighborsClassifier, CertifiedRidgeClassifier, notebook_view


@pytest.fixture(scope="module")
def certified():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = pd.DataFrame(rng.normal(size=(90, 3)) + 2 * np.eye(3)[y], index=[f"<r{n}>" for n in range(90)])
    X.columns = ["a", "b", "c"]
    return CertifiedRidgeClassifier(classes=range(3)).fit(X[30:], y[30:]).certify(X[:30]), y[:30]


def test_curve_histogram_fragile_rows_and_next_calls(certified):
    certificates, truth = certified
    page = certificates._repr_html_()
    assert page.count('role="img"') == 2
    for row in certificates.most_fragile(5).ids:
        assert f"<td>{row.replace('<', '&lt;').replace('>', '&gt;')}</td>" in page
    first = certificates.most_fragile(1).ids[0].strip("<>")
    assert f"certificates.explain(&#x27;&lt;{first}&gt;&#x27;, X_train=X_train)" in page
    assert "true class" not in page
    known = notebook_view(certificates, truth)
    assert "true class" in known
    assert "clean accuracy" in known


@pytest.mark.parametrize("with_truth", [False, True])
def test_the_page_is_valid_loads_nothing_and_has_no_colour_of_text(certified, with_truth):
    page = notebook_view(certified[0], certified[1] if with_truth else None)
    ElementTree.fromstring(page)  # well-formed
    assert not re.search(r"<script|<style|<link|src=|href=|url\(", page)
    assert 'fill="currentColor"' in page
    assert "black" not in page
    assert "color:" not in page


def test_unusual_certificates_have_a_view():
    X, y = np.arange(12.0)[:, None], np.arange(12) // 6
    model = CertifiedNeighborsClassifier(3).fit(X, y)
    nobody = model.certify(X, adversary=Adversary(trusted=np.ones(12, dtype=bool)))
    assert "unlimited" in nobody._repr_html_()
    assert "<table" not in model.certify(X)[:0]._repr_html_()
    ElementTree.fromstring(model.certify(X[:1])._repr_html_())
