"""A logistic regression under attack, and the search for the fewest flips that overturn a prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from flipproof.adversary import Adversary
from flipproof.attacks.undefended.logistic import SoftmaxFit, SoftmaxRegression, margin_of
from flipproof.attacks.undefended.search import fewest, fewest_from, narrowed
from flipproof.attacks.undefended.victim import NO_FLIPS, Flips, Victim, features_of, name_of, victim_of
from flipproof.core.rounding import Floats
from flipproof.runtime.progress import StopSign

#: Number of rival classes that an attack tries: those that seem to need the fewest flips.
MOST_RIVALS = 2

#: Solvers of LogisticRegression that minimise the objective of :mod:`flipproof.attacks.undefended.logistic`.
SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga")


class Stopped(Exception):  # noqa: N818 - not an error
    """Raised in a search that was told to stop."""


@dataclass(frozen=True)
class LogisticTarget:
    """A victim whose refits are cheap.

    Attributes
    ----------
    victim : Victim
        The model, its labels and its predictions.
    regression : SoftmaxRegression
        Fits the same objective.
    clean : SoftmaxFit
        The fit to the unchanged labels.
    Z : floats of shape (m, k)
        The test rows, with the constant column if there is an intercept.
    n_features : int
        Number of columns without the constant one.
    """

    victim: Victim
    regression: SoftmaxRegression
    clean: SoftmaxFit
    Z: Floats
    n_features: int


@dataclass(frozen=True)
class Found:
    """The best attack so far: the first `count` changes of `order`, the fit after them, and the rival class."""

    order: Flips
    count: int
    fit: SoftmaxFit | None
    rival: int


class RowSearch:
    """The search for the fewest flips against one test row.

    Margins come from Newton fits; at the end :meth:`confirmed` refits the model itself.
    """

    def __init__(self, target: LogisticTarget, row: int, max_flips: int | None, stopped: StopSign) -> None:
        self.target, self.row, self.stopped = target, row, stopped
        victim = target.victim
        n_changeable = int(np.count_nonzero(victim.powers.changeable))
        self.most = n_changeable if max_flips is None else min(max_flips, n_changeable)
        self.z = target.Z[row]
        self.winner = int(victim.prediction[row])
        self.n_classes = len(victim.classes)
        self.logits = target.clean.logits(self.z[None], self.n_classes)[0]
        self.clean_margin = margin_of(self.logits, self.winner)
        self.best: Found | None = None
        self.n_refits = 0

    @property
    def worth_trying(self) -> int:
        """The largest number of changes that would improve on the best attack."""
        return self.most if self.best is None else self.best.count - 1

    def rivals(self) -> list[int]:
        """Return the rival classes, highest score first."""
        ranked = np.argsort(-self.logits, kind="stable")
        return [int(d) for d in ranked if d != self.winner]

    def refit(self, flips: Flips, start: SoftmaxFit | None) -> tuple[float, SoftmaxFit | None]:
        """Return the margin of the prediction after some changes: -inf if its class is gone, inf if there is no fit."""
        if self.stopped.is_set():
            raise Stopped
        codes = flips.applied_to(self.target.victim.codes)
        present = np.flatnonzero(np.bincount(codes))
        if len(present) < 2:
            return np.inf, None
        if self.winner not in present:
            return -np.inf, None
        self.n_refits += 1
        fit = self.target.regression.fit(codes, start or self.target.clean, (self.z, self.winner))
        return margin_of(fit.logits(self.z[None], self.n_classes)[0], self.winner), fit

    def try_order(self, order: Flips, rival: int) -> None:
        """Keep the shortest prefix of a sequence of changes that overturns the prediction, if it beats the best."""
        most = min(self.worth_trying, len(order))
        if most < 1:
            return
        trial = Trial(self, NO_FLIPS, order, self.target.clean if self.best is None else self.best.fit)
        if self.best is None:
            count = fewest(trial, most, self.clean_margin)
        else:  # one refit decides
            at_most = trial(most)
            count = None if at_most > 0 else narrowed(trial, 0, most, self.clean_margin, at_most)
        if count is not None:
            self.best = Found(order, count, trial.fits[count], rival)

    def confirmed(self) -> Flips | None:
        """Return the best attack, extended until the model itself predicts another class."""
        if self.best is None:
            return None
        order, tries = self.best.order, 0

        def margin(count: int) -> float:
            nonlocal tries
            if tries and self.stopped.is_set():
                raise Stopped
            tries, self.n_refits = tries + 1, self.n_refits + 1
            after = self.target.victim.predictions_after(order.first(count), self.row)
            return 1.0 if after is None or after[0] == self.winner else -1.0

        count = fewest_from(margin, self.best.count, min(self.most, len(order)))
        return None if count is None else order.first(count)


class Trial:
    """Margins after the changes `done` and the first few of `order`; keeps the fits."""

    def __init__(self, search: RowSearch, done: Flips, order: Flips, start: SoftmaxFit | None) -> None:
        self.search, self.done, self.order, self.start = search, done, order, start
        self.fits: dict[int, SoftmaxFit | None] = {}

    def __call__(self, count: int) -> float:
        """Return the margin after the first `count` changes of `order`."""
        margin, self.fits[count] = self.search.refit(self.done.then(self.order.first(count)), self.start)
        return margin


#: One way to search for an attack; stores the best in the search.
Strategy = Callable[[RowSearch], None]


def logistic_target(
    model: Any, X: Any, y: Any, X_test: Any, adversary: Adversary | None, attack: str
) -> LogisticTarget:
    """Check that a model is a logistic regression fitted on X and y, and fit it by Newton's method."""
    _check_logistic(model, attack)
    victim = victim_of(model, X, y, X_test, adversary)
    last = model[-1] if isinstance(model, Pipeline) else model
    _check_multinomial(last, attack)
    rows, Z = (check_array(features_of(model, part), dtype=np.float64) for part in (X, X_test))
    penalty = np.full(rows.shape[1], _inverse_strength(last))
    if last.fit_intercept:
        rows, Z = (np.hstack([part, np.ones((len(part), 1))]) for part in (rows, Z))
        penalty = np.append(penalty, 0.0)
    regression = SoftmaxRegression(rows, penalty)
    clean = regression.with_own_hessian(regression.fit(victim.codes))
    return LogisticTarget(victim, regression, clean, Z, last.n_features_in_)


def _inverse_strength(model: LogisticRegression) -> float:
    return 0.0 if getattr(model, "penalty", "l2") is None else 1.0 / model.C


def _check_logistic(model: object, attack: str) -> None:
    last = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(last, LogisticRegression) or isinstance(last, LogisticRegressionCV):
        got = f"a Pipeline that ends in {type(last).__name__}" if last is not model else name_of(model)
        raise _refused(attack, f"Got {got} instead")
    for name, is_known in (
        ("penalty", getattr(last, "penalty", "l2") in ("deprecated", "l2", None)),
        ("l1_ratio", not last.l1_ratio),
        ("class_weight", last.class_weight is None),
        ("solver", last.solver in SOLVERS),
        ("dual", not last.dual),
    ):
        if not is_known:
            raise _refused(attack, f"Got {name}={getattr(last, name)!r} instead")


def _check_multinomial(model: LogisticRegression, attack: str) -> None:
    """Refuse other objectives for several classes, which scikit-learn before 1.8 offers."""
    way = getattr(model, "multi_class", "deprecated")
    if way not in ("deprecated", "auto") and (way == "ovr") == (len(model.classes_) > 2):
        raise _refused(attack, f"Got multi_class={way!r} instead")


def _refused(attack: str, got: str) -> ValueError:
    return ValueError(
        f"{attack} attacks a LogisticRegression with an l2 penalty or none, without class weights, with one of the "
        f"solvers {', '.join(SOLVERS)}, or a Pipeline that ends in one. {got}: use AnyClassifierAttack, which attacks "
        "any classifier."
    )
