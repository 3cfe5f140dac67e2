"""The table of times in docs/regression.md, and what is said of the published solver, come from committed results."""

import json
from pathlib import Path

from regression import RESULTS, committed, table

PAGE = (Path(__file__).parents[1] / "docs" / "regression.md").read_text("utf-8")


def test_the_documentation_shows_the_committed_results():
    assert f"\n\n{table(committed())}\n" in PAGE


def test_intervals_take_about_as_long_as_the_radii_of_classifiers():
    for one in committed().values():
        for learner in one.values():
            assert learner["ms"] < 6 * learner["classifier_ms"]


def test_the_published_solver_agrees():
    runs = json.loads((RESULTS.parent / "public_solver.json").read_text("utf-8"))["runs"]
    for run in runs:
        assert run["same"] == run["points"] == 110
        assert f"{run['same']} of {run['points']}" in PAGE
