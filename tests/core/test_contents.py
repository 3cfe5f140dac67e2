"""Hashes of rows spread them evenly over partitions, and rows can be sorted by content alone."""

import itertools

import numpy as np
import pytest

from flipproof.core.contents import order_by_content, partition_numbers, row_hashes

RNG = np.random.default_rng(0)

#: Rows with little or much structure, all different.
ROWS = {
    "normal": RNG.normal(size=(20_000, 5)),
    "one column of integers": np.arange(20_000.0)[:, None],
    "zeros and ones": np.array(list(itertools.product([0.0, 1.0], repeat=14))),
    "one of many": np.eye(3_000),
    "tiny": np.arange(20_000)[:, None] * 5e-324,
    "huge": 1e300 + np.spacing(1e300) * np.arange(20_000)[:, None],
    "single precision": RNG.normal(size=(20_000, 3)).astype(np.float32),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("n_partitions", [2, 7, 50, 64, 1024])
def test_rows_are_spread_over_partitions_as_if_by_chance(name, n_partitions):
    numbers = partition_numbers(row_hashes(ROWS[name]), n_partitions)
    sizes = np.bincount(numbers, minlength=n_partitions)
    assert len(sizes) == n_partitions
    expected = len(numbers) / n_partitions
    chi_squared = ((sizes - expected) ** 2 / expected).sum()
    assert chi_squared < n_partitions - 1 + 5 * np.sqrt(2 * n_partitions)


def test_the_partition_is_not_a_parity_of_features():
    # a plain remainder of a sum over columns would be one, for all rows
    rows = ROWS["zeros and ones"]
    numbers = partition_numbers(row_hashes(rows), 2)
    weights = rows @ 2 ** np.arange(14)
    for subset in range(0, 2**14, 37):
        parity = np.bitwise_count(weights.astype(np.int64) & subset) % 2
        assert 0.4 < np.mean(parity == numbers) < 0.6
    assert np.mean(row_hashes(rows) % 2 == partition_numbers(row_hashes(rows), 2)) < 0.6


@pytest.mark.parametrize("hashes", ["real", "all collide", "some collide"])
def test_the_order_by_content_depends_on_content_alone(hashes):
    rng = np.random.default_rng(3)
    X, codes = rng.integers(-2, 3, size=(60, 3)).astype(float), rng.integers(3, size=60)
    X[:5], X[5:10] = 5e-324, -1e300
    given = row_hashes(X)
    given = given * np.uint64(hashes == "real") + given % np.uint64(3) * np.uint64(hashes == "some collide")
    order = order_by_content(X, given, codes)
    expected = np.column_stack([X, codes])[order]
    np.testing.assert_array_equal(np.sort(order), np.arange(60))
    for _ in range(20):
        shuffle = rng.permutation(60)
        order = order_by_content(X[shuffle], given[shuffle], codes[shuffle])
        np.testing.assert_array_equal(np.column_stack([X, codes])[shuffle][order], expected)
    assert np.all(np.diff(given[shuffle][order].astype(object)) >= 0)


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows_have_an_order_and_a_partition(n):
    X = np.ones((n, 2))
    assert order_by_content(X, row_hashes(X), np.zeros(n, dtype=np.int64)).tolist() == list(range(n))
    assert partition_numbers(row_hashes(X), 1).tolist() == [0] * n
