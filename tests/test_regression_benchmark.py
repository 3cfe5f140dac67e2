"""The tables of docs/regression.md come from the committed results."""

import json
from pathlib import Path

from regression import RESULTS, committed, report

PAGE = (Path(__file__).parents[1] / "docs" / "regression.md").read_text("utf-8")


def test_the_documentation_shows_the_committed_results():
    for block in report(committed()).split("\n\n"):
        assert f"\n{block}\n" in PAGE


def test_intervals_take_about_as_long_as_the_radii_of_classifiers():
    for one in committed()["data"].values():
        for learner in one["learners"].values():
            assert learner.get("times_classifier", 0) < 6


def test_the_published_solver_agrees():
    runs = json.loads((RESULTS.parent / "public_solver.json").read_text("utf-8"))["runs"]
    for run in runs:
        assert run["same"] == run["points"] == 110
        assert f"{run['same']} of {run['points']}" in PAGE
