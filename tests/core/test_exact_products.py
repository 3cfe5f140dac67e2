"""Sums and products of features on their grids are exact, so independent of order, for any number of rows."""

import numpy as np

from flipproof.core.linalg import FEATURE_BITS, LOW_BITS, ColumnGrid, ColumnMoments, GramSums, halves, rotation_of

#: More rows than float64 can add up features of.
N = 2**15 + 1


def large_features():
    return np.random.default_rng(0).integers(2 ** (FEATURE_BITS - 1), 2**FEATURE_BITS, size=(N, 2)).astype(float)


def test_moments_of_many_rows_are_exact():
    X, zero = large_features(), np.zeros(2)
    moments = ColumnMoments.of(X, zero, zero.astype(int))
    columns = [[int(x) for x in column] for column in X.T]
    assert moments.sums.tolist() == [sum(column) for column in columns]
    assert moments.squares.tolist() == [sum(x * x for x in column) for column in columns]
    assert any(float(total) != total for total in moments.sums)


def test_gram_matrices_of_many_rows_are_exact():
    X, zero = large_features(), np.zeros(2)
    sums = GramSums.of(X, ColumnGrid(zero, zero.astype(int), zero, zero, zero == 0))
    high, low = (half.astype(np.int64) for half in halves(X))
    for found, (a, b) in zip(sums.high * 2**LOW_BITS + sums.low, ((high, high), (high, low), (low, low)), strict=True):
        np.testing.assert_array_equal(found, a.T @ b)
    assert np.any((high.T @ high) > 2**53)


def test_products_with_rows_far_outside_do_not_depend_on_order():
    rng = np.random.default_rng(1)
    matrix, far = rng.normal(size=(300, 20)), np.rint(rng.normal(size=(30, 300)) * 2.0**70)
    expected = rotation_of(matrix).apply(far)
    np.testing.assert_allclose(expected, far @ matrix, rtol=1e-6, atol=2.0**50)
    for _ in range(3):
        order = rng.permutation(300)
        np.testing.assert_array_equal(rotation_of(matrix[order]).apply(far[:, order]), expected)
