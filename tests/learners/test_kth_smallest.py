"""The k-th smallest value of each row, found from a sample."""

import numpy as np
import pytest

from flipproof.learners import nearest_rows
from flipproof.learners.nearest_rows import kth_smallest


@pytest.mark.parametrize("seed", range(30))
def test_it_is_that_of_the_sorted_row(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(nearest_rows, "LONG_ROW", [0, 10000][seed % 4 == 0])
    n = int(rng.integers(1, 5000))
    values = rng.integers(0, 10 if seed % 3 == 0 else 10**6, size=(7, n)).astype([np.float64, np.float32][seed % 2])
    values[1] = np.sort(values[1])
    values[2, ::16] = values[2].min()  # a sample that misleads
    values[3, ::16] = np.inf
    values[4, rng.random(n) < 0.9] = np.inf
    before = values.copy()
    for k in {1, int(rng.integers(1, n + 1)), max(n // 40, 1), n}:
        np.testing.assert_array_equal(kth_smallest(values, k), np.sort(values, axis=1)[:, k - 1])
    np.testing.assert_array_equal(values, before)
