"""A backdoor by labels alone, on MNIST 1/7: the table in docs/attacks.md.

    python benchmarks/backdoor.py --data-dir DIR    # attack, certify, and write benchmarks/results/backdoor.json
    python benchmarks/backdoor.py --table           # print the table from the committed results

FLIP (Jha, Hayase, Oh, NeurIPS 2023) plants a backdoor by changing labels, and nothing else: no training image contains
the trigger. Here the trigger is a faint pattern of stripes that is added to test images. The attacker changes 2 % of
the labels: of the images that least squares on the pixels associates most with the stripes. Every training image is
left as it is. A seven with the trigger should then be read as a one, and images without it as before.

Undefended models are fitted to the changed labels. Certificates are computed from the changed labels as well, which are
all that a user has: a prediction of a triggered row whose radius is at least the number of changed labels is the same
as with the true labels.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from flipproof import CertifiedClusterClassifier, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.datasets import load_mnist17
from flipproof.features import pca_features

RESULTS = Path(__file__).parent / "results" / "backdoor.json"

#: Share of the labels that the attacker changes.
SHARE = 0.02

#: Contrast of the stripes, of 1 for black and white; and their period in pixels.
CONTRAST, PERIOD = 0.2, 6

#: What triggered images should be read as, and which images get the trigger.
TARGET, SOURCE = 1, 7

#: Regularisation of the attacker's least squares, relative to the mean eigenvalue.
RIDGE = 0.1

UNDEFENDED = {
    "logistic regression": lambda: LogisticRegression(C=100.0, max_iter=300),
    "network, one layer of 100": lambda: MLPClassifier(100, max_iter=40, random_state=0, early_stopping=False),
    "1 nearest neighbour": lambda: KNeighborsClassifier(1),
}

CERTIFIED = {
    "certified ridge, 50 components": lambda: CertifiedRidgeClassifier(
        features=pca_features(50), classes=[TARGET, SOURCE]
    ),
    "certified neighbours, 30 %, 50 components": lambda: CertifiedNeighborsClassifier(
        0.3, features=pca_features(50), classes=[TARGET, SOURCE]
    ),
    "certified clusters, 2, joint vote": lambda: CertifiedClusterClassifier(
        KMeans(2, n_init=10, random_state=0),
        vote="joint",
        features=pca_features(50, whiten=True),
        classes=[TARGET, SOURCE],
    ),
}


def with_trigger(X):
    """Return images with stripes."""
    stripes = np.sin(2 * np.pi * np.arange(28) / PERIOD)
    return np.clip(X + CONTRAST * np.tile(stripes, (28, 1)).ravel(), 0, 1)


def changed_labels(X, y):
    """Return the labels after the attack: the changes that move triggered rows most, and others least.

    Least squares is label-linear: changing label j to the target moves the score of the target on a row z by
    alpha_j(z), so the effect of the trigger by alpha_j(triggered z) - alpha_j(z).
    """
    source = X[y == SOURCE]
    step = (with_trigger(source) - source).mean(axis=0)
    centred = X - X.mean(axis=0)
    gram = centred.T @ centred
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    moved = centred @ np.linalg.solve(gram, step)
    gain = np.where(y == SOURCE, moved, -moved)  # a label of the target turned into the source helps where this is < 0
    chosen = np.argsort(-gain, kind="stable")[: round(SHARE * len(y))]
    poisoned = y.copy()
    poisoned[chosen] = np.where(y[chosen] == SOURCE, TARGET, SOURCE)
    return poisoned


def measure(data_dir):
    """Return a line per model."""
    data = load_mnist17(data_home=data_dir)
    X, Z = (np.asarray(rows, dtype=float).reshape(len(rows), -1) for rows in (data.X_train, data.X_test))
    if X.max() > 1:
        X, Z = X / 255, Z / 255
    y, truth = np.asarray(data.y_train).astype(int), np.asarray(data.y_test).astype(int)
    poisoned = changed_labels(X, y)
    n_changed = int((poisoned != y).sum())
    triggered, is_right = with_trigger(Z[truth == SOURCE]), {}
    lines = []
    for name, make in {**UNDEFENDED, **CERTIFIED}.items():
        line = {"model": name, "n_labels": len(y), "n_changed": n_changed, "n_triggered": len(triggered)}
        for which, labels in (("before", y), ("after", poisoned)):
            model = make().fit(X, labels)
            line[f"clean_{which}"] = round(float((model.predict(Z) == truth).mean()), 4)
            is_right[which] = model.predict(triggered) == SOURCE
            line[f"as_target_{which}"] = round(float(1 - is_right[which].mean()), 4)
        if name in CERTIFIED:
            certificates = model.certify(triggered)
            safe = certificates.radius >= n_changed
            line["certified"] = round(float(safe.mean()), 4)
            line["certified_and_right"] = round(float((safe & (certificates.prediction == SOURCE)).mean()), 4)
            before = np.where(is_right["before"], SOURCE, TARGET)
            line["certified_but_changed"] = int((safe & (certificates.prediction != before)).sum())  # must be 0
        lines.append(line)
        print(json.dumps(line), flush=True)
    return lines


def committed():
    """Return the committed lines."""
    return json.loads(RESULTS.read_text())


def percent(line, name):
    return f"{100 * line[name]:.1f} %" if name in line else ""


def table():
    """Return the table in Markdown."""
    columns = {
        "clean_before": "accuracy, true labels",
        "clean_after": "accuracy, changed labels",
        "as_target_before": "triggered sevens read as 1, true labels",
        "as_target_after": "triggered sevens read as 1, changed labels",
        "certified_and_right": "triggered sevens certified as 7",
    }
    rows = [["model", *columns.values()], ["---", *("---:" for _ in columns)]]
    rows += [[line["model"], *(percent(line, name) for name in columns)] for line in committed()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.data_dir:
        text = ",\n".join(json.dumps(line) for line in measure(options.data_dir))
        RESULTS.write_text(f"[\n{text}\n]\n")
    elif options.table:
        print(table())
    else:
        parser.error("give --data-dir or --table")


if __name__ == "__main__":
    main()
