"""Neighbours, partitions, samples and noise: tiny files made without flipproof, and what is true found another way.

Attacks on neighbours and partitions are tried one by one; bounds by samples and noise are computed in float64 from the
distributions themselves, and claims are moved a little to either side.
"""

from itertools import chain, combinations, combinations_with_replacement, product
from math import comb

import numpy as np
import pytest
from scipy import stats

from flipproof_verify import INCONCLUSIVE, REFUTED, VERIFIED, UnreadableFileError, verify
from verifier.proof_boxes import Box

#: Rows that are removed or added at most; nothing is known of larger radii.
MOST = 3


def box_of(rule, method, changes, n_classes, changeable, group=None, unit=None, **more):
    """Return a file with one test row, without its claims and votes."""
    n, n_fixed = len(changeable), int((~changeable).sum())
    free = np.flatnonzero(changeable)
    n_touchable = len(free) if group is None else len(set(group[free].tolist()))
    n_touchable = 0 if changes == "insertions" else n_touchable
    plain, grouped = ("labels", "annotators") if changes == "labels" else ("rows", "sources")
    unit = unit or (plain if group is None else grouped)
    scope = {"l2": "features-only", "divergence": "divergence-only"}.get(unit, "labels-only")
    if changes == "labels":
        stated = [(scope, {})] + [("trusted-labels", {"n_trusted": n_fixed, "n_labels": n})] * (n_fixed > 0)
    else:
        can_add = changes != "removals" and group is None
        stated = [
            ("rows-changed", {"changes": changes, "by_sources": group is not None}),
            ("reference-fixed", {"n_reference": 1}),
            ("trusted-rows", {"n_trusted": n_fixed, "n_rows": n, "can_add": can_add}),
        ]
    if group is not None:
        by = {"changes": changes} if unit == "sources" else {}
        stated.append((unit, {f"n_{unit}": n_touchable, **by}))
    document = {
        "format": "flipproof-certificates",
        "version": 1,
        "producer": {"name": "a test", "version": "1"},
        "rule": rule,
        "method": method,
        "changes": changes,
        "unit": unit,
        "n_test": 1,
        "n_rows": n,
        "n_train": n,
        "n_touchable": n_touchable,
        "classes": list(range(n_classes)),
        "assumptions": [{"code": code, "values": values} for code, values in stated],
        "has_adversary": changes != "labels" or n_fixed > 0 or group is not None,
        "digests": {},
        "blocks": [1],
        **more,
    }
    tensors = {
        "train.label": np.zeros(n, dtype=np.int32),
        "train.changeable": changeable,
        "transitions": ~np.eye(n_classes, dtype=bool),
        "claim.unlimited": np.array([False]),
        "claim.abstained": np.array([False]),
    }
    if group is not None:
        tensors["train.group"] = group.astype(np.int32)
    return Box(document, tensors)


def claim(box, scores, best, rival, radius, unlimited=False):
    box.tensors |= {
        "claim.prediction": np.array([best], dtype=np.int32),
        "claim.rival": np.array([rival], dtype=np.int32),
        "claim.radius": np.array([radius], dtype=float if box.document["unit"] in ("l2", "divergence") else np.int64),
        "claim.unlimited": np.array([unlimited]),
        "claim.margin": np.array([float(scores[best] - scores[rival])]),
    }
    return box


def first_of_largest(scores):
    return max(range(len(scores)), key=lambda one: (scores[one], -one))


def ahead(scores, best):
    return [one for one in range(len(scores)) if (scores[one], -one) > (scores[best], -best)]


def subsets(given, most):
    return chain(*(combinations(given, size) for size in range(most + 1)))


class Costs(dict):
    """The least number of changes for each class."""

    def note(self, classes, price):
        for one in classes:
            self[one] = min(price, self.get(one, price))

    @property
    def least(self):
        return min(self.values(), default=None)


def vote_of_nearest(rows, k, offset):
    """Rows vote up to the distance of the k-th, ties included."""
    scores = list(offset)
    if rows:
        cut = sorted(at for at, _ in rows)[min(k, len(rows)) - 1]
        for at, label in rows:
            scores[label] += at <= cut
    return scores


class Neighbors:
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.n_classes, n, self.k = int(rng.integers(2, 4)), int(rng.integers(0, 6)), int(rng.integers(1, 5))
        self.at, self.labels = rng.integers(0, 4, n).tolist(), rng.integers(0, self.n_classes, n).tolist()
        self.offset = rng.integers(-2, 3, self.n_classes) if rng.random() < 0.4 else np.zeros(self.n_classes, int)
        self.changeable = rng.random(n) < rng.choice([0.6, 1.0])
        self.changes = str(rng.choice(["rows", "insertions", "removals"]))
        has_sources = self.changes != "insertions" and n > 0 and rng.random() < 0.3
        self.group = rng.integers(0, n, n) if has_sources else None
        self.rows = list(zip(self.at, self.labels, strict=True))
        self.scores = vote_of_nearest(self.rows, self.k, self.offset)
        self.best = first_of_largest(self.scores)
        self.costs = Costs()
        free = np.flatnonzero(self.changeable).tolist()
        if self.group is None:
            self._attack(free, 0 if self.changes == "insertions" else MOST, 0 if self.changes == "removals" else MOST)
        else:
            for sources in subsets(sorted({int(self.group[j]) for j in free}), 2):
                own = [j for j in free if self.group[j] in sources]
                if len(own) <= MOST:
                    self._attack(own, MOST, 0 if self.changes == "removals" else None, len(sources))

    def _attack(self, free, most_gone, most_added, price=None):
        """Remove and add rows, at any distance that matters. No `most_added`: as many as were removed."""
        spots = sorted({0, 9, *self.at, *(at + 0.5 for at in self.at)})
        given = list(product(spots, range(self.n_classes)))
        for gone in subsets(free, min(most_gone, len(free))):
            left = [self.rows[j] for j in range(len(self.rows)) if j not in gone]
            for n_added in range((len(gone) if most_added is None else most_added) + 1):
                for added in combinations_with_replacement(given, n_added):
                    scores = vote_of_nearest([*left, *added], self.k, self.offset)
                    one_price = max(len(gone), n_added) if price is None else price
                    self.costs.note(ahead(scores, self.best), one_price)

    def depths(self):
        """Numbers of listed rows: all, and fewer, as long as a pile ends after the rows that vote."""
        n = len(self.at)
        for depth in {n, min(n, self.k + 1), min(n, self.k + 2)}:
            if not n or self.piles()[1][min(self.k, n) - 1 : depth].any():
                yield depth

    def piles(self):
        order = sorted(range(len(self.at)), key=lambda j: (self.at[j], j))
        at = [self.at[j] for j in order]
        return order, np.array([one != after for one, after in zip(at, [*at[1:], None], strict=False)], dtype=bool)

    def box(self, radius, rival, depth, unlimited=False):
        box = box_of("neighbors", "exact", self.changes, self.n_classes, self.changeable, self.group, k=self.k)
        order, ends = self.piles()
        box.tensors |= {
            "train.label": np.array(self.labels, dtype=np.int32),
            "near.row.0": np.array(order, dtype=np.int32)[None, :depth],
            "near.ends_pile.0": ends[None, :depth],
            "test.is_hit": np.array([0 in self.at]),
            "test.offset": self.offset.astype(np.int64)[None],
        }
        return claim(box, self.scores, self.best, rival, radius, unlimited)


def check_neighbors(seed, path):
    """Check all claims about one problem; return the verdicts."""
    problem, found = Neighbors(seed), []
    costs, least, n = problem.costs, problem.costs.least, len(problem.at)
    n_touchable = problem.box(0, 1 - min(problem.best, 1), n).document["n_touchable"]
    for depth in problem.depths():
        for rival in set(range(problem.n_classes)) - {problem.best}:
            for radius, unlimited in [*((r, False) for r in range(MOST + 1)), (n_touchable, True)]:
                verdict = verify(problem.box(radius, rival, depth, unlimited).write(path)).verdict
                found.append(verdict)
                is_true = least is None or (not unlimited and radius < least)
                # the radius is least for some class: the rival must be such a class, unless groups give only bounds
                is_rival = problem.group is not None or unlimited or least is None or costs.get(rival) == least
                if verdict == VERIFIED:
                    assert is_true, (seed, radius, rival, depth, unlimited, costs)
                    assert is_rival, (seed, radius, rival, depth, unlimited, costs)
                elif verdict == REFUTED and problem.group is None and not unlimited and least is not None:
                    assert not (is_true and is_rival), (seed, radius, rival, depth, costs)
                if depth == n:
                    assert verdict != INCONCLUSIVE, seed
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_neighbors(first, tmp_path):
    found = [one for seed in range(first, first + 20) for one in check_neighbors(seed, tmp_path / "proof.flipproof")]
    assert min(found.count(VERIFIED), found.count(REFUTED)) > 30


def test_rivals_beyond_the_list_are_not_compared(tmp_path):
    """Class 2 wins with two removals; whether class 1 does with fewer depends on rows that are not listed."""
    problem = Neighbors(46)
    assert (problem.changes, problem.costs) == ("removals", {2: 2})
    result = verify(problem.box(0, 1, 2).write(tmp_path / "proof.flipproof"))
    assert result.reasons == {0: (INCONCLUSIVE, "depth")}


def test_one_fixed_row_more_than_stated_is_refused(tmp_path):
    for seed in range(8):
        problem = Neighbors(seed)
        n_fixed = int((~problem.changeable).sum())
        if n_fixed:
            box = problem.box(0, 1 - min(problem.best, 1), len(problem.at))
            box.document["assumptions"][2]["values"]["n_trusted"] = n_fixed - 1
            with pytest.raises(UnreadableFileError):
                verify(box.write(tmp_path / "proof.flipproof"))


class Partitions:
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.n_classes, self.n_parts, n = int(rng.integers(2, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 6))
        self.part = rng.integers(0, self.n_parts, n)
        self.changeable = rng.random(n) < rng.choice([0.6, 1.0])
        has_rows = np.isin(np.arange(self.n_parts), self.part)
        self.votes = np.where(has_rows, rng.integers(0, self.n_classes, self.n_parts), self.n_classes)
        self.offset = rng.integers(-1, 2, self.n_classes)
        self.changes = str(rng.choice(["labels", "rows", "insertions", "removals"]))
        self.group = rng.integers(0, n, n) if self.changes != "insertions" and rng.random() < 0.4 else None
        self.scores = self._scores(self.votes)
        self.best = first_of_largest(self.scores)
        self.costs = Costs()
        free = np.flatnonzero(self.changeable).tolist()
        if self.group is None:
            most_own = 0 if self.changes == "insertions" else len(free)
            can_add = self.changes in ("rows", "insertions")
            for own, anywhere in product(subsets(free, most_own), subsets(range(self.n_parts), self.n_parts * can_add)):
                self._turn(own, anywhere, max(len(own), len(anywhere)))
        else:
            for groups in subsets(sorted({int(self.group[j]) for j in free}), n):
                own = [j for j in free if self.group[j] in groups]
                most = min(len(own), self.n_parts) if self.changes == "rows" else 0
                for anywhere in subsets(range(self.n_parts), most):
                    self._turn(own, anywhere, len(groups))

    def _scores(self, votes):
        return (self.offset + np.bincount(votes, minlength=self.n_classes + 1)[: self.n_classes]).tolist()

    def _turn(self, rows, anywhere, price):
        """Partitions with a changed or added row vote for any class, or for none."""
        turned = sorted({*(int(self.part[j]) for j in rows), *anywhere})
        for new in product(range(self.n_classes + 1), repeat=len(turned)):
            votes = self.votes.copy()
            votes[turned] = new
            self.costs.note(ahead(self._scores(votes), self.best), price)

    def box(self, radius, unlimited=False):
        box = box_of("partitions", "gap", self.changes, self.n_classes, self.changeable, self.group)
        box.document["n_partitions"] = self.n_parts
        box.tensors |= {
            "train.partition": self.part.astype(np.int32),
            "votes.partition": self.votes.astype(np.int16)[None],
            "test.offset": self.offset.astype(np.int64)[None],
        }
        return claim(box, self.scores, self.best, (self.best + 1) % self.n_classes, radius, unlimited)


@pytest.mark.few(2)
@pytest.mark.parametrize("first", range(0, 600, 60))
def test_partitions(first, tmp_path):
    found, path = [], tmp_path / "proof.flipproof"
    for seed in range(first, first + 60):
        problem = Partitions(seed)
        least, n_touchable = problem.costs.least, problem.box(0).document["n_touchable"]
        for radius in range(5):
            verdict = verify(problem.box(radius).write(path)).verdict
            found.append(verdict)
            can_add = problem.changes in ("rows", "insertions") and problem.group is None
            is_true = (least is None or radius < least) and (can_add or radius <= n_touchable)
            if problem.group is None:
                assert verdict == (VERIFIED if is_true else REFUTED), (seed, radius)
            else:  # groups give lower bounds
                assert verdict == REFUTED or is_true, (seed, radius)
        verdict = verify(problem.box(n_touchable, True).write(path)).verdict
        assert verdict == REFUTED or least is None, seed
    assert min(found.count(VERIFIED), found.count(REFUTED)) > 30


def most_probable(share, q, n_classes, r):
    """Return the most probable that an event of probability `share` can become by r changed labels.

    By Neyman and Pearson: all outcomes of r noisy labels, in the order of their likelihood ratio.
    """
    other = q / (n_classes - 1)
    old_label, new_label, neither = (1 - q, other), (other, 1 - q), (q - other, q - other)
    cells = []
    for i in range(r + 1):  # labels that are as before
        for j in range(r + 1 - i):  # labels that are as changed
            number = comb(r, i) * comb(r - i, j)
            old, new = (number * x[0] ** i * x[1] ** j * (q - other) ** (r - i - j) for x in (old_label, new_label))
            cells.append((j - i, old, new))
    assert neither[0] >= 0
    total = 0.0
    for _, old, new in sorted(cells, reverse=True):
        if old >= share:
            return total + (new * share / old if old else 0.0)
        share, total = share - old, total + new
    return total


class Samples:
    """Votes of models fitted to noisy data; bounds and radii in float64, by scipy."""

    def __init__(self, seed, method, unit="labels"):
        rng = np.random.default_rng(seed)
        self.method, self.unit = method, unit
        self.n_classes = int(rng.integers(2, 5))
        self.level = float(rng.choice([0.1, 0.3, 0.45])) if unit == "labels" else float(rng.choice([0.25, 1.0]))
        self.alpha = 2.0**-6
        n_votes = int(rng.choice([100, 1000]))
        share = rng.dirichlet([3 * self.n_classes, *([0.5] * (self.n_classes - 1))])
        self.votes = rng.multinomial(n_votes, share)
        self.best = int(np.argmax(self.votes))
        others = np.where(np.arange(self.n_classes) == self.best, -1, self.votes)
        self.rival = int(np.argmax(others))
        self.split = bool(rng.random() < 0.5)
        n_failing, n_rival = n_votes - self.votes[self.best], self.votes[self.rival]
        parts = 2 if self.split else 1
        self.log_failure = float(np.log(self.upper(n_failing, n_votes, self.alpha / parts)))
        level = self.alpha / (2 * (self.n_classes - 1))
        self.log_rival = float(np.log(self.upper(n_rival, n_votes, level))) if self.split else self.log_failure
        self.is_decided = np.exp(self.log_failure) + np.exp(min(self.log_rival, self.log_failure)) < 0.999

    @staticmethod
    def upper(count, n, level):
        """The one-sided bound of Clopper and Pearson."""
        return stats.beta.ppf(1 - level, count + 1, n - count) if count < n else 1.0

    def radius(self):
        """Return the largest radius; a whole number for labels."""
        failure, rival = np.exp(self.log_failure), np.exp(min(self.log_rival, self.log_failure))
        one_sided = -np.log(4 * failure * (1 - failure)) / 2 if failure < 0.5 else 0.0
        budget = max(one_sided, -np.log(1 - (np.sqrt(1 - failure) - np.sqrt(rival)) ** 2))
        if self.method == "gaussian":
            of_failure, of_rival = -stats.norm.ppf(failure), -stats.norm.ppf(rival)
            return self.level * max(of_failure, (of_failure + of_rival) / 2)
        if self.unit == "divergence":
            return budget
        if self.unit == "l2":
            return self.level * np.sqrt(2 * budget)
        if self.method == "kl":
            signal = 1 - self.level * self.n_classes / (self.n_classes - 1)
            per_label = signal * np.log((1 - self.level) * (self.n_classes - 1) / self.level)
            return int(budget / per_label)
        r, given = 0, (self.level, self.n_classes)
        while r < 60 and most_probable(failure, *given, r + 1) + most_probable(rival, *given, r + 1) < 1:
            r += 1
        return r

    def box(self, radius=0, **claims):
        box = box_of("samples", self.method, "labels", self.n_classes, np.ones(80, dtype=bool), unit=self.unit)
        level = None if self.unit == "divergence" else self.level
        over = {"alpha": self.alpha, "level": level, "confidence": 1 - self.alpha, "confidence_over": "prediction"}
        box.document["sampling"] = over
        stated = {"confidence": 1 - self.alpha, "over": "prediction"}
        box.document["assumptions"] += [
            {"code": "smoothed-decision", "values": {}},
            {"code": "confidence", "values": stated},
        ]
        claimed = {"log_failure": self.log_failure, "log_rival": self.log_rival, **claims}
        box.tensors |= {
            "votes.selection": self.votes.astype(np.int64)[None],
            "votes.estimation": self.votes.astype(np.int64)[None],
            "proof.split": np.array([self.split]),
            **{f"claim.{name}": np.array([value * (1 - 1e-9)]) for name, value in claimed.items()},
        }
        claim(box, self.votes, self.best, self.rival, radius)
        box.tensors["claim.margin"] /= self.votes.sum()
        return box


KINDS = [("tight", "labels"), ("kl", "labels"), ("kl", "l2"), ("gaussian", "l2"), ("kl", "divergence")]


@pytest.mark.parametrize(("method", "unit"), KINDS)
def test_samples(method, unit, tmp_path):
    path, n_decided, n_split, n_positive = tmp_path / "proof.flipproof", 0, 0, 0
    for seed in range(24):
        problem = Samples(seed, method, unit)
        if not problem.is_decided:
            continue
        n_decided += 1

        def verdict(radius=0, problem=problem, **claims):
            result = verify(problem.box(radius, **claims).write(path))
            return result.verdict, {reason for _, reason in result.reasons.values()}

        radius = problem.radius()
        n_positive += radius > 0
        if unit == "labels":
            assert verdict(radius) == (VERIFIED, set()), seed
            assert verdict(radius + 1) == (REFUTED, {"radius"}), seed
        else:
            assert verdict(radius * (1 - 1e-6)) == (VERIFIED, set()), seed
            assert verdict(radius * (1 + 1e-6)) == (REFUTED, {"radius"}), seed
        wrong = problem.log_failure * (1 + 1e-6)
        assert verdict(log_failure=wrong, log_rival=problem.log_rival) == (REFUTED, {"log_failure"}), seed
        if problem.split and problem.log_rival < problem.log_failure:
            n_split += 1
            assert verdict(log_rival=problem.log_rival * (1 + 1e-6)) == (REFUTED, {"log_failure"}), seed
    assert n_decided >= 12
    assert n_split >= 3
    assert n_positive >= 3


def test_the_cap_binds_where_noise_is_low_and_radii_are_large(tmp_path):
    """With q = 1e-4, `r KL1 < -L` is the stricter condition from r = 7,014 on; at r = 8,000 by 0.7 of 73,667."""
    n, r, q = 20_000, 8_000, 1e-4
    cap = -r * (1 - 2 * q) * np.log((1 - q) / q)
    for log_failure, expected in ((cap + 0.35, {"radius"}), (cap - 0.01, set())):
        box = box_of("votes", "tight", "labels", 2, np.ones(n, dtype=bool), votes="dense")
        box.tensors |= {
            "votes.dense.0": np.ones((1, n), dtype=np.int16),
            "test.offset": np.zeros((1, 2), dtype=np.int64),
            "test.exponent": np.zeros(1, dtype=np.int64),
            "proof.q": np.array([q]),
            "proof.witness": np.full((1, 2), np.log((1 - q) / q) / 2),
            "claim.log_failure": np.array([log_failure]),
        }
        result = verify(claim(box, [n, 0], 0, 1, r).write(tmp_path / "proof.flipproof"))
        assert {reason for _, reason in result.reasons.values()} == expected
