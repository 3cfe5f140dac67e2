"""Invariants of every result for any data: cheap checks that always run where results are computed.

Tests cover many problems, but not yours. These invariants hold for any problem, so a violation is a bug in flipproof.
It then raises :class:`InvariantError` and returns no certificate.
"""

from __future__ import annotations

import numpy as np

from flipproof.core.rounding import Floats, Integers, Values


class InvariantError(RuntimeError):
    """A result contradicts itself. This is a bug in flipproof: please report it."""


def require(holds: object, broken: str) -> None:
    """Raise an error that says what is `broken`, unless the invariant holds."""
    if not holds:
        raise InvariantError(
            f"flipproof contradicts itself: {broken}. No certificate is returned. This is a bug in flipproof: please "
            "report it, with the learner's parameters and, if you can, the data."
        )


def check_finite(weights: Values) -> None:
    """Raise an error if weights, or the numbers that they are computed from, are not finite.

    Raises
    ------
    ValueError
        If there is NaN or infinity: some features are too large or too small to compute weights.
    """
    _refuse_unless_finite(_largest(weights))


def _refuse_unless_finite(largest: float) -> None:
    if not np.isfinite(largest):
        raise ValueError(
            "The weights of training rows must be finite. Got NaN or infinity instead: some features are too large or "
            "too small. Rescale the features, for example with features=StandardScaler()."
        )


def check_votes(votes: Values, bits: int) -> None:
    """Raise an error if votes are not finite or have more than `bits` bits."""
    largest = _largest(votes)
    _refuse_unless_finite(largest)
    require(largest < 2.0**bits, f"a vote has more than {bits} bits")


def _largest(numbers: Values) -> float:
    """Return the largest absolute value; NaN if there is a NaN."""
    return float(np.maximum(numbers.max(), -numbers.min())) if numbers.size else 0.0


def check_counts(labels_of_class: Integers, n_labels: int) -> None:
    """Check that the same number of labels of each class was counted for every test row, and all of them."""
    require(np.all(labels_of_class == labels_of_class[:1]), "votes of one class were counted as another's")
    if len(labels_of_class):
        require(labels_of_class[0].sum() == n_labels, f"{labels_of_class[0].sum()} of {n_labels} votes were counted")


def check_winners(lead: Integers, winner: Integers) -> None:
    """Check that the winner is ahead of every rival; for `lead` see `exact.leads`."""
    rivals = np.arange(lead.shape[1]) != winner[:, None]
    require(np.all(lead[rivals] >= 1), "a prediction is not the class with the highest score")


def check_certificates(
    winner: Integers, rival: Integers, radius: Integers, margin: Integers, log_failure: Floats, most: int | None
) -> None:
    """Check certificates whose radii are counts: at most `most`, the number of things that can be changed, if any."""
    require(np.all(radius >= 0), "a radius is negative")
    require(most is None or np.all(radius <= most), f"a radius is above {most}")
    require(np.all(rival != winner), "a rival is the predicted class itself")
    require(np.all(margin >= 0), "a margin is negative")
    require(np.all(np.isnan(log_failure) | (log_failure <= 0)), "a probability is above 1")
