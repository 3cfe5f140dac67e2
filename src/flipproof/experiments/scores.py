"""From the rows of a run to the figures that tables and curves show."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from flipproof.attacks.result import NO_ATTACK, standing_share
from flipproof.experiments.rows import RunRows
from flipproof.rounding import Floats


def clean_accuracy(rows: RunRows) -> float:
    """Share of test rows that are predicted correctly."""
    return float(np.mean(rows["prediction"] == rows.label))


def worst_recall(rows: RunRows) -> float:
    """Share of correct predictions among the rows of the class for which it is the lowest."""
    return min(float(np.mean(rows["prediction"][rows.label == c] == c)) for c in np.unique(rows.label))


def certified(rows: RunRows, method: str, flips: ArrayLike) -> Floats:
    """Share of test rows that are correct and have at least that radius."""
    # a row with radius r needs more than r flips to be lost
    return standing_share(rows.label, rows["prediction"], rows[method].astype(np.float64) + 1, flips)


def attacked(rows: RunRows, column: str, flips: ArrayLike) -> Floats:
    """Share of test rows that are correct and still stand after the attack with that many flips."""
    needed = np.where(rows[column] == NO_ATTACK, np.inf, rows[column])
    return standing_share(rows.label, rows["prediction"], needed, flips)


def median_radius(rows: RunRows, method: str) -> int:
    """Return the largest number of flips at which half of the test rows are still certified and correct; -1: never."""
    radius = np.where(rows["prediction"] == rows.label, rows[method], -1)
    return int(np.sort(radius)[len(radius) // 2])
