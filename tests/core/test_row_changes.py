"""All row attacks on small problems: the fewest changes found by enumeration match the formulas."""

import itertools
from functools import partial

import numpy as np
import pytest

from flipproof.core.exact import UNREACHABLE, leads
from flipproof.core.histograms import VoteHistogram
from flipproof.core.neighbor_cuts import NearestRows, neighbor_changes_to_overturn
from flipproof.core.powers import CHANGES
from flipproof.core.rows import row_changes_to_overturn, sources_to_overturn
from flipproof.core.votes import GroupVotes

MOST = 3


def fewest(start, additions, changes, prediction, most=MOST):
    """Return the least number of changes after which another class is predicted; None if it is above `most`."""
    first = prediction(start)
    frontier, seen = {start}, {start}
    for steps in range(1, most + 1):
        frontier = {after for state in frontier for after in attacks(state, additions, changes)} - seen
        seen |= frontier
        if any(prediction(state) != first for state in frontier):
            return steps
    return None


# States are sorted tuples of rows; each row is (value, label, is_free).


def attacks(state, additions, changes):
    """Yield all states one change away: additions of any possible row, removals and replacements of free rows."""
    if changes != "removals":
        for new in additions:
            yield tuple(sorted((*state, new)))
    if changes != "insertions":
        for at, row in enumerate(state):
            if row[2]:
                rest = state[:at] + state[at + 1 :]
                yield rest
                if changes == "rows":
                    for new in additions:
                        yield tuple(sorted((*rest, new)))


def sums(state, offsets):
    total = offsets.copy()
    for vote, label, _ in state:
        total[label] += vote
    return total


def winner_of_sums(state, offsets):
    return int(np.argmax(sums(state, offsets)))


def histogram_of(rows, n_classes, largest):
    counts = np.zeros((1, n_classes, 2 * largest + 2), dtype=np.int64)
    for vote, label, _ in rows:
        counts[0, label, vote + largest + 1] += 1
    return VoteHistogram(np.arange(-largest - 1, largest + 1)[None], counts, 2 * largest + 2)


def own_levels(histogram):
    """The same histogram with only the votes that occur."""
    used = histogram.counts.sum(axis=(0, 1)) > 0
    if not used.any():
        used[:1] = True
    return VoteHistogram(histogram.values[:, used], histogram.counts[:, :, used], histogram.n_levels)


@pytest.mark.few(1)
@pytest.mark.parametrize("changes", CHANGES[1:])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_row_attack_on_separable_votes(changes, n_classes):
    rng = np.random.default_rng(n_classes)
    found = 0
    for _ in range(250):
        largest, n = int(rng.integers(0, 3)), int(rng.integers(0, 5))
        offsets = rng.integers(-2, 3, size=n_classes) if rng.random() < 0.5 else np.zeros(n_classes, dtype=np.int64)
        rows = tuple(
            sorted(
                (int(rng.integers(-largest, largest + 1)), int(rng.integers(n_classes)), bool(rng.random() < 0.7))
                for _ in range(n)
            )
        )
        additions = [(vote, label, True) for vote in {-largest, 0, largest} for label in range(n_classes)]

        truth = fewest(rows, additions, changes, partial(winner_of_sums, offsets=offsets))
        winner = np.array([winner_of_sums(rows, offsets)])
        lead = leads(sums(rows, offsets)[None], winner)
        for histogram in (
            histogram_of([row for row in rows if row[2]], n_classes, largest),
            own_levels(histogram_of([row for row in rows if row[2]], n_classes, largest)),
        ):
            needed = row_changes_to_overturn(histogram, winner, lead, np.array([largest]), changes).min()
            assert (needed if needed <= MOST else None) == truth, (rows, offsets, largest)
        found += truth is not None
    assert found > 40


@pytest.mark.parametrize("changes", ["rows", "removals"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_attack_by_sources(changes, n_classes):
    rng = np.random.default_rng(7 + n_classes)
    found = 0
    for _ in range(120):
        largest, n = int(rng.integers(1, 3)), int(rng.integers(1, 6))
        votes, codes = rng.integers(-largest, largest + 1, n), rng.integers(0, n_classes, n)
        sources, free = rng.integers(0, 3, n), rng.random(n) < 0.8
        scores = np.bincount(codes, weights=votes, minlength=n_classes).astype(np.int64)
        winner = int(np.argmax(scores))
        truth = None
        names = sorted(set(sources[free].tolist()))
        for size in range(1, len(names) + 1):
            for chosen in itertools.combinations(names, size):
                theirs = np.flatnonzero(free & np.isin(sources, chosen))
                options = [(0, 0)] + (
                    [(vote, label) for vote in (-largest, largest) for label in range(n_classes)]
                    if changes == "rows"
                    else []
                )
                base = scores.copy()
                np.subtract.at(base, codes[theirs], votes[theirs])
                kept = [(int(votes[j]), int(codes[j])) for j in theirs]
                for new in itertools.product(*[[*options, row] for row in kept]):
                    after = base.copy()
                    for vote, label in new:
                        after[label] += vote
                    if np.argmax(after) != winner:
                        truth = size
            if truth:
                break
        members = np.flatnonzero(free)
        cells, of_member = np.unique(sources[members] * n_classes + codes[members], return_inverse=True)
        positive, negative = np.zeros((1, len(cells)), dtype=np.int64), np.zeros((1, len(cells)), dtype=np.int64)
        np.add.at(positive[0], of_member, np.maximum(votes[members], 0))
        np.add.at(negative[0], of_member, np.maximum(-votes[members], 0))
        first = np.flatnonzero(np.diff(cells // n_classes, prepend=-1))
        grouped = GroupVotes(positive, negative, cells % n_classes, first)
        lead = leads(scores[None], np.array([winner]))
        needed = sources_to_overturn(
            grouped,
            np.bincount(of_member, minlength=len(cells)),
            np.array([winner]),
            lead,
            np.array([largest]),
            changes,
        ).min()
        assert (None if needed == UNREACHABLE else needed) == truth
        found += truth is not None
    assert found > 30


def in_order(state):
    """Rows on a line, as seen from 0: by distance, then by content."""
    return sorted(state, key=lambda row: (abs(row[0]), row[0]))


def votes_of_neighbours(state, k, n_classes):
    rows = in_order(state)
    counts = np.zeros(n_classes, dtype=np.int64)
    if rows:
        last = rows[min(k, len(rows)) - 1]
        cut = (abs(last[0]), last[0])
        for place, label, _ in rows:
            counts[label] += (abs(place), place) <= cut
    return counts


def winner_of_neighbours(state, k, n_classes):
    return int(np.argmax(votes_of_neighbours(state, k, n_classes)))


def nearest_of(state, depth=None):
    rows = in_order(state)
    places = [row[0] for row in rows]
    ends = [at + 1 == len(rows) or places[at + 1] != places[at] for at in range(len(rows))]
    shown = slice(None, depth)
    return NearestRows(
        np.array([[row[1] for row in rows][shown]], dtype=np.int64).reshape(1, -1),
        np.array([ends[shown]], dtype=bool).reshape(1, -1),
        np.array([[row[2] for row in rows][shown]], dtype=bool).reshape(1, -1),
        np.array([bool(places) and places[0] == 0]),
        len(rows),
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("changes", CHANGES[1:])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_row_attack_on_nearest_neighbours(changes, n_classes):
    rng = np.random.default_rng(20 + n_classes)
    found = 0
    for _ in range(130):
        k, n, farthest = int(rng.integers(1, 5)), int(rng.integers(0, 7)), int(rng.integers(1, 4))
        rows = tuple(
            sorted(
                (int(rng.integers(-farthest, farthest + 1)), int(rng.integers(n_classes)), bool(rng.random() < 0.75))
                for _ in range(n)
            )
        )
        additions = [(place, label, True) for place in range(-farthest, farthest + 1) for label in range(n_classes)]

        most = 2 if changes == "rows" and n_classes == 3 else MOST
        prediction = partial(winner_of_neighbours, k=k, n_classes=n_classes)
        truth = fewest(rows, additions, changes, prediction, most)
        nearest = nearest_of(rows)
        winner = np.array([prediction(rows)])
        np.testing.assert_array_equal(nearest.scores(k, n_classes)[0], votes_of_neighbours(rows, k, n_classes))
        needed = neighbor_changes_to_overturn(nearest, k, winner, n_classes, changes).min()
        assert (needed if needed <= most else None) == truth, (rows, k, needed, truth)
        found += truth is not None
    assert found > 40


@pytest.mark.few(1)
@pytest.mark.parametrize("changes", CHANGES[1:])
def test_a_few_nearest_rows_decide_small_numbers_of_changes(changes):
    rng = np.random.default_rng(3)
    decided = 0
    for _ in range(300):
        k, n = int(rng.integers(1, 8)), int(rng.integers(10, 40))
        rows = tuple((int(rng.integers(-15, 16)), int(rng.random() < 0.3), True) for _ in range(n))
        winner = np.array([np.argmax(votes_of_neighbours(rows, k, 2))])
        truth = neighbor_changes_to_overturn(nearest_of(rows), k, winner, 2, changes).min()
        few = nearest_of(rows, depth=int(rng.integers(k + 6, n + 8)))
        needed = neighbor_changes_to_overturn(few, k, winner, 2, changes).min()
        decides = few.decided_changes(k)[0]
        if needed <= decides:
            assert needed == truth
            decided += 1
        else:
            assert truth > decides
    assert decided > 100
