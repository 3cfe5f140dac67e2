"""The tables of docs/poisoned-rows.md come from the committed lines, and these from the code."""

import os
from pathlib import Path

import numpy as np
import pytest
from rows import CASES, CHANGES, committed, lines, table

PAGE = (Path(__file__).parents[1] / "docs" / "poisoned-rows.md").read_text()


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_the_documentation_shows_the_committed_results(name):
    assert f"**{CASES[name].title}**\n\n{table(name)}\n" in PAGE


def certified(name, learner, changes, flips):
    found = [line for line in committed(name) if line["learner"] == learner]
    return np.mean([line["label"] == line["prediction"] and int(line[changes]) >= flips for line in found])


@pytest.mark.slow
def test_the_results_reach_their_goals():
    """Certified accuracy against changed rows, with one in five training rows as the reference."""
    clipped = "ridge, clip 0.9, 10 lambda"
    for flips, least in ((100, 0.93), (500, 0.83), (1000, 0.50)):
        assert certified("mnist17", clipped, "rows", flips) >= least
    for flips, least in ((100, 0.65), (200, 0.58), (300, 0.50)):
        assert certified("cifar10", "ridge, clip 0.9", "rows", flips) >= least


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_radii_against_more_powerful_adversaries_are_not_larger(name):
    for line in committed(name):
        labels, rows, insertions, removals = (int(line[changes]) for changes in CHANGES)
        assert rows <= min(insertions, removals)
        if line["learner"] != "partitions, 150 trees":  # there, a label or a row changes one part alike
            assert rows <= labels


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "learners"),
    [
        ("mnist17", ["ridge", "ridge, clip 0.9, 10 lambda"]),
        ("spambase", ["forest, leaves of 2 %, clip 0.9", "partitions, 150 trees"]),
        ("sms", ["neighbours, 201, cosine"]),
    ],
)
def test_some_rows_are_certified_again(name, learners):
    rows = slice(3, None, 97)
    expected = {(line["learner"], line["test_row"]): line for line in committed(name)}
    for found in lines(name, Path(os.environ["FLIPPROOF_DATA"]), rows, learners):
        shown = expected[found[0], str(found[1])]
        assert [str(value) for value in found] == list(shown.values())
