"""Tallies of parts of the training rows add up to the histogram of all rows, in any order."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipproof.core import histograms as tallies
from flipproof.core.histograms import (
    CellTally,
    LevelTally,
    VoteCount,
    VoteHistogram,
    clip_levels,
    histogram,
    level_of_share,
    levels_are_shared,
    trimmed,
)
from flipproof.core.rounding import SUM_RUN
from flipproof.core.votes import ProductVotes, all_votes, clipped


def some_votes(n, m, precision, seed=0, share=1.0):
    """Return votes of n training rows on m test rows: products of integers, as large as `share` of the precision."""
    rng = np.random.default_rng(seed)
    basis = rng.integers(-(2**8), 2**8, size=(n, 3)).astype(np.float32)
    largest = max(share * (2.0**precision - 1), 1)
    # few bits, so that products are exact
    coefficients = np.rint(rng.uniform(-1, 1, size=(m, 3)) * largest / (3 * 2**8) * 2**10) / 2**10
    return ProductVotes(coefficients, basis, np.zeros(m, dtype=np.int64))


def tallies_of_cuts(votes, codes, count, ends):
    parts = np.split(np.arange(len(codes)), ends)
    return [count.tally(votes.of(votes.basis[part]), codes[part]) for part in parts if len(part)]


def assert_same_histogram(found, wanted):
    np.testing.assert_array_equal(found.values, wanted.values, strict=True)
    np.testing.assert_array_equal(found.counts, wanted.counts, strict=True)
    assert found.n_levels == wanted.n_levels


# levels that all rows share, without unused outer levels; and separate levels for each test row
KINDS = [(2, 30, LevelTally), (5, 60, LevelTally), (9, 300, LevelTally), (10, 40, CellTally), (24, 50, CellTally)]


@pytest.mark.few(1)
@pytest.mark.parametrize(("precision", "n", "kind"), KINDS)
@given(data=st.data())
def test_tallies_add_up_to_the_histogram(precision, n, kind, data):
    m, n_classes = 4, 3
    votes = some_votes(n, m, precision, share=data.draw(st.sampled_from([0.01, 0.3, 1.0])))
    codes = np.random.default_rng(1).integers(n_classes, size=n)
    ends = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    found = tallies_of_cuts(votes, codes, VoteCount(n_classes, precision, n), ends)
    total = functools.reduce(operator.add, data.draw(st.permutations(found)))
    assert all(isinstance(one, kind) for one in (total, *found))
    assert_same_histogram(total.histogram(0, m), histogram(votes, codes, n_classes, precision))


@pytest.mark.parametrize(("precision", "n", "kind"), KINDS)
def test_adding_tallies_is_associative(precision, n, kind):
    votes, codes = some_votes(n, 3, precision), np.arange(n) % 2
    a, b, c, d = tallies_of_cuts(votes, codes, VoteCount(2, precision, n), [3, 10, 25])
    wanted = histogram(votes, codes, 2, precision)
    for total in ((a + b) + (c + d), a + (b + (c + d)), (d + (b + a)) + c):
        assert_same_histogram(total.histogram(0, 3), wanted)


@pytest.mark.parametrize(("precision", "n", "kind"), KINDS)
def test_histograms_of_some_test_rows(precision, n, kind):
    votes, codes = some_votes(n, 7, precision), np.arange(n) % 3
    tally = functools.reduce(operator.add, tallies_of_cuts(votes, codes, VoteCount(3, precision, n), [5, 6]))
    for start, stop in [(0, 7), (0, 1), (2, 5), (6, 7)]:
        wanted = histogram(votes.on_rows(slice(start, stop)), codes, 3, precision)
        assert_same_histogram(tally.histogram(start, stop), wanted)


@pytest.mark.few(1)
@pytest.mark.parametrize(("precision", "n", "kind"), KINDS)
@given(data=st.data())
def test_votes_can_be_clipped_after_they_are_counted(precision, n, kind, data):
    m, largest = 6, 2**precision - 1
    votes = some_votes(n, m, precision, share=data.draw(st.sampled_from([0.01, 0.3, 1.0])))
    codes = np.arange(n) % 3
    sizes = st.integers(0, largest) | st.sampled_from([0, 1, 2, largest])
    limit = np.array(data.draw(st.lists(sizes, min_size=m, max_size=m)))
    tally = functools.reduce(operator.add, tallies_of_cuts(votes, codes, VoteCount(3, precision, n), [5, 6]))
    for start, stop in [(0, m), (2, 5)]:
        some = clipped(votes.on_rows(slice(start, stop)), limit[start:stop])
        wanted = histogram(some, codes, 3, precision)
        assert_same_histogram(tally.histogram(start, stop, limit[start:stop]), wanted)


@pytest.mark.parametrize(("precision", "n", "kind"), KINDS)
@pytest.mark.parametrize("share", [1e-9, 0.07, 0.5, 1.0])
def test_the_level_of_a_share_is_that_of_all_classes(precision, n, kind, share):
    votes, codes = some_votes(n, 5, precision), np.arange(n) % 3
    votes = ProductVotes(votes.coefficients * [[0], [1], [1], [1], [1]], votes.basis, votes.exponent)
    tally = functools.reduce(operator.add, tallies_of_cuts(votes, codes, VoteCount(3, precision, n), [5, 6]))
    found = level_of_share(tally.histogram(0, 5), share)
    np.testing.assert_array_equal(found, clip_levels(votes, share, precision))
    for level, sizes in zip(found, np.abs(all_votes(votes)), strict=True):
        in_order = np.sort(sizes[sizes > 0])
        wanted = in_order[max(int(np.ceil(round(share * len(in_order), 6))), 1) - 1] if len(in_order) else 1
        assert level == wanted


def test_without_votes_the_level_of_a_share_is_1():
    nothing = VoteHistogram(np.zeros((1, 0), dtype=np.int64), np.zeros((4, 3, 0), dtype=np.int64), 8)
    np.testing.assert_array_equal(level_of_share(nothing, 0.5), [1, 1, 1, 1])


@pytest.mark.parametrize(("precision", "n"), [(6, 80), (10, 80)])
def test_adding_tallies_does_not_modify_them(precision, n):
    votes, codes = some_votes(n, 2, precision), np.arange(n) % 2
    first, second = tallies_of_cuts(votes, codes, VoteCount(2, precision, n), [n // 2])
    before = [first.counts.copy(), second.counts.copy()]
    assert_same_histogram((first + second).histogram(0, 2), (first + second).histogram(0, 2))
    np.testing.assert_array_equal(first.counts, before[0])
    np.testing.assert_array_equal(second.counts, before[1])


def test_tallies_omit_unused_outer_levels():
    precision, n = 9, 300
    narrow = some_votes(n, 2, precision, share=0.01)
    wide = some_votes(n, 2, precision, share=1.0)
    count = VoteCount(2, precision, 2 * n)
    codes = np.arange(n) % 2
    small, large = count.tally(narrow, codes), count.tally(wide, codes)
    assert small.counts.shape[2] == 2 * SUM_RUN
    assert small.counts.shape[2] < large.counts.shape[2] <= count.n_levels
    assert small.n_levels == large.n_levels == count.n_levels
    for total in (small + large, large + small):
        assert total.counts.shape[2] == large.counts.shape[2]
        assert total.histogram(0, 2).n_labels == 2 * n
    np.testing.assert_array_equal(trimmed(small.counts), small.counts)


@pytest.mark.parametrize(("precision", "shares"), [(6, True), (10, False)])
def test_many_training_rows_need_64_bits(monkeypatch, precision, shares):
    n = 100
    assert levels_are_shared(precision, n) is shares
    votes, codes = some_votes(n, 3, precision), np.arange(n) % 2
    wanted = histogram(votes, codes, 2, precision)
    for most_rows, bits in [(n, np.int32), (n - 1, np.int64)]:
        monkeypatch.setattr(tallies, "MOST_ROWS_IN_32_BITS", most_rows)
        count = VoteCount(2, precision, n)
        found = tallies_of_cuts(votes, codes, count, [10, 50])
        total = found[2] + found[0] + found[1]
        assert total.counts.dtype == (bits if shares else np.int64)
        if shares:
            assert total.counts.nbytes <= 3 * count.bytes_per_row
        assert_same_histogram(total.histogram(0, 3), wanted)


def test_counts_fit_their_integer_type():
    for n, size in [(2**31 - 1, 4), (2**31, 8), (2**40, 8)]:
        count = VoteCount(2, 6, n)
        assert count.bytes_per_row == 2 * count.n_levels * size
        assert n <= np.iinfo(f"i{size}").max


@pytest.mark.parametrize(("precision", "n"), [(6, 80), (10, 80)])
def test_counts_do_not_depend_on_the_batch_size(monkeypatch, precision, n):
    votes, codes = some_votes(n, 5, precision), np.arange(n) % 2
    wanted = histogram(votes, codes, 2, precision)
    monkeypatch.setattr(tallies, "NUMBERS_AT_A_TIME", 7)
    assert_same_histogram(VoteCount(2, precision, n).tally(votes, codes).histogram(0, 5), wanted)


def test_cells_of_a_tally_are_ascending_and_counted():
    votes, codes = some_votes(40, 3, 12), np.arange(40) % 2
    tally = VoteCount(2, 12, 40).tally(votes, codes)
    assert np.all(np.diff(tally.cells) > 0)
    assert tally.counts.min() > 0
    assert tally.counts.sum() == 3 * 40
