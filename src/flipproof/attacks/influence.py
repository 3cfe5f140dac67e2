"""Attack a logistic regression by the influence of every label on a prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flipproof.attacks.logistic import SoftmaxFit
from flipproof.attacks.logistic_target import MOST_RIVALS, Found, RowSearch, Trial, logistic_target
from flipproof.attacks.result import AttackResult
from flipproof.attacks.runner import attack_all_rows
from flipproof.attacks.search import narrowed
from flipproof.attacks.victim import NO_FLIPS, Flips
from flipproof.certificates import Adversary
from flipproof.rounding import Floats


@dataclass(frozen=True)
class InfluenceAttack:
    """Change the labels with the most influence on a prediction, until a logistic regression predicts otherwise.

    To first order, changing the label of training row j from a to e moves the optimum by the inverse Hessian times
    ``(delta_e - delta_a) x_j``, and with it the margin at a test row, in closed form. Labels are changed in the
    order of what they take off the margin; after 1, 2, 4, 8, ... of them the model is fitted again and the influence of
    the others computed anew. A search over the number of flips then finds how many of the last round are needed, and
    the labels are chosen afresh by their influence on the overturned model, as long as fewer of them do. Fits are by
    Newton's method from the fit before. In the end the model itself is refitted on the changed labels: what counts is
    that *it* predicts another class.

    The number of flips found is an upper bound: fewer may do.

    Parameters
    ----------
    max_flips : int, optional
        Give up on predictions that need more. Default: as many as there are labels that can be changed.
    reverse : bool
        Also try the least influential labels first, as the paper does; one refit shows whether that needs fewer.
    n_jobs : int, optional
        Threads, each at work on a test row of its own. The result does not depend on it.
    verbose : int
        1: say on stderr how far it is.

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

    max_flips: int | None = None
    reverse: bool = True
    n_jobs: int | None = None
    verbose: int = 0

    def attack(self, model: Any, X: Any, y: Any, X_test: Any, adversary: Adversary | None = None) -> AttackResult:
        """Look for the fewest label changes that overturn each prediction.

        Parameters
        ----------
        model : LogisticRegression, or Pipeline that ends in one
            Fitted on X and y; with an l2 penalty or none, two classes or more.
        X, y : arrays
            The training rows and labels.
        X_test : array
            The test rows whose predictions are attacked.
        adversary : Adversary, optional
            Which labels can be changed, and into what. Default: all, into anything.

        Returns
        -------
        AttackResult
            `n_refits` counts every fit: by Newton's method, and of the model itself. An interrupt (Ctrl-C) ends the
            attack early: what was found by then is returned, and `attempted` is False for the rest.
        """
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
        choose_afresh(search)
        if self.reverse:
            rival, order = rivals[0]
            search.try_order(order.backwards(), rival)


def change_in_rounds(search: RowSearch, rival: int) -> None:
    """Double the number of changed labels until the prediction is overturned, by new influences in every round."""
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


def choose_afresh(search: RowSearch) -> None:
    """Choose all labels again by their influence on the overturned model, as long as that takes fewer of them."""
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
    """Return the changes that lower the margin over a rival, the largest first, and by how much each does."""
    victim = search.target.victim
    scores = search.target.regression.rows @ fit.pulls(search.z, search.winner, rival, search.n_classes).T
    everyone = np.arange(len(scores))
    # an earlier attack may have left a class without rows: the fit knows nothing of it
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
    """Return the rivals that seem to need the fewest flips, and the order of flips for each, at the clean fit."""
    ranked = []
    for place, rival in enumerate(search.rivals()):
        order, gains = by_influence(search, search.target.clean, rival, NO_FLIPS)
        lead = search.logits[search.winner] - search.logits[rival]
        enough = int(np.searchsorted(np.cumsum(gains), lead))
        ranked.append((len(search.target.victim.codes) if enough == len(gains) else enough, place, rival, order))
    ranked.sort(key=lambda one: one[:2])
    return [(rival, order) for _, _, rival, order in ranked[:MOST_RIVALS]]
