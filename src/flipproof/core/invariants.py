"""What must be true of every result, whatever the data: checked where results are made, cheaply and always.

Tests try many problems, but not yours. These checks hold for any problem, so a violation means that flipproof itself
is wrong. It then raises :class:`InvariantError` and returns no certificate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Floats, Integers


class InvariantError(RuntimeError):
    """A result contradicts itself. This is a bug in flipproof: please report it."""


def require(holds: Any, broken: str) -> None:
    """Raise an error that says what is broken, unless it holds."""
    if not holds:
        raise InvariantError(
            f"flipproof contradicts itself: {broken}. No certificate is returned. This is a bug in flipproof: please "
            "report it, with the learner's parameters and, if you can, the data."
        )


def check_finite(weights: NDArray[Any]) -> None:
    """Refuse weights, or what they are made of, that are not finite: they are no votes.

    Raises
    ------
    ValueError
        If there is NaN or infinity among them: features can be so large or so small that weights cannot be computed.
    """
    _refuse_unless_finite(_largest(weights))


def _refuse_unless_finite(largest: float) -> None:
    if not np.isfinite(largest):
        raise ValueError(
            "The weights of training rows must be finite. Got NaN or infinity: numbers in the features are too large "
            "or too small to compute with. Rescale the features, for example with features=StandardScaler()."
        )


def check_votes(votes: NDArray[Any], bits: int) -> None:
    """Refuse votes that are not finite, or that have more bits than a vote can have."""
    largest = _largest(votes)
    _refuse_unless_finite(largest)
    require(largest < 2.0**bits, f"a vote has more than {bits} bits")


def _largest(numbers: NDArray[Any]) -> float:
    """Return the largest size; NaN if there is any."""
    return float(np.maximum(numbers.max(), -numbers.min())) if numbers.size else 0.0


def check_counts(labels_of_class: Integers, n_labels: int) -> None:
    """Check how many votes were counted for each test row and class: those of the same labels for every test row."""
    require(np.all(labels_of_class == labels_of_class[:1]), "votes of one class were counted as another's")
    if len(labels_of_class):
        require(labels_of_class[0].sum() == n_labels, f"{labels_of_class[0].sum()} of {n_labels} votes were counted")


def check_winners(lead: Integers, winner: Integers) -> None:
    """Check that the winner is ahead of every rival: `lead` is what each would need to win, see `exact.leads`."""
    rivals = np.arange(lead.shape[1]) != winner[:, None]
    require(np.all(lead[rivals] >= 1), "a prediction is not the class with the highest score")


def check_certificates(
    winner: Integers, rival: Integers, radius: Integers, margin: Integers, log_failure: Floats, n_touchable: int
) -> None:
    """Check radii that count labels or annotators, of which the adversary can touch `n_touchable`."""
    require(np.all((radius >= 0) & (radius <= n_touchable)), f"a radius is not between 0 and {n_touchable}")
    require(np.all(rival != winner), "a rival is the predicted class itself")
    require(np.all(margin >= 0), "a margin is negative")
    require(np.all(np.isnan(log_failure) | (log_failure <= 0)), "a probability is above 1")
