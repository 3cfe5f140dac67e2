"""The second program alone, on tiny files made without flipproof: every attack is tried, and decides what is true."""

from itertools import chain, combinations, combinations_with_replacement, product

import numpy as np
import pytest

from flipproof_verify import REFUTED, VERIFIED, verify
from verifier.proof_boxes import Box

#: Changes of rows that are tried; nothing is known of larger radii.
MOST_ROW_CHANGES = 3


def winner_of(votes, labels, offset):
    """The rule of the format: sums of votes by label, ties to the lowest code. Labels beyond the last do not vote."""
    scores = np.array(offset)
    for vote, label in zip(votes, labels, strict=True):
        if label < len(scores):
            scores[label] += vote
    return scores, int(np.argmax(scores))


def new_labels(labels, changeable, transitions):
    """All labels that an adversary can give, and which are changed."""
    options = [
        [old, *np.flatnonzero(transitions[old])] if can else [old] for old, can in zip(labels, changeable, strict=True)
    ]
    for new in product(*options):
        yield new, [j for j, (a, b) in enumerate(zip(labels, new, strict=True)) if a != b]


def fewest_windows(stamps, ends):
    count, covered = 0, 0
    for stamp in sorted(set(stamps)):
        if stamp >= covered:
            count, covered = count + 1, ends[stamp]
    return count


def majorities(item, labels, n_items, n_classes):
    counts = np.zeros((n_items, n_classes), dtype=int)
    np.add.at(counts, (item, np.array(labels, dtype=int)), 1)
    best = counts.max(axis=1)
    clear = (counts == best[:, None]).sum(axis=1) == 1
    return np.where(clear & (best > 0), counts.argmax(axis=1), n_classes).tolist()


class Problem:
    """A random file with one test row; `costs` is the least number of changes for each class, None if unknown."""

    def __init__(self, seed, kind):
        self.rng, self.kind = np.random.default_rng(seed), kind
        rng = self.rng
        self.n_classes = int(rng.integers(2, 4))
        self.n = int(rng.integers(1, 5 if kind == "labels" else 4))
        self.votes = rng.integers(-3, 4, self.n)
        self.labels = rng.integers(0, self.n_classes, self.n)
        self.offset = rng.integers(-2, 3, self.n_classes)
        self.changeable = rng.random(self.n) < rng.choice([0.6, 1.0])
        self.transitions = ~np.eye(self.n_classes, dtype=bool)
        self.group = self.ends = self.item = self.limit = None
        self.more = {}
        {"labels": self._labels, "rows": self._rows, "majority": self._majority}[kind]()

    def _restrict(self):
        if self.rng.random() < 0.3:
            self.transitions &= self.rng.random(self.transitions.shape) < 0.6
        unit = self.rng.choice(
            ["labels", "annotators", "windows"] if self.kind == "labels" else ["labels", "annotators"]
        )
        if unit != "labels":
            self.group = self.rng.integers(0, len(self.labels), len(self.labels))
        if unit == "windows":
            self.times = np.cumsum(self.rng.integers(3, 12, len(self.labels)))
            self.ends = np.searchsorted(self.times, self.times + 10, side="right")
        self.unit, self.changes = str(unit), "labels"

    def _price(self, changed):
        if self.ends is not None:
            return fewest_windows([int(self.group[j]) for j in changed], self.ends)
        return len(changed) if self.group is None else len({int(self.group[j]) for j in changed})

    def _labels(self):
        self._restrict()
        self.scores, self.best = winner_of(self.votes, self.labels, self.offset)
        self.costs = {}
        for new, changed in new_labels(self.labels, self.changeable, self.transitions):
            self._found(winner_of(self.votes, new, self.offset)[0], self._price(changed))
        free = [j for j in range(self.n) if self.changeable[j]]
        self.n_touchable = self._price(free)

    def _majority(self):
        n_items, self.n = self.n, int(self.rng.integers(1, 6))
        self.item = self.rng.integers(0, n_items, self.n)
        self.labels = self.rng.integers(0, self.n_classes, self.n)
        self.changeable = self.rng.random(self.n) < self.rng.choice([0.6, 1.0])
        self._restrict()

        def predicted(labels):
            return winner_of(self.votes, majorities(self.item, labels, n_items, self.n_classes), self.offset)

        self.scores, self.best = predicted(self.labels)
        self.costs = {}
        for new, changed in new_labels(self.labels, self.changeable, self.transitions):
            self._found(predicted(new)[0], self._price(changed))
        self.n_touchable = self._price([j for j in range(self.n) if self.changeable[j]])
        states = majorities(self.item, self.labels, n_items, self.n_classes)
        named = len(set(self.item.tolist()))
        n_tied = sum(states[i] == self.n_classes for i in set(self.item.tolist()))
        self.more = {"n_items": n_items}
        self.stated = {"code": "majority-first", "values": {"n_labels": self.n, "n_labelled": named, "n_tied": n_tied}}

    def _rows(self):
        self.changes, self.unit = str(self.rng.choice(["rows", "insertions", "removals"])), "rows"
        self.limit = int(np.abs(self.votes).max(initial=0) + self.rng.integers(0, 2))
        self.scores, self.best = winner_of(self.votes, self.labels, self.offset)
        free = [j for j in range(self.n) if self.changeable[j]]
        self.n_touchable = 0 if self.changes == "insertions" else len(free)
        self.costs = {}
        given = list(product(range(self.n_classes), {-self.limit, self.limit}))
        most = 0 if self.changes == "insertions" else len(free)
        for gone in chain(*(combinations(free, e) for e in range(min(most, MOST_ROW_CHANGES) + 1))):
            for n_added in range(1 if self.changes == "removals" else MOST_ROW_CHANGES + 1):
                for added in combinations_with_replacement(given, n_added):
                    left = [j for j in range(self.n) if j not in gone]
                    votes = [int(self.votes[j]) for j in left] + [vote for _, vote in added]
                    labels = [int(self.labels[j]) for j in left] + [label for label, _ in added]
                    self._found(winner_of(votes, labels, self.offset)[0], max(len(gone), n_added))

    def _found(self, scores, price):
        """Note which classes are ahead of the prediction; ties go to the lowest code."""
        for one in range(self.n_classes):
            if (scores[one], -one) > (scores[self.best], -self.best):
                self.costs[one] = min(price, self.costs.get(one, price))

    def box(self, radius, rival, unlimited=False):
        """Return a file that claims a radius and a rival class."""
        n_fixed, trusted = (
            int((~self.changeable).sum()),
            "trusted-labels" if self.changes == "labels" else "trusted-rows",
        )
        scope = "labels-only" if self.changes == "labels" else "rows-changed"
        stated = [
            {"code": scope, "values": {}},
            {"code": trusted, "values": {"n_trusted": n_fixed, "n_labels": self.n}},
        ]
        if self.changes != "labels":
            stated[0]["values"] = {"changes": self.changes, "by_sources": False}
            can_add = self.changes != "removals"
            stated[1]["values"] = {"n_trusted": n_fixed, "n_rows": self.n, "can_add": can_add}
            stated.append({"code": "reference-fixed", "values": {"n_reference": 1}})
        pairs = np.argwhere(self.transitions).tolist()
        if len(pairs) < self.n_classes * (self.n_classes - 1):
            stated.append({"code": "changes-allowed", "values": {"changes": pairs, "n_changes": len(pairs)}})
        if self.unit in ("annotators", "windows"):
            stated.append({"code": self.unit, "values": {f"n_{self.unit}": self.n_touchable}})
        if self.unit == "windows":
            stated[-1]["values"]["length"] = "10"
            self.more = {"tick": None}
        if self.kind == "majority":
            stated.append(self.stated)
        document = {
            "format": "flipproof-certificates",
            "version": 1,
            "producer": {"name": "a test", "version": "1"},
            "rule": "majority" if self.kind == "majority" else "votes",
            "method": "exact",
            "changes": self.changes,
            "unit": self.unit,
            "n_test": 1,
            "n_rows": self.n,
            "n_train": self.n,
            "n_touchable": self.n_touchable,
            "classes": list(range(self.n_classes)),
            "assumptions": stated,
            "has_adversary": True,
            "digests": {},
            "votes": "dense",
            "blocks": [1],
            **self.more,
        }
        tensors = {
            "train.label": self.labels.astype(np.int32),
            "train.changeable": self.changeable,
            "transitions": self.transitions,
            "votes.dense.0": self.votes.astype(np.int16)[None, :],
            "test.offset": self.offset.astype(np.int64)[None, :],
            "test.exponent": np.zeros(1, dtype=np.int64),
            "claim.prediction": np.array([self.best], dtype=np.int32),
            "claim.rival": np.array([rival], dtype=np.int32),
            "claim.radius": np.array([radius], dtype=np.int64),
            "claim.unlimited": np.array([unlimited]),
            "claim.abstained": np.array([False]),
            "claim.margin": np.array([float(self.scores[self.best] - self.scores[rival])]),
        }
        optional = {"train.group": self.group, "window.end": self.ends, "train.item": self.item}
        tensors |= {name: array.astype(np.int32) for name, array in optional.items() if array is not None}
        if self.ends is not None:
            tensors["window.time"] = self.times
        if self.limit is not None:
            tensors["test.limit"] = np.array([self.limit], dtype=np.int64)
        return Box(document, tensors)


CASES = [(kind, first) for kind in ("labels", "rows", "majority") for first in range(0, 400, 20)]


@pytest.mark.few(3)
@pytest.mark.parametrize(("kind", "first"), CASES)
def test_what_is_verified_is_what_enumeration_finds(kind, first, tmp_path):
    path, n_limited = tmp_path / "proof.flipproof", 0
    for seed in range(first, first + 20):
        problem = Problem(seed, kind)
        rivals = [one for one in range(problem.n_classes) if one != problem.best]
        n_all = problem.n_touchable
        if not problem.costs:  # no attack was found
            if kind != "rows":
                assert verify(problem.box(n_all, rivals[0], True).write(path)).verdict == VERIFIED, seed
            continue
        n_limited += 1
        least = min(problem.costs.values())
        assert verify(problem.box(n_all, rivals[0], True).write(path)).verdict == REFUTED, seed
        for rival in rivals:
            is_least = problem.costs.get(rival, least + 1) == least
            verdict = verify(problem.box(least - 1, rival).write(path)).verdict
            # of majorities, only the radius and the margin are claims
            assert verdict == (VERIFIED if is_least or kind == "majority" else REFUTED), (seed, rival)
            assert verify(problem.box(least, rival).write(path)).verdict == REFUTED, (seed, rival)
        wrong = problem.box(0, problem.best if problem.n_classes == 2 else rivals[0])
        wrong.tensors["claim.prediction"][0] = next(one for one in rivals if one != wrong.tensors["claim.rival"][0])
        assert verify(wrong.write(path)).verdict == REFUTED, seed
    assert n_limited >= 4
