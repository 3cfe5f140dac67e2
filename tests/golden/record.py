"""Output of every learner, method, adversary and command on small real data, as plain values.

    PYTHONPATH=tests python -m golden.record    # writes tests/golden/values.json, where values are meant to change

The data sets are those that scikit-learn ships.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import flipproof
from flipproof import Adversary, Annotations, collective_certify
from flipproof.attacks import labels_to_audit, worst_flips
from flipproof.cli.group import run
from flipproof.streaming import StreamingKernelClassifier as KernelInBlocks
from flipproof.streaming import StreamingRidgeClassifier as RidgeInBlocks

FILE = Path(__file__).parent / "values.json"

#: Values are reproduced exactly with these versions; with others, the last bits of weights may differ.
PACKAGES = ("numpy", "scipy", "scikit-learn")

METHODS = ("exact", "tight", "kl")

#: Placeholder for a sentence.
PROSE = object()
N_TRAIN, N_TEST = 240, 8


class Parzen(flipproof.LabelLinearClassifier):
    """A learner that a user might write."""

    def fit_without_labels(self, X):
        self.rows_ = X

    def label_free_weights(self, Z):
        return np.exp(-((Z[:, None, :] - self.rows_) ** 2).mean(axis=2)), np.linspace(0.5, 0, len(self.classes_))[None]


def learners(classes):
    """Return learners by name; all parameters are given that the class set or random numbers could change."""
    given = {"classes": classes, "features": StandardScaler()}
    return {
        "ridge": flipproof.CertifiedRidgeClassifier(**given),
        "ridge, no intercept": flipproof.CertifiedRidgeClassifier(
            0.2, fit_intercept=False, regularization=3.0, **given
        ),
        "ridge, auto noise, 6 bits": flipproof.CertifiedRidgeClassifier("auto", precision=6, **given),
        "kernel": flipproof.CertifiedKernelClassifier(**given),
        "kernel, landmarks": flipproof.CertifiedKernelClassifier("laplacian", n_components=40, **given),
        "neighbours": flipproof.CertifiedNeighborsClassifier(15, **given),
        "neighbours, distance": flipproof.CertifiedNeighborsClassifier(20, weights="distance", **given),
        "clusters": flipproof.CertifiedClusterClassifier(KMeans(12, n_init=2, random_state=0), **given),
        "forest": flipproof.CertifiedForestClassifier(10, **given),
        "propagation": flipproof.CertifiedPropagationClassifier(8, **given),
        "custom": Parzen(**given),
        "partitions": flipproof.CertifiedPartitionClassifier(DecisionTreeClassifier(max_depth=4), 15, **given),
    }


def adversaries(classes):
    """Return adversaries by name."""
    trusted, groups = np.arange(N_TRAIN) % 4 == 0, np.arange(N_TRAIN) * 7 % 23
    allowed = [(classes[0], classes[1]), (classes[1], classes[0]), (classes[-1], classes[0])]
    return {
        "anybody": None,
        "trusted": Adversary(trusted=trusted),
        "groups": Adversary(groups=groups),
        "allowed": Adversary(allowed=allowed),
        "all three": Adversary(trusted=trusted, groups=groups, allowed=allowed),
    }


def of_certificates(certificates):
    """Return what certificates say, floats in hexadecimal: every bit counts."""
    return {
        "prediction": certificates.prediction.tolist(),
        "radius": certificates.radius.tolist(),
        "rival": certificates.rival.tolist(),
        "margin": [float(one).hex() for one in certificates.margin],
        "log_failure": [float(one).hex() for one in certificates.log_failure],
        "n_touchable": certificates.n_touchable,
    }


def recorded():
    """Compute all values, by name."""
    values = {}
    for name, load in (("digits", load_digits), ("breast cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        X, y, Z = X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN : N_TRAIN + N_TEST]
        classes = np.unique(y).tolist()
        for learner, model in learners(classes).items():
            model.fit(X, y)
            values |= _of_model(f"{name}: {learner}", model, Z, classes)
        scaled = StandardScaler().fit(X)
        blocks = [(scaled.transform(X[i : i + 70]), y[i : i + 70]) for i in range(0, N_TRAIN, 70)]
        for learner, model in {
            "ridge": RidgeInBlocks(classes=classes),
            "kernel": KernelInBlocks(n_components=40),
        }.items():
            model.fit(blocks)
            values |= _of_model(f"{name}: {learner} in blocks", model, scaled.transform(Z), classes)
    numbers = {name: of_intervals(intervals) for name, intervals in regressors()}
    return values | on_a_reference() | of_trust_and_crowds() | numbers | commands()


def _of_model(name, model, Z, classes):
    methods = ("gap",) if isinstance(model, flipproof.CertifiedPartitionClassifier) else METHODS
    found = {
        f"{name}, {method}, {who}": of_certificates(model.certify(Z, method, adversary))
        for method, (who, adversary) in product(methods, adversaries(classes).items())
    }
    if isinstance(model, flipproof.LabelLinearClassifier) and not isinstance(model, RidgeInBlocks | KernelInBlocks):
        for who, adversary in adversaries(classes).items():
            attack = worst_flips(model, Z, adversary)
            found[f"{name}, attack, {who}"] = {
                "flips_needed": attack.flips_needed.tolist(),
                "rows": [rows.tolist() for rows in attack.rows],
                "new_labels": [labels.tolist() for labels in attack.new_labels],
            }
        found[f"{name}, audit"] = {"rows": labels_to_audit(model, Z, top=10).rows.tolist()}
    if name.endswith(("ridge", "neighbours")) and len(classes) == 2:
        found[f"{name}, collective"] = {"most_changed": collective_certify(model, Z, 20).most_changed}
    return found


def on_a_reference():
    """Return certificates against changed rows, and against added or removed ones, of learners with a reference."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y, Z, R = X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN : N_TRAIN + N_TEST], X[N_TRAIN + N_TEST : N_TRAIN + N_TEST + 100]
    groups, found = np.arange(N_TRAIN) * 7 % 23, {}
    for name in ("ridge", "kernel", "kernel, landmarks", "neighbours", "clusters", "forest", "partitions"):
        model = learners([0, 1])[name]
        if name == "ridge":
            model.set_params(clip=0.9)
        model.fit(X, y, reference=R)
        for who, limits in {
            "rows": {"changes": "rows"},
            "trusted rows": {"changes": "rows", "trusted": np.arange(N_TRAIN) % 4 == 0},
            "sources": {"changes": "rows", "groups": groups},
            "insertions": {"changes": "insertions"},
            "removals": {"changes": "removals"},
        }.items():
            found[f"reference: {name}, {who}"] = of_certificates(model.certify(Z, adversary=Adversary(**limits)))
    return found


def of_trust_and_crowds():
    """Return certificates with a prior, with weights of labels, against windows of time, and of annotations."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y, Z = X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN : N_TRAIN + N_TEST]
    rows = np.arange(N_TRAIN)
    scaler, found = StandardScaler().fit(X), {}
    X, Z = scaler.transform(X), scaler.transform(Z)
    for name, make in {
        "ridge": flipproof.CertifiedRidgeClassifier,
        "neighbours": flipproof.CertifiedNeighborsClassifier,
        "forest": flipproof.CertifiedForestClassifier,
    }.items():
        prior = make(classes=[0, 1], prior=LogisticRegression()).fit(X, y, trusted=rows % 4 == 0)
        found |= {f"prior: {name}, {method}": of_certificates(prior.certify(Z, method)) for method in METHODS}
        weighted = make(classes=[0, 1]).fit(X, y, sample_weight=1 + rows % 3)
        found |= {f"weights: {name}, {method}": of_certificates(weighted.certify(Z, method)) for method in METHODS}
        plain = make(classes=[0, 1]).fit(X, y)
        windows = Adversary(window=rows * 7 % 41, length=3)
        found[f"windows: {name}"] = of_certificates(plain.certify(Z, adversary=windows))
        for aggregate in ("votes", "majority"):
            item = np.repeat(rows, 3)
            label = np.where(np.arange(len(item)) % 11 == 0, 1 - y[item], y[item])
            votes = Annotations.from_long(item, np.arange(len(item)) % 13, label, items=N_TRAIN, aggregate=aggregate)
            model = make(classes=[0, 1]).fit(X, votes)
            found[f"annotations: {name}, {aggregate}"] = of_certificates(model.certify(Z))
            who = Adversary(groups=votes.annotator)
            found[f"annotators: {name}, {aggregate}"] = of_certificates(model.certify(Z, adversary=who))
    return found


def regressors():
    """Yield intervals and radii of every regressor, by name."""
    X, y = load_diabetes(return_X_y=True)
    X, y, Z = X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN : N_TRAIN + N_TEST]
    for name, make in {
        "ridge": flipproof.CertifiedRidgeRegressor,
        "neighbours": flipproof.CertifiedNeighborsRegressor,
        "kernel": flipproof.CertifiedKernelRegressor,
        "forest": flipproof.CertifiedForestRegressor,
    }.items():
        model = make(target_range=(0, 350)).fit(X, y)
        for who, adversary in {
            "anybody": None,
            "trusted": Adversary(trusted=np.arange(N_TRAIN) % 4 == 0),
            "groups": Adversary(groups=np.arange(N_TRAIN) * 7 % 23),
            "small changes": Adversary(max_change=20.0),
        }.items():
            intervals = model.certify(Z, [0, 1, 5, 20], tolerance=10.0, adversary=adversary)
            yield f"regressor: {name}, {who}", intervals


def of_intervals(intervals):
    """Return what intervals say, floats in hexadecimal."""
    return {
        "prediction": [float(one).hex() for one in intervals.prediction],
        "low": [[float(one).hex() for one in line] for line in intervals.low],
        "high": [[float(one).hex() for one in line] for line in intervals.high],
        "radius": intervals.radius.tolist(),
    }


def commands():
    """Return what the commands print as JSON, less what differs from run to run."""
    data = load_wine()
    rows = [
        ",".join([*map(str, line), str(data.target_names[label])])
        for line, label in zip(data.data, data.target, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "wine.csv"
        columns = [f"f{i}" for i in range(data.data.shape[1])]
        who = [f"w{i % 9}" for i in range(len(rows))]
        lines = [f"{row},{name},{i % 5 == 0}" for i, (row, name) in enumerate(zip(rows, who, strict=True))]
        file.write_text("\n".join([",".join([*columns, "kind", "who", "checked"]), *lines]))
        common = ["--train", str(file), "--holdout", "0.2", "--label", "kind", "--json", "--quiet"]
        plain = ["--drop", "who,checked"]
        every = {
            "certify": ["certify", *common, *plain],
            "certify, three methods": [
                "certify",
                *common,
                *plain,
                "--method",
                "exact",
                "--method",
                "tight",
                "--method",
                "kl",
            ],
            "certify, annotators": [
                "certify",
                *common,
                "--annotator",
                "who",
                "--trusted",
                "checked",
                "--learner",
                "forest",
            ],
            "certify, requirement": ["certify", *common, *plain, "--min-certified-accuracy", "0.99@5"],
            "attack": ["attack", *common, *plain],
            "compare": ["compare", *common, *plain, "--learner", "ridge", "--learner", "forest", "--flips", "0,5,20"],
            "plan": ["plan", *common, *plain, "--budget", "20,40", "--flips", "0,5", "--reach", "0.9@5"],
            "attack, two rows": ["attack", *common, *plain, "--row", "134", "--row", "139"],
        }
        return {f"command: {name}": _said(arguments) for name, arguments in every.items()}


def _said(arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = run(arguments)
    return {"exit": code, "json": _stable(json.loads(out.getvalue()))}


def _stable(value):
    """Keep figures and names; leave out sentences, which may be worded better, and what differs from run to run."""
    left_out = ("assumptions", "checksum", "created", "facts", "random_errors", "software")
    left_out += ("fit_seconds", "certify_seconds")
    if isinstance(value, dict):
        kept = {key: _stable(one) for key, one in value.items() if key not in left_out}
        return {key: one for key, one in kept.items() if one is not PROSE}
    if isinstance(value, list):
        kept = [_stable(one) for one in value]
        return PROSE if kept and all(one is PROSE for one in kept) else kept
    return PROSE if isinstance(value, str) and " " in value else value


def versions():
    """Return the versions of the packages that decide the last bits."""
    return {name: version(name) for name in PACKAGES}


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FILE.write_text(json.dumps({"versions": versions(), "values": recorded()}, indent=0) + "\n")
