"""The tables of docs/learners.md and docs/precision.md come from committed results, and these from the code."""

from pathlib import Path

import learners
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
