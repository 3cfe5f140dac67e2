"""Comparison of all learners with ridge on the same rows: the tables in docs/learners.md.

    python benchmarks/learners.py --data-dir DIR [--only TITLE]  # measures, and writes benchmarks/results/learners.json
    python benchmarks/learners.py                                # prints the tables from that file

Exact certified accuracy (for partitions: by the vote gap), by number of changed labels. All parameters are fixed here;
none is chosen with labels. All of MNIST takes minutes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from real_data import dogfish, mnist, phishing, spambase
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    certified_accuracy,
)

RESULTS = Path(__file__).parent / "results" / "learners.json"

SCALED = StandardScaler()


def tables(data_dir):
    """Yield the two tables with a fixed split, and the learners for them."""
    flips = (0, 10, 35, 70, 170)
    for name, read in (("Spambase", spambase), ("Phishing websites", phishing)):
        X, y = read(data_dir)
        learners = {
            "ridge": CertifiedRidgeClassifier(features=SCALED),
            "kernel, laplacian": CertifiedKernelClassifier("laplacian", features=SCALED),
            "neighbours, 10 % of the rows": CertifiedNeighborsClassifier(0.1, metric="cosine", features=SCALED),
            "neighbours, 30 % of the rows": CertifiedNeighborsClassifier(0.3, metric="cosine", features=SCALED),
            "forest, leaves of 2 %": CertifiedForestClassifier(features=SCALED),
            "forest, leaves of 10 %": CertifiedForestClassifier(min_samples_leaf=0.1, features=SCALED),
            "clusters, 8 by k-means": CertifiedClusterClassifier(KMeans(8, n_init=10, random_state=0), features=SCALED),
            "partitions, 150 trees": CertifiedPartitionClassifier(DecisionTreeClassifier(), 150),
        }
        yield name, split(X, y), None, flips, learners


def digits_and_dogs(data_dir):
    """Yield sets of images."""
    (X, y), (Z, truth) = (mnist(data_dir, part, (1, 7)) for part in ("train", "t10k"))
    components, whitened = PCA(50, random_state=0), PCA(50, whiten=True, random_state=0)
    two = KMeans(2, n_init=10, random_state=0)
    learners = {
        "ridge": CertifiedRidgeClassifier(features=components),
        "kernel, rbf, 1,000 landmarks": CertifiedKernelClassifier(n_components=1000, features=components),
        "neighbours, 2,000": CertifiedNeighborsClassifier(2000, features=components),
        "clusters, 2, joint vote": CertifiedClusterClassifier(two, vote="joint", features=whitened),
    }
    yield "MNIST 1/7, 50 principal components", (X, y, Z, truth), None, (0, 500, 1000, 3000, 5950), learners

    X, y, Z, truth = dogfish(data_dir)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, labels = X[order], y[order], 100
    learners = {
        "ridge (the 100 labelled rows)": CertifiedRidgeClassifier(),
        "neighbours, 40 (the 100 labelled rows)": CertifiedNeighborsClassifier(40),
        "propagation, poisson, alpha = 0.99": CertifiedPropagationClassifier(alpha=0.99, rule="poisson"),
    }
    unlabeled = np.arange(len(y)) >= labels
    yield "Dogfish stand-in, 100 of 1,800 rows labelled", (X, y, Z, truth), unlabeled, (0, 5, 10, 20, 30), learners


def all_digits(data_dir):
    """Yield all of MNIST."""
    (X, y), (Z, truth) = (mnist(data_dir, part) for part in ("train", "t10k"))
    components = PCA(50, random_state=0)
    learners = {
        "ridge": CertifiedRidgeClassifier(features=components),
        "neighbours, 4,000": CertifiedNeighborsClassifier(4000, features=components),
        "clusters, 100 by k-means": CertifiedClusterClassifier(
            KMeans(100, n_init=1, random_state=0), features=components
        ),
    }
    yield "MNIST, all ten digits, 50 principal components", (X, y, Z, truth), None, (0, 100, 500, 1000), learners


def split(X, y):
    X, Z, y, truth = train_test_split(X, y, test_size=0.25, random_state=0)
    return X, y, Z, truth


def measured(data, unlabeled, flips, learners):
    """Return certified accuracy of all learners on one data set."""
    _, y, _, truth = data
    n_labels = len(y) if unlabeled is None else int(np.count_nonzero(~unlabeled))
    lines = {title: accuracy_of(learner, data, unlabeled, flips) for title, learner in learners.items()}
    return {"n_labels": n_labels, "n_test": len(truth), "flips": list(flips), "accuracy": lines}


def accuracy_of(learner, data, unlabeled, flips):
    X, y, Z, truth = data
    model = clone(learner).set_params(classes=np.unique(y))
    if unlabeled is None:
        model.fit(X, y)
    elif isinstance(model, CertifiedPropagationClassifier):
        model.fit(X, y, unlabeled)
    else:
        model.fit(X[~unlabeled], y[~unlabeled])
    return certified_accuracy(truth, model.certify(Z), flips).tolist()


def committed():
    """Return the committed results by title of the data set."""
    return json.loads(RESULTS.read_text())


def table(title):
    """Return the table of a data set in Markdown, with its title."""
    found = committed()[title]
    lines = [
        f"**{title}** ({found['n_labels']:,} labels, {found['n_test']:,} test rows)",
        "",
        f"| learner | {' | '.join(f'{r:,} flips' for r in found['flips'])} |",
        "|---" * (len(found["flips"]) + 1) + "|",
    ]
    for learner, accuracy in found["accuracy"].items():
        lines.append(f"| {learner} | {' | '.join(f'{share:.3f}' for share in accuracy)} |")
    return "\n".join(lines)


TITLES = (
    "Spambase",
    "Phishing websites",
    "MNIST 1/7, 50 principal components",
    "Dogfish stand-in, 100 of 1,800 rows labelled",
    "MNIST, all ten digits, 50 principal components",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with spambase/, phishing_websites/, mnist/, dogfish/")
    parser.add_argument("--only", choices=TITLES)
    arguments = parser.parse_args()
    if arguments.data_dir:
        found = committed() if RESULTS.exists() else {}
        for group in (tables, digits_and_dogs, all_digits):
            if arguments.only in (None, *OF_GROUP[group.__name__]):
                for title, *problem in group(arguments.data_dir):
                    if arguments.only in (None, title):
                        found[title] = measured(*problem)
        ordered = {title: found[title] for title in TITLES if title in found}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    for title in committed():
        print(f"{table(title)}\n")


OF_GROUP = {"tables": TITLES[:2], "digits_and_dogs": TITLES[2:4], "all_digits": TITLES[4:]}

if __name__ == "__main__":
    main()
