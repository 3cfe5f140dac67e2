"""Randomized smoothing of any learner, and of any function."""

from flipproof.smoothing.bounds import largest_certifiable
from flipproof.smoothing.classifier import SmoothedClassifier
from flipproof.smoothing.operator import SmoothedDecision, SmoothedValue, smoothed_decision, smoothed_value
from flipproof.smoothing.smoothed_certificates import SmoothedCertificates

__all__ = [
    "SmoothedCertificates",
    "SmoothedClassifier",
    "SmoothedDecision",
    "SmoothedValue",
    "largest_certifiable",
    "smoothed_decision",
    "smoothed_value",
]
