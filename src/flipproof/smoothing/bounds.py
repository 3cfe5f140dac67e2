"""From counted votes of noisy models to a certified radius, with a stated confidence.

Clopper-Pearson bounds turn counts into bounds on a vote's probability; guarantees turn these into radii.

The smoothed decision g is the class with the largest share of the vote G under the noise, the plurality of the paper's
Appendix B.1. One sample of models *selects* the class to certify; another, independent one *estimates* its vote.
Selecting and estimating with the same votes would be biased towards the class that happened to win.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv

from flipproof.core.guarantees import (
    budget_over_rivals,
    gaussian_radius_over_rivals,
    kl_radius_over_rivals,
    tight_radius_over_rivals,
    wins_over_rivals,
)
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip, Measure, check_flip_probability
from flipproof.core.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, Floats, Integers, below
from flipproof.parameters import NONE, check_arguments, check_parameter, instance, integer, number, one_of

#: First step by which an unproved bound is moved outwards; each further step is twice as long.
FIRST_STEP = 2.0**-44


def log_share_upper(counts: ArrayLike, n_samples: int, alpha: float) -> Floats:
    """Return the log of an upper bound on a probability, given that `counts` of `n_samples` draws were successes.

    Clopper and Pearson (1934): the smallest b with P(Binomial(n, b) <= count) <= alpha. For any true probability, the
    bound is below it with probability at most `alpha`. A lower bound is 1 minus the upper bound for the other draws.

    Soundness: SciPy's inverse of the beta function is only a guess. The tail is evaluated at the guess with a proven
    error bound (:func:`log_tail_upper`), and the guess is moved outwards until the *upper* bound on the tail is at most
    alpha. With up to 10^6 draws this makes the bound larger than the true one by a factor of at most 1 + 10^-6.
    """
    found = np.asarray(counts, dtype=np.int64)
    distinct, position = np.unique(found, return_inverse=True)
    bounds = np.array([_one_bound(int(count), int(n_samples), float(alpha)) for count in distinct])
    return np.asarray(bounds[position].reshape(found.shape), dtype=np.float64)


@lru_cache(maxsize=4096)
def _one_bound(count: int, n: int, alpha: float) -> float:
    if count >= n:
        return 0.0
    wanted = float(below(np.log(alpha)))
    guess = float(betainccinv(count + 1, n - count, alpha))
    bound, step = max(guess, float(np.finfo(np.float64).tiny)), FIRST_STEP
    while bound < 1 and log_tail_upper(count, n, bound) > wanted:
        bound, step = bound * (1 + step), 2 * step
    # the bound is exactly a float64; only its logarithm is rounded, upwards
    return min(0.0, -float(below(-np.log(bound)))) if bound < 1 else 0.0


def log_tail_upper(count: int, n: int, share: float) -> float:
    """Return an upper bound on log P(Binomial(n, share) <= count), for 0 < share < 1 and count < n.

    Soundness: the tail is its last term times 1 + a_1 (1 + a_2 (1 + ...)), a_i = (count - i + 1) / (n - count + i) *
    (1 - share) / share. The products have up to 6 roundings per factor, so the relative error of the sum is at most
    8 (count + 1) u, since everything is positive. The last term's log is a sum of logs, each with a relative error of
    at most FUNCTION_ERROR; adding l of them, pairwise or not, adds at most l u of the sum of their absolute values.
    """
    i = np.arange(1, count + 1, dtype=np.float64)
    with np.errstate(under="ignore"):
        terms = np.cumprod((count - i + 1) / (n - count + i) * ((1 - share) / share))
    log_sum = float(np.log1p(terms.sum()))
    logs = np.log((n - count + i) / i)  # of C(n, count)
    ends = count * np.log(share), (n - count) * np.log1p(-share)
    value = log_sum + float(logs.sum()) + float(ends[0]) + float(ends[1])
    sizes = log_sum + float(np.abs(logs).sum()) + abs(float(ends[0])) + abs(float(ends[1]))
    # the rounding of a quotient changes its log by at most 2 u, for any size
    error = (2 * FUNCTION_ERROR + 2 * (count + 8) * UNIT_ROUNDOFF) * sizes + 16 * (count + 8) * UNIT_ROUNDOFF
    return value + error


@dataclass(frozen=True)
class VoteBounds:
    """Bounds derived from the votes on m test rows.

    Attributes
    ----------
    winner : integers of shape (m,)
        The selected class.
    rival : integers of shape (m,)
        The other class with the most votes in the estimation sample.
    log_failure : floats of shape (m,)
        Log of an upper bound on the vote of all other classes together.
    log_rival : floats of shape (m,)
        Log of an upper bound on the vote of any one other class.
    margin : floats of shape (m,)
        The winner's lead over the rival in the estimation sample, as a share of it; negative if the rival is ahead.
    split : booleans of shape (m,)
        Whether half of alpha was spent on bounds for single rivals.
    """

    winner: Integers
    rival: Integers
    log_failure: Floats
    log_rival: Floats
    margin: Floats
    split: np.ndarray

    @property
    def decided(self) -> np.ndarray:
        """True where the bounds prove that the winner is the smoothed decision."""
        return wins_over_rivals(self.log_failure, self.log_rival)


def selected_classes(selection: Integers) -> Integers:
    """Return the classes with the most votes; ties go to the class that sorts lowest."""
    return np.asarray(selection.argmax(axis=1), dtype=np.int64)


def bound_votes(selection: Integers, estimation: Integers, alpha: float) -> VoteBounds:
    """Bound the vote of the selected class and of all others, given the votes of both samples, shape (m, K).

    Soundness: given the selection sample, class c is fixed, and so is how alpha is spent; the estimation sample is
    independent of it, so its count for any fixed class is binomial. Either all of alpha is spent on G_c; a rival then
    has at most the vote that c does not have. Or half of alpha is spent on G_c, and the other half, in equal parts, on
    *each* of the K - 1 rivals. By the union bound, all K bounds then hold at once, with probability 1 - alpha. So the
    largest of the rivals' bounds, that of the rival with the most votes, holds for every rival, no matter which class
    was second in the selection sample. With two classes G_d = 1 - G_c, so the first way is always better. The statement
    for each test row is independent of the other rows, although all share the same models.
    """
    winner = selected_classes(selection)
    rows = np.arange(len(winner))
    others = estimation.copy()
    others[rows, winner] = -1
    rival = others.argmax(axis=1)
    n_samples = int(estimation[0].sum()) if len(estimation) else 1
    split = _split_pays(selection, winner, n_samples, alpha)
    bounds = [_bounds(estimation, winner, n_samples, alpha, with_rivals) for with_rivals in (False, True)]
    log_failure, log_rival = (np.where(split, two, one) for one, two in zip(*bounds, strict=True))
    return VoteBounds(
        winner=winner,
        rival=rival,
        log_failure=log_failure,
        log_rival=np.minimum(log_failure, log_rival),
        margin=(estimation[rows, winner] - estimation[rows, rival]) / n_samples,
        split=split,
    )


def _bounds(
    votes: Integers, winner: Integers, n_samples: int, alpha: float, with_rivals: bool
) -> tuple[Floats, Floats]:
    """Return log upper bounds on the vote that the winner does not have, and on the vote of any one rival."""
    rows, n_rivals = np.arange(len(votes)), votes.shape[1] - 1
    for_winner = votes[rows, winner]
    if not with_rivals or n_rivals == 1:
        log_failure = log_share_upper(n_samples - for_winner, n_samples, alpha)
        return log_failure, log_failure
    others = votes.copy()
    others[rows, winner] = -1
    return (
        log_share_upper(n_samples - for_winner, n_samples, alpha / 2),
        log_share_upper(others.max(axis=1), n_samples, float(below(alpha / 2 / n_rivals))),
    )


def _split_pays(selection: Integers, winner: Integers, n_samples: int, alpha: float) -> np.ndarray:
    """Guess from the selection sample where separate bounds on the rivals will give a larger radius.

    Soundness: any guess is valid, as long as it does not use the estimation sample.
    """
    shares = selection / np.maximum(selection.sum(axis=1, keepdims=True), 1)
    expected = np.rint(shares * n_samples).astype(np.int64)
    one, two = (
        budget_over_rivals(*_bounds(expected, winner, n_samples, alpha, with_rivals)) for with_rivals in (False, True)
    )
    return np.asarray(two > one)


GUARANTEES = ("tight", "kl", "gaussian")

NUMBER = number(closed="both")

MEASURE = instance(
    Measure,
    "a LabelFlip, FeatureNoise or JointNoise, or another object with the methods sample and divergence",
)

CONFIDENCE = number(0, 1)


def resolved_noise(noise: Any, n_classes: int, owner: str) -> Measure:
    """Return the measure over `n_classes` classes; a number q means label noise."""
    check_parameter(owner, "noise", noise, NUMBER | MEASURE)
    if NUMBER.allows(noise):
        check_flip_probability(owner, "noise", noise, n_classes)
        return LabelFlip(float(noise), n_classes)
    measure: Measure = noise
    part = getattr(measure, "part", "both")
    if part not in ("labels", "features", "both"):
        raise ValueError(f"{measure!r} must have part 'labels', 'features' or 'both'. Got {part!r} instead.")
    labels = measure.labels if isinstance(measure, JointNoise) else measure
    if isinstance(labels, LabelFlip) and labels.n_classes not in (None, n_classes):
        raise ValueError(f"noise is for {labels.n_classes} classes, but the training labels have {n_classes}.")
    with_classes: Callable[[int], Measure] | None = getattr(measure, "with_classes", None)
    return measure if with_classes is None else with_classes(n_classes)


def resolved_guarantee(guarantee: str, measure: Measure, owner: str, name: str = "method") -> str:
    """Return "kl", "tight" or "gaussian"; the tight bound of Gaussian noise *is* the Gaussian one."""
    check_parameter(owner, name, guarantee, one_of(*GUARANTEES))
    if guarantee == "kl":
        return guarantee
    if isinstance(measure, FeatureNoise):
        return "gaussian"
    if guarantee == "gaussian":
        raise ValueError(f"method='gaussian' is only for FeatureNoise. Got {measure!r} instead: use 'tight' or 'kl'.")
    if not isinstance(measure, (LabelFlip, JointNoise)):
        raise ValueError(
            f"method='tight' is for LabelFlip, FeatureNoise and JointNoise. Got {measure!r} instead: "
            "method='kl' holds for any measure."
        )
    return guarantee


def radius_unit(measure: Measure) -> str:
    """Return the unit of a radius under this measure."""
    if isinstance(measure, (LabelFlip, JointNoise)):
        return "labels"
    return "l2" if isinstance(measure, FeatureNoise) else "divergence"


def noise_level(measure: Measure) -> float:
    """Return q or sigma; NaN for a custom noise measure."""
    if isinstance(measure, JointNoise):
        return measure.labels.q
    if isinstance(measure, FeatureNoise):
        return measure.sigma
    return measure.q if isinstance(measure, LabelFlip) else np.nan


#: Largest radius in labels if the size of the training set, its usual limit, is not known.
MANY_LABELS = 10**6


def certified_radius(
    log_failure: ArrayLike, log_rival: ArrayLike, measure: Measure, guarantee: str, n_train: int
) -> NDArray[Any]:
    """Return the radius, in the unit of the measure; 0 where the bounds do not decide.

    Soundness: under :class:`JointNoise` it counts changed labels with unchanged features: only the labels' part of the
    noise then moves, so both bounds for labels hold. Under a custom noise measure it is the divergence by which the
    noise may move (Example 3 of the paper).
    """
    if isinstance(measure, FeatureNoise):
        if guarantee == "gaussian":
            return gaussian_radius_over_rivals(log_failure, log_rival, measure.sigma)
        return feature_radius(budget_over_rivals(log_failure, log_rival), measure.sigma)
    if isinstance(measure, (LabelFlip, JointNoise)):
        labels = measure.labels if isinstance(measure, JointNoise) else measure
        of_labels = tight_radius_over_rivals if guarantee == "tight" else kl_radius_over_rivals
        return of_labels(log_failure, log_rival, labels, n_train)
    return budget_over_rivals(log_failure, log_rival)


def feature_radius(budget: Floats, sigma: float) -> Floats:
    """Return how far the features may move within a divergence of `budget`, in the l2 norm over the whole matrix.

    Soundness: ``||delta||^2 / (2 sigma^2) <= budget``, rounded down.
    """
    return np.maximum(below(sigma * np.sqrt(2 * np.maximum(budget, 0.0))), 0.0)


def largest_certifiable(
    n_samples: int,
    confidence: float,
    noise: Measure,
    guarantee: str = "tight",
    *,
    n_train: int | None = None,
    n_predictions: int = 1,
) -> float:
    """Return the largest radius that `n_samples` votes can certify, which is reached if all are for the same class.

    Parameters
    ----------
    n_samples : int
        Size of the estimation sample.
    confidence : float
        Confidence of the statement.
    noise : LabelFlip, FeatureNoise, JointNoise or a custom noise measure
        LabelFlip needs its `n_classes`.
    guarantee : {"tight", "kl", "gaussian"}, default="tight"
        As in :class:`flipproof.SmoothedClassifier`.
    n_train : int, optional
        Number of training labels, the upper limit of a radius in labels.
    n_predictions : int, default=1
        Number of predictions for which the confidence holds jointly.

    Returns
    -------
    float
        An integer if the radius counts labels; -1 if even unanimous votes decide nothing.

    See Also
    --------
    flipproof.SmoothedClassifier : Certifies any classifier, by votes of noisy copies.

    Examples
    --------
    >>> from flipproof.core.noise import LabelFlip
    >>> from flipproof.smoothing import largest_certifiable
    >>> [largest_certifiable(n, 0.999, LabelFlip(0.3, 2)) for n in (5, 10, 100, 1000, 10000)]
    [-1.0, 0.0, 3.0, 9.0, 14.0]
    """
    constraints = {"n_samples": integer(1), "n_predictions": integer(1), "n_train": NONE | integer(1), "noise": MEASURE}
    given = {"n_samples": n_samples, "n_predictions": n_predictions, "n_train": n_train, "noise": noise}
    check_arguments("largest_certifiable", constraints, **given)
    method = resolved_guarantee(guarantee, noise, "largest_certifiable", "guarantee")
    alpha = error_rate(confidence, n_predictions, "largest_certifiable")
    best = log_share_upper(0, n_samples, alpha)
    if not wins_over_rivals(best, best):
        return -1.0
    n_labels = MANY_LABELS if n_train is None else int(n_train)
    return float(certified_radius(best, best, noise, method, n_labels))


def error_rate(confidence: Any, n_statements: int, owner: str) -> float:
    """Return the allowed error probability of each statement, by the union bound, rounded down."""
    check_parameter(owner, "confidence", confidence, CONFIDENCE)
    return float(below((1 - float(confidence)) / n_statements))
