"""flipproof beside other systems: the tables in docs/peers.md.

    python benchmarks/peers.py --tables                       # print the tables from committed results
    python benchmarks/peers.py --data-dir DIR [--only NAME]   # measure, and write benchmarks/results/peers.json

Published figures are typed in once, here, with their source. Ours are read from the committed rows of reproduction/ and
benchmarks/results/. What can be installed is measured, each system in a process of its own, on 4,000
training rows of MNIST 1/7 (50 principal components). ART and cleanlab are not among flipproof's dependencies:

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flipproof.experiments.row_files import RowFile

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "peers.json"

# --- published figures beside ours


def certified(data: str, run: str, flips: int, method: str = "exact") -> float:
    """Return the share of test rows of a committed run that are correct and certified at a number of flips."""
    rows = RowFile(ROOT / "reproduction" / data).runs()[run]
    return float(((rows["prediction"] == rows.label) & (rows[method] >= flips)).mean())


def median(data: str, run: str) -> int:
    """Return the number of flips at which half of the test rows are still correct and certified."""
    rows = RowFile(ROOT / "reproduction" / data).runs()[run]
    radius = np.where(rows["prediction"] == rows.label, rows["exact"], -1)
    return int(np.sort(radius)[::-1][(len(radius) - 1) // 2])


def shares(data: str, run: str, *flips: int) -> str:
    return " ".join(f"{certified(data, run, r):.3f}@{r:,}".lstrip("0") for r in flips)


def clean_and_median(data: str, run: str) -> str:
    return f"clean {certified(data, run, 0):.3f}, median {median(data, run):,}"


def rows_of_mnist(learner: str) -> str:
    """Return clean accuracy and median radius in rows, from the committed rows of benchmarks/rows.py."""
    import rows

    found = [line for line in rows.committed("mnist") if line["learner"] == learner]
    is_right = np.array([int(line["label"]) == int(line["prediction"]) for line in found])
    radius = np.where(is_right, [int(line["rows"]) for line in found], -1)
    middle = int(np.sort(radius)[::-1][(len(radius) - 1) // 2])
    return f"clean {is_right.mean():.3f}, median {middle:,} rows"


def cora(which: str, learner: str, *flips: int) -> str:
    import graphs

    line = next(one for one in graphs.committed("cora") if one["labels"] == which and one["learner"] == learner)
    return " ".join(f"{graphs.share(line['accuracy'][graphs.FLIPS.index(r)])}@{r}" for r in flips)


@dataclass(frozen=True)
class Published:
    """A published figure, ours on the same data, and what differs."""

    system: str
    data: str
    theirs: str
    ours: Callable[[], str]
    differs: str


UMAP_NOTE = "ours: UMAP features without labels, exact for what is deployed; theirs:"

PUBLISHED = [
    Published(
        "the paper (Rosenfeld et al. 2020)",
        "MNIST 1/7",
        ".892@100 .747@500 .667@1,000",
        lambda: shares("mnist17", "ridge, label-free lambda", 100, 500, 1000),
        "ours: a similar network on the other digits, intercept, exact; theirs: bound by noise, no intercept",
    ),
    Published(
        "the paper",
        "MNIST",
        ".521@100 .201@500",
        lambda: shares("mnist", "ridge, ICA, label-free lambda", 100, 500),
        "the same kind of features; ours exact, with an intercept",
    ),
    Published(
        "the paper",
        "Dogfish",
        ".808@25 .715@50 .517@100",
        lambda: shares("dogfish", "ridge, label-free lambda", 25, 50, 100),
        "ours is a stand-in: other dogs, other fish, other features",
    ),
    Published(
        "the paper",
        "IMDB",
        ".703@10 .581@50 .479@100 (q = 0.1)",
        lambda: shares("imdb", "ridge, TF-IDF", 10, 50, 100),
        "ours: TF-IDF of the training reviews instead of word2vec, exact",
    ),
    Published(
        "the paper",
        "CIFAR10",
        "median 175",
        lambda: f"median {median('cifar10', 'ridge, label-free lambda'):,}",
        "ours: features from ImageNet; theirs: SimCLR on CIFAR10",
    ),
    Published(
        "k-means and a vote (Levine and Feizi 2021)",
        "MNIST 1/7",
        ".955@5,952",
        lambda: shares("mnist17", "clusters, 2, joint vote", 5952),
        "the same idea; ours votes over both clusters together, on whitened components",
    ),
    Published(
        "SS-DPA (Levine and Feizi 2021), 1,200 parts",
        "MNIST",
        "clean .956, median 485",
        lambda: clean_and_median("mnist", "UMAP, neighbours, 10 %"),
        f"{UMAP_NOTE} 1,200 networks on pixels",
    ),
    Published(
        "SS-DPA, 1,000 parts",
        "CIFAR10",
        "clean .890, median 392",
        lambda: clean_and_median("cifar10", "UMAP, neighbours, 8 %"),
        "ours: features from ImageNet, one model; theirs: self-supervised features of CIFAR10, 1,000 heads",
    ),
    Published(
        "EnsembleCert (2026)",
        "CIFAR10",
        "median about 496",
        lambda: clean_and_median("cifar10", "UMAP, neighbours, 8 %"),
        "as SS-DPA; no code was found",
    ),
    Published(
        "DPA (Levine and Feizi 2021), 1,200 parts, rows",
        "MNIST",
        "clean .9585, median 448 rows",
        lambda: rows_of_mnist("neighbours, 2,000"),
        "ours assumes unlabelled reference images that nobody changed; theirs: 1,200 networks, no assumption",
    ),
    Published(
        "LabelCert, QPCert",
        "Cora",
        "small graphs only",
        lambda: cora("few", "ridge on two hops, clip=0.9", 0, 1, 2, 3),
        "theirs: infinitely wide graph networks and a commercial solver; ours: linear, all 1,000 test nodes in seconds",
    ),
]


def published_table() -> str:
    """Return published figures beside ours, in Markdown."""
    rows = [["system", "data", "theirs", "ours", "what differs"], ["---"] * 5]
    rows += [[one.system, one.data, one.theirs, one.ours(), one.differs] for one in PUBLISHED]
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
    y, truth = (np.asarray(labels).astype(int) == 7 for labels in (data.y_train[some], data.y_test[others]))
    return Problem(step.transform(X), y.astype(int), step.transform(Z), truth.astype(int))


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


def run_one(name: str, file: str) -> dict[str, Any]:
    """Measure one system in this process: seconds with imports, and the most memory that the process ever held."""
    with np.load(file) as arrays:
        given = Problem(**{key: arrays[key] for key in arrays.files})
    start = time.perf_counter()
    line = SYSTEMS[name][1](given)
    seconds = time.perf_counter() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"system": name, **line, "seconds": round(seconds, 2), "megabytes": round(most / 1024)}


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
        print(f"{published_table()}\n\n{measured_table('certified')}\n\n{measured_table('attacked')}\n")
        print(f"cleanlab found {found_by_cleanlab()} of the changed labels.")
    else:
        parser.error("give --data-dir or --tables")


if __name__ == "__main__":
    main()
