"""The exact radius: leads equal to, above and below a cumulative gain, and every attack on small cases."""

import numpy as np
import pytest
from enumeration import all_labellings, flips_to_change, least_cost, possible_attacks, random_powers, scores_after
from hypothesis import given, settings
from hypothesis import strategies as st

from flipproof.core.exact import (
    UNREACHABLE,
    flips_to_overturn,
    groups_to_overturn,
    leads,
    most_useful_changes,
    radius_from_flips,
)
from flipproof.core.histograms import VoteHistogram
from flipproof.core.powers import Rights
from flipproof.core.votes import GroupVotes


def by_sorting(votes, labels, K):
    """One test row, with a separate level for each vote."""
    order = np.argsort(votes, kind="stable")
    counts = np.zeros((1, K, len(votes)), dtype=np.int64)
    counts[0, np.asarray(labels)[order], np.arange(len(votes))] = 1
    return VoteHistogram(np.asarray(votes, dtype=np.int64)[order][None], counts, len(votes))


def by_levels(votes, labels, K):
    """One test row, on all levels from -h to h - 1."""
    half = int(np.abs(votes).max()) + 1
    counts = np.zeros((1, K, 2 * half), dtype=np.int64)
    np.add.at(counts, (0, labels, np.asarray(votes) + half), 1)
    return VoteHistogram(np.arange(-half, half)[None], counts, 2 * half)


def both_ways(votes, labels, K, winner, lead, transitions=None):
    """Flips needed for each class to win; both ways to count them agree."""
    answers = [
        flips_to_overturn(make(votes, labels, K), np.array([winner]), lead, transitions)
        for make in (by_sorting, by_levels)
    ]
    assert np.array_equal(*answers)
    assert answers[0][0, winner] == UNREACHABLE
    return answers[0][0]


def needed(votes, labels, K, winner, rival, lead):
    return int(both_ways(votes, labels, K, winner, np.full((1, K), lead))[rival])


def test_lead_equal_to_above_and_below_a_cumulative_gain():
    # class 0 is ahead with votes 7, 5, 5, 2: gains 14, 10, 10, 4, so 14, 24, 34, 38 are reached with 1, 2, 3, 4 flips
    votes, labels = np.array([7, 5, 5, 2]), np.zeros(4, dtype=int)
    for flips, reached in enumerate([14, 24, 34, 38], start=1):
        assert needed(votes, labels, 2, 0, 1, reached - 1) == flips
        assert needed(votes, labels, 2, 0, 1, reached) == flips
        assert needed(votes, labels, 2, 0, 1, reached + 1) == (flips + 1 if flips < 4 else UNREACHABLE)


def test_third_classes_gain_once_and_signs_matter():
    votes = np.array([4, -6, 5, -3, 9, -9])
    labels = np.array([0, 1, 2, 2, 1, 0])  # winner 0, rival 1, third class 2
    # gains: 8 of 4 for the winner, 12 of -6 for the rival, 5 and 3 of the third class, 0 of 9 for the rival and -9 for
    # the winner
    assert [needed(votes, labels, 3, 0, 1, lead) for lead in (12, 13, 20, 21, 25, 26, 28, 29)] == [
        1, 2, 2, 3, 3, 4, 4, UNREACHABLE,
    ]  # fmt: skip


def test_a_rival_before_the_winner_wins_ties():
    scores = np.array([[3, 5, 5, 0], [7, 7, 7, 7]])
    assert leads(scores, np.array([1, 0])).tolist() == [[2, 0, 1, 6], [0, 1, 1, 1]]


def test_an_initial_tie_needs_one_flip_or_is_unreachable():
    assert needed([1, 1], [0, 1], 2, 0, 1, 1) == 1
    assert needed([0, 0], [0, 1], 2, 0, 1, 1) == UNREACHABLE
    assert radius_from_flips(np.array([1, 5, UNREACHABLE]), 9).tolist() == [0, 4, 9]


@pytest.mark.parametrize("lead_off_by", [-1, 0, 1])
def test_a_million_votes_of_full_precision(lead_off_by):
    """No integer overflows, and the result is exact."""
    n, largest = 10**6, 2**24 - 1
    histogram = VoteHistogram(np.array([[-largest, largest]]), np.array([[[0, n], [0, 0]]]), 2)

    def flips_for(lead):
        return flips_to_overturn(histogram, np.array([0]), np.array([[0, lead]]))[0, 1]

    flips = n - 3
    assert flips_for(2 * largest * flips + lead_off_by) == (flips if lead_off_by <= 0 else flips + 1)
    assert flips_for(2 * largest * n) == n
    assert flips_for(2 * largest * n + 1) == UNREACHABLE


def test_two_classes_as_the_gains_in_order():
    rng = np.random.default_rng(0)
    for _ in range(200):
        votes, labels, winner = rng.integers(-40, 40, size=60), rng.integers(2, size=60), int(rng.integers(2))
        gains = np.sort(2 * np.maximum(np.where(labels == winner, votes, -votes), 0))[::-1]
        lead = int(rng.integers(1, gains.sum() + 3))
        reached = np.flatnonzero(np.cumsum(gains) >= lead)
        expected = reached[0] + 1 if reached.size else UNREACHABLE
        assert needed(votes, labels, 2, winner, 1 - winner, lead) == expected


@pytest.mark.parametrize("K", [2, 3, 5])
def test_rows_with_their_own_levels_as_one_by_one(K):
    rng = np.random.default_rng(K)
    for largest in (3, 2**24 - 1):
        votes = np.sort(rng.integers(-largest, largest, size=(6, 40), endpoint=True), axis=1)
        counts = rng.integers(3, size=(6, K, 40))
        winner, lead = rng.integers(K, size=6), rng.integers(1, 60 * largest, size=(6, K))
        together = flips_to_overturn(VoteHistogram(votes, counts, 40), winner, lead)
        for row in range(6):
            spread = np.repeat(votes[row], counts[row].sum(axis=0))
            label = np.concatenate([np.repeat(np.arange(K), counts[row, :, level]) for level in range(40)])
            for rival in set(range(K)) - {int(winner[row])}:
                of_winner, of_rival = label == winner[row], label == rival
                factor = np.where(spread > 0, 1 + of_winner - of_rival, 1 + of_rival - of_winner)
                reached = np.flatnonzero(np.cumsum(np.sort(factor * np.abs(spread))[::-1]) >= lead[row, rival])
                assert together[row, rival] == (reached[0] + 1 if reached.size else UNREACHABLE)


@settings(max_examples=300)
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
    pairs = [needed(votes, labels, K, winner, d, now[winner] - now[d] + (d > winner)) for d in range(K) if d != winner]
    cheapest = flips_to_change(labels, labellings, scores.argmax(axis=1), winner)
    assert min(pairs) == (UNREACHABLE if cheapest == np.inf else cheapest)


@settings(max_examples=300)
@given(st.data())
def test_every_attack_on_small_cases_with_restricted_changes(data):
    K = data.draw(st.integers(2, 4))
    n = data.draw(st.integers(1, 5))
    votes = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)))
    labels = np.array(data.draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n)))
    pairs = [(old, new) for old in range(K) for new in range(K) if old != new]
    allowed = data.draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    transitions = np.zeros((K, K), dtype=bool)
    transitions[tuple(np.transpose(allowed))] = True
    now = scores_after(labels[None], votes, np.zeros(K, dtype=int))
    winner = int(now.argmax())
    flips = both_ways(votes, labels, K, winner, leads(now, np.array([winner])), transitions)
    attacks, cost = possible_attacks(labels, K, allowed=allowed)
    after = scores_after(attacks, votes, np.zeros(K, dtype=int))
    for rival in set(range(K)) - {winner}:
        cheapest = least_cost(cost, after[:, winner] - after[:, rival] + (winner < rival) <= 0)
        assert flips[rival] == (UNREACHABLE if cheapest == np.inf else cheapest)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])  # multiplied as a sparse table, and as a dense one
def test_many_classes_and_some_possible_changes(share):
    rng = np.random.default_rng(0)
    K, n = 40, 300
    votes, labels = rng.integers(-20, 40, size=n), rng.integers(K, size=n)
    transitions = rng.random((K, K)) < share
    np.fill_diagonal(transitions, False)
    now = scores_after(labels[None], votes, np.zeros(K, dtype=int))
    winner = int(now.argmax())
    lead = leads(now, np.array([winner]))
    flips = both_ways(votes, labels, K, winner, lead, transitions)
    reached = 0
    for rival in set(range(K)) - {winner}:
        side = (np.arange(K) == winner).astype(int) - (np.arange(K) == rival)
        taken_off = votes[:, None] * (side[labels][:, None] - side)
        gains = np.where(transitions[labels], taken_off, 0).max(axis=1).clip(0)
        reach = np.cumsum(np.sort(gains)[::-1])
        found = np.flatnonzero(reach >= lead[0, rival])
        assert flips[rival] == (found[0] + 1 if found.size else UNREACHABLE)
        reached += found.size > 0
    assert reached >= 2


def powers_over(labels, K, trusted=None, allowed=None, groups=None):
    """The same powers, in class codes."""
    transitions = ~np.eye(K, dtype=bool)
    if allowed is not None:
        transitions[:] = False
        transitions[tuple(np.transpose(allowed))] = True
    codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
    return Rights(transitions).over(labels, trusted, codes)


@pytest.mark.few(3)
@pytest.mark.parametrize("which", range(8))  # combinations of trusted labels, possible changes and annotators
def test_the_most_useful_changes_are_the_best_of_all_attacks(which):
    rng = np.random.default_rng(which)
    for _ in range(40):
        n, K, n_units = int(rng.integers(1, 6)), int(rng.integers(2, 5)), int(rng.integers(0, 4))
        votes, labels = rng.integers(-4, 9, size=n), rng.integers(K, size=n)
        limits = random_powers(rng, n, K, which)
        winner, rival = rng.permutation(K)[:2]
        found = most_useful_changes(votes, labels, winner, rival, powers_over(labels, K, **limits), n_units)
        attacked = labels.copy()
        attacked[found.rows] = found.labels
        attacks, cost = possible_attacks(labels, K, **limits)
        margin = np.subtract(*scores_after(attacks, votes, np.zeros(K, dtype=int))[:, [winner, rival]].T)
        mine = np.flatnonzero((attacks == attacked).all(axis=1))
        assert mine.size == 1  # the adversary can make these changes
        assert cost[mine] <= n_units
        assert margin[mine] == margin[cost <= n_units].min()
        unchanged = margin[(attacks == labels).all(axis=1)]
        assert found.gains.sum() == unchanged - margin[mine]
        np.testing.assert_array_equal(found.votes, votes[found.rows])
        assert set(found.units) == set(range(len(set(found.units))))
        by_unit = np.bincount(found.units, weights=found.gains)
        assert np.all(np.diff(by_unit) <= 0)  # largest gains first


def test_the_lowest_rows_come_first_among_equal_gains():
    labels, votes = np.zeros(5, dtype=int), np.array([1, 3, 3, 1, 3])
    found = most_useful_changes(votes, labels, 0, 1, powers_over(labels, 2), 2)
    assert found.rows.tolist() == [1, 2]
    assert found.gains.tolist() == [6, 6]


def test_groups_without_labels_overturn_nothing():
    nobody = np.zeros(0, dtype=np.int64)
    none = np.zeros((1, 0), dtype=np.int64)
    votes = GroupVotes(positive=none, negative=none, label=nobody, first_cell=nobody)
    flips = groups_to_overturn(votes, np.array([0]), np.array([[0, 5]]), ~np.eye(2, dtype=bool))
    assert flips.tolist() == [[UNREACHABLE, UNREACHABLE]]
