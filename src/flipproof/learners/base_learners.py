"""Fit anybody's classifiers and ask them, so that the answers depend on nothing but their own rows and labels.

A certificate about many small classifiers needs each of them to give the same answer whenever it is fitted to the same
rows and asked about the same test row. Floating-point sums do not: their last bits change with the number of threads
and with the rows that come along, and a last bit can turn a vote. So everything here runs on one thread, and a test row
is asked about alone, unless its answer provably does not depend on its company.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_backend
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from threadpoolctl import ThreadpoolController

from flipproof.learners.one_thread import on_one_thread
from flipproof.rounding import UNIT_ROUNDOFF, Floats, Integers
from flipproof.votes import EstimatedScores

Result = TypeVar("Result")

#: Predictions by comparisons, and by sums that are taken for each test row on its own and in a fixed order.
ROWS_APART = (
    DecisionTreeClassifier,
    ExtraTreeClassifier,
    RandomForestClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
)

#: Strategy of the DummyClassifier that stands in where all labels are the same.
ONE_CLASS = "most_frequent"

#: Transformers that treat every number on its own.
NUMBERS_APART = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)

#: Predictions by the highest of ``X @ coef_.T + intercept_``; with two classes, by its sign.
LINEAR = (LogisticRegression, RidgeClassifier, LinearSVC, SGDClassifier, Perceptron)


def on_one_core(compute: Callable[[], Result]) -> Result:
    """Return what `compute` returns without any other thread: of BLAS, of OpenMP, of joblib."""

    def without_others() -> Result:
        with _openmp_pools(len(sys.modules)).limit(limits=1), parallel_backend("sequential"):
            return compute()

    return on_one_thread(without_others)


@lru_cache(maxsize=1)
def _openmp_pools(n_modules: int) -> ThreadpoolController:
    """Find the OpenMP libraries of the process: a matter of milliseconds, and only a new module can bring a new one."""
    return ThreadpoolController().select(user_api="openmp")


def check_base_learner(estimator: Any, owner: str) -> None:
    """Refuse what cannot be a base learner."""
    needed = ("fit", "predict", "get_params")
    is_estimator = not isinstance(estimator, type) and all(hasattr(estimator, name) for name in needed)
    # what has no tags is not scikit-learn's own, and may well be a classifier
    if not is_estimator or (hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)):
        raise ValueError(
            f"The 'estimator' parameter of {owner} must be a scikit-learn classifier or None. "
            f"Got {estimator!r} instead."
        )


def fit_base_learners(
    estimator: Any, X: Floats, labels: NDArray[Any], members: list[Integers], n_jobs: int | None
) -> list[Any]:
    """Fit a clone of the estimator to each set of rows, in processes if there are to be several."""
    numbered = list(enumerate(members))
    n_workers = min(effective_n_jobs(n_jobs), len(members))
    if n_workers == 1:
        return _fit_each(estimator, X, labels, numbered, len(members))
    shares = [numbered[worker::n_workers] for worker in range(n_workers)]
    work = (delayed(_fit_each)(estimator, X, labels, share, len(members)) for share in shares)
    fitted: list[Any] = [None] * len(members)
    for worker, models in enumerate(Parallel(n_jobs=n_workers)(work)):
        fitted[worker::n_workers] = models
    return fitted


def _fit_each(
    estimator: Any, X: Floats, labels: NDArray[Any], members: list[tuple[int, Integers]], n_partitions: int
) -> list[Any]:
    def fit_one(number: int, rows: Integers) -> Any:
        X_part, y_part = X[rows].astype(np.float64, order="C"), labels[rows]
        present = np.unique(y_part)
        if len(present) == 1:  # many classifiers refuse a single class; there is nothing to learn from it anyway
            return DummyClassifier(strategy=ONE_CLASS).fit(X_part, y_part)
        try:
            return _with_fixed_random_states(clone(estimator)).fit(X_part, y_part)
        except Exception as error:
            raise ValueError(
                f"The base learner {type(estimator).__name__} could not be fitted to partition {number} of "
                f"{n_partitions} ({len(rows)} rows, {len(present)} classes): {' '.join(str(error).split())}"
            ) from error

    return on_one_core(lambda: [fit_one(number, rows) for number, rows in members])


def _with_fixed_random_states(estimator: Any) -> Any:
    """Set every random state that is not a number to 0: a generator moves on, and a refit would be another model."""
    names = [
        name
        for name, value in estimator.get_params().items()
        if name.endswith("random_state") and not isinstance(value, Integral)
    ]
    return estimator.set_params(**dict.fromkeys(names, 0))


def ask_base_learners(models: list[Any], classes: NDArray[Any], Z: Floats) -> NDArray[Any]:
    """Return the class code that each model predicts for each test row, shape (rows, models)."""
    Z = np.array(Z, dtype=np.float64, order="C")
    votes = np.empty((len(Z), len(models)), dtype=np.min_scalar_type(len(classes) - 1))

    def ask() -> None:
        for number, model in enumerate(models):
            votes[:, number] = _codes(_answers(model, Z), classes, model)

    on_one_core(ask)
    return votes


def _answers(model: Any, Z: Floats) -> NDArray[Any]:
    """Predict every row as if it came alone: those at once for which company makes no difference, the others alone."""
    answers, settled = _settled_answers(model, Z)
    if answers is not None and settled.all():
        return answers
    alone = np.flatnonzero(~settled)
    asked = [np.asarray(model.predict(Z[row : row + 1].copy())).reshape(1) for row in alone]
    if answers is None:
        return np.concatenate(asked)
    answers[alone] = np.concatenate(asked)
    return answers


def _settled_answers(model: Any, Z: Floats) -> tuple[NDArray[Any] | None, NDArray[np.bool_]]:
    """Predict all rows at once, where that is known to be worth while, and tell which answers are those of any company.

    Soundness: exact types only, since a subclass may predict as it likes.
    """
    is_constant = type(model) is DummyClassifier and model.strategy == ONE_CLASS
    if is_constant or type(model) in ROWS_APART:
        return np.asarray(model.predict(Z)), np.ones(len(Z), dtype=bool)
    if type(model) is Pipeline and len(model) > 1 and all(type(step) in NUMBERS_APART for step in model[:-1]):
        return _settled_answers(model[-1], model[:-1].transform(Z.copy()))
    if type(model) in LINEAR:
        leader, settled = _linear_scores(model, Z).decided()
        return np.asarray(model.classes_[leader]), settled
    return None, np.zeros(len(Z), dtype=bool)


def _linear_scores(model: Any, Z: Floats) -> EstimatedScores:
    """Return the scores of a linear classifier, and how far they may be from those that another company gives.

    Soundness: in whatever order its k products are added up, with or without fused operations, a score is within
    (k + 2) u (|x|'|w| + |b|) / (1 - (k + 2) u) of the true one, plus what underflow loses; twice that lies between any
    two of them. The bound below is as large again, for its own rounding.
    """
    n_terms = Z.shape[1] + 2
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not settled
        scores = np.asarray(model.decision_function(Z)).reshape(len(Z), -1)
        size = np.abs(Z) @ np.abs(np.atleast_2d(model.coef_)).T + np.abs(model.intercept_)
        error = 4 * n_terms * (UNIT_ROUNDOFF * size + np.finfo(np.float64).tiny)
    if scores.shape[1] == 1:  # the second class is predicted where the score is above 0
        nothing = np.zeros_like(scores)
        scores, error = np.hstack([nothing, scores]), np.hstack([nothing, error])
    return EstimatedScores(scores, error, np.zeros(len(Z), dtype=np.int64))


def _codes(answers: NDArray[Any], classes: NDArray[Any], model: Any) -> Integers:
    known = np.isin(answers, classes)
    if not known.all():
        raise ValueError(
            f"The base learner {type(model).__name__} predicts {answers[~known][0]!r}, which is none of the classes "
            f"{classes.tolist()}."
        )
    return np.searchsorted(classes, answers)
