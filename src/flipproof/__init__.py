"""flipproof: a certificate for every prediction against changed training labels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from flipproof.certificates import Adversary, Certificates
    from flipproof.collective import collective_certify
    from flipproof.learners.base import LabelLinearClassifier
    from flipproof.learners.cluster import CertifiedClusterClassifier
    from flipproof.learners.forest import CertifiedForestClassifier
    from flipproof.learners.kernel import CertifiedKernelClassifier
    from flipproof.learners.neighbors import CertifiedNeighborsClassifier
    from flipproof.learners.partition import CertifiedPartitionClassifier
    from flipproof.learners.pipeline import certify
    from flipproof.learners.propagation import CertifiedPropagationClassifier
    from flipproof.learners.ridge import CertifiedRidgeClassifier, LabelDependenceWarning
    from flipproof.metrics import certified_accuracy, certified_recall
    from flipproof.noise import FeatureNoise, JointNoise, LabelFlip
    from flipproof.report.displays import AttackDisplay, RadiusHistogramDisplay
    from flipproof.report.plots import CertifiedAccuracyDisplay
    from flipproof.selection import select_on_trusted
    from flipproof.smoothing import SmoothedClassifier

_HOMES = {
    "Adversary": "certificates",
    "AttackDisplay": "report.displays",
    "Certificates": "certificates",
    "CertifiedAccuracyDisplay": "report.plots",
    "CertifiedClusterClassifier": "learners.cluster",
    "CertifiedForestClassifier": "learners.forest",
    "CertifiedKernelClassifier": "learners.kernel",
    "CertifiedNeighborsClassifier": "learners.neighbors",
    "CertifiedPartitionClassifier": "learners.partition",
    "CertifiedPropagationClassifier": "learners.propagation",
    "CertifiedRidgeClassifier": "learners.ridge",
    "FeatureNoise": "noise",
    "JointNoise": "noise",
    "LabelDependenceWarning": "learners.ridge",
    "LabelFlip": "noise",
    "LabelLinearClassifier": "learners.base",
    "RadiusHistogramDisplay": "report.displays",
    "SmoothedClassifier": "smoothing",
    "certified_accuracy": "metrics",
    "certified_recall": "metrics",
    "certify": "learners.pipeline",
    "collective_certify": "collective",
    "select_on_trusted": "selection",
}

__all__ = [
    "Adversary",
    "AttackDisplay",
    "Certificates",
    "CertifiedAccuracyDisplay",
    "CertifiedClusterClassifier",
    "CertifiedForestClassifier",
    "CertifiedKernelClassifier",
    "CertifiedNeighborsClassifier",
    "CertifiedPartitionClassifier",
    "CertifiedPropagationClassifier",
    "CertifiedRidgeClassifier",
    "FeatureNoise",
    "JointNoise",
    "LabelDependenceWarning",
    "LabelFlip",
    "LabelLinearClassifier",
    "RadiusHistogramDisplay",
    "SmoothedClassifier",
    "__version__",
    "certified_accuracy",
    "certified_recall",
    "certify",
    "collective_certify",
    "select_on_trusted",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import flipproof` is quick."""
    if name in _HOMES:
        return getattr(import_module(f"flipproof.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'flipproof' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
