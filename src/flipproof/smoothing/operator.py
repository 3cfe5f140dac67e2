"""Smoothing in general (Section 3 of the paper): the vote G and decision g of any function under any measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from flipproof.core.guarantees import budget_over_rivals, wins_over_rivals
from flipproof.core.noise import LabelFlip, Measure
from flipproof.core.rounding import UNIT_ROUNDOFF, Floats, Integers, above, below
from flipproof.parameters import NONE, check_arguments, integer
from flipproof.smoothing.bounds import error_rate, log_share_upper


@dataclass(frozen=True)
class SmoothedValue:
    """The vote G of a function under a measure.

    Attributes
    ----------
    value : floats of shape (K,)
        G for each class: over all possible draws, or over the samples.
    lower, upper : floats of shape (K,)
        Bounds on G. From samples, all of them hold at once with the stated confidence; from enumeration they always
        hold, and differ only by rounding.
    log_failure : floats of shape (K,)
        Log of ``1 - lower``: the input of the guarantees of :mod:`flipproof.core.guarantees`.
    n_samples : int or None
        Number of samples; None if all draws were enumerated.

    See Also
    --------
    flipproof.smoothing.smoothed_value : The paper's vote G.

    Examples
    --------
    >>> from flipproof import LabelFlip
    >>> from flipproof.smoothing import smoothed_value
    >>> smoothed_value(lambda labels: int(labels.sum() > 1), LabelFlip(0.1, 2), [1, 1, 1]).value.round(3)
    array([0.028, 0.972])
    """

    value: Floats
    lower: Floats
    upper: Floats
    log_failure: Floats
    n_samples: int | None


@dataclass(frozen=True)
class SmoothedDecision:
    """The decision g of a function under a measure.

    Attributes
    ----------
    decision : int
        The class with the largest vote; ties go to the lowest class.
    decided : bool
        Whether the bounds on G prove this, without a tie.
    divergence_budget : float
        g is the same under any measure rho with KL(rho || measure) up to this (Example 3 of the paper); 0 if undecided.
    log_failure, log_rival : float
        Logs of upper bounds on the vote for all other classes together, and for each of them.
    value : SmoothedValue
        The vote.

    See Also
    --------
    flipproof.smoothing.smoothed_decision : The paper's decision g.

    Examples
    --------
    >>> from flipproof import LabelFlip
    >>> from flipproof.smoothing import smoothed_decision
    >>> smoothed_decision(lambda labels: int(labels.sum() > 1), LabelFlip(0.1, 2), [1, 1, 1]).decided
    True
    """

    decision: int
    decided: bool
    divergence_budget: float
    log_failure: float
    log_rival: float
    value: SmoothedValue


def smoothed_value(
    function: Callable[[Any], Any],
    measure: Measure,
    data: object,
    *,
    n_classes: int = 2,
    n_samples: int | None = None,
    confidence: float = 0.999,
    random_state: object = None,
) -> SmoothedValue:
    """Return the vote G of a function under noise around the data.

    Parameters
    ----------
    function : callable
        Takes noisy data and returns a class, 0 to `n_classes` - 1: any classifier, or a whole training procedure.
    measure : Measure
        The noise.
    data : the data that gets the noise
        Labels for :class:`flipproof.core.noise.LabelFlip`, features for FeatureNoise, a pair of both for JointNoise.
    n_classes : int, default=2
        Number of classes, K.
    n_samples : int, optional
        Number of samples. None: all possible draws are enumerated; the measure then needs a method `support`.
    confidence : float, default=0.999
        Probability that all bounds from samples hold.
    random_state : int, RandomState or None
        Seed of the samples.

    Returns
    -------
    SmoothedValue
        The vote of each class, with bounds.

    See Also
    --------
    flipproof.smoothing.smoothed_decision : The paper's decision g.
    flipproof.smoothing.SmoothedValue : A vote under noise.

    Notes
    -----
    Soundness: a two-sided Clopper-Pearson interval for each class, with ``1 - confidence`` shared by all of them; two
    classes have one interval in common. An enumerated vote is a sum of N correctly rounded probabilities, so its
    relative error is at most (N + 2) u; probabilities of :class:`flipproof.core.noise.LabelFlip` that are too small for
    a normal number are rounded up to one. If the probabilities of another measure add up to less than 1, the
    difference, plus what rounding may hide of it, counts against every class.

    Examples
    --------
    The majority of five labels, each changed with probability 0.1:

    >>> from flipproof.core.noise import LabelFlip
    >>> from flipproof.smoothing import smoothed_value
    >>> majority = lambda labels: int(labels.sum() > 2)
    >>> smoothed_value(majority, LabelFlip(0.1, 2), [1, 1, 1, 1, 1]).value.round(5)
    array([0.00856, 0.99144])
    """
    constraints = {"n_classes": integer(2), "n_samples": NONE | integer(1)}
    check_arguments("smoothed_value", constraints, n_classes=n_classes, n_samples=n_samples)
    K, alpha = int(n_classes), error_rate(confidence, 1, "smoothed_value")
    if n_samples is None:
        return _enumerated(function, measure, data, K)
    n = int(n_samples)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
    votes = np.bincount([_class_of(function(measure.sample(data, rng)), K) for _ in range(n)], minlength=K)
    return _estimated(votes, n, float(below(alpha / (2 if K == 2 else 2 * K))))


def smoothed_decision(
    function: Callable[[Any], Any],
    measure: Measure,
    data: object,
    *,
    n_classes: int = 2,
    n_samples: int | None = None,
    confidence: float = 0.999,
    random_state: object = None,
) -> SmoothedDecision:
    """Return the decision g of a function under noise around the data: the class with the largest vote.

    No class is selected beforehand, since the
    bounds hold for all classes at once. (A tie of two classes goes to class 0 here, and to 1 in the paper; it is never
    decided.)

    Parameters
    ----------
    function, measure, data, n_classes, n_samples, confidence, random_state
        As in :func:`smoothed_value`, with the same enumeration and sampling.

    Returns
    -------
    SmoothedDecision
        The class, and whether the bounds prove it.

    See Also
    --------
    flipproof.smoothing.smoothed_value : The paper's vote G.
    flipproof.smoothing.SmoothedDecision : A decision under noise.

    Examples
    --------
    >>> from flipproof.core.guarantees import tight_radius
    >>> from flipproof.core.noise import LabelFlip
    >>> from flipproof.smoothing import smoothed_decision
    >>> majority = lambda labels: int(labels.sum() > 2)
    >>> found = smoothed_decision(majority, LabelFlip(0.1, 2), [1, 1, 1, 1, 1])
    >>> found.decision, found.decided, int(tight_radius(found.log_failure, LabelFlip(0.1, 2), n_train=5))
    (1, True, 1)
    """
    value = smoothed_value(
        function,
        measure,
        data,
        n_classes=n_classes,
        n_samples=n_samples,
        confidence=confidence,
        random_state=random_state,
    )
    decision = int(value.value.argmax())
    log_failure = float(value.log_failure[decision])
    with np.errstate(divide="ignore"):
        log_rival = min(log_failure, float(above(np.log(np.delete(value.upper, decision).max()))))
    return SmoothedDecision(
        decision=decision,
        decided=bool(wins_over_rivals(log_failure, log_rival)),
        divergence_budget=float(budget_over_rivals(log_failure, log_rival)),
        log_failure=log_failure,
        log_rival=log_rival,
        value=value,
    )


def _enumerated(function: Callable[[Any], Any], measure: Measure, data: object, n_classes: int) -> SmoothedValue:
    support = getattr(measure, "support", None)
    if support is None:
        raise ValueError(f"{measure!r} has no method 'support' to enumerate: use n_samples=... to draw from it.")
    points, chances = support(data)
    votes = np.array([_class_of(function(point), n_classes) for point in points])
    chances = np.asarray(chances, dtype=np.float64)
    if chances.shape != votes.shape or not (chances >= 0).all() or abs(float(chances.sum()) - 1) > 1e-6:
        raise ValueError(f"The support of {measure!r} must have probabilities that add up to 1.")
    value = np.bincount(votes, weights=chances, minlength=n_classes).astype(np.float64)
    # failures are summed directly: 1 minus a vote near 1 would lose all digits
    failure = np.array([chances[votes != code].sum() for code in range(n_classes)])
    error = (len(chances) + 2) * UNIT_ROUNDOFF
    lacking = 0.0 if isinstance(measure, LabelFlip) else max(0.0, 1 - float(chances.sum())) + 2 * error
    with np.errstate(divide="ignore"):
        log_failure = np.minimum(above(np.log(failure * (1 + 2 * error) + lacking)), 0.0)
    rounded_up = len(chances) * float(np.finfo(np.float64).tiny)
    return SmoothedValue(
        value=value,
        lower=np.maximum(value * (1 - 2 * error) - rounded_up, 0.0),
        upper=np.minimum(value * (1 + 2 * error) + lacking, 1.0),
        log_failure=log_failure,
        n_samples=None,
    )


def _estimated(votes: Integers, n_samples: int, alpha: float) -> SmoothedValue:
    log_failure = log_share_upper(n_samples - votes, n_samples, alpha)
    return SmoothedValue(
        value=np.asarray(votes / n_samples, dtype=np.float64),
        lower=np.maximum(below(-np.expm1(log_failure)), 0.0),
        upper=np.minimum(above(np.exp(log_share_upper(votes, n_samples, alpha))), 1.0),
        log_failure=log_failure,
        n_samples=n_samples,
    )


def _class_of(answer: Any, n_classes: int) -> int:
    code = int(answer)
    if code != answer or not 0 <= code < n_classes:
        raise ValueError(
            f"The function must return a class from 0 to {n_classes - 1}. Got {answer!r} instead: check n_classes."
        )
    return code
