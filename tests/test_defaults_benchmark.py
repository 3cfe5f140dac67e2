"""The tables of docs/defaults.md come from the committed results, and these from the code."""

from pathlib import Path

import pytest
from defaults import FILES, SCALES, committed, neighbors_table, problem, scale_table

from flipproof import CertifiedNeighborsClassifier, CertifiedRidgeClassifier

PAGE = (Path(__file__).parents[1] / "docs" / "defaults.md").read_text()


def test_the_documentation_shows_the_committed_results():
    assert neighbors_table() in PAGE
    assert scale_table() in PAGE


def accuracy(table, learner, scale, **others):
    wanted = {"table": table, "learner": learner, "scale": scale, **others}
    return next(one["accuracy"] for one in committed() if all(one.get(name) == value for name, value in wanted.items()))


def test_heavy_tails_are_worth_ranks():
    for table in ("Spambase", "Adult"):
        for place in range(4):
            assert accuracy(table, "ridge", "auto")[place] > accuracy(table, "ridge", "standard")[place]
    assert accuracy("Spambase", "ridge", "auto")[2] > 0.83 > 0.74 > accuracy("Spambase", "ridge", "standard")[2]


def test_the_default_number_of_neighbours_certifies_at_ten_flips():
    for table in FILES:
        default = accuracy(table, "neighbours", "standard", n_neighbors=None)
        assert default[1] > accuracy(table, "neighbours", "standard", n_neighbors=15)[1] + 0.2


@pytest.mark.data
def test_some_results_are_measured_again(data_dir):
    for scale in SCALES:
        found = problem(FILES["German credit"], data_dir, scale)
        assert found.accuracy(CertifiedRidgeClassifier()) == accuracy("German credit", "ridge", scale)
    found = problem(FILES["German credit"], data_dir, "standard")
    again = found.accuracy(CertifiedNeighborsClassifier())
    assert again == accuracy("German credit", "neighbours", "standard", n_neighbors=None)
