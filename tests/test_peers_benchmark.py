"""The tables of docs/peers.md come from committed results, of other benchmarks and of this one."""

from pathlib import Path

import pytest
from peers import committed, found_by_cleanlab, measured_table, published_table

PAGE = (Path(__file__).parents[1] / "docs" / "peers.md").read_text()


@pytest.mark.slow
def test_the_documentation_shows_published_figures_beside_ours():
    assert f"\n\n{published_table()}\n" in PAGE


def test_the_documentation_shows_what_was_measured():
    for kind in ("certified", "attacked"):
        assert f"\n\n{measured_table(kind)}\n" in PAGE
    assert found_by_cleanlab() in " ".join(PAGE.split())


def test_certified_accuracy_does_not_exceed_clean_accuracy():
    for line in committed():
        assert line["kind"] == "attacked" or line["accuracy"] == sorted(line["accuracy"], reverse=True)
