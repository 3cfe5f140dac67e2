"""The numbers in tables, compared with direct counting."""

import numpy as np
import pytest

from flipproof.experiments.row_files import (
    COLUMNS,
    NOTHING,
    RunRows,
    attacked,
    certified,
    clean_accuracy,
    median_radius,
    worst_recall,
)
from flipproof.experiments.spec import parse_experiment
from flipproof.experiments.tables_and_figures import beyond_table

SPEC = b"""
title = "T"
data = { loader = "mnist" }
flips = [1, 2]
[features.a]
kind = "given"
[[runs]]
name = "one"
group = "beyond"
features = "a"
learner = "ridge"
methods = ["exact"]
"""


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    m = 301
    label = rng.integers(0, 3, size=m)
    prediction = np.where(rng.random(m) < 0.8, label, rng.integers(0, 3, size=m))
    columns = {name: np.full(m, NOTHING) for name in COLUMNS}
    columns |= {"prediction": prediction, "exact": rng.integers(0, 50, size=m)}
    columns["flips_needed"] = np.where(rng.random(m) < 0.1, -1, columns["exact"] + 1)
    return RunRows(np.arange(m), label, columns)


def test_certified_and_attacked_accuracy(rows):
    for flips in (0, 1, 7, 49, 50, 60):
        right = rows["prediction"] == rows.label
        assert certified(rows, "exact", flips)[0] == np.mean(right & (rows["exact"] >= flips))
        unchanged = (rows["flips_needed"] > flips) | (rows["flips_needed"] == -1)
        assert attacked(rows, "flips_needed", flips)[0] == np.mean(right & unchanged)


def test_clean_accuracy_worst_class_and_median(rows):
    right = rows["prediction"] == rows.label
    assert clean_accuracy(rows) == right.mean()
    assert worst_recall(rows) == min(right[rows.label == c].mean() for c in range(3))
    median = median_radius(rows, "exact")
    assert certified(rows, "exact", median)[0] >= 0.5 > certified(rows, "exact", median + 1)[0]


def test_a_median_of_nothing(rows):
    wrong = RunRows(rows.index, rows.label, {**rows.columns, "prediction": (rows.label + 1) % 3})
    assert median_radius(wrong, "exact") == -1
    experiment = parse_experiment("t", SPEC)
    table = beyond_table(experiment, {"one": wrong}, {"n_train": 100, "runs": {"one": {"seconds": 2.0}}})
    assert table.split("\n\n")[0].endswith("| none |  | 2.0 |")
