"""Which measure a user means, what it noises, and what a radius under it counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from flipproof.noise import FeatureNoise, JointNoise, LabelFlip, Measure

GUARANTEES = ("tight", "kl", "gaussian")


def resolved_noise(noise: Any, n_classes: int, owner: str) -> Measure:
    """Return the measure over so many classes; a number q stands for label noise."""
    is_number = isinstance(noise, (int, float, np.floating)) and not isinstance(noise, bool)
    measure = LabelFlip(float(noise)) if is_number else noise
    if not isinstance(measure, Measure) or isinstance(measure, type):
        raise ValueError(
            f"The 'noise' parameter of {owner} must be a number, a LabelFlip, FeatureNoise or JointNoise, or an object "
            f"with the methods sample and divergence. Got {noise!r} instead."
        )
    part = getattr(measure, "part", "both")
    if part not in ("labels", "features", "both"):
        raise ValueError(f"{measure!r} must have part 'labels', 'features' or 'both'. Got {part!r} instead.")
    labels = measure.labels if isinstance(measure, JointNoise) else measure
    if isinstance(labels, LabelFlip) and labels.n_classes not in (None, n_classes):
        raise ValueError(f"noise is for {labels.n_classes} classes, but there are {n_classes} in the training labels.")
    return measure.with_classes(n_classes) if hasattr(measure, "with_classes") else measure


def resolved_guarantee(guarantee: Any, measure: Measure, owner: str) -> str:
    """Return "kl", "tight" or "gaussian"; the tight bound of Gaussian noise *is* the Gaussian one."""
    if not isinstance(guarantee, str) or guarantee not in GUARANTEES:
        raise ValueError(
            f"The 'guarantee' parameter of {owner} must be one of {', '.join(map(repr, GUARANTEES))}. "
            f"Got {guarantee!r} instead."
        )
    if guarantee == "kl":
        return guarantee
    if isinstance(measure, FeatureNoise):
        return "gaussian"
    if guarantee == "gaussian":
        raise ValueError(
            f"guarantee='gaussian' is for FeatureNoise alone. Got {measure!r} instead: use 'tight' or 'kl'."
        )
    if not isinstance(measure, (LabelFlip, JointNoise)):
        raise ValueError(
            f"guarantee='tight' is for LabelFlip, FeatureNoise and JointNoise. Got {measure!r} instead: "
            "guarantee='kl' holds for any measure."
        )
    return guarantee


def radius_unit(measure: Measure) -> str:
    """Return what a radius under this measure counts."""
    if isinstance(measure, (LabelFlip, JointNoise)):
        return "labels"
    return "l2" if isinstance(measure, FeatureNoise) else "divergence"


def noise_level(measure: Measure) -> float:
    """Return q, or sigma, or NaN for a measure of somebody's own."""
    if isinstance(measure, JointNoise):
        return measure.labels.q
    if isinstance(measure, FeatureNoise):
        return measure.sigma
    return measure.q if isinstance(measure, LabelFlip) else np.nan
