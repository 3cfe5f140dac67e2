"""The best of several attacks, for each test row."""

from __future__ import annotations

from typing import Any

import numpy as np

from flipproof.attacks.distance import DistanceAttack
from flipproof.attacks.influence import InfluenceAttack
from flipproof.attacks.logistic_target import logistic_target
from flipproof.attacks.result import NO_ATTACK, AttackResult
from flipproof.attacks.runner import attack_all_rows
from flipproof.certificates import Adversary


def undefended_attack(
    model: Any,
    X: Any,
    y: Any,
    X_test: Any,
    adversary: Adversary | None = None,
    max_flips: int | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> AttackResult:
    """Attack a logistic regression by influence and by distance, each also in reverse, and keep the best per test row.

    The paper's attack on undefended classifiers. Once one order has a success at some number of flips, a single refit
    at one flip less shows whether another order is any better, so this costs little more than :class:`InfluenceAttack`
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
        Which labels can be changed, and into what. Default: all, into anything.
    max_flips : int, optional
        Give up on predictions that need more.
    n_jobs : int, optional
        Threads, each at work on a test row of its own.
    verbose : int
        1: say on stderr how far it is.

    Returns
    -------
    AttackResult
        `n_refits` counts every fit: by Newton's method, and of the model itself. An interrupt (Ctrl-C) ends the attack
        early: what was found by then is returned, and `attempted` is False for the rest.

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
    target = logistic_target(model, X, y, X_test, adversary, "undefended_attack")
    strategies = [InfluenceAttack().strategy, DistanceAttack().strategy]
    return attack_all_rows(target, strategies, max_flips, n_jobs, verbose, name="influence and distance attack")


def strongest(*results: AttackResult) -> AttackResult:
    """Return, for each test row, the attack that needs the fewest flips; the first of several that need the same.

    Parameters
    ----------
    *results : AttackResult
        Attacks on the same predictions.
    """
    if not results:
        raise ValueError("strongest needs at least one AttackResult. Got none.")
    first = results[0]
    for other in results[1:]:
        if other.unit != first.unit or not np.array_equal(other.prediction, first.prediction):
            raise ValueError(
                "strongest compares attacks on the same predictions, counted in the same unit. Got "
                f"{first!r} and {other!r}, which differ in one or the other."
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
