"""How accuracy and radius depend on the precision of the votes: the tables in docs/precision.md.

    python benchmarks/precision.py --data-dir DIR    # measures again, and writes benchmarks/results/precision.json
    python benchmarks/precision.py                   # prints the tables from that file

Every number is from one split; the last line of each table is ridge in plain floating point with the same lambda.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from real_data import mnist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from flipproof import CertifiedRidgeClassifier

RESULTS = Path(__file__).parent / "results" / "precision.json"

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


def measured(X, Z, y, y_test):
    """Return accuracy and radii for each precision, and of ridge in floating point."""
    classes = np.unique(y)
    fitted = {b: CertifiedRidgeClassifier(precision=b, classes=classes).fit(X, y) for b in PRECISIONS}
    certified = {b: model.certify(Z) for b, model in fitted.items()}
    reference = certified[24]
    plain = plain_ridge(fitted[24], X, y, Z)
    lines = []
    for b, certificates in certified.items():
        same = certificates.prediction == reference.prediction
        moved = np.abs(certificates.radius - reference.radius)[same].max()
        lines.append(
            {
                "bits": b,
                "accuracy": round(float(np.mean(certificates.prediction == y_test)), 6),
                "unlike_plain": int(np.sum(certificates.prediction != plain)),
                "median_radius": float(np.median(certificates.radius)),
                "largest_change": int(moved),
            }
        )
    sizes = {"n_train": len(y), "n_test": len(y_test), "n_classes": len(classes)}
    return {**sizes, "plain_accuracy": round(float(np.mean(plain == y_test)), 6), "lines": lines}


PROBLEMS = {
    "Digits, 1 against 7": lambda data_dir: digits((1, 7)),
    "Digits, all ten": lambda data_dir: digits(range(10)),
    "MNIST, 1 against 7, 50 principal components": mnist_one_against_seven,
}


def committed():
    """Return the committed results by title of the data set."""
    return json.loads(RESULTS.read_text())


def table(title):
    """Return the table of a data set in Markdown, with its title."""
    found = committed()[title]
    shown = [
        f"**{title}** (n = {found['n_train']:,}, {found['n_test']:,} test rows, {found['n_classes']} classes)",
        "",
        "| bits | accuracy | predictions unlike plain ridge | median radius | largest change of a radius (24 bits) |",
        "|---|---|---|---|---|",
    ]
    for one in found["lines"]:
        radii = f"{one['median_radius']:.0f} | {one['largest_change']}"
        shown.append(f"| {one['bits']} | {one['accuracy']:.4f} | {one['unlike_plain']} | {radii} |")
    shown.append(f"| plain | {found['plain_accuracy']:.4f} | 0 | | |")
    return "\n".join(shown)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with mnist/, which contains the four IDX files of MNIST")
    data_dir = parser.parse_args().data_dir
    if data_dir:
        found = {title: measured(*problem(data_dir)) for title, problem in PROBLEMS.items()}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    for title in committed():
        print(f"{table(title)}\n")


if __name__ == "__main__":
    main()
