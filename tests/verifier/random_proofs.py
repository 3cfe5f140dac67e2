"""Random hard problems, certified, saved and checked by the second program.

``PYTHONPATH=src:tests python -m verifier.random_proofs --cases 2000`` checks as many; honest files
must be verified, and files with radii that are one too large must be refuted.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from fuzz.judge import NAMES
from fuzz.problems import problem_of
from fuzz.rows import row_problem_of

from flipproof import Adversary, Annotations, CertifiedRidgeClassifier
from flipproof.streaming import StreamingKernelClassifier, StreamingRidgeClassifier
from flipproof_verify import REFUTED, VERIFIED, verify
from verifier.proof_boxes import Box


def majority_of(seed):
    """Return a model of the majorities of random annotations, test rows, and a random adversary."""
    rng = np.random.default_rng(seed)
    n_items, per_item, n_annotators, n_classes = 8, int(rng.integers(1, 5)), 6, int(rng.integers(2, 5))
    item = np.repeat(np.arange(n_items), per_item)
    who = np.concatenate([rng.permutation(n_annotators)[:per_item] for _ in range(n_items)])
    given = rng.integers(0, n_classes, len(item))
    crowd = Annotations.from_long(item, who, given, items=np.arange(n_items), aggregate="majority")
    model = CertifiedRidgeClassifier(classes=range(n_classes)).fit(rng.normal(size=(n_items, 3)), crowd)
    return model, rng.normal(size=(4, 3)), powers(rng, who, n_classes)


def streamed(seed):
    """Return a model of rows in blocks, test rows, a random adversary, and the methods."""
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(12, 40)), int(rng.integers(2, 4))
    X, y = rng.normal(size=(n, 4)), rng.integers(0, n_classes, n)
    learner = [StreamingRidgeClassifier, StreamingKernelClassifier][seed // 8 % 2]
    model = learner(classes=range(n_classes)).fit([(X[i : i + 9], y[i : i + 9]) for i in range(0, n, 9)])
    return model, rng.normal(size=(4, 4)), powers(rng, np.arange(n) % 5, n_classes), ("exact", "tight", "kl")


def powers(rng, owners, n_classes):
    """Return a random adversary: owners of labels, trusted labels, possible changes."""
    pairs = [(one, other) for one in range(n_classes) for other in range(n_classes) if one != other]
    return Adversary(
        groups=owners if rng.random() < 0.5 else None,
        trusted=rng.random(len(owners)) < 0.3 if rng.random() < 0.5 else None,
        allowed=[pair for pair in pairs if rng.random() < 0.6] or pairs[:1] if rng.random() < 0.5 else None,
    )


def certified(seed):
    """Return the certificates of a random problem by all methods; None if the learner refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if seed % 8 == 1:
                model, Z, adversary = majority_of(seed)
                methods = (None,)
            elif seed % 8 == 5:
                model, Z, adversary, methods = streamed(seed)
            elif seed % 4 == 0:
                problem = row_problem_of(seed // 4)
                model = eval(problem.code, NAMES).fit(
                    problem.X, np.array(problem.y, dtype=int), reference=problem.reference
                )
                adversary, methods, Z = eval(problem.adversary_source, NAMES), (None,), problem.Z
            else:
                problem = problem_of(seed)
                y = eval(problem.labels.source(problem.codes), NAMES)
                more = () if problem.unlabeled is None else (np.array(problem.unlabeled),)
                model = eval(problem.code, NAMES).fit(problem.X, y, *more)
                adversary, methods = eval(problem.adversary_source, NAMES), problem.methods
                Z = problem.Z
            certificates = [model.certify(Z, method=one, adversary=adversary) for one in methods]
        except (ValueError, TypeError):
            return None
    return certificates


def check(seed, folder):
    """Return how many files of a problem were honest and verified, and how many broken and refuted; raise otherwise."""
    found = certified(seed)
    if found is None:
        return Counter(refused=1)
    counted = Counter(accepted=1)
    for one in found:
        path = Path(folder) / "proof.flipproof"
        one.save(path)
        result = verify(path)
        assert result.verdict == VERIFIED, (seed, one.method, str(result))
        counted["verified"] += 1
        box = Box.read(path)
        limited = ~box.tensors["claim.unlimited"]
        is_bound = any(assumed.code == "majority-lower-bound" for assumed in one.assumptions)
        if limited.any() and not is_bound and (one.method == "exact" or (one.method == "gap" and one.unit == "labels")):
            box.tensors["claim.radius"] = box.tensors["claim.radius"] + limited
            result = verify(box.write(path))
            refuted = {row for row, (verdict, _) in result.reasons.items() if verdict == REFUTED}
            assert refuted == set(np.flatnonzero(limited).tolist()), (seed, one.method, refuted)
            counted["refuted"] += 1
    return counted


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
