"""Certificates against changed training rows on real data: the tables in docs/poisoned-rows.md.

    python benchmarks/rows.py --data-dir DIR [--only NAME]     # certify all test rows, and write one line for each
    python benchmarks/rows.py --tables                         # print the tables from the committed lines
    python benchmarks/rows.py --cost                           # rows against labels, and partial_fit, in one run

Each line of ``benchmarks/results/rows/NAME.csv.xz`` is a test row: its label, prediction, and radius against changed
labels, rows, insertions and removals. The geometry is learned from a share of the training rows without labels, the
reference; all other training rows vote. Settings are round numbers, and none is chosen with labels.
"""

from __future__ import annotations

import argparse
import csv
import io
import lzma
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from problems import SIZES, make
from real_data import cifar10, mail_embeddings, mnist, spambase
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from speed import best_times

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedRidgeClassifier,
)

RESULTS = Path(__file__).parent / "results" / "rows"

#: Repeats of a measurement, of which the best counts.
COST_REPEATS = 5

CHANGES = ("labels", "rows", "insertions", "removals")
COLUMNS = ("learner", "test_row", "label", "prediction", *CHANGES)


@dataclass(frozen=True)
class Case:
    """A data set with its learners.

    Attributes
    ----------
    title : str
        What the table is about.
    read : function of a folder
        Returns training rows and labels, test rows and labels.
    one_in : int
        Every so many training rows, one goes to the reference.
    flips : tuple of int
        Columns of the table.
    learners : dict
        Learners by name. A pair is a learner and a multiple of the default lambda.
    recall_of : str or None
        A class whose certified recall the table shows in brackets.
    """

    title: str
    read: Callable[[Path], tuple[Any, Any, Any, Any]]
    one_in: int
    flips: tuple[int, ...]
    learners: dict[str, Any]
    recall_of: str | None = None


def digits(*wanted):
    def read(data_dir):
        (X, y), (Z, truth) = (mnist(data_dir, part, wanted or range(10)) for part in ("train", "t10k"))
        return X, y, Z, truth

    return read


def emails(name):
    return lambda data_dir: split(*mail_embeddings(data_dir, name))


def split(X, y):
    X, Z, y, truth = train_test_split(X, y, test_size=0.25, random_state=0)
    return X, y, Z, truth


def ridges(**parameters):
    return {
        "ridge": CertifiedRidgeClassifier(**parameters),
        "ridge, clip 0.9": CertifiedRidgeClassifier(clip=0.9, **parameters),
        "ridge, clip 0.9, 10 lambda": (CertifiedRidgeClassifier(clip=0.9, **parameters), 10),
    }


COMPONENTS, WHITENED = PCA(50, random_state=0), PCA(50, whiten=True, random_state=0)
SCALED = StandardScaler()


def k_means(k, n_init=1):
    return KMeans(k, n_init=n_init, random_state=0)


CASES = {
    "mnist17": Case(
        "MNIST 1/7, 50 principal components",
        digits(1, 7),
        5,
        (0, 100, 500, 1000, 2000),
        {
            **ridges(features=COMPONENTS),
            "neighbours, 2,000": CertifiedNeighborsClassifier(2000, features=COMPONENTS),
            "clusters, 2, joint vote": CertifiedClusterClassifier(
                k_means(2, n_init=10), vote="joint", features=WHITENED
            ),
        },
    ),
    "mnist": Case(
        "MNIST, all ten digits, 50 principal components",
        digits(),
        5,
        (0, 50, 100, 200, 500),
        {
            **ridges(features=COMPONENTS),
            "neighbours, 2,000": CertifiedNeighborsClassifier(2000, features=COMPONENTS),
            "clusters, 100 by k-means": CertifiedClusterClassifier(k_means(100), features=COMPONENTS),
        },
    ),
    "cifar10": Case(
        "CIFAR10, features of a network trained on ImageNet",
        cifar10,
        5,
        (0, 50, 100, 200, 500, 1000),
        {
            **ridges(),
            "neighbours, 2,000, cosine": CertifiedNeighborsClassifier(2000, metric="cosine"),
            "clusters, 50 by k-means": CertifiedClusterClassifier(k_means(50)),
        },
    ),
    "spambase": Case(
        "Spambase",
        lambda data_dir: split(*spambase(data_dir)),
        5,
        (0, 5, 10, 35, 70),
        {
            **ridges(features=SCALED),
            "neighbours, 200, cosine": CertifiedNeighborsClassifier(200, metric="cosine", features=SCALED),
            "forest, leaves of 2 %, clip 0.9": CertifiedForestClassifier(features=SCALED, clip=0.9),
            "clusters, 8 by k-means": CertifiedClusterClassifier(k_means(8), features=SCALED),
            "partitions, 150 trees": CertifiedPartitionClassifier(DecisionTreeClassifier(), 150),
        },
        "spam",
    ),
    "sms": Case(
        "SMS spam, sentence embeddings",
        emails("sms"),
        10,
        (0, 10, 20, 50),
        {
            **ridges(),
            "neighbours, 51, cosine": CertifiedNeighborsClassifier(51, metric="cosine"),
            "neighbours, 201, cosine": CertifiedNeighborsClassifier(201, metric="cosine"),
        },
        "spam",
    ),
    "enron": Case(
        "Enron spam, sentence embeddings",
        emails("enron"),
        10,
        (0, 10, 20, 50),
        {
            **ridges(),
            "neighbours, 51, cosine": CertifiedNeighborsClassifier(51, metric="cosine"),
            "neighbours, 201, cosine": CertifiedNeighborsClassifier(201, metric="cosine"),
        },
        "spam",
    ),
}


def fitted(learner, data, one_in, classes):
    """Fit a learner, with every `one_in`-th training row as the reference."""
    X, y, _, _ = data
    in_reference = np.arange(len(y)) % one_in == 0
    model, multiple = learner if isinstance(learner, tuple) else (learner, 1)
    model = clone(model).set_params(classes=classes)
    X, y, reference = X[~in_reference], y[~in_reference], X[in_reference]
    if multiple != 1:  # the default lambda depends on the reference alone
        default = clone(model).fit(X[:2], y[:2], reference=reference).regularization_
        model.set_params(regularization=multiple * default)
    return model.fit(X, y, reference=reference)


def lines(name, data_dir, rows=slice(None), learners=None):
    """Yield the lines of a case: all test rows, or some."""
    case = CASES[name]
    data = case.read(data_dir)
    Z, truth = data[2][rows], data[3][rows]
    numbers = np.arange(len(data[3]))[rows]
    for title in learners or case.learners:
        model = fitted(case.learners[title], data, case.one_in, np.unique(data[1]))
        found = [model.certify(Z, adversary=Adversary(changes=changes)) for changes in CHANGES]
        for i, number in enumerate(numbers):
            yield title, int(number), truth[i], found[0].prediction[i], *(int(one.radius[i]) for one in found)


def write(name, data_dir):
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(lines(name, data_dir))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.csv.xz").write_bytes(lzma.compress(text.getvalue().encode(), preset=9))


def committed(name):
    """Return the committed lines of a case as dicts."""
    with lzma.open(RESULTS / f"{name}.csv.xz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def table(name):
    """Return the table of a case in Markdown, from the committed lines."""
    case, by_learner = CASES[name], {}
    for line in committed(name):
        by_learner.setdefault(line["learner"], []).append(line)
    head = [f"| learner | changes | {' | '.join(f'{r:,}' for r in case.flips)} | median |"]
    head.append("|---" * (len(case.flips) + 3) + "|")
    body = []
    for title, found in by_learner.items():
        label, prediction = (np.array([line[column] for line in found]) for column in ("label", "prediction"))
        for changes in ("labels", "rows"):
            radius = np.where(label == prediction, [int(line[changes]) for line in found], -1)
            cells = [cell(radius >= flips, label, case.recall_of) for flips in case.flips]
            median = max(int(np.median(radius)), 0)
            body.append(f"| {title} | {changes} | {' | '.join(cells)} | {median:,} |")
    return "\n".join([*head, *body])


def cell(is_certified, label, recall_of):
    shown = f"{np.floor(1000 * is_certified.mean()) / 1000:.3f}"
    if recall_of is None:
        return shown
    return f"{shown} ({np.floor(1000 * is_certified[label == recall_of].mean()) / 1000:.3f})"


def cost_models(problem):
    """Return learners by name, not fitted."""
    k = len(problem.X) // 50
    return {
        "ridge": problem.model,
        "ridge, clip 0.9": clone(problem.model).set_params(clip=0.9),
        f"neighbours, {k}": CertifiedNeighborsClassifier(k, classes=problem.model.classes),
        f"neighbours, {10 * k}": CertifiedNeighborsClassifier(10 * k, classes=problem.model.classes),
        "clusters, 20": CertifiedClusterClassifier(k_means(20), classes=problem.model.classes),
        "forest, 20 trees": CertifiedForestClassifier(20, classes=problem.model.classes),
    }


def cost(names=("A", "B"), sizes=(1000, 2000, 4000, 8000)):
    """Print the time to certify against rows relative to labels, and of partial_fit by number of rows.

    Ratios are of processor time, which other programs on the machine affect less.
    """
    print("| problem | learner | labels | rows | insertions | removals |\n|---|---|---|---|---|---|")
    for name in names:
        problem = make(SIZES[name])
        in_reference = np.arange(len(problem.X)) % 5 == 0
        fit = problem.X[~in_reference], problem.y[~in_reference], problem.X[in_reference]
        for title, learner in cost_models(problem).items():
            model = clone(learner).fit(*fit[:2], reference=fit[2])
            tasks = {one: partial(model.certify, problem.Z, adversary=Adversary(changes=one)) for one in CHANGES}
            best = best_times(tasks, COST_REPEATS, time.process_time)
            ratios = [f"{best[one] / best['labels']:.2f}" for one in CHANGES]
            print(f"| {name} | {title} | {' | '.join(ratios)} |", flush=True)
    print(f"\nSeconds of partial_fit, with {len(fit[0]):,} and half as many rows before\n")
    print(
        f"| learner | rows before | {' | '.join(f'{size:,} new' for size in sizes)} |\n|---{'|---' * (len(sizes) + 1)}|"
    )
    for title, learner in cost_models(problem).items():
        for n in (len(fit[0]) // 2, len(fit[0])):
            begun = clone(learner).fit(fit[0][:n], fit[1][:n], reference=fit[2])
            begun.certify(problem.Z[:1])  # what is computed when it is first needed
            tasks = {size: partial(join, begun, fit[0][:size], fit[1][:size]) for size in sizes}
            best = best_times(tasks, COST_REPEATS)
            print(f"| {title} | {n:,} | {' | '.join(f'{best[size]:.4f}' for size in sizes)} |", flush=True)


def growth(copies=(1, 4, 16, 64), n_new=1000, n_calls=10):
    """Print the time of partial_fit for as many new rows, by the number of rows before.

    It is the median of calls one after another. The first call is not among them: it copies all rows, to have room.
    """
    problem = make(SIZES["A"])
    reference, X, y = problem.X[::5], problem.X, problem.y
    print(f"\nSeconds of partial_fit for {n_new:,} new rows, by rows before\n")
    print(f"| learner | {' | '.join(f'{len(X) * n:,}' for n in copies)} |\n|---{'|---' * len(copies)}|")
    models = cost_models(problem)
    for title in [one for one in models if "clip" not in one and not one.endswith("2600")]:
        begun = {n: clone(models[title]).fit(np.tile(X, (n, 1)), np.tile(y, n), reference=reference) for n in copies}
        for model in begun.values():
            model.certify(problem.Z[:1])
        cells = []
        for model in begun.values():
            seconds = []
            for _ in range(1 + n_calls):
                began = time.process_time()
                model.partial_fit(X[:n_new], y[:n_new])
                seconds.append(time.process_time() - began)
            cells.append(f"{np.median(seconds[1:]):.4f}")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def join(begun, X, y):
    """Let more rows vote in a copy of a model; a shallow one, as updates replace attributes."""
    copy(begun).partial_fit(X, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with mnist/, cifar10/, spambase/, minilm/")
    parser.add_argument("--only", choices=[*CASES, *SIZES], help="one data set, or with --cost one problem")
    parser.add_argument("--tables", action="store_true", help="print the tables from the committed lines")
    parser.add_argument("--cost", action="store_true", help="measure the time against rows and against labels")
    arguments = parser.parse_args()
    if arguments.cost:
        cost([arguments.only] if arguments.only else ("A", "B"))
        growth()
        return
    if not arguments.tables and arguments.data_dir is None:
        parser.error("give --data-dir to certify, or --tables to print what was certified")
    for name in [arguments.only] if arguments.only else CASES:
        if not arguments.tables:
            write(name, arguments.data_dir)
        print(f"\n**{CASES[name].title}**\n\n{table(name)}", flush=True)


if __name__ == "__main__":
    main()
