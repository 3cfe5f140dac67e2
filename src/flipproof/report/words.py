"""Sentences about certificates: headline, adversary, methods. Numbers are rounded so that they never overclaim."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flipproof.certificates import COUNTED_UNITS, Certificates
from flipproof.metrics import least_change, n_certified
from flipproof.readable import percent, share_of, significant

#: Shares of predictions for the headline: the first with a positive radius is used.
HEADLINE_LEVELS = (0.9, 0.75, 0.5)


VOIDS = {
    "labels": (
        "Anything other than labels is changed: training features, the number of training rows, the set of classes, or "
        "the test row itself.",
        "Labels are used outside the classifier, for example to select features, parameters or rows. Every step that "
        "uses labels can change when labels change.",
        "The deployed model differs from the one described here, or was trained on other files: compare the checksums.",
        "The rows in production differ from the test rows. Each certificate holds for its own test row; shares "
        "describe this test set only.",
    ),
    "features": (
        "Anything other than training features is changed: labels, the number of training rows, the set of classes, or "
        "the test row itself.",
        "The deployed model differs from the one described here, or was trained on other files: compare the checksums.",
        "The rows in production differ from the test rows: shares describe this test set only.",
    ),
}

#: Assumptions that describe the adversary.
LIMITS = ("trusted-labels", "changes-allowed", "annotators")

METHOD_WORDS = {
    "exact": "exact: the true radius; with one more flip, an attack exists",
    "tight": "tight: proved with noise on the labels, by the best possible bound",
    "kl": "kl: proved with noise on the labels, by the bound of Rosenfeld et al. (2020)",
    "gap": "gap: proved by counting the votes of models that were trained on disjoint parts of the data",
    "gaussian": "gaussian: proved with noise on the training features",
}


def headline(certificates: Certificates) -> dict[str, Any]:
    """Return the headline: how much can be poisoned, and the share of predictions guaranteed unchanged."""
    total, counted = len(certificates), certificates.unit in COUNTED_UNITS
    if total == 0:
        return {"text": "There are no predictions to certify.", "flips": 0, "n_standing": 0}
    if counted and certificates.n_touchable == 0:
        (standing,) = n_certified(certificates, [0])
        return {"text": "This adversary cannot change any label.", "flips": 0, "n_standing": standing}
    descending = -np.sort(-np.where(certificates.abstained, -1, certificates.radius))
    for level in HEADLINE_LEVELS:
        flips = descending[math.ceil(level * total) - 1]
        if flips > 0:
            (standing,) = n_certified(certificates, [flips])
            text = (
                f"Even if {_poisoned(certificates, flips)}, {level:.0%} of predictions are {_guaranteed(certificates)}."
            )
            return {"text": text, "flips": _plain_flips(certificates, flips), "n_standing": standing}
    (standing,) = n_certified(certificates, [least_change(certificates)])
    least = {"labels": "one changed label", "annotators": "one malicious annotator"}
    text = (
        f"Only {percent(standing / total)} of predictions are certified against "
        f"{least.get(certificates.unit, 'the slightest change')}."
    )
    return {"text": text, "flips": 1 if counted else 0, "n_standing": standing}


def _is_proved(certificates: Certificates) -> bool:
    """Whether certificates hold with certainty, not only with the probability in their assumptions."""
    return certificates.method in ("exact", "gap") or not np.isnan(certificates.witness).all()


def _guaranteed(certificates: Certificates) -> str:
    proved = certificates.unit in COUNTED_UNITS and _is_proved(certificates)
    return "guaranteed unchanged" if proved else "certified unchanged"


def _poisoned(certificates: Certificates, flips: Any) -> str:
    """Return the condition of the headline: what is poisoned."""
    unit, touchable = certificates.unit, certificates.n_touchable
    if unit == "l2":
        return f"the training features change by {significant(flips)} in total (l2 norm)"
    if unit not in COUNTED_UNITS:
        return f"the training data change by a divergence of {significant(flips)} nats"
    flips = int(flips)
    who, verb = ("training labels", "are poisoned") if unit == "labels" else ("annotators", "are malicious")
    can_be_changed = "that can be changed" if unit == "labels" else "whose labels can be changed"
    if flips == 1 < touchable:
        verb = verb.replace("are", "is")
    if flips >= touchable:
        return f"all {touchable:,} {who} {can_be_changed} {verb}"
    if touchable < certificates.n_units:
        return (
            f"any {flips:,} of the {touchable:,} {who} {can_be_changed} "
            f"({share_of(flips, certificates.n_units)} of all {certificates.n_units:,}) {verb}"
        )
    return f"any {flips:,} of {touchable:,} {who} ({share_of(flips, touchable)}) {verb}"


def threat(certificates: Certificates) -> list[str]:
    """Describe the adversary that the certificates cover."""
    n, unit, adversary = certificates.n_train, certificates.unit, certificates.adversary
    if unit not in COUNTED_UNITS:
        return [
            "An adversary changes training features, in total by at most the radius. The adversary knows the data, the "
            "classifier and the test row.",
            "A certified prediction is unchanged under any change within its radius, with the probability stated in "
            "the assumptions.",
        ]
    if unit == "labels":
        who = f"An adversary changes some of the {n:,} training labels before the classifier is trained."
    else:
        who = (
            "Some annotators are malicious: they cooperate and change any number of their labels before the classifier "
            f"is trained on the {n:,} labels."
        )
    said = [
        f"{who} They know the data, the classifier and the test row, and choose the worst changes for this test row.",
        "A certified prediction is unchanged under any changes up to its radius. This is proved, not sampled: it holds "
        "for every attack, known or unknown."
        if _is_proved(certificates)
        else "A certified prediction is unchanged under any changes up to its radius, with the probability stated in "
        "the assumptions.",
    ]
    if adversary is None and certificates.n_touchable == certificates.n_units and unit == "labels":
        said.append("Any label may be changed to any class.")
        return said
    # rows in blocks carry their own trust column, so read limits from the assumptions, not from the adversary
    limits = [one for one in certificates.assumptions if one.code in LIMITS]
    said += map(str, limits)
    if all(one.code != "changes-allowed" for one in limits):
        said.append("Every label that can be changed may be changed to any class.")
    return said


def voids(certificates: Certificates) -> list[str]:
    """Return what would void the certificates."""
    return list(VOIDS["labels" if certificates.unit in COUNTED_UNITS else "features"])


def radius_words(radius: Any, unlimited: bool, unit: str) -> str:
    """Return a radius as text."""
    if unlimited:
        return "unlimited"
    return f"{radius:,}" if unit in COUNTED_UNITS else significant(radius)


def median_words(certificates: Certificates) -> str:
    """Return the median radius as text, rounded down: at least half of the predictions reach it."""
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
