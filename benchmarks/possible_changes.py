"""Cost of `Adversary(allowed=...)` with many classes: time of exact certificates with it, relative to without it.

    python benchmarks/possible_changes.py

Random rows and labels on one thread, best of three. The tables of possible changes are a single pair, a ring (each
class into the next), a random half of all pairs, and all pairs except one.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from flipproof import Adversary, CertifiedRidgeClassifier

#: Classes, training rows, test rows.
SIZES = ((10, 5_000, 60), (300, 60, 60), (300, 5_000, 60), (1_000, 2_000, 60), (1_000, 20_000, 60))
REPEATS = 3


def tables_of_changes(n_classes, rng):
    """Return pairs of classes by name."""
    every = [(old, new) for old in range(n_classes) for new in range(n_classes) if old != new]
    return {
        "one pair": every[:1],
        "ring": [(old, (old + 1) % n_classes) for old in range(n_classes)],
        "half": [every[i] for i in np.flatnonzero(rng.random(len(every)) < 0.5)],
        "all but one": every[1:],
    }


def seconds(compute):
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        compute()
        times.append(time.perf_counter() - began)
    return min(times)


def main():
    print("| classes | labels | any change | one pair | ring | half | all but one |")
    print("|---|---|---|---|---|---|---|")
    for n_classes, n, m in SIZES:
        rng = np.random.default_rng(0)
        X, Z, y = rng.normal(size=(n, 20)), rng.normal(size=(m, 20)), rng.integers(n_classes, size=n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns about more classes than rows
            model = CertifiedRidgeClassifier(classes=range(n_classes)).fit(X, y)
        alone = seconds(lambda model=model, Z=Z: model.certify(Z))
        cells = [f"{n_classes:,}", f"{n:,}", f"{1000 * alone / m:.1f} ms a row"]
        for pairs in tables_of_changes(n_classes, rng).values():
            adversary = Adversary(allowed=pairs)
            took = seconds(lambda model=model, Z=Z, adversary=adversary: model.certify(Z, adversary=adversary))
            cells.append(f"x {took / alone:.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
