"""Choose parameters by trusted labels only, so that certificates remain valid."""

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
    """Parameters that were tried, and their score on the trusted rows; NaN and the error if they failed."""

    params: dict[str, Any]
    score: float
    error: str | None = None


@dataclass(frozen=True, eq=False)
class TrustedSelection:
    """Parameters chosen on trusted labels, and a model fitted with them.

    Attributes
    ----------
    model : learner or Pipeline
        Fitted to all rows. The `assumptions` of its certificates include what the choice assumes.
    best_params : dict
        The chosen parameters.
    best_score : float
        Their certified accuracy, cross-validated within the trusted rows. If it is 0, no candidate has a
        correct prediction certified at that many flips.
    candidates : tuple of Candidate
        All candidates, in the order of the grid: ``params``, ``score`` and ``error``.
    adversary : Adversary
        The adversary that the choice is safe from: it cannot change the trusted labels.
    """

    model: Any
    best_params: dict[str, Any]
    best_score: float
    candidates: tuple[Candidate, ...]
    adversary: Adversary

    def certify(self, X: Any, method: str | None = None, *, groups: Any = None, allowed: Any = None) -> Certificates:
        """Predict and certify with `model`, against an adversary that cannot change the trusted labels.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            Default: the learner's `method`.
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

    If parameters are tuned on labels that an attacker can change, the attack can change the parameters, which no
    certificate covers. Labels of trusted rows cannot be changed: parameters chosen by trusted rows alone are the same
    after any attack on the other labels.

    Parameters
    ----------
    estimator : learner of flipproof, or Pipeline that ends in one
        Cloned. If its `classes` are omitted, the choice uses the classes of the trusted labels.
    grid : dict or list of dicts
        Parameter names and the values to try, as in scikit-learn's ParameterGrid.
    X : array or data frame of shape (n, k)
        Features of all training rows.
    y : array of shape (n,)
        Labels of all training rows. Labels that are not trusted are used only in the final fit.
    trusted : booleans of shape (n,)
        True for rows whose labels an attacker cannot change.
    flips : int
        Number of labels, of all n, that an attack may change. Each fold has fewer labels, and is scored at the same
        share of them: its certified accuracy at ``ceil(flips * n_fold / n)`` flips, as if no label were trusted.
    cv : int, default=5
        Number of folds within the trusted rows; stratified if every class has that many trusted rows.
    method : {"exact", "tight", "kl"}, optional
        How to certify the folds. Default: the `method` of each candidate.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    TrustedSelection
        Ties go to the first candidate: put simpler values first. A candidate that cannot be fitted to a fold has the
        score NaN and is never chosen.

    Notes
    -----
    The folds have fewer rows than the final fit, and the best number of neighbours or the best lambda depends on the
    number of rows. If there are many more rows, prefer parameters relative to their number, for example shares.

    At many flips, the highest certified accuracy may belong to a model that predicts the same class for nearly all
    rows: check :func:`flipproof.certified_recall` of the result, and choose at fewer flips if it is 0 for some class.

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
            f"None of the {len(candidates)} candidates could be fitted to folds of the trusted rows. The first "
            f"one, {candidates[0].params}, failed: {candidates[0].error}"
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
    """Return labels and mask as arrays; refuse invalid input."""
    check_arguments("select_on_trusted", CONSTRAINTS, estimator=estimator, flips=flips, cv=cv)
    labels, wanted = np.asarray(label_values(y)), "a mask of booleans, one for each label."
    mask = as_mask(trusted, "The 'trusted' parameter of select_on_trusted", wanted)
    if mask.shape != labels.shape:
        raise ValueError(
            f"The 'trusted' parameter of select_on_trusted must be {wanted} Got {mask.dtype} of shape {mask.shape} "
            f"for labels of shape {labels.shape} instead."
        )
    if flips > len(labels):
        wanted = f"at most the number of labels, {len(labels)}"
        raise parameter_error("select_on_trusted", "flips", wanted, flips)
    if np.count_nonzero(mask) < cv:
        raise ValueError(
            f"select_on_trusted needs at least as many trusted rows as folds, {cv}. "
            f"Got {np.count_nonzero(mask)} instead: trust more rows, or use fewer folds."
        )
    return labels, mask


def _folds(y: NDArray[Any], cv: int, random_state: int) -> Folds:
    smallest_class = np.unique(y, return_counts=True)[1].min()
    splitter = StratifiedKFold if smallest_class >= cv else KFold
    return list(splitter(cv, shuffle=True, random_state=random_state).split(np.zeros(len(y)), y))


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _with_classes(estimator: Any, labels: NDArray[Any], trusted: NDArray[np.bool_]) -> Any:
    """Return a clone with all classes set, so that folds may lack some of them."""
    model = clone(estimator)
    if _last_step(model).classes is None:
        known = np.unique(labels[trusted])
        # the other labels are read only to refuse them, never for the choice
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(
                f"No trusted row has a label {', '.join(map(repr, unknown[:3].tolist()))}, but other rows of y do: "
                "trust some rows of every class, or list all classes in the learner's classes=[...]."
            )
        _last_step(model).set_params(classes=known)
    return model


def _parameters(grid: Any) -> list[dict[str, Any]]:
    try:
        parameters = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise parameter_error("select_on_trusted", "grid", GRID, grid) from error
    if not parameters or not any(parameters):
        raise parameter_error("select_on_trusted", "grid", GRID, grid, "it has no parameters to try.")
    return parameters


def _with_params(estimator: Any, params: dict[str, Any]) -> Any:
    try:
        return clone(estimator).set_params(**clone(params, safe=False))
    except ValueError as error:
        known = ", ".join(sorted(estimator.get_params()))
        raise parameter_error("select_on_trusted", "grid", f"a dict of parameters from {known}", [*params]) from error


def _certified_share(model: Any, X: Any, y: NDArray[Any], folds: Folds, flips: list[int], method: str | None) -> float:
    """Return the share of rows that are predicted correctly and certified when they are held out of the fit."""
    n_certified = 0
    for (train, test), n_flips in zip(folds, flips, strict=True):
        fitted = clone(model).fit(rows_of(X, train), y[train])
        certificates = certify(fitted, rows_of(X, test), method)
        # integer counts, so that equal candidates have equal scores
        n_certified += int(n_correct(y[test], certificates, [n_flips])[0])
    return n_certified / len(y)
