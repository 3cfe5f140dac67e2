"""The second program alone, on tiny files about numbers: every attack on the targets or rows is tried."""

from fractions import Fraction
from itertools import chain, combinations, combinations_with_replacement, product

import numpy as np
import pytest

from flipproof_verify import REFUTED, VERIFIED, verify
from verifier.proof_boxes import Box

#: Changes of rows that are tried.
MOST_ROW_CHANGES = 2


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2] if values else 0


def nearest(distances, targets, k):
    """The targets of the rows that vote: whole piles, up to the one with the k-th row."""
    voting = []
    for distance in sorted(set(distances)):
        if len(voting) < k:
            voting += [t for d, t in zip(distances, targets, strict=True) if d == distance]
    return voting


class NumberProblem:
    """A random file with one test row; `reached` has the numbers after each number of changes, as fractions."""

    def __init__(self, seed, kind):
        self.rng = rng = np.random.default_rng(seed)
        self.kind, self.steps = kind, int(rng.integers(1, 4))
        self.average = str(rng.choice({"targets": ["sum", "mean-of-votes", "median"]}.get(kind, ["mean-of-votes"])))
        if kind == "nearest":
            self.average = str(rng.choice(["mean-of-votes", "median"]))
        elif kind == "rows":
            self.average = str(rng.choice(["mean-of-rows", "mean-of-votes"]))
        self.n = int(rng.integers(0 if kind != "targets" else 1, 4))
        self.origin = 0 if self.average == "median" else int(rng.integers(0, self.steps + 1))
        signed = self.average in ("sum", "mean-of-rows")
        self.votes = rng.integers(-3 if signed else 0, 2 if self.average == "median" else 4, self.n)
        self.targets = rng.integers(0, self.steps + 1, self.n)
        self.changeable = rng.random(self.n) < rng.choice([0.6, 1.0])
        self.group, self.max_change, self.limit = None, None, None
        self.changes = "targets"
        {"targets": self._targets, "rows": self._rows, "nearest": self._nearest}[kind]()

    def _number(self, votes, targets):
        """The fraction that a file of these votes and targets makes; the origin is added by the caller."""
        if self.average == "median":
            return Fraction(int(lower_median([t for v, t in zip(votes, targets, strict=True) if v])))
        top = sum(int(v) * int(t - self.origin) for v, t in zip(votes, targets, strict=True))
        bottom = {"sum": 1, "mean-of-rows": len(votes)}.get(self.average, int(sum(votes)))
        return Fraction(top, max(int(bottom), 1))

    def _targets(self):
        if self.rng.random() < 0.4:
            self.group = self.rng.integers(0, self.n, self.n)
        if self.rng.random() < 0.4:
            self.max_change = int(self.rng.integers(0, 3))
        way = self.steps if self.max_change is None else self.max_change
        options = [
            [t for t in range(self.steps + 1) if t == old or (free and abs(t - old) <= way)]
            for old, free in zip(self.targets.tolist(), self.changeable, strict=True)
        ]
        owner = np.arange(self.n) if self.group is None else self.group
        self.reached = {}
        for new in product(*options):
            price = len({int(owner[j]) for j in range(self.n) if new[j] != self.targets[j]})
            self.reached.setdefault(price, set()).add(self._number(self.votes, new))
        self.n_touchable = len(set(owner[self.changeable].tolist()))

    def _attacks(self, options):
        """Yield the rows that are left, the rows that are added, and the number of changes."""
        self.changes = str(self.rng.choice(["rows", "insertions", "removals"]))
        free = np.flatnonzero(self.changeable).tolist()
        most = 0 if self.changes == "insertions" else min(len(free), MOST_ROW_CHANGES)
        self.n_touchable = len(free)
        for gone in chain(*(combinations(free, e) for e in range(most + 1))):
            for n_added in range(1 if self.changes == "removals" else MOST_ROW_CHANGES + 1):
                for added in combinations_with_replacement(options, n_added):
                    yield [j for j in range(self.n) if j not in gone], added, max(len(gone), n_added)

    def _rows(self):
        self.limit = int(np.abs(self.votes).max(initial=0) + self.rng.integers(0, 2))
        signs = (-1, 1) if self.average == "mean-of-rows" else (1,)
        added = [(s * self.limit, t) for s, t in product(signs, (0, self.steps))]
        if self.average == "mean-of-rows":  # a row with the largest term exists only if the range is even
            self.origin, self.steps = 1, 2
            self.targets = np.minimum(self.targets, 2)
            added = [(s * self.limit, t) for s, t in product(signs, (0, 2))]
        self.reached = {}
        for left, more, price in self._attacks(added):
            votes = [*self.votes[left].tolist(), *(vote for vote, _ in more)]
            targets = [*self.targets[left].tolist(), *(target for _, target in more)]
            self.reached.setdefault(price, set()).add(self._number(votes, targets))

    def _nearest(self):
        self.distance = np.sort(self.rng.integers(0, 3, self.n))
        self.k = int(self.rng.integers(1, 4))
        places = [0, 0.5, 1, 1.5, 2, 2.5]
        self.reached = {}
        for left, more, price in self._attacks(list(product(places, (0, self.steps)))):
            distances = [*self.distance[left].tolist(), *(place for place, _ in more)]
            targets = [*self.targets[left].tolist(), *(target for _, target in more)]
            voting = nearest(distances, targets, self.k)
            self.reached.setdefault(price, set()).add(self._number([1] * len(voting), voting))

    def up_to(self, n_changes):
        """The numbers after at most this many changes."""
        return set().union(*(found for price, found in self.reached.items() if price <= n_changes))

    def floats(self, fraction):
        """The number of a fraction, with a step of 1 and the low end 0."""
        return float(self.origin) + fraction.numerator / fraction.denominator

    @property
    def value(self):
        (found,) = self.reached[0]
        return found

    def box(self, low, high, flips, **radius):
        """Return a file that claims an interval, or a radius too."""
        low, high = (np.array([[one]], dtype=np.float64) for one in (low, high))
        unit = "annotators" if self.group is not None else "targets" if self.changes == "targets" else "rows"
        n_fixed, ends = int((~self.changeable).sum()), {"low": 0.0, "high": float(self.steps), "step": 1.0}
        if self.changes == "targets":
            stated = [("targets-only", {}), ("trusted-targets", {"n_trusted": n_fixed, "n_targets": self.n})]
        else:
            can_add = self.changes != "removals"
            stated = [
                ("target-rows-changed", {"changes": self.changes, "by_sources": False}),
                ("trusted-rows", {"n_trusted": n_fixed, "n_rows": self.n, "can_add": can_add}),
                ("reference-fixed", {"n_reference": 1}),
            ]
        stated.append(("target-range", ends))
        stated += [("target-annotators", {"n_annotators": self.n_touchable})] if unit == "annotators" else []
        stated += [("targets-moved", {"max_change": float(self.max_change)})] if self.max_change is not None else []
        limits = {"max_change": None if self.max_change is None else float(self.max_change)}
        about = {"average": self.average, **ends, "origin": self.origin, "factor": 1.0, **limits, "flips": flips}
        about |= {"tolerance": radius.get("tolerance"), "threshold": radius.get("threshold")}
        document = {
            "format": "flipproof-certificates",
            "version": 1,
            "producer": {"name": "a test", "version": "1"},
            "rule": "targets",
            "method": "exact",
            "changes": self.changes,
            "unit": unit,
            "n_test": 1,
            "n_rows": self.n,
            "n_train": self.n,
            "n_touchable": self.n_touchable,
            "assumptions": [{"code": code, "values": values} for code, values in stated],
            "digests": {},
            "blocks": [1],
            "targets": about,
        }
        tensors = {
            "train.target": self.targets.astype(np.float64),
            "train.changeable": self.changeable,
            "claim.prediction": np.array([self.floats(self.value)]),
            "claim.low": low,
            "claim.high": high,
        }
        if self.group is not None:
            tensors["train.group"] = self.group.astype(np.int32)
        if self.kind == "nearest":
            document |= {"votes": "nearest", "k": self.k}
            tensors["near.row.0"] = np.arange(self.n, dtype=np.int32)[None]
            tensors["near.ends_pile.0"] = np.append(np.diff(self.distance) > 0, np.ones(min(self.n, 1), bool))[None]
            tensors["test.is_hit"] = np.array([self.n > 0 and self.distance[0] == 0])
        else:
            document["votes"] = "dense"
            tensors["votes.dense.0"] = self.votes.astype(np.int16)[None]
            if self.average in ("sum", "mean-of-rows"):
                tensors["test.exponent"] = np.zeros(1, dtype=np.int64)
            if self.limit is not None:
                tensors["test.limit"] = np.array([self.limit], dtype=np.int64)
        if radius:
            tensors["claim.radius"] = np.array([radius["radius"]], dtype=np.int64)
            tensors["claim.unlimited"] = np.array([False])
        return Box(document, tensors)


CASES = [(kind, first) for kind in ("targets", "rows", "nearest") for first in range(0, 200, 20)]


@pytest.mark.few(3)
@pytest.mark.parametrize(("kind", "first"), CASES)
def test_intervals_and_radii_are_those_of_enumeration(kind, first, tmp_path):
    path, n_limited = tmp_path / "proof.flipproof", 0
    for seed in range(first, first + 20):
        problem = NumberProblem(seed, kind)

        def verdict(*claims, problem=problem, **radius):
            return verify(problem.box(*claims, **radius).write(path)).verdict

        for n_changes in range(3):
            found = problem.up_to(n_changes)
            low, high = problem.floats(min(found)), problem.floats(max(found))
            assert verdict(low, high, n_changes) == VERIFIED, (seed, n_changes)
            assert verdict(np.nextafter(low, 9e9), high, n_changes) == REFUTED, (seed, n_changes)
            assert verdict(low, np.nextafter(high, -9e9), [n_changes]) == REFUTED, (seed, n_changes)
        for tolerance in (0.0, 0.5, 1.0):
            breaks = [
                price for price in range(3) if any(abs(x - problem.value) > tolerance for x in problem.up_to(price))
            ]
            if breaks and breaks[0] - 1 < problem.n_touchable:
                n_limited += 1
                assert verdict(-9e9, 9e9, 0, tolerance=tolerance, radius=breaks[0] - 1) == VERIFIED, seed
                assert verdict(-9e9, 9e9, 0, tolerance=tolerance, radius=breaks[0]) == REFUTED, seed
        for threshold in (0.5, 1.0, 1.7):
            side = problem.floats(problem.value) >= threshold
            breaks = [r for r in range(3) if any((problem.floats(x) >= threshold) != side for x in problem.up_to(r))]
            if breaks and breaks[0] - 1 < problem.n_touchable:
                n_limited += 1
                assert verdict(-9e9, 9e9, 0, threshold=threshold, radius=breaks[0] - 1) == VERIFIED, seed
                assert verdict(-9e9, 9e9, 0, threshold=threshold, radius=breaks[0]) == REFUTED, seed
    assert n_limited >= 10
