"""Choose parameters without breaking the promise: by labels that nobody can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils.validation import check_consistent_length

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption, parameter_values
from flipproof.certificates import Certificates
from flipproof.core.rounding import Integers
from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.pipeline import certify, learner_in
from flipproof.metrics import n_correct
from flipproof.parameters import Constraint, check_arguments, integer, parameter_error
from flipproof.values import as_mask, label_values

Folds = list[tuple[Integers, Integers]]

GRID = "a dict of parameter names and lists of values, or a list of these dicts"


@dataclass(frozen=True)
class Candidate:
    """Parameters that were tried, and their score on the trusted rows; or NaN, and what went wrong."""

    params: dict[str, Any]
    score: float
    error: str | None = None


@dataclass(frozen=True, eq=False)
class TrustedSelection:
    """Parameters that were chosen on trusted labels, and a model with them.

    Attributes
    ----------
    model : learner or Pipeline
        Fitted to all rows. Its certificates state in `assumptions` on what the choice rests.
    best_params : dict
        The chosen parameters.
    best_score : float
        Their certified accuracy, cross-validated within the trusted rows. If it is 0, nothing could be
        certified at so many flips, whatever the parameters.
    candidates : tuple of Candidate
        Everything that was tried, in the order of the grid: ``params``, ``score`` and ``error``.
    adversary : Adversary
        Who cannot change the choice: somebody who cannot change the trusted labels.
    """

    model: Any
    best_params: dict[str, Any]
    best_score: float
    candidates: tuple[Candidate, ...]
    adversary: Adversary

    def certify(self, X: Any, method: str | None = None, *, groups: Any = None, allowed: Any = None) -> Certificates:
        """Predict and certify with `model`, against an adversary who cannot change the trusted labels.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            Default: the learner's own.
        groups, allowed : optional
            Further limits, as in :class:`flipproof.Adversary`.

        Returns
        -------
        Certificates
        """
        adversary = Adversary(trusted=self.adversary.trusted, groups=groups, allowed=allowed)
        return certify(self.model, X, method, adversary)


def select_on_trusted(
    estimator: Any,
    grid: Any,
    X: Any,
    y: ArrayLike,
    trusted: ArrayLike,
    *,
    flips: int,
    cv: int = 5,
    method: str | None = None,
    random_state: int = 0,
) -> TrustedSelection:
    """Choose parameters by certified accuracy on trusted rows only, and fit the best ones to all rows.

    Parameters that are tuned on labels which an attacker can change are changed by the attack, and no certificate knows
    of it. Labels of trusted rows cannot be changed: whatever was chosen by them alone, with the features of those rows,
    would have been chosen after any attack on the others.

    Parameters
    ----------
    estimator : learner of flipproof, or Pipeline that ends in one
        Cloned. If its `classes` are not given, those of the trusted labels are used for the choice.
    grid : dict or list of dicts
        Parameter names and the values to try, as in scikit-learn's ParameterGrid.
    X : array or data frame of shape (n, k)
        Features of all training rows.
    y : array of shape (n,)
        Labels of all training rows. Those that are not trusted are used in the last fit only.
    trusted : booleans of shape (n,)
        True for rows whose labels nobody can change.
    flips : int
        How many of all n labels an attack may change. Each fold has fewer labels, and is scored at the same share of
        them: its certified accuracy at ``ceil(flips * n_fold / n)`` changed labels, as if none of them were trusted.
    cv : int, default=5
        Number of folds within the trusted rows; stratified if every class has that many trusted rows.
    method : {"exact", "tight", "kl"}, optional
        How to certify the folds. Default: each candidate's own `method`.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    TrustedSelection
        Of equal scores the first wins: put simpler values first. A candidate that cannot be fitted to a fold has the
        score NaN and is never chosen.

    Notes
    -----
    The folds have fewer rows than the last fit. A number of neighbours or a fixed lambda that is best for them is the
    best for as many rows; for many more rows give parameters that are relative to their number, where there are such.

    At many flips the highest certified accuracy can be that of a model which predicts the same class for nearly all
    rows: see :func:`flipproof.certified_recall` of the result, and choose at fewer flips if it is 0 for some class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedRidgeClassifier, select_on_trusted
    >>> X, y = load_digits(return_X_y=True)
    >>> trusted = np.arange(1000) < 200
    >>> grid = {"regularization": [1e2, 1e4, 1e6]}
    >>> selection = select_on_trusted(CertifiedRidgeClassifier(), grid, X[:1000], y[:1000], trusted, flips=20)
    >>> selection.best_params
    {'regularization': 10000.0}
    >>> selection.certify(X[1000:])
    <Certificates: 797 predictions, method 'exact', median radius 11 of 800 labels>
    """
    labels, mask = _checked(estimator, y, trusted, flips, cv)
    check_consistent_length(X, labels)
    X_trusted, y_trusted = rows_of(X, np.flatnonzero(mask)), labels[mask]
    folds = _folds(y_trusted, cv, random_state)
    scaled_flips = [-(-flips * len(train) // len(labels)) for train, _ in folds]  # rounded up
    scored = _with_classes(estimator, labels, mask)
    models = [(params, _with_params(scored, params)) for params in _parameters(grid)]
    candidates = []
    for params, model in models:
        try:
            score = _certified_share(model, X_trusted, y_trusted, folds, scaled_flips, method)
            candidates.append(Candidate(params, score))
        except ValueError as error:
            candidates.append(Candidate(params, np.nan, f"{error}"))
    scores = np.array([candidate.score for candidate in candidates])
    if np.isnan(scores).all():
        raise ValueError(
            f"None of the {len(candidates)} candidates could be fitted to folds of the trusted rows. The first one, "
            f"{candidates[0].params}: {candidates[0].error}"
        )
    best = candidates[int(np.nanargmax(scores))]
    model = _with_params(estimator, best.params).fit(X, y)
    values = {"parameters": parameter_values(best.params), "n_trusted": int(np.count_nonzero(mask))}
    learner_in(model).also_assume(Assumption("chosen-on-trusted", values))
    return TrustedSelection(model, best.params, best.score, tuple(candidates), Adversary(trusted=mask))


def _is_learner(estimator: Any) -> bool:
    return isinstance(_last_step(estimator), CertifiedClassifier)


CONSTRAINTS = {
    "estimator": Constraint(_is_learner, ("a flipproof learner", "a scikit-learn Pipeline that ends in one")),
    "flips": integer(0),
    "cv": integer(2),
}


def _checked(
    estimator: Any, y: ArrayLike, trusted: ArrayLike, flips: int, cv: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return labels and mask as arrays, or say what is wrong."""
    check_arguments("select_on_trusted", CONSTRAINTS, estimator=estimator, flips=flips, cv=cv)
    labels, wanted = np.asarray(label_values(y)), "a mask of booleans, one for each label."
    mask = as_mask(trusted, "The 'trusted' parameter of select_on_trusted", wanted)
    if mask.shape != labels.shape:
        raise ValueError(
            f"The 'trusted' parameter of select_on_trusted must be {wanted} Got {mask.dtype} of shape {mask.shape} "
            f"for labels of shape {labels.shape} instead."
        )
    if flips > len(labels):
        raise ValueError(f"flips={flips} is more than all {len(labels)} labels.")
    if np.count_nonzero(mask) < cv:
        raise ValueError(
            f"select_on_trusted needs at least as many trusted rows as folds, {cv}. "
            f"Got {np.count_nonzero(mask)} trusted rows."
        )
    return labels, mask


def _folds(y: NDArray[Any], cv: int, random_state: int) -> Folds:
    smallest_class = np.unique(y, return_counts=True)[1].min()
    splitter = StratifiedKFold if smallest_class >= cv else KFold
    return list(splitter(cv, shuffle=True, random_state=random_state).split(np.zeros(len(y)), y))


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _with_classes(estimator: Any, labels: NDArray[Any], trusted: NDArray[np.bool_]) -> Any:
    """Return a clone that knows all classes, so that folds may lack some of them."""
    model = clone(estimator)
    if _last_step(model).classes is None:
        known = np.unique(labels[trusted])
        # the other labels are looked at to refuse them, and never to choose
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(
                f"No trusted row has a label {', '.join(map(repr, unknown[:3].tolist()))}, but other rows of y have: "
                "trust some rows of every class, or name all classes with the learner's classes=[...]."
            )
        _last_step(model).set_params(classes=known)
    return model


def _parameters(grid: Any) -> list[dict[str, Any]]:
    try:
        parameters = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise parameter_error("select_on_trusted", "grid", GRID, grid) from error
    if not parameters or not any(parameters):
        raise parameter_error("select_on_trusted", "grid", GRID, grid, "it names nothing to try.")
    return parameters


def _with_params(estimator: Any, params: dict[str, Any]) -> Any:
    try:
        return clone(estimator).set_params(**clone(params, safe=False))
    except ValueError as error:
        known = ", ".join(sorted(estimator.get_params()))
        raise parameter_error("select_on_trusted", "grid", f"a dict of parameters from {known}", [*params]) from error


def _certified_share(model: Any, X: Any, y: NDArray[Any], folds: Folds, flips: list[int], method: str | None) -> float:
    """Return the share of rows that are predicted correctly, and certified, when they are left out of the fit."""
    n_certified = 0
    for (train, test), n_flips in zip(folds, flips, strict=True):
        fitted = clone(model).fit(rows_of(X, train), y[train])
        certificates = certify(fitted, rows_of(X, test), method)
        # counted, so that equal candidates have equal scores
        n_certified += int(n_correct(y[test], certificates, [n_flips])[0])
    return n_certified / len(y)
