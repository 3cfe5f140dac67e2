"""Random hard problems, certified, saved and checked by the second program.

``PYTHONPATH=src:tests python -m verifier.random_proofs --cases 2000`` checks as many; honest files
must be verified, and files with radii that are one too large must be refuted.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from fuzz.crowds import crowd_problem
from fuzz.judge import NAMES
from fuzz.own import TableVotes
from fuzz.problems import problem_of
from fuzz.rows import row_problem_of
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    Adversary,
    Annotations,
    CertifiedForestClassifier,
    CertifiedIntervals,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedRidgeClassifier,
    FeatureNoise,
    JointNoise,
    LabelFlip,
    SmoothedClassifier,
)
from flipproof.core.engine import deployed_radius
from flipproof.streaming import StreamingKernelClassifier, StreamingRidgeClassifier
from flipproof_verify import REFUTED, VERIFIED, verify
from verifier.proof_boxes import Box
from verifier.random_numbers import check_intervals, intervals_of, many_targets

METHODS = ("exact", "tight", "kl")


def majority_of(seed):
    """Return a model of the majorities of random annotations, test rows, and a random adversary."""
    rng = np.random.default_rng(seed)
    n_items, per_item, n_annotators, n_classes = 8, int(rng.integers(1, 5)), 6, int(rng.integers(2, 5))
    item = np.repeat(np.arange(n_items), per_item)
    who = np.concatenate([rng.permutation(n_annotators)[:per_item] for _ in range(n_items)])
    given = rng.integers(0, n_classes, len(item))
    crowd = Annotations.from_long(item, who, given, items=np.arange(n_items), aggregate="majority")
    model = CertifiedRidgeClassifier(classes=range(n_classes)).fit(rng.normal(size=(n_items, 3)), crowd)
    return model, rng.normal(size=(4, 3)), powers(rng, who, n_classes), (None,)


def powers(rng, owners, n_classes):
    """Return a random adversary: owners of labels, trusted labels, possible changes; often none of them."""
    pairs = [(one, other) for one in range(n_classes) for other in range(n_classes) if one != other]
    return Adversary(
        groups=owners if rng.random() < 0.3 else None,
        trusted=rng.random(len(owners)) < 0.3 if rng.random() < 0.4 else None,
        allowed=[pair for pair in pairs if rng.random() < 0.6] or pairs[:1] if rng.random() < 0.4 else None,
    )


def row_powers(rng, owners):
    """Return a random adversary who changes rows."""
    changes = str(rng.choice(["rows", "insertions", "removals"]))
    return Adversary(
        changes=changes,
        trusted=rng.random(len(owners)) < 0.3 if rng.random() < 0.4 else None,
        groups=owners if rng.random() < 0.5 and changes != "insertions" else None,
    )


def streamed(seed):
    """Return a model of rows in blocks, test rows, a random adversary, and the methods."""
    rng = np.random.default_rng(seed)
    n, n_classes, with_rows = int(rng.integers(12, 60)), int(rng.integers(2, 5)), rng.random() < 0.4
    X, y = rng.normal(size=(n, 4)), rng.integers(0, n_classes, n)
    y = np.where(X[:, 0] > 0, 0, y)  # some leads are large
    learner = [StreamingRidgeClassifier, partial(StreamingKernelClassifier, n_components=5)][int(rng.integers(2))]
    model = learner(
        classes=range(n_classes),
        clip=[None, 0.5, "sign"][int(rng.integers(3))],
        precision=int(rng.choice([2, 4, 10, 16])),
    )
    reference = rng.normal(size=(20, 4)) if with_rows else None
    if seed % 4 == 3:  # trusted labels, which a prior has read
        trusted = rng.random(n) < 0.4
        trusted[[int(np.argmax(y == 0)), int(np.argmax(y > 0))]] = True
        model.set_params(prior=DecisionTreeClassifier(max_depth=2, random_state=0), prior_weight=0.3)
        blocks = [(X[i : i + 9], y[i : i + 9], trusted[i : i + 9], None) for i in range(0, n, 9)]
    else:
        blocks = [(X[i : i + 9], y[i : i + 9]) for i in range(0, n, 9)]
    model.fit(blocks, reference=reference)
    owners = rng.integers(0, 5, n)
    adversary = row_powers(rng, owners) if with_rows else powers(rng, owners, n_classes)
    return model, rng.normal(size=(4, 4)), adversary, ("exact",) if with_rows else ("exact", "tight", "kl")


def without_reference(seed):
    """Return a model whose geometry is that of the training rows, and an adversary who changes them: to be refused."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 3)), rng.integers(0, 2, 12)
    learner = [CertifiedRidgeClassifier, CertifiedForestClassifier, CertifiedNeighborsClassifier][seed % 3]
    return learner(classes=range(2)).fit(X, y), X[:3] + 0.1, row_powers(rng, np.arange(12) % 4), (None,)


def of_rows(seed):
    """Return a model with a reference, test rows, and an adversary who changes rows."""
    problem = row_problem_of(seed)
    model = eval(problem.code, NAMES).fit(problem.X, np.array(problem.y, dtype=int), reference=problem.reference)
    return model, problem.Z, eval(problem.adversary_source, NAMES), (None,)


def of_partitions(seed):
    """Return partitions with some empty ones, and an adversary who changes rows: rows can make these vote."""
    rng = np.random.default_rng(seed)
    n, n_parts, n_classes = int(rng.integers(8, 30)), int(rng.integers(5, 40)), int(rng.integers(2, 4))
    X = rng.normal(size=(n, 2))
    y = np.where(rng.random(n) < 0.8, 0, rng.integers(0, n_classes, n))
    model = CertifiedPartitionClassifier(DecisionTreeClassifier(max_depth=1), n_parts, classes=range(n_classes))
    if rng.random() < 0.5:  # a lead that all votes for the winner do not make up for: empty partitions count
        prior = FrozenEstimator(GaussianNB().fit([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]], [0, 0, 1, 1]))
        model.set_params(prior=prior, prior_weight=float(rng.uniform(0.4, 1.0)))
    model.fit(X, y, reference=rng.normal(size=(20, 2)))
    return model, rng.normal(size=(3, 2)), row_powers(rng, rng.integers(0, 12, n)), (None,)


def of_fuzz(seed):
    """Return a problem of `fuzz.problems`: every learner, extreme numbers, ties, unusual labels."""
    problem = problem_of(seed)
    y = eval(problem.labels.source(problem.codes), NAMES)
    more = () if problem.unlabeled is None else (np.array(problem.unlabeled),)
    model = eval(problem.code, NAMES).fit(problem.X, y, *more)
    return model, problem.Z, eval(problem.adversary_source, NAMES), problem.methods


def of_crowds(seed):
    """Return a problem of `fuzz.crowds`: trusted labels, priors, weights, annotations, windows."""
    problem = crowd_problem(seed)
    only_exact = problem.form == "majority" or problem.power == "windows"
    methods = (None,) if problem.name == "partition" or only_exact else ("exact", "tight", "kl")
    return problem.fitted(problem.codes), problem.Z, problem.adversary, methods


def weighted(seed):
    """Return a model whose products of votes and weights are often halves, which are rounded to even."""
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.choice([16, 32, 64])), int(rng.integers(2, 5))
    X = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None]
    y = np.where(X[:, 0] > 0, 0, rng.integers(0, n_classes, n))
    precision = int(rng.choice([2, 3, 4]))
    model = CertifiedRidgeClassifier(classes=range(n_classes), precision=precision, regularization=0.0)
    model.fit(X, y, sample_weight=rng.choice([1.0, 2.0, 4.0], n))
    return model, rng.integers(-4, 5, size=(4, 1)) / 4, powers(rng, np.arange(n) % 7, n_classes), METHODS


def of_corners(seed):
    """Return a model of the corners of a cube: all products of a vote are as large as they may be, and add up."""
    rng = np.random.default_rng(seed)
    corners = np.array(list(product([-1.0, 1.0], repeat=6)))
    X = np.tile(corners, (2, 1))
    model = CertifiedRidgeClassifier(classes=range(2), precision=int(rng.choice([4, 24])), fit_intercept=False)
    model.fit(X, np.where(X[:, 0] > 0, rng.integers(0, 2, len(X)), 0))
    sizes = 2.0 ** rng.uniform(0, 1, size=(8, 1))
    return model, sizes * corners[rng.integers(0, len(corners), 8)], powers(rng, np.arange(len(X)) % 7, 2), METHODS


def many_rows(seed):
    """Return a model with so many rows that counts have a place for every possible vote; half of them in blocks."""
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(520, 700)), int(rng.integers(2, 4))
    X = rng.normal(size=(n, 2)) * np.where(np.arange(n) < 200, 0.2, 2.0)[:, None]  # the first votes are small
    y = np.where(rng.random(n) < 0.05, rng.integers(0, n_classes, n), np.where(X[:, 0] > 0, 0, 1))
    owners = rng.integers(0, 300, n)
    if rng.random() < 0.5:
        table = -(rng.random((2, n)) ** 4)  # a few negative votes are large
        table[:, ::2] *= -0.3
        model = TableVotes(table, classes=range(n_classes), precision=10).fit(np.arange(n, dtype=float)[:, None], y)
        return model, np.arange(2.0)[:, None], powers(rng, owners, n_classes), METHODS
    told = owners if rng.random() < 0.7 else None
    blocks = [
        (X[i : i + 100], y[i : i + 100], None, None if told is None else told[i : i + 100]) for i in range(0, n, 100)
    ]
    model = StreamingRidgeClassifier(0.4, classes=range(n_classes), precision=9, clip=[None, 0.7, "sign"][seed % 3])
    model.fit(blocks)
    return model, [*rng.normal(size=(2, 2)), [2.0, 0.0]], None, METHODS


def restricted(seed):
    """Return a model whose labels can be changed in few ways: some rivals win only by way of a third class.

    Or in windows, many of which end at a timestamp, as far as floats can tell.
    """
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(6, 40)), int(rng.integers(3, 5))
    pairs = [(one, other) for one in range(n_classes) for other in range(n_classes) if one != other]
    allowed = [pairs[i] for i in rng.permutation(len(pairs))[: int(rng.integers(0, 3))]] + [(0, 2)]
    y = rng.choice(n_classes, n, p=[0.45, 0.4, *[0.15 / (n_classes - 2)] * (n_classes - 2)])
    model = TableVotes(rng.integers(-2, 5, size=(4, n)).astype(float), classes=range(n_classes))
    model.fit(np.arange(n, dtype=float)[:, None], y)
    if seed % 3 == 0:
        length, times = int(rng.integers(1, 4)), rng.integers(0, 12, n)
        adversary = (
            Adversary(window=times * 0.1, length=length * 0.1) if seed % 2 else Adversary(window=times, length=length)
        )
        return model, np.arange(4.0)[:, None], adversary, ("exact",)
    return model, np.arange(4.0)[:, None], Adversary(allowed=allowed), METHODS


def wide(seed):
    """Return a model with many labels, most of one class, so that noise certifies many flips; votes of many kinds."""
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(30, 500)), int(rng.integers(2, 6))
    y = np.where(rng.random(n) < rng.uniform(0.5, 1.0), 0, rng.integers(0, n_classes, n))
    shape = int(rng.integers(0, 6))
    table, offsets = np.ones((2, n)), None
    if shape in (1, 2):
        table = rng.integers(-1 if shape == 1 else 0, 4, size=(2, n)).astype(float)
    elif shape == 3:
        table = np.abs(rng.normal(size=(2, n))) * 10.0 ** rng.integers(-6, 1, size=(2, n))
    elif shape == 4:  # the largest vote would be rounded up to one that needs another bit
        table = rng.random((2, n)) * (1 - 1e-9)
        table[:, 0] = 1 - 1e-9
    elif shape == 5:
        table = rng.normal(size=(2, n)) * 0.3 - np.where(y == 0, -1, 0.2)
    if rng.random() < 0.4:
        offsets = rng.normal(size=(2, n_classes)) * 10.0 ** rng.integers(0, 5)
        offsets[:, 0] += float(np.abs(offsets).max())
    q = float(rng.choice([1e-9, 1e-3, 0.1, 0.3, 0.45]))
    model = TableVotes(table, offsets, noise=q, precision=int(rng.choice([3, 10, 24])), classes=range(n_classes)).fit(
        np.arange(n, dtype=float)[:, None], y
    )
    return model, np.arange(2.0)[:, None], powers(rng, rng.integers(0, 40, n), n_classes), METHODS


def at_the_edge(seed):
    """Return certificates by noise whose failure probability is the largest one for which flipproof claims a radius."""
    rng = np.random.default_rng(seed)
    n_classes, q = int(rng.integers(2, 6)), float(rng.choice([1e-6, 0.01, 0.1, 0.3, 0.45]))
    model = TableVotes(np.ones((1, 600)), noise=q, classes=range(n_classes))
    model.fit(np.arange(600.0)[:, None], np.zeros(600, dtype=int))
    found = [model.certify([[0.0]], method) for method in ("tight", "kl") for _ in range(3)]
    return [at_its_edge(one, int(rng.integers(1, max(one.radius[0], 1) + 1))) for one in found]


def beyond_the_cap(seed):
    """Return the same with so many changed labels that the radius of the noisy vote is not that of the mean (M7)."""
    model = TableVotes(np.ones((1, 18_000)), noise=1e-4, classes=[0, 1])
    model.fit(np.arange(18_000.0)[:, None], np.zeros(18_000, dtype=int))
    return [at_its_edge(model.certify([[0.0]], "tight"), 7_100 + seed % 500)]


def at_its_edge(certificate, radius):
    """Return the certificate of one row with another radius, and the largest failure probability that proves it."""
    noise, low, high = LabelFlip(float(certificate.noise), len(certificate.classes)), certificate.log_failure[0], 0.0
    while np.nextafter(low, high) < high:  # certified, and not certified
        middle = low / 2 + high / 2
        found = deployed_radius(np.array([middle]), certificate.method, noise, certificate.n_train)
        low, high = (middle, high) if found[0] >= radius else (low, middle)
    return replace(certificate, log_failure=np.array([low]), radius=np.array([radius]))


class NearestMean(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted quickly."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == one].mean(axis=0) for one in self.classes_])
        return self

    def predict(self, X):
        return self.classes_[np.argmin(((X[:, None] - self.means_) ** 2).sum(axis=2), axis=1)]


def sampled(seed):
    """Return certificates of votes by models that were fitted to noisy data; some classes are far apart."""
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(10, 30)), int(rng.integers(2, 5))
    X, y = rng.normal(size=(n, 2)), rng.integers(0, n_classes, n)
    y = np.where(X[:, 0] > 0, 0, y)
    if rng.random() < 0.5:
        X[:, 1] += 20.0 * y
    labels, features = LabelFlip(float(rng.choice([0.05, 0.2, 0.4]))), FeatureNoise(float(rng.uniform(0.2, 2.0)))
    noise, methods = [
        (labels, ("tight", "kl")),
        (features, ("gaussian", "kl")),
        (JointNoise(labels, features), ("tight", "kl")),
    ][int(rng.choice(3, p=[0.6, 0.2, 0.2]))]
    over = str(rng.choice(["prediction", "batch"]))
    model = SmoothedClassifier(
        NearestMean(), noise, int(rng.integers(3, 12)), int(rng.integers(40, 300)), 0.9, confidence_over=over,
        random_state=int(seed), classes=range(n_classes),
    ).fit(X, y)  # fmt: skip
    adversary = None if noise is features else Adversary(groups=np.arange(n) % 9) if rng.random() < 0.3 else None
    n_test = 30 if noise is features else 4  # radii that are floats show how they are rounded
    return [model.certify(rng.normal(size=(n_test, 2)) * [1.0, 10.0], one, adversary) for one in methods]


def of_numbers(seed):
    """Return intervals of several problems about numbers."""
    found = [intervals_of(8 * seed + one) for one in range(8)]
    return [one for one in [many_targets(seed), *found] if one is not None]


#: Kinds of problems, in turn. Of each, a function of a seed that returns certificates or intervals, or a model, test
#: rows, an adversary and methods.
EACH = (
    *(of_fuzz, of_crowds, wide, of_rows, streamed, of_numbers, weighted, majority_of, many_rows),
    *(of_fuzz, of_crowds, sampled, of_partitions, streamed, restricted, without_reference, of_corners),
)
KINDS = (*EACH, at_the_edge, *EACH, *EACH, beyond_the_cap, *EACH)


#: Kinds of which learners refuse some problems; all others are offered, and must be certified.
SOME_ARE_REFUSED = (of_fuzz, of_crowds, of_rows, without_reference)

#: Problems of a kind in its turn, with consecutive seeds, where there are many learners or adversaries. Default: one.
IN_A_TURN = {of_rows: 7, of_partitions: 6}


def certified(seed):
    """Return the certificates of random problems by all methods, or intervals; none if the learners refuse them."""
    kind = KINDS[seed % len(KINDS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [_certified(kind, seed + one) for one in range(IN_A_TURN.get(kind, 1))]
    return [one for some in found for one in some]


def _certified(kind, seed):
    try:
        # scattered, as the problems of fuzz take the adversary and the learner from the seed
        found = kind(seed * 7919 % 1_000_003 if kind is of_fuzz else seed)
        if isinstance(found, list):
            return found
        model, Z, adversary, methods = found
        return [model.certify(Z, method=one, adversary=adversary) for one in methods]
    except (ValueError, TypeError):
        if kind in SOME_ARE_REFUSED:
            return []
        raise


def check(seed, folder, digests=None):
    """Return how many files of a problem were honest and verified, and how many broken and refuted; raise otherwise.

    The digest of what the files say is added to a list, if there is one.
    """
    found = certified(seed)
    if not found:
        return Counter(refused=1)
    counted, path = Counter(accepted=1), Path(folder) / "proof.flipproof"
    for one in found:
        one.save(path)
        if digests is not None:
            digests.append(digest_of(path))
        result = verify(path)
        assert result.verdict == VERIFIED, (seed, one.method, str(result))
        counted["verified"] += 1
        enlarge = check_intervals if isinstance(one, CertifiedIntervals) else check_larger
        counted["refuted"] += enlarge(path, one, seed)
    return counted


def check_larger(path, one, seed):
    """Increase the radii of a file by one where these are exact, and return how often all of them are then refuted."""
    box = Box.read(path)
    limited = ~box.tensors["claim.unlimited"]
    is_bound = any(assumed.code == "majority-lower-bound" for assumed in one.assumptions)
    is_bound |= box.document["rule"] == "neighbors" and one.unit == "sources"
    is_exact = one.method == "exact" or (one.method == "gap" and one.unit == "labels")
    if not limited.any() or is_bound or not is_exact:
        return 0
    box.tensors["claim.radius"] = box.tensors["claim.radius"] + limited
    result = verify(box.write(path))
    refuted = {row for row, (verdict, _) in result.reasons.items() if verdict == REFUTED}
    assert refuted == set(np.flatnonzero(limited).tolist()), (seed, one.method, refuted)
    return 1


def digest_of(path):
    """Return the digest of the tensors of a file, and of its document without the digest of the model."""
    document = Box.read(path).document
    document["digests"]["model"] = None
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def main(arguments=None):
    """Check problems with consecutive seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=21_000_000)
    given = parser.parse_args(arguments)
    counted = Counter()
    warnings.simplefilter("ignore")  # of scikit-learn, about extreme numbers
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.seed, given.seed + given.cases):
            counted += check(seed, folder)
    print(dict(counted))


if __name__ == "__main__":
    main()
