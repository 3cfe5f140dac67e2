"""Majority first: costs of items, the knapsack, and annotators, against enumeration of every labelling."""

import itertools

import numpy as np
import pytest

from flipproof.core import majority, majority_radii
from flipproof.core.exact import UNREACHABLE, leads
from flipproof.core.majority import NEVER, ItemVotes, changes_needed, majority_powers, states_of
from flipproof.core.majority_radii import annotations_to_overturn, annotators_to_overturn
from flipproof.core.powers import Powers

ANYTHING = {k: ~np.eye(k, dtype=bool) for k in (2, 3, 4)}


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_costs_of_an_item(n_classes):
    """By formula and by enumeration, against all labellings of up to five annotations, some of them fixed."""
    rng = np.random.default_rng(n_classes)
    for n in range(1, 6 if n_classes < 4 else 5):
        for _ in range(6):
            codes, is_fixed = rng.integers(n_classes, size=n), rng.random(n) < 0.25
            transitions = ANYTHING[n_classes] & (rng.random((n_classes, n_classes)) < 0.7)
            free, fixed = (np.bincount(codes[mask], minlength=n_classes)[None] for mask in (~is_fixed, is_fixed))
            for table in (ANYTHING[n_classes], transitions):
                truth = np.full(n_classes + 1, NEVER)
                for labels in itertools.product(range(n_classes), repeat=n):
                    changed = np.array(labels) != codes
                    if (changed & is_fixed).any() or not all(table[codes[changed], np.array(labels)[changed]]):
                        continue
                    state = states_of(np.bincount(labels, minlength=n_classes)[None])[0]
                    truth[state] = min(truth[state], changed.sum())
                found, is_exact = changes_needed(free, fixed, table)
                assert is_exact
                np.testing.assert_array_equal(found[0], truth)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_costs_that_are_not_enumerated_are_a_bound(n_classes, monkeypatch):
    """Of too many kinds of items, all changes count as allowed: an item then never costs more than it does."""
    rng = np.random.default_rng(n_classes)
    free, fixed = (rng.integers(0, high, size=(8, n_classes)) for high in (4, 2))
    transitions = ANYTHING[n_classes] & (rng.random((n_classes, n_classes)) < 0.6)
    exact, is_exact = changes_needed(free, fixed, transitions)
    assert is_exact
    monkeypatch.setattr(majority, "MOST_KINDS", 0)
    bound, is_exact = changes_needed(free, fixed, transitions)
    assert not is_exact
    assert (bound <= exact).all()
    assert (bound < exact).any()


def problem(rng, n_classes, sizes, n_people):
    item = np.repeat(np.arange(len(sizes)), sizes)
    codes = rng.integers(n_classes, size=len(item))
    if rng.random() < 0.5:  # majorities that are clear
        codes = np.where(rng.random(len(item)) < 0.6, np.arange(len(sizes))[item] % n_classes, codes)
    person = rng.integers(n_people, size=len(item))
    return ItemVotes(item, codes, len(sizes), n_classes), person


def truth_of(votes, offsets, box, powers, person):
    """Fewest annotations and annotators that overturn each test row, by enumeration of all labellings."""
    n, n_classes = len(box.codes), box.n_classes
    choices = [
        [
            e
            for e in range(n_classes)
            if e == box.codes[i] or (powers.changeable[i] and powers.transitions[box.codes[i], e])
        ]
        for i in range(n)
    ]
    labellings = np.array(list(itertools.product(*choices)))
    scores = np.zeros((len(labellings), len(votes), n_classes), dtype=np.int64) + offsets
    for j in range(box.n_items):
        counts = np.stack([(labellings[:, box.item == j] == c).sum(axis=1) for c in range(n_classes)], axis=1)
        state = states_of(counts)
        for c in range(n_classes):
            scores[:, :, c] += np.where(state == c, 1, 0)[:, None] * votes[:, j]
    changed = labellings != box.codes
    people = np.zeros(len(labellings), dtype=np.int64)
    for who in np.unique(person):
        people += changed[:, person == who].any(axis=1)
    now = scores[np.flatnonzero(~changed.any(axis=1))[0]]
    winner = now.argmax(axis=1)
    overturned = scores.argmax(axis=2) != winner
    annotations = np.where(overturned, changed.sum(axis=1)[:, None], UNREACHABLE).min(axis=0)
    annotators = np.where(overturned, people[:, None], UNREACHABLE).min(axis=0)
    return now, annotations, annotators


def check_problem(seed, sizes, n_classes):
    rng = np.random.default_rng(seed)
    box, person = problem(rng, n_classes, sizes, int(rng.integers(2, 6)))
    n = len(box.codes)
    transitions = ANYTHING[n_classes]
    if seed % 3 == 0:
        transitions = transitions & (rng.random((n_classes, n_classes)) < 0.75)
    changeable = transitions.any(axis=1)[box.codes] & (rng.random(n) < (0.8 if seed % 2 else 1.1))
    votes = rng.integers(-3 if seed % 4 else 0, 8, size=(4, len(sizes)))
    offsets = rng.integers(-2, 3, size=(4, n_classes)) if seed % 5 == 0 else np.zeros((4, n_classes), dtype=np.int64)
    alone = majority_powers(Powers(changeable, transitions, None), box)
    scores, annotations, annotators = truth_of(votes, offsets, box, alone, person)
    winner = scores.argmax(axis=1)
    lead = leads(scores, winner)
    found, is_exact = annotations_to_overturn(votes, winner, lead, alone.kinds)
    assert is_exact
    np.testing.assert_array_equal(found.min(axis=1), annotations)
    groups = majority_powers(Powers(changeable, transitions, person), box)
    found, is_exact = annotators_to_overturn(votes, winner, lead, groups)
    if is_exact:
        np.testing.assert_array_equal(found.min(axis=1), annotators)
    assert (found.min(axis=1) <= annotators).all()
    return is_exact


SIZES = [(3, 3, 2), (1, 2, 3, 2), (5, 3), (4, 4), (1, 1, 1, 1, 1, 2), (2, 5, 1), (3, 3, 3)]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_radii_are_exact(n_classes):
    """Every labelling of up to nine annotations: with trusted ones, allowed changes, offsets and negative votes."""
    solved = [check_problem(seed, SIZES[seed % (7 if n_classes == 2 else 6)], n_classes) for seed in range(24)]
    assert all(solved)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_radii_are_exact_in_many_problems(part):
    """The same, more problems, with four classes and up to eleven annotations."""
    for seed in range(1000 + 100 * part, 1100 + 100 * part):
        check_problem(seed, SIZES[seed % 7], 3 if seed % 7 < 6 else 2)
    for seed in range(2000 + 20 * part, 2020 + 20 * part):
        check_problem(seed, [(3, 2), (5,), (4, 2), (3, 1, 2)][seed % 4], 4)
        check_problem(seed, [(5, 6), (3, 3, 3, 2), (7, 3)][seed % 3], 2)


def test_without_a_search_the_annotators_are_a_bound(monkeypatch):
    monkeypatch.setattr(majority_radii, "MOST_TRIED", -1)
    solved = [check_problem(seed, SIZES[seed % 6], 2 + seed % 2) for seed in range(12)]
    assert not all(solved)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_outcomes_that_were_computed_before_are_those_of_now(n_classes):
    """What sets of annotators can make of items: kept from other sets, and computed afresh."""
    rng = np.random.default_rng(n_classes)
    box, person = problem(rng, n_classes, rng.integers(1, 6, size=40), 8)
    transitions = ANYTHING[n_classes] & (rng.random((n_classes, n_classes)) < 0.8)
    for table in (ANYTHING[n_classes], transitions):
        powers = majority_powers(Powers(table.any(axis=1)[box.codes], table, person), box)
        kept, fresh = (majority_radii._Outcomes(powers) for _ in range(2))
        assert kept.is_kept
        fresh.is_kept = False
        for _ in range(30):
            chosen = np.flatnonzero(np.isin(person, rng.integers(8, size=3)) & powers.changeable)
            items = np.unique(box.item[chosen])
            free = np.zeros((40, n_classes), dtype=np.int64)
            np.add.at(free, (box.item[chosen], box.codes[chosen]), 1)
            one, other = (outcomes.kinds(items, free[items]) for outcomes in (kept, fresh))
            assert one.is_exact
            assert other.is_exact
            np.testing.assert_array_equal(one.state[one.kind], box.states[items])
            np.testing.assert_array_equal(one.state[one.kind], other.state[other.kind])
            np.testing.assert_array_equal(one.costs[one.kind], other.costs[other.kind])


def test_beyond_the_largest_cost_there_is_a_bound(monkeypatch):
    """The bound of a relaxation: never above the exact number, and below it by less than the largest cost."""
    rng = np.random.default_rng(0)
    box, _ = problem(rng, 3, rng.integers(1, 8, size=60), 9)
    votes = rng.integers(-20, 40, size=(20, 60))
    scores = np.stack([(votes * (box.states == c)).sum(axis=1) for c in range(3)], axis=1)
    winner = scores.argmax(axis=1)
    powers = majority_powers(Powers(np.ones(len(box.codes), dtype=bool), ANYTHING[3], None), box)
    exact, is_exact = annotations_to_overturn(votes, winner, leads(scores, winner), powers.kinds)
    assert is_exact
    monkeypatch.setattr(majority_radii, "LARGEST_COST", 0)
    bound, is_exact = annotations_to_overturn(votes, winner, leads(scores, winner), powers.kinds)
    assert not is_exact
    finite = exact != UNREACHABLE
    np.testing.assert_array_equal(finite, bound != UNREACHABLE)
    assert (bound[finite] <= exact[finite]).all()
    assert (bound[finite] > exact[finite] - 7).all()


def full_table(votes, winner, rival, lead, kinds):
    """The knapsack without any short cut: the largest gain for every number of changes."""
    up, down = kinds.options(winner, rival), kinds.options(rival, winner)
    best = np.zeros(2 * kinds.costs[kinds.costs < NEVER].sum() * len(votes) + 1, dtype=np.int64)
    best = best[: 8 * len(votes)]
    for vote, kind in zip(votes, kinds.kind, strict=True):
        options, new = (down if vote < 0 else up), best.copy()
        for cost, times in ((options.once[kind], 1), (options.twice[kind], 2)):
            if cost < len(best):
                np.maximum(new[cost:], best[: len(best) - cost] + times * abs(vote), out=new[cost:])
        best = new
    return int(np.argmax(best >= lead)) if (best >= lead).any() else UNREACHABLE


@pytest.mark.parametrize("seed", range(6))
def test_many_items_against_the_full_table(seed):
    """With many items of up to eight annotations, costs up to five: the short knapsack is the full one."""
    rng = np.random.default_rng(seed)
    n_items, n_classes = 70, 2 + seed % 3
    box, _ = problem(rng, n_classes, rng.integers(1, 9, size=n_items), 9)
    votes = np.rint(np.exp(rng.normal(size=(6, n_items)) * 2)).astype(np.int64) * rng.choice([1, 1, 1, -1], n_items)
    scores = np.stack([(votes * (box.states == c)).sum(axis=1) for c in range(n_classes)], axis=1)
    winner = scores.argmax(axis=1)
    changeable = rng.random(len(box.codes)) < (0.9 if seed % 2 else 2)
    powers = majority_powers(Powers(changeable, ANYTHING[n_classes], None), box)
    lead = leads(scores, winner)
    found, _ = annotations_to_overturn(votes, winner, lead, powers.kinds)
    for row in range(len(votes)):
        for rival in set(range(n_classes)) - {winner[row]}:
            assert found[row, rival] == full_table(votes[row], winner[row], rival, lead[row, rival], powers.kinds)
