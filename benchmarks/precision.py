"""How accuracy and radius depend on the precision of the votes: the tables in docs/precision.md.

    python benchmarks/precision.py [--data-dir DIR]

Every number is from one split; the last line of each table is ridge in plain floating point with the same lambda.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from real_data import mnist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from flipproof import CertifiedRidgeClassifier

PRECISIONS = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24)


def digits(classes):
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, classes)
    return train_test_split(X[kept], y[kept], test_size=0.5, random_state=0, stratify=y[kept])


def mnist_one_against_seven(data_dir: Path):
    (X, y), (Z, y_test) = (mnist(data_dir, part, (1, 7)) for part in ("train", "t10k"))
    pca = PCA(50, random_state=0).fit(X)
    return pca.transform(X), pca.transform(Z), y, y_test


def plain_ridge(model, X, y, Z):
    """Return the predictions of ridge on class indicators in floating point, with the model's lambda."""
    mean = X.mean(axis=0)
    targets = (y[:, None] == model.classes_).astype(float)
    gram = (X - mean).T @ (X - mean) + model.regularization_ * np.eye(X.shape[1])
    scores = targets.mean(axis=0) + (Z - mean) @ np.linalg.solve(gram, (X - mean).T @ (targets - targets.mean(axis=0)))
    return model.classes_[scores.argmax(axis=1)]


def sweep(name, X, Z, y, y_test):
    classes = np.unique(y)
    fitted = {b: CertifiedRidgeClassifier(precision=b, classes=classes).fit(X, y) for b in PRECISIONS}
    certified = {b: model.certify(Z) for b, model in fitted.items()}
    reference = certified[24]
    plain = plain_ridge(fitted[24], X, y, Z)
    print(f"\n**{name}** (n = {len(y):,}, {len(y_test):,} test rows, {len(classes)} classes)\n")
    print("| bits | accuracy | predictions unlike plain ridge | median radius | largest change of a radius (24 bits) |")
    print("|---|---|---|---|---|")
    for b, certificates in certified.items():
        same = certificates.prediction == reference.prediction
        moved = np.abs(certificates.radius - reference.radius)[same].max()
        print(
            f"| {b} | {np.mean(certificates.prediction == y_test):.4f} | {np.sum(certificates.prediction != plain)} "
            f"| {np.median(certificates.radius):.0f} | {moved} |"
        )
    print(f"| plain | {np.mean(plain == y_test):.4f} | 0 | | |")


def for_each_data_set(sweep, description):
    """Read the command line and call `sweep(name, X, Z, y, y_test)` for each available data set."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with mnist/, which contains the four IDX files of MNIST")
    folder = parser.parse_args().data_dir
    sweep("Digits, 1 against 7", *digits((1, 7)))
    sweep("Digits, all ten", *digits(range(10)))
    if folder:
        sweep("MNIST, 1 against 7, 50 principal components", *mnist_one_against_seven(folder))


if __name__ == "__main__":
    for_each_data_set(sweep, __doc__)
