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

from flipproof_verify import REFUTED, VERIFIED, verify
from verifier.proof_boxes import Box


def certified(seed):
    """Return the certificates of a random problem by all methods; None if the learner refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if seed % 4 == 0:
                problem = row_problem_of(seed // 4)
                model = eval(problem.code, NAMES).fit(
                    problem.X, np.array(problem.y, dtype=int), reference=problem.reference
                )
                adversary, methods = eval(problem.adversary_source, NAMES), (None,)
            else:
                problem = problem_of(seed)
                y = eval(problem.labels.source(problem.codes), NAMES)
                more = () if problem.unlabeled is None else (np.array(problem.unlabeled),)
                model = eval(problem.code, NAMES).fit(problem.X, y, *more)
                adversary, methods = eval(problem.adversary_source, NAMES), problem.methods
            certificates = [model.certify(problem.Z, method=one, adversary=adversary) for one in methods]
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
        if limited.any() and (one.method == "exact" or (one.method == "gap" and one.unit == "labels")):
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
