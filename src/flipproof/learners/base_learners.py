"""Fit base learners and collect their predictions, which depend only on each base learner's training rows and labels.

A certificate about many small classifiers needs each of them to predict the same whenever it is fitted to the same rows
and labels. Floating-point sums do not guarantee that: their last bits change with the number of threads and with the
other rows in the batch, and a last bit can change a vote. So everything here runs on one thread, and each test row is
predicted alone, unless its prediction provably does not depend on the batch. Random numbers are the same in each fit
and for each test row. Since no list of their sources is complete, one classifier is fitted twice and compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from functools import partial
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

from flipproof.core.rounding import UNIT_ROUNDOFF, Floats, Integers, Values
from flipproof.core.votes import EstimatedScores
from flipproof.learners.clones import own_clone
from flipproof.parameters import Constraint
from flipproof.runtime.determinism import on_one_core, start_anew, with_seeds
from flipproof.runtime.progress import CountedProgress, RowProgress

#: Classifiers that predict by comparisons, or by sums over each test row separately and in a fixed order.
ROW_WISE_CLASSIFIERS = (
    DecisionTreeClassifier,
    ExtraTreeClassifier,
    RandomForestClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
)

#: Strategy of the DummyClassifier that replaces the base learner where all labels are the same.
ONE_CLASS = "most_frequent"

#: Transformers that transform every number separately.
ELEMENTWISE_STEPS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)

#: Classifiers that predict the highest of ``X @ coef_.T + intercept_``; with two classes, its sign.
LINEAR_CLASSIFIERS = (LogisticRegression, RidgeClassifier, LinearSVC, SGDClassifier, Perceptron)

#: Tasks per worker: enough to show progress.
TASKS_PER_WORKER = 4

#: To check that a base learner is reproducible, its predictions are compared on this many of its training rows, and on
#: as many other rows.
ROWS_COMPARED = 50


def _is_base_learner(estimator: object) -> bool:
    needed = ("fit", "predict", "get_params")
    is_estimator = not isinstance(estimator, type) and all(hasattr(estimator, name) for name in needed)
    # estimators without tags are not from scikit-learn, and may well be classifiers
    return is_estimator and not (hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator))


#: What can be a base learner.
BASE_LEARNER = Constraint(_is_base_learner, ("a scikit-learn classifier",))


def fit_base_learners(
    estimator: object,
    X: Floats,
    labels: Values,
    members: list[Integers],
    n_jobs: int | None,
    progress: CountedProgress,
    which: Sequence[int] | None = None,
) -> list[Any]:
    """Fit a clone of the estimator to each set of rows, or to some of the sets; None means a set without rows.

    It runs in parallel processes if `n_jobs` says so. `progress` counts the fits.
    """
    numbered = [(number, members[number]) for number in (range(len(members)) if which is None else which)]
    n_workers = min(effective_n_jobs(n_jobs), len(numbered))
    n_tasks = len(numbered) if n_workers <= 1 else min(TASKS_PER_WORKER * n_workers, len(numbered))
    shares = [numbered[task::n_tasks] for task in range(n_tasks)]
    work = (delayed(_fit_each)(estimator, X, labels, share, len(members)) for share in shares)
    fitted: list[Any] = [None] * len(numbered)
    with closing(Parallel(n_jobs=max(n_workers, 1), return_as="generator")(work)) as results:
        for task, models in enumerate(results):
            fitted[task::n_tasks] = models
            progress.advance(len(models))
    return fitted


def _fit_each(
    estimator: object, X: Floats, labels: Values, members: list[tuple[int, Integers]], n_partitions: int
) -> list[Any]:
    def fit_one(number: int, rows: Integers) -> Any:
        present = np.unique(labels[rows])
        if len(present) == 0:
            return None
        if len(present) == 1:  # many classifiers refuse a single class, and there is nothing to learn
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


def check_reproducible(
    estimator: object,
    X: Floats,
    labels: Values,
    members: list[Integers],
    models: list[Any],
    which: Sequence[int] | None = None,
) -> None:
    """Refit one of the models, and refuse the estimator if a refit or a second call of `predict` predicts differently.

    The partition with the most classes, and then the most rows outside its largest class, is the one where random
    numbers have the most influence. It is refitted after all others, which also detects state that the latest fit
    leaves for the next. State that the very first fit leaves for all others is not detected: certificates assume that
    it does not exist. The check costs one more fit and some three hundred predictions. If only some of the models are
    new, `which` lists them.

    If the model refuses to predict rows of other partitions, only its own rows are compared: a row that is added to one
    partition must not make the fit of another fail.
    """
    numbers = range(len(members)) if which is None else which
    diversity = {number: _label_diversity(labels[members[number]]) for number in numbers}
    number = max(diversity, key=diversity.__getitem__, default=-1)
    if number < 0 or diversity[number][0] < 2:
        return
    rows, others = members[number], np.delete(np.arange(len(X)), members[number])
    Z = X[np.concatenate([_some(rows), _some(others)])].astype(np.float64, order="C")

    def observed(model: object) -> NDArray[Any]:
        return on_one_core(lambda: with_seeds(lambda: _observed(model, Z)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first fit, or predict, shows the same warnings
        [again] = _fit_each(estimator, X, labels, [(number, rows)], len(members))
        try:
            first = observed(models[number])
        except Exception:  # of any kind: this model may refuse a row of another partition, which an adversary added
            Z = X[_some(rows)].astype(np.float64, order="C")
            first = observed(models[number])
        refitted, repeated = observed(again), observed(models[number])
    for when, then in (("it is refitted to the same rows and labels", refitted), ("predict is called again", repeated)):
        n_different = int(np.count_nonzero((first != then).any(axis=1)))
        if n_different:
            raise ValueError(
                f"The base learner {type(estimator).__name__} must be reproducible, but predicts {n_different} of "
                f"{len(Z)} rows differently when {when}. Set random_state or seed to an integer wherever it draws "
                "random numbers, also in its steps. A learner that keeps state between fits cannot be certified."
            )


def _label_diversity(labels: Values) -> tuple[int, int]:
    """Return the number of classes, and the number of labels outside the largest class."""
    counts = np.unique(labels, return_counts=True)[1]
    return len(counts), int(counts.sum() - counts.max(initial=0))


def _some(rows: Integers) -> Integers:
    """Return at most `ROWS_COMPARED` of the rows, evenly spaced."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, ROWS_COMPARED).astype(np.int64))] if len(rows) else rows


def _observed(model: object, Z: Floats) -> NDArray[Any]:
    """Return the prediction of a model for each row and, if it has scores, their bits."""
    columns = [_predictions(model, Z).astype(object)]
    for name in ("decision_function", "predict_proba"):
        try:
            scores = np.asarray(getattr(model, name)(Z.copy()), dtype=np.float64).reshape(len(Z), -1)
        except Exception:  # many models have no scores, or not with these settings
            continue
        columns += list(scores.view(np.int64).T.astype(object))  # as bits, so that NaN equals NaN
    return np.stack(columns, axis=1)


def ask_base_learners(models: list[Any], classes: Values, Z: Floats, progress: RowProgress) -> NDArray[Any]:
    """Return the class code that each model predicts for each test row, shape (rows, models).

    Where there is no model, None, the code is the number of classes: a vote for nobody. Each row is predicted as if it
    were alone, so the pieces in which `progress` counts rows make no difference.
    """
    Z = np.array(Z, dtype=np.float64, order="C")
    nobody = len(classes)
    votes = np.full((len(Z), len(models)), nobody, dtype=np.min_scalar_type(nobody))

    def predict(rows: slice) -> None:
        for number, model in enumerate(models):
            if model is not None:
                votes[rows, number] = _codes(_predictions(model, Z[rows]), classes, model)

    for rows in progress.pieces([slice(0, len(Z))]):
        with progress.piece(rows.stop - rows.start):
            on_one_core(partial(with_seeds, partial(predict, rows)))
    return votes


def _predictions(model: object, Z: Floats) -> NDArray[Any]:
    """Predict every row as if it were alone: in one batch where the batch makes no difference, else one at a time."""
    predictions, settled = _batch_predictions(model, Z)
    if predictions is not None and settled.all():
        return predictions
    alone = np.flatnonzero(~settled)
    one_by_one = [_predict_alone(model, Z[row : row + 1].copy()) for row in alone]
    if predictions is None:
        return np.concatenate(one_by_one)
    predictions[alone] = np.concatenate(one_by_one)
    return predictions


def _predict_alone(model: Any, row: Floats) -> NDArray[Any]:
    start_anew()  # random numbers for a row must not depend on the rows predicted before
    return np.asarray(model.predict(row)).reshape(1)


def _batch_predictions(model: Any, Z: Floats) -> tuple[NDArray[Any] | None, NDArray[np.bool_]]:
    """Predict all rows in one batch, if that is safe for some, and tell for which rows any batch gives the same.

    Soundness: exact types only, since a subclass may predict in a different way.
    """
    is_constant = type(model) is DummyClassifier and model.strategy == ONE_CLASS
    if is_constant or type(model) in ROW_WISE_CLASSIFIERS:
        return np.asarray(model.predict(Z)), np.ones(len(Z), dtype=bool)
    if type(model) is Pipeline and len(model) > 1 and all(type(step) in ELEMENTWISE_STEPS for step in model[:-1]):
        return _batch_predictions(model[-1], model[:-1].transform(Z.copy()))
    if type(model) in LINEAR_CLASSIFIERS:
        leader, settled = _linear_scores(model, Z).decided()
        return np.asarray(model.classes_[leader]), settled
    return None, np.zeros(len(Z), dtype=bool)


def _linear_scores(model: Any, Z: Floats) -> EstimatedScores:
    """Return the scores of a linear classifier, and a bound on how far they may be from the scores in another batch.

    Soundness: in any order of summation of its k products, with or without fused operations, a score is within
    (k + 2) u (|x|'|w| + |b|) / (1 - (k + 2) u) of the true one, plus the loss by underflow; two computed scores differ
    by at most twice that. The bound below is doubled once more to cover its own rounding.
    """
    n_terms = Z.shape[1] + 2
    with np.errstate(over="ignore", invalid="ignore"):  # rows that overflow are not settled
        scores = np.asarray(model.decision_function(Z)).reshape(len(Z), -1)
        size = np.abs(Z) @ np.abs(np.atleast_2d(model.coef_)).T + np.abs(model.intercept_)
        error = 4 * n_terms * (UNIT_ROUNDOFF * size + np.finfo(np.float64).tiny)
    if scores.shape[1] == 1:  # the second class is predicted where the score is above 0
        nothing = np.zeros_like(scores)
        scores, error = np.hstack([nothing, scores]), np.hstack([nothing, error])
    return EstimatedScores(scores, error, np.zeros(len(Z), dtype=np.int64))


def _codes(predictions: Values, classes: Values, model: object) -> Integers:
    known = np.isin(predictions, classes)
    if not known.all():
        raise ValueError(
            f"The base learner {type(model).__name__} must predict one of the classes {classes.tolist()}. "
            f"Got {predictions[~known][0]!r} instead."
        )
    return np.searchsorted(classes, predictions)
