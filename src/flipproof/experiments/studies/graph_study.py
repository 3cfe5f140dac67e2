"""Certified nodes of two citation graphs, Cora and Citeseer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from flipproof.core.rounding import Integers
from flipproof.datasets.shelf import PublicFile, Shelf, arrays
from flipproof.experiments.row_files import certified
from flipproof.experiments.studies.study import Case, CaseRows, Measured, Problem, Study, StudyRun
from flipproof.experiments.tables_and_figures import markdown_table
from flipproof.features import GraphFeatures
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.propagation import CertifiedPropagationClassifier
from flipproof.learners.ridge import CertifiedRidgeClassifier

CAPTION = """
Test nodes are the usual 1,000; training labels are the usual 140 and 120, or those of all other nodes. Settings are
round numbers: defaults, clip=0.9, and alpha=0.99 for the rule "poisson". A grid had been seen on these test nodes
before, so the best rows are slightly optimistic. Columns: share of test nodes that are correct, and stay so if any r
training labels are changed; exact, each node by itself.
"""

TITLES = {"cora": "Cora", "citeseer": "Citeseer"}
MADE = "edges, words and the usual split, from the files ind.* of the repository kimiyoung/planetoid"
FILES = {
    "cora": PublicFile("cora.npz", {"d0f9944c69e1d0e074bdc94c0aae6605ced01e163d419fa7f62141775123efca": MADE}),
    "citeseer": PublicFile("citeseer.npz", {"2ccbf88792e31059f51e5ec2215da76c54b517a6ea4601104d35ea2a4b0f34fe": MADE}),
}
ARRAYS = ("edges", "labels", "x_indptr", "x_indices", "n_features", "train", "test")

#: Numbers of changed labels in the tables.
FLIPS = (0, 1, 2, 3, 5, 12, 20, 50)

COLUMNS = ("prediction", "exact")

#: Test nodes of a quick run, and the share of training nodes in one that has all labels.
QUICK_TEST, QUICK_ONE_IN = 60, 5

#: Settings by name. Features are the words of a paper and of those around it, up to this number of hops.
LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "ridge on words alone": {"learner": "ridge", "hops": 0},
    "ridge on two hops": {"learner": "ridge", "hops": 2},
    "ridge on two hops, clip=0.9": {"learner": "ridge", "hops": 2, "parameters": {"clip": 0.9}},
    "spreading": {"learner": "propagation"},
    "spreading, clip=0.9": {"learner": "propagation", "parameters": {"clip": 0.9}},
    "poisson, alpha=0.99": {"learner": "propagation", "parameters": {"rule": "poisson", "alpha": 0.99}},
}


@dataclass(frozen=True)
class CitationGraph:
    """A graph of papers: edges, words, labels (-1: none), and the nodes to train on and to certify."""

    graph: csr_array
    words: csr_array
    labels: Integers
    train: Integers
    test: Integers

    @property
    def classes(self) -> Integers:
        """The classes of all nodes, which are public."""
        return np.unique(self.labels[self.labels >= 0])


def read(name: str, all_labels: bool, data_dir: Path | None, quick: bool, seed: int) -> Problem:
    """Return a graph with the usual split; training nodes may be all that have a label and are not for tests."""
    title = f"{TITLES[name]} ({', '.join(ARRAYS)}; made from files of the repository kimiyoung/planetoid)"
    shelf = Shelf(title, "citation", data_dir, None, download_if_missing=False, check=True)
    data = arrays(shelf, FILES[name], ARRAYS)
    labels, edges, test = data["labels"].astype(np.int64), data["edges"], data["test"].astype(np.int64)
    n = len(labels)
    half = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    pattern = np.ones(len(data["x_indices"])), data["x_indices"], data["x_indptr"]
    words = csr_array(pattern, shape=(n, int(data["n_features"])))
    train = data["train"].astype(np.int64)
    if all_labels:
        train = np.setdiff1d(np.flatnonzero(labels >= 0), test)[:: QUICK_ONE_IN if quick else 1]
    test = np.sort(test)[: QUICK_TEST if quick else None]
    content = CitationGraph(csr_array(half + half.T), words, labels, train, test)
    provenance = f"{TITLES[name]} (Sen et al.; split of Yang et al.). {shelf.origins()}."
    return Problem(content, test, labels[test], len(train), provenance, shelf.checksums)


def learner(settings: Mapping[str, Any], data: CitationGraph) -> LabelLinearClassifier:
    """Return the learner of a run, not fitted; none of its settings was chosen with labels."""
    parameters = {**settings.get("parameters", {}), "classes": data.classes}
    if settings["learner"] == "propagation":
        return CertifiedPropagationClassifier(graph=data.graph, **parameters)
    features = GraphFeatures(data.graph, data.words, hops=settings["hops"])
    return CertifiedRidgeClassifier(features=features, **parameters)


def measure(run: StudyRun, problem: Problem, seed: int) -> Measured:
    """Certify the test nodes of a graph."""
    data: CitationGraph = problem.content
    model = learner(run.settings, data).fit(data.train, data.labels[data.train])
    found = model.certify(data.test)
    return Measured({"prediction": found.prediction.astype(np.int64), "exact": found.radius.astype(np.int64)})


def shown(share: float) -> str:
    """Return a share without the zero before the point."""
    return f"{share:.3f}".removeprefix("0")


def tables(rows: CaseRows, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a table of certified accuracy for each graph and number of labels."""
    found = []
    for case in STUDY.cases:
        lines = [[name, *map(shown, certified(of_run, "exact", FLIPS))] for name, of_run in rows[case.name].items()]
        table = markdown_table(["learner", *(f"@{flips}" for flips in FLIPS)], lines).rstrip()
        found += [f"**{case.title} ({records[case.name]['n_train']:,})**", table]
    return found


def _cases() -> tuple[Case, ...]:
    runs = tuple(StudyRun(name, settings) for name, settings in LEARNERS.items())
    kinds = (("", "usual", False), ("-all", "all", True))
    return tuple(
        Case(f"{name}{suffix}", f"{title}, {which} training labels", runs, COLUMNS, partial(read, name, whole), measure)
        for name, title in TITLES.items()
        for suffix, which, whole in kinds
    )


STUDY = Study("graphs", "Certified nodes of citation graphs", CAPTION, _cases(), tables)
