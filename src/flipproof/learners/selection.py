"""Choose learners and their parameters by trusted labels only, so that certificates remain valid."""

from __future__ import annotations

import html
from collections.abc import Mapping
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
from flipproof.core.rounding import Integers, Values
from flipproof.errors import Parameter
from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.pipeline import certify, learner_in
from flipproof.metrics import n_correct
from flipproof.origins import frame_library, make_frame
from flipproof.parameters import Constraint, check_arguments, integer, parameter_error
from flipproof.readable import four_decimals, html_table, text_table
from flipproof.values import as_mask, label_values

Folds = list[tuple[Integers, Integers]]

GRID = "a dict of parameter names and lists of values, or a list of these dicts"

#: Candidates that a printed table shows.
MOST_PRINTED = 20


@dataclass(frozen=True)
class Candidate:
    """Parameters that were tried, and their score on the trusted rows; NaN and the error if they failed.

    `learner` is the name of the learner if there were several.
    """

    params: dict[str, Any]
    score: float
    error: str | None = None
    learner: str | None = None


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
        All candidates, in the order of the grid: ``learner``, ``params``, ``score`` and ``error``.
    adversary : Adversary
        The adversary that the choice is safe from: it cannot change the trusted labels.
    best_learner : str or None
        Name of the chosen learner, if several were given.
    flips : int
        Number of changed labels, of all, at which candidates were scored.
    """

    model: Any
    best_params: dict[str, Any]
    best_score: float
    candidates: tuple[Candidate, ...]
    adversary: Adversary
    best_learner: str | None = None
    flips: int = 0
    _frames: str | None = None

    @property
    def ranking(self) -> tuple[Candidate, ...]:
        """All candidates, the best one first; equal ones in the order of the grid, failed ones last."""
        return tuple(sorted(self.candidates, key=lambda one: np.inf if np.isnan(one.score) else -one.score))

    def __repr__(self) -> str:
        shown = text_table(*self._table())
        more = len(self.candidates) - MOST_PRINTED
        return f"{self._headline}\n{shown}" + (f"\n... and {more} more: see .to_frame()" if more > 0 else "")

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._headline)}</p>{html_table(*self._table())}"

    @property
    def _headline(self) -> str:
        trusted = int(np.count_nonzero(self.adversary.trusted))
        kinds = "learners and parameters" if self.best_learner is not None else "parameters"
        return (
            f"{len(self.candidates)} {kinds}, by certified accuracy at {self.flips:,} changed labels, within "
            f"{trusted:,} trusted rows:"
        )

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and lines of the ranking, as text."""
        names = list(dict.fromkeys(name for one in self.candidates for name in one.params))
        header = [*(["learner"] if self.best_learner is not None else []), *names, "score"]
        lines = []
        for one in self.ranking[:MOST_PRINTED]:
            values = [repr(one.params[name]) if name in one.params else "" for name in names]
            score = "failed" if np.isnan(one.score) else four_decimals(one.score)
            lines.append([*([str(one.learner)] if self.best_learner is not None else []), *values, score])
        return header, lines

    def facts(self) -> dict[str, object]:
        """Return the choice and all candidates, the best one first, in JSON types."""
        return {
            "flips": self.flips,
            "learner": self.best_learner,
            "parameters": self.best_params,
            "score": self.best_score,
            "candidates": [
                {
                    "learner": one.learner,
                    "parameters": one.params,
                    "score": None if one.error else one.score,
                    "error": one.error,
                }
                for one in self.ranking
            ],
        }

    def to_frame(self) -> Any:
        """Return the candidates as a data frame, the best one first.

        Returns
        -------
        data frame
            Of the same library as `X`, by default pandas. Columns: ``learner`` if there were several, the parameters,
            ``score`` and, if a candidate failed, ``error``. A parameter that takes several types of values is text.
        """
        ranking = self.ranking
        columns: dict[str, list[Any]] = {}
        if self.best_learner is not None:
            columns["learner"] = [one.learner for one in ranking]
        for name in dict.fromkeys(name for one in ranking for name in one.params):
            columns[name] = _one_type([one.params.get(name) for one in ranking])
        columns["score"] = [one.score for one in ranking]
        if any(one.error for one in ranking):
            columns["error"] = [one.error for one in ranking]
        return make_frame(columns, self._frames)

    def certify(
        self, X: object, method: str | None = None, *, groups: object = None, allowed: object = None
    ) -> Certificates:
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
    estimator: object,
    grid: object,
    X: object,
    y: ArrayLike,
    trusted: ArrayLike,
    *,
    flips: int,
    cv: int = 5,
    method: str | None = None,
    random_state: int = 0,
) -> TrustedSelection:
    """Choose learner and parameters by certified accuracy on trusted rows only, and fit the best ones to all rows.

    If parameters are tuned on labels that an attacker can change, the attack can change the parameters, which no
    certificate covers. Labels of trusted rows cannot be changed: parameters chosen by trusted rows alone are the same
    after any attack on the other labels.

    Parameters
    ----------
    estimator : learner of flipproof, or Pipeline that ends in one; or dict of several
        Cloned. If its `classes` are omitted, the choice uses the classes of the trusted labels. Several learners are
        given by name, ``{"ridge": CertifiedRidgeClassifier(), "forest": CertifiedForestClassifier()}``.
    grid : dict or list of dicts
        Parameter names and the values to try, as in scikit-learn's ParameterGrid. For several learners a dict of
        their grids, by the same names; a learner without a grid is tried as it is.
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
        It prints as a table of all candidates, the best one first; `to_frame` returns the table. Ties go to the first
        candidate: put simpler values first. A candidate that cannot be fitted to a fold has the score NaN and is never
        chosen.

    See Also
    --------
    flipproof.compare : Several models on the same test rows.
    flipproof.attacks.plan_audit : Simulate what checking labels buys.

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

    Several learners:

    >>> from flipproof import CertifiedNeighborsClassifier
    >>> learners = {"ridge": CertifiedRidgeClassifier(), "neighbors": CertifiedNeighborsClassifier()}
    >>> grids = {"ridge": grid, "neighbors": {"n_neighbors": [0.05, 0.1]}}
    >>> select_on_trusted(learners, grids, X[:1000], y[:1000], trusted, flips=20)
    5 learners and parameters, by certified accuracy at 20 changed labels, within 200 trusted rows:
    learner    regularization  n_neighbors   score
    neighbors                          0.1  0.6900
    ridge             10000.0               0.3400
    neighbors                         0.05  0.1050
    ridge               100.0               0.0250
    ridge           1000000.0               0.0000
    """
    learners = dict(estimator) if isinstance(estimator, Mapping) else {"": estimator}
    labels, mask = _checked(learners, y, trusted, flips, cv)
    check_consistent_length(X, labels)
    X_trusted, y_trusted = rows_of(X, np.flatnonzero(mask)), labels[mask]
    folds = _folds(y_trusted, cv, random_state)
    scaled_flips = [-(-flips * len(train) // len(labels)) for train, _ in folds]  # rounded up
    models = []
    for name, params in _all_parameters(learners, grid, isinstance(estimator, Mapping)):
        models.append((name, params, _with_params(_with_classes(learners[name], labels, mask), params)))
    candidates = []
    for name, params, model in models:
        try:
            score, error = _certified_share(model, X_trusted, y_trusted, folds, scaled_flips, method), None
        except ValueError as failure:
            score, error = np.nan, f"{failure}"
        candidates.append(Candidate(params, score, error, name or None))
    scores = np.array([candidate.score for candidate in candidates])
    if np.isnan(scores).all():
        raise ValueError(
            f"None of the {len(candidates)} candidates could be fitted to folds of the trusted rows. The first "
            f"one, {candidates[0].learner or ''}{candidates[0].params}, failed: {candidates[0].error}"
        )
    best = candidates[int(np.nanargmax(scores))]
    model = _with_params(learners[best.learner or ""], best.params).fit(X, y)
    values = {"parameters": parameter_values(best.params), "n_trusted": int(np.count_nonzero(mask))}
    if best.learner is None:
        chosen = Assumption("chosen-on-trusted", values)
    else:
        chosen = Assumption("learner-chosen-on-trusted", {"learner": best.learner, **values})
    learner_in(model).also_assume(chosen)
    return TrustedSelection(
        model=model,
        best_params=best.params,
        best_score=best.score,
        candidates=tuple(candidates),
        adversary=Adversary(trusted=mask),
        best_learner=best.learner,
        flips=int(flips),
        _frames=frame_library(X),
    )


def _is_learner(estimator: object) -> bool:
    return isinstance(_last_step(estimator), CertifiedClassifier)


CONSTRAINTS = {
    "estimator": Constraint(_is_learner, ("a flipproof learner", "a scikit-learn Pipeline that ends in one")),
    "flips": integer(0),
    "cv": integer(2),
}


def _checked(
    learners: Mapping[str, object], y: ArrayLike, trusted: ArrayLike, flips: int, cv: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return labels and mask as arrays; refuse invalid input."""
    check_arguments("select_on_trusted", CONSTRAINTS, flips=flips, cv=cv)
    if not learners:
        raise parameter_error("select_on_trusted", "estimator", "a learner, or a dict of at least one", {})
    for estimator in learners.values():
        check_arguments("select_on_trusted", CONSTRAINTS, estimator=estimator)
    labels, wanted = np.asarray(label_values(y)), "a mask of booleans, one for each label"
    mask = as_mask(trusted, str(Parameter("trusted", owner="select_on_trusted")), f"{wanted}.")
    if mask.shape != labels.shape:
        found = f"{mask.dtype} of shape {mask.shape} for labels of shape {labels.shape}"
        raise parameter_error("select_on_trusted", "trusted", wanted, found=found)
    if flips > len(labels):
        wanted = f"at most the number of labels, {len(labels)}"
        raise parameter_error("select_on_trusted", "flips", wanted, flips)
    if np.count_nonzero(mask) < cv:
        raise ValueError(
            f"select_on_trusted needs at least as many trusted rows as folds, {cv}. "
            f"Got {np.count_nonzero(mask)} instead: trust more rows, or use fewer folds."
        )
    return labels, mask


def _folds(y: Values, cv: int, random_state: int) -> Folds:
    smallest_class = np.unique(y, return_counts=True)[1].min()
    splitter = StratifiedKFold if smallest_class >= cv else KFold
    return list(splitter(cv, shuffle=True, random_state=random_state).split(np.zeros(len(y)), y))


def _last_step(estimator: object) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _with_classes(estimator: object, labels: Values, trusted: NDArray[np.bool_]) -> Any:
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


def _all_parameters(learners: Mapping[str, object], grid: object, by_name: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return the candidates: names of learners, and their parameters."""
    if not by_name:
        return [("", params) for params in _parameters(grid)]
    wanted = f"a dict of the grids of {', '.join(map(repr, learners))}"
    grids = {} if grid is None else grid
    if not isinstance(grids, Mapping):
        raise parameter_error("select_on_trusted", "grid", wanted, grid)
    for name in grids:
        if name not in learners:
            raise parameter_error("select_on_trusted", "grid", wanted, [*grids], f"there is no learner {name!r}.")
    return [(name, params) for name in learners for params in (_parameters(grids[name]) if grids.get(name) else [{}])]


def _one_type(values: list[Any]) -> list[Any]:
    """Return the values of a column of a data frame, as text if they have several types."""
    kinds = {type(value) for value in values if value is not None}
    plain = len(kinds) <= 1 and all(issubclass(kind, (bool, int, float, str)) for kind in kinds)
    is_number = kinds <= {int, float}
    if plain or is_number:
        return [float(value) if value is not None and is_number and len(kinds) > 1 else value for value in values]
    return [None if value is None else str(value) for value in values]


def _parameters(grid: object) -> list[dict[str, Any]]:
    try:
        parameters = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise parameter_error("select_on_trusted", "grid", GRID, grid) from error
    if not parameters or not any(parameters):
        raise parameter_error("select_on_trusted", "grid", GRID, grid, "it has no parameters to try.")
    return parameters


def _with_params(estimator: Any, params: dict[str, object]) -> Any:
    try:
        return clone(estimator).set_params(**clone(params, safe=False))
    except ValueError as error:
        known = ", ".join(sorted(estimator.get_params()))
        raise parameter_error("select_on_trusted", "grid", f"a dict of parameters from {known}", [*params]) from error


def _certified_share(model: object, X: object, y: Values, folds: Folds, flips: list[int], method: str | None) -> float:
    """Return the share of rows that are predicted correctly and certified when they are held out of the fit."""
    n_certified = 0
    for (train, test), n_flips in zip(folds, flips, strict=True):
        fitted = clone(model).fit(rows_of(X, train), y[train])
        certificates = certify(fitted, rows_of(X, test), method)
        # integer counts, so that equal candidates have equal scores
        n_certified += int(n_correct(y[test], certificates, [n_flips])[0])
    return n_certified / len(y)
