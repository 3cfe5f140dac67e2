"""Three labels per image against one, and against majority first, on CIFAR-10N's real annotations.

    FLIPPROOF_DATA=folder python benchmarks/crowds.py

writes `benchmarks/results/crowds.json` and prints the tables of `docs/crowd-labels.md`. The folder needs
`cifar10/cifar10_lite2_lite0_pca192.npz` (features of images) and `cifar10_human_labels/cifar10_human_labels.npz`.

The labels are real, the annotators are simulated: each of the three columns of labels is divided among 83 people, who
label tasks of ten consecutive images, drawn at random, so that nobody labels an image twice.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from flipproof import (
    Adversary,
    Annotations,
    Certificates,
    CertifiedRidgeClassifier,
    certified_accuracy,
)
from flipproof.attacks import annotators_to_check

N_TEST = 300
N_WITH_ERRORS = 20
N_PEOPLE = 83  # per column of labels
TASK = 10  # images
ANNOTATIONS = [0, 10, 50, 100, 200, 500, 1000]
PEOPLE = [0, 1, 2, 3, 5, 10]
RATES = [0.01, 0.05, 0.2]
RESULTS = Path(__file__).parent / "results" / "crowds.json"


def people(n_items: int, column: int, rng: np.random.Generator) -> np.ndarray:
    """Return who labelled each image in a column."""
    n_tasks = -(-n_items // TASK)
    of_task = rng.permutation(np.arange(n_tasks) % N_PEOPLE)
    return np.array([f"{'abc'[column]}{one:02d}" for one in of_task])[np.arange(n_items) // TASK]


def is_bound(certificates: Certificates) -> bool:
    """Tell whether some radii are lower bounds."""
    return any(one.code == "majority-lower-bound" for one in certificates.assumptions)


def tables(found: dict) -> str:
    """Return the results as the tables of docs/crowd-labels.md."""
    blocks = []
    for title, columns, key in (
        ("changed annotations", found["annotations"], "by_annotation"),
        ("malicious annotators", found["people"], "by_person"),
    ):
        lines = [["learner", "labels", *(f"{one:,} {title}" if one == 0 else f"{one:,}" for one in columns)]]
        lines.append(["---"] * len(lines[0]))
        for row in found["rows"]:
            if key in row:
                least = "at least " if row.get("is_bound", {}).get(key) else ""
                shares = [f"{least if k else ''}{one:.3f}" for k, one in enumerate(row[key])]
                lines.append([row["learner"], row["way"], *shares])
        blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    lines = [["labels", "direction", *(f"{rate:.0%}" for rate in found["rates"])]]
    lines.append(["---"] * len(lines[0]))
    for row in found["rows"]:
        for direction in ("uniform", "worst"):
            if f"errors_{direction}" in row:
                lines.append([row["way"], direction, *(f"{one:.4f}" for one in row[f"errors_{direction}"])])
    blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(blocks)


def main() -> None:
    """Certify all ways, and write and print the results."""
    folder = Path(os.environ["FLIPPROOF_DATA"])
    features = np.load(folder / "cifar10" / "cifar10_lite2_lite0_pca192.npz")
    human = np.load(folder / "cifar10_human_labels" / "cifar10_human_labels.npz")
    X, Z = features["X_train"].astype(np.float32), features["X_test"][:N_TEST].astype(np.float32)
    truth = features["y_test"][:N_TEST].astype(np.int64)
    columns = [human[f"random_label{one}"].astype(np.int64) for one in (1, 2, 3)]
    rng, n = np.random.default_rng(0), len(X)
    who = [people(n, column, rng) for column in range(3)]
    every = np.arange(n)
    long = np.tile(every, 3), np.concatenate(who), np.concatenate(columns)
    three = Annotations.from_long(*long, items=n)
    majority = Annotations.from_long(*long, items=n, aggregate="majority")
    rows: list[dict[str, object]] = []
    learners = {"ridge": CertifiedRidgeClassifier(classes=range(10))}
    for name, learner in learners.items():
        for way, labels, groups in (
            ("one label", columns[0], who[0]),
            ("three labels", three, three.annotator),
            ("majority first", majority, majority.annotator),
        ):
            start = time.perf_counter()
            learner.fit(X, labels)
            by_label = learner.certify(Z)
            row = {
                "learner": name,
                "way": way,
                "n_labels": int(by_label.n_train),
                "by_annotation": certified_accuracy(truth, by_label, ANNOTATIONS).round(4).tolist(),
            }
            by_person = learner.certify(Z, adversary=Adversary(groups=groups))
            row |= {
                "by_person": certified_accuracy(truth, by_person, PEOPLE).round(4).tolist(),
                "n_people": int(by_person.n_touchable),
                "median_people": int(np.median(by_person.radius)),
                "is_bound": {"by_annotation": is_bound(by_label), "by_person": is_bound(by_person)},
            }
            if way != "majority first":
                audit = annotators_to_check(learner, Z, certificates=by_person, top=3)
                row["first_to_check"] = [[str(a), int(b)] for a, b in zip(audit.names, audit.n_attacks, strict=True)]
            if way == "one label":
                for direction in ("uniform", "worst"):
                    bound = learner.random_error_bound(Z[:N_WITH_ERRORS], RATES, direction=direction)
                    row[f"errors_{direction}"] = (np.ceil(bound.mean(axis=0) * 1e4) / 1e4).tolist()
            row["seconds"] = round(time.perf_counter() - start, 1)
            rows.append(row)
            print(json.dumps(row), flush=True)
    sizes = {"n_items": n, "n_test": N_TEST, "n_test_with_errors": N_WITH_ERRORS}
    asked = {"annotations": ANNOTATIONS, "people": PEOPLE, "rates": RATES}
    found = {**sizes, **asked, "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(tables(found))


if __name__ == "__main__":
    main()
