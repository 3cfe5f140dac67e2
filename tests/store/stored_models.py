"""Small fitted models of every kind that can be stored, and digests of all that they certify.

As a script, it loads the models of a folder in a process of its own, and prints the digests.
"""

import dataclasses
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import flipproof
from flipproof import Adversary
from flipproof.features import GraphFeatures
from flipproof.runtime.files import digest_of_pieces

N_ROWS, N_COLUMNS = 36, 3


def rows(seed, n=N_ROWS):
    return np.random.default_rng(seed).normal(size=(n, N_COLUMNS))


X, REFERENCE, X_TEST = rows(0), rows(1, 20), rows(2, 5)
Y = np.random.default_rng(3).integers(0, 3, N_ROWS)
WORDS = np.array(["no", "yes, often", "ü"])[Y]
GRAPH = csr_array(np.abs(np.subtract.outer(np.arange(N_ROWS), np.arange(N_ROWS))) % 17 == 1, dtype=float)
UNLABELED = np.arange(N_ROWS) % 3 == 0

ridge, kernel = flipproof.CertifiedRidgeClassifier, flipproof.CertifiedKernelClassifier
neighbors, cluster = flipproof.CertifiedNeighborsClassifier, flipproof.CertifiedClusterClassifier
forest, partition = flipproof.CertifiedForestClassifier, flipproof.CertifiedPartitionClassifier
propagation = flipproof.CertifiedPropagationClassifier


def models():
    """Return fitted models by name."""
    steps = {"features": make_pipeline(StandardScaler(), PCA(2))}
    of_labels = {
        "ridge": ridge(),
        "ridge-binary": ridge(0.2, fit_intercept=False),
        "ridge-paper": ridge(regularization="paper", clip=0.8, classes=range(3)),
        "ridge-auto": ridge("auto", clip="sign", regularization=0.5, precision=6, **steps),
        "kernel": kernel(),
        "kernel-cosine": kernel("cosine", fit_intercept=False, **steps),
        "kernel-landmarks": kernel("poly", n_components=9),
        "neighbors": neighbors(5),
        "neighbors-cosine": neighbors(0.2, metric="cosine", weights="distance", **steps),
        "neighbors-measured": neighbors(metric="cityblock"),
        "cluster": cluster(),
        "cluster-mixture": cluster(GaussianMixture(2)),
        "cluster-without-predict": cluster(AgglomerativeClustering(3)),
        "cluster-with-noise": cluster(DBSCAN(eps=0.9, min_samples=3)),
        "forest": forest(4, **steps),
        "partition": partition(n_partitions=18),
        "partition-trees": partition(DecisionTreeClassifier(max_depth=3), 4, **steps),
    }
    fitted = {}
    for name, model in of_labels.items():
        labels = Y > 0 if name == "ridge-binary" else Y
        fitted[name] = model.fit(X, labels)
    for name, model in {"propagation": propagation(4), "propagation-poisson": propagation(4, rule="poisson")}.items():
        fitted[name] = model.fit(X, WORDS, UNLABELED)
    nodes = {
        "graph": propagation(graph=GRAPH, clip=0.9),
        "graph-features": ridge(features=GraphFeatures(GRAPH, X, hops=1)),
    }
    for name, model in nodes.items():
        fitted[name] = model.fit(np.arange(N_ROWS)[:30], WORDS[:30])
    of_rows = {
        "ridge": ridge(clip=0.9),
        "kernel": kernel(n_components=7, **steps),
        "neighbors": neighbors(5),
        "neighbors-cosine": neighbors(5, metric="cosine", **steps),
        "neighbors-measured": neighbors(5, metric="cityblock"),
        "cluster": cluster(KMeans(3)),
        "cluster-mini": cluster(MiniBatchKMeans(3, n_init=1)),
        "forest": forest(4),
        "partition": partition(n_partitions=5, **steps),
    }
    for name, model in of_rows.items():
        model.fit(X[:-4], WORDS[:-4], reference=REFERENCE).partial_fit(X[-4:], WORDS[-4:]).forget([2, 5])
        fitted[f"{name} with reference"] = model
    trusted = np.arange(N_ROWS) % 2 == 0
    for name, model in {"ridge": ridge(prior=DecisionTreeClassifier()), "forest": forest(3, grow="supervised")}.items():
        fitted[f"{name} with trusted labels"] = model.fit(X, WORDS, trusted=trusted)
    fitted["pipeline"] = make_pipeline(StandardScaler(), ridge()).fit(X, Y)
    return fitted


def adversaries(learner, every):
    """Return adversaries of every kind for a model, with methods: every one, or those that differ most."""
    n = learner.n_rows_
    noisy = ("exact", "tight", "kl") if hasattr(learner, "method") else (None,)
    trusted, groups = np.arange(n) % 4 == 0, np.arange(n) % 7
    allowed = [(learner.classes_[1], learner.classes_[0])]
    labels = [None, Adversary(trusted=trusted), Adversary(groups=groups), Adversary(trusted=trusted, allowed=allowed)]
    found = [(one, method) for one in labels for method in noisy if every or one is None or method == noisy[0]]
    if learner.covers_rows:
        of_rows = [Adversary("rows"), Adversary("insertions", trusted), Adversary("removals", groups=groups)]
        found += [(one, noisy[0]) for one in of_rows]
    return found


def digest_of_certificates(certificates):
    pieces = [repr(certificates.assumptions), certificates.method, certificates.unit, str(certificates.n_touchable)]
    for one in dataclasses.fields(certificates):
        value = getattr(certificates, one.name)
        if isinstance(value, np.ndarray):
            pieces += [one.name, value.dtype.str, value.tobytes()]
    return digest_of_pieces(pieces)


def digests(model, every=False):
    """Return digests of predictions, scores and all certificates of a model."""
    learner = model[-1] if hasattr(model, "steps") else model
    rows = X_TEST
    if getattr(learner, "n_nodes_", None) is not None or isinstance(getattr(learner, "features", None), GraphFeatures):
        rows = np.array([3, 35, 0, 34, 17])
    found = [digest_of_pieces([model.predict(rows).tobytes(), model.decision_function(rows).tobytes()])]
    for adversary, method in adversaries(learner, every):
        found.append(digest_of_certificates(flipproof.certify(model, rows, method, adversary)))
    return found


if __name__ == "__main__":
    warnings.simplefilter("error")
    folder = Path(sys.argv[1])
    every = "every" in sys.argv
    found = {file.stem: digests(flipproof.load(file), every) for file in sorted(folder.glob("*.flipproof"))}
    sys.stdout.write(json.dumps(found))
