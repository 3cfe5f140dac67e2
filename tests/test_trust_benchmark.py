"""The tables of docs/trusted-labels.md come from the committed results."""

from pathlib import Path

import numpy as np
import pytest
from trust import CASES, FLIPS, committed, draws_table, table

PAGE = (Path(__file__).parents[1] / "docs" / "trusted-labels.md").read_text()


@pytest.mark.parametrize("name", CASES)
def test_the_documentation_shows_the_committed_results(name):
    assert f"**{CASES[name].title}**\n\n{table(name)}\n" in PAGE


@pytest.mark.parametrize("name", CASES)
def test_certified_accuracy_falls_and_a_prior_raises_it_at_many_flips(name):
    for share in (0.02, 0.05, 0.1):
        lines = {line["learner"]: line["accuracy"] for line in committed(name) if line["share"] == share}
        for accuracy in lines.values():
            assert np.all(np.diff(accuracy) <= 0)
        at = FLIPS.index(170)
        assert lines["forest, prior of weight 2"][at] > lines["forest, prior of weight 1"][at] > lines["forest"][at]


def test_the_documentation_shows_the_range_over_draws():
    assert f"\n\n{draws_table()}\n" in PAGE
