"""Attack a logistic regression by the distance of training rows from the test row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from flipproof.attacks.logistic_target import MOST_RIVALS, RowSearch, logistic_target
from flipproof.attacks.result import AttackResult
from flipproof.attacks.runner import attack_all_rows
from flipproof.attacks.victim import Flips, Victim
from flipproof.certificates import Adversary
from flipproof.rounding import Floats, Integers


@dataclass(frozen=True)
class DistanceAttack:
    """Change the labels of the training rows nearest to a test row, until a logistic regression predicts otherwise.

    The simplest attack that the paper tries: distance in feature space stands in for influence. Labels are changed to
    the runner-up class. The model is fitted after 1, 2, 4, 8, ... flips, by Newton's method, and a search over their
    number finds how many are needed. In the end the model itself is refitted on the changed labels: what counts is that
    *it* predicts another class. :class:`InfluenceAttack` needs fewer flips nearly always.

    Parameters
    ----------
    max_flips : int, optional
        Give up on predictions that need more. Default: as many as there are labels that can be changed.
    reverse : bool
        Also try the farthest rows first, as the paper does; one refit shows whether that needs fewer.
    metric : str or callable
        Distance, as :func:`sklearn.metrics.pairwise_distances` knows it.
    n_jobs : int, optional
        Threads, each at work on a test row of its own. The result does not depend on it.
    verbose : int
        1: say on stderr how far it is.

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

    max_flips: int | None = None
    reverse: bool = True
    metric: str | Callable[..., float] = "euclidean"
    n_jobs: int | None = None
    verbose: int = 0

    def attack(self, model: Any, X: Any, y: Any, X_test: Any, adversary: Adversary | None = None) -> AttackResult:
        """Look for few label changes that overturn each prediction.

        Parameters and result as in :meth:`InfluenceAttack.attack`.
        """
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


def distances_to(rows: Any, z: Any, metric: Any) -> Floats:
    """Return the distances of all training rows from one test row."""
    return np.asarray(pairwise_distances(z, rows, metric=metric)[0], dtype=np.float64)


def by_distance(victim: Victim, distances: Floats, winner: int, wanted: list[int]) -> Flips:
    """Return changes of the nearest labels first, each into the first of the `wanted` classes.

    A label that cannot be changed into that class is taken away from the winner, into the next of them that it can be
    changed into, or left alone if it is not the winner's.
    """
    new = new_labels(victim, winner, wanted)
    useful = np.flatnonzero(victim.powers.changeable & (new[victim.codes] >= 0))
    ranked = useful[np.argsort(distances[useful], kind="stable")]
    return Flips(ranked, new[victim.codes[ranked]])


def new_labels(victim: Victim, winner: int, wanted: list[int]) -> Integers:
    """Return what a label of each class is changed into, -1 where it is left alone."""
    possible = victim.powers.transitions
    new = np.where(possible[:, wanted[0]], wanted[0], -1)
    if new[winner] < 0:
        new[winner] = next((other for other in wanted if possible[winner, other]), -1)
    return new.astype(np.int64)
