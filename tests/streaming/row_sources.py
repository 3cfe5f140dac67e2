"""Shared by the tests of sources of rows: all rows of a source, and rows to make one of."""

import numpy as np

from flipproof.streaming.blocks import rows_at_a_time


def gathered(rows):
    """Return X, labels, trusted and groups of all blocks, one after another."""
    blocks = [block for part in rows.parts for block in part.blocks()]
    assert all(len(block) <= rows_at_a_time(block.X.shape[1]) for block in blocks)
    assert all((block.trusted is not None) == rows.has_trusted for block in blocks)
    assert all((block.groups is not None) == rows.has_groups for block in blocks)
    columns = [[block.X for block in blocks], [block.labels for block in blocks]]
    columns.append([block.trusted for block in blocks] if rows.has_trusted else None)
    columns.append([block.groups for block in blocks] if rows.has_groups else None)
    return [None if column is None else np.concatenate(column) for column in columns]


def assert_rows(rows, *expected):
    """Check that a source yields these rows, twice."""
    for _ in range(2):
        for found, wanted in zip(gathered(rows), [*expected, None, None], strict=False):
            if wanted is None:
                assert found is None
            else:
                np.testing.assert_array_equal(found, wanted)


def some_rows(n_rows, n_columns=3, dtype=np.float64):
    """Return X, y, trusted and groups."""
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, n_columns)).astype(dtype)
    return X, rng.integers(0, 3, n_rows), rng.random(n_rows) < 0.5, np.array(["ann", "bob"])[rng.integers(0, 2, n_rows)]
