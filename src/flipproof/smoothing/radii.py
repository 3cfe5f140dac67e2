"""From bounds on the vote to a radius, for every measure and guarantee."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.guarantees import (
    budget_over_rivals,
    gaussian_radius_over_rivals,
    kl_radius_over_rivals,
    tight_radius_over_rivals,
    wins_over_rivals,
)
from flipproof.noise import FeatureNoise, JointNoise, LabelFlip, Measure
from flipproof.rounding import Floats, below
from flipproof.smoothing.intervals import log_share_upper
from flipproof.smoothing.measures import resolved_guarantee

#: A radius in labels ends at the size of the training set; where that is not known, here.
MANY_LABELS = 10**6


def certified_radius(
    log_failure: ArrayLike, log_rival: ArrayLike, measure: Measure, guarantee: str, n_train: int
) -> NDArray[Any]:
    """Return the radius, in the unit of the measure; 0 where the bounds do not decide.

    Soundness: under :class:`JointNoise` it counts changed labels while the features are as given: only the labels' part
    of the noise then moves, so both bounds for labels hold. Under a measure of somebody's own it is the divergence that
    the noise may move by (Example 3 of the paper).
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
    """Return how far the features may move, in the l2 norm over the whole matrix, for a divergence of `budget`.

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
    """Return the largest radius that so many votes can ever certify: if they are all for the same class.

    Parameters
    ----------
    n_samples : int
        Size of the estimation sample.
    confidence : float
        Confidence of the statement.
    noise : LabelFlip, FeatureNoise, JointNoise or a measure of one's own
        LabelFlip needs its `n_classes`.
    guarantee : {"tight", "kl", "gaussian"}, default="tight"
        As in :class:`SmoothedClassifier`.
    n_train : int, optional
        Number of training labels, which no radius in labels exceeds.
    n_predictions : int, default=1
        Number of predictions that the confidence is shared by.

    Returns
    -------
    float
        A whole number if the radius counts labels; -1 if even unanimous votes decide nothing.

    Examples
    --------
    >>> from flipproof.noise import LabelFlip
    >>> from flipproof.smoothing import largest_certifiable
    >>> [largest_certifiable(n, 0.999, LabelFlip(0.3, 2)) for n in (5, 10, 100, 1000, 10000)]
    [-1.0, 0.0, 3.0, 9.0, 14.0]
    """
    n_samples = check_count(n_samples, "n_samples", "largest_certifiable")
    n_predictions = check_count(n_predictions, "n_predictions", "largest_certifiable")
    if not isinstance(noise, Measure):
        raise ValueError(
            f"The 'noise' parameter of largest_certifiable must be a measure, such as LabelFlip(0.3, n_classes=2). "
            f"Got {noise!r} instead."
        )
    method = resolved_guarantee(guarantee, noise, "largest_certifiable")
    alpha = error_rate(confidence, n_predictions, "largest_certifiable")
    best = log_share_upper(0, n_samples, alpha)
    if not wins_over_rivals(best, best):
        return -1.0
    n_labels = MANY_LABELS if n_train is None else check_count(n_train, "n_train", "largest_certifiable")
    return float(certified_radius(best, best, noise, method, n_labels))


def error_rate(confidence: Any, n_statements: int, owner: str) -> float:
    """Return the chance that each of the statements may be wrong, by the union bound, rounded down."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real) or not 0 < float(confidence) < 1:
        raise ValueError(
            f"The 'confidence' parameter of {owner} must be a number between 0 and 1. Got {confidence!r} instead."
        )
    return float(below((1 - float(confidence)) / n_statements))


def check_count(value: Any, name: str, owner: str) -> int:
    """Return a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"The {name!r} parameter of {owner} must be an integer of at least 1. Got {value!r} instead.")
    return int(value)
