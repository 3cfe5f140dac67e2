"""Random small problems with everything at once: trusted labels, priors, weights, annotations, groups, windows, rows.

``PYTHONPATH=src:tests python -m fuzz.crowds --minutes 10`` judges fresh ones. Every attack on the labels is listed; the
classifier is fitted again to all of them, or to some and to the cheapest that should succeed. A problem is an integer:
findings name it, and ``--seed N --cases 1`` judges it again.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from enumeration import possible_attacks, touchable
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import flipproof
from flipproof import (
    Adversary,
    Annotations,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
)
from flipproof.attacks import worst_flips

LEARNERS = {
    "ridge": CertifiedRidgeClassifier(),
    "ridge, clip": CertifiedRidgeClassifier(clip=0.6),
    "ridge, sign": CertifiedRidgeClassifier(clip="sign", precision=4),
    "kernel": CertifiedKernelClassifier(gamma=0.5),
    "landmarks": CertifiedKernelClassifier("laplacian", gamma=0.5, n_components=2, clip=0.8),
    "neighbors": CertifiedNeighborsClassifier(3),
    "one neighbor": CertifiedNeighborsClassifier(1),
    "by distance": CertifiedNeighborsClassifier(3, weights="distance"),
    "cluster": CertifiedClusterClassifier(KMeans(2, n_init=1)),
    "forest": CertifiedForestClassifier(3, min_samples_leaf=1),
    "supervised": CertifiedForestClassifier(3, min_samples_leaf=1, grow="supervised"),
    "propagation": CertifiedPropagationClassifier(2),
    "partition": CertifiedPartitionClassifier(GaussianNB(), 3),
}

FORMS = ("labels", "weights", "annotations", "full annotations", "majority")

#: Codes of assumptions by which a radius calls itself a lower bound.
BOUNDS = {"majority-lower-bound", "rows-lower-bound", "partition-lower-bound"}

#: Labellings that are refitted to if not all of them are.
SOME_REFITS = 25


@dataclass
class CrowdProblem:
    """A learner, rows, labels in some form, what is trusted in the fit, and an adversary."""

    seed: int
    learner: Any
    name: str
    form: str
    X: Any
    Z: Any
    codes: Any
    n_classes: int
    fit_with: dict[str, Any]
    votes: Annotations | None
    power: str
    powers: dict[str, Any]
    stamps: Any = None
    length: int = 0
    adversary: Adversary | None = field(default=None)

    def fitted(self, codes):
        model, codes = clone(self.learner), np.asarray(codes)
        if self.votes is None:
            return model.fit(self.X, codes, **self.fit_with)
        votes = self.votes
        given = Annotations(votes.item, codes, votes.annotator, votes.weight, votes.n_items, votes.aggregate)
        return model.fit(self.X, given, **self.fit_with)

    def attacks(self):
        """Return every labelling that the adversary can reach, and its cost."""
        fixed = self.fit_with.get("trusted")
        powers = dict(self.powers)
        if fixed is not None:
            powers["trusted"] = fixed | powers.get("trusted", np.zeros(len(fixed), dtype=bool))
        labellings, cost = possible_attacks(self.codes, self.n_classes, **powers)
        n_touchable = touchable(self.codes, **powers)
        if self.stamps is not None:
            cost = np.array([windows(self.stamps[line != self.codes], self.length) for line in labellings])
        return labellings, cost, n_touchable


def windows(stamps, length):
    """Return how many windows of a length are needed to cover some stamps."""
    count, end = 0, -np.inf
    for stamp in sorted(set(stamps.tolist())):
        if stamp > end:
            count, end = count + 1, stamp + length
    return count


def crowd_problem(seed):
    """Return the problem that belongs to an integer."""
    rng = np.random.default_rng([seed, 20])
    name = list(LEARNERS)[seed % len(LEARNERS)]
    form = str(rng.choice(FORMS))
    if name == "partition":
        form = "labels"
    K = int(rng.integers(2, 4))
    n_items = int(rng.integers(3, 7))
    n = int(rng.integers(3, 8 if K == 2 else 7)) if form in FORMS[2:] else n_items
    X = rng.integers(-2, 3, size=(n_items, 2)) * 1.0 if rng.random() < 0.5 else rng.normal(size=(n_items, 2))
    Z = np.concatenate([rng.normal(size=(2, 2)), X[:1], rng.integers(-2, 3, size=(1, 2))])
    codes = rng.integers(K, size=n)
    learner = clone(LEARNERS[name]).set_params(classes=range(K))
    fit_with: dict[str, Any] = {}
    if rng.random() < 0.35 and name != "propagation":
        fit_with["reference"] = rng.normal(size=(5, 2)).round(1)
    trust = _trust(rng, name, form, fit_with, n, K, codes)
    if trust and name != "supervised" and rng.random() < 0.25 and form != "labels":
        learner.set_params(features=SelectKBest(k=1))
    if rng.random() < 0.6:
        fitted = GaussianNB().fit([[0, 0], [0, 1], [1, 0], [2, 2]], [0, 0, 1, 1])
        prior = DecisionTreeClassifier(max_depth=1) if trust else FrozenEstimator(fitted)
        learner.set_params(prior=prior, prior_weight=float(rng.choice([0.1, 0.5, 1.0, 3.0])))
    votes = None
    if form == "weights":
        fit_with["sample_weight"] = rng.choice([0.0, 0.3, 1.0, 1.0, 7.0], size=n) + 0.1 * (rng.random(n) < 0.5)
        if not fit_with["sample_weight"].any():
            fit_with["sample_weight"][0] = 1.0
    elif form in FORMS[2:]:
        item, who = rng.integers(n_items, size=n), rng.choice(list("abcd"), size=n)
        weights = "annotation" if form == "full annotations" else "item"
        aggregate = "majority" if form == "majority" else "votes"
        votes = Annotations.from_long(
            item, who, codes, items=n_items, weights=weights, repeated="keep", aggregate=aggregate
        )
    problem = CrowdProblem(seed, learner, name, form, X, Z, codes, K, fit_with, votes, "labels", {})
    _give_powers(rng, problem)
    return problem


def _trust(rng, name, form, fit_with, n, K, codes):
    """Let some labels be trusted in the fit, where that is possible; tell whether there are any."""
    if "reference" in fit_with and (name == "supervised" or rng.random() < 0.5):
        fit_with["reference_labels"] = np.arange(5) % 2
    if form in FORMS[2:]:
        if name == "supervised" and "reference_labels" not in fit_with:
            fit_with |= {"reference": rng.normal(size=(5, 2)).round(1), "reference_labels": np.arange(5) % 2}
        return "reference_labels" in fit_with
    if name == "supervised" or rng.random() < 0.5:
        trusted = np.isin(np.arange(n), rng.permutation(n)[:2])
        codes[trusted] = [0, 1]
        fit_with["trusted"] = trusted
    return "reference_labels" in fit_with or "trusted" in fit_with


def _give_powers(rng, problem):
    n, K = len(problem.codes), problem.n_classes
    pairs = [(a, b) for a in range(K) for b in range(K) if a != b]
    powers, others = {}, {}
    if rng.random() < 0.4:
        powers["trusted"] = rng.random(n) < 0.3
    if rng.random() < 0.25:
        powers["allowed"] = [pairs[i] for i in np.flatnonzero(rng.random(len(pairs)) < 0.6)] or pairs[:1]
    draw = rng.random()
    if draw < 0.4:
        groups = rng.choice(list("abc"), size=n) if problem.votes is None else problem.votes.annotator
        powers["groups"], problem.power = list(groups), "annotators"
    elif draw < 0.65 and problem.form != "majority" and problem.name != "partition":
        problem.stamps, problem.length, problem.power = rng.integers(0, 9, size=n), int(rng.integers(0, 4)), "windows"
        others = {"window": problem.stamps, "length": problem.length}
    problem.powers = powers
    if powers or others:
        problem.adversary = Adversary(**powers, **others)


class CrowdJudge:
    """Compares the certificates of one problem with every attack."""

    def __init__(self, problem, all_refits=False):
        self.problem, self.all_refits = problem, all_refits
        self.findings, self.n_refits, self.n_attacks, self.refused = [], 0, 0, ""
        self.rng = np.random.default_rng(problem.seed)

    def found(self, kind, what):
        p = self.problem
        self.findings.append((kind, f"seed {p.seed}, {p.name}, {p.form}, {p.power}: {what}"))

    def run(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.judge()
            except Exception:
                self.found("exception", traceback.format_exc())
        return self

    def judge(self):
        p = self.problem
        try:
            model = p.fitted(p.codes)
            self.certificates = model.certify(p.Z, adversary=p.adversary)
        except ValueError as error:
            self.refused = str(error)
            return
        found = self.certificates
        labellings, cost, n_touchable = p.attacks()
        self.n_attacks += len(labellings)
        predicted = self.predictions(model, labellings)
        if not np.array_equal(found.prediction, model.predict(p.Z)):
            self.found("prediction", "certify and predict differ")
        is_exact = not BOUNDS & {one.code for one in found.assumptions} and p.name != "partition"
        for row in range(len(p.Z)):
            overturned = np.flatnonzero(predicted[:, row] != found.prediction[row])
            radius, truth = int(found.radius[row]), cost[overturned].min(initial=10**6)
            if truth <= radius or (found.unlimited[row] and truth < 10**6):
                self.found("radius too large", f"row {row}: radius {radius}, but {truth} changes suffice")
            elif is_exact and truth < 10**6 and radius != truth - 1:
                self.found("radius too small", f"row {row}: radius {radius}, truth {truth - 1}")
            elif is_exact and truth == 10**6 and not found.unlimited[row]:
                self.found("radius too small", f"row {row}: nothing overturns it, radius {radius} of {n_touchable}")
        if p.form != "majority" and p.name != "partition":
            self.check_attacks(model)
        if self.rng.random() < 0.2:
            self.check_file(model)

    def predictions(self, model, labellings):
        """Return the predictions after each attack: by refits, or by the weights where refits agree with them."""
        p = self.problem
        has_weights = p.form != "majority" and hasattr(model, "vote_weights")
        if self.all_refits or not has_weights:
            return np.array([self.refit(line) for line in labellings])
        alpha, offsets = model.vote_weights(p.Z)
        scores = np.stack([(labellings == c) @ alpha.T for c in range(p.n_classes)], axis=2) + offsets
        predicted = scores.argmax(axis=2)
        for at in self.rng.permutation(len(labellings))[:SOME_REFITS]:
            if not np.array_equal(self.refit(labellings[at]), predicted[at]):
                self.found("weights", f"a refit to {labellings[at].tolist()} does not predict what the weights say")
        return predicted

    def refit(self, codes):
        key = tuple(np.asarray(codes).tolist())
        if self.problem.form == "majority":  # labellings with the same majorities share a refit
            votes = self.problem.votes
            counts = np.zeros((votes.n_items, self.problem.n_classes), dtype=int)
            np.add.at(counts, (votes.item, np.asarray(codes)), 1)
            key = tuple(
                -1 if (line == line.max()).sum() > 1 or not line.max() else int(line.argmax()) for line in counts
            )
        known = self.__dict__.setdefault("known", {})
        if key not in known:
            self.n_refits += 1
            known[key] = self.problem.fitted(codes).predict(self.problem.Z)
        return known[key]

    def check_attacks(self, model):
        p = self.problem
        attack = worst_flips(model, p.Z, p.adversary)
        for row in np.flatnonzero(attack.success):
            after = attack.poisoned(p.codes, row)
            if self.refit(after)[row] == self.certificates.prediction[row]:
                self.found("worst_flips", f"the attack on row {row} does not change a refit")
            if attack.flips_needed[row] != self.certificates.radius[row] + 1:
                self.found("worst_flips", f"row {row} needs {attack.flips_needed[row]}")

    def check_file(self, model):
        """A model that was stored certifies the same."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "m.flipproof"
            try:
                flipproof.save(model, path)
            except ValueError:  # refused; nothing wrong is stored
                return
            again = flipproof.load(path).certify(self.problem.Z, adversary=self.problem.adversary)
        for name in ("prediction", "radius", "unlimited"):
            if not np.array_equal(getattr(again, name), getattr(self.certificates, name)):
                self.found("store", f"{name} differs after save and load")


def judge_crowds(seeds, seconds=float("inf"), all_refits=False):
    """Judge the problems of some seeds; return findings, and counts."""
    start, findings, counts, reasons = time.monotonic(), [], Counter(), Counter()
    for seed in seeds:
        if time.monotonic() - start > seconds:
            break
        judge = CrowdJudge(crowd_problem(seed), all_refits or seed % 4 == 0).run()
        problem, how = judge.problem, "refused" if judge.refused else "judged"
        counts.update([how, f"{how}: {problem.form}", f"{how}: {problem.name}", f"{how}: {problem.power}"])
        counts.update({"refits": judge.n_refits, "attacks": judge.n_attacks})
        reasons[judge.refused[:90]] += bool(judge.refused)
        findings += judge.findings
    return findings, counts, reasons


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="fuzz.crowds", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--all-refits", action="store_true", help="fit again to every attack")
    given = parser.parse_args(arguments)
    first = time.time_ns() // 1000 if given.seed is None else given.seed
    seeds = itertools.count(first) if given.cases is None else range(first, first + given.cases)
    findings, counts, reasons = judge_crowds(seeds, 60 * given.minutes, given.all_refits)
    for kind, what in findings[:20]:
        print(f"# {kind}: {what}")
    print(f"seeds from {first} on: {dict(counts)}\n{dict(reasons)}\n{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
