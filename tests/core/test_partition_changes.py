"""All sets of partitions that can turn, on small problems: the fewest row changes match the formulas, or bound them."""

import itertools

import numpy as np
import pytest

from flipproof.core.exact import UNREACHABLE, leads
from flipproof.core.partitions import (
    PartitionVotes,
    SourceVotes,
    partition_changes_to_overturn,
    partition_sources_to_overturn,
)
from flipproof.core.powers import CHANGES


def counted(votes, n_classes):
    return np.bincount(votes, minlength=n_classes + 1)[:n_classes].astype(np.int64)


def overturned(votes, turned, n_classes):
    """Yield each class for which the winner changes if these partitions vote for it."""
    first = int(np.argmax(counted(votes, n_classes)))
    for rival in set(range(n_classes)) - {first}:
        after = votes.copy()
        after[list(turned)] = rival
        if np.argmax(counted(after, n_classes)) != first:
            yield rival


def reachable_sets(n_partitions, removable, r, changes):
    """Every set of partitions that r changes can turn: up to r by additions, up to r by removals."""
    everything = range(n_partitions)
    adds = r if changes != "removals" else 0
    removes = r if changes != "insertions" else 0
    for n_added in range(min(adds, n_partitions) + 1):
        for added in itertools.combinations(everything, n_added):
            free = [one for one in everything if removable[one]]
            for n_removed in range(min(removes, len(free)) + 1):
                for removed in itertools.combinations(free, n_removed):
                    yield set(added) | set(removed)


@pytest.mark.few(1)
@pytest.mark.parametrize("changes", CHANGES[1:])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_set_of_partitions(changes, n_classes):
    rng = np.random.default_rng(n_classes)
    found = unreachable = 0
    for _ in range(250):
        n_partitions = int(rng.integers(1, 6))
        votes = np.minimum(rng.integers(-1, n_classes + 1, n_partitions), n_classes)  # the last code is for nobody
        votes[votes < 0] = 0
        removable = (rng.random(n_partitions) < 0.5) & (votes < n_classes)
        scores = counted(votes, n_classes)
        winner = np.array([np.argmax(scores)])
        split = PartitionVotes(
            counted(votes[removable], n_classes)[None], counted(votes[~removable], n_classes)[None], n_partitions
        )
        needed = partition_changes_to_overturn(split, winner, leads(scores[None], winner), changes)[0]
        truth = np.full(n_classes, UNREACHABLE)
        for r in range(n_partitions, 0, -1):
            for turned in reachable_sets(n_partitions, removable, r, changes):
                truth[list(overturned(votes, turned, n_classes))] = r
        # for another rival to win is enough: only the smallest number is a radius
        assert needed.min() == truth.min(), (votes, removable)
        assert np.all(needed >= truth)
        assert needed[winner] == UNREACHABLE
        found += truth.min() != UNREACHABLE
        unreachable += truth.min() == UNREACHABLE
    assert found > 60
    assert (unreachable > 20) == (changes == "removals")


@pytest.mark.parametrize("changes", ["rows", "removals"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_sources_turn_more_than_the_bound(changes, n_classes):
    rng = np.random.default_rng(10 + n_classes)
    attained = 0
    for _ in range(150):
        n_partitions, n, n_sources = int(rng.integers(2, 7)), int(rng.integers(1, 8)), int(rng.integers(1, 5))
        partition, source = rng.integers(n_partitions, size=n), rng.integers(n_sources, size=n)
        votes = rng.choice(n_classes, size=n_partitions, p=[0.7, *[0.3 / (n_classes - 1)] * (n_classes - 1)])
        votes[~np.isin(np.arange(n_partitions), partition) & (rng.random(n_partitions) < 0.5)] = n_classes
        names = np.unique(source)
        owned_sets = [set(partition[source == name].tolist()) for name in names]
        n_rows = np.array([np.count_nonzero(source == name) for name in names])
        scores = counted(votes, n_classes)
        winner = np.array([np.argmax(scores)])
        owned = np.stack([counted(votes[sorted(owns)], n_classes) for owns in owned_sets])
        given = SourceVotes(
            owned[None], np.array([len(owns) for owns in owned_sets]), n_rows, scores[None], n_partitions
        )
        needed = partition_sources_to_overturn(given, winner, leads(scores[None], winner), changes).min()
        truth = UNREACHABLE
        for size in range(len(names), 0, -1):
            for some in itertools.combinations(range(len(names)), size):
                own = set().union(*(owned_sets[one] for one in some))
                others = sorted(set(range(n_partitions)) - own)
                extra = min(int(n_rows[list(some)].sum()), len(others)) if changes == "rows" else 0
                for more in itertools.combinations(others, extra):
                    if list(overturned(votes, own | set(more), n_classes)):
                        truth = size
        assert needed <= truth
        if len(names) == 1:
            assert needed == truth
        attained += needed == truth != UNREACHABLE
    assert attained > 30


def test_many_test_rows_at_once_are_each_as_if_alone():
    rng = np.random.default_rng(0)
    removable, others = rng.integers(9, size=(50, 4)), rng.integers(9, size=(50, 4))
    removable[:, 0] += 20 - removable.sum(axis=1)  # the number of removable partitions is the same for all rows
    removable = np.maximum(removable, 0)
    n_partitions = int((removable + others).sum(axis=1).max())
    votes = PartitionVotes(removable, others, n_partitions)
    winner = np.argmax(votes.scores, axis=1)
    lead = leads(votes.scores, winner)
    for changes in CHANGES[1:]:
        needed = partition_changes_to_overturn(votes, winner, lead, changes)
        for row in range(50):
            one = slice(row, row + 1)
            alone = PartitionVotes(removable[one], others[one], n_partitions)
            expected = partition_changes_to_overturn(alone, winner[one], lead[one], changes)
            np.testing.assert_array_equal(needed[one], expected)
