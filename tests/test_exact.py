"""The exact radius: integers on, above and below a cumulative gain, and every attack on small cases."""

import numpy as np
import pytest
from enumeration import all_labellings, flips_to_level, scores_after
from hypothesis import given, settings
from hypothesis import strategies as st

from flipproof.exact import UNREACHABLE, flips_to_overturn, radius_from_flips
from flipproof.histograms import VoteHistogram


def by_sorting(votes, labels, K):
    """One test row, each vote a level of its own."""
    counts = np.zeros((1, K, len(votes)), dtype=np.int64)
    counts[0, labels, np.arange(len(votes))] = 1
    return VoteHistogram(np.asarray(votes, dtype=np.int64)[None], counts, len(votes))


def by_levels(votes, labels, K):
    """One test row, on all levels from -h to h - 1."""
    half = int(np.abs(votes).max()) + 1
    counts = np.zeros((1, K, 2 * half), dtype=np.int64)
    np.add.at(counts, (0, labels, np.asarray(votes) + half), 1)
    return VoteHistogram(np.arange(-half, half)[None], counts, 2 * half)


def needed(votes, labels, K, winner, rival, margin):
    """Flips against one rival; both ways to count them agree."""
    margins = np.full((1, K), margin)
    answers = [
        flips_to_overturn(make(votes, labels, K), np.array([winner]), margins) for make in (by_sorting, by_levels)
    ]
    assert np.array_equal(*answers)
    assert answers[0][0, winner] == UNREACHABLE
    return int(answers[0][0, rival])


def test_margin_on_one_above_and_one_below_a_cumulative_gain():
    # class 0 is ahead with votes 7, 5, 5, 2: gains 14, 10, 10, 4, so 14, 24, 34, 38 are reached with 1, 2, 3, 4 flips
    votes, labels = np.array([7, 5, 5, 2]), np.zeros(4, dtype=int)
    for flips, reached in enumerate([14, 24, 34, 38], start=1):
        assert needed(votes, labels, 2, 0, 1, reached - 1) == flips
        assert needed(votes, labels, 2, 0, 1, reached) == flips  # a tie counts as lost
        assert needed(votes, labels, 2, 0, 1, reached + 1) == (flips + 1 if flips < 4 else UNREACHABLE)


def test_bystanders_gain_once_and_signs_matter():
    votes = np.array([4, -6, 5, -3, 9, -9])
    labels = np.array([0, 1, 2, 2, 1, 0])  # winner 0, rival 1, class 2 stands by
    # 4 for the winner: 8; -6 for the rival: 12; bystanders 5 and 3; 9 for the rival and -9 for the winner: nothing
    assert [needed(votes, labels, 3, 0, 1, margin) for margin in (12, 13, 20, 21, 25, 26, 28, 29)] == [
        1, 2, 2, 3, 3, 4, 4, UNREACHABLE,
    ]  # fmt: skip


def test_a_tie_at_the_start_needs_no_flip():
    assert needed([1, 1], [0, 1], 2, 0, 1, 0) == 0
    assert needed([0, 0], [0, 1], 2, 0, 1, 0) == 0
    assert radius_from_flips(np.array([0, 1, 5, UNREACHABLE]), 9).tolist() == [0, 0, 4, 9]


@pytest.mark.parametrize("margin_off_by", [-1, 0, 1])
def test_a_million_votes_of_full_precision(margin_off_by):
    """No integer overflows, and the answer is right to the last vote."""
    n, largest = 10**6, 2**24 - 1
    histogram = VoteHistogram(np.array([[-largest, largest]]), np.array([[[0, n], [0, 0]]]), 2)

    def flips_for(margin):
        return flips_to_overturn(histogram, np.array([0]), np.array([[0, margin]]))[0, 1]

    flips = n - 3
    assert flips_for(2 * largest * flips + margin_off_by) == (flips if margin_off_by <= 0 else flips + 1)
    assert flips_for(2 * largest * n) == n
    assert flips_for(2 * largest * n + 1) == UNREACHABLE


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_every_attack_on_small_cases(data):
    K = data.draw(st.integers(2, 4))
    n = data.draw(st.integers(1, 5))
    votes = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)))
    labels = np.array(data.draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n)))
    offsets = np.array(data.draw(st.lists(st.integers(-12, 0), min_size=K, max_size=K)))
    labellings = all_labellings(n, K)
    scores = scores_after(labellings, votes, offsets)
    now = scores_after(labels[None], votes, offsets)[0]
    winner = int(now.argmax())
    pairs = [needed(votes, labels, K, winner, d, now[winner] - now[d]) for d in range(K) if d != winner]
    level = flips_to_level(labels, labellings, scores, winner)
    assert min(pairs) == (UNREACHABLE if level == np.inf else level)
