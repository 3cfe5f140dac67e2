"""The exact radius: integers on, above and below a cumulative gain, and every attack on small cases."""

import numpy as np
import pytest
from enumeration import all_labellings, flips_to_level, scores_after
from hypothesis import given, settings
from hypothesis import strategies as st

from flipproof.exact import UNREACHABLE, flips_to_overturn, radius_from_flips
from flipproof.votes import Duel, VoteHistogram, duel


def one_row(votes, labels, K):
    counts = np.zeros((1, K, len(votes)), dtype=np.int64)
    counts[0, labels, np.arange(len(votes))] = 1
    return VoteHistogram(np.asarray(votes, dtype=np.int64)[None], counts)


def needed(votes, labels, K, winner, rival, margin):
    pair = duel(one_row(votes, labels, K), np.array([winner]), np.array([rival]))
    return int(flips_to_overturn(pair, np.array([margin]))[0])


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
    pair = Duel(np.array([[-largest, largest]]), np.array([[0, n]]), np.array([[0, 0]]), None)
    flips = n - 3
    margin = 2 * largest * flips + margin_off_by
    assert flips_to_overturn(pair, np.array([margin]))[0] == (flips if margin_off_by <= 0 else flips + 1)
    assert flips_to_overturn(pair, np.array([2 * largest * n]))[0] == n
    assert flips_to_overturn(pair, np.array([2 * largest * n + 1]))[0] == UNREACHABLE


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
