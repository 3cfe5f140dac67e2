"""flipproof beside other systems: the tables in docs/peers.md.

    python benchmarks/peers.py --tables                       # print the tables from committed results
    python benchmarks/peers.py --data-dir DIR [--only NAME]   # measure, and write benchmarks/results/peers.json

Published figures are typed in once, here. Ours are computed from the committed rows of reproduction/ and from
benchmarks/results/; where several runs could be compared, code chooses among all of them. What can be installed is
measured, each system in a process of its own, on 4,000 training rows of MNIST 1/7 (50 principal components). ART and
cleanlab are not among flipproof's dependencies:

    pip install adversarial-robustness-toolbox cleanlab 'flipproof[deep]'
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from flipproof.experiments import read_experiment, read_study
from flipproof.experiments.row_files import RowFile, RunRows, certified, clean_accuracy, median_radius
from flipproof.experiments.spec import Run
from flipproof.experiments.studies.graph_study import shown
from flipproof.experiments.studies.regression_study import TABLES as TARGETS
from flipproof.experiments.studies.regression_study import same_radius
from flipproof.experiments.studies.study import CaseRows
from flipproof.experiments.studies.study_runner import study_results

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "peers.json"

# --- published figures beside ours

NO_FIGURE = "no figure on the same data"


@cache
def rows_of(data: str) -> dict[str, RunRows]:
    """Return the committed rows of an experiment, by run."""
    return dict(RowFile(ROOT / "reproduction" / data).runs())


@cache
def candidates(data: str, changes: str) -> tuple[Run, ...]:
    """Return the runs beyond the paper whose exact radii count changed labels, or changed rows."""
    return tuple(
        run
        for run in read_experiment(data).runs
        if run.group in ("beyond", "rows") and run.changes == changes and "exact" in run.methods
    )


def median(data: str, run: str) -> int:
    """Return the number of changes at which half of the test rows are still correct and certified."""
    return median_radius(rows_of(data)[run], "exact")


def shares(data: str, run: str, *flips: int) -> str:
    """Return certified accuracy at some numbers of changes, as text."""
    found = certified(rows_of(data)[run], "exact", flips)
    return " ".join(f"{share:.3f}@{r:,}".lstrip("0") for share, r in zip(found, flips, strict=True))


def highest(data: str, *flips: int) -> str:
    """Return the run with the highest certified accuracy on average over these numbers of changed labels, as text."""
    names = [run.name for run in candidates(data, "labels")]
    best = max(names, key=lambda name: certified(rows_of(data)[name], "exact", flips).mean())
    return f"{best}: {shares(data, best, *flips)}"


def accuracy_and_median(data: str, run: str, unit: str = "") -> str:
    """Return clean accuracy and median radius as text."""
    share = f"{clean_accuracy(rows_of(data)[run]):.3f}".lstrip("0")
    return f"clean {share}, median {median(data, run):,}{unit}"


def named(data: str, run: str) -> str:
    return f"{run}: {accuracy_and_median(data, run, ' rows')}"


def two_best(data: str, changes: str = "labels") -> str:
    """Return the most accurate run and the one with the largest median radius, as text; both may be the same."""
    names = [run.name for run in candidates(data, changes)]
    accurate = max(names, key=lambda name: (clean_accuracy(rows_of(data)[name]), median(data, name)))
    robust = max(names, key=lambda name: (median(data, name), clean_accuracy(rows_of(data)[name])))
    unit = " rows" if changes == "rows" else ""
    return "; ".join(f"{name}: {accuracy_and_median(data, name, unit)}" for name in dict.fromkeys((accurate, robust)))


def without_trusted_labels(*flips: int) -> str:
    """Return what IMDB's written ratings certify by the row that no label of IMDB has influenced, and by the best."""
    first = "written ratings, clusters, 2, joint vote"
    return f"{first}: {shares('imdb', first, *flips)}; {highest('imdb', *flips)} (chosen on 1,000 trusted labels)"


@cache
def study_rows(name: str) -> tuple[CaseRows, Mapping[str, Mapping[str, Any]]]:
    """Return the committed rows and records of a study, by case."""
    return study_results(read_study(name), ROOT / "reproduction" / name)


def cora(case: str, learner: str, *flips: int) -> str:
    found = certified(study_rows("graphs")[0][case][learner], "exact", flips)
    return " ".join(f"{shown(share)}@{r}" for share, r in zip(found, flips, strict=True))


def regression(data: str, learner: str) -> str:
    """Return the number of changed targets that half of the predictions withstand within a tolerance, as text."""
    rows, records = study_rows("regression")
    about, radius = TARGETS[data], np.median(rows[data][learner]["radius"])
    share = 100 * radius / records[data]["n_train"]
    return f"{about.title}: half of the predictions within {about.tolerance:g} at {radius:.0f} changes ({share:.1f} %)"


def multiplicity() -> str:
    """Return how often solvers of the definition, one written here and the published one, agree, as text."""
    published = json.loads((RESULTS.parent / "public_solver.json").read_text())["runs"]
    theirs = ", ".join(f"{one['same']} of {one['points']}" for one in published)
    compared = {TARGETS[case].title: same_radius(rows) for case, rows in study_rows("regression")[0].items()}
    own = ", ".join(f"{name} {same} of {points}" for name, (same, points) in compared.items())
    return f"the same radius: {own}; by their script on diabetes {theirs}"


def backdoor() -> str:
    """Return what a backdoor by labels does to an undefended model, and what is certified, as text."""
    lines = {line["model"]: line for line in json.loads((RESULTS.parent / "backdoor.json").read_text())}
    undefended, ours = lines["logistic regression"], lines["certified clusters, 2, joint vote"]
    return (
        f"success {100 * undefended['as_target_after']:.1f} % on logistic regression; "
        f"{100 * ours['certified_and_right']:.1f} % of triggered images certified by clusters"
    )


def nothing() -> str:
    return "none"


@dataclass(frozen=True)
class Published:
    """A published figure, ours on the same data, and what differs."""

    system: str
    data: str
    theirs: str
    ours: Callable[[], str]
    differs: str


REFERENCE = "ours assumes unlabelled reference images that nobody changed"

#: By what the adversary changes, and other questions. Theirs as their papers state them.
PUBLISHED: dict[str, list[Published]] = {
    "Changed labels": [
        Published(
            "the paper (Rosenfeld et al. 2020)",
            "MNIST 1/7",
            ".892@100 .747@500 .667@1,000",
            lambda: (
                f"ridge: {shares('mnist17', 'ridge, label-free lambda', 100, 500, 1000)}; "
                f"{highest('mnist17', 100, 500, 1000)}"
            ),
            "ridge: a similar network on the other digits, intercept, exact; theirs: bound by noise, no intercept",
        ),
        Published(
            "the paper",
            "MNIST",
            ".521@100 .201@500",
            lambda: (
                f"ridge: {shares('mnist', 'ridge, ICA, label-free lambda', 100, 500)}; {highest('mnist', 100, 500)}"
            ),
            "ridge: the same kind of features, exact, with an intercept",
        ),
        Published(
            "the paper",
            "Dogfish",
            ".808@25 .715@50 .517@100",
            lambda: (
                f"ridge: {shares('dogfish', 'ridge, label-free lambda', 25, 50, 100)}; "
                f"{highest('dogfish', 25, 50, 100)}"
            ),
            "ours is a stand-in: other dogs, other fish, other features",
        ),
        Published(
            "the paper",
            "IMDB",
            ".703@10 .581@50 .479@100 (q = 0.1)",
            lambda: f"ridge: {shares('imdb', 'ridge, TF-IDF', 10, 50, 100)}; {without_trusted_labels(10, 50, 100)}",
            "ours: TF-IDF of the training reviews instead of word2vec, and ratings that reviewers wrote; exact",
        ),
        Published(
            "the paper",
            "CIFAR10",
            "median 175",
            lambda: f"ridge: median {median('cifar10', 'ridge, label-free lambda'):,}",
            "ours: features from ImageNet; theirs: SimCLR on CIFAR10",
        ),
        Published(
            "k-means and a vote (Levine and Feizi 2021)",
            "MNIST 1/7",
            ".955@5,952",
            lambda: highest("mnist17", 5952),
            "the same idea; ours votes over both clusters together, on other features",
        ),
        Published(
            "SS-DPA (Levine and Feizi 2021), 1,200 parts",
            "MNIST",
            "clean .956, median 485",
            lambda: two_best("mnist"),
            "ours: UMAP of the training images without labels, exact for what is deployed; theirs: 1,200 networks",
        ),
        Published("SS-DPA, 3,000 parts", "MNIST", "clean .939, median 647", lambda: two_best("mnist"), "as above"),
        Published(
            "SS-DPA, 1,000 parts",
            "CIFAR10",
            "clean .890, median 392",
            lambda: two_best("cifar10"),
            "ours: features from ImageNet, one model; theirs: self-supervised features of CIFAR10, 1,000 heads",
        ),
        Published(
            "EnsembleCert, ScaLabelCert (2026)",
            "CIFAR10",
            "median about 496",
            lambda: two_best("cifar10"),
            "as SS-DPA, with a knapsack over the parts; no code was found",
        ),
        Published(
            "Meyer et al., linear models with biased labels",
            "MNIST 1/7",
            NO_FIGURE,
            lambda: f"ridge: {accuracy_and_median('mnist17', 'ridge, label-free lambda')}",
            "also exact, for two classes, with groups and directions of changes; a script, one point at a time",
        ),
        Published(
            "BagFlip, bagging",
            "MNIST",
            NO_FIGURE,
            lambda: two_best("mnist"),
            "theirs also covers changed features, with high probability; ours is deterministic "
            "(`SmoothedClassifier` is probabilistic as well: [smoothing.md](smoothing.md))",
        ),
        Published(
            "AGT (abstract gradient training)",
            "MNIST",
            NO_FIGURE,
            lambda: two_best("mnist"),
            "theirs: networks trained by gradient descent; its README says that its floats are not sound",
        ),
        Published(
            "LabelCert, QPCert",
            "Cora",
            NO_FIGURE,
            lambda: cora("cora", "ridge on two hops, clip=0.9", 0, 1, 2, 3),
            "theirs: infinitely wide graph networks and a commercial solver, small graphs; "
            "ours: linear, all 1,000 test nodes in seconds",
        ),
        Published(
            "FLIP (2023), an attack",
            "CIFAR10; ours MNIST 1/7",
            "success 99.4 % with 2 % of the labels",
            backdoor,
            "ours: a simpler attack of the same kind, 260 of 13,007 labels ([attacks.md](attacks.md))",
        ),
    ],
    "Changed rows": [
        Published(
            "DPA (Levine and Feizi 2021), 1,200 parts",
            "MNIST",
            "clean .9585, median 448 rows",
            lambda: two_best("mnist", "rows"),
            f"{REFERENCE}; theirs: 1,200 networks, no assumption; a replaced row is one change here and two there",
        ),
        Published(
            "DPA, 3,000 parts", "MNIST", "clean .9336, median 509 rows", lambda: two_best("mnist", "rows"), "as above"
        ),
        Published(
            "DPA, 50 parts",
            "CIFAR10",
            "clean .7016, median 9 rows",
            lambda: two_best("cifar10", "rows"),
            f"{REFERENCE}, and networks trained on ImageNet; theirs: 50 networks, no assumption",
        ),
        Published(
            "DPA, 250 parts", "CIFAR10", "clean .5565, median 5 rows", lambda: two_best("cifar10", "rows"), "as above"
        ),
        Published(
            "Finite Aggregation, Run-Off Election",
            "MNIST",
            "3 to 4 % more certified than DPA",
            lambda: two_best("mnist", "rows"),
            f"as DPA: {REFERENCE}",
        ),
        Published(
            "nearest neighbours, Jia et al. 2022",
            "MNIST",
            NO_FIGURE,
            lambda: named("mnist", "frozen UMAP, 2,500 neighbours"),
            "the same learner and adversary; theirs also certifies neighbours within a radius, and several test rows "
            "together; no code was found",
        ),
        Published(
            "nearest neighbours, Jia et al. 2022",
            "CIFAR10",
            NO_FIGURE,
            lambda: named("cifar10", "two networks, 2,000 cosine neighbours"),
            "as above; ours on features from ImageNet",
        ),
        Published(
            "FCert, LeFCert",
            "5 classes, 10 rows each",
            ".96 at 3 poisoned rows",
            nothing,
            "few-shot learning on a frozen encoder, LeFCert with a prior from text; "
            "`SentenceEncoder`, `ImageEncoder` and `prior=` are the parts for it here, not measured on few shots",
        ),
        Published(
            "ACRE",
            "",
            NO_FIGURE,
            nothing,
            "the range of a coefficient under removed rows; here "
            "`certify_coefficients` bounds coefficients under changed targets ([regression.md](regression.md))",
        ),
        Published(
            "temporal robustness (2023)",
            "",
            NO_FIGURE,
            nothing,
            "attacks in a period of time; `Adversary(window=...)` here ([adversaries.md](adversaries.md))",
        ),
    ],
    "Regression": [
        Published(
            "certified regression (2022)",
            "not the same",
            "half of the predictions at 1 % corruption",
            lambda: f"{regression('diabetes', 'ridge')}; {regression('adult', 'neighbours, median')}",
            "theirs: medians of parts, a commercial solver, rows; ours: targets changed within their range",
        ),
        Published(
            "dataset multiplicity, Meyer et al. 2023",
            "diabetes, German credit, Adult",
            NO_FIGURE,
            multiplicity,
            "the same answers, from the definition and from their published script ([regression.md](regression.md))",
        ),
    ],
}


def published_table(threat: str) -> str:
    """Return published figures beside ours, in Markdown."""
    rows = [["system", "data", "theirs", "ours", "what differs"], ["---"] * 5]
    rows += [[one.system, one.data, one.theirs, one.ours(), one.differs] for one in PUBLISHED[threat]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


#: Deep partition aggregation against changed rows: partitions, accuracy and median radius, by data set.
AGGREGATION = {"mnist": ((1200, 0.9585, 448), (3000, 0.9336, 509)), "cifar10": ((50, 0.7016, 9), (250, 0.5565, 5))}
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR10"}


def aggregation_table() -> str:
    """Return deep partition aggregation beside all committed runs against changed rows: docs/poisoned-rows.md."""
    rows = [["data", "method", "accuracy", "median radius"], ["---"] * 4]
    for data, known in AGGREGATION.items():
        for parts, accuracy, radius in known:
            rows.append(
                [TITLES[data], f"deep partition aggregation, {parts:,} partitions", f"{accuracy:.3f}", f"{radius}"]
            )
        for run in candidates(data, "rows"):
            share = f"{clean_accuracy(rows_of(data)[run.name]):.3f}"
            rows.append([TITLES[data], run.name, share, f"{median(data, run.name):,}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


# --- measured in one run

N_TRAIN, N_TEST, N_TARGETS = 4000, 300, 12

#: Changed labels, of 4,000.
FLIPS = (0, 10, 40, 200)

N_PARTS = 50


@dataclass(frozen=True)
class Problem:
    """Training and test rows, and labels changed to attack single test rows."""

    X: Any
    y: Any
    Z: Any
    truth: Any

    @property
    def targets(self) -> Any:
        """Test rows that are attacked."""
        return np.arange(N_TARGETS)

    def poisoned(self, flips: int) -> list[Any]:
        """Return one set of labels for each target: the best attack on ridge regression with these rows."""
        from flipproof import CertifiedRidgeClassifier
        from flipproof.core.votes import all_votes

        model = CertifiedRidgeClassifier(classes=[0, 1]).fit(self.X, self.y)
        votes = all_votes(model.votes_on(model.test_rows(self.Z[self.targets])))
        found = []
        for vote, predicted in zip(votes, model.predict(self.Z[self.targets]), strict=True):
            gain = np.where(self.y == predicted, vote, -vote)
            chosen = np.argsort(-gain, kind="stable")[:flips]
            labels = self.y.copy()
            labels[chosen] = np.where(gain[chosen] > 0, 1 - labels[chosen], labels[chosen])
            found.append(labels)
        return found


def problem(data_dir: str) -> Problem:
    from flipproof.datasets import load_mnist17
    from flipproof.features import pca_features

    data, rng = load_mnist17(data_home=data_dir), np.random.default_rng(0)
    some, others = rng.permutation(len(data.y_train))[:N_TRAIN], rng.permutation(len(data.y_test))[:N_TEST]
    X, Z = (np.asarray(rows, dtype=float).reshape(len(rows), -1) for rows in (data.X_train[some], data.X_test[others]))
    step = pca_features(50).fit(X)
    # 16 bits: the last bits of a product depend on the processor, and partitions on every bit of a row
    X, Z = (step.transform(rows).astype(np.float16).astype(float) for rows in (X, Z))
    y, truth = (np.asarray(labels).astype(int) == 7 for labels in (data.y_train[some], data.y_test[others]))
    return Problem(X, y.astype(int), Z, truth.astype(int))


def certified_line(given: Problem, model: Any) -> dict[str, Any]:
    from flipproof import certified_accuracy

    certificates = model.fit(given.X, given.y).certify(given.Z)
    found = certified_accuracy(given.truth, certificates, FLIPS)
    return {"kind": "certified", "accuracy": found.round(4).tolist()}


def attacked_line(given: Problem, make: Callable[[], Any]) -> dict[str, Any]:
    """Refit to labels that were changed to attack ridge regression on each target: others may be attacked better."""
    at = given.targets
    shares = []
    for flips in FLIPS:
        right = [
            make().fit(given.X, labels).predict(given.Z[i : i + 1])[0] == given.truth[i]
            for i, labels in zip(at, given.poisoned(flips), strict=True)
        ]
        shares.append(round(float(np.mean(right)), 4))
    return {"kind": "attacked", "accuracy": shares}


def ridge(given: Problem) -> dict[str, Any]:
    from flipproof import CertifiedRidgeClassifier

    return certified_line(given, CertifiedRidgeClassifier(classes=[0, 1]))


def clusters(given: Problem) -> dict[str, Any]:
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    from flipproof import CertifiedClusterClassifier

    k_means = KMeans(2, n_init=10, random_state=0)
    model = CertifiedClusterClassifier(k_means, vote="joint", features=StandardScaler(), classes=[0, 1])
    return certified_line(given, model)


def partitions(given: Problem) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    from flipproof import CertifiedPartitionClassifier

    return certified_line(given, CertifiedPartitionClassifier(LogisticRegression(), N_PARTS, classes=[0, 1]))


def art_ensemble(given: Problem) -> dict[str, Any]:
    """Train ART's partition ensemble; it has no certify(), so the radius follows here from its votes.

    A changed label changes one part, since parts depend on features alone: one vote less for the winner and one more
    for the rival.
    """
    import warnings

    import torch
    from art.estimators.classification import DeepPartitionEnsemble, PyTorchClassifier

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    net = torch.nn.Linear(given.X.shape[1], 2)
    scale = given.X.std()
    base = PyTorchClassifier(
        net, torch.nn.CrossEntropyLoss(), (given.X.shape[1],), 2, optimizer=torch.optim.Adam(net.parameters(), 0.05)
    )
    ensemble = DeepPartitionEnsemble(
        base,
        ensemble_size=N_PARTS,
        channels_first=True,
        hash_function=lambda x: int(abs(float(np.sum(x))) * 1e4) % N_PARTS,
    )
    ensemble.fit((given.X / scale).astype(np.float32), np.eye(2, dtype=np.float32)[given.y], nb_epochs=20)
    votes = ensemble.predict((given.Z / scale).astype(np.float32))
    predicted = votes.argmax(axis=1)
    ahead = votes.max(axis=1) - votes.min(axis=1)
    radius = np.maximum(np.where(predicted == 0, ahead // 2, (ahead - 1) // 2), 0)  # ties go to the lowest class
    is_right = predicted == given.truth
    return {"kind": "certified", "accuracy": [round(float((is_right & (radius >= r)).mean()), 4) for r in FLIPS]}


def scaled_logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def logistic(given: Problem) -> dict[str, Any]:
    return attacked_line(given, scaled_logistic)


def neighbors(given: Problem) -> dict[str, Any]:
    from sklearn.neighbors import KNeighborsClassifier

    return attacked_line(given, lambda: KNeighborsClassifier(5))


def forest(given: Problem) -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier

    return attacked_line(given, lambda: RandomForestClassifier(50, random_state=0))


def attacked_ridge(given: Problem) -> dict[str, Any]:
    from flipproof import CertifiedRidgeClassifier

    return attacked_line(given, lambda: CertifiedRidgeClassifier(classes=[0, 1]))


def with_cleanlab(given: Problem) -> dict[str, Any]:
    """Remove what cleanlab finds by logistic regression in five folds, and fit logistic regression to the rest."""
    from cleanlab.filter import find_label_issues
    from sklearn.model_selection import cross_val_predict

    found = []

    class Cleaned:
        def fit(self, X: Any, y: Any) -> Any:
            share = cross_val_predict(scaled_logistic(), X, y, cv=5, method="predict_proba")
            issues = find_label_issues(y, share, n_jobs=1)
            changed = y != given.y
            if changed.any():
                found.append(float(issues[changed].mean()))
            return scaled_logistic().fit(X[~issues], y[~issues])

    line = attacked_line(given, Cleaned)
    each = [round(float(np.mean(found[i : i + N_TARGETS])), 4) for i in range(0, len(found), N_TARGETS)]
    return {**line, "changed_labels_found": each}


SYSTEMS: dict[str, tuple[str, Callable[[Problem], dict[str, Any]]]] = {
    "ridge": ("flipproof: ridge", ridge),
    "clusters": ("flipproof: 2 clusters, joint vote", clusters),
    "partitions": (f"flipproof: {N_PARTS} partitions, logistic regression", partitions),
    "art": (f"ART 1.20: DeepPartitionEnsemble, {N_PARTS} linear models, radii computed by us", art_ensemble),
    "attacked_ridge": ("flipproof: ridge", attacked_ridge),
    "logistic": ("scikit-learn: logistic regression", logistic),
    "neighbors": ("scikit-learn: 5 neighbours", neighbors),
    "forest": ("scikit-learn: random forest of 50 trees", forest),
    "cleanlab": ("cleanlab 2.9, then logistic regression", with_cleanlab),
}

#: Packages whose versions are recorded with each line, and those of single systems.
PACKAGES = ("numpy", "scikit-learn")
OTHER_PACKAGES = {"art": ("adversarial-robustness-toolbox", "torch"), "cleanlab": ("cleanlab",)}

#: Modules that are loaded before the clock starts.
IMPORTS = {"art": ("torch", "art.estimators.classification"), "cleanlab": ("cleanlab.filter",)}


def run_one(name: str, file: str) -> dict[str, Any]:
    """Measure one system in this process: seconds without imports, and the most memory that the process ever held."""
    with np.load(file) as arrays:
        given = Problem(**{key: arrays[key] for key in arrays.files})
    for module in ("flipproof", "sklearn.linear_model", *IMPORTS.get(name, ())):
        import_module(module)
    start = time.perf_counter()
    line = SYSTEMS[name][1](given)
    seconds = time.perf_counter() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    used = {package: version(package) for package in (*PACKAGES, *OTHER_PACKAGES.get(name, ()))}
    return {"system": name, **line, "seconds": round(seconds, 2), "megabytes": round(most / 1024), "versions": used}


def committed() -> list[dict[str, Any]]:
    """Return the committed lines."""
    return list(json.loads(RESULTS.read_text()))


def measured_table(kind: str) -> str:
    """Return what was measured, in Markdown."""
    columns = ["system", *(f"@{flips}" for flips in FLIPS), "seconds", "memory"]
    rows = [columns, ["---", *("---:" for _ in columns[1:])]]
    for line in committed():
        if line["kind"] == kind:
            shares = [f"{one:.3f}" for one in line["accuracy"]]
            rows.append([SYSTEMS[line["system"]][0], *shares, f"{line['seconds']:.1f}", f"{line['megabytes']:,} MB"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def found_by_cleanlab() -> str:
    """Return the shares of changed labels that cleanlab found, as text."""
    line = next(one for one in committed() if one["system"] == "cleanlab")
    return " and ".join(f"{100 * one:.0f} %" for one in line["changed_labels_found"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--only", choices=SYSTEMS)
    parser.add_argument("--one", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", help=argparse.SUPPRESS)
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if options.prepare:
        given = problem(options.data_dir)
        np.savez(options.prepare, X=given.X, y=given.y, Z=given.Z, truth=given.truth)
    elif options.one:
        print(json.dumps(run_one(options.one, options.data_dir)))
    elif options.data_dir:
        kept = {line["system"]: line for line in committed()} if options.only else {}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "problem.npz"
            # in a process of its own: a child's peak of memory begins with that of its parent
            subprocess.run(
                [sys.executable, __file__, "--data-dir", options.data_dir, "--prepare", str(file)], check=True
            )
            for name in [options.only] if options.only else SYSTEMS:
                command = [sys.executable, __file__, "--data-dir", str(file), "--one", name]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                kept[name] = json.loads(done.stdout.splitlines()[-1])
                text = ",\n".join(json.dumps(kept[one]) for one in SYSTEMS if one in kept)
                RESULTS.write_text(f"[\n{text}\n]\n")
    elif options.tables:
        for threat in PUBLISHED:
            print(f"**{threat}**\n\n{published_table(threat)}\n")
        print(f"{aggregation_table()}\n\n{measured_table('certified')}\n\n{measured_table('attacked')}\n")
        print(f"cleanlab found {found_by_cleanlab()} of the changed labels.")
    else:
        parser.error("give --data-dir or --tables")


if __name__ == "__main__":
    main()
