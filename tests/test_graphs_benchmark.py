"""The table of attacks on all nodes together in docs/graphs.md comes from the committed results."""

from pathlib import Path

from graphs import committed, table

from flipproof.experiments import read_study
from flipproof.experiments.row_files import certified
from flipproof.experiments.studies.graph_study import TITLES
from flipproof.experiments.studies.study_runner import study_results

ROOT = Path(__file__).parents[1]


def test_the_documentation_shows_the_committed_results():
    assert f"\n\n{table()}\n" in (ROOT / "docs" / "graphs.md").read_text()


def test_the_shares_of_each_node_by_itself_are_those_of_the_committed_rows():
    rows, records = study_results(read_study("graphs"), ROOT / "reproduction" / "graphs")
    for name in TITLES:
        cases = {records[case]["n_train"]: rows[case] for case in (name, f"{name}-all")}
        for line in committed(name):
            share = certified(cases[line["n_labels"]][line["learner"]], "exact", line["flips"])[0]
            assert round(share, 4) == line["alone"] <= line["together"]
