"""The tables of docs/learners.md and docs/precision.md come from committed results, and these from the code."""

import re
from pathlib import Path

import learners
import noise
import numpy as np
import precision
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("title", learners.committed())
def test_the_documentation_compares_learners_by_the_committed_results(title):
    assert f"\n\n{learners.table(title)}\n" in (ROOT / "docs" / "learners.md").read_text()


@pytest.mark.parametrize("title", precision.committed())
def test_the_documentation_compares_precisions_by_the_committed_results(title):
    assert f"\n\n{precision.table(title)}\n" in (ROOT / "docs" / "precision.md").read_text()


def test_the_readme_quotes_the_committed_results():
    found = learners.committed()["Spambase"]
    place = found["flips"].index(170)
    ridge, neighbors = (found["accuracy"][name][place] for name in ("ridge", "neighbours, 30 % of the rows"))
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"170 changed labels of {found['n_labels']:,} leave ridge with {100 * ridge:.1f} %" in text
    assert f"neighbours with {100 * neighbors:.1f} %" in text


def test_the_precision_of_small_data_is_measured_again():
    again = precision.measured(*precision.PROBLEMS["Digits, 1 against 7"](None))
    assert again == precision.committed()["Digits, 1 against 7"]


@pytest.mark.data
@pytest.mark.parametrize("learner", ["ridge", "neighbours, 30 % of the rows", "clusters, 8 by k-means"])
def test_some_learners_are_measured_again(data_dir, learner):
    title, data, unlabeled, flips, models = next(learners.tables(data_dir))
    found = learners.accuracy_of(models[learner], data, unlabeled, flips)
    np.testing.assert_array_equal(found, learners.committed()[title]["accuracy"][learner])


@pytest.mark.data
def test_the_theory_quotes_mean_radii_by_noise(data_dir, capsys):
    title = "MNIST, 1 against 7, 50 principal components"
    noise.sweep(title, *precision.PROBLEMS[title](data_dir))
    printed = capsys.readouterr().out
    exact = float(re.search(r"exact (\S+)", printed)[1])
    tight = {float(q): float(radius) for q, radius, _ in re.findall(r"\| (\S+) \| ([\d.]+) \| ([\d.]+) \|", printed)}
    small, smaller, smallest = f"{tight[1e-6]:.0f}", f"{tight[1e-30]:.1f}", f"{tight[1e-100]:.1f}"
    said = f"{tight[0.1]:.0f} at q = 0.1, {small} at 1e-6, {smaller} at 1e-30 and {smallest} at 1e-100"
    text = " ".join((ROOT / "docs" / "theory.md").read_text().split())
    assert f"the mean tight radius is {said}, and the mean exact radius is {exact:.1f};" in text
