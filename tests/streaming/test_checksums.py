"""Checksums of rows: the same however these are cut up, and another one after any change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from flipproof.streaming import passes
from flipproof.streaming.passes import features_checksum

MATRICES = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(width=32))
)


@given(MATRICES, st.integers(0, 6), st.integers(0, 2**40))
def test_sums_over_rows(X, cut, first_row):
    whole = features_checksum(X, first_row)
    parts = features_checksum(X[:cut], first_row) + features_checksum(X[cut:], first_row + min(cut, len(X)))
    assert whole == parts % 2**64 == features_checksum(np.asfortranarray(X), first_row)


@given(MATRICES, st.data())
def test_every_bit_counts(X, data):
    row, column = data.draw(st.integers(0, len(X) - 1)), data.draw(st.integers(0, X.shape[1] - 1))
    other = X.copy()
    bits = other.view(f"u{X.itemsize}")
    bits[row, column] ^= np.array(1 << data.draw(st.integers(0, 8 * X.itemsize - 1)), dtype=bits.dtype)
    assert features_checksum(other, 0) != features_checksum(X, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [3, 4])
def test_changes_of_many_rows(monkeypatch, n_columns, dtype):
    X = np.random.default_rng(0).normal(size=(50, n_columns)).astype(dtype)
    one, alternating = np.arange(n_columns) == 1, np.arange(50) % 2 == 1
    others = [
        np.where(one, -X, X),
        np.where(alternating[:, None], -X, X),
        -X,
        2 * X,
        X[::-1],
        X[:, ::-1],
        X[:-1],
        np.vstack([X, np.zeros((1, n_columns), dtype)]),
        np.hstack([X, np.zeros((50, 1), dtype)]),
    ]
    found = [features_checksum(X, 0), features_checksum(X, 1), *(features_checksum(other, 0) for other in others)]
    assert len(set(found)) == len(found)
    monkeypatch.setattr(passes, "NUMBERS_AT_A_TIME", 10)
    assert features_checksum(X, 0) == found[0]


@pytest.mark.parametrize("n_rows", [0, 3])
def test_rows_without_columns(n_rows):
    assert (features_checksum(np.empty((n_rows, 0)), 0) == 0) == (n_rows == 0)
