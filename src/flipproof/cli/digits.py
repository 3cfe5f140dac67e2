"""Computations of `flipproof demo`: scikit-learn's digits, certified by every method."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import train_test_split

from flipproof.assumptions import Assumption
from flipproof.certificate_words import certificate_sentence
from flipproof.certificates import METHODS, Certificates
from flipproof.core.rounding import Values
from flipproof.displays.curves import Panel, panels_figure
from flipproof.learners.ridge import CertifiedRidgeClassifier
from flipproof.readable import percent
from flipproof.report.text import AccuracySummary, TextTable, accuracy_table, summarize

#: Share of test rows.
TEST_SHARE = 0.25

#: Noise q of "tight" and "kl": the smallest value in the paper. Less noise certifies more.
NOISE = 1e-4

#: Numbers of changed labels in the tables.
FLIPS = (0, 5, 10, 20, 30, 40)

#: Kernel principal components per class. Neither this rule nor the one for the kernel width uses labels: tuning them to
#: the labels of a split would void its certificates.
COMPONENTS_PER_CLASS = 2

FIGURE_DPI = 160


@dataclass(frozen=True)
class Problem:
    """A set of digits to classify."""

    title: str
    digits: tuple[int, ...]


PROBLEMS = (Problem("1 against 7", (1, 7)), Problem("all ten classes", tuple(range(10))))


@dataclass(frozen=True)
class Outcome:
    """Certificates of a problem, by method, with the true classes."""

    problem: Problem
    y_true: NDArray[Any]
    certificates: tuple[Certificates, ...]
    regularization: float

    @property
    def exact(self) -> Certificates:
        """The exact certificates."""
        return self.certificates[METHODS.index("exact")]

    @property
    def summary(self) -> AccuracySummary:
        """The values of the table."""
        return summarize(self.y_true, self.certificates, FLIPS)


def certify_digits(seed: int, announce: Callable[[str], None]) -> list[Outcome]:
    """Fit and certify both problems; `announce` is called with the name of each step before it begins."""
    X, y = load_digits(return_X_y=True)
    return [_certify_problem(problem, X, y, seed, announce) for problem in PROBLEMS]


def _certify_problem(problem: Problem, X: Values, y: Values, seed: int, announce: Callable[[str], None]) -> Outcome:
    rows = np.isin(y, problem.digits)
    X_train, X_test, y_train, y_test = train_test_split(X[rows], y[rows], test_size=TEST_SHARE, random_state=seed)
    learner = CertifiedRidgeClassifier(noise=NOISE, features=_features(X_train, problem), classes=problem.digits)
    learner.fit(X_train, y_train)
    certificates = []
    for method in METHODS:
        announce(f"{problem.title}: {method} certificates for {len(X_test)} test rows")
        certificates.append(learner.certify(X_test, method=method))
    return Outcome(problem, y_test, tuple(certificates), learner.regularization_)


def _features(X_train: Values, problem: Problem) -> KernelPCA:
    """Return kernel PCA with gamma="scale" of scikit-learn's SVC; the learner fits it without labels."""
    gamma = 1 / (X_train.shape[1] * X_train.var())
    return KernelPCA(
        COMPONENTS_PER_CLASS * len(problem.digits), kernel="rbf", gamma=gamma, eigen_solver="dense", random_state=0
    )


def title(outcome: Outcome) -> str:
    """Return the title of a problem."""
    return f"Digits: {outcome.problem.title}"


def headline(outcome: Outcome) -> list[str]:
    """Return a few lines about the problem and the classifier."""
    summary = outcome.summary
    components = COMPONENTS_PER_CLASS * summary.n_classes
    return [
        f"n = {summary.n_train} training labels, {summary.n_test} test rows, K = {summary.n_classes} classes",
        f"clean accuracy {percent(summary.methods[0].clean_accuracy)} "
        f"(constant classifier: {percent(summary.constant_accuracy)})",
        f"ridge on {components} kernel principal components, fitted without labels",
        f"lambda = {outcome.regularization:.3g}, the mean eigenvalue, computed without labels",
    ]


def table(outcome: Outcome) -> TextTable:
    """Return certified accuracy at several numbers of flips."""
    return accuracy_table(outcome.summary)


def legend() -> str:
    """Return an explanation of the tables."""
    return (
        "The tables show certified accuracy: the share of test rows that are predicted correctly and guaranteed "
        "unchanged, no matter which labels are changed. exact: the true share, without noise; tight and kl: proved "
        f"with noise on the labels, as in the paper; each label is changed at random with probability q = {NOISE:g}."
    )


def typical_certificate(outcome: Outcome) -> tuple[str, tuple[Assumption, ...]]:
    """Return a sentence about a correct prediction of median radius, and the assumptions of its certificate."""
    exact = outcome.exact
    correct = np.flatnonzero(exact.prediction == outcome.y_true)
    by_radius = correct[np.argsort(exact.radius[correct], kind="stable")]
    row = int(by_radius[len(by_radius) // 2])
    names = [f"a {digit}" for digit in outcome.problem.digits]
    return certificate_sentence(exact, row, names), exact.assumptions


def outcomes_json(outcomes: list[Outcome], figure: Path, proof: Path, verdict: str) -> str:
    """Return the values of the tables, the paths of curves and proof, and the verdict on the proof as JSON."""
    problems = [{"title": title(outcome), **asdict(outcome.summary)} for outcome in outcomes]
    files = {"curves": str(figure), "proof": str(proof), "verdict": verdict}
    return json.dumps({"problems": problems, **files}, indent=1)


def figure_png(outcomes: list[Outcome]) -> bytes:
    """Draw the curves of all problems side by side."""
    panels = [
        Panel(
            f"{title(outcome)} (n = {outcome.summary.n_train}, K = {outcome.summary.n_classes})",
            outcome.y_true,
            outcome.certificates,
        )
        for outcome in outcomes
    ]
    buffer = io.BytesIO()
    panels_figure(panels).savefig(buffer, format="png", dpi=FIGURE_DPI)
    return buffer.getvalue()
