"""What certificates say, in plain words and figures; each figure is rounded to the side that claims less."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flipproof.certificates import COUNTED_UNITS, Certificates
from flipproof.metrics import least_change, n_certified
from flipproof.readable import percent, share_of, significant

#: Shares of the predictions that the headline speaks of: the first of which something can be said.
HEADLINE_LEVELS = (0.9, 0.75, 0.5)


VOIDS = {
    "labels": (
        "Something else than labels was changed: training features, added or removed training rows, a new class, or a "
        "pattern planted in the row that is predicted. None of that is covered.",
        "The labels were read by more than the classifier: to choose features, settings or rows, to tune, to clean. "
        "What is fitted with labels moves when labels move.",
        "Another model is in use than the one described here, or it was trained on other files: compare the checksums.",
        "The rows that matter are unlike the test rows. Each certificate is about its own row; shares are about these "
        "test rows, and say as much about other rows as the test set does.",
    ),
    "features": (
        "Something else than the training features was changed: labels, added or removed training rows, a new class, "
        "or the row that is predicted. None of that is covered.",
        "Another model is in use than the one described here, or it was trained on other files: compare the checksums.",
        "The rows that matter are unlike the test rows: shares are about these test rows.",
    ),
}

#: Assumptions that describe the adversary.
LIMITS = ("trusted-labels", "changes-allowed", "annotators")

METHOD_WORDS = {
    "exact": "exact: the true radius of the classifier; one flip more, and an attack exists",
    "tight": "tight: what noise on the labels proves, by the best possible bound",
    "kl": "kl: what noise on the labels proves, by the bound of Rosenfeld et al. (2020)",
    "gap": "gap: by counting the votes of models trained on disjoint parts of the data",
    "gaussian": "gaussian: what noise on the training features proves",
}


def headline(certificates: Certificates) -> dict[str, Any]:
    """Say how much may be poisoned and how many predictions still stand."""
    total, counted = len(certificates), certificates.unit in COUNTED_UNITS
    if total == 0:
        return {"text": "There are no predictions to certify.", "flips": 0, "n_standing": 0}
    if counted and certificates.n_touchable == 0:
        (standing,) = n_certified(certificates, [0])
        return {"text": "There is no label that this adversary can change.", "flips": 0, "n_standing": standing}
    descending = -np.sort(-np.where(certificates.abstained, -1, certificates.radius))
    for level in HEADLINE_LEVELS:
        flips = descending[math.ceil(level * total) - 1]
        if flips > 0:
            (standing,) = n_certified(certificates, [flips])
            text = f"{_poisoned(certificates, flips)}, and {level:.0%} of the predictions still stand."
            return {"text": text, "flips": _plain_flips(certificates, flips), "n_standing": standing}
    (standing,) = n_certified(certificates, [least_change(certificates)])
    least = {"labels": "one changed label", "annotators": "one malicious annotator"}
    text = (
        f"Only {percent(standing / total)} of the predictions are certain to withstand "
        f"{least.get(certificates.unit, 'the slightest change')}."
    )
    return {"text": text, "flips": 1 if counted else 0, "n_standing": standing}


def _poisoned(certificates: Certificates, flips: Any) -> str:
    """Begin the headline: how much may be changed."""
    unit, touchable = certificates.unit, certificates.n_touchable
    if unit == "l2":
        return f"All training features together may move by {significant(flips)} (l2 norm)"
    if unit not in COUNTED_UNITS:
        return f"The training data may move by a divergence of {significant(flips)} nats"
    flips = int(flips)
    who = "training labels" if unit == "labels" else "annotators"
    if flips >= touchable:
        return f"All {touchable:,} {who} that an adversary can touch may be poisoned"
    verb = "be poisoned" if unit == "labels" else "be malicious"
    if touchable < certificates.n_units:
        return (
            f"Any {flips:,} of the {touchable:,} {who} that an adversary can change "
            f"({share_of(flips, certificates.n_units)} of all {certificates.n_units:,}) may {verb}"
        )
    return f"Any {flips:,} of {touchable:,} {who} ({share_of(flips, touchable)}) may {verb}"


def threat(certificates: Certificates) -> list[str]:
    """Describe the adversary whom the certificates are about."""
    n, unit, adversary = certificates.n_train, certificates.unit, certificates.adversary
    if unit not in COUNTED_UNITS:
        return [
            "Somebody changes training features, all of them together by at most the radius, after having seen "
            "everything: the data, the classifier and the row that is to be predicted.",
            "A certified prediction would be the same whatever they had changed within the radius, with the "
            "probability that the assumptions state.",
        ]
    if unit == "labels":
        who = f"Somebody changes some of the {n:,} training labels before the classifier is trained. They know"
    else:
        who = (
            f"Some of the annotators are malicious, and change as many of their labels as they like, before the "
            f"classifier is trained on the {n:,} labels. Together they know"
        )
    said = [
        f"{who} the data, the classifier and the row that is to be predicted, and choose the worst labels for that "
        "very row.",
        "A certified prediction would be the same whichever labels they had chosen, up to its radius. This is proved, "
        "not sampled: no attack, known or unknown, does better."
        if certificates.method in ("exact", "gap") or not np.isnan(certificates.witness).all()
        else "A certified prediction would be the same whichever labels they had chosen, up to its radius, with the "
        "probability that the assumptions state.",
    ]
    if adversary is None and certificates.n_touchable == certificates.n_units and unit == "labels":
        said.append("Any label may be changed to any class.")
        return said
    # rows in blocks say themselves who is trusted: the assumptions know it, the adversary need not
    limits = [one for one in certificates.assumptions if one.code in LIMITS]
    said += map(str, limits)
    if all(one.code != "changes-allowed" for one in limits):
        said.append("Labels that can be changed may be changed to any class.")
    return said


def voids(certificates: Certificates) -> list[str]:
    """Say what would make the certificates worthless."""
    return list(VOIDS["labels" if certificates.unit in COUNTED_UNITS else "features"])


def radius_words(radius: Any, unlimited: bool, unit: str) -> str:
    """Write a radius for people."""
    if unlimited:
        return "unlimited"
    return f"{radius:,}" if unit in COUNTED_UNITS else significant(radius)


def median_words(certificates: Certificates) -> str:
    """Write the median radius, rounded down: at least half of the predictions reach it."""
    if not len(certificates):
        return "none"
    median = float(np.median(certificates.radius))
    if certificates.unit not in COUNTED_UNITS:
        return radius_words(median, math.isinf(median), certificates.unit)
    return radius_words(int(median), median >= certificates.n_touchable, certificates.unit)


def _plain_flips(certificates: Certificates, flips: Any) -> int | float | None:
    if certificates.unit in COUNTED_UNITS:
        return int(flips)
    return float(flips) if math.isfinite(flips) else None
