"""Fit anybody's classifiers and ask them, so that the answers depend on nothing but their own rows and labels.

A certificate about many small classifiers needs each of them to give the same answer whenever it is fitted to the same
rows and asked about the same test row. Floating-point sums do not: their last bits change with the number of threads
and with the rows that come along, and a last bit can turn a vote. So everything here runs on one thread, and a test row
is asked about alone, unless its answer provably does not depend on its company. Random numbers are the same in each fit
and for each test row; and since no list of their sources is complete, one classifier is fitted twice, and compared.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from flipproof.core.rounding import UNIT_ROUNDOFF, Floats, Integers
from flipproof.core.votes import EstimatedScores
from flipproof.determinism import on_one_core, start_anew, with_seeds
from flipproof.learners.clones import own_clone
from flipproof.parameters import Constraint

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

#: Rows of its own, and as many others, that a classifier is asked about to see whether it comes out the same.
ROWS_COMPARED = 50


def _is_base_learner(estimator: Any) -> bool:
    needed = ("fit", "predict", "get_params")
    is_estimator = not isinstance(estimator, type) and all(hasattr(estimator, name) for name in needed)
    # what has no tags is not scikit-learn's own, and may well be a classifier
    return is_estimator and not (hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator))


#: What can be a base learner.
BASE_LEARNER = Constraint(_is_base_learner, ("a scikit-learn classifier",))


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
        present = np.unique(labels[rows])
        if len(present) == 1:  # many classifiers refuse a single class; there is nothing to learn from it anyway
            return DummyClassifier(strategy=ONE_CLASS).fit(X[rows], labels[rows])

        def fit() -> Any:
            model = own_clone(estimator)
            model.fit(X[rows].astype(np.float64, order="C"), labels[rows])
            return model

        try:
            return with_seeds(fit)
        except Exception as error:
            raise ValueError(
                f"The base learner {type(estimator).__name__} could not be fitted to partition {number} of "
                f"{n_partitions} ({len(rows)} rows, {len(present)} classes): {' '.join(str(error).split())}"
            ) from error

    return on_one_core(lambda: [fit_one(number, rows) for number, rows in members])


def check_comes_out_the_same(
    estimator: Any, X: Floats, labels: NDArray[Any], members: list[Integers], models: list[Any]
) -> None:
    """Fit one of the models again, and refuse an estimator that comes out otherwise, or answers otherwise when asked.

    The part with the most classes, and the most rows besides those of its largest class, is the one in which random
    numbers have the most to decide. It is fitted after all others, so that what the latest fit leaves behind for the
    next shows too; what the very first one leaves for all others does not, and is assumed away. This costs one fit
    more, of as many as there are parts, and some three hundred answers.
    """
    telling = [_how_telling(labels[rows]) for rows in members]
    number = max(range(len(members)), key=telling.__getitem__)
    if telling[number][0] < 2:
        return
    rows, others = members[number], np.delete(np.arange(len(X)), members[number])
    Z = X[np.concatenate([_some(rows), _some(others)])].astype(np.float64, order="C")

    def observed(model: Any) -> NDArray[Any]:
        return on_one_core(lambda: with_seeds(lambda: _observed(model, Z)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to say has been said in the first fit, or is when it predicts
        [again] = _fit_each(estimator, X, labels, [(number, rows)], len(members))
        first, refitted, asked_again = (observed(model) for model in (models[number], again, models[number]))
    for when, then in (("fitted again to the same rows and labels", refitted), ("asked again", asked_again)):
        n_different = int(np.count_nonzero((first != then).any(axis=1)))
        if n_different:
            raise ValueError(
                f"The base learner {type(estimator).__name__} does not predict the same when it is {when}: "
                f"{n_different} of {len(Z)} rows differ. A certificate needs one that does. Give a number as "
                "random_state or seed to it, and to all that it is made of, wherever random numbers are drawn; what "
                "keeps something from one fit to the next cannot be certified."
            )


def _how_telling(labels: NDArray[Any]) -> tuple[int, int]:
    counts = np.unique(labels, return_counts=True)[1]
    return len(counts), int(counts.sum() - counts.max())


def _some(rows: Integers) -> Integers:
    """Return some of the rows, evenly spread."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, ROWS_COMPARED).astype(np.int64))] if len(rows) else rows


def _observed(model: Any, Z: Floats) -> NDArray[Any]:
    """Return what a model says about each row: its answer and, where there are some, its scores to the last bit."""
    columns = [_answers(model, Z).astype(object)]
    for name in ("decision_function", "predict_proba"):
        try:
            scores = np.asarray(getattr(model, name)(Z.copy()), dtype=np.float64).reshape(len(Z), -1)
        except Exception:  # many have none, or not with these settings
            continue
        columns += list(scores.view(np.int64).T.astype(object))  # as bits, in which NaN equals NaN
    return np.stack(columns, axis=1)


def ask_base_learners(models: list[Any], classes: NDArray[Any], Z: Floats) -> NDArray[Any]:
    """Return the class code that each model predicts for each test row, shape (rows, models)."""
    Z = np.array(Z, dtype=np.float64, order="C")
    votes = np.empty((len(Z), len(models)), dtype=np.min_scalar_type(len(classes) - 1))

    def ask() -> None:
        for number, model in enumerate(models):
            votes[:, number] = _codes(_answers(model, Z), classes, model)

    on_one_core(lambda: with_seeds(ask))
    return votes


def _answers(model: Any, Z: Floats) -> NDArray[Any]:
    """Predict every row as if it came alone: those at once for which company makes no difference, the others alone."""
    answers, settled = _settled_answers(model, Z)
    if answers is not None and settled.all():
        return answers
    alone = np.flatnonzero(~settled)
    asked = [_answer(model, Z[row : row + 1].copy()) for row in alone]
    if answers is None:
        return np.concatenate(asked)
    answers[alone] = np.concatenate(asked)
    return answers


def _answer(model: Any, row: Floats) -> NDArray[Any]:
    start_anew()  # random numbers for a row are the same, whatever rows were asked about before
    return np.asarray(model.predict(row)).reshape(1)


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
