"""How the radius depends on the noise q: the numbers in docs/theory.md.

    python benchmarks/noise.py [--data-dir DIR]

Mean radius over 200 test rows, by every method.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from precision import PROBLEMS

from flipproof import CertifiedRidgeClassifier

NOISES = (0.1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-20, 1e-30, 1e-50, 1e-100, 1e-150)
TEST_ROWS = 200


def sweep(name, X, Z, y, _y_test):
    classes, Z = np.unique(y), Z[:TEST_ROWS]
    exact = CertifiedRidgeClassifier(classes=classes).fit(X, y).certify(Z).radius.mean()
    print(f"\n**{name}** (n = {len(y):,}, {len(Z)} test rows): exact {exact:.2f}\n\n| q | tight | kl |\n|---|---|---|")
    for q in NOISES:
        model = CertifiedRidgeClassifier(q, classes=classes).fit(X, y)
        tight, kl = (model.certify(Z, method).radius.mean() for method in ("tight", "kl"))
        print(f"| {q:g} | {tight:.2f} | {kl:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with mnist/, which contains the four IDX files of MNIST")
    folder = parser.parse_args().data_dir
    for title, problem in PROBLEMS.items():
        if folder or not title.startswith("MNIST"):
            sweep(title, *problem(folder))
