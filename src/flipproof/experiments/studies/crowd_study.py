"""Three labels per image against one, and against majority first, on CIFAR-10N's real annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.annotations import Annotations
from flipproof.certificates import Certificates
from flipproof.core.rounding import Integers
from flipproof.datasets import load_cifar10
from flipproof.datasets.shelf import PublicFile, Shelf, arrays
from flipproof.experiments.row_files import RunRows, certified, is_missing
from flipproof.experiments.studies.study import Case, CaseRows, Measured, Problem, Study, StudyRun
from flipproof.experiments.tables_and_figures import markdown_table
from flipproof.learners.ridge import CertifiedRidgeClassifier

CAPTION = """
The labels of CIFAR-10N are real, three for each of the 50,000 training images. The annotators are simulated: each of
the three columns of labels is divided among 83 people, who label tasks of ten consecutive images, drawn at random, so
that nobody labels an image twice. The test rows are the first 300 test images, and for random errors the first 20 of
these: majorities are slow. Ridge with default settings. Tables: certified accuracy by number of changed annotations,
then by number of malicious annotators, then the mean of the bounds on the probability that random errors in the
labels change a prediction, rounded up, by the probability of an error and its direction.
"""

HUMAN_LABELS = PublicFile(
    "cifar10_human_labels.npz",
    {
        "fb3191bfcc8b40b11949d26fc3b20117e01cf199443c2d64c8b5109b9d2dc221": (
            "CIFAR-10N, three labels of each training image, from the repository UCSC-REAL/cifar-10-100n"
        )
    },
)
COLUMNS_OF_LABELS = ("random_label1", "random_label2", "random_label3")

N_TEST, N_WITH_ERRORS = 300, 20

#: People for each column of labels, and images in a task.
N_PEOPLE, TASK = 83, 10

#: Training images, test images, and test images with bounds on errors, of a quick run.
QUICK = (2000, 30, 5)

#: Columns of the tables.
ANNOTATIONS, PEOPLE = (0, 10, 50, 100, 200, 500, 1000), (0, 1, 2, 3, 5, 10)
RATES = {"1": 0.01, "5": 0.05, "20": 0.2}
DIRECTIONS = ("uniform", "worst")
ERRORS = tuple(f"{direction}_{percent}" for direction in DIRECTIONS for percent in RATES)

COLUMNS = ("prediction", "annotations", "annotators", *ERRORS)

#: How labels vote, by name.
WAYS: Mapping[str, Mapping[str, Any]] = {
    "one label": {"labels": "first"},
    "three labels": {"labels": "votes"},
    "majority first": {"labels": "majority"},
}


@dataclass(frozen=True)
class LabeledImages:
    """Features of images, the three columns of labels, who gave each, and the number of test rows with errors."""

    X: NDArray[Any]
    Z: NDArray[Any]
    labels: list[Integers]
    who: list[NDArray[Any]]
    n_with_errors: int


def people(n_items: int, column: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return who labelled each image in a column."""
    n_tasks = -(-n_items // TASK)
    of_task = rng.permutation(np.arange(n_tasks) % N_PEOPLE)
    return np.array([f"{'abc'[column]}{one:02d}" for one in of_task])[np.arange(n_items) // TASK]


def read(data_dir: Path | None, quick: bool, seed: int) -> Problem:
    """Return features of networks that never saw a label of CIFAR10, and its human labels."""
    shelf = Shelf("CIFAR-10N", "cifar10_human_labels", data_dir, None, download_if_missing=False, check=True)
    images, human, missing = None, {}, []
    try:
        images = load_cifar10(kind="lite2", data_home=data_dir)
    except FileNotFoundError as error:
        missing.append(str(error))
    try:
        human = arrays(shelf, HUMAN_LABELS, COLUMNS_OF_LABELS)
    except FileNotFoundError as error:
        missing.append(str(error))
    if missing or images is None:
        raise FileNotFoundError(" ".join(missing))
    n, n_test, n_with_errors = QUICK if quick else (len(images.X_train), N_TEST, N_WITH_ERRORS)
    rng = np.random.default_rng(seed)
    labels = [human[name].astype(np.int64)[:n] for name in COLUMNS_OF_LABELS]
    who = [people(n, column, rng) for column in range(len(labels))]
    content = LabeledImages(images.X_train[:n], images.X_test[:n_test], labels, who, n_with_errors)
    provenance = f"{images.provenance} CIFAR-10N (Wei et al.). {shelf.origins()}."
    checksums = {**images.checksums, **shelf.checksums}
    return Problem(content, np.arange(n_test), images.y_test[:n_test], n, provenance, checksums)


def measure(run: StudyRun, problem: Problem, seed: int) -> Measured:
    """Certify against changed annotations and against annotators; of one label per image also bound random errors."""
    data: LabeledImages = problem.content
    model = CertifiedRidgeClassifier(classes=range(10))
    y, groups = _labels(run.settings["labels"], data)
    by_label = model.fit(data.X, y).certify(data.Z)
    by_person = model.certify(data.Z, adversary=Adversary(groups=groups))
    columns = {
        "prediction": by_label.prediction.astype(np.int64),
        "annotations": by_label.radius.astype(np.int64),
        "annotators": by_person.radius.astype(np.int64),
    } | {name: np.full(len(data.Z), np.nan) for name in ERRORS}
    if run.settings["labels"] == "first":
        few = data.Z[: data.n_with_errors]
        for direction in DIRECTIONS:
            bounds = model.random_error_bound(few, list(RATES.values()), direction=direction)
            for percent, bound in zip(RATES, bounds.T, strict=True):
                columns[f"{direction}_{percent}"][: len(few)] = bound
    facts = {
        "n_labels": float(by_label.n_train),
        "n_annotators": float(by_person.n_touchable),
        "annotations_are_bounds": float(_are_bounds(by_label)),
        "annotators_are_bounds": float(_are_bounds(by_person)),
    }
    return Measured(columns, facts)


def _labels(way: str, data: LabeledImages) -> tuple[Any, NDArray[Any]]:
    """Return labels as a learner takes them, and who gave each."""
    if way == "first":
        return data.labels[0], data.who[0]
    n, columns = len(data.X), len(data.labels)
    long = np.tile(np.arange(n), columns), np.concatenate(data.who), np.concatenate(data.labels)
    annotations = Annotations.from_long(*long, items=n, aggregate=way)
    return annotations, annotations.annotator


def _are_bounds(certificates: Certificates) -> bool:
    """Tell whether some radii are lower bounds."""
    return any(one.code == "majority-lower-bound" for one in certificates.assumptions)


def tables(rows: CaseRows, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return certified accuracy against annotations and against annotators, and bounds for random errors."""
    of_case, runs = rows[CASE.name], records[CASE.name]["runs"]
    found = []
    for unit, counts, column in (
        ("changed annotations", ANNOTATIONS, "annotations"),
        ("malicious annotators", PEOPLE, "annotators"),
    ):
        lines = []
        for name, of_run in of_case.items():
            least = "at least " if runs[name][f"{column}_are_bounds"] else ""
            shares = certified(of_run, column, counts)
            cells = [f"{least if count else ''}{share:.3f}" for count, share in zip(counts, shares, strict=True)]
            lines.append(["ridge", name, *cells])
        head = ["learner", "labels", f"0 {unit}", *(f"{count:,}" for count in counts[1:])]
        found.append(markdown_table(head, lines).rstrip())
    lines = [
        [name, direction, *(mean_upper(of_run, f"{direction}_{percent}") for percent in RATES)]
        for name, of_run in of_case.items()
        for direction in DIRECTIONS
        if not is_missing(of_run[ERRORS[0]]).all()
    ]
    head = ["labels", "direction", *(f"{percent}%" for percent in RATES)]
    return [*found, markdown_table(head, lines).rstrip()]


def mean_upper(rows: RunRows, column: str) -> str:
    """Return the mean of the bounds that were computed, rounded up to four digits after the point."""
    bounds = rows[column][~is_missing(rows[column])]
    return f"{np.ceil(bounds.mean() * 1e4) / 1e4:.4f}"


CASE = Case(
    "cifar10n",
    "CIFAR-10N",
    tuple(StudyRun(name, settings) for name, settings in WAYS.items()),
    COLUMNS,
    read,
    measure,
    ERRORS,
)
STUDY = Study("crowds", "Several labels per image", CAPTION, (CASE,), tables)
