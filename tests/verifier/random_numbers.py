"""Random problems about numbers, certified, saved and checked by the second program.

Honest files must be verified. If an end of an interval is moved inwards by one float, or a radius increased by one,
they must be refuted: the second program finds the same optimum by itself.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from flipproof import (
    Adversary,
    CertifiedForestRegressor,
    CertifiedKernelRegressor,
    CertifiedNeighborsRegressor,
    CertifiedRidgeRegressor,
)
from flipproof_verify import REFUTED, verify
from verifier.proof_boxes import Box

#: Smaller radii are exact. Against rows, flipproof looks at no more changes than sums of 53 bits allow: with votes of
#: 24 bits and targets of 20, at 512 rows, the training rows among them.
LARGEST_EXACT = 400

#: Targets: more than flipproof sorts in any case.
MORE_THAN_SORTED = 5_000


def regressor_of(rng, target_range):
    """Return a random regressor."""
    common = {"target_range": target_range, "precision": int(rng.choice([3, 8, 16, 24]))}
    clip = [None, None, 0.6, "sign"][rng.integers(4)]
    kind = rng.integers(5)
    if kind == 0:
        return CertifiedRidgeRegressor(fit_intercept=bool(rng.random() < 0.7), clip=clip, **common)
    if kind == 1:
        return CertifiedKernelRegressor(["rbf", "poly", "laplacian"][rng.integers(3)], clip=clip, **common)
    if kind == 2:
        return CertifiedForestRegressor(4, min_samples_leaf=2, clip=clip, **common)
    k, average = int(rng.integers(1, 7)), ["mean", "median"][kind - 3]
    weights = "distance" if average == "mean" and rng.random() < 0.4 else "uniform"
    return CertifiedNeighborsRegressor(k, average=average, weights=weights, **common)


def adversary_of(rng, n, with_rows):
    """Return a random adversary who changes targets, or rows."""
    changes = str(rng.choice(["rows", "insertions", "removals"])) if with_rows else "labels"
    groups = rng.integers(0, 5, n) if rng.random() < 0.4 and changes != "insertions" else None
    return Adversary(
        changes=changes,
        trusted=rng.random(n) < 0.3 if rng.random() < 0.4 else None,
        groups=groups,
        max_change=float(rng.choice([0.0, 0.7, 2.0])) if changes == "labels" and rng.random() < 0.4 else None,
    )


def intervals_of(seed):
    """Return the intervals of a random problem; None if the learner refuses it."""
    rng = np.random.default_rng(seed)
    n, m, k = int(rng.integers(1, 30)), 4, int(rng.integers(1, 4))
    X = rng.integers(0, 3, (n, k)).astype(float) if rng.random() < 0.5 else rng.normal(size=(n, k))
    Z = np.concatenate([X[:2], rng.normal(size=(m, k))])[:m]
    low, high = [(0.0, 10.0), (-3.0, 4.0), (1e-3, 7e9), (-1.0, 1.0)][rng.integers(4)]
    y = rng.uniform(low, high, n) if rng.random() < 0.6 else rng.choice([low, high, (low + high) / 2], n)
    with_rows, is_frozen = rng.random() < 0.4, rng.random() < 0.3
    more = {"trusted": rng.random(n) < 0.2} if rng.random() < 0.3 else {}
    if not with_rows and rng.random() < 0.2:
        more["sample_weight"] = rng.integers(0, 4, n).astype(float)
    if with_rows or is_frozen:
        more["reference"] = rng.normal(size=(12, k))
    asked = [{"tolerance": float(rng.choice([0.0, 0.5, 3.0]))}, {"threshold": float(rng.uniform(low, high))}, {}]
    flips = [0, 1, 2, int(rng.integers(0, 2 * n))] if rng.random() < 0.7 else 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = regressor_of(rng, (low, high)).fit(X, y, **more)
            return model.certify(Z, flips, adversary=adversary_of(rng, n, with_rows), **asked[rng.integers(3)])
        except (ValueError, TypeError):
            return None


def many_targets(seed):
    """Return the intervals of a problem with so many targets that their moves are not all sorted."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(MORE_THAN_SORTED, 3))
    y = np.clip(X[:, 0] + rng.normal(size=len(X)), -3.0, 3.0)
    precision, with_intercept = int(rng.choice([8, 16, 24])), bool(rng.random() < 0.5)
    model = CertifiedRidgeRegressor(target_range=(-3.0, 3.0), precision=precision, fit_intercept=with_intercept)
    trusted = rng.random(len(X)) < 0.1 if rng.random() < 0.5 else None
    model.fit(X, y)
    return model.certify(rng.normal(size=(2, 3)), [1, 7, 60], adversary=Adversary(trusted=trusted), tolerance=0.1)


def check_intervals(path, found, seed):
    """Narrow the intervals of a file, and increase its radii; return how often all that is then false is refuted."""
    all_rows, n_refuted = list(range(len(found))), 2
    for name, inwards in (("claim.low", np.inf), ("claim.high", -np.inf)):
        place = np.random.default_rng(seed).integers(Box.read(path).tensors[name].shape[1])
        assert refuted(path, name, lambda old, at=place, to=inwards: nearer(old, at, to)) == all_rows, (seed, name)
    if found.radius is not None and not found.unlimited.all():
        larger = refuted(path, "claim.radius", lambda old: old + ~found.unlimited)
        assert set(larger) >= set(np.flatnonzero(~found.unlimited & (found.radius < LARGEST_EXACT)).tolist()), seed
        n_refuted += 1
    return n_refuted


def nearer(ends, place, inwards):
    """Move one end of each interval by one float."""
    ends[:, place] = np.nextafter(ends[:, place], inwards)
    return ends


def refuted(path, name, change):
    """Return the rows that are refuted after a tensor was changed."""
    box = Box.read(path)
    box.tensors[name] = change(box.tensors[name])
    broken = Path(path).with_name("broken.flipproof")
    return [row for row, (verdict, _) in verify(box.write(broken)).reasons.items() if verdict == REFUTED]
