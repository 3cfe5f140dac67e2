"""The tables of docs/peers.md come from committed results, of other benchmarks and of this one."""

from pathlib import Path

import pytest
from peers import (
    PUBLISHED,
    aggregation_table,
    committed,
    found_by_cleanlab,
    measured_table,
    median,
    published_table,
    rows_of,
    two_best,
)

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "peers.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("threat", PUBLISHED)
def test_the_documentation_shows_published_figures_beside_ours(threat):
    assert f"**{threat}**\n\n{published_table(threat)}\n" in PAGE


@pytest.mark.slow
def test_poisoned_rows_are_shown_beside_deep_partition_aggregation():
    assert f"\n\n{aggregation_table()}\n" in (DOCS / "poisoned-rows.md").read_text()


@pytest.mark.slow
def test_no_committed_run_has_a_larger_median_than_the_one_that_is_shown():
    largest = max(median("mnist", name) for name in rows_of("mnist") if name.startswith("frozen UMAP"))
    assert f"median {largest:,} rows" in two_best("mnist", "rows")


def test_every_known_system_has_a_line():
    shown = " ".join(one.system for lines in PUBLISHED.values() for one in lines) + measured_table("certified")
    shown += measured_table("attacked")
    for name in (
        *("the paper", "k-means", "SS-DPA", "DPA", "Finite Aggregation", "Run-Off Election", "BagFlip", "bagging"),
        *("Meyer et al., linear", "dataset multiplicity", "LabelCert", "QPCert", "EnsembleCert", "AGT", "Jia et al."),
        *(
            "ScaLabelCert",
            "certified regression",
            "FCert",
            "LeFCert",
            "temporal robustness",
            "ACRE",
            "FLIP",
            "ART",
            "cleanlab",
        ),
    ):
        assert name in shown, name


def test_the_documentation_shows_what_was_measured():
    for kind in ("certified", "attacked"):
        assert f"\n\n{measured_table(kind)}\n" in PAGE
    assert found_by_cleanlab() in " ".join(PAGE.split())


def test_certified_accuracy_does_not_exceed_clean_accuracy():
    for line in committed():
        assert line["kind"] == "attacked" or line["accuracy"] == sorted(line["accuracy"], reverse=True)


def test_lines_name_the_versions_that_were_measured():
    for line in committed():
        assert {"numpy", "scikit-learn"} <= set(line["versions"])
    used = {line["system"]: line["versions"] for line in committed()}
    assert f"ART {'.'.join(used['art']['adversarial-robustness-toolbox'].split('.')[:2])}" in PAGE
    assert f"cleanlab {'.'.join(used['cleanlab']['cleanlab'].split('.')[:2])}" in PAGE
