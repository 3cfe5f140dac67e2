"""How the radius moves with the noise q: the figures in docs/theory.md.

    python benchmarks/noise.py [--mnist DIR]

Mean radius over 200 test rows, by every method.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from precision import digits, mnist_one_against_seven

from flipproof import CertifiedRidgeClassifier

NOISES = (0.1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-20, 1e-30, 1e-50, 1e-100, 1e-150)
TEST_ROWS = 200


def sweep(name, X, Z, y):
    classes = np.unique(y)
    exact = CertifiedRidgeClassifier(classes=classes).fit(X, y).certify(Z).radius.mean()
    print(f"\n**{name}** (n = {len(y):,}, {len(Z)} test rows): exact {exact:.2f}\n\n| q | tight | kl |\n|---|---|---|")
    for q in NOISES:
        model = CertifiedRidgeClassifier(q, classes=classes).fit(X, y)
        tight, kl = (model.certify(Z, method).radius.mean() for method in ("tight", "kl"))
        print(f"| {q:g} | {tight:.2f} | {kl:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, help="folder with the four IDX files of MNIST")
    folder = parser.parse_args().mnist
    for name, classes in (("Digits, 1 against 7", (1, 7)), ("Digits, all ten", range(10))):
        X, Z, y, _ = digits(classes)
        sweep(name, X, Z[:TEST_ROWS], y)
    if folder:
        X, Z, y, _ = mnist_one_against_seven(folder)
        sweep("MNIST, 1 against 7, 50 principal components", X, Z[:TEST_ROWS], y)


if __name__ == "__main__":
    main()
