"""Hard problems with a reference, and a judge that adds, removes and replaces training rows.

``PYTHONPATH=src:tests python -m fuzz.rows --minutes 10`` judges fresh problems. Every finding is a script.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import inspect
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np

from fuzz import own
from fuzz.judge import NAMES
from fuzz.problems import HEADER, _rows
from fuzz.script import literal

LEARNERS = ("ridge", "kernel", "forest", "cluster", "own", "neighbors", "partition")

#: Refits of random attacks on each problem.
N_ATTACKS = 12

#: Attacks with more changes are not tried.
MOST_CHANGES = 300

#: What errors say about added rows that a fit refuses: a base learner cannot be fitted to them, or the type of the
#: reference cannot represent their numbers.
REFUSED_ROWS = ("could not be fitted to partition", "this type cannot represent")


@dataclass(frozen=True)
class RowProblem:
    """A learner, its training rows, a reference, test rows, and an adversary who changes rows."""

    seed: int
    learner: str
    code: str
    X: np.ndarray
    y: tuple[int, ...]
    reference: np.ndarray
    Z: np.ndarray
    changes: str
    trusted: tuple[bool, ...] | None
    groups: tuple[int, ...] | None

    @property
    def adversary_source(self):
        given = [f"changes={self.changes!r}"]
        given += [f"trusted=np.array({list(self.trusted)}, dtype=bool)"] if self.trusted is not None else []
        given += [f"groups={list(self.groups)}"] if self.groups is not None else []
        return f"Adversary({', '.join(given)})"

    def script(self, kind, what, lines):
        classes = [one for name, one in vars(own).items() if isinstance(one, type) and f"{name}(" in self.code]
        parts = [
            f'r"""{kind}\n\n{what}\n\nLearner {self.learner}, seed {self.seed}.\n"""',
            HEADER,
            *(inspect.getsource(one) for one in classes if one.__module__ == own.__name__),
            'warnings.simplefilter("ignore")',
            *(f"{name} = {literal(getattr(self, name))}" for name in ("X", "reference", "Z")),
            f"y = np.array({list(self.y)}, dtype=int)",
            f"adversary = {self.adversary_source}",
            f"model = {self.code}.fit(X, y, reference=reference)",
            *lines,
        ]
        return "\n".join(parts) + "\n"


def row_problem_of(seed):
    """Return the problem that belongs to an integer."""
    rng = np.random.default_rng([seed, 18])
    learner = LEARNERS[seed % len(LEARNERS)]
    n, r, m, n_classes = (
        int(rng.choice(some)) for some in ([0, 1, 2, 3, 5, 8, 20], [2, 3, 6, 20], [1, 2, 4], [2, 3, 5])
    )
    both, Z = _rows(rng, n + r, m, mild=learner == "partition")
    reference, X = both[:r], both[r:]
    if rng.random() < 0.3 and n:  # rows of the reference among the training rows
        X = np.where(rng.random((n, 1)) < 0.5, reference[rng.integers(r, size=n)], X)
    if rng.random() < 0.15:  # another scale than that of the reference
        with np.errstate(all="ignore"):
            X = np.nan_to_num(X * 10.0 ** rng.integers(-150, 150)).astype(np.float64)
    if rng.random() < 0.2:
        with np.errstate(all="ignore"):
            X = np.nan_to_num(X.astype(rng.choice(["f4", "f8"])))
    y = rng.integers(n_classes, size=n)
    if rng.random() < 0.6 and n:
        y = np.sort(y)[np.argsort(np.argsort(X[:, 0], kind="stable"), kind="stable")]
    changes = str(rng.choice(["rows", "insertions", "removals"]))
    trusted = tuple((rng.random(n) < 0.3).tolist()) if rng.random() < 0.4 else None
    groups = tuple(rng.integers(4, size=n).tolist()) if changes != "insertions" and rng.random() < 0.3 else None
    code = _code(rng, learner, n_classes, r)
    return RowProblem(seed, learner, code, X, tuple(y.tolist()), reference, Z, changes, trusted, groups)


def _code(rng, learner, n_classes, r):
    given = {"classes": f"range({n_classes})"}
    if learner not in ("partition", "cluster") and rng.random() < 0.6:
        given["precision"] = str(rng.choice([2, 3, 5, 10, 16, 24]))
    if learner in ("ridge", "kernel", "forest", "own") and rng.random() < 0.6:
        given["clip"] = str(rng.choice(["0.1", "0.5", "0.9", "1.0", "'sign'"]))
    if learner in ("ridge", "kernel") and rng.random() < 0.5:
        given["regularization"] = str(rng.choice(["0", "1e-300", "1.0", "1e6", "1e300"]))
    if learner in ("ridge", "kernel") and (n_classes > 2 or learner == "kernel") and rng.random() < 0.3:
        given["fit_intercept"] = "False"
    if learner in ("ridge", "forest", "own") and rng.random() < 0.1:
        given["features"] = str(rng.choice(["StandardScaler()", "PCA(1)"]))
    first = []
    if learner == "kernel":
        first = [repr(str(rng.choice(["rbf", "laplacian", "poly", "linear", "cosine"])))]
        given |= {"n_components": str(rng.integers(1, r + 1))} if rng.random() < 0.6 else {}
    elif learner == "forest":
        first, given["min_samples_leaf"] = [str(rng.integers(1, 6))], str(rng.choice(["1", "2", "0.3"]))
    elif learner == "cluster":
        first = [str(rng.choice(["None", "KMeans(2, n_init=1)"]))]
    elif learner == "neighbors":
        first = [str(rng.integers(1, 5))]
    elif learner == "partition":
        first = [str(rng.choice(["DecisionTreeClassifier()", "GaussianNB()"])), str(rng.integers(1, 8))]
    name = "DistanceVotes" if learner == "own" else f"Certified{learner.capitalize()}Classifier"
    return f"{name}({', '.join([*first, *(f'{key}={value}' for key, value in given.items())])})"


class RowJudge:
    """One problem on trial: refits after attacks, through public names."""

    def __init__(self, problem):
        self.problem, self.findings, self.n_refits, self.refused = problem, [], 0, ""
        self.rng = np.random.default_rng(problem.seed)
        self.names = {**NAMES, "X": problem.X, "Z": problem.Z, "reference": problem.reference}

    def found(self, kind, what, *lines):
        self.findings.append((kind, what, self.problem.script(kind, what, lines)))

    def fitted(self, X, y):
        self.n_refits += 1
        return eval(self.problem.code, self.names).fit(X, y, reference=self.problem.reference)

    def run(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.judge()
            except Exception as error:
                if any(one in str(error) for one in REFUSED_ROWS):  # then there is no prediction that could be wrong
                    self.refused = str(error)[:60]
                    return self
                self.found(
                    "exception",
                    f"{type(error).__name__}: {error}",
                    "print(model.certify(Z, adversary=adversary))",
                    "print(worst_rows(model, Z, adversary, reference=reference))",
                )
        return self

    def judge(self):
        p = self.problem
        self.y = np.array(p.y, dtype=int)
        try:
            self.model = self.fitted(p.X, self.y)
            self.predicted = self.model.predict(p.Z)
            adversary = eval(p.adversary_source, self.names)
            certificates = self.model.certify(p.Z, adversary=adversary)
        except (ValueError, TypeError) as error:
            self.refused = str(error)[:60]
            return
        if not np.array_equal(certificates.prediction, self.predicted):
            self.found(
                "prediction",
                "certify and predict differ",
                "found = model.certify(Z, adversary=adversary)",
                "assert found.prediction.tolist() == model.predict(Z).tolist()",
            )
        self.candidates = self.rows_to_add()
        self.separate = getattr(self.model, "rows_vote_separately", False) and hasattr(self.model, "vote_weights")
        self.check_join_and_leave()
        if self.separate:
            self.check_votes()
        for row in range(len(p.Z)):
            self.check_radius(certificates, adversary, row)
        if self.separate:
            self.check_worst_rows(certificates, adversary)

    def rows_to_add(self):
        p, k = self.problem, self.problem.Z.shape[1]
        size = float(np.abs(p.reference).max()) or 1.0
        with np.errstate(all="ignore"):
            far = np.vstack(
                [self.rng.choice([-1.0, 1.0], size=(3, k)) * 10.0 ** int(power) for power in (-320, -150, 0, 150, 300)]
            )
            rows = np.vstack([p.Z, p.reference[:3], p.X[:3], -p.Z, far, size * 100 * far[6:9], np.zeros((1, k))])
        rows = rows.astype(np.float64)
        rows = rows[np.isfinite(rows).all(axis=1)]
        if "features" in p.code:
            rows = rows[np.abs(rows).max(axis=1) < 1e100]
        if p.reference.dtype == np.float32:
            rows = rows[np.abs(rows).max(axis=1) < 3e38]
        return rows

    def check_join_and_leave(self):
        """Rows that join and leave the vote give the model of a fresh fit, to the last bit."""
        p = self.problem
        n = len(self.y)
        if not hasattr(self.model, "partial_fit") or not n:
            return
        cut, gone = int(self.rng.integers(0, n + 1)), self.rng.permutation(n)[: self.rng.integers(0, n + 1)]
        joined = self.fitted(p.X[:cut], self.y[:cut]).partial_fit(p.X[cut:], self.y[cut:])
        left = self.fitted(p.X, self.y).forget(gone)
        kept = np.delete(np.arange(n), gone)
        for how, one, other in (
            (
                f"clone(model).fit(X[:{cut}], y[:{cut}], reference=reference).partial_fit(X[{cut}:], y[{cut}:])",
                joined,
                self.model,
            ),
            (
                f"clone(model).fit(X, y, reference=reference).forget({gone.tolist()})",
                left,
                self.fitted(p.X[kept], self.y[kept]),
            ),
        ):
            same = np.array_equal(one.predict(p.Z), other.predict(p.Z))
            if hasattr(one, "vote_weights"):
                same &= all(
                    np.array_equal(a, b) for a, b in zip(one.vote_weights(p.Z), other.vote_weights(p.Z), strict=True)
                )
            if not same:
                self.found(
                    "join and leave",
                    how,
                    f"other = {how}",
                    f"kept = {kept.tolist() if one is left else list(range(n))}",
                    "fresh = clone(model).fit(X[kept], y[kept], reference=reference)",
                    "np.testing.assert_array_equal(other.predict(Z), fresh.predict(Z))",
                    "np.testing.assert_array_equal(other.vote_weights(Z)[0], fresh.vote_weights(Z)[0])",
                )

    def check_votes(self):
        rows = np.vstack([self.problem.X.astype(np.float64), self.candidates])
        alpha = self.fitted(rows, np.zeros(len(rows), dtype=int)).vote_weights(self.problem.Z)[0]
        self.votes = alpha
        for turn in range(3):  # first without rows that are far away
            some = self.rng.permutation(len(rows))[: self.rng.integers(0, len(rows))]
            some = some if turn else np.arange(len(self.y))
            now = self.fitted(rows[some], np.zeros(len(some), dtype=int)).vote_weights(self.problem.Z)[0]
            if not np.array_equal(now, alpha[:, some]):
                self.found(
                    "votes",
                    "a vote depends on other rows",
                    f"rows = {literal(rows)}",
                    f"some = {some.tolist()}",
                    "def votes(X):",
                    "    return clone(model).fit(X, np.zeros(len(X), int), reference=reference).vote_weights(Z)[0]",
                    "np.testing.assert_array_equal(votes(rows[some]), votes(rows)[:, some])",
                )
                return

    def check_radius(self, certificates, adversary, row):
        """Random attacks within the radius, and loud ones of exactly that size, change nothing."""
        p, n = self.problem, len(self.y)
        radius = int(certificates.radius[row])
        if certificates.unlimited[row]:
            radius = max(radius, n + 5) if certificates.rows_can_be_added else radius
        radius = min(radius, MOST_CHANGES)
        free = np.ones(n, dtype=bool) if p.trusted is None else ~np.array(p.trusted, dtype=bool)
        for attack in range(N_ATTACKS // len(p.Z) + 2):
            loud = attack % 2 == 0
            if p.groups is not None:
                names = self.rng.permutation(np.unique(np.array(p.groups, dtype=int)[free]))[:radius]
                removed = np.flatnonzero(free & np.isin(p.groups, names))
                n_added = len(removed) if p.changes == "rows" else 0
            else:
                order = self.rng.permutation(n)
                if loud and self.separate:
                    sign = np.where(certificates.prediction[row] == self.y, 1, -1) * self.votes[row, :n]
                    order = np.argsort(-sign, kind="stable")
                order = order[free[order]]
                removed = order[:radius] if p.changes != "insertions" else order[:0]
                n_added = radius if p.changes != "removals" else 0
            at, label = int(self.rng.integers(len(self.candidates))), int(self.rng.choice(self.model.classes_))
            if loud and self.separate and attack > 0:
                at = int(np.argmax(np.abs(self.votes[row, n:])))
                label = certificates.rival[row] if self.votes[row, n + at] > 0 else certificates.prediction[row]
            which = np.full(n_added, at) if loud else self.rng.integers(len(self.candidates), size=n_added)
            labels = np.full(n_added, label) if loud else self.rng.choice(self.model.classes_, size=n_added)
            after = np.vstack([np.delete(p.X, removed, axis=0).astype(np.float64), self.candidates[which]])
            y = np.concatenate([np.delete(self.y, removed), labels])
            if self.fitted(after, y).predict(p.Z[row : row + 1])[0] != self.predicted[row]:
                self.found(
                    "radius too large",
                    f"{radius} changes of rows change the prediction of test row {row}",
                    f"attacked, labels = {literal(after)}, {y.tolist()}",
                    f"radius = model.certify(Z, adversary=adversary).radius[{row}]",
                    "other = clone(model).fit(attacked, labels, reference=reference)",
                    f"assert radius < {radius} or other.predict(Z)[{row}] == model.predict(Z)[{row}]",
                )
                return

    def check_worst_rows(self, certificates, adversary):
        p = self.problem
        attack = self.names["worst_rows"](self.model, p.Z, adversary, reference=p.reference)
        is_exact = "rows-lower-bound" not in [one.code for one in certificates.assumptions]
        call = "attack = worst_rows(model, Z, adversary, reference=reference)"
        for row in range(len(p.Z)):
            if attack.success[row]:
                X, y = attack.changed(p.X.astype(np.float64), self.y, row)
                if self.fitted(X, y).predict(p.Z[row : row + 1])[0] == self.predicted[row]:
                    self.found(
                        "worst_rows",
                        f"no success on row {row}",
                        call,
                        f"X2, y2 = attack.changed(X, y, {row})",
                        "other = clone(model).fit(X2, y2, reference=reference)",
                        f"assert other.predict(Z)[{row}] != model.predict(Z)[{row}]",
                    )
                if attack.changes_needed[row] <= certificates.radius[row]:
                    self.found(
                        "worst_rows: radius too large",
                        f"row {row}",
                        call,
                        f"assert attack.changes_needed[{row}] > model.certify(Z, adversary=adversary).radius[{row}]",
                    )
            if is_exact and not attack.is_smallest[row]:
                self.found(
                    "not attained",
                    f"the radius {certificates.radius[row]} of row {row} is called exact, but the attack "
                    f"needs {attack.changes_needed[row]}",
                    call,
                    f"assert attack.is_smallest[{row}]",
                )


def judge_rows(seeds, seconds=float("inf")):
    """Judge the problems of some seeds; return the findings and counts."""
    start, counts, findings, reasons = time.monotonic(), Counter(), [], Counter()
    for seed in seeds:
        if time.monotonic() - start > seconds:
            break
        judge = RowJudge(row_problem_of(seed)).run()
        counts[judge.problem.learner, "refused" if judge.refused else "judged"] += 1
        counts["refits"] += judge.n_refits
        reasons[judge.problem.learner + ": " + judge.refused] += bool(judge.refused)
        findings += [(seed, *one) for one in judge.findings]
    return findings, counts, reasons


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="fuzz.rows", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args(arguments)
    first = time.time_ns() // 1000 if given.seed is None else given.seed
    findings, counts, reasons = judge_rows(range(first, first + 10**9), 60 * given.minutes)
    shown = Counter()
    for seed, kind, _what, script in findings:
        shown[kind] += 1
        if shown[kind] <= 2:
            print(f"# seed {seed}: {kind}\n{script}")
    print(dict(counts), dict(shown))
    print(reasons.most_common(12))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
