"""The classifiers of an experiment, and what is recorded of them at each test row."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from flipproof.attacks import smoothed_attack, undefended_attack
from flipproof.attacks.interrupts import StopSign, set_by_interrupt
from flipproof.experiments.spec import Run
from flipproof.learners.cluster import CertifiedClusterClassifier
from flipproof.learners.neighbors import CertifiedNeighborsClassifier
from flipproof.learners.ridge import CertifiedRidgeClassifier, LabelDependenceWarning
from flipproof.rounding import Integers

#: What a missing number is in a row: no certificate by that method, or no attack.
NOTHING = -2

#: Columns of numbers, one row for each test row of a run.
COLUMNS = ("prediction", "kl", "tight", "exact", "flips_needed", "flips_to_half")


def _clusters(n_clusters: int, seed: int, **parameters: Any) -> CertifiedClusterClassifier:
    return CertifiedClusterClassifier(KMeans(n_clusters, n_init=10, random_state=seed), **parameters)


def _without_seed(kind: Callable[..., Any]) -> Callable[..., Any]:
    return lambda seed, **parameters: kind(**parameters)


#: From a name in a spec to a learner.
LEARNERS: Mapping[str, Callable[..., Any]] = {
    "ridge": _without_seed(CertifiedRidgeClassifier),
    "neighbors": _without_seed(CertifiedNeighborsClassifier),
    "clusters": _clusters,
    "logistic": _without_seed(LogisticRegression),
}


def fitted(run: Run, X: NDArray[Any], y: Integers, classes: tuple[int, ...], seed: int) -> Any:
    """Return the classifier of a run, fitted."""
    if run.learner not in LEARNERS:
        raise ValueError(f"There is no learner {run.learner!r}. Known: {', '.join(LEARNERS)}.")
    parameters = dict(run.parameters)
    if not run.is_undefended:
        parameters["classes"] = list(classes)
    with warnings.catch_warnings():
        # the paper's lambda reads the labels; the tables say so
        warnings.simplefilter("ignore", LabelDependenceWarning)
        return LEARNERS[run.learner](seed=seed, **parameters).fit(X, y)


def facts(model: Any) -> dict[str, float]:
    """Return what a fit has settled, for the record."""
    return {name: float(getattr(model, name)) for name in ("regularization_",) if hasattr(model, name)}


def measure(run: Run, model: Any, X: NDArray[Any], y: Integers, Z: NDArray[Any]) -> dict[str, Integers]:
    """Certify, and if asked attack, some test rows: one array for each of the columns."""
    columns = {name: np.full(len(Z), NOTHING, dtype=np.int64) for name in COLUMNS}
    if run.is_undefended:
        with _all_or_nothing():
            attack = undefended_attack(model, X, y, Z)
        return columns | {"prediction": attack.prediction.astype(np.int64), "flips_needed": attack.flips_needed}
    for method in run.methods:
        certificates = model.certify(Z, method)
        columns[method] = certificates.radius.astype(np.int64)
        columns["prediction"] = certificates.prediction.astype(np.int64)
    if run.attacked:
        with _all_or_nothing():
            smoothed = smoothed_attack(model, Z)
        columns |= {"flips_needed": smoothed.flips_needed, "flips_to_half": smoothed.flips_to_half}
    return columns


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    """Raise an interrupt at the end: attacks would return what they have, which is not what they would have found."""
    stopped = StopSign()
    with set_by_interrupt(stopped):
        yield
    if stopped.is_set():
        raise KeyboardInterrupt
