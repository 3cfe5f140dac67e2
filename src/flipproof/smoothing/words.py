"""What smoothed certificates rest on, how far samples reach, and why a row is abstained on: in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.certificates import Adversary
from flipproof.exact import Powers
from flipproof.learners.adversaries import adversary_assumptions
from flipproof.noise import JointNoise, Measure
from flipproof.smoothing.measures import radius_unit
from flipproof.smoothing.radii import largest_certifiable
from flipproof.smoothing.votes import VoteBounds

WHAT_CHANGES = {
    "labels": "Only training labels are changed: training features, the number of rows and the test row are as given.",
    "l2": "Only training features are changed: labels, the number of rows and the test row are as given.",
    "divergence": "The training data are changed only in ways that the divergence of the measure covers.",
}
REACHED = {"labels": "changed labels", "l2": "in the l2 norm over the training features", "divergence": "nats"}


def assumptions(measure: Measure, base: str, confidence: float, scope: str, n_classes_read: int | None) -> list[str]:
    """Say what the certificates rest on; `n_classes_read` is the number of classes if the labels told it."""
    each = "each prediction on its own" if scope == "prediction" else "all predictions of one batch at once"
    said = [
        WHAT_CHANGES[radius_unit(measure)],
        "The certificate speaks of the smoothed decision, the class that the base learner predicts most often under "
        "the noise. `predict` is an estimate of it from the selection sample.",
        f"It is true with probability {confidence} over the draws, {each}, if whoever changed the training data did "
        "not know the seed.",
        f"The base learner ({base}), its settings and the noise were chosen without these training data; what a fit "
        "learns from them is covered.",
    ]
    if isinstance(measure, JointNoise):
        said.append(
            "The radius counts changed labels while the features are as given; feature_radius(flips) says how far the "
            "features may move as well."
        )
    if n_classes_read is not None:
        said.append(
            f"The class set ({n_classes_read} classes) was read from the training labels and is taken as fixed; "
            "give classes=... to drop this assumption."
        )
    return said


def adversary_words(adversary: Adversary | None, powers: Powers) -> list[str]:
    """Say what an adversary cannot do, and what that is used for."""
    said = adversary_assumptions(adversary, powers.scope, "smoothed")
    if said:
        said.append(
            "The noise is on all labels: the certificate holds against any changed labels, and so against this "
            "adversary."
        )
    return said


def reach(n_samples: int, confidence: float, measure: Measure, guarantee: str, n_train: int, n_predictions: int) -> str:
    """Say the largest radius that a sample can ever certify; refuse one that cannot decide anything."""
    largest = largest_certifiable(
        n_samples, confidence, measure, guarantee, n_train=n_train, n_predictions=n_predictions
    )
    scope = "each prediction" if n_predictions == 1 else f"{n_predictions} predictions at once"
    if largest < 0:
        raise ValueError(
            f"n_samples={n_samples} can never decide at confidence={confidence} for {scope}: even if all models "
            "agreed, every row would be abstained on. Give more samples or less confidence."
        )
    counted = REACHED[radius_unit(measure)]
    return f"At best, if all agree, they certify {largest:.6g} {counted} (confidence {confidence} for {scope})."


def abstention_reasons(found: VoteBounds, decided: NDArray[np.bool_], classes: NDArray[Any]) -> NDArray[Any]:
    """Say for each row why it is abstained on; nothing where it is not."""
    reasons = np.full(len(decided), "", dtype=object)
    for row in np.flatnonzero(~decided):
        least = np.floor(-np.expm1(found.log_failure[row]) * 1000) / 1000
        most = np.ceil(np.exp(found.log_rival[row]) * 1000) / 1000
        reasons[row] = (
            f"the vote for {classes[found.winner[row]]} is only known to be at least {least:.3f}, "
            f"and that for another class at most {most:.3f}"
        )
    return reasons.astype(str)
