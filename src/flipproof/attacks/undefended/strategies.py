"""Attack a logistic regression by the influence of labels, or by the distance of rows from the test row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.metrics import pairwise_distances

from flipproof.adversary import Adversary
from flipproof.attacks.result import NO_ATTACK, AttackResult
from flipproof.attacks.undefended.logistic import SoftmaxFit
from flipproof.attacks.undefended.logistic_target import MOST_RIVALS, Found, RowSearch, Trial, logistic_target
from flipproof.attacks.undefended.many_rows import attack_all_rows
from flipproof.attacks.undefended.search import narrowed
from flipproof.attacks.undefended.victim import NO_FLIPS, Flips, Victim
from flipproof.attacks.worst import MAX_FLIPS
from flipproof.core.rounding import Floats, Integers
from flipproof.parameters import (
    BOOLEAN,
    N_JOBS,
    VERBOSE,
    Constraints,
    check_arguments,
    check_parameters,
    function,
    instance,
)

#: Constraint on `metric`.
METRIC = instance(str, "the name of a metric") | function("a function of two rows")


@dataclass(frozen=True)
class DistanceAttack:
    """Change the labels of the training rows nearest to a test row until a logistic regression predicts another class.

    The paper's simplest attack: distance in feature space approximates influence. Labels are changed to the rival
    class. The model is fitted by Newton's method after 1, 2, 4, 8, ... flips, and a search over their number finds how
    many are needed. Finally the model itself is refitted on the changed labels: the attack counts only if *it* predicts
    another class. :class:`InfluenceAttack` almost always needs fewer flips.

    Parameters
    ----------
    max_flips : int, optional
        Give up on predictions that need more. Default: the number of changeable labels.
    reverse : bool
        Also try the farthest rows first, as the paper does; one refit shows whether that needs fewer flips.
    metric : str or callable
        Distance, as in :func:`sklearn.metrics.pairwise_distances`.
    n_jobs : int, optional
        Number of threads, each working on one test row. The result does not depend on it.
    verbose : int
        1: report progress on stderr.

    See Also
    --------
    flipproof.attacks.InfluenceAttack : Attack on the most influential labels.
    flipproof.attacks.undefended_attack : Attack on a logistic regression.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from flipproof.attacks import DistanceAttack
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = LogisticRegression().fit(X[10:], y[10:])
    >>> result = DistanceAttack(max_flips=250).attack(model, X[10:], y[10:], X[:10])
    >>> bool(result.success.any())
    True
    """

    parameter_constraints: ClassVar[Constraints] = {
        "max_flips": MAX_FLIPS,
        "reverse": BOOLEAN,
        "metric": METRIC,
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
    }

    max_flips: int | None = None
    reverse: bool = True
    metric: str | Callable[..., float] = "euclidean"
    n_jobs: int | None = None
    verbose: int = 0

    def attack(
        self, model: object, X: object, y: object, X_test: object, adversary: Adversary | None = None
    ) -> AttackResult:
        """Search for a small set of label changes that overturns each prediction.

        Parameters
        ----------
        model, X, y, X_test, adversary
            As for :meth:`InfluenceAttack.attack`.

        Returns
        -------
        AttackResult
            As of :meth:`InfluenceAttack.attack`.
        """
        check_parameters(self)
        target = logistic_target(model, X, y, X_test, adversary, type(self).__name__)
        return attack_all_rows(target, [self.strategy], self.max_flips, self.n_jobs, self.verbose, "distance attack")

    def strategy(self, search: RowSearch) -> None:
        """Attack one test row."""
        k = search.target.n_features
        distances = distances_to(search.target.regression.rows[:, :k], search.z[None, :k], self.metric)
        ranked = search.rivals()
        for rival in ranked[:MOST_RIVALS]:
            order = by_distance(search.target.victim, distances, search.winner, [rival, *ranked])
            search.try_order(order, rival)
            if self.reverse:
                search.try_order(order.backwards(), rival)


def distances_to(rows: object, z: object, metric: object) -> Floats:
    """Return the distances of all training rows from one test row."""
    return np.asarray(pairwise_distances(z, rows, metric=metric)[0], dtype=np.float64)


def by_distance(victim: Victim, distances: Floats, winner: int, wanted: list[int]) -> Flips:
    """Return label changes, nearest rows first, each to the first of the `wanted` classes.

    A label of the winner that cannot be changed to that class is changed to the next wanted class that is possible.
    Other labels that cannot be changed to that class are left unchanged.
    """
    new = new_labels(victim, winner, wanted)
    useful = np.flatnonzero(victim.powers.changeable & (new[victim.codes] >= 0))
    ranked = useful[np.argsort(distances[useful], kind="stable")]
    return Flips(ranked, new[victim.codes[ranked]])


def new_labels(victim: Victim, winner: int, wanted: list[int]) -> Integers:
    """Return the new label for the labels of each class, -1 where they are left unchanged."""
    possible = victim.powers.transitions
    new = np.where(possible[:, wanted[0]], wanted[0], -1)
    if new[winner] < 0:
        new[winner] = next((other for other in wanted if possible[winner, other]), -1)
    return new.astype(np.int64)


@dataclass(frozen=True)
class InfluenceAttack:
    """Change the labels with the most influence on a prediction until a logistic regression predicts another class.

    To first order, changing the label of training row j from a to e moves the optimum by the inverse Hessian times
    ``(delta_e - delta_a) x_j``, and with it the margin at a test row, in closed form. Labels are changed in the
    order of their effect on the margin; after 1, 2, 4, 8, ... of them the model is refitted and the influence of the
    others recomputed. A search over the number of flips then finds how many of the last round are needed. The labels
    are then chosen again by their influence on the overturned model, as long as this needs fewer of them. Fits use
    Newton's method, starting from the previous fit. Finally the model itself is refitted on the changed labels: the
    attack counts only if *it* predicts another class.

    The number of flips found is an upper bound: fewer may suffice.

    Parameters
    ----------
    max_flips : int, optional
        Give up on predictions that need more. Default: the number of changeable labels.
    reverse : bool
        Also try the least influential labels first, as the paper does; one refit shows whether that needs fewer flips.
    n_jobs : int, optional
        Number of threads, each working on one test row. The result does not depend on it.
    verbose : int
        1: report progress on stderr.

    See Also
    --------
    flipproof.attacks.DistanceAttack : Attack on the nearest labels.
    flipproof.attacks.undefended_attack : Attack on a logistic regression.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from flipproof.attacks import InfluenceAttack
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = LogisticRegression().fit(X[10:], y[10:])
    >>> result = InfluenceAttack().attack(model, X[10:], y[10:], X[:10])
    >>> bool(result.success.all())
    True
    """

    parameter_constraints: ClassVar[Constraints] = {
        "max_flips": MAX_FLIPS,
        "reverse": BOOLEAN,
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
    }

    max_flips: int | None = None
    reverse: bool = True
    n_jobs: int | None = None
    verbose: int = 0

    def attack(
        self, model: object, X: object, y: object, X_test: object, adversary: Adversary | None = None
    ) -> AttackResult:
        """Search for the fewest label changes that overturn each prediction.

        Parameters
        ----------
        model : LogisticRegression, or Pipeline that ends in one
            Fitted on X and y; with an l2 penalty or none, two classes or more.
        X, y : arrays
            The training rows and labels.
        X_test : array
            The test rows whose predictions are attacked.
        adversary : Adversary, optional
            Which labels can be changed, and to what. Default: any label to any class.

        Returns
        -------
        AttackResult
            `n_refits` counts every fit: by Newton's method, and of the model itself. An interrupt (Ctrl-C) ends the
            attack early: the attacks found so far are returned, and `attempted` is False for the other rows.
        """
        check_parameters(self)
        target = logistic_target(model, X, y, X_test, adversary, type(self).__name__)
        return attack_all_rows(
            target, [self.strategy], self.max_flips, self.n_jobs, self.verbose, name="influence attack"
        )

    def strategy(self, search: RowSearch) -> None:
        """Attack one test row."""
        rivals = most_easily_lifted(search)
        change_in_rounds(search, rivals[0][0])
        for rival, order in rivals[1:]:
            search.try_order(order, rival)
        choose_again(search)
        if self.reverse:
            rival, order = rivals[0]
            search.try_order(order.backwards(), rival)


def change_in_rounds(search: RowSearch, rival: int) -> None:
    """Double the number of changed labels until the prediction is overturned; recompute influences every round."""
    done, fit, margin = NO_FLIPS, search.target.clean, search.clean_margin
    while len(done) < search.worth_trying:
        order, _ = by_influence(search, fit, rival, done)
        upto = min(max(len(done), 1), search.worth_trying - len(done), len(order))
        if upto == 0:
            return
        trial = Trial(search, done, order, fit)
        margin_then = trial(upto)
        if margin_then <= 0:
            count = narrowed(trial, 0, upto, margin, margin_then)
            search.best = Found(done.then(order), len(done) + count, trial.fits[count], rival)
            return
        changed = trial.fits[upto]
        if changed is None or rival not in changed.present:
            return
        done, margin = done.then(order.first(upto)), margin_then
        fit = search.target.regression.with_own_hessian(changed)


def choose_again(search: RowSearch) -> None:
    """Choose all labels again by their influence on the overturned model, as long as this needs fewer of them."""
    fewer, known, order = 1, None, NO_FLIPS
    while (best := search.best) is not None and best.fit is not None and best.count > 1:
        if best is not known:
            if best.rival not in best.fit.present:
                return
            fit = search.target.regression.with_own_hessian(best.fit)
            known, (order, _) = best, by_influence(search, fit, best.rival, NO_FLIPS)
        count = min(max(best.count - fewer, 1), len(order))
        if count == 0:
            return
        trial = Trial(search, NO_FLIPS, order, best.fit)
        if trial(count) <= 0:
            search.best = Found(order, count, trial.fits[count], best.rival)
            fewer *= 2
        elif fewer > 1:
            fewer = 1
        else:
            return


def by_influence(search: RowSearch, fit: SoftmaxFit, rival: int, done: Flips) -> tuple[Flips, Floats]:
    """Return the changes that lower the margin over a rival class, largest first, and the gain of each."""
    victim = search.target.victim
    scores = search.target.regression.rows @ fit.pulls(search.z, search.winner, rival, search.n_classes).T
    everyone = np.arange(len(scores))
    # earlier changes may have left a class without rows, which the fit does not cover
    known = np.isin(np.arange(search.n_classes), fit.present)
    possible = victim.powers.transitions & np.outer(known, known)
    lowered = np.where(possible[victim.codes], scores[everyone, victim.codes][:, None] - scores, 0.0)
    new = lowered.argmax(axis=1)
    gain = np.where(victim.powers.changeable, lowered[everyone, new], 0.0)
    gain[done.rows] = 0.0
    useful = np.flatnonzero(gain > 0)
    ranked = useful[np.argsort(-gain[useful], kind="stable")]
    return Flips(ranked, new[ranked]), gain[ranked]


def most_easily_lifted(search: RowSearch) -> list[tuple[int, Flips]]:
    """Return the rival classes that seem to need the fewest flips, with the order of flips for each."""
    ranked = []
    for place, rival in enumerate(search.rivals()):
        order, gains = by_influence(search, search.target.clean, rival, NO_FLIPS)
        lead = search.logits[search.winner] - search.logits[rival]
        enough = int(np.searchsorted(np.cumsum(gains), lead))
        ranked.append((len(search.target.victim.codes) if enough == len(gains) else enough, place, rival, order))
    ranked.sort(key=lambda one: one[:2])
    return [(rival, order) for _, _, rival, order in ranked[:MOST_RIVALS]]


def undefended_attack(
    model: object,
    X: object,
    y: object,
    X_test: object,
    adversary: Adversary | None = None,
    max_flips: int | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> AttackResult:
    """Attack a logistic regression by influence and by distance, each also in reverse, and keep the best per test row.

    The paper's attack on undefended classifiers. Once one order succeeds with some number of flips, a single refit
    with one flip fewer shows whether another order is better, so this costs little more than :class:`InfluenceAttack`
    alone.

    Parameters
    ----------
    model : LogisticRegression, or Pipeline that ends in one
        Fitted on X and y; with an l2 penalty or none, two classes or more.
    X, y : arrays
        The training rows and labels.
    X_test : array
        The test rows whose predictions are attacked.
    adversary : Adversary, optional
        Which labels can be changed, and to what. Default: any label to any class.
    max_flips : int, optional
        Give up on predictions that need more.
    n_jobs : int, optional
        Number of threads, each working on one test row.
    verbose : int
        1: report progress on stderr.

    Returns
    -------
    AttackResult
        `n_refits` counts every fit: by Newton's method, and of the model itself. An interrupt (Ctrl-C) ends the attack
        early: the attacks found so far are returned, and `attempted` is False for the other rows.

    See Also
    --------
    flipproof.attacks.AnyClassifierAttack : Attack on any classifier.
    flipproof.attacks.InfluenceAttack : Attack on the most influential labels.
    flipproof.attacks.DistanceAttack : Attack on the nearest labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from flipproof.attacks import undefended_attack
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = LogisticRegression().fit(X[10:], y[10:])
    >>> undefended_attack(model, X[10:], y[10:], X[:10]).accuracy(y[:10], flips=[0, 100]).tolist()
    [1.0, 0.0]
    """
    constraints = {"max_flips": MAX_FLIPS, "n_jobs": N_JOBS, "verbose": VERBOSE}
    check_arguments("undefended_attack", constraints, max_flips=max_flips, n_jobs=n_jobs, verbose=verbose)
    target = logistic_target(model, X, y, X_test, adversary, "undefended_attack")
    strategies = [InfluenceAttack().strategy, DistanceAttack().strategy]
    return attack_all_rows(target, strategies, max_flips, n_jobs, verbose, name="influence and distance attack")


def strongest(*results: AttackResult) -> AttackResult:
    """Return, for each test row, the attack that needs the fewest flips; the first one in case of ties.

    Parameters
    ----------
    *results : AttackResult
        Attacks on the same predictions.

    Returns
    -------
    AttackResult
        The best attack on each test row.

    See Also
    --------
    flipproof.attacks.undefended_attack : Attack on a logistic regression.
    flipproof.attacks.AttackResult : Changed labels, by test row.

    Examples
    --------
    >>> from flipproof.attacks import strongest, worst_flips
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> patient, impatient = worst_flips(model, X[400:405]), worst_flips(model, X[400:405], max_flips=10)
    >>> bool((strongest(impatient, patient).flips_needed == patient.flips_needed).all())
    True
    """
    if not results:
        raise ValueError("strongest needs at least one AttackResult. Got none.")
    first = results[0]
    for other in results[1:]:
        if other.unit != first.unit or not np.array_equal(other.prediction, first.prediction):
            raise ValueError(
                "strongest compares attacks on the same predictions, counted in the same unit. Got "
                f"{first!r} and {other!r} instead."
            )
    needed = np.array([np.where(one.success, one.flips_needed, np.inf) for one in results])
    chosen = [results[i] for i in needed.argmin(axis=0)]
    success = np.isfinite(needed).any(axis=0)
    return AttackResult(
        flips_needed=np.where(success, needed.min(axis=0), NO_ATTACK).astype(np.int64),
        rows=tuple(one.rows[i] for i, one in enumerate(chosen)),
        new_labels=tuple(one.new_labels[i] for i, one in enumerate(chosen)),
        success=success,
        prediction=first.prediction.copy(),
        unit=first.unit,
        attack=f"best of {', '.join(dict.fromkeys(one.attack for one in results))}",
        n_refits=sum(one.n_refits for one in results),
        attempted=np.logical_or.reduce([np.asarray(one.attempted) for one in results]),
    )
