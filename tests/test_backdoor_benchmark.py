"""The table of the backdoor in docs/attacks.md comes from the committed results, and no certificate was broken."""

from pathlib import Path

from backdoor import committed, table

PAGE = (Path(__file__).parents[1] / "docs" / "attacks.md").read_text()


def test_the_documentation_shows_the_committed_results():
    assert f"\n\n{table()}\n" in PAGE


def test_undefended_models_fall_and_no_certified_prediction_was_changed():
    lines = {line["model"]: line for line in committed()}
    assert lines["logistic regression"]["as_target_before"] < 0.02
    assert lines["logistic regression"]["as_target_after"] > 0.99
    certified = [line for line in lines.values() if "certified" in line]
    assert len(certified) == 3
    assert all(line["certified_but_changed"] == 0 for line in certified)
    assert max(line["certified_and_right"] for line in certified) > 0.9
